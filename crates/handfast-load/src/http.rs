//! HTTP requests, 1.1 and 2, over the messages and connections of `handfast-http`.
//!
//! In: the plan's requests and number of streams. Out: a [`Connection`] whose exchanges are requests: with HTTP/2 as many at
//! once as there are streams, each timed by itself.
//!
//! | I want to … | open |
//! |---|---|
//! | see what a turn of a connection reads and sends | `http/connection.rs` |
//! | know how a request is timed, and what an answer is | `http/in_flight.rs` |
//! | read the client of HTTP/1.1, of HTTP/2 | `http/http1_client.rs`, `http/http2_client.rs` |
//! | take values from answers | `http/sequence.rs` |

mod connection;
mod http1_client;
mod http2_client;
mod in_flight;
mod protocol;
mod sequence;

use std::rc::Rc;
use std::sync::Arc;

use handfast_net::clock::Moment;

use crate::close::close;
use crate::connection::{Connection, Finished, Lost};
use crate::context::{Caller, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};
use crate::plan::{Plan, Work};
use crate::recorder::Times;
use connection::Target;
use in_flight::CompleteResponse;
use sequence::{Sequence, Values};

/// A connection that carries requests.
pub(crate) struct HttpConnection {
    context: Rc<ThreadContext>,
    driver: connection::Connection,
    /// Set when the requests go in order.
    sequence: Option<Sequence>,
}

fn target(work: &Work) -> Result<Target, StepFailure> {
    match work {
        Work::Http { version, streams, .. } => Ok(Target { version: *version, streams: *streams }),
        _ => Err(StepFailure::new(Step::Exchange, Cause::Internal, "a plan without HTTP was done as HTTP")),
    }
}

impl Connection for HttpConnection {
    fn exchanges(plan: &Plan) -> u32 {
        plan.exchanges.unwrap_or(1)
    }

    async fn open(context: &Rc<ThreadContext>, caller: Caller) -> Result<Self, StepFailure> {
        let driver = connection::Connection::open(context, caller, target(&context.plan.work)?).await?;
        let sequence = context.plan.is_in_order().then(Sequence::default);
        Ok(Self { context: Rc::clone(context), driver, sequence })
    }

    async fn settle(&mut self) -> Result<(), StepFailure> {
        self.driver.finish_handshake()
    }

    fn check_idle(&mut self) -> Result<bool, StepFailure> {
        // Each turn reads to the end: what the target has ended is known by now.
        Ok(self.has_room())
    }

    fn has_room(&self) -> bool {
        // In order, the next request may need the answer before it.
        self.driver.has_room() && (self.sequence.is_none() || self.driver.is_idle())
    }

    fn begin(&mut self, intended: Moment, which: usize) {
        let (which, request) = match &self.sequence {
            Some(sequence) => (sequence.place(), sequence.fill(&self.context.requests[sequence.place()])),
            None => (which, Ok(Arc::clone(&self.context.requests[which]))),
        };
        self.driver.begin(intended, which, request);
    }

    fn next_finished(&mut self) -> Option<Finished> {
        let in_flight::Finished { intended, began, which, outcome } = self.driver.next_finished()?;
        let mut taken = None;
        let outcome = match outcome {
            Ok(answer) => judge(&self.context, began, which, answer).map(|(done, values)| {
                taken = Some(values);
                done
            }),
            Err(in_flight::Lost::NotSeen(failure)) => Err(Lost::NotSeen(failure)),
            Err(in_flight::Lost::Failed(failure)) => {
                self.context.record().no_answer(which);
                Err(Lost::Failed(failure))
            }
        };
        if let Some(sequence) = &mut self.sequence {
            sequence.ended(taken, self.context.requests.len());
        }
        Some(Finished { intended, began, outcome })
    }

    fn is_idle(&self) -> bool {
        self.driver.is_idle()
    }

    fn is_closed(&self) -> bool {
        self.driver.is_closed()
    }

    async fn turn(&mut self, limit: Moment) {
        self.driver.turn(limit).await;
    }

    async fn confirm(&mut self) -> Result<(), StepFailure> {
        // Every request has an answer.
        Ok(())
    }

    fn ended_unused(&self) -> StepFailure {
        self.driver.ended("the target ended before the first request")
    }

    async fn close(self) {
        if let Some(wire) = self.driver.into_wire() {
            close(&self.context, wire).await;
        }
    }
}

/// Counts an answer, which is good if its status is expected and it has the values that are taken from it; when it was there.
fn judge(
    context: &ThreadContext,
    began: Moment,
    which: usize,
    answer: CompleteResponse,
) -> Result<(Moment, Values), Lost> {
    let CompleteResponse { status, first_byte, done, taken } = answer;
    // A final answer of 1xx is none, and cannot be expected: 101 changes the protocol, which was not requested
    // (RFC 9110 §15.2.2).
    let expected = matches!(&context.plan.work, Work::Http { expect, .. } if expect.accepts(status.as_u16()));
    let error = !expected || taken.is_err();
    context.record().answer(which, status.as_u16(), error, Times { began, first_byte, done });
    let requested = || match context.plan.requests() {
        [_] => String::new(),
        several => several.get(which).map(|one| format!(" to {}", one.name())).unwrap_or_default(),
    };
    if expected {
        let missing = |what| StepFailure::new(Step::Exchange, Cause::Http, format!("{what}{}", requested()));
        return taken.map(|values| (done, values)).map_err(|what| Lost::Answered(missing(what)));
    }
    let detail = format!("the target answered {status}{}", requested());
    Err(Lost::Answered(StepFailure::status(status.as_u16(), detail)))
}

#[cfg(test)]
mod tests;
