//! Parts that both peers share: the transfer of bytes in pieces, and the end that was seen.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use handfast_leg::memory::{Closed, Link};
use handfast_stats::random::Random;

/// End of a peer's direction, once it has sent all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order: close_notify where there is TLS, then FIN.
    InOrder,
    /// FIN alone, which is no end where there is TLS.
    Fin,
    Reset,
    /// It sends nothing more, and closes only when it receives an end.
    Silent,
}

/// Byte number `index` of a stream: a peer that receives another one has lost or doubled some.
pub(super) fn byte(tag: u8, index: usize) -> u8 {
    (index as u8).wrapping_mul(31) ^ (index >> 8) as u8 ^ tag
}

/// A peer's end of a link.
pub(super) struct Wire {
    pub(super) link: Rc<RefCell<Link>>,
    /// Given to the network bit by bit.
    pub(super) outgoing: VecDeque<u8>,
    pub(super) random: Random,
    /// Bytes that have come, of whatever kind.
    pub(super) came: usize,
}

impl Wire {
    pub(super) fn new(link: Rc<RefCell<Link>>, random: Random) -> Self {
        Self { link, outgoing: VecDeque::new(), random, came: 0 }
    }

    /// Sends some of the outgoing bytes; returns true if any were sent.
    pub(super) fn go(&mut self) -> bool {
        let some = self.some(self.outgoing.len());
        self.link.borrow_mut().to_leg.extend(self.outgoing.drain(..some));
        some > 0
    }

    /// Returns the bytes that have come, or a part of them.
    pub(super) fn come(&mut self, all: bool) -> Vec<u8> {
        let there = self.link.borrow().to_peer.len();
        let some = if all { there } else { self.some(there) };
        self.came += some;
        self.link.borrow_mut().to_peer.drain(..some).collect()
    }

    /// Returns the readiness of the proxy's socket: it can be read, can be written, has an end or a reset, as the engine would report it.
    pub(super) fn readiness(&self) -> [bool; 4] {
        let link = self.link.borrow();
        [!link.to_leg.is_empty(), link.to_peer.len() < link.room, link.peer_ended, link.peer_reset]
    }

    /// Returns true if bytes have come that were not read.
    pub(super) fn has_unread(&self) -> bool {
        !self.link.borrow().to_peer.is_empty()
    }

    fn some(&mut self, most: usize) -> usize {
        if most == 0 { 0 } else { 1 + (self.random.next() as usize) % most }
    }

    pub(super) fn fin(&self) {
        self.link.borrow_mut().peer_ended = true;
    }

    pub(super) fn reset(&self) {
        self.link.borrow_mut().peer_reset = true;
    }

    /// The proxy's FIN has come, behind everything else.
    pub(super) fn saw_fin(&self) -> bool {
        let link = self.link.borrow();
        link.to_peer.is_empty() && (link.leg_ended || link.leg_closed == Some(Closed::InOrder))
    }

    /// The proxy has reset the connection.
    pub(super) fn saw_reset(&self) -> bool {
        self.link.borrow().leg_closed == Some(Closed::Reset)
    }

    /// Its socket is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.link.borrow().leg_closed.is_some()
    }
}
