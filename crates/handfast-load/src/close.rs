//! Step 3, close: which side ends a connection, and how. Errors in this step are reported and fail no transaction, since the
//! answer was already received.

use std::rc::Rc;

use crate::context::ThreadContext;
use crate::failure::{Step, StepFailure};
use crate::plan::Close;
use crate::wire::{Ended, Got, Wire};

/// Ends a connection as the plan says.
pub(crate) async fn close(context: &Rc<ThreadContext>, mut wire: Wire) {
    let outcome = match context.plan.close {
        // Dropping a stream resets it.
        Close::Reset => return,
        Close::Notify | Close::Fin => end_and_drain(context, &mut wire).await,
        Close::Server => wait_for_the_target(context, &mut wire).await,
    };
    match outcome {
        Ok(()) => wire.finish(),
        Err(failure) => context.record().incident(failure),
    }
}

/// Writes what is in the thread's buffer, and whatever ends our side by the plan; once. `word`: whether the target's
/// verdict about the handshake is still missing. A target without tickets sends it only after our end, so we send one even before
/// a reset; many servers answer close_notify only after the FIN.
pub(crate) fn end_our_side(
    context: &ThreadContext,
    wire: &mut Wire,
    word: bool,
    step: Step,
) -> Result<(), StepFailure> {
    let (notify, fin) = match context.plan.close {
        Close::Notify => (true, true),
        Close::Fin => (false, true),
        Close::Reset if word && !context.gives_tickets() => (true, true),
        Close::Reset | Close::Server => (false, false),
    };
    let scratch = &mut *context.scratch.borrow_mut();
    if notify {
        wire.close_notify(&mut scratch.records);
    }
    if !scratch.records.is_empty() {
        wire.write(&mut scratch.records, step)?;
    }
    if fin {
        wire.end_writing();
    }
    Ok(())
}

async fn end_and_drain(context: &Rc<ThreadContext>, wire: &mut Wire) -> Result<(), StepFailure> {
    end_our_side(context, wire, false, Step::Close)?;
    drain(context, wire).await
}

/// close_notify and FIN.
fn send_close(context: &ThreadContext, wire: &mut Wire) -> Result<(), StepFailure> {
    let scratch = &mut *context.scratch.borrow_mut();
    wire.close_notify(&mut scratch.records);
    wire.write(&mut scratch.records, Step::Close)?;
    wire.end_writing();
    Ok(())
}

/// Reads to the target's end, since unread data would turn our end into a reset. Tickets may be among that data.
async fn drain(context: &ThreadContext, wire: &mut Wire) -> Result<(), StepFailure> {
    let deadline = context.deadline();
    loop {
        // After close_notify a FIN is still to come; it need not be waited for.
        let got = wire.read(&mut context.scratch.borrow_mut(), Step::Close, &mut |_| {})?;
        match got {
            Got::Something => {}
            Got::Nothing => {
                wire.wait(deadline, Step::Close).await?;
                wire.flush(Step::Close)?;
            }
            Got::End => return Ok(()),
        }
    }
}

async fn wait_for_the_target(context: &ThreadContext, wire: &mut Wire) -> Result<(), StepFailure> {
    drain(context, wire).await?;
    let orderly = wire.ended() == Ended::Orderly;
    send_close(context, wire)?;
    if orderly { Ok(()) } else { Err(wire.ended_early(Step::Close, "the target ended without close_notify")) }
}
