//! A [`Wire`] as hyper reads and writes it.
//!
//! In: hyper's calls. Out: bytes, or "not yet"; that wakes no task, because the engine polls the whole connection whenever
//! one of its sockets became ready. What went wrong is kept here in our own words, because hyper passes on less.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use handfast_http::Room;
use handfast_net::clock::Moment;
use handfast_tls::buffer::Buffer;
use handfast_tls::session::Session;

use crate::connect::Connected;
use crate::context::ThreadContext;
use crate::failure::{Step, StepFailure};
use crate::wire::{Ended, Got, Wire};

/// Most plaintext encrypted at once; hyper comes again with the rest.
const MOST: usize = 4 * 16_384;

/// One connection's wire, and what hyper has not read yet.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) wire: Wire,
    bench: Rc<ThreadContext>,
    inbox: Buffer,
    /// The rest of the handshake, to go with the first request.
    flight: Buffer,
    /// When the first bytes came since this was last cleared.
    pub(super) heard: Option<Moment>,
    /// Why the wire failed.
    trouble: Option<StepFailure>,
    /// Plaintext that passed since it was last asked for.
    sent: u64,
    received: u64,
}

impl Pipe {
    pub(super) fn new(bench: &Rc<ThreadContext>, connected: Connected) -> Self {
        // A server may speak first: HTTP/2's sends its settings.
        let Connected { wire, flight, unasked, .. } = connected;
        let mut inbox = Buffer::default();
        inbox.extend(&unasked);
        let received = unasked.len() as u64;
        Self { wire, bench: Rc::clone(bench), inbox, flight, heard: None, trouble: None, sent: 0, received }
    }

    /// Why the wire failed, or how the target ended it before `what`; `None` when it stands.
    pub(super) fn trouble(&self, what: &str) -> Option<StepFailure> {
        let ended = (self.wire.ended() != Ended::No).then(|| self.wire.ended_early(Step::Exchange, what));
        self.trouble.clone().or(ended)
    }

    /// Plaintext sent and received since this was last asked.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.sent), std::mem::take(&mut self.received))
    }

    /// Writes the rest of the handshake, if no request has taken it along: without it nothing else may be sent.
    pub(super) fn finish_handshake(&mut self) -> Result<(), StepFailure> {
        let scratch = &mut *self.bench.scratch.borrow_mut();
        scratch.records.extend(std::mem::take(&mut self.flight).filled());
        self.wire.write(&mut scratch.records, Step::Handshake)
    }

    /// Reads until there is something for hyper, or nothing there.
    fn fill(&mut self) -> Result<Got, StepFailure> {
        let scratch = &mut *self.bench.scratch.borrow_mut();
        let (inbox, heard) = (&mut self.inbox, &mut self.heard);
        while inbox.is_empty() {
            let got = self.wire.read(scratch, Step::Exchange, &mut |bytes| {
                heard.get_or_insert_with(Moment::now);
                inbox.extend(bytes);
            })?;
            if got != Got::Something {
                self.received += inbox.len() as u64;
                return Ok(if inbox.is_empty() { got } else { Got::Something });
            }
        }
        self.received += inbox.len() as u64;
        Ok(Got::Something)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, StepFailure> {
        self.wire.flush(Step::Exchange)?;
        if !self.wire.is_flushed() {
            return Ok(0);
        }
        let bytes = &bytes[..bytes.len().min(MOST)];
        let scratch = &mut *self.bench.scratch.borrow_mut();
        scratch.records.extend(std::mem::take(&mut self.flight).filled());
        let encrypted = self.wire.session_mut().encrypt(bytes, &mut scratch.records);
        encrypted.map_err(|failure| StepFailure::session(Step::Exchange, &failure))?;
        self.wire.write(&mut scratch.records, Step::Exchange)?;
        self.sent += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// Stores the error, and reports to hyper that there is one.
    fn fail(&mut self, trouble: StepFailure) -> io::Error {
        let error = io::Error::other(trouble.detail.clone());
        self.trouble.get_or_insert(trouble);
        error
    }
}

impl handfast_http::Pipe for Pipe {
    fn poll_read(&mut self, _: &mut Context<'_>, room: &mut Room<'_>) -> Poll<io::Result<()>> {
        if self.inbox.is_empty() {
            match self.fill() {
                Ok(Got::Something) => {}
                Ok(Got::Nothing) => return Poll::Pending,
                // An attacker can forge an end without close_notify (RFC 9846 §6.1): no answer ends with it.
                Ok(Got::End) if self.wire.ended() == Ended::Truncated => {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(Got::End) => return Poll::Ready(Ok(())),
                Err(trouble) => return Poll::Ready(Err(self.fail(trouble))),
            }
        }
        let size = room.put(self.inbox.filled());
        self.inbox.take(size);
        if self.inbox.is_empty() {
            // A connection that waits keeps no buffer.
            self.inbox = Buffer::default();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        match self.send(bytes) {
            Ok(0) => Poll::Pending,
            Ok(sent) => Poll::Ready(Ok(sent)),
            Err(trouble) => Poll::Ready(Err(self.fail(trouble))),
        }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.wire.flush(Step::Exchange) {
            Ok(()) if self.wire.is_flushed() => Poll::Ready(Ok(())),
            Ok(()) => Poll::Pending,
            Err(trouble) => Poll::Ready(Err(self.fail(trouble))),
        }
    }

    /// How a connection ends is the plan's to say, not hyper's.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
