//! The open model's loop: hands out arrivals when they are due, whatever the target does.
//!
//! In: a schedule, and a [`Service`] that begins transactions. Out: to the service each arrival at its moment; to the
//! recorder what became of those that did not begin at once, or at all. What waits is bounded by the service's
//! [`ArrivalQueue`](crate::arrival_queue::ArrivalQueue): an arrival beyond that counts as never begun.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Alarm};

use crate::context::ThreadContext;
use crate::failure::{Cause, Step, StepFailure};
use crate::schedule::Schedule;

/// What became of an arrival at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// It begins now.
    Served,
    /// It waits for a connection that is being opened.
    Opening,
    /// It waits, and there may be no more connections.
    Full,
    /// Too many wait already: it will never begin.
    Dropped,
}

/// Who begins transactions.
pub(crate) trait Service {
    /// A transaction is due that was meant to begin at `intended`: it begins, or waits.
    fn arrive(self: &Rc<Self>, context: &Rc<ThreadContext>, intended: Moment) -> Arrived;

    /// The run is over: how many have waited without success. They wait no more, so that no thread begins one that is counted as
    /// never begun, as could happen when a lease that had ended is renewed.
    fn give_up(&self) -> u64;
}

/// Hands out the arrivals of `schedule` until the run is over.
pub(crate) async fn dispatch(context: Rc<ThreadContext>, schedule: Schedule, service: Rc<impl Service>) {
    let _active = context.enter();
    let alarm = match Alarm::new() {
        Ok(alarm) => alarm,
        Err(error) => return context.record().failed_by_us(no_alarm(&error), Moment::now()),
    };
    let mut dispatcher = Dispatcher::new(schedule, context.start(), service);
    while !context.is_over() {
        dispatcher.hand_out(&context, Moment::now());
        if let Some(next) = dispatcher.next {
            alarm.set(next);
        }
        engine::wait(context.end()).await;
    }
    dispatcher.give_up(&context);
}

fn no_alarm(error: &std::io::Error) -> StepFailure {
    StepFailure::new(Step::Connect, Cause::OutOfFiles, format!("make the timer of the schedule: {error}"))
}

/// The loop's state: what is due next, and who begins it.
#[derive(Debug)]
struct Dispatcher<S> {
    schedule: Schedule,
    /// The start of the run, from which the schedule counts.
    start: Moment,
    next: Option<Moment>,
    service: Rc<S>,
}

impl<S: Service> Dispatcher<S> {
    fn new(schedule: Schedule, start: Moment, service: Rc<S>) -> Self {
        let mut dispatcher = Self { schedule, start, next: None, service };
        dispatcher.advance();
        dispatcher
    }

    fn advance(&mut self) {
        self.next = self.schedule.next().map(|after| self.start + after);
    }

    /// Hands out what is due at `now`.
    fn hand_out(&mut self, context: &Rc<ThreadContext>, now: Moment) {
        while let Some(intended) = self.next.filter(|next| *next <= now) {
            self.advance();
            match self.service.arrive(context, intended) {
                Arrived::Served => {}
                Arrived::Opening => context.record().held(),
                Arrived::Full => context.record().queued(),
                Arrived::Dropped => context.record().never_begun(1),
            }
        }
    }

    /// The run is over. What waits will never begin; nor will arrivals that were due before the end, and whose turn the
    /// thread slept or worked through.
    fn give_up(mut self, context: &ThreadContext) {
        let mut left = self.service.give_up();
        while self.next.is_some_and(|next| next < context.end()) {
            left += 1;
            self.advance();
        }
        context.record().never_begun(left);
    }
}

#[cfg(test)]
mod tests;
