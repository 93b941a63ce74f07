//! Step 2, exchange: so many bytes there, so many back, on a connection that stands.
//!
//! In: a [`Wire`], and what connecting has left to send. Out: when the first and the last byte of the answer came. It
//! reads while it still writes, so that a target which answers early never stops us both.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine;
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::Session;

use crate::bench::{Bench, Phase, READ};
use crate::connect::Connected;
use crate::pattern::Pattern;
use crate::plan::Work;
use crate::trouble::{Cause, Step, Trouble};
use crate::wire::{Got, Wire};

/// Greatest plaintext of a record (RFC 9846 §5.1).
const FRAGMENT: u64 = 16_384;
/// Rounds of a large exchange before the others of the thread have their turn.
const ROUNDS: u32 = 16;

/// What is exchanged.
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

/// When an exchange happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) began: Moment,
    pub(crate) first_byte: Moment,
    pub(crate) done: Moment,
}

/// What connecting left over for the first exchange; empty for later ones.
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
    pub(crate) fn send_flight(&mut self, bench: &Bench, wire: &mut Wire, step: Step) -> Result<(), Trouble> {
        self.prepare_flight(bench);
        wire.write(&mut bench.scratch.borrow_mut().records, step)
    }

    /// Puts the rest of the handshake into the thread's buffer, for whoever writes next.
    pub(crate) fn prepare_flight(&mut self, bench: &Bench) {
        let flight = std::mem::take(&mut self.flight);
        bench.scratch.borrow_mut().records.extend(flight.filled());
    }
}

/// Where in the pattern the exchange number `number` begins: other bytes each time, and one run of them for what
/// fits a record.
pub(crate) fn position(number: u64) -> u64 {
    number.wrapping_mul(61) % 49_000
}

/// What the first exchange of a connection sends as 0-RTT data, if it may.
pub(crate) fn early(pattern: &Pattern, sizes: Option<Sizes>) -> &[u8] {
    sizes.map_or(
        &[],
        |sizes| if sizes.send == 0 { &[] } else { pattern.at(position(0), sizes.send.min(FRAGMENT)) },
    )
}

struct Exchange<'a> {
    bench: &'a Bench,
    sizes: Sizes,
    position: u64,
    sent: u64,
    received: u64,
    first_byte: Option<Moment>,
    wrong: Option<Trouble>,
}

/// Exchange number `number` of a connection.
pub(crate) async fn exchange(
    bench: &Rc<Bench>,
    wire: &mut Wire,
    sizes: Sizes,
    opening: Opening,
    number: u64,
) -> Result<Times, Trouble> {
    let deadline = bench.deadline();
    let began = Moment::now();
    let mut exchange = Exchange {
        bench,
        sizes,
        position: position(number),
        sent: opening.early,
        received: 0,
        first_byte: None,
        wrong: None,
    };
    if !opening.unasked.is_empty() {
        exchange.take(&opening.unasked);
    }
    if !opening.flight.is_empty() {
        bench.scratch.borrow_mut().records.extend(opening.flight.filled());
    }
    drop(opening);
    loop {
        let mut rounds = 0;
        while exchange.turn(wire)? {
            rounds += 1;
            if rounds == ROUNDS {
                engine::yield_now().await;
                rounds = 0;
            }
        }
        if exchange.is_done(wire) {
            break;
        }
        wire.wait(deadline, Step::Exchange).await?;
    }
    let done = Moment::now();
    if bench.phase() != Phase::WarmUp {
        let tally = &mut bench.sampler.borrow_mut().tally;
        tally.sent += sizes.send;
        tally.received += exchange.received;
    }
    Ok(Times { began, first_byte: exchange.first_byte.unwrap_or(done), done })
}

impl Exchange<'_> {
    /// Writes and reads once; whether it is worth doing again at once.
    fn turn(&mut self, wire: &mut Wire) -> Result<bool, Trouble> {
        let scratch = &mut *self.bench.scratch.borrow_mut();
        let wrote = self.write(wire, scratch)?;
        let got = wire.read(scratch, Step::Exchange, false, &mut |bytes| self.take(bytes))?;
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

    fn is_done(&self, wire: &Wire) -> bool {
        self.sent >= self.sizes.send && self.received >= self.sizes.receive && wire.is_flushed()
    }

    /// Encrypts up to a thread's buffer full and hands it to the kernel; whether there is room for more.
    fn write(&mut self, wire: &mut Wire, scratch: &mut Scratch) -> Result<bool, Trouble> {
        if !wire.is_flushed() {
            wire.flush(Step::Exchange)?;
        }
        if !wire.is_flushed() {
            return Ok(false);
        }
        while self.sent < self.sizes.send && scratch.records.len() < READ {
            let most = FRAGMENT.min(self.sizes.send - self.sent);
            let bytes = self.bench.pattern.at(self.position + self.sent, most);
            let encrypted = wire.session.encrypt(bytes, &mut scratch.records);
            encrypted.map_err(|failure| Trouble::session(Step::Exchange, &failure))?;
            self.sent += bytes.len() as u64;
        }
        wire.write(&mut scratch.records, Step::Exchange)?;
        Ok(wire.is_flushed() && self.sent < self.sizes.send)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.first_byte.get_or_insert_with(Moment::now);
        if self.sizes.echo && !self.bench.pattern.matches(self.position + self.received, bytes) {
            let detail = format!("the echo differs from what was sent, after {} bytes", self.received);
            self.wrong.get_or_insert_with(|| Trouble::new(Step::Exchange, Cause::WrongBytes, detail));
        }
        self.received += bytes.len() as u64;
        if self.received > self.sizes.receive {
            let detail = format!("{} bytes came, {} were expected", self.received, self.sizes.receive);
            self.wrong.get_or_insert_with(|| Trouble::new(Step::Exchange, Cause::WrongBytes, detail));
        }
    }
}
