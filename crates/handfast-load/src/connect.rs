//! Step 1, connect: a stream, a TLS handshake on it, and how long both took.
//!
//! In: the identity of the client, and whether to resume. Out: a [`Wire`] that is open for data, its flight perhaps still to be written together with
//! the first request.

use std::rc::Rc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::dial::Dialling;
use handfast_net::engine::{self, Woken};
use handfast_net::fault::Fault;
use handfast_net::stream::Stream;
use handfast_tls::buffer::Buffer;
use handfast_tls::session::Session;

use crate::context::{Caller, ThreadContext};
use crate::failure::{Step, StepFailure};
use crate::wire::{Got, Wire};

/// An established connection.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    /// Our last flight, to be written with the first request.
    pub(crate) flight: Buffer,
    /// Bytes of the first request that the target accepted as 0-RTT data.
    pub(crate) early: usize,
    /// Plaintext that came before our first request (the target sends first).
    pub(crate) unasked: Vec<u8>,
}

/// Connects and shakes hands. `early` goes as 0-RTT data if the plan and a ticket allow it.
pub(crate) async fn connect(
    bench: &Rc<ThreadContext>,
    caller: Caller,
    early: &[u8],
) -> Result<Connected, StepFailure> {
    bench.record().connection();
    if bench.plan.target.plain {
        return connect_plain(bench).await;
    }
    // Before the clock starts: the ClientHello is our work, and not part of the target's latency.
    let internal = |failure| StepFailure::session(Step::Handshake, &failure);
    let mut session = bench.session(caller).map_err(internal)?;
    let mut hello = Buffer::default();
    session.start(&mut hello).map_err(internal)?;
    let without_ticket = caller.resume && !session.offered_ticket();
    bench.record().hello(caller.member, hello.len(), without_ticket);
    let early = if early.is_empty() { 0 } else { session.early_data(early, &mut hello) };

    let began = Moment::now();
    let deadline = bench.deadline();
    let (stream, sent) = dial(bench, hello.filled(), deadline).await?;
    let connected = Moment::now();
    let mut wire = Wire::new(stream, session, &hello.filled()[sent..]);
    drop(hello);
    bench.record().connected(began, connected);
    let mut own = Duration::ZERO;
    let mut secured = handshake(bench, &mut wire, deadline, &mut own).await?;
    let done = Moment::now();
    let accepted = if early > 0 { wire.session().early_data_accepted() } else { None };
    bench.record().handshake(caller.member, &wire.session().agreed(), accepted, (connected, done, own));
    secured.1.shrink_to_fit();
    let early = if accepted == Some(true) { early } else { 0 };
    Ok(Connected { wire, flight: secured.0, early, unasked: secured.1 })
}

/// Connects without TLS: there is nothing to shake hands about.
async fn connect_plain(bench: &ThreadContext) -> Result<Connected, StepFailure> {
    let began = Moment::now();
    let (stream, _) = dial(bench, &[], bench.deadline()).await?;
    bench.record().connected(began, Moment::now());
    Ok(Connected { wire: Wire::plain(stream), flight: Buffer::default(), early: 0, unasked: Vec::new() })
}

/// A connected stream, and how many of the first bytes were sent with it.
async fn dial(bench: &ThreadContext, first: &[u8], deadline: Moment) -> Result<(Stream, usize), StepFailure> {
    let failed = |fault: Fault| StepFailure::socket(Step::Connect, &fault);
    let mut dialling = Dialling::start_from(&bench.target(), bench.source()).map_err(failed)?;
    let sent = loop {
        if let Some(sent) = dialling.advance(first).map_err(failed)? {
            break sent;
        }
        if engine::wait(deadline).await == Woken::Deadline {
            return Err(failed(dialling.give_up()));
        }
    };
    let stream = dialling.into_stream();
    stream.no_delay();
    Ok((stream, sent))
}

/// Reads and answers until data can be sent; gives our last flight, and what came in front of our first request.
async fn handshake(
    bench: &ThreadContext,
    wire: &mut Wire,
    deadline: Moment,
    own: &mut Duration,
) -> Result<(Buffer, Vec<u8>), StepFailure> {
    // The answer cannot have arrived yet, so a read would be a wasted system call.
    wire.expect_later(Step::Handshake)?;
    let mut unasked = Vec::new();
    loop {
        wire.wait(deadline, Step::Handshake).await?;
        loop {
            let got = wire.shake(&mut bench.scratch.borrow_mut(), &mut unasked, own)?;
            if wire.session().is_established() {
                let mut flight = Buffer::default();
                flight.extend(&wire.take_flight());
                return Ok((flight, unasked));
            }
            match got {
                Got::Something => {}
                Got::Nothing => break,
                Got::End => return Err(wire.ended_early(Step::Handshake, "the target ended the handshake")),
            }
        }
    }
}
