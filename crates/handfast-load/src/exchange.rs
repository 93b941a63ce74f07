//! Step 2, exchange: sends and receives a number of bytes on an established connection.
//!
//! In: a [`Wire`], and the rest of the handshake to send. Out: when the first and the last byte of the answer came. It
//! reads while it still writes, so that a target that answers early causes no deadlock. Nothing waits in here.

use handfast_net::clock::Moment;
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::Session;

use crate::connect::Connected;
use crate::context::{READ, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};
use crate::pattern::Pattern;
use crate::plan::Work;
use crate::recorder::Times;
use crate::wire::{Got, Wire};

/// Greatest plaintext of a record (RFC 9846 §5.1).
const FRAGMENT: u64 = 16_384;

/// Bytes of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) send: u64,
    pub(crate) receive: u64,
    pub(crate) echo: bool,
}

impl Sizes {
    /// Of a work that exchanges bytes.
    pub(crate) fn of(work: &Work) -> Option<Self> {
        match *work {
            Work::Exchange { send, receive, echo } => Some(Self { send, receive, echo }),
            Work::Idle { send, receive } if send > 0 => Some(Self { send, receive, echo: false }),
            _ => None,
        }
    }
}

/// The rest of connecting, for the first exchange; empty for later ones.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    flight: Buffer,
    early: u64,
    unasked: Vec<u8>,
}

impl Opening {
    /// Takes a new connection apart.
    pub(crate) fn of(connected: Connected) -> (Wire, Self) {
        let Connected { wire, flight, early, unasked } = connected;
        (wire, Self { flight, early: early as u64, unasked })
    }

    /// Sends the rest of the handshake without waiting for a request to ride with.
    pub(crate) fn send_flight(
        &mut self,
        context: &ThreadContext,
        wire: &mut Wire,
        step: Step,
    ) -> Result<(), StepFailure> {
        self.prepare_flight(context);
        wire.write(&mut context.scratch.borrow_mut().records, step)
    }

    /// Puts the rest of the handshake into the thread's buffer, for the next write.
    pub(crate) fn prepare_flight(&mut self, context: &ThreadContext) {
        let flight = std::mem::take(&mut self.flight);
        context.scratch.borrow_mut().records.extend(flight.filled());
    }
}

/// The position in the pattern of exchange number `number`: different bytes each time, and contiguous ones within a
/// record.
pub(crate) fn position(number: u64) -> u64 {
    number.wrapping_mul(61) % 49_000
}

/// Bytes that the first exchange of a connection sends as 0-RTT data, if it may.
pub(crate) fn early(pattern: &Pattern, sizes: Option<Sizes>) -> &[u8] {
    sizes.map_or(
        &[],
        |sizes| if sizes.send == 0 { &[] } else { pattern.at(position(0), sizes.send.min(FRAGMENT)) },
    )
}

/// One exchange.
#[derive(Debug)]
pub(crate) struct Exchange {
    sizes: Sizes,
    /// The rest of the handshake, to go in front of the first bytes.
    flight: Buffer,
    position: u64,
    sent: u64,
    received: u64,
    began: Moment,
    deadline: Moment,
    first_byte: Option<Moment>,
    wrong: Option<StepFailure>,
}

impl Exchange {
    /// Number `number` of a connection begins.
    pub(crate) fn begin(context: &ThreadContext, sizes: Sizes, opening: Opening, number: u64) -> Self {
        let began = Moment::now();
        let mut exchange = Self {
            sizes,
            flight: opening.flight,
            position: position(number),
            sent: opening.early,
            received: 0,
            began,
            deadline: began.deadline(context.plan.timeout),
            first_byte: None,
            wrong: None,
        };
        if !opening.unasked.is_empty() {
            exchange.take(context, &opening.unasked);
        }
        exchange
    }

    /// Start of the exchange.
    pub(crate) fn began(&self) -> Moment {
        self.began
    }

    /// Deadline of the exchange.
    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Counts it, now that it is done; when that was.
    pub(crate) fn finish(self, context: &ThreadContext) -> Moment {
        let done = Moment::now();
        let first_byte = self.first_byte.unwrap_or(done);
        let mut recorder = context.record();
        recorder.bytes(self.sizes.send, self.received);
        recorder.exchange(Times { began: self.began, first_byte, done });
        done
    }

    /// Writes and reads once; returns whether an immediate repetition makes progress.
    pub(crate) fn turn(&mut self, context: &ThreadContext, wire: &mut Wire) -> Result<bool, StepFailure> {
        let scratch = &mut *context.scratch.borrow_mut();
        let wrote = self.write(context, wire, scratch)?;
        let got = wire.read(scratch, Step::Exchange, &mut |bytes| self.take(context, bytes))?;
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        if got == Got::End && !self.is_done(wire) {
            let Sizes { receive, .. } = self.sizes;
            let detail = format!("the target ended after {} of {receive} bytes", self.received);
            return Err(wire.ended_early(Step::Exchange, &detail));
        }
        Ok(!self.is_done(wire) && (got == Got::Something || wrote))
    }

    /// Returns true if everything was sent and received.
    pub(crate) fn is_done(&self, wire: &Wire) -> bool {
        self.sent >= self.sizes.send && self.received >= self.sizes.receive && wire.is_flushed()
    }

    /// Encrypts up to a thread's buffer full and hands it to the kernel; whether there is room for more.
    fn write(
        &mut self,
        context: &ThreadContext,
        wire: &mut Wire,
        scratch: &mut Scratch,
    ) -> Result<bool, StepFailure> {
        if !wire.is_flushed() {
            wire.flush(Step::Exchange)?;
        }
        if !wire.is_flushed() {
            return Ok(false);
        }
        if !self.flight.is_empty() {
            scratch.records.extend(std::mem::take(&mut self.flight).filled());
        }
        while self.sent < self.sizes.send && scratch.records.len() < READ {
            let most = FRAGMENT.min(self.sizes.send - self.sent);
            let bytes = context.pattern.at(self.position + self.sent, most);
            let encrypted = wire.session_mut().encrypt(bytes, &mut scratch.records);
            encrypted.map_err(|failure| StepFailure::session(Step::Exchange, &failure))?;
            self.sent += bytes.len() as u64;
        }
        wire.write(&mut scratch.records, Step::Exchange)?;
        Ok(wire.is_flushed() && self.sent < self.sizes.send)
    }

    fn take(&mut self, context: &ThreadContext, bytes: &[u8]) {
        self.first_byte.get_or_insert_with(Moment::now);
        if self.sizes.echo && !context.pattern.matches(self.position + self.received, bytes) {
            let detail = format!("the echo differs from what was sent, after {} bytes", self.received);
            self.wrong.get_or_insert_with(|| StepFailure::new(Step::Exchange, Cause::WrongBytes, detail));
        }
        self.received += bytes.len() as u64;
        if self.received > self.sizes.receive {
            let detail = format!("{} bytes came, {} were expected", self.received, self.sizes.receive);
            self.wrong.get_or_insert_with(|| StepFailure::new(Step::Exchange, Cause::WrongBytes, detail));
        }
    }
}
