//! A stream of bytes in memory, for tests: one end is a leg's socket, the other is in the test's hand.
//!
//! It does what Linux does and no kinder: pieces of any size, "would block" without a reason, a reset that is reported once
//! behind the data that came before it, and an end that is no end when a fault came first.
//!
//! | question | file |
//! |---|---|
//! | tasks that have such sockets, in an order from a seed | [`tasks`] |
//! | a session without cryptography | [`toy`] |

pub mod tasks;
pub mod toy;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

use handfast_net::engine::TaskHandle;
use handfast_net::fault::{Cause, Fault, Operation};
use handfast_net::stream::{Read, SocketTimeouts, Write};

use crate::socket::Socket;

/// Bytes and flags that the kernels of both ends hold.
#[derive(Debug, Default)]
pub struct Link {
    /// On its way to the leg.
    pub to_leg: VecDeque<u8>,
    /// The peer's FIN.
    pub peer_ended: bool,
    /// The peer's RST.
    pub peer_reset: bool,
    /// The peer has closed both directions: what is written to it is answered by a reset.
    pub peer_gone: bool,
    /// On its way to the peer.
    pub to_peer: VecDeque<u8>,
    /// Maximum number of bytes in `to_peer`.
    pub room: usize,
    /// Writes that have taken anything.
    pub writes: usize,
    /// The leg's FIN.
    pub leg_ended: bool,
    /// True if it must report the peer's state without a reader.
    pub watched: bool,
    /// The leg's socket has the options of one that lasts.
    pub patient: bool,
    /// The leg's socket was closed: with a FIN, or else by a reset.
    pub leg_closed: Option<Closed>,
    /// The task whose read or write blocked, to be woken by what happens; see [`tasks`].
    pub waiting: Option<TaskHandle>,
    /// It blocked without a reason.
    pub is_due: bool,
}

/// Way in which a socket was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// By a FIN, behind everything that was written.
    InOrder,
    /// By a reset.
    Reset,
}

/// Source of random numbers for a socket's behaviour: the next number at each call.
pub type Dice = Box<dyn FnMut() -> u64>;

/// Numbers from a seed (splitmix64).
pub fn dice(seed: u64) -> Dice {
    let mut state = seed;
    Box::new(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    })
}

/// A leg's socket.
pub struct Memory {
    /// State that both ends share.
    pub link: Rc<RefCell<Link>>,
    dice: Dice,
    fault: Option<Fault>,
    finished: bool,
    /// True if reads and writes may be cut short and refused at random.
    capricious: Rc<Cell<bool>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("link", &self.link).finish_non_exhaustive()
    }
}

impl Memory {
    /// A socket at one end of `link`, moody for as long as `capricious` is set.
    pub fn new(link: Rc<RefCell<Link>>, dice: Dice, capricious: Rc<Cell<bool>>) -> Self {
        Self { link, dice, fault: None, finished: false, capricious }
    }

    /// A number up to `most`, at least one.
    fn some(&mut self, most: usize) -> usize {
        if !self.capricious.get() || (self.dice)() % 10 < 3 {
            return most;
        }
        1 + ((self.dice)() as usize) % most
    }

    fn blocks(&mut self) -> bool {
        self.capricious.get() && (self.dice)() % 20 < 3
    }

    /// The engine wakes the task that a call has blocked for.
    fn block(link: &mut Link, is_due: bool) {
        link.waiting = tasks::present();
        link.is_due |= is_due;
    }

    fn note(&mut self, operation: Operation, cause: Cause) -> Fault {
        self.fault.get_or_insert_with(|| Fault::own(operation, cause)).clone()
    }
}

impl Socket for Memory {
    fn try_read(&mut self, buffer: &mut [u8]) -> Result<Read, Fault> {
        assert!(!buffer.is_empty(), "a read into no room");
        let link = Rc::clone(&self.link);
        let mut link = link.borrow_mut();
        if self.blocks() {
            Self::block(&mut link, true);
            return Ok(Read::Blocked);
        }
        if !link.to_leg.is_empty() {
            let bytes = self.some(buffer.len().min(link.to_leg.len()));
            for (place, byte) in buffer.iter_mut().zip(link.to_leg.drain(..bytes)) {
                *place = byte;
            }
            return Ok(Read::Bytes(bytes));
        }
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if link.peer_reset {
            return Err(self.note(Operation::Read, Cause::Reset));
        }
        if link.peer_ended {
            return Ok(Read::End);
        }
        Self::block(&mut link, false);
        Ok(Read::Blocked)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        assert!(!bytes.is_empty(), "a write of nothing");
        let link = Rc::clone(&self.link);
        let mut link = link.borrow_mut();
        assert!(!link.leg_ended, "a write behind our own end");
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if link.peer_reset {
            return Err(self.note(Operation::Write, Cause::Reset));
        }
        if link.peer_gone {
            // The first write is taken and answered by a reset.
            link.peer_reset = true;
            return Ok(Write::Bytes(bytes.len()));
        }
        let room = link.room.saturating_sub(link.to_peer.len()).min(bytes.len());
        if room == 0 || self.blocks() {
            Self::block(&mut link, room > 0);
            return Ok(Write::Blocked);
        }
        let written = self.some(room);
        link.to_peer.extend(&bytes[..written]);
        link.writes += 1;
        Ok(Write::Bytes(written))
    }

    fn try_write_last(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        self.try_write(bytes)
    }

    fn end_writing(&mut self) {
        self.link.borrow_mut().leg_ended = true;
    }

    fn check(&mut self) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if self.link.borrow().peer_reset {
            return Err(self.note(Operation::Read, Cause::Reset));
        }
        Ok(())
    }

    fn is_faulty(&self) -> bool {
        self.fault.is_some()
    }

    fn unacknowledged(&self) -> usize {
        self.link.borrow().to_peer.len()
    }

    fn no_delay(&mut self) {}

    fn acknowledge_now(&mut self) {}

    fn expect_later(&mut self) -> Result<(), Fault> {
        self.check()
    }

    fn watch(&mut self) -> Result<(), Fault> {
        self.link.borrow_mut().watched = true;
        Ok(())
    }

    fn peer_ended(&self) -> bool {
        let link = self.link.borrow();
        link.peer_ended || link.peer_reset
    }

    fn is_broken(&self) -> bool {
        let link = self.link.borrow();
        link.peer_gone || link.peer_reset
    }

    fn set_timeouts(&self, _timeouts: SocketTimeouts) {
        self.link.borrow_mut().patient = true;
    }

    fn local_address(&self) -> Option<SocketAddr> {
        None
    }

    fn finish_at_drop(&mut self) {
        self.finished = true;
    }

    fn release(&self) {
        self.link.borrow_mut().waiting = None;
    }

    fn adopt(&self) {
        let link = &mut *self.link.borrow_mut();
        Self::block(link, true);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut link = self.link.borrow_mut();
        let closed = if self.finished && link.to_leg.is_empty() { Closed::InOrder } else { Closed::Reset };
        if closed == Closed::Reset {
            // A reset overtakes what the peer has not read.
            link.to_peer.clear();
        }
        link.leg_closed = Some(closed);
    }
}
