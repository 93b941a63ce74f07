//! The open model's loop: hands out arrivals when they are due, whatever the target does.
//!
//! In: a schedule, and a [`Service`] that begins transactions. Out: to the service each arrival when it is due; to the
//! recorder the arrivals that did not begin at once, or at all. The service's
//! [`ArrivalQueue`](crate::arrival_queue::ArrivalQueue) is bounded: an arrival beyond that counts as never begun.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Alarm};

use crate::context::ThreadContext;
use crate::failure::{Cause, Step, StepFailure};
use crate::schedule::Schedule;

/// The first result of an arrival.
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

/// Begins transactions.
pub(crate) trait Service {
    /// A transaction is due that was meant to begin at `intended`: it begins, or waits.
    fn arrive(self: &Rc<Self>, context: &Rc<ThreadContext>, intended: Moment) -> Arrived;

    /// The run is over: removes the waiting arrivals, and returns their number. Otherwise a thread could begin one that is
    /// counted as never begun, when an expired lease is renewed.
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

    /// The run is over. Waiting arrivals will never begin, nor will arrivals that were due before the end while the thread
    /// slept or was busy.
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
