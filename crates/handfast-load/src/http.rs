//! HTTP requests, 1.1 and 2, over hyper's client connections.
//!
//! In: the plan's requests and number of streams. Out: transactions, each counted like those of raw TLS: with HTTP/2 every
//! stream is one of its own.
//!
//! | question | file |
//! |---|---|
//! | how hyper reads and writes a wire | [`pipe`] |
//! | how it is polled, and what an answer is | [`connection`] |

mod connection;
mod pipe;

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::close::close;
use crate::context::{Caller, ThreadContext};
use crate::opener::Permit;
use crate::plan::Work;
use crate::pool::{Ending, Pool, Waiter};
use crate::recorder::Times;
use crate::trouble::{Step, Trouble};
use connection::{Answer, Connection, Finished, Lost, Target};

/// The cause's word of an answer that says that the request failed.
const HTTP_STATUS: &str = "http-status";

fn target(work: &Work) -> Result<Target, Trouble> {
    match work {
        Work::Http { version, streams, .. } => Ok(Target { version: *version, streams: *streams }),
        _ => Err(Trouble::new(Step::Exchange, "internal", "a plan without HTTP was done as HTTP")),
    }
}

/// The request number `which` on a connection of its own, to see whether it works.
pub(crate) async fn rehearse(
    context: &Rc<ThreadContext>,
    caller: Caller,
    which: usize,
) -> Result<(), Trouble> {
    several(context, caller, 1, || which, &mut || {}).await.map(|_| ())
}

/// A connection with the plan's number of requests on it.
pub(crate) async fn transaction(
    context: &Rc<ThreadContext>,
    caller: Caller,
    intended: Moment,
    stands: &mut dyn FnMut(),
) -> Result<(), Trouble> {
    let begun = Moment::now();
    let number = context.plan.exchanges.unwrap_or(1);
    let done = several(context, caller, number, || context.next_request(), stands).await?;
    context.record().succeeded(caller.member, intended, begun, done);
    Ok(())
}

/// So many requests on a new connection, those that `which` says; when the last answer was there.
async fn several(
    context: &Rc<ThreadContext>,
    caller: Caller,
    number: u32,
    which: impl Fn() -> usize,
    stands: &mut dyn FnMut(),
) -> Result<Moment, Trouble> {
    let mut connection = Connection::open(context, caller, target(&context.plan.work)?).await?;
    stands();
    let mut left = number;
    let mut done = Moment::now();
    let mut ready_by = context.deadline();
    loop {
        while left > 0 && connection.has_room() {
            connection.begin(Moment::now(), which());
            left -= 1;
        }
        while let Some(finished) = connection.next_finished() {
            done = judge(context, &finished).map_err(|lost| match lost {
                Lost::NotSeen(trouble) | Lost::Failed(trouble) => trouble,
            })?;
            ready_by = context.deadline();
        }
        if connection.is_idle() {
            if left == 0 {
                break;
            }
            if connection.is_closed() {
                let detail =
                    format!("the target closed the connection with {left} of {number} requests to go");
                return Err(Trouble::new(Step::Exchange, "closed-early", detail));
            }
            if Moment::now() >= ready_by {
                return Err(Trouble::deadline(Step::Exchange));
            }
        }
        connection.turn(if connection.is_idle() { ready_by } else { Moment::NEVER }).await;
    }
    if let Some(wire) = connection.into_wire() {
        close(context, wire).await;
    }
    Ok(done)
}

/// Counts an answer, which is good if its status is none of an error; when it was there.
fn judge(context: &ThreadContext, finished: &Finished) -> Result<Moment, Lost> {
    let Answer { status, first_byte, done } = match finished.outcome.clone() {
        Ok(answer) => answer,
        Err(lost) => {
            if matches!(lost, Lost::Failed(_)) {
                context.record().no_answer(finished.which);
            }
            return Err(lost);
        }
    };
    let error = status.is_client_error() || status.is_server_error();
    let times = Times { began: finished.began, first_byte, done };
    context.record().answer(finished.which, status.as_u16(), error, times);
    if error {
        let asked = match context.plan.requests() {
            [_] => String::new(),
            several => {
                several.get(finished.which).map(|one| format!(" to {}", one.name())).unwrap_or_default()
            }
        };
        let detail = format!("the target answered {status}{asked}");
        return Err(Lost::Failed(Trouble::new(Step::Exchange, HTTP_STATUS, detail)));
    }
    Ok(done)
}

/// A kept connection: one request after the other, or as many at once as the plan says, until the run is over or the
/// target ends it between requests, as servers do after so many.
pub(crate) async fn kept(context: Rc<ThreadContext>, pool: Rc<Pool>, mut permit: Permit) {
    let _live = context.enter();
    let waiter = Waiter::new();
    let caller = context.draw();
    let ending = kept_connection(&context, caller, &pool, &waiter, &mut permit).await;
    pool.leave(&waiter);
    pool.ended(&context, permit, caller, ending.err());
}

async fn kept_connection(
    context: &Rc<ThreadContext>,
    caller: Caller,
    pool: &Pool,
    waiter: &Rc<Waiter>,
    permit: &mut Permit,
) -> Result<(), Ending> {
    let target = target(&context.plan.work).map_err(Ending::Unused)?;
    let connection = Connection::open(context, caller, target).await;
    let mut connection = connection.map_err(Ending::Unused)?;
    connection.finish_handshake().map_err(Ending::Unused)?;
    permit.stands();
    context.record().opened();
    let outcome = serve(context, caller, &mut connection, pool, waiter, permit).await;
    context.record().closed();
    outcome?;
    if let Some(wire) = connection.into_wire() {
        close(context, wire).await;
    }
    Ok(())
}

/// **Errors**: the target ended it without a single answer.
async fn serve(
    context: &Rc<ThreadContext>,
    caller: Caller,
    connection: &mut Connection,
    pool: &Pool,
    waiter: &Rc<Waiter>,
    permit: &mut Permit,
) -> Result<(), Ending> {
    // Requests that a closing connection never looked at begin again on another one, late as they are.
    let mut again = Vec::new();
    let (mut unseen, mut failed) = (None, false);
    loop {
        while connection.has_room() {
            let Some(intended) = pool.next(context, waiter) else {
                pool.offer(waiter);
                break;
            };
            context.record().begun();
            connection.begin(intended, context.next_request());
        }
        while let Some(finished) = connection.next_finished() {
            context.record().over();
            match settle(context, caller, &finished) {
                Ok(()) => permit.proved(),
                Err(Lost::Failed(trouble)) if trouble.cause == HTTP_STATUS => permit.proved(),
                Err(Lost::Failed(_)) => failed = true,
                Err(Lost::NotSeen(trouble)) => {
                    unseen = Some(trouble);
                    again.push(finished.intended);
                }
            }
        }
        if connection.is_idle() && (context.is_over() || connection.is_closed()) {
            break;
        }
        let limit = if context.is_over() { Moment::NEVER } else { context.end() };
        connection.turn(limit).await;
    }
    let ending = match unseen {
        _ if permit.is_proved() || context.is_over() => Ok(()),
        _ if failed => Err(Ending::Counted),
        None => Err(Ending::Unused(connection.ended("the target ended before the first request"))),
        Some(trouble) => {
            // Without this a target that closes every connection would seem to be without fault.
            again.pop();
            Err(Ending::Failed(trouble))
        }
    };
    again.into_iter().rev().for_each(|intended| pool.give_back(context, intended));
    ending
}

/// Counts a request that is over, but for one that the target never looked at.
fn settle(context: &ThreadContext, caller: Caller, finished: &Finished) -> Result<(), Lost> {
    let outcome = judge(context, finished);
    if matches!(outcome, Err(Lost::NotSeen(_))) {
        return outcome.map(|_| ());
    }
    context.record().lag(finished.intended, finished.began);
    match &outcome {
        Ok(done) => {
            context.record().succeeded(caller.member, finished.intended, finished.began, *done);
        }
        Err(Lost::NotSeen(trouble) | Lost::Failed(trouble)) => {
            context.record().failed(caller.member, trouble.clone(), Moment::now());
        }
    }
    outcome.map(|_| ())
}

#[cfg(test)]
mod tests;
