//! A backend that speaks first: it counts as one that answered when its greeting is there.
//!
//! In: a leg that is connected, secured where TLS comes first. Out: what the backend sent that is the client's. A backend that is silent, ends
//! or greets in another protocol failed to connect: nothing has been given to the client yet, so the next backend can be tried. One that
//! refuses to serve in its own words has answered: they are the client's.

use handfast_leg::runtime::Runtime;
use handfast_leg::{Broken, Leg, Socket};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_tls::buffer::Scratch;
use handfast_wire::starttls::{Greeted, Greeting};

use super::context::{Cancellation, ConnectContext, ConnectFailure, Stage};
use crate::backends::opening::of_problem;

/// Waits for the greeting; what of it is the client's. `spoken`: what the backend has sent already.
pub(super) async fn receive<R: Runtime, C: Cancellation>(
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
        if is_late || context.is_late::<R>() {
            return Err(Stage::Greeting.deadline());
        }
        if is_silent {
            is_late = context.wait::<R>().await.map_err(|cancelled| cancelled.during(Stage::Greeting))?;
        }
    }
}

/// Reads once from a backend, after sending what waits; what it sent, if anything.
///
/// **Errors**: the leg broke, or the backend closed it.
pub(crate) fn read<S: Socket>(
    backend: &mut Leg<S>,
    scratch: &mut Scratch,
) -> Result<Option<Vec<u8>>, CloseReason> {
    let broken = |broken: Broken| CloseReason::broken(Step::Connect, &broken);
    backend.send_flight().map_err(broken)?;
    let got = backend.read(scratch, false).map_err(broken)?;
    backend.answer(scratch, got.failed.is_some()).map_err(broken)?;
    if let Some(failed) = got.failed {
        return Err(broken(failed));
    }
    let received = backend.plaintext(&scratch.received, &scratch.plaintext, got.length).to_vec();
    if received.is_empty() && backend.has_ended() {
        let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::CLOSED_EARLY);
        return Err(reason.because("before it was ready"));
    }
    Ok(Some(received).filter(|received| !received.is_empty()))
}
