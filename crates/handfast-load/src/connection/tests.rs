//! The two loops over connections, on one that does what each test wants: what is counted, and what becomes of arrivals.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::arrival_queue::ArrivalQueue;
use crate::context::testing::{measured, on_engine, thread};
use crate::dispatcher::Service as _;
use crate::failure::{Cause, Step};
use crate::kept::kept;
use crate::plan::{Arrivals, Model};
use crate::pool::Pool;
use crate::sample::Interval;
use crate::transaction::transaction;

const MINUTE: Duration = Duration::from_secs(60);

/// Next event on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// The exchange that is under way ends well.
    Good,
    /// The answer says that it failed.
    Answered,
    /// It fails, and the connection with it.
    Failed,
    /// The target ends the connection and has not looked at it.
    NotSeen,
    /// The target ends the connection between exchanges.
    End,
    /// Data arrives that was not requested.
    Unasked,
    /// The run ends.
    Over,
}

thread_local! {
    static SCRIPT: RefCell<VecDeque<Deed>> = const { RefCell::new(VecDeque::new()) };
    static CLOSED: RefCell<u32> = const { RefCell::new(0) };
}

struct Scripted {
    context: Rc<ThreadContext>,
    under_way: Option<Moment>,
    finished: Option<Finished>,
    closed: bool,
    broken: bool,
}

fn failure(what: &str) -> StepFailure {
    StepFailure::new(Step::Exchange, Cause::ClosedEarly, what)
}

/// The next deed, if it is one of these.
fn next(deeds: &[Deed]) -> Option<Deed> {
    SCRIPT.with_borrow_mut(|script| {
        let deed = script.front().copied().filter(|deed| deeds.contains(deed))?;
        script.pop_front();
        Some(deed)
    })
}

impl Connection for Scripted {
    fn exchanges(plan: &Plan) -> u32 {
        plan.exchanges.unwrap_or(1)
    }

    async fn open(context: &Rc<ThreadContext>, _: Caller) -> Result<Self, StepFailure> {
        let context = Rc::clone(context);
        Ok(Self { context, under_way: None, finished: None, closed: false, broken: false })
    }

    async fn settle(&mut self) -> Result<(), StepFailure> {
        Ok(())
    }

    fn check_idle(&mut self) -> Result<bool, StepFailure> {
        match next(&[Deed::End, Deed::Unasked, Deed::Over]) {
            Some(Deed::End) => self.closed = true,
            Some(Deed::Unasked) => {
                return Err(StepFailure::new(Step::Exchange, Cause::WrongBytes, "unasked"));
            }
            Some(_) => self.context.end_now(),
            None => {}
        }
        Ok(self.has_room())
    }

    fn has_room(&self) -> bool {
        self.under_way.is_none() && !self.closed
    }

    fn begin(&mut self, intended: Moment, _: usize) {
        self.under_way = Some(intended);
    }

    fn next_finished(&mut self) -> Option<Finished> {
        self.finished.take()
    }

    fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.finished.is_none()
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    async fn turn(&mut self, _: Moment) {
        let intended = self.under_way.take().expect("turned only while an exchange is under way");
        let deed = next(&[Deed::Good, Deed::Answered, Deed::Failed, Deed::NotSeen]).expect("a deed for it");
        self.closed |= matches!(deed, Deed::Failed | Deed::NotSeen);
        self.broken |= deed == Deed::Failed;
        let outcome = match deed {
            Deed::Answered => Err(Lost::Answered(failure("it says so"))),
            Deed::Failed => Err(Lost::Failed(failure("it broke"))),
            Deed::NotSeen => Err(Lost::NotSeen(failure("it did not look"))),
            _ => Ok(Moment::now()),
        };
        // An end that comes together with the answer.
        self.closed |= next(&[Deed::End]).is_some();
        self.finished = Some(Finished { intended, began: intended, outcome });
    }

    async fn confirm(&mut self) -> Result<(), StepFailure> {
        Ok(())
    }

    fn ended_unused(&self) -> StepFailure {
        failure("before the first")
    }

    async fn close(self) {
        CLOSED.with_borrow_mut(|closed| *closed += u32::from(!self.broken));
    }
}

/// Measurements of one transaction of three exchanges, and the number of clean closes.
fn transaction_of_three(script: &'static [Deed]) -> (Interval, u32) {
    on_engine(move || async move {
        SCRIPT.set(script.iter().copied().collect());
        let plan = Plan { exchanges: Some(3), ..Plan::default() };
        let now = Moment::now();
        let (context, seconds) = thread(&plan, now, now + MINUTE);
        let mut stood = 0;
        let good = transaction::<Scripted>(&context, now, &mut || stood += 1).await.is_ok();
        assert_eq!(stood, 1);
        let measured = measured(&context, &seconds);
        assert_eq!(good, measured.tally.failed == 0);
        (measured, CLOSED.take())
    })
}

/// Transactions, failures, and the words for the first of these.
fn found(measured: &Interval) -> (u64, u64, &str) {
    let words = measured.failures.first().map_or("", |failures| failures.examples[0].as_str());
    (measured.tally.transactions, measured.tally.failed, words)
}

#[test]
fn a_transaction_is_all_of_its_exchanges_and_the_end() {
    let (measured, closed) = transaction_of_three(&[Deed::Good, Deed::Good, Deed::Good]);
    assert_eq!((found(&measured), closed), ((1, 0, ""), 1));
    assert_eq!((measured.tally.started, measured.tally.ended), (1, 1));
    let (measured, closed) = transaction_of_three(&[Deed::Good, Deed::Failed]);
    assert_eq!((found(&measured), closed), ((0, 1, "it broke"), 0));
    assert_eq!((measured.tally.started, measured.tally.ended), (1, 1));
    let (measured, _) = transaction_of_three(&[Deed::Good, Deed::Answered]);
    assert_eq!(found(&measured), (0, 1, "it says so"));
    let (measured, _) = transaction_of_three(&[Deed::Good, Deed::Good, Deed::End]);
    assert_eq!(found(&measured), (0, 1, "the target closed the connection with 1 of 3 requests to go"));
}

/// Measurements of one kept connection, the arrivals that are left, and whether it was closed cleanly.
/// In an open model three arrivals are due.
fn kept_until_the_end(model: Model, script: &'static [Deed]) -> (Interval, u64, u32) {
    on_engine(move || async move {
        SCRIPT.set(script.iter().copied().collect());
        let plan = Plan { exchanges: None, model, ..Plan::default() };
        let now = Moment::now();
        let (context, seconds) = thread(&plan, now, now + MINUTE);
        let arrivals = ArrivalQueue::new(&plan);
        if !arrivals.is_closed_model() {
            (0..3).for_each(|_| assert!(arrivals.put(now)));
        }
        let pool = Pool::new(arrivals, &plan, 1, 1, Duration::ZERO);
        let permit = pool.opener.permit();
        kept::<Scripted>(Rc::clone(&context), Rc::clone(&pool), permit).await;
        assert_eq!(context.live(), 0);
        assert!(SCRIPT.take().is_empty(), "everything happened");
        let measured = measured(&context, &seconds);
        assert_eq!((measured.tally.open, measured.tally.started), (0, measured.tally.ended));
        (measured, pool.give_up(), CLOSED.take())
    })
}

fn open() -> Model {
    Model::open(1.0, Arrivals::Fixed)
}

#[test]
fn a_kept_connection_has_one_exchange_after_the_other() {
    let (measured, left, closed) = kept_until_the_end(Model::Closed, &[Deed::Good, Deed::Good, Deed::Over]);
    assert_eq!((found(&measured), left, closed), ((2, 0, ""), 0, 1));
    let (measured, left, closed) = kept_until_the_end(open(), &[Deed::Good, Deed::Good, Deed::Over]);
    assert_eq!((found(&measured), left, closed), ((2, 0, ""), 1, 1));
}

#[test]
fn a_target_may_end_a_connection_that_carried_something() {
    let (measured, left, closed) = kept_until_the_end(open(), &[Deed::Good, Deed::End]);
    assert_eq!((found(&measured), left, closed), ((1, 0, ""), 2, 1));
    assert_eq!(measured.tally.shed, 0);
    // A transaction that the target did not visibly process is for another connection.
    let (measured, left, closed) = kept_until_the_end(open(), &[Deed::Good, Deed::NotSeen]);
    assert_eq!((found(&measured), left, closed), ((1, 0, ""), 2, 1));
    assert_eq!(measured.tally.shed, 0);
}

#[test]
fn a_connection_that_carried_nothing_was_shed() {
    let (measured, left, closed) = kept_until_the_end(open(), &[Deed::Failed]);
    assert_eq!((found(&measured), left, closed), ((0, 1, "it broke"), 2, 0));
    assert_eq!(measured.tally.shed, 1);
    let (measured, left, closed) = kept_until_the_end(open(), &[Deed::NotSeen]);
    assert_eq!((found(&measured), left, closed), ((0, 1, "it did not look"), 2, 0));
    assert_eq!(measured.tally.shed, 1, "or a target that closes every connection would be without fault");
    let (measured, _, closed) = kept_until_the_end(Model::Closed, &[Deed::End]);
    assert_eq!((found(&measured), closed), ((0, 1, "before the first"), 0));
    assert_eq!(measured.tally.shed, 1);
}

#[test]
fn an_answer_that_refuses_is_a_failure_on_a_good_connection() {
    let (measured, left, closed) =
        kept_until_the_end(open(), &[Deed::Answered, Deed::Answered, Deed::Failed]);
    assert_eq!((found(&measured), left, closed), ((0, 3, "it says so"), 0, 0));
    assert_eq!((measured.tally.shed, measured.tally.started), (0, 3), "it answered: it was not shed");
}

#[test]
fn what_nobody_asked_for_ends_the_connection_and_fails_no_arrival() {
    let (measured, left, closed) = kept_until_the_end(open(), &[Deed::Good, Deed::Unasked]);
    assert_eq!((found(&measured), left, closed), ((1, 0, "unasked"), 2, 0));
}
