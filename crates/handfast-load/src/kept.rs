//! Kept connections: one exchange after the other, or as many at once as the plan says, until the run is over or the target
//! ends the connection between exchanges, as servers do after a number of requests.
//!
//! In: arrivals, from the [`Pool`]. Out: transactions, each an exchange; and to the pool how the connection ended.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::connection::{Connection, Finished, Lost};
use crate::context::{Caller, ThreadContext};
use crate::failure::StepFailure;
use crate::opener::Permit;
use crate::pool::{Ending, Pool, Waiter};
use crate::standing::OpenGuard;
use crate::thinking::Thinking;

/// A connection, from the first byte to the last.
pub(crate) async fn kept<C: Connection>(context: Rc<ThreadContext>, pool: Rc<Pool>, permit: Permit) {
    let _active = context.enter();
    let mut driver = Driver {
        caller: context.draw(),
        waiter: Waiter::new(),
        permit,
        not_seen: Vec::new(),
        failed: false,
        thinking: Thinking::new(&context.plan),
        context: Rc::clone(&context),
        pool,
    };
    let ending = driver.connect_and_serve::<C>().await;
    let Driver { caller, waiter, permit, pool, thinking, .. } = driver;
    pool.leave(&waiter);
    thinking.rest(&context).await;
    pool.ended(&context, permit, caller, ending.err());
}

/// Driver of one kept connection.
struct Driver {
    context: Rc<ThreadContext>,
    pool: Rc<Pool>,
    caller: Caller,
    waiter: Rc<Waiter>,
    permit: Permit,
    /// The intended starts of exchanges that a closing connection never read: they begin again on another one, although
    /// late.
    not_seen: Vec<Moment>,
    /// True once an exchange failed, which has been counted.
    failed: bool,
    thinking: Thinking,
}

impl Driver {
    async fn connect_and_serve<C: Connection>(&mut self) -> Result<(), Ending> {
        let mut connection = C::open(&self.context, self.caller).await.map_err(Ending::Unused)?;
        let context = Rc::clone(&self.context);
        let standing = OpenGuard::new(&context);
        self.permit.set_open();
        connection.settle().await.map_err(Ending::Unused)?;
        let outcome = self.serve(&mut connection).await;
        drop(standing);
        self.give_back();
        outcome?;
        connection.close().await;
        Ok(())
    }

    /// **Errors**: the target ended it without a single answer, or it broke between exchanges.
    async fn serve<C: Connection>(&mut self, connection: &mut C) -> Result<(), Ending> {
        let mut unseen = None;
        loop {
            while let Some(finished) = connection.next_finished() {
                self.context.record().over();
                unseen = self.settle(finished).or(unseen);
            }
            self.begin(connection)?;
            if connection.is_idle() && (self.context.is_over() || connection.is_closed()) {
                break;
            }
            let limit = match self.context.is_over() {
                true => Moment::NEVER,
                false => self.context.end().min(self.thinking.next()),
            };
            connection.turn(limit).await;
        }
        if self.permit.is_proved() {
            return Ok(());
        }
        if self.failed {
            return Err(Ending::Counted);
        }
        if self.context.is_over() {
            return Ok(());
        }
        let Some(failure) = unseen else { return Err(Ending::Unused(connection.ended_unused())) };
        // Counted as failed and not repeated: otherwise a target that closes every connection would seem to work.
        self.not_seen.pop();
        Err(Ending::Failed(failure))
    }

    /// Begins due exchanges while there is room. With room left, offers the connection to the pool.
    fn begin<C: Connection>(&mut self, connection: &mut C) -> Result<(), Ending> {
        while !self.context.is_over() && connection.check_idle().map_err(Ending::Unused)? {
            if !self.thinking.may_begin(Moment::now()) {
                break;
            }
            let Some(intended) = self.pool.next(&self.context, &self.waiter) else {
                self.pool.offer(&self.waiter);
                break;
            };
            self.context.record().begun();
            self.thinking.began();
            connection.begin(intended, self.context.next_request());
        }
        Ok(())
    }

    /// Counts a finished exchange. An exchange that the target never read is not counted: returns the reason.
    fn settle(&mut self, finished: Finished) -> Option<StepFailure> {
        let Finished { intended, began, outcome } = finished;
        match &outcome {
            Err(Lost::NotSeen(_)) => self.thinking.gave_back(),
            _ => self.thinking.ended(&self.context, Moment::now()),
        }
        let lost = match outcome {
            Ok(done) => {
                self.permit.proved();
                let mut recorder = self.context.record();
                recorder.lag(intended, began);
                recorder.succeeded(self.caller.member, intended, began, done);
                return None;
            }
            Err(Lost::NotSeen(failure)) => {
                self.not_seen.push(intended);
                return Some(failure);
            }
            Err(lost) => lost,
        };
        match lost {
            // It carried an answer: it was not shed.
            Lost::Answered(_) => self.permit.proved(),
            _ => self.failed = true,
        }
        let mut recorder = self.context.record();
        recorder.lag(intended, began);
        recorder.failed(self.caller.member, lost.into_failure(), Moment::now());
        None
    }

    fn give_back(&mut self) {
        for intended in std::mem::take(&mut self.not_seen).into_iter().rev() {
            self.pool.give_back(&self.context, intended);
        }
    }
}
