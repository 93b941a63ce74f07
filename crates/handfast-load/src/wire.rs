//! One connection to the target: a stream and a TLS session on it, with what the stream has not taken yet.
//!
//! In: plaintext to send. Out: plaintext that came, by a callback, straight from the thread's buffers. Nothing waits in
//! here but [`Wire::wait`].

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Woken};
use handfast_net::fault::Fault;
use handfast_net::stream::{Read, Stream, Write};
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::client::ClientSession;
use handfast_tls::session::Session;

use crate::context::{READ, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};

/// What reading gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Bytes came, of the protocol or of the application.
    Something,
    /// Nothing there.
    Nothing,
    /// No more will come.
    End,
}

/// How the target's direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Not yet.
    No,
    /// With close_notify.
    Orderly,
    /// With FIN alone.
    Truncated,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: Stream,
    pub(crate) session: ClientSession,
    /// Records that the kernel had no room for.
    unsent: Buffer,
    ended: Ended,
    /// Our end is to go out when everything else has, or has gone.
    ending: Ending,
}

/// How far our own end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// It waits for records that the kernel had no room for.
    Waiting,
    Sent,
}

impl Wire {
    /// Takes over a stream that stands, and a session that has begun; `unsent` is the rest of its hello.
    pub(crate) fn new(stream: Stream, session: ClientSession, unsent: &[u8]) -> Self {
        let mut wire =
            Self { stream, session, unsent: Buffer::default(), ended: Ended::No, ending: Ending::No };
        if !unsent.is_empty() {
            wire.unsent.extend(unsent);
        }
        wire
    }

    /// How the target's direction ended.
    pub(crate) fn ended(&self) -> Ended {
        self.ended
    }

    /// Whether everything that was sent is with the kernel.
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Waits for something to happen.
    pub(crate) async fn wait(&self, deadline: Moment, step: Step) -> Result<(), StepFailure> {
        match engine::wait(deadline).await {
            Woken::Event => Ok(()),
            Woken::Deadline => Err(StepFailure::deadline(step)),
        }
    }

    /// Reads once; plaintext goes to `take`. Replies of the protocol stay in `records` to ride with what is sent next
    /// when `hold` is set; else they are written.
    pub(crate) fn read(
        &mut self,
        scratch: &mut Scratch,
        step: Step,
        hold: bool,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Got, StepFailure> {
        if self.ended != Ended::No {
            return Ok(Got::End);
        }
        let kept = self.session.kept().len();
        if scratch.received.len() < kept + READ / 2 {
            scratch.received.resize(kept + READ, 0);
        }
        scratch.received[..kept].copy_from_slice(self.session.kept());
        let read = self.stream.try_read(&mut scratch.received[kept..]);
        let count = match read.map_err(|fault| StepFailure::socket(step, &fault))? {
            Read::Blocked => return Ok(Got::Nothing),
            Read::End => {
                self.ended = Ended::Truncated;
                return Ok(Got::End);
            }
            Read::Bytes(count) => count,
        };
        let Scratch { received, plaintext, records, .. } = scratch;
        // What is beyond is of another connection.
        let received = &mut received[..kept + count];
        if step == Step::Handshake && kept == 0 && received.starts_with(b"HTTP/") {
            return Err(StepFailure::new(step, Cause::NotTls, "the target answered in plain HTTP"));
        }
        let outcome = self.session.receive(received, plaintext, records);
        if !plaintext.is_empty() {
            take(plaintext.filled());
            plaintext.clear();
        }
        if let Some(failure) = outcome.failure {
            // The alert; that it cannot be sent changes nothing.
            let _ = self.try_write(records);
            return Err(StepFailure::session(step, &failure));
        }
        if self.ending != Ending::No {
            // What the protocol would answer has no way to go any more.
            records.clear();
        } else if !hold && !records.is_empty() {
            self.write(records, step)?;
        }
        if outcome.closed {
            self.ended = Ended::Orderly;
            return Ok(Got::End);
        }
        Ok(Got::Something)
    }

    /// Writes `records`, which is empty afterwards; what the kernel has no room for is kept.
    ///
    /// **Errors**: the target is gone; by its alert, if that came before.
    pub(crate) fn write(&mut self, records: &mut Buffer, step: Step) -> Result<(), StepFailure> {
        let sent = self.try_write(records);
        sent.map_err(|fault| self.why_gone(step, &fault))
    }

    /// Tries again to send what was kept, and our end if it waits behind that.
    ///
    /// **Errors**: as [`Wire::write`].
    pub(crate) fn flush(&mut self, step: Step) -> Result<(), StepFailure> {
        let sent = self.try_flush();
        sent.map_err(|fault| self.why_gone(step, &fault))
    }

    fn try_write(&mut self, records: &mut Buffer) -> Result<(), Fault> {
        if !self.unsent.is_empty() {
            self.unsent.extend(records.filled());
            records.clear();
            return self.try_flush();
        }
        while !records.is_empty() {
            match self.stream.try_write(records.filled()) {
                Ok(Write::Bytes(count)) => records.take(count),
                Ok(Write::Blocked) => {
                    self.unsent.extend(records.filled());
                    records.clear();
                }
                Err(fault) => {
                    records.clear();
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    fn try_flush(&mut self) -> Result<(), Fault> {
        while !self.unsent.is_empty() {
            match self.stream.try_write(self.unsent.filled()) {
                Ok(Write::Bytes(count)) => self.unsent.take(count),
                Ok(Write::Blocked) => return Ok(()),
                Err(fault) => {
                    self.unsent = Buffer::default();
                    return Err(fault);
                }
            }
        }
        // An idle connection keeps no buffer.
        self.unsent = Buffer::default();
        if self.ending == Ending::Waiting {
            self.stream.end_writing();
            self.ending = Ending::Sent;
        }
        Ok(())
    }

    /// Ends our direction behind everything that was written; once.
    pub(crate) fn end_writing(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Waiting;
            // With nothing left to write it cannot fail.
            let _ = self.try_flush();
        }
    }

    /// Why the target took no more: a target that refuses sends an alert and closes, and what we write after that ends
    /// in a reset. The alert came first, and says more.
    fn why_gone(&mut self, step: Step, fault: &Fault) -> StepFailure {
        let mut scratch = Scratch::new(READ);
        loop {
            match self.read(&mut scratch, step, true, &mut |_| {}) {
                Ok(Got::Something) => {}
                Err(trouble) if trouble.cause == Cause::Alert => return trouble,
                Ok(Got::Nothing | Got::End) | Err(_) => return StepFailure::socket(step, fault),
            }
        }
    }

    /// The error for a target that ended too early.
    pub(crate) fn ended_early(&self, step: Step, detail: &str) -> StepFailure {
        StepFailure::ended(step, self.ended == Ended::Orderly, detail)
    }

    /// Whether something more than nothing happened while nobody asked: the target ended or reset.
    pub(crate) fn look(&mut self, bench: &ThreadContext, step: Step) -> Result<Got, StepFailure> {
        let scratch = &mut *bench.scratch.borrow_mut();
        let mut unasked = 0;
        let got = self.read(scratch, step, false, &mut |bytes| unasked += bytes.len())?;
        if unasked > 0 {
            let detail = format!("{unasked} bytes came that nobody had asked for");
            return Err(StepFailure::new(step, Cause::WrongBytes, detail));
        }
        Ok(got)
    }
}
