//! HTTP GET, 1.1 and 2, over hyper's client connections.
//!
//! In: the plan's URL and number of streams. Out: transactions, each counted like those of raw TLS: with HTTP/2 every
//! stream is one of its own.
//!
//! | question | file |
//! |---|---|
//! | how hyper reads and writes a wire | [`pipe`] |
//! | how it is polled, and what an answer is | [`connection`] |

mod connection;
mod pipe;

use std::collections::VecDeque;
use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine;

use crate::bench::{Bench, Phase};
use crate::close::close;
use crate::exchange::Times;
use crate::plan::{Model, Work};
use crate::sample::Series;
use crate::standing::{AFTER_FAILURE, Arrivals, Seat, wait_for_the_start};
use crate::transaction::{count_exchange, fail, succeed};
use crate::trouble::{Step, Trouble};
use connection::{Answer, Connection, Finished, Lost, Target};

fn target(work: &Work) -> Result<Target<'_>, Trouble> {
    match work {
        Work::Http { version, authority, path, streams } => {
            Ok(Target { version: *version, authority, path, streams: *streams })
        }
        _ => Err(Trouble::new(Step::Exchange, "internal", "a plan without HTTP was done as HTTP")),
    }
}

/// One GET on a connection of its own, to see whether it works.
pub(crate) async fn rehearse(bench: &Rc<Bench>) -> Result<(), Trouble> {
    several(bench, false, 1).await.map(|_| ())
}

/// A connection with the plan's number of requests on it.
pub(crate) async fn transaction(bench: &Rc<Bench>, intended: Moment) -> Result<(), Trouble> {
    let begun = Moment::now();
    let done = several(bench, bench.draw_resume(), bench.plan.exchanges.unwrap_or(1)).await?;
    succeed(bench, intended, begun, done);
    Ok(())
}

/// So many requests on a new connection; when the last answer was there.
async fn several(bench: &Rc<Bench>, resume: bool, number: u32) -> Result<Moment, Trouble> {
    let mut connection = Connection::open(bench, resume, target(&bench.plan.work)?).await?;
    let mut left = number;
    let mut done = Moment::now();
    let mut ready_by = bench.deadline();
    loop {
        while left > 0 && connection.has_room() {
            connection.begin(Moment::now());
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
                return Err(Trouble::new(Step::Exchange, "left", detail));
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
    let Answer { status, first_byte, done } = finished.outcome.clone()?;
    if bench.phase() != Phase::WarmUp {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        bench.sampler.borrow_mut().tally.http_status[class] += 1;
    }
    if status.is_client_error() || status.is_server_error() {
        let detail = format!("the target answered {status}");
        return Err(Lost::Failed(Trouble::new(Step::Exchange, "http-status", detail)));
    }
    count_exchange(bench, Times { began: finished.began, first_byte, done });
    Ok(done)
}

/// A kept connection: one request after the other, or as many at once as the plan says, until the run is over; a new
/// connection when the target ends one between requests, as servers do after so many.
pub(crate) async fn kept(bench: Rc<Bench>, arrivals: Rc<Arrivals>) {
    let _live = bench.enter();
    let mut queue = Queue { arrivals, seat: Seat::new(), again: VecDeque::new() };
    while !bench.is_over() {
        if let Err(trouble) = kept_connection(&bench, &mut queue).await {
            fail(&bench, trouble);
            engine::sleep(AFTER_FAILURE).await;
        }
    }
    bench.sampler.borrow_mut().tally.unserved += queue.again.len() as u64;
}

/// Requests of a kept connection that are to begin.
struct Queue {
    arrivals: Rc<Arrivals>,
    seat: Rc<Seat>,
    /// Requests that a closing connection never looked at: they begin again on the next one, late as they are.
    again: VecDeque<Moment>,
}

impl Queue {
    /// When the next request was meant to begin, if there is one.
    fn next(&mut self, bench: &Bench) -> Option<Moment> {
        let first = self.again.pop_front();
        first.or_else(|| match bench.plan.model {
            Model::Closed => Some(Moment::now()),
            _ => self.arrivals.take(&self.seat),
        })
    }
}

/// **Errors**: it did not come about, or the target ended it without a single answer.
async fn kept_connection(bench: &Rc<Bench>, queue: &mut Queue) -> Result<(), Trouble> {
    let mut connection = Connection::open(bench, bench.draw_resume(), target(&bench.plan.work)?).await?;
    connection.finish_handshake()?;
    wait_for_the_start(bench).await;
    bench.sampler.borrow_mut().tally.open += 1;
    let outcome = serve(bench, &mut connection, queue).await;
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

async fn serve(bench: &Rc<Bench>, connection: &mut Connection, queue: &mut Queue) -> Result<(), Trouble> {
    let mut answers = 0_u64;
    let mut unseen = None;
    loop {
        while !bench.is_over() && connection.has_room() {
            let Some(intended) = queue.next(bench) else {
                queue.arrivals.offer(&queue.seat);
                break;
            };
            connection.begin(intended);
        }
        while let Some(finished) = connection.next_finished() {
            match settle(bench, &finished) {
                None => answers += 1,
                Some(trouble) => {
                    unseen = Some(trouble);
                    queue.again.push_back(finished.intended);
                }
            }
        }
        if connection.is_idle() && (bench.is_over() || connection.is_closed()) {
            break;
        }
        let limit = if bench.is_over() { Moment::NEVER } else { bench.end() };
        connection.turn(limit).await;
    }
    if answers > 0 || bench.is_over() {
        return Ok(());
    }
    // Without this a target that closes every connection would seem to be without fault.
    queue.again.pop_front();
    Err(unseen
        .unwrap_or_else(|| Trouble::new(Step::Exchange, "left", "the target ended before the first request")))
}

/// Counts a request that is over; gives back why it is to begin again, if so.
fn settle(bench: &Bench, finished: &Finished) -> Option<Trouble> {
    let outcome = judge(bench, finished);
    if let Err(Lost::NotSeen(trouble)) = outcome {
        return Some(trouble);
    }
    if bench.plan.model != Model::Closed {
        bench.sampler.borrow_mut().time(Series::Lag, finished.intended, finished.began);
    }
    match outcome {
        Ok(done) => succeed(bench, finished.intended, finished.began, done),
        Err(Lost::NotSeen(trouble) | Lost::Failed(trouble)) => fail(bench, trouble),
    }
    None
}

#[cfg(test)]
mod tests;
