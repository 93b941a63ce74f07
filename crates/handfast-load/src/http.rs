//! HTTP requests, 1.1 and 2, over hyper's client connections.
//!
//! In: the plan's requests and number of streams. Out: transactions, each counted like those of raw TLS: with HTTP/2 every
//! stream is one of its own.
//!
//! | question | file |
//! |---|---|
//! | what is sent | [`asks`] |
//! | how hyper reads and writes a wire | [`pipe`] |
//! | how it is polled, and what an answer is | [`connection`] |

mod asks;
mod connection;
mod pipe;

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::bench::{Bench, Caller, Phase};
use crate::close::close;
use crate::exchange::Times;
use crate::opener::Place;
use crate::plan::{Model, Work};
use crate::pool::{Ending, Pool, Seat};
use crate::sample::Series;
use crate::transaction::{count_exchange, fail_as, succeed};
use crate::trouble::{Cause, Step, Trouble};
pub(crate) use asks::{Ask, asks};
use connection::{Answer, Connection, Finished, Lost, Target};

fn target(work: &Work) -> Result<Target, Trouble> {
    match work {
        Work::Http { version, streams, .. } => Ok(Target { version: *version, streams: *streams }),
        _ => Err(Trouble::new(Step::Exchange, Cause::Internal, "a plan without HTTP was done as HTTP")),
    }
}

/// The request number `which` on a connection of its own, to see whether it works.
pub(crate) async fn rehearse(bench: &Rc<Bench>, caller: Caller, which: usize) -> Result<(), Trouble> {
    several(bench, caller, 1, || which, &mut || {}).await.map(|_| ())
}

/// A connection with the plan's number of requests on it.
pub(crate) async fn transaction(
    bench: &Rc<Bench>,
    caller: Caller,
    intended: Moment,
    stands: &mut dyn FnMut(),
) -> Result<(), Trouble> {
    let begun = Moment::now();
    let number = bench.plan.exchanges.unwrap_or(1);
    let done = several(bench, caller, number, || bench.next_request(), stands).await?;
    succeed(bench, caller, intended, begun, done);
    Ok(())
}

/// So many requests on a new connection, those that `which` says; when the last answer was there.
async fn several(
    bench: &Rc<Bench>,
    caller: Caller,
    number: u32,
    which: impl Fn() -> usize,
    stands: &mut dyn FnMut(),
) -> Result<Moment, Trouble> {
    let mut connection = Connection::open(bench, caller, target(&bench.plan.work)?).await?;
    stands();
    let mut left = number;
    let mut done = Moment::now();
    let mut ready_by = bench.deadline();
    loop {
        while left > 0 && connection.has_room() {
            connection.begin(Moment::now(), which());
            left -= 1;
        }
        while let Some(finished) = connection.next_finished() {
            done = judge(bench, &finished).map_err(|lost| match lost {
                Lost::NotSeen(trouble) | Lost::Failed(trouble) => trouble,
            })?;
            ready_by = bench.deadline();
        }
        if connection.is_idle() {
            if left == 0 {
                break;
            }
            if connection.is_closed() {
                let detail =
                    format!("the target closed the connection with {left} of {number} requests to go");
                return Err(Trouble::new(Step::Exchange, Cause::ClosedEarly, detail));
            }
            if Moment::now() >= ready_by {
                return Err(Trouble::deadline(Step::Exchange));
            }
        }
        connection.turn(if connection.is_idle() { ready_by } else { Moment::NEVER }).await;
    }
    if let Some(wire) = connection.into_wire() {
        close(bench, wire).await;
    }
    Ok(done)
}

/// Counts an answer, which is good if its status is none of an error; when it was there.
fn judge(bench: &Bench, finished: &Finished) -> Result<Moment, Lost> {
    let counted = bench.phase() != Phase::WarmUp;
    let Answer { status, first_byte, done } = match finished.outcome.clone() {
        Ok(answer) => answer,
        Err(lost) => {
            if counted
                && let (Lost::Failed(_), Some(sample)) =
                    (&lost, bench.sampler.borrow_mut().request(finished.which))
            {
                sample.failed += 1;
            }
            return Err(lost);
        }
    };
    let error = status.is_client_error() || status.is_server_error();
    if counted {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        let sampler = &mut *bench.sampler.borrow_mut();
        sampler.tally.http_status[class] += 1;
        if let Some(sample) = sampler.request(finished.which) {
            sample.status[class] += 1;
            sample.failed += u64::from(error);
            sample.done += u64::from(!error);
            if !error {
                sample.exchange.record(done.since(finished.began));
            }
        }
    }
    if error {
        let asked = match bench.plan.requests() {
            [_] => String::new(),
            several => {
                several.get(finished.which).map(|one| format!(" to {}", one.name())).unwrap_or_default()
            }
        };
        let detail = format!("the target answered {status}{asked}");
        return Err(Lost::Failed(Trouble::status(status.as_u16(), detail)));
    }
    count_exchange(bench, Times { began: finished.began, first_byte, done });
    Ok(done)
}

/// A kept connection: one request after the other, or as many at once as the plan says, until the run is over or the
/// target ends it between requests, as servers do after so many.
pub(crate) async fn kept(bench: Rc<Bench>, pool: Rc<Pool>, mut place: Place) {
    let _live = bench.enter();
    let seat = Seat::new();
    let caller = bench.draw();
    let ending = kept_connection(&bench, caller, &pool, &seat, &mut place).await;
    pool.leave(&seat);
    pool.ended(&bench, place, caller, ending.err());
}

async fn kept_connection(
    bench: &Rc<Bench>,
    caller: Caller,
    pool: &Pool,
    seat: &Rc<Seat>,
    place: &mut Place,
) -> Result<(), Ending> {
    let target = target(&bench.plan.work).map_err(Ending::Unused)?;
    let connection = Connection::open(bench, caller, target).await;
    let mut connection = connection.map_err(Ending::Unused)?;
    connection.finish_handshake().map_err(Ending::Unused)?;
    place.stands();
    bench.sampler.borrow_mut().tally.open += 1;
    let outcome = serve(bench, caller, &mut connection, pool, seat, place).await;
    {
        let tally = &mut bench.sampler.borrow_mut().tally;
        tally.open = tally.open.saturating_sub(1);
    }
    outcome?;
    if let Some(wire) = connection.into_wire() {
        close(bench, wire).await;
    }
    Ok(())
}

/// **Errors**: the target ended it without a single answer.
async fn serve(
    bench: &Rc<Bench>,
    caller: Caller,
    connection: &mut Connection,
    pool: &Pool,
    seat: &Rc<Seat>,
    place: &mut Place,
) -> Result<(), Ending> {
    // Requests that a closing connection never looked at begin again on another one, late as they are.
    let mut again = Vec::new();
    let (mut unseen, mut failed) = (None, false);
    loop {
        while connection.has_room() {
            let Some(intended) = pool.next(bench, seat) else {
                pool.offer(seat);
                break;
            };
            bench.sampler.borrow_mut().tally.started += 1;
            connection.begin(intended, bench.next_request());
        }
        while let Some(finished) = connection.next_finished() {
            bench.sampler.borrow_mut().tally.ended += 1;
            match settle(bench, caller, &finished) {
                Ok(()) => place.proved(),
                Err(Lost::Failed(trouble)) if trouble.cause == Cause::HttpStatus => place.proved(),
                Err(Lost::Failed(_)) => failed = true,
                Err(Lost::NotSeen(trouble)) => {
                    unseen = Some(trouble);
                    again.push(finished.intended);
                }
            }
        }
        if connection.is_idle() && (bench.is_over() || connection.is_closed()) {
            break;
        }
        let limit = if bench.is_over() { Moment::NEVER } else { bench.end() };
        connection.turn(limit).await;
    }
    let ending = match unseen {
        _ if place.is_proved() || bench.is_over() => Ok(()),
        _ if failed => Err(Ending::Counted),
        None => Err(Ending::Unused(connection.ended("the target ended before the first request"))),
        Some(trouble) => {
            // Without this a target that closes every connection would seem to be without fault.
            again.pop();
            Err(Ending::Failed(trouble))
        }
    };
    again.into_iter().rev().for_each(|intended| pool.give_back(bench, intended));
    ending
}

/// Counts a request that is over, but for one that the target never looked at.
fn settle(bench: &Bench, caller: Caller, finished: &Finished) -> Result<(), Lost> {
    let outcome = judge(bench, finished);
    if matches!(outcome, Err(Lost::NotSeen(_))) {
        return outcome.map(|_| ());
    }
    if bench.plan.model != Model::Closed {
        bench.sampler.borrow_mut().time(Series::Lag, finished.intended, finished.began);
    }
    match &outcome {
        Ok(done) => succeed(bench, caller, finished.intended, finished.began, *done),
        Err(Lost::NotSeen(trouble) | Lost::Failed(trouble)) => fail_as(bench, caller, trouble.clone()),
    }
    outcome.map(|_| ())
}

#[cfg(test)]
mod tests;
