//! HTTP requests, 1.1 and 2, over hyper's client connections.
//!
//! In: the plan's requests and number of streams. Out: a [`Connection`] whose exchanges are requests: with HTTP/2 as many at
//! once as there are streams, each timed by itself. How it is polled, and what an answer is: [`connection`].

mod connection;

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::close::close;
use crate::connection::{Connection, Finished, Lost};
use crate::context::{Caller, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};
use crate::plan::{Plan, Work};
use crate::recorder::Times;
use connection::{Answer, Target};

/// A connection that carries requests.
pub(crate) struct HttpConnection {
    context: Rc<ThreadContext>,
    driver: connection::Connection,
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
        Ok(Self { context: Rc::clone(context), driver })
    }

    async fn settle(&mut self) -> Result<(), StepFailure> {
        self.driver.finish_handshake()
    }

    fn look(&mut self) -> Result<bool, StepFailure> {
        // hyper reads whenever it is polled: what the target has ended is known by now.
        Ok(self.has_room())
    }

    fn has_room(&self) -> bool {
        self.driver.has_room()
    }

    fn begin(&mut self, intended: Moment, which: usize) {
        self.driver.begin(intended, which);
    }

    fn next_finished(&mut self) -> Option<Finished> {
        let connection::Finished { intended, began, which, outcome } = self.driver.next_finished()?;
        let outcome = match outcome {
            Ok(answer) => judge(&self.context, began, which, answer),
            Err(connection::Lost::NotSeen(trouble)) => Err(Lost::NotSeen(trouble)),
            Err(connection::Lost::Failed(trouble)) => {
                self.context.record().no_answer(which);
                Err(Lost::Failed(trouble))
            }
        };
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

/// Counts an answer, which is good if its status is expected; when it was there.
fn judge(context: &ThreadContext, began: Moment, which: usize, answer: Answer) -> Result<Moment, Lost> {
    let Answer { status, first_byte, done } = answer;
    // A final answer of 1xx is none, and cannot be expected: 101 changes the protocol, which was not requested (RFC 9110
    // §15.2.2).
    let error = !matches!(&context.plan.work, Work::Http { expect, .. } if expect.accepts(status.as_u16()));
    context.record().answer(which, status.as_u16(), error, Times { began, first_byte, done });
    if !error {
        return Ok(done);
    }
    let requested = match context.plan.requests() {
        [_] => String::new(),
        several => several.get(which).map(|one| format!(" to {}", one.name())).unwrap_or_default(),
    };
    let detail = format!("the target answered {status}{requested}");
    Err(Lost::Answered(StepFailure::status(status.as_u16(), detail)))
}

#[cfg(test)]
mod tests;
