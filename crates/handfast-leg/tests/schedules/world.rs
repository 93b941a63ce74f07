//! Two peers, a relay between them, a clock, and the dice that decide the next mover.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use handfast_leg::{Broken, Ending, Leg, Progress, READ, Side, Way, Why, relay};
use handfast_net::clock::Moment;
use handfast_stats::random::Random;
use handfast_tls::buffer::Scratch;
use handfast_tls::session::FailureKind;

use crate::peer::{Intent, Peer, Seen};
use handfast_leg::memory::toy::{self, Toy, kind};
use handfast_leg::memory::{Link, Memory};

/// Legs that use TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) client_tls: bool,
    pub(crate) backend_tls: bool,
}

/// Tags of the two connections; see `peer.rs`.
const CLIENT: u8 = 0x55;
const BACKEND: u8 = !CLIENT;
/// Maximum number of events; no schedule reaches it.
const EVENTS: usize = 100_000;
/// The most that one direction may keep: a read, its overhead as records, and what the session answers.
const KEPT: usize = 68 * 1024;

/// State of the relay.
enum Stage {
    Relaying { client: Leg<Memory, Toy>, backend: Leg<Memory, Toy> },
    Ending(Option<(Leg<Memory, Toy>, Ending)>, Option<(Leg<Memory, Toy>, Ending)>),
}

pub(crate) struct World {
    shape: Shape,
    seed: u64,
    loud: bool,
    random: Random,
    now: Moment,
    client: Peer,
    backend: Peer,
    capricious: Rc<Cell<bool>>,
    scratch: Scratch,
    stage: Stage,
    outcome: Option<Result<(), Broken>>,
    /// Tickets that waited for company in front of the client's data.
    tickets: usize,
}

impl World {
    pub(crate) fn new(shape: Shape, seed: u64, loud: bool) -> Self {
        let mut random = Random::stream(seed, 0);
        let capricious = Rc::new(Cell::new(true));
        let mut side = |side, tag, tls, stream| {
            let room = 1 + (random.next() as usize) % 100_000;
            let link = Rc::new(RefCell::new(Link { room, ..Link::default() }));
            let mut dice = Random::stream(seed, stream);
            let dice = Box::new(move || dice.next());
            let memory = Memory::new(Rc::clone(&link), dice, Rc::clone(&capricious));
            let mut leg = Leg::plain(side, memory);
            if tls {
                leg.secure(Toy::new(tag));
            }
            let peer = Peer::new(side.name(), tag, tls, link, Random::stream(seed, stream + 1));
            if peer.lenient {
                leg.be_lenient();
            }
            (leg, peer)
        };
        let (mut client_leg, client) = side(Side::Client, CLIENT, shape.client_tls, 1);
        let (backend_leg, backend) = side(Side::Backend, BACKEND, shape.backend_tls, 3);
        client_leg.outlive_refusal();
        let tickets = if shape.client_tls { (seed % 3) as usize } else { 0 };
        for _ in 0..tickets {
            client_leg.keep(&toy::record(kind::ANSWER, CLIENT, b"ticket"));
        }
        client_leg.hold(Moment::from_nanos(5_000_000));
        let stage = Stage::Relaying { client: client_leg, backend: backend_leg };
        let (scratch, now) = (Scratch::new(READ), Moment::from_nanos(1));
        Self {
            shape,
            seed,
            loud,
            random,
            now,
            client,
            backend,
            capricious,
            scratch,
            stage,
            outcome: None,
            tickets,
        }
    }

    pub(crate) fn run(mut self) {
        let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.live()));
        if let Err(panic) = verdict {
            print_line(&format!("the schedule that failed: HANDFAST_SEED={} {:?}", self.seed, self.shape));
            std::panic::resume_unwind(panic);
        }
    }

    fn live(&mut self) {
        for event in 0..EVENTS {
            if event == EVENTS / 2 {
                // A peer that waits for the other's end forever ends first from here on.
                self.client.polite = false;
                self.backend.polite = false;
            }
            match self.random.next() % 10 {
                0 | 1 => self.client.act(),
                2 | 3 => self.backend.act(),
                4 | 5 => self.client.listen(false),
                6 | 7 => self.backend.listen(false),
                8 => self.now = self.now + Duration::from_micros(self.random.next() % 2_000),
                _ => self.serve(),
            }
            let is_over = matches!(self.stage, Stage::Ending(None, None));
            let waits = self.client.polite && self.backend.polite;
            if is_over || (waits && self.client.left + self.backend.left == 0 && self.is_quiet()) {
                if is_over {
                    break;
                }
                self.client.polite = false;
            }
        }
        self.settle();
        self.judge();
    }

    fn is_quiet(&self) -> bool {
        let (client, backend) = (self.client.link.borrow(), self.backend.link.borrow());
        client.to_leg.is_empty()
            && client.to_peer.is_empty()
            && backend.to_leg.is_empty()
            && backend.to_peer.is_empty()
    }

    /// Everything in flight arrives, and each peer follows its plan.
    fn settle(&mut self) {
        self.capricious.set(false);
        self.client.polite = false;
        self.backend.polite = false;
        for _ in 0..EVENTS {
            if matches!(self.stage, Stage::Ending(None, None)) {
                break;
            }
            self.client.act();
            self.backend.act();
            self.client.listen(true);
            self.backend.listen(true);
            self.now = self.now + Duration::from_millis(10);
            self.serve();
        }
        self.client.listen(true);
        self.backend.listen(true);
    }

    /// Runs the thread's work after a wake.
    fn serve(&mut self) {
        for round in 0.. {
            assert!(round < EVENTS, "it goes round and round");
            let before = self.progress();
            match &mut self.stage {
                Stage::Relaying { client, backend } => {
                    let (scratch, now) = (&mut self.scratch, self.now);
                    let outcome = relay::check(client, backend)
                        .and_then(|()| relay::turn(client, backend, scratch, now));
                    let outcome =
                        outcome.map_err(|broken| relay::better_reason(client, backend, broken, scratch, now));
                    assert!(client.unsent() <= KEPT, "{} bytes kept", client.unsent());
                    assert!(backend.unsent() <= KEPT, "{} bytes kept", backend.unsent());
                    match outcome {
                        Ok(Progress::Blocked) => return,
                        Ok(Progress::Moved) => assert_ne!(before, self.progress(), "it says that it moved"),
                        Ok(Progress::Finished) => self.end(Ok(())),
                        Err(broken) => self.end(Err(broken)),
                    }
                }
                Stage::Ending(client, backend) => {
                    for ending in [client, backend] {
                        let done = ending.as_mut().is_some_and(|(leg, ending)| {
                            ending.step(leg, &mut self.scratch, self.now, false).is_none()
                        });
                        if done {
                            *ending = None;
                        }
                    }
                    return;
                }
            }
        }
    }

    /// Something that changes whenever anything moves.
    fn progress(&self) -> (usize, usize, usize, usize, u64, bool, bool, usize, usize) {
        let (client, backend) = (self.client.link.borrow(), self.backend.link.borrow());
        let (ended, unsent) = match &self.stage {
            Stage::Relaying { client, backend } => {
                ((client.has_ended(), backend.has_ended()), (client.unsent(), backend.unsent()))
            }
            Stage::Ending(..) => ((true, true), (0, 0)),
        };
        let ends = u64::from(client.leg_ended) + u64::from(backend.leg_ended);
        (
            client.to_leg.len(),
            client.to_peer.len(),
            backend.to_leg.len(),
            backend.to_peer.len(),
            ends,
            ended.0,
            ended.1,
            unsent.0,
            unsent.1,
        )
    }

    /// Ends both legs as the proxy does: the side that broke TLS gets its alert, the other one an abort.
    fn end(&mut self, outcome: Result<(), Broken>) {
        if self.loud {
            print_line(&format!("{:?}: {outcome:?}", self.now));
        }
        let way = |side| match &outcome {
            Ok(()) => Way::InOrder,
            Err(broken) if broken.side == side && matches!(broken.why, Why::Session(_)) => Way::Alert,
            Err(broken) if broken.side != side && side == Side::Backend => Way::AbortOnceServed(self.now),
            Err(_) => Way::Abort,
        };
        let (client, backend) = (way(Side::Client), way(Side::Backend));
        let nothing = Stage::Ending(None, None);
        if let Stage::Relaying { client: mut leg, backend: mut other } =
            std::mem::replace(&mut self.stage, nothing)
        {
            let client = Ending::new(&mut leg, client, self.now);
            let backend = Ending::new(&mut other, backend, self.now);
            self.stage = Stage::Ending(Some((leg, client)), Some((other, backend)));
        }
        self.outcome = Some(outcome);
    }

    /// Checks the rules that hold for every outcome.
    fn judge(&mut self) {
        assert!(matches!(self.stage, Stage::Ending(None, None)), "it never ended");
        let outcome = self.outcome.take().expect("it has ended");
        let pairs = [(&self.client, &self.backend), (&self.backend, &self.client)];
        for (from, to) in pairs {
            // Exactly: the received bytes are the beginning of the sent ones (each byte was checked when it came).
            assert!(to.received <= from.sent, "{} received more than was sent", to.name);
            if to.seen == Seen::CleanEnd && to.intent != Intent::Leave {
                // An abort stays an abort: a clean end is one, and everything came before it.
                assert!(from.is_clean() && from.ended, "{} saw a clean end of {:?}", to.name, from.intent);
                assert_eq!(to.received, from.sent, "{} saw an end before the last byte", to.name);
            }
        }
        match outcome {
            Ok(()) => {
                assert!(self.client.is_clean() && self.backend.is_clean(), "a break passed as an end");
                for (peer, owed) in [(&self.client, self.tickets), (&self.backend, 0)] {
                    // One that has left does not see what its leg sends.
                    if peer.intent != Intent::Leave {
                        assert_eq!(peer.seen, Seen::CleanEnd, "{}", peer.name);
                        assert_eq!(peer.answered, peer.owed_answers + owed, "session of {}", peer.name);
                    }
                }
            }
            Err(broken) => self.judge_break(&broken),
        }
    }

    /// Checks that the blamed side caused the break, and that the reason is the first one.
    fn judge_break(&self, broken: &Broken) {
        let (blamed, other) = if broken.side == Side::Client {
            (&self.client, &self.backend)
        } else {
            (&self.backend, &self.client)
        };
        assert!(blamed.may_break(), "{} is blamed for {broken:?} and meant no harm", blamed.name);
        let fits = match (&broken.why, blamed.intent) {
            (Why::Socket(_), Intent::Reset | Intent::Leave) => true,
            (Why::Truncated, Intent::Cut | Intent::Leave) => true,
            (Why::Session(failure), Intent::Alert) => failure.kind == FailureKind::Alert,
            (Why::Session(failure), Intent::Break) => failure.kind == FailureKind::Peer,
            _ => false,
        };
        assert!(fits, "{broken:?} for {:?}", blamed.intent);
        // No end overtakes data: what a client sent before its FIN arrives, whatever its kernel answered to what came for it.
        let is_served = broken.side == Side::Client && blamed.ended && !other.may_break();
        if is_served && matches!(blamed.intent, Intent::Cut | Intent::Leave) {
            assert_eq!(other.received, blamed.sent, "{} lost what was sent before the end", other.name);
        }
        // The other one never receives an alert for a fault that it did not cause.
        assert_ne!(other.seen, Seen::Alert, "{} got an alert for the other's fault", other.name);
        if blamed.intent == Intent::Break {
            let is_reported = matches!(blamed.seen, Seen::Alert | Seen::CleanEnd);
            assert!(is_reported, "{} was not told but saw {:?}", blamed.name, blamed.seen);
        }
    }
}

/// For the replay of a schedule.
#[expect(clippy::print_stderr, reason = "a schedule that fails says its seed")]
fn print_line(line: &str) {
    eprintln!("{line}");
}
