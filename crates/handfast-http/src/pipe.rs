//! What hyper reads and writes: plaintext, whatever it travels in.
//!
//! In: calls that never wait. Out: bytes, or "not yet". A pipe need not remember who asked: when one of the task's sockets
//! becomes ready, everything is polled.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use handfast_net::fault::Fault;
use handfast_net::stream::{Read, Stream, Write};
use hyper::rt::ReadBufCursor;

/// A stream of plaintext in two directions, of the task that polls it.
///
/// `Poll::Pending` says that a socket of the task will become ready when it is worth trying again. A pipe that waits for
/// anything else calls the context's waker.
pub trait Pipe {
    /// Puts what is there into `room`, which has place for at least a byte; puts nothing at the peer's end in order.
    ///
    /// **Errors**: the pipe broke, or ended in a way that may be anybody's: no answer ends with it.
    fn poll_read(&mut self, context: &mut Context<'_>, room: &mut Room<'_>) -> Poll<io::Result<()>>;

    /// Takes as much of `bytes` as it likes; at least one, unless there are none.
    ///
    /// **Errors**: the pipe broke.
    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Ready when everything that was taken is with the kernel.
    ///
    /// **Errors**: the pipe broke.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends our direction behind everything that was taken; ready when that is done, and when it was before.
    ///
    /// **Errors**: the pipe broke.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Where [`Pipe::poll_read`] puts bytes: memory of hyper's.
#[derive(Debug)]
pub struct Room<'a>(ReadBufCursor<'a>);

impl<'a> Room<'a> {
    /// The room that hyper gives.
    pub fn new(cursor: ReadBufCursor<'a>) -> Self {
        Self(cursor)
    }

    /// Bytes that it has place for.
    pub fn len(&self) -> usize {
        self.0.remaining()
    }

    /// Whether it is full.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts in as much of `bytes` as there is place for; how much that was.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.len());
        self.0.put_slice(&bytes[..count]);
        count
    }
}

/// A pipe as hyper holds it. It is shared with whoever has to look at it meanwhile, or gets it back when hyper is done.
#[derive(Debug)]
pub(crate) struct Shared<P>(pub(crate) Rc<RefCell<P>>);

impl<P: Pipe> hyper::rt::Read for Shared<P> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(context, &mut Room::new(cursor))
    }
}

impl<P: Pipe> hyper::rt::Write for Shared<P> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(context)
    }
}

/// Most that is read from a socket at once.
const READ: usize = 16_384;

thread_local! {
    /// One buffer for all sockets in the clear of a thread: nothing stays in it between two calls.
    static RECEIVED: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

fn broken(fault: Fault) -> io::Error {
    io::Error::other(fault)
}

/// A socket in the clear.
impl Pipe for Stream {
    fn poll_read(&mut self, _: &mut Context<'_>, room: &mut Room<'_>) -> Poll<io::Result<()>> {
        RECEIVED.with_borrow_mut(|received| {
            // What hyper has no place for stays with the kernel.
            let most = received.len().min(room.len());
            match self.try_read(&mut received[..most]).map_err(broken)? {
                Read::Bytes(count) => {
                    room.put(&received[..count]);
                    Poll::Ready(Ok(()))
                }
                Read::End => Poll::Ready(Ok(())),
                Read::Blocked => Poll::Pending,
            }
        })
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        match self.try_write(bytes).map_err(broken)? {
            Write::Bytes(count) => Poll::Ready(Ok(count)),
            Write::Blocked => Poll::Pending,
        }
    }

    /// A socket keeps nothing back.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// From here on dropping it is an end in order; before, it resets the connection, as a half answer should.
    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end_writing();
        self.finish_at_drop();
        Poll::Ready(Ok(()))
    }
}
