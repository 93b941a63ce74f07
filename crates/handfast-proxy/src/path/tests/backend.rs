//! A backend with a plan: its answer to a dial, its bytes, and its end. It speaks real TLS in schedules with TLS.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use handfast_leg::memory::Link;
use handfast_stats::random::Random;
use handfast_tls::buffer::Buffer;
use handfast_tls::server::{Server, ServerSession};
use handfast_tls::session::Session;
use handfast_wire::{Peek, peek};

use super::peers::{End, Wire, byte};

/// Outcome of dialling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    Connects { after: Duration },
    Refused { after: Duration },
    RefusedAtOnce,
    Never,
}

/// Seed of its bytes; the client's are made with the complement.
pub(super) const TAG: u8 = 0x2a;

/// Its TLS, as far as that has come.
struct Tls {
    server: Rc<Server>,
    session: Option<ServerSession>,
    incoming: Vec<u8>,
}

pub(super) struct Backend {
    pub(super) wire: Wire,
    pub(super) dial: Dial,
    pub(super) end: End,
    tls: Option<Tls>,
    /// It ends as it means to when it has received this much of a hello, and not later.
    pub(super) breaks_early: bool,
    /// It answers only when the client has ended.
    patient: bool,
    /// Number of bytes to send.
    pub(super) means: usize,
    spoken: bool,
    pub(super) ended: bool,
    /// It has sent close_notify, if it speaks TLS.
    closed: bool,
    pub(super) received_bytes: usize,
    /// The proxy has sent close_notify.
    saw_close_notify: bool,
    /// The proxy has sent an alert, or broken TLS.
    pub(super) alert: Option<Box<str>>,
}

impl Backend {
    pub(super) fn new(link: Rc<RefCell<Link>>, mut random: Random, tls: Option<&Rc<Server>>) -> Self {
        let delay = Duration::from_millis(random.next() % 3 * 400);
        let dials = [
            Dial::Connects { after: delay },
            Dial::Connects { after: delay },
            Dial::Connects { after: delay },
            Dial::Connects { after: delay },
            Dial::Connects { after: delay },
            Dial::Refused { after: delay },
            Dial::RefusedAtOnce,
            Dial::Never,
        ];
        let plain = [End::InOrder, End::InOrder, End::InOrder, End::InOrder, End::Reset, End::Silent];
        let secured =
            [End::InOrder, End::InOrder, End::InOrder, End::InOrder, End::Fin, End::Reset, End::Silent];
        let ends: &[End] = if tls.is_some() { &secured } else { &plain };
        Self {
            dial: *random.pick(&dials).expect("there are some"),
            end: *random.pick(ends).expect("there are some"),
            patient: random.next().is_multiple_of(2),
            means: [0, 5, 3_000, 90_000][(random.next() % 4) as usize],
            breaks_early: tls.is_some() && random.next().is_multiple_of(6),
            tls: tls.map(|server| Tls { server: Rc::clone(server), session: None, incoming: Vec::new() }),
            spoken: false,
            ended: false,
            closed: false,
            received_bytes: 0,
            saw_close_notify: false,
            alert: None,
            wire: Wire::new(link, random),
        }
    }

    /// One that answers everything, sends nothing else and ends only when it receives an end.
    pub(super) fn cooperative(link: Rc<RefCell<Link>>, server: &Rc<Server>) -> Self {
        let backend = Self::new(link, Random::stream(1, 2), Some(server));
        Self { end: End::Silent, patient: true, means: 0, breaks_early: false, ..backend }
    }

    /// Returns true if it accepts and then sends nothing for as long as it can.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.dial, Dial::Connects { .. }) && self.end == End::Silent && self.means == 0
    }

    /// Returns true if it completes everything and ends cleanly.
    pub(super) fn is_cooperative(&self) -> bool {
        matches!(self.dial, Dial::Connects { .. }) && self.end == End::InOrder && !self.breaks_early
    }

    /// Returns true if it has received the client's end.
    pub(super) fn saw_clean_end(&self) -> bool {
        if self.tls.is_some() { self.saw_close_notify } else { self.wire.saw_fin() }
    }

    /// Returns true if it has sent the end of its direction, as its protocol has it.
    pub(super) fn has_ended_cleanly(&self) -> bool {
        if self.tls.is_some() { self.closed } else { self.ended && self.end != End::Reset }
    }

    /// Returns whether its handshake is done, and the number of bytes of an incomplete TLS record.
    pub(super) fn handshake(&self) -> Option<(bool, usize)> {
        self.tls.as_ref().map(|tls| (self.is_ready(), tls.incoming.len()))
    }

    fn is_ready(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.session.as_ref().is_some_and(Session::is_established))
    }

    /// Does the next thing of its plan.
    pub(super) fn act(&mut self, hurry: bool) {
        if self.ended || self.wire.go() {
            return;
        }
        if self.wire.saw_reset() || self.alert.is_some() {
            self.ended = true;
            return self.wire.reset();
        }
        let client_is_over = self.saw_clean_end() || self.wire.saw_fin();
        if self.breaks_early && (self.wire.came > 0 || hurry) {
            return self.end_badly(client_is_over);
        }
        if !self.is_ready() {
            // The proxy has gone away in the middle.
            if client_is_over {
                self.ended = true;
                self.wire.fin();
            }
            return;
        }
        if self.patient && !client_is_over && !hurry {
            return;
        }
        if !std::mem::replace(&mut self.spoken, true) {
            let bytes: Vec<u8> = (0..self.means).map(|index| byte(TAG, index)).collect();
            return self.send_data(&bytes);
        }
        if self.end == End::InOrder && self.tls.is_some() && !std::mem::replace(&mut self.closed, true) {
            let mut records = Buffer::default();
            self.session().close(&mut records);
            return self.wire.outgoing.extend(records.filled());
        }
        match self.end {
            End::Silent if !client_is_over => return,
            End::Reset => self.wire.reset(),
            End::InOrder | End::Fin | End::Silent => self.wire.fin(),
        }
        self.ended = true;
    }

    /// In the middle of the handshake.
    fn end_badly(&mut self, client_is_over: bool) {
        match self.end {
            End::Silent if !client_is_over => return,
            End::Reset => self.wire.reset(),
            End::InOrder | End::Fin | End::Silent => self.wire.fin(),
        }
        self.ended = true;
    }

    fn session(&mut self) -> &mut ServerSession {
        let tls = self.tls.as_mut().expect("it speaks TLS");
        tls.session.as_mut().expect("its handshake is over")
    }

    fn send_data(&mut self, bytes: &[u8]) {
        if self.tls.is_none() {
            return self.wire.outgoing.extend(bytes);
        }
        let mut records = Buffer::default();
        if !bytes.is_empty() {
            self.session().encrypt(bytes, &mut records).expect("it is established");
        }
        self.wire.outgoing.extend(records.filled());
    }

    /// Something that is another when it has done anything.
    pub(super) fn progress(&self) -> (usize, usize, bool, bool) {
        (self.wire.came, self.wire.outgoing.len(), self.spoken, self.ended)
    }

    /// Reads some received bytes, and checks that the client sent them.
    pub(super) fn listen(&mut self, all: bool) {
        let came = self.wire.come(all);
        if self.tls.is_none() {
            return self.receive_data(&came);
        }
        if came.is_empty() || self.alert.is_some() || self.breaks_early {
            return;
        }
        let (mut plaintext, mut replies) = (Buffer::default(), Buffer::default());
        let tls = self.tls.as_mut().expect("looked at above");
        tls.incoming.extend(came);
        if tls.session.is_none() {
            let Peek::Complete(hello) = peek(&tls.incoming, 65_536) else { return };
            tls.session = Some(tls.server.accept(&hello).expect("a server can begin"));
        }
        let session = tls.session.as_mut().expect("made above");
        let mut bytes = std::mem::take(&mut tls.incoming);
        let received = session.receive(&mut bytes, &mut plaintext, &mut replies);
        tls.incoming = session.kept().to_vec();
        self.receive_data(plaintext.filled());
        self.saw_close_notify |= received.closed;
        if !self.closed && !self.ended {
            self.wire.outgoing.extend(replies.filled());
        }
        self.alert = received.failure.map(|failure| failure.detail);
    }

    fn receive_data(&mut self, bytes: &[u8]) {
        for found in bytes {
            assert!(!self.saw_close_notify, "data behind close_notify");
            assert_eq!(
                *found,
                byte(!TAG, self.received_bytes),
                "byte {} to the backend",
                self.received_bytes
            );
            self.received_bytes += 1;
        }
    }
}
