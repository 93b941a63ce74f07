//! What is spoken before TLS, or to a proxy on the way: `opening.rs` has the words, here they are sent and received.

use handfast_leg::runtime::Runtime;
use handfast_leg::{Broken, Leg, Socket, Why};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use super::context::{Cancellation, ConnectContext, ConnectFailure, Stage};
use crate::backends::opening::Opening;

/// Ends when everything is said and the kernel has it: from then on other bytes are counted.
pub(super) async fn run<R: Runtime, C: Cancellation>(
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
        if is_late {
            return Err(Stage::Opening.deadline());
        }
        is_late = context.wait::<R>().await.map_err(|cancelled| cancelled.during(Stage::Opening))?;
    }
}

/// Takes in what has come; whether anything has.
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
        ConnectFailure::Attempt(refused.reason())
    })?;
    Ok(true)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_leg(broken: Broken) -> ConnectFailure {
    ConnectFailure::Attempt(match broken.why {
        Why::Truncated => CloseReason::new(Step::Connect, Side::Backend, Cause::CLOSED_EARLY)
            .because("in what is said before TLS, or to the proxy on the way"),
        _ => CloseReason::broken(Step::Connect, &broken),
    })
}
