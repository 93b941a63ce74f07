//! Due arrivals are handed out in their order; arrivals without room wait, within bounds; arrivals that never begin are counted.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::*;
use crate::arrival_queue::ArrivalQueue;
use crate::context::testing::{on_engine, tally, thread};
use crate::plan::{Arrivals, Model, Plan};
use crate::pool::Pool;
use crate::sample::Tally;
use crate::slots::Slots;

const MINUTE: Duration = Duration::from_secs(60);

/// Ten arrivals a second for ten seconds, at fixed distances.
fn plan() -> Plan {
    let model = Model::open(10.0, Arrivals::Fixed);
    Plan { model, duration: Duration::from_secs(10), ..Plan::default() }
}

fn schedule(plan: &Plan) -> Schedule {
    Schedule::new(&plan.model, plan.duration, 0, 1, plan.seed).expect("an open model")
}

/// Begins everything at once, and notes when it was meant to begin.
#[derive(Default)]
struct Notes(RefCell<Vec<Moment>>);

impl Service for Notes {
    fn arrive(self: &Rc<Self>, _: &Rc<ThreadContext>, intended: Moment) -> Arrived {
        self.0.borrow_mut().push(intended);
        Arrived::Served
    }

    fn give_up(&self) -> u64 {
        0
    }
}

#[test]
fn arrivals_are_handed_out_when_they_are_due_and_not_before() {
    let start = Moment::now();
    let (context, seconds) = thread(&plan(), start, start + MINUTE);
    let notes = Rc::new(Notes::default());
    let mut dispatcher = Dispatcher::new(schedule(&plan()), start, Rc::clone(&notes));
    let after = |millis| start + Duration::from_millis(millis);
    dispatcher.hand_out(&context, after(0));
    assert_eq!(*notes.0.borrow(), [start]);
    assert_eq!(dispatcher.next, Some(after(100)), "for the alarm");
    dispatcher.hand_out(&context, after(99));
    assert_eq!(notes.0.borrow().len(), 1);
    // The thread slept: what is overdue keeps its moment.
    dispatcher.hand_out(&context, after(450));
    assert_eq!(*notes.0.borrow(), [0, 100, 200, 300, 400].map(after));
    dispatcher.hand_out(&context, start + MINUTE);
    assert_eq!((notes.0.borrow().len(), dispatcher.next), (100, None), "the schedule is as long as the run");
    dispatcher.give_up(&context);
    assert_eq!(tally(&context, &seconds), Tally::default(), "all of them began");
}

/// Hands out five of ten seconds to a service of which nothing can begin, and gives up.
fn in_vain<S: Service>(service: impl FnOnce(&Plan, ArrivalQueue) -> Rc<S>) -> (Tally, Tally) {
    let (plan, start) = (plan(), Moment::now());
    let (context, seconds) = thread(&plan, start, start + plan.duration);
    let service = service(&plan, ArrivalQueue::at_most(&plan, 30));
    let mut dispatcher = Dispatcher::new(schedule(&plan), start, service);
    dispatcher.hand_out(&context, start + Duration::from_millis(4_999));
    let waiting = tally(&context, &seconds);
    dispatcher.give_up(&context);
    (waiting, tally(&context, &seconds))
}

#[test]
fn over_the_bound_an_arrival_is_lost_and_counted_whoever_serves() {
    let (slots, given_up) = in_vain(|_, arrivals| Slots::new(arrivals, 0));
    assert_eq!(slots, Tally { queued: 30, unserved: 20, ..Tally::default() });
    let rest = Tally { unserved: 30 + 50, ..Tally::default() };
    assert_eq!(given_up, rest, "what waits, and what would have been due");
    // Of a pool that may have a connection, they wait for that one.
    let (pool, given_up) = in_vain(|plan, arrivals| Pool::new(arrivals, plan, 1, 1, Duration::ZERO));
    assert_eq!(pool, Tally { held: 30, unserved: 20, ..Tally::default() });
    assert_eq!(given_up, rest);
    let (pool, given_up) = in_vain(|plan, arrivals| Pool::new(arrivals, plan, 0, 1, Duration::ZERO));
    assert_eq!(pool, Tally { queued: 30, unserved: 20, ..Tally::default() });
    assert_eq!(given_up, rest);
}

#[test]
fn what_was_given_up_is_not_begun_when_a_lease_is_renewed() {
    let (plan, start) = (plan(), Moment::now());
    let (context, _seconds) = thread(&plan, start, start + MINUTE);
    let arrivals = ArrivalQueue::new(&plan);
    assert!(arrivals.put(start) && arrivals.put(start));
    context.lease(start);
    assert_eq!(arrivals.take(&context), None, "the lease is over");
    assert_eq!(arrivals.drain(), 2);
    context.lease(start + MINUTE);
    assert_eq!(arrivals.take(&context), None);
}

#[test]
fn an_open_model_begins_what_is_due_and_nothing_else() {
    let (plan, start) = (plan(), Moment::now());
    let (context, _seconds) = thread(&plan, start, start + MINUTE);
    let arrivals = ArrivalQueue::new(&plan);
    assert_eq!(arrivals.take(&context), None);
    let later = start + Duration::from_secs(1);
    assert!(arrivals.put(start) && arrivals.put(later));
    assert_eq!(arrivals.take(&context), Some(start));
    arrivals.give_back(start);
    assert_eq!([(); 3].map(|()| arrivals.take(&context)), [Some(start), Some(later), None]);
}

#[test]
fn a_closed_model_begins_the_next_one_at_once_from_the_start_to_the_end() {
    let plan = Plan { model: Model::Closed, ..plan() };
    let now = Moment::now();
    let (context, _seconds) = thread(&plan, now + MINUTE, now + MINUTE * 2);
    let arrivals = ArrivalQueue::new(&plan);
    assert_eq!(arrivals.take(&context), None, "not before the start");
    context.begin(now, now + MINUTE);
    let first = arrivals.take(&context).expect("it has begun");
    let second = arrivals.take(&context).expect("as many as are asked for");
    assert!(now <= first && first <= second && second <= Moment::now());
    // An arrival that a closing connection returns unprocessed keeps its due time, and comes first.
    arrivals.give_back(first);
    assert_eq!(arrivals.take(&context), Some(first));
    assert_eq!(arrivals.waiting(), 0);
    context.end_now();
    assert_eq!(arrivals.take(&context), None, "not after the end");
}

/// Looks at the clock when something comes.
#[derive(Default)]
struct Watch {
    handed_out: Cell<u64>,
    early: Cell<u64>,
}

impl Service for Watch {
    fn arrive(self: &Rc<Self>, _: &Rc<ThreadContext>, intended: Moment) -> Arrived {
        self.handed_out.set(self.handed_out.get() + 1);
        self.early.set(self.early.get() + u64::from(intended > Moment::now()));
        Arrived::Served
    }

    fn give_up(&self) -> u64 {
        0
    }
}

#[test]
fn the_loop_runs_until_the_end_and_accounts_for_every_arrival() {
    let plan = Plan { duration: Duration::from_millis(300), ..plan() };
    let plan = Plan { model: Model::open(1000.0, Arrivals::Fixed), ..plan };
    let (handed_out, early, tally, live) = on_engine(|| async move {
        let start = Moment::now();
        let (context, seconds) = thread(&plan, start, start + plan.duration);
        let watch = Rc::new(Watch::default());
        dispatch(Rc::clone(&context), schedule(&plan), Rc::clone(&watch)).await;
        (watch.handed_out.get(), watch.early.get(), tally(&context, &seconds), context.live())
    });
    // A busy machine may see the last ones only when the run is over.
    assert_eq!(handed_out + tally.unserved, 300, "{tally:?}");
    assert!(handed_out > 0 && early == 0);
    assert_eq!((tally.failed, live), (0, 0));
}
