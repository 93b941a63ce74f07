//! A backend with a plan: how it answers a dial, what it says, and how it ends.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use handfast_leg::memory::Link;
use handfast_stats::random::Random;

use super::peers::{End, Wire, byte};

/// What becomes of dialling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    Stands { after: Duration },
    Refused { after: Duration },
    RefusedAtOnce,
    Never,
}

/// What its bytes are made with; the client's are made with the complement.
pub(super) const TAG: u8 = 0x2a;

pub(super) struct Backend {
    pub(super) wire: Wire,
    pub(super) dial: Dial,
    pub(super) end: End,
    /// It answers only when the client has ended.
    patient: bool,
    /// Bytes that it means to say.
    pub(super) means: usize,
    spoken: bool,
    pub(super) ended: bool,
    pub(super) heard: usize,
}

impl Backend {
    pub(super) fn new(link: Rc<RefCell<Link>>, mut random: Random) -> Self {
        let delay = Duration::from_millis(random.next() % 3 * 400);
        let dials = [
            Dial::Stands { after: delay },
            Dial::Stands { after: delay },
            Dial::Stands { after: delay },
            Dial::Stands { after: delay },
            Dial::Stands { after: delay },
            Dial::Refused { after: delay },
            Dial::RefusedAtOnce,
            Dial::Never,
        ];
        let ends = [End::InOrder, End::InOrder, End::InOrder, End::InOrder, End::Reset, End::Silent];
        Self {
            dial: *random.pick(&dials).expect("there are some"),
            end: *random.pick(&ends).expect("there are some"),
            patient: random.next().is_multiple_of(2),
            means: [0, 5, 3_000, 90_000][(random.next() % 4) as usize],
            spoken: false,
            ended: false,
            heard: 0,
            wire: Wire::new(link, random),
        }
    }

    /// Whether it accepts and then says nothing for as long as it can.
    pub(super) fn is_mute(&self) -> bool {
        matches!(self.dial, Dial::Stands { .. }) && self.end == End::Silent && self.means == 0
    }

    /// Does the next thing of its plan.
    pub(super) fn act(&mut self, hurry: bool) {
        if self.ended || self.wire.go() {
            return;
        }
        if self.wire.saw_reset() {
            self.ended = true;
            return self.wire.reset();
        }
        let client_is_over = self.wire.saw_fin();
        if self.patient && !client_is_over && !hurry {
            return;
        }
        if !std::mem::replace(&mut self.spoken, true) {
            self.wire.outgoing.extend((0..self.means).map(|index| byte(TAG, index)));
            return;
        }
        match self.end {
            End::Silent if !client_is_over => return,
            End::Reset => self.wire.reset(),
            End::InOrder | End::Fin | End::Silent => self.wire.fin(),
        }
        self.ended = true;
    }

    /// Something that is another when it has done anything.
    pub(super) fn progress(&self) -> (usize, usize, bool, bool) {
        (self.wire.came, self.wire.outgoing.len(), self.spoken, self.ended)
    }

    /// Reads some of what came, and looks whether it is what the client says.
    pub(super) fn listen(&mut self, all: bool) {
        for found in self.wire.come(all) {
            assert_eq!(found, byte(!TAG, self.heard), "byte {} to the backend", self.heard);
            self.heard += 1;
        }
    }
}
