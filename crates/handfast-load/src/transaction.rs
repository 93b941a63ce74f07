//! One transaction on a separate connection: connect, shake hands, exchange, close; timed, counted, and reported when it failed.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::connection::{Connection, Lost};
use crate::context::{Caller, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};

/// Does one transaction with the intended start `intended`. Calls `on_open` when the handshake is over.
///
/// **Errors**: it failed, which has been counted.
pub(crate) async fn transaction<C: Connection>(
    context: &Rc<ThreadContext>,
    intended: Moment,
    on_open: &mut dyn FnMut(),
) -> Result<(), ()> {
    let begun = Moment::now();
    let caller = context.draw();
    context.record().begun();
    let number = C::exchanges(&context.plan);
    let which = || context.next_request();
    let outcome = attempt::<C>(context, caller, intended, (number, &which), on_open).await;
    let mut recorder = context.record();
    recorder.over();
    recorder.lag(intended, begun);
    outcome.map_err(|failure| recorder.failed(caller.member, failure, Moment::now()))
}

/// The whole transaction, with `number` exchanges of the requests that `which` selects; the caller counts failures.
pub(crate) async fn attempt<C: Connection>(
    context: &Rc<ThreadContext>,
    caller: Caller,
    intended: Moment,
    (number, which): (u32, &dyn Fn() -> usize),
    on_open: &mut dyn FnMut(),
) -> Result<(), StepFailure> {
    let begun = Moment::now();
    let mut connection = C::open(context, caller).await?;
    on_open();
    let mut left = number;
    let mut done = Moment::now();
    // Until when the connection must take the next exchange; looked at only while none is under way.
    let mut ready_by = None;
    loop {
        while let Some(finished) = connection.next_finished() {
            done = finished.outcome.map_err(Lost::into_failure)?;
            ready_by = None;
        }
        while left > 0 && connection.has_room() {
            connection.begin(Moment::now(), which());
            left -= 1;
        }
        let mut limit = Moment::NEVER;
        if connection.is_idle() {
            if left == 0 {
                break;
            }
            if connection.is_closed() {
                let detail =
                    format!("the target closed the connection with {left} of {number} requests to go");
                return Err(StepFailure::new(Step::Exchange, Cause::ClosedEarly, detail));
            }
            limit = *ready_by.get_or_insert_with(|| context.deadline());
            if Moment::now() >= limit {
                return Err(StepFailure::deadline(Step::Exchange));
            }
        }
        connection.turn(limit).await;
    }
    connection.confirm().await?;
    context.record().succeeded(caller.member, intended, begun, done);
    connection.close().await;
    Ok(())
}
