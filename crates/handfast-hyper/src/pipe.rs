//! A [`Pipe`] as hyper and h2 read and write it.
//!
//! In: their calls. Out: plaintext of the pipe. Its context has to be the one of the [`crate::Driver`] or the task that the pipe's
//! socket wakes: a socket wakes no waker, so the future that reads the pipe is polled again with the task.
//!
//! Of tokio, it is the two traits that h2 asks for, not the runtime.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use handfast_leg::{Broken, Pipe, Socket};
use handfast_tls::session::Session;
use hyper::rt::ReadBufCursor;
use tokio::io::ReadBuf;

/// A pipe as a library owns it. Shared with the pipe's other owner, which sees why it broke and ends it.
#[derive(Debug)]
pub struct SharedPipe<S, T>(Rc<RefCell<Pipe<S, T>>>);

impl<S, T> SharedPipe<S, T> {
    /// A library's share of `pipe`.
    pub fn new(pipe: &Rc<RefCell<Pipe<S, T>>>) -> Self {
        Self(Rc::clone(pipe))
    }
}

/// Not `UnexpectedEof` for a truncated stream: h2 takes that for a clean end of an idle connection.
fn error(broken: Broken) -> io::Error {
    io::Error::other(broken)
}

impl<S: Socket, T: Session> hyper::rt::Read for SharedPipe<S, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let most = room.remaining();
        let read = self.0.borrow_mut().poll_read(context, most, |bytes| room.put_slice(bytes));
        read.map_ok(drop).map_err(error)
    }
}

impl<S: Socket, T: Session> hyper::rt::Write for SharedPipe<S, T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(context, bytes).map_err(error)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(context).map_err(error)
    }

    /// Only flushes: the owner of a client's connection decides how it ends, not hyper.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        hyper::rt::Write::poll_flush(self, context)
    }
}

impl<S: Socket, T: Session> tokio::io::AsyncRead for SharedPipe<S, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = room.remaining();
        let read = self.0.borrow_mut().poll_read(context, most, |bytes| room.put_slice(bytes));
        read.map_ok(drop).map_err(error)
    }
}

impl<S: Socket, T: Session> tokio::io::AsyncWrite for SharedPipe<S, T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(context, bytes).map_err(error)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write_parts(context, parts).map_err(error)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(context).map_err(error)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(context).map_err(error)
    }
}
