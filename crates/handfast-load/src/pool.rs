//! The pool of kept connections: arrivals of an open model that wait for a free connection, free connections
//! that wait for an arrival, and the required number of connections.
//!
//! In: arrivals when they are due. Out: to each connection its next one; and the request for more connections, a few in
//! advance. In a closed model every connection is always busy, and their number is fixed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, TaskHandle};

use crate::arrival_queue::ArrivalQueue;
use crate::context::{Caller, ThreadContext};
use crate::dispatcher::{Arrived, Service};
use crate::failure::StepFailure;
use crate::opener::{Opener, Permit};
use crate::plan::{Plan, Work};

/// Spare connections of a thread, so that an arrival does not wait for a handshake.
const AHEAD: u32 = 2;

/// A thread's kept connections.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) opener: Rc<Opener>,
    arrivals: ArrivalQueue,
    /// Most connections.
    most: u32,
    free: RefCell<VecDeque<Rc<Waiter>>>,
    /// Connections that are free.
    spare: Cell<u32>,
    /// Connections that were called for an arrival and have not taken it yet.
    called: Cell<u32>,
}

/// A connection's place in the queue for arrivals.
#[derive(Debug)]
pub(crate) struct Waiter {
    task: TaskHandle,
    state: Cell<State>,
    /// True while it is in the queue.
    queued: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Busy,
    Free,
    Called,
}

impl Waiter {
    /// That of the current task.
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { task: engine::current(), state: Cell::new(State::Busy), queued: Cell::new(false) })
    }
}

/// Failure of a kept connection.
#[derive(Debug)]
pub(crate) enum Ending {
    /// No transaction was under way.
    Unused(StepFailure),
    /// The transaction that was under way failed with it.
    Failed(StepFailure),
    /// The transactions that were under way have been counted.
    Counted,
}

impl Pool {
    /// For `most` connections of a thread that has one of `parts` parts of the arrivals; `took` is how long an exchange
    /// takes, as far as is known.
    pub(crate) fn new(
        arrivals: ArrivalQueue,
        plan: &Plan,
        most: u32,
        parts: u64,
        took: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            opener: Opener::new(first(plan, most, parts, took), true),
            arrivals,
            most,
            free: RefCell::default(),
            spare: Cell::new(0),
            called: Cell::new(0),
        })
    }

    fn put(&self, intended: Moment) -> Arrived {
        if !self.arrivals.put(intended) {
            return Arrived::Dropped;
        }
        let called = self.call();
        self.request_connections();
        match called {
            true => Arrived::Served,
            false if self.opener.open_connections() + self.opener.opening() < self.most => Arrived::Opening,
            false if self.opener.opening() > 0 => Arrived::Opening,
            false => Arrived::Full,
        }
    }

    /// Wakes a free connection, in turn, so that each is used. Connections that have left the queue are
    /// skipped.
    fn call(&self) -> bool {
        let mut free = self.free.borrow_mut();
        while let Some(waiter) = free.pop_front() {
            waiter.queued.set(false);
            if waiter.state.get() == State::Free {
                self.change(&waiter, State::Called);
                waiter.task.wake();
                return true;
            }
        }
        false
    }

    fn change(&self, waiter: &Waiter, state: State) {
        let count = |state| match state {
            State::Busy => None,
            State::Free => Some(&self.spare),
            State::Called => Some(&self.called),
        };
        if let Some(count) = count(waiter.state.replace(state)) {
            count.set(count.get() - 1);
        }
        if let Some(count) = count(state) {
            count.set(count.get() + 1);
        }
    }

    /// Requests a connection for each waiting arrival, and a few more.
    fn request_connections(&self) {
        if self.arrivals.is_closed_model() {
            return;
        }
        let needed = u32::try_from(self.arrivals.waiting()).unwrap_or(u32::MAX).saturating_add(AHEAD);
        let there = self.opener.open_connections() + self.opener.opening();
        let coming = self.spare.get() + self.called.get() + self.opener.opening();
        self.opener.set_required(there.saturating_add(needed.saturating_sub(coming)).min(self.most));
    }

    /// Intended start of the connection's next exchange, if there is one now.
    pub(crate) fn next(&self, context: &ThreadContext, waiter: &Waiter) -> Option<Moment> {
        let next = self.arrivals.take(context)?;
        self.change(waiter, State::Busy);
        Some(next)
    }

    /// Marks the waiter's connection as free.
    pub(crate) fn offer(&self, waiter: &Rc<Waiter>) {
        self.change(waiter, State::Free);
        if !waiter.queued.replace(true) {
            self.free.borrow_mut().push_back(Rc::clone(waiter));
        }
    }

    /// The waiter's connection has ended.
    pub(crate) fn leave(&self, waiter: &Waiter) {
        let called = waiter.state.get() == State::Called;
        self.change(waiter, State::Busy);
        // Another connection takes its arrival.
        if called {
            self.call();
        }
    }

    /// Gives back what a connection has not begun, late as it is.
    pub(crate) fn give_back(&self, context: &ThreadContext, intended: Moment) {
        if context.is_over() {
            context.record().never_begun(1);
            return;
        }
        self.arrivals.give_back(intended);
        self.call();
    }

    /// A connection has ended; with the failure, unless it succeeded or the target ended it between exchanges.
    pub(crate) fn ended(
        &self,
        context: &ThreadContext,
        permit: Permit,
        caller: Caller,
        ending: Option<Ending>,
    ) {
        let by_error = match &ending {
            None => false,
            Some(Ending::Unused(failure)) => !failure.is_end(),
            Some(Ending::Failed(_) | Ending::Counted) => true,
        };
        // In an open model, some connections are idle for the whole run, and every target has an idle timeout.
        let idle_may_end = !by_error && !self.arrivals.is_closed_model() && context.has_begun();
        let shed = ending.is_some() && permit.ended(idle_may_end);
        drop(permit);
        if shed {
            context.record().shed();
        }
        match ending {
            Some(Ending::Failed(failure)) => context.record().failed(caller.member, failure, Moment::now()),
            Some(Ending::Unused(failure)) if shed || by_error => self.unused(context, caller, shed, &failure),
            _ => {}
        }
        if self.arrivals.is_closed_model() && context.is_over() {
            context.record().never_begun(self.arrivals.drain());
        } else if context.has_begun() {
            self.request_connections();
        } else if !self.arrivals.is_closed_model() && shed {
            // The target sheds them, and nothing needs them yet: open no more in advance.
            self.opener.set_required(self.opener.open_connections() + self.opener.opening());
        }
    }

    /// A connection failed without a transaction on it. In a closed model it would have had
    /// one. In an open model the waiting arrivals fail only if no connection is open or being opened to serve them:
    /// then the target is unreachable for them.
    fn unused(&self, context: &ThreadContext, caller: Caller, shed: bool, failure: &StepFailure) {
        let nobody = self.opener.open_connections() + self.opener.opening() == 0;
        let failed = match (self.arrivals.is_closed_model(), context.has_begun()) {
            (true, true) => 1,
            (false, true) if shed && nobody => self.arrivals.drain(),
            _ => 0,
        };
        if failed == 0 {
            context.record().incident(failure.clone());
        }
        (0..failed).for_each(|_| context.record().failed(caller.member, failure.clone(), Moment::now()));
    }
}

impl Service for Pool {
    /// A free connection has it, or it waits for one that becomes free or is opened.
    fn arrive(self: &Rc<Self>, _: &Rc<ThreadContext>, intended: Moment) -> Arrived {
        self.put(intended)
    }

    fn give_up(&self) -> u64 {
        self.arrivals.drain()
    }
}

/// Number of connections that are opened before the run begins: in a closed model all of them; in an open one twice the number of
/// exchanges that will be under way, by the duration of one of them, and a few more.
fn first(plan: &Plan, most: u32, parts: u64, took: Duration) -> u32 {
    let Some(rates) = plan.rates() else { return most };
    let streams = if let Work::Http { streams, .. } = plan.work { streams.max(1) } else { 1 };
    let under_way = rates.peak() / parts.max(1) as f64 * took.as_secs_f64() / f64::from(streams);
    // A float beyond u32 becomes its greatest.
    ((under_way * 2.0).ceil() as u32).saturating_add(AHEAD).min(most)
}

#[cfg(test)]
mod tests;
