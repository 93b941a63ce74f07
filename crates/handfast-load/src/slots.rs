//! Transactions with a separate connection each: a bounded number at once, in the closed and in the open model.
//!
//! In: arrivals, from the dispatcher or, in a closed model, from the end of the transaction before. Out: transactions.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Priority};

use crate::arrival_queue::ArrivalQueue;
use crate::context::ThreadContext;
use crate::dispatcher::{Arrived, Service};
use crate::opener::{Opener, Permit, pause};
use crate::work::transaction;

/// A thread's transactions of an open model, each on a separate connection. Those for which there is no room wait, and
/// count from when they were due.
#[derive(Debug)]
pub(crate) struct Slots {
    arrivals: ArrivalQueue,
    /// Most at once.
    most: u32,
    in_flight: Cell<u32>,
}

impl Slots {
    /// Room for so many at once.
    pub(crate) fn new(arrivals: ArrivalQueue, most: u32) -> Rc<Self> {
        Rc::new(Self { arrivals, most, in_flight: Cell::new(0) })
    }

    /// Begins waiting arrivals while there is room.
    fn begin(self: &Rc<Self>, context: &Rc<ThreadContext>) {
        while self.in_flight.get() < self.most
            && let Some(intended) = self.arrivals.take(context)
        {
            self.in_flight.set(self.in_flight.get() + 1);
            engine::spawn(Priority::Flow, Rc::clone(self).one(Rc::clone(context), intended));
        }
    }

    async fn one(self: Rc<Self>, context: Rc<ThreadContext>, intended: Moment) {
        let _active = context.enter();
        // The result has been counted.
        let _ = transaction(&context, intended, &mut || {}).await;
        self.in_flight.set(self.in_flight.get() - 1);
        self.begin(&context);
    }
}

impl Service for Slots {
    fn arrive(self: &Rc<Self>, context: &Rc<ThreadContext>, intended: Moment) -> Arrived {
        if !self.arrivals.put(intended) {
            return Arrived::Dropped;
        }
        self.begin(context);
        if self.arrivals.waiting() > 0 { Arrived::Full } else { Arrived::Served }
    }

    fn give_up(&self) -> u64 {
        self.arrivals.drain()
    }
}

/// The closed model: a fixed number of connections at once, each opened when the one before has ended, from the start of the run on.
pub(crate) async fn run_closed(context: Rc<ThreadContext>, connections: u32) {
    let arrivals = Rc::new(ArrivalQueue::new(&context.plan));
    let of_context = Rc::clone(&context);
    let slot = move |permit| one_after_the_other(Rc::clone(&of_context), Rc::clone(&arrivals), permit);
    open_in_the_run(context, connections, slot).await;
}

/// Opens so many connections, each once, from the start of the run on.
pub(crate) async fn open_in_the_run<F: Future<Output = ()> + 'static>(
    context: Rc<ThreadContext>,
    connections: u32,
    connection: impl Fn(Permit) -> F,
) {
    let _active = context.enter();
    context.wait_for_start().await;
    Opener::new(connections, false).run(context, connection).await;
}

/// A target that fails each transaction is asked less and less often.
async fn one_after_the_other(context: Rc<ThreadContext>, arrivals: Rc<ArrivalQueue>, permit: Permit) {
    let _active = context.enter();
    let (mut first, mut failures) = (Some(permit), 0);
    while let Some(intended) = arrivals.take(&context) {
        let mut on_open = || {
            if let Some(permit) = &mut first {
                permit.set_open();
            }
        };
        let good = transaction(&context, intended, &mut on_open).await.is_ok();
        if let Some(mut permit) = first.take() {
            if good {
                permit.proved();
            } else {
                permit.ended(false);
            }
        }
        failures = if good { 0 } else { failures + 1 };
        let least = if failures > 0 { pause(failures) } else { Duration::ZERO };
        let length = context.think_time().map_or(least, |think| think.max(least));
        if !length.is_zero() {
            context.pause(length).await;
        }
    }
}
