//! A leg as a stream of plaintext, for code that reads and writes as its protocol needs: HTTP.
//!
//! In: calls that never wait. Out: bytes, "not yet", or why the leg broke; an end only where the peer has ended cleanly. Bytes
//! that were read from the socket and have no room with the reader are kept; nothing else is, and an idle pipe owns no buffer.
//!
//! "Not yet" ([`Poll::Pending`]) registers no waker: the leg's socket wakes its task ([`crate::runtime::Runtime::wait`]), which polls
//! the pipe again. The context is used where no socket would wake the task.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use handfast_net::stream::Stream;
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::{FailureKind, Session};

use crate::broken::{Broken, Why};
use crate::leg::{Got, Leg, READ};
use crate::socket::Socket;

/// Reads in one call that may bring no plaintext: a peer can send records without content faster than they are read.
const EMPTY_READS: usize = 16;
/// Minimum that a read counts towards the [`READ`] bytes after which its reader waits: each read has a cost, even if it returns
/// few bytes.
const MIN_READ_COST: usize = READ / 32;

/// One leg's plaintext in both directions. Dropping it aborts the connection, unless the leg is taken out and ended.
pub struct Pipe<S = Stream, T = Box<dyn Session>> {
    leg: Leg<S, T>,
    /// The thread's buffers, borrowed for the length of a call.
    scratch: Rc<RefCell<Scratch>>,
    /// Plaintext that its reader had no room for, at most one read.
    unread: Buffer,
    /// Bytes that were read since its reader last waited.
    passed: usize,
    broken: Option<Box<Broken>>,
}

impl<S, T> fmt::Debug for Pipe<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leg, unread, broken, .. } = self;
        f.debug_struct("Pipe")
            .field("leg", leg)
            .field("unread", &unread.len())
            .field("broken", broken)
            .finish_non_exhaustive()
    }
}

impl<S: Socket, T: Session> Pipe<S, T> {
    /// A pipe over an established leg. `unread`: plaintext that was read from it before, as during the handshake.
    pub fn new(leg: Leg<S, T>, scratch: Rc<RefCell<Scratch>>, unread: &[u8]) -> Self {
        let mut pipe = Self { leg, scratch, unread: Buffer::default(), passed: 0, broken: None };
        pipe.unread.extend(unread);
        pipe
    }

    /// Its leg.
    pub fn leg(&self) -> &Leg<S, T> {
        &self.leg
    }

    /// Its leg, to send held bytes or to set options. Bytes that are read or written there are missing here.
    pub fn leg_mut(&mut self) -> &mut Leg<S, T> {
        &mut self.leg
    }

    /// The leg, to be ended ([`crate::Ending`]). Plaintext that was not read is lost.
    pub fn into_leg(self) -> Leg<S, T> {
        self.leg
    }

    /// Plaintext that was received and not read.
    pub fn unread(&self) -> &[u8] {
        self.unread.filled()
    }

    /// Returns the reason why the leg broke, if it did.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_deref()
    }

    /// Passes up to `most` bytes, which is not zero, to `put`; the number of bytes. Zero: the peer has ended its direction cleanly.
    ///
    /// **Errors**: the leg broke; also when its stream ended without close_notify, which an attacker can forge (RFC 9846 §6.1). Earlier
    /// data is passed on first. **Cost**: a read, and a copy of the bytes beyond `most`; 16 reads where they bring no plaintext.
    /// **Fairness**: after [`READ`] bytes it returns "not yet" once and wakes its task, so that a reader that reads until nothing is there
    /// lets other tasks run.
    pub fn poll_read(
        &mut self,
        context: &Context<'_>,
        most: usize,
        put: impl FnOnce(&[u8]),
    ) -> Poll<Result<usize, Broken>> {
        if !self.unread.is_empty() {
            let count = self.unread.len().min(most);
            put(&self.unread.filled()[..count]);
            self.unread.take(count);
            if self.unread.is_empty() {
                self.unread = Buffer::default();
            }
            return Poll::Ready(Ok(count));
        }
        let scratch = Rc::clone(&self.scratch);
        self.receive(context, most, put, &mut scratch.borrow_mut())
    }

    /// Reads until there is plaintext: the beginning for `put`, the rest for the next call.
    fn receive(
        &mut self,
        context: &Context<'_>,
        most: usize,
        put: impl FnOnce(&[u8]),
        scratch: &mut Scratch,
    ) -> Poll<Result<usize, Broken>> {
        self.check()?;
        if self.passed >= READ {
            return self.gives_way(context);
        }
        for _ in 0..EMPTY_READS {
            if self.leg.has_ended() {
                return Poll::Ready(Ok(0));
            }
            let got = match self.leg.read(scratch, READ) {
                Ok(got) if !got.moved => {
                    self.passed = 0;
                    return Poll::Pending;
                }
                Ok(got) => got,
                Err(broken) => return Poll::Ready(Err(self.breaks(broken))),
            };
            let answered = self.leg.answer(scratch, got.failed.is_some());
            if let Some(broken) = got.failed.or(answered.err()) {
                self.breaks(broken);
            }
            if got.length > 0 {
                self.passed += got.length.max(MIN_READ_COST);
                let plaintext = self.leg.plaintext(&scratch.received, &scratch.plaintext, got.length);
                let (now, later) = plaintext.split_at(most.min(got.length));
                put(now);
                self.unread.extend(later);
                return Poll::Ready(Ok(now.len()));
            }
            self.check()?;
        }
        self.gives_way(context)
    }

    /// The other tasks of the thread come first; no event announces what is there already.
    fn gives_way<V>(&mut self, context: &Context<'_>) -> Poll<V> {
        self.passed = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes the beginning of `bytes`, up to 64 KiB: at least one, unless there are none. Bytes that the socket does not take
    /// are kept, and no more are taken before those have left.
    ///
    /// **Errors**: the leg broke. A backend that takes no more may have answered before: while that is unread, bytes for it are
    /// dropped without an error, and the reader is woken by `context`.
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Broken>> {
        self.poll_write_parts(context, &[bytes])
    }

    /// The same for several pieces, as one write: short ones before a long one share its record and its packet.
    ///
    /// **Errors**: as [`Pipe::poll_write`]. **Cost**: a copy, where there is more than one.
    pub fn poll_write_parts<B: Deref<Target = [u8]>>(
        &mut self,
        context: &mut Context<'_>,
        parts: &[B],
    ) -> Poll<Result<usize, Broken>> {
        let mut parts = parts.iter().map(Deref::deref).filter(|part| !part.is_empty());
        let Some(first) = parts.next() else { return Poll::Ready(Ok(0)) };
        ready!(self.poll_flush(context))?;
        let scratch = Rc::clone(&self.scratch);
        let scratch = &mut *scratch.borrow_mut();
        let Scratch { received, records, .. } = scratch;
        let mut bytes = &first[..first.len().min(READ)];
        if let Some(second) = parts.next() {
            // Nothing is received while something is written.
            let mut filled = 0;
            for part in [first, second].into_iter().chain(parts) {
                let count = part.len().min(READ - filled);
                received[filled..][..count].copy_from_slice(&part[..count]);
                filled += count;
            }
            bytes = &received[..filled];
        }
        let count = bytes.len();
        let written = if self.leg.refuses() { Ok(()) } else { self.leg.write(bytes, records) };
        // Others append to it: what stayed would be sent on another connection.
        records.clear();
        let written = match written {
            Ok(()) => self.heed_refusal(context, scratch),
            Err(broken) => Err(self.better_reason(broken, scratch)),
        };
        Poll::Ready(written.map(|()| count))
    }

    /// Ready when everything that was taken is with the kernel, except what the leg holds for company ([`Leg::hold`]).
    ///
    /// **Errors**: as [`Pipe::poll_write`].
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.check()?;
        while self.leg.is_full() {
            match self.leg.flush() {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(broken) => return Poll::Ready(Err(self.fails(broken))),
            }
        }
        let scratch = Rc::clone(&self.scratch);
        Poll::Ready(self.heed_refusal(context, &mut scratch.borrow_mut()))
    }

    /// Ends our direction behind everything that was taken: close_notify where there is TLS, FIN where there is none. Ready when that
    /// is done, also when it was before.
    ///
    /// **Errors**: as [`Pipe::poll_write`].
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        ready!(self.poll_flush(context))?;
        if self.leg.refuses() {
            return Poll::Ready(Ok(()));
        }
        let sent = {
            let records = &mut self.scratch.borrow_mut().records;
            let sent = self.leg.send_close(records, false);
            records.clear();
            sent
        };
        if let Err(broken) = sent {
            return Poll::Ready(Err(self.fails(broken)));
        }
        self.poll_flush(context)
    }

    fn check(&self) -> Result<(), Broken> {
        self.broken.as_deref().map_or(Ok(()), |broken| Err(broken.clone()))
    }

    fn breaks(&mut self, broken: Broken) -> Broken {
        self.broken = Some(Box::new(broken.clone()));
        broken
    }

    /// A peer that takes no more is an error, unless it has answered before. No socket reports that answer to a reader that waits.
    fn heed_refusal(&mut self, context: &Context<'_>, scratch: &mut Scratch) -> Result<(), Broken> {
        if !self.leg.refuses() || !self.unread.is_empty() {
            return Ok(());
        }
        if let Poll::Ready(Err(broken)) = self.receive(context, 0, |_| {}, scratch)
            && self.unread.is_empty()
        {
            return Err(broken);
        }
        context.waker().wake_by_ref();
        match self.leg.refusal() {
            Some(broken) if self.leg.has_ended() && self.unread.is_empty() => Err(broken.clone()),
            _ => Ok(()),
        }
    }

    fn fails(&mut self, broken: Broken) -> Broken {
        let scratch = Rc::clone(&self.scratch);
        self.better_reason(broken, &mut scratch.borrow_mut())
    }

    /// A peer that broke off may have sent the reason before: its alert.
    fn better_reason(&mut self, broken: Broken, scratch: &mut Scratch) -> Broken {
        let is_alert = |failure: &Broken| matches!(&failure.why, Why::Session(failure) if failure.kind == FailureKind::Alert);
        for _ in 0..EMPTY_READS {
            if !self.leg.is_secured() || self.leg.has_ended() {
                break;
            }
            match self.leg.read(scratch, READ) {
                Ok(Got { moved: true, failed: None, .. }) => {}
                Ok(Got { failed: Some(failure), .. }) if is_alert(&failure) => return self.breaks(failure),
                _ => break,
            }
        }
        self.breaks(broken)
    }
}
