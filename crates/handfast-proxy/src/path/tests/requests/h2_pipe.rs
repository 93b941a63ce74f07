//! A [`Pipe`] as the h2 crate reads and writes it, and the loop that polls its futures.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use handfast_leg::memory::Memory;
use handfast_leg::memory::tasks::InMemory;
use handfast_leg::runtime::Runtime;
use handfast_leg::{Broken, Pipe};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_tls::session::Session;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A pipe that h2 shares with its other owner, which ends it.
pub(super) struct SharedPipe(pub(super) Rc<RefCell<Pipe<Memory, Box<dyn Session>>>>);

/// Not `UnexpectedEof` for a truncated stream: h2 takes that for a clean end of an idle connection.
fn error(broken: Broken) -> io::Error {
    io::Error::other(broken)
}

impl AsyncRead for SharedPipe {
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

impl AsyncWrite for SharedPipe {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(context, bytes).map_err(error)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(context).map_err(error)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_shutdown(context).map_err(error)
    }
}

/// Drives a future of h2 until it is done, as its own task: a socket wakes the task, not the waker of the future that reads it.
/// `None`: it is not done before `deadline`.
pub(super) async fn drive<F: Future>(future: F, deadline: Moment) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    loop {
        let waker = InMemory::waker();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if InMemory::wait(deadline).await == Woken::Deadline {
            return None;
        }
    }
}
