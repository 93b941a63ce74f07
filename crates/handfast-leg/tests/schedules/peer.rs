//! A peer with a plan, and what it has seen of the other one.

use std::cell::RefCell;
use std::rc::Rc;

use handfast_stats::random::Random;

use handfast_leg::memory::toy::{self, kind};
use handfast_leg::memory::{Closed, Link};

/// Planned end of a peer's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// close_notify where there is TLS, then FIN at some time; FIN where there is none.
    End,
    /// FIN without close_notify (TLS only).
    Cut,
    /// Everything that it has to send, then its socket is closed without close_notify: what is written to it is answered by a reset.
    Leave,
    /// RST.
    Reset,
    /// A fatal alert, then FIN (TLS only).
    Alert,
    /// A record that is not allowed (TLS only).
    Break,
}

/// End of the connection as a peer has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Nothing,
    /// close_notify, or FIN on a plain connection.
    CleanEnd,
    /// A fatal alert.
    Alert,
    /// FIN without close_notify on a TLS connection: its reader knows that it was cut off.
    Truncated,
    Reset,
}

pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) link: Rc<RefCell<Link>>,
    tls: bool,
    tag: u8,
    pub(crate) random: Random,
    /// Number of bytes still to send.
    pub(crate) left: usize,
    /// Number of bytes given to the network.
    pub(crate) sent: usize,
    pub(crate) intent: Intent,
    /// True if the intended end mark or close was done.
    pub(crate) ended: bool,
    fin_sent: bool,
    /// Answers that the session on the other side owes us.
    pub(crate) owed_answers: usize,
    pub(crate) answered: usize,
    incoming: Vec<u8>,
    pub(crate) received: usize,
    pub(crate) seen: Seen,
    /// It waits for the other side's end before it ends itself.
    pub(crate) polite: bool,
    /// Its leg takes a FIN without close_notify for an end.
    pub(crate) lenient: bool,
}

/// Byte number `index` of what a peer sends: a receiver of another one has lost or doubled some.
fn byte(tag: u8, index: usize) -> u8 {
    (index as u8).wrapping_mul(31) ^ (index >> 8) as u8 ^ tag
}

impl Peer {
    pub(crate) fn new(
        name: &'static str,
        tag: u8,
        tls: bool,
        link: Rc<RefCell<Link>>,
        mut random: Random,
    ) -> Self {
        let left = match random.next() % 4 {
            0 => 0,
            1 => (random.next() % 10) as usize,
            2 => (random.next() % 20_000) as usize,
            _ => (random.next() % 200_000) as usize,
        };
        let intents: &[Intent] = if tls {
            &[
                Intent::End,
                Intent::End,
                Intent::End,
                Intent::Cut,
                Intent::Leave,
                Intent::Reset,
                Intent::Alert,
                Intent::Break,
            ]
        } else {
            &[Intent::End, Intent::End, Intent::End, Intent::Leave, Intent::Reset]
        };
        let intent = *random.pick(intents).expect("there are some");
        let polite = random.next().is_multiple_of(3);
        let lenient = random.next().is_multiple_of(4);
        Self {
            name,
            link,
            tls,
            tag,
            random,
            left,
            sent: 0,
            intent,
            ended: false,
            fin_sent: false,
            owed_answers: 0,
            answered: 0,
            incoming: Vec::new(),
            received: 0,
            seen: Seen::Nothing,
            polite,
            lenient,
        }
    }

    /// Returns true if its end counts as clean for its leg: whole records come before each FIN.
    pub(crate) fn is_clean(&self) -> bool {
        match self.intent {
            Intent::End => true,
            Intent::Cut => self.lenient,
            Intent::Leave => self.lenient || !self.tls,
            Intent::Reset | Intent::Alert | Intent::Break => false,
        }
    }

    /// Returns true if its leg may break: a peer that leaves also breaks the leg of a relay that has something for it.
    pub(crate) fn may_break(&self) -> bool {
        !self.is_clean() || self.intent == Intent::Leave
    }

    /// Returns true if it has done everything that it planned.
    pub(crate) fn is_done(&self) -> bool {
        self.ended && self.fin_sent
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self.seen, Seen::Reset | Seen::Alert | Seen::Truncated)
    }

    /// Does one thing of its plan.
    pub(crate) fn act(&mut self) {
        if self.link.borrow().peer_reset || self.is_done() {
            return;
        }
        if self.is_cut_off() {
            self.leave();
        } else if self.left > 0 {
            self.send_data();
        } else if !self.ended {
            // A polite one ends after the other side only.
            if !self.polite || self.seen != Seen::Nothing {
                self.end();
            }
        } else if !self.fin_sent && (self.seen != Seen::Nothing || self.random.next().is_multiple_of(4)) {
            self.fin_sent = true;
            self.link.borrow_mut().peer_ended = true;
        }
    }

    /// Closes its socket: whatever is written to it now is answered by a reset.
    fn leave(&mut self) {
        self.ended = true;
        self.fin_sent = true;
        let mut link = self.link.borrow_mut();
        link.peer_ended = true;
        link.peer_gone = true;
    }

    fn send_data(&mut self) {
        let most = self.left.min(20_000);
        let length = 1 + (self.random.next() as usize) % most;
        let bytes: Vec<u8> = (self.sent..self.sent + length).map(|index| byte(self.tag, index)).collect();
        let mut link = self.link.borrow_mut();
        if self.tls {
            for piece in bytes.chunks(16_384) {
                link.to_leg.extend(toy::record(kind::DATA, self.tag, piece));
            }
            if self.random.next().is_multiple_of(8) {
                self.owed_answers += 1;
                link.to_leg.extend(toy::record(kind::ASK, self.tag, b""));
            }
        } else {
            link.to_leg.extend(bytes);
        }
        self.sent += length;
        self.left -= length;
    }

    fn end(&mut self) {
        self.ended = true;
        let mut link = self.link.borrow_mut();
        match self.intent {
            Intent::End if self.tls => link.to_leg.extend(toy::record(kind::CLOSE, self.tag, b"")),
            Intent::End | Intent::Cut => {
                link.peer_ended = true;
                self.fin_sent = true;
            }
            Intent::Leave => {
                link.peer_ended = true;
                link.peer_gone = true;
                self.fin_sent = true;
            }
            Intent::Reset => {
                link.peer_reset = true;
                self.fin_sent = true;
            }
            Intent::Alert => {
                link.to_leg.extend(toy::record(kind::ALERT, self.tag, b"?"));
                link.peer_ended = true;
                self.fin_sent = true;
            }
            Intent::Break => link.to_leg.extend(toy::record(kind::WRONG, self.tag, b"?")),
        }
    }

    /// Reads some of what came.
    pub(crate) fn listen(&mut self, all: bool) {
        let mut link = self.link.borrow_mut();
        let there = link.to_peer.len();
        if there > 0 {
            let take = if all { there } else { 1 + (self.random.next() as usize) % there };
            self.incoming.extend(link.to_peer.drain(..take));
        }
        let is_over = link.to_peer.is_empty();
        let end = match (link.leg_closed, link.leg_ended) {
            (Some(Closed::Reset), _) => Some(Seen::Reset),
            (Some(Closed::InOrder), _) | (None, true) if is_over => {
                Some(if self.tls { Seen::Truncated } else { Seen::CleanEnd })
            }
            _ => None,
        };
        drop(link);
        self.understand();
        if let Some(end) = end {
            // The end mark came first, and nothing that follows takes it back.
            let marked = matches!(self.seen, Seen::CleanEnd | Seen::Alert);
            if !marked || (end == Seen::Reset && self.seen != Seen::Alert) {
                self.seen = end;
            }
        }
    }

    fn understand(&mut self) {
        if !self.tls {
            let bytes = std::mem::take(&mut self.incoming);
            self.check(&bytes);
            return;
        }
        let incoming = std::mem::take(&mut self.incoming);
        let mut rest = &incoming[..];
        while let Some((kind, tag, body, length)) = toy::first(rest) {
            assert_eq!(tag, self.tag, "{}: a record of the other leg", self.name);
            assert!(
                // A session may still answer, and complain, when our end has been passed on.
                !matches!(self.seen, Seen::CleanEnd | Seen::Alert)
                    || matches!(kind, kind::ANSWER | kind::ALERT),
                "{}: kind {kind} behind the end",
                self.name
            );
            match kind {
                kind::DATA => self.check(body),
                kind::CLOSE => self.seen = Seen::CleanEnd,
                kind::ALERT if self.seen == Seen::CleanEnd => {}
                kind::ALERT => self.seen = Seen::Alert,
                kind::ANSWER => self.answered += 1,
                other => panic!("{}: a record of kind {other}", self.name),
            }
            rest = &rest[length..];
        }
        self.incoming = rest.to_vec();
    }

    fn check(&mut self, bytes: &[u8]) {
        // The other peer's tag is the complement of ours.
        for (offset, found) in bytes.iter().enumerate() {
            let expected = byte(!self.tag, self.received + offset);
            assert_eq!(*found, expected, "{}: byte {}", self.name, self.received + offset);
        }
        self.received += bytes.len();
    }
}
