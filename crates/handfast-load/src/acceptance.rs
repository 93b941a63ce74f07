//! Waits for the target's verdict on the handshake.
//!
//! A TLS 1.3 client completes the handshake before the target has checked the client's last flight, most of all its certificate
//! (RFC 9846 §2): a transaction without an answer would count as successful even if the target refused it. So the client
//! waits for the target's verdict, which is one of:
//!
//! | what comes | what it means |
//! |---|---|
//! | an alert | refused, and why |
//! | a ticket, or application data | accepted: a target sends them when it has read our Finished |
//! | close_notify | accepted: a target that refuses sends an alert |
//! | an end without close_notify, a reset, nothing in time | unknown, which counts as failed |
//!
//! A target without tickets sends nothing by itself. Our close_notify makes it answer with its own.

use std::rc::Rc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine;
use handfast_tls::session::Session;

use crate::close::end_our_side;
use crate::context::ThreadContext;
use crate::exchange::Opening;
use crate::failure::{Cause, Step, StepFailure};
use crate::wire::{Ended, Got, Wire};

/// The silence after which a connection that the target does not end counts as accepted, with a target that gives no tickets.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// Returns true if the end of the handshake shows the verdict: in TLS 1.2 the target sends the last message.
pub(crate) fn is_known(wire: &Wire) -> bool {
    wire.session().agreed().version != Some("TLSv1.3")
}

/// Sends the rest of the handshake, ends our side as the plan says, and waits for the target's verdict.
///
/// **Errors**: it refused, or its verdict is unknown.
pub(crate) async fn confirm(
    context: &Rc<ThreadContext>,
    wire: &mut Wire,
    opening: &mut Opening,
) -> Result<(), StepFailure> {
    let deadline = context.deadline();
    let known = is_known(wire);
    opening.prepare_flight(context);
    end_our_side(context, wire, !known, Step::Handshake)?;
    while !wire.is_flushed() {
        wire.wait(deadline, Step::Handshake).await?;
        wire.flush(Step::Handshake)?;
    }
    if known || wait(context, wire, deadline).await? {
        return Ok(());
    }
    let detail = "the target did not show in time whether it accepted the handshake";
    Err(StepFailure::new(Step::Handshake, Cause::Deadline, detail))
}

/// Waits until `limit` for the target's verdict; `false` if none came.
///
/// **Errors**: it refused, or ended without a verdict.
pub(crate) async fn wait(
    context: &ThreadContext,
    wire: &mut Wire,
    limit: Moment,
) -> Result<bool, StepFailure> {
    let mut data = false;
    loop {
        if wire.session().tickets_received() > 0 {
            context.note_ticket();
            return Ok(true);
        }
        if data || is_known(wire) {
            return Ok(true);
        }
        let got = {
            let scratch = &mut *context.scratch.borrow_mut();
            wire.read(scratch, Step::Handshake, &mut |_| data = true)?
        };
        match got {
            Got::Something => {}
            // Data or tickets in front of the end count.
            Got::End if data || wire.session().tickets_received() > 0 => {}
            Got::End if wire.ended() == Ended::Orderly => return Ok(true),
            Got::End => {
                let detail = "the target ended without showing whether it accepted the handshake";
                return Err(wire.ended_early(Step::Handshake, detail));
            }
            Got::Nothing => {
                if Moment::now() >= limit {
                    return Ok(false);
                }
                engine::wait(limit).await;
            }
        }
    }
}
