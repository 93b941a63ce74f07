//! One connection to the target: a stream, a TLS session on it unless the target is plain HTTP, and bytes not written yet.
//!
//! In: plaintext to send. Out: plaintext that came, by a callback, straight from the thread's buffers. Nothing waits in
//! here but [`Wire::wait`].

use std::time::Duration;

use handfast_leg::{Broken, Leg, Side, Why};
use handfast_net::clock::Moment;
use handfast_net::engine::{self, Woken};
use handfast_net::stream::Stream;
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::client::ClientSession;
use handfast_tls::session::Session as _;

use crate::context::{READ, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Bytes came, of the protocol or of the application.
    Something,
    /// Nothing there.
    Nothing,
    /// No more will come.
    End,
}

/// End of the target's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Not yet.
    No,
    /// With close_notify.
    Orderly,
    /// With FIN alone.
    Truncated,
}

/// A connection: a leg, and the state of its ends.
#[derive(Debug)]
pub(crate) struct Wire {
    leg: Leg<Stream, ClientSession>,
    ended: Ended,
    /// Our end is to go out when everything else has, or has gone.
    ending: Ending,
}

/// Progress of our own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// It waits for records that the kernel had no room for.
    Waiting,
    Sent,
}

impl Wire {
    /// Takes a connected stream, and a session that has begun; `unsent` is the rest of its hello.
    pub(crate) fn new(stream: Stream, session: ClientSession, unsent: &[u8]) -> Self {
        let mut leg = Leg::plain(Side::Backend, stream);
        leg.secure(session);
        leg.keep(unsent);
        Self { leg, ended: Ended::No, ending: Ending::No }
    }

    /// Takes a connected stream to a target without TLS.
    pub(crate) fn plain(stream: Stream) -> Self {
        Self { leg: Leg::plain(Side::Backend, stream), ended: Ended::No, ending: Ending::No }
    }

    /// Takes back a leg that [`Wire::into_leg`] gave, and what has happened to it since.
    pub(crate) fn from_leg(leg: Leg<Stream, ClientSession>, ended: Ended) -> Self {
        Self { leg, ended, ending: Ending::No }
    }

    /// Its leg, for code that reads and writes in another way.
    pub(crate) fn into_leg(self) -> Leg<Stream, ClientSession> {
        self.leg
    }

    /// End of the target's direction.
    pub(crate) fn ended(&self) -> Ended {
        self.ended
    }

    /// Returns true if the kernel has everything that was sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.leg.unsent() == 0
    }

    /// Its session, which only a plain wire has not.
    pub(crate) fn session(&self) -> &ClientSession {
        self.leg.session().expect("given by new()")
    }

    /// Appends close_notify to `records`; nothing on a plain wire.
    pub(crate) fn close_notify(&mut self, records: &mut Buffer) {
        if let Some(session) = self.leg.session_mut() {
            session.close(records);
        }
    }

    /// Its session, to encrypt with.
    pub(crate) fn session_mut(&mut self) -> &mut ClientSession {
        self.leg.session_mut().expect("given by new()")
    }

    /// Waits for the first answer without a read before: it cannot have arrived yet.
    ///
    /// **Errors**: registering with the engine.
    pub(crate) fn expect_later(&mut self, step: Step) -> Result<(), StepFailure> {
        self.leg.socket_mut().expect_later().map_err(|fault| StepFailure::socket(step, &fault))
    }

    /// Closes it cleanly.
    pub(crate) fn finish(mut self) {
        self.leg.socket_mut().finish_at_drop();
    }

    /// Waits for something to happen.
    pub(crate) async fn wait(&self, deadline: Moment, step: Step) -> Result<(), StepFailure> {
        match engine::wait(deadline).await {
            Woken::Event => Ok(()),
            Woken::Deadline => Err(StepFailure::deadline(step)),
        }
    }

    /// Goes on with the handshake by what is there; plaintext behind it goes to `unasked`. What the session answers is
    /// sent, but for our last flight, which waits for the first request: see [`Wire::take_flight`]. Computing adds to `own`.
    pub(crate) fn shake(
        &mut self,
        scratch: &mut Scratch,
        unasked: &mut Vec<u8>,
        own: &mut Duration,
    ) -> Result<Got, StepFailure> {
        const STEP: Step = Step::Handshake;
        let bytes = match self.leg.read_flight(scratch) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Got::Nothing),
            Err(Broken { why: Why::Truncated, .. }) => return Ok(self.ends(Ended::Truncated)),
            Err(broken) => return Err(StepFailure::broken(STEP, &broken)),
        };
        if !self.leg.is_in_a_record() && scratch.received[..bytes].starts_with(b"HTTP/") {
            return Err(StepFailure::new(STEP, Cause::NotTls, "the target answered in plain HTTP"));
        }
        let before = Moment::now();
        let taken = self.leg.take_flight(bytes, scratch, unasked);
        *own += Moment::now().since(before);
        match taken {
            Ok(()) => {}
            Err(Broken { why: Why::Ended, .. }) => return Ok(self.ends(Ended::Orderly)),
            Err(broken) => {
                // The alert; if it cannot be sent, nothing changes.
                let _ = self.leg.send_flight();
                return Err(StepFailure::broken(STEP, &broken));
            }
        }
        if self.leg.has_ended() {
            return Ok(self.ends(Ended::Orderly));
        }
        if !self.leg.is_established() {
            // A middle flight (a second hello, a client's certificate in TLS 1.2).
            let sent = self.leg.send_flight();
            sent.map_err(|broken| self.why_gone(STEP, &broken))?;
        }
        Ok(Got::Something)
    }

    /// Our last flight, to be written in front of the first request.
    pub(crate) fn take_flight(&mut self) -> Vec<u8> {
        self.leg.take_unsent()
    }

    fn ends(&mut self, how: Ended) -> Got {
        self.ended = how;
        Got::End
    }

    /// Reads once; plaintext goes to `take`. Automatic responses of the session are written.
    pub(crate) fn read(
        &mut self,
        scratch: &mut Scratch,
        step: Step,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Got, StepFailure> {
        if self.ended != Ended::No {
            return Ok(Got::End);
        }
        let got = match self.leg.read(scratch, READ) {
            Ok(got) if !got.moved => return Ok(Got::Nothing),
            Ok(got) => got,
            Err(Broken { why: Why::Truncated, .. }) => return Ok(self.ends(Ended::Truncated)),
            Err(broken) => return Err(StepFailure::broken(step, &broken)),
        };
        if got.length > 0 {
            take(self.leg.plaintext(&scratch.received, &scratch.plaintext, got.length));
        }
        if let Some(broken) = got.failed {
            // Its alert; if it cannot be sent, nothing changes.
            let _ = self.leg.answer(scratch, true).and_then(|()| self.leg.send_flight());
            return Err(StepFailure::broken(step, &broken));
        }
        // After our own end, answers of the protocol cannot be sent.
        if self.ending == Ending::No {
            let sent = self.leg.answer(scratch, false);
            sent.map_err(|broken| self.why_gone(step, &broken))?;
        }
        if self.leg.has_ended() { Ok(self.ends(Ended::Orderly)) } else { Ok(Got::Something) }
    }

    /// Writes `records`, which is empty afterwards; what the kernel has no room for is kept.
    ///
    /// **Errors**: the target is gone; by its alert, if that came before.
    pub(crate) fn write(&mut self, records: &mut Buffer, step: Step) -> Result<(), StepFailure> {
        let sent = self.leg.send(records.filled());
        records.clear();
        sent.map_err(|broken| self.why_gone(step, &broken))
    }

    /// Tries again to send what was kept, and our end if it waits behind that.
    ///
    /// **Errors**: as [`Wire::write`].
    pub(crate) fn flush(&mut self, step: Step) -> Result<(), StepFailure> {
        let sent = self.leg.send_flight();
        sent.map_err(|broken| self.why_gone(step, &broken))?;
        if self.ending == Ending::Waiting && self.is_flushed() {
            self.leg.socket_mut().end_writing();
            self.ending = Ending::Sent;
        }
        Ok(())
    }

    /// Ends our direction behind everything that was written; once.
    pub(crate) fn end_writing(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Waiting;
            if self.is_flushed() {
                self.leg.socket_mut().end_writing();
                self.ending = Ending::Sent;
            }
        }
    }

    /// Finds the reason why the target took no more: a target that refuses sends an alert and closes, and what we write after that ends
    /// in a reset. The alert came first, and has more details.
    fn why_gone(&mut self, step: Step, broken: &Broken) -> StepFailure {
        drop(self.leg.take_unsent());
        let mut scratch = Scratch::new(READ);
        loop {
            let got = if self.leg.is_established() {
                self.read(&mut scratch, step, &mut |_| {})
            } else {
                self.shake(&mut scratch, &mut Vec::new(), &mut Duration::default())
            };
            match got {
                Ok(Got::Something) => {}
                Err(failure) if failure.cause == Cause::Alert => return failure,
                Ok(Got::Nothing | Got::End) | Err(_) => return StepFailure::broken(step, broken),
            }
        }
    }

    /// The error for a target that ended too early.
    pub(crate) fn ended_early(&self, step: Step, detail: &str) -> StepFailure {
        StepFailure::ended(step, self.ended == Ended::Orderly, detail)
    }

    /// Checks whether something happened without a request: the target ended or reset the connection.
    pub(crate) fn check_idle(&mut self, bench: &ThreadContext, step: Step) -> Result<Got, StepFailure> {
        let scratch = &mut *bench.scratch.borrow_mut();
        let mut unasked = 0;
        let got = self.read(scratch, step, &mut |bytes| unasked += bytes.len())?;
        if unasked > 0 {
            let detail = format!("{unasked} bytes came without a request");
            return Err(StepFailure::new(step, Cause::WrongBytes, detail));
        }
        Ok(got)
    }
}
