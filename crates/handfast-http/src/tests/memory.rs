//! A pipe in memory: two ends, each of its own task or thread of control, with as much room as a test wants.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::{Pipe, Room};

#[derive(Default)]
struct Direction {
    bytes: VecDeque<u8>,
    ended: bool,
    /// Who waits to read, or to write.
    waiting: Vec<Waker>,
}

struct Wires {
    directions: [Direction; 2],
    room: usize,
    broken: bool,
}

/// One end. Dropping it without a shutdown breaks the pipe, as with a socket.
pub(super) struct End {
    wires: Rc<RefCell<Wires>>,
    /// The direction that it writes.
    writes: usize,
}

/// Two ends, with room for so many bytes in each direction.
pub(super) fn pair(room: usize) -> (Rc<RefCell<End>>, Rc<RefCell<End>>) {
    let wires = Wires { directions: Default::default(), room, broken: false };
    let wires = Rc::new(RefCell::new(wires));
    let end = |writes| Rc::new(RefCell::new(End { wires: Rc::clone(&wires), writes }));
    (end(0), end(1))
}

impl Wires {
    fn check(&self) -> io::Result<()> {
        if self.broken { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    /// Who waits looks again.
    fn moved(&mut self, direction: usize) {
        self.directions[direction].waiting.drain(..).for_each(Waker::wake);
    }
}

impl End {
    /// Breaks the pipe, as a peer does that is gone.
    pub(super) fn vanish(&self) {
        let wires = &mut *self.wires.borrow_mut();
        wires.broken = true;
        (0..2).for_each(|direction| wires.moved(direction));
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.wires.borrow().directions[self.writes].ended {
            self.vanish();
        }
    }
}

impl Pipe for End {
    fn poll_read(&mut self, context: &mut Context<'_>, room: &mut Room<'_>) -> Poll<io::Result<()>> {
        let wires = &mut *self.wires.borrow_mut();
        wires.check()?;
        let reads = 1 - self.writes;
        let direction = &mut wires.directions[reads];
        if direction.bytes.is_empty() && !direction.ended {
            direction.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        let count = room.put(direction.bytes.make_contiguous());
        direction.bytes.drain(..count);
        wires.moved(reads);
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wires = &mut *self.wires.borrow_mut();
        wires.check()?;
        let room = wires.room;
        let direction = &mut wires.directions[self.writes];
        let count = bytes.len().min(room - direction.bytes.len());
        if count == 0 && !bytes.is_empty() {
            direction.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        direction.bytes.extend(&bytes[..count]);
        wires.moved(self.writes);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.wires.borrow().check())
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wires = &mut *self.wires.borrow_mut();
        wires.directions[self.writes].ended = true;
        wires.moved(self.writes);
        Poll::Ready(Ok(()))
    }
}
