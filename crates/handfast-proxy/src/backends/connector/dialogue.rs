//! Dialogues in plain text before TLS, or with a proxy on the way, and the greeting of a backend that speaks first.
//!
//! In: a leg that is connected. Out: bytes of the backend for the client. A backend that is silent, ends or greets in another protocol
//! failed to connect: no byte was sent to the client yet, so the next backend can be tried. A backend that refuses to serve in its own
//! protocol has answered: its answer is for the client.

use handfast_leg::runtime::Runtime;
use handfast_leg::{Broken, Leg, READ, Socket, Why};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Step};
use handfast_tls::buffer::Scratch;
use handfast_wire::starttls::{Greeted, Greeting};

use super::context::{Cancellation, ConnectContext, ConnectFailure, Stage};
use crate::backends::opening::{Opening, of_problem, reason};

/// Carries out an opening. Ends when everything is sent and the kernel has it: from then on other bytes are counted.
pub(super) async fn open<R: Runtime, C: Cancellation>(
    leg: &mut Leg<R::Socket>,
    opening: &mut Opening,
    context: &mut ConnectContext<'_, C>,
) -> Result<(), ConnectFailure> {
    let mut is_late = false;
    loop {
        leg.send_flight().map_err(of_leg)?;
        if opening.is_over() && leg.unsent() == 0 {
            return Ok(());
        }
        // An opening has its bound in bytes: a backend that sends on and on cannot keep the attempt from its deadline.
        if !opening.is_over() && advance(leg, opening, context)? {
            continue;
        }
        context.wait_in::<R>(Stage::Opening, &mut is_late).await?;
    }
}

/// Processes received bytes; returns true if there were any.
fn advance<S: Socket, C>(
    leg: &mut Leg<S>,
    opening: &mut Opening,
    context: &ConnectContext<'_, C>,
) -> Result<bool, ConnectFailure> {
    let scratch = &mut *context.buffers.borrow_mut();
    let Some(bytes) = leg.read_flight(scratch).map_err(of_leg)? else { return Ok(false) };
    let mut words = Vec::new();
    let outcome = opening.take(&scratch.received[..bytes], &mut words);
    leg.keep(&words);
    outcome.map_err(|refused| {
        // A backend that refuses properly gets a proper end.
        leg.socket_mut().finish_at_drop();
        ConnectFailure::Attempt(refused)
    })?;
    Ok(true)
}

fn of_leg(broken: Broken) -> ConnectFailure {
    match broken.why {
        Why::Truncated => ConnectFailure::Attempt(
            reason(Cause::CLOSED_EARLY)
                .because("in the dialogue before TLS, or with the proxy of connect-through"),
        ),
        _ => ConnectFailure::leg(broken),
    }
}

/// Waits for the greeting, and returns the part for the client. `spoken`: bytes that the backend has already sent.
pub(super) async fn receive_greeting<R: Runtime, C: Cancellation>(
    leg: &mut Leg<R::Socket>,
    mut greeting: Greeting,
    mut spoken: Vec<u8>,
    context: &mut ConnectContext<'_, C>,
) -> Result<Vec<u8>, ConnectFailure> {
    let mut is_late = false;
    loop {
        if spoken.is_empty() {
            let received = read(leg, &mut context.buffers.borrow_mut()).map_err(ConnectFailure::Attempt)?;
            spoken = received.unwrap_or_default();
        }
        let is_silent = spoken.is_empty();
        if !is_silent {
            let greeted = greeting.take(&std::mem::take(&mut spoken));
            match greeted.map_err(|problem| ConnectFailure::Attempt(of_problem(&problem)))? {
                Greeted::More => {}
                Greeted::Ready(words) | Greeted::Refused { words, .. } => return Ok(words),
            }
        }
        if context.is_late::<R>() {
            return Err(Stage::Greeting.deadline());
        }
        if is_silent {
            context.wait_in::<R>(Stage::Greeting, &mut is_late).await?;
        }
    }
}

/// Reads once from a backend, after sending waiting bytes; returns the bytes that it sent.
///
/// **Errors**: the leg broke, or the backend closed it.
pub(crate) fn read<S: Socket>(
    backend: &mut Leg<S>,
    scratch: &mut Scratch,
) -> Result<Option<Vec<u8>>, CloseReason> {
    backend.send_flight().map_err(|broken| CloseReason::broken(Step::Connect, &broken))?;
    let received = read_once(backend, scratch)?.unwrap_or_default();
    if received.is_empty() && backend.has_ended() {
        return Err(reason(Cause::CLOSED_EARLY).because("before it was ready"));
    }
    Ok(Some(received).filter(|received| !received.is_empty()))
}

/// Reads once from either side; the plaintext, if the socket gave anything.
///
/// **Errors**: the leg broke.
pub(crate) fn read_once<S: Socket>(
    leg: &mut Leg<S>,
    scratch: &mut Scratch,
) -> Result<Option<Vec<u8>>, CloseReason> {
    let broken = |broken: Broken| CloseReason::broken(Step::Connect, &broken);
    let got = leg.read(scratch, READ).map_err(broken)?;
    leg.answer(scratch, got.failed.is_some()).map_err(broken)?;
    if let Some(failed) = got.failed {
        return Err(broken(failed));
    }
    let plaintext = leg.plaintext(&scratch.received, &scratch.plaintext, got.length);
    Ok(got.moved.then(|| plaintext.to_vec()))
}
