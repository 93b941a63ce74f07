//! Wakers, as futures get them that know nothing of this engine.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::task::Waker;

use super::*;

/// Waits by its waker alone, which it leaves here, until it was polled `until` times; counts its polls.
#[derive(Clone, Default)]
struct Parked {
    waker: Rc<RefCell<Option<Waker>>>,
    polls: Rc<Cell<u32>>,
}

impl Parked {
    fn spawn(&self, until: u32) {
        let Self { waker, polls } = self.clone();
        let parked = std::future::poll_fn(move |context| {
            polls.set(polls.get() + 1);
            *waker.borrow_mut() = Some(context.waker().clone());
            if polls.get() < until { Poll::Pending } else { Poll::Ready(()) }
        });
        spawn(Priority::Flow, parked);
    }

    fn waker(&self) -> Waker {
        self.waker.borrow().clone().expect("it was polled")
    }
}

async fn turns(count: u32) {
    for _ in 0..count {
        yield_now().await;
    }
}

#[test]
fn a_waker_wakes_its_task_once_and_no_other() {
    on_engine(|| async {
        let (one, other) = (Parked::default(), Parked::default());
        one.spawn(u32::MAX);
        other.spawn(u32::MAX);
        turns(3).await;
        assert_eq!((one.polls.get(), other.polls.get()), (1, 1), "no task is polled without being woken");
        one.waker().wake_by_ref();
        one.waker().wake();
        turns(3).await;
        assert_eq!((one.polls.get(), other.polls.get()), (2, 1), "woken twice before it was its turn");
    });
}

#[test]
fn a_task_that_wakes_itself_is_polled_again_behind_the_others() {
    on_engine(|| async {
        let order = Rc::new(RefCell::new(Vec::new()));
        for name in ["a", "b"] {
            let order = Rc::clone(&order);
            let mut left = 3;
            let selfish = std::future::poll_fn(move |context| {
                order.borrow_mut().push(name);
                left -= 1;
                context.waker().wake_by_ref();
                if left > 0 { Poll::Pending } else { Poll::Ready(()) }
            });
            spawn(Priority::Flow, selfish);
        }
        turns(8).await;
        // The last wake of each was for a task that ended in the same breath.
        assert_eq!(*order.borrow(), ["a", "b", "a", "b", "a", "b"]);
        assert_eq!(tasks(), 1);
    });
}

#[test]
fn a_waker_that_outlives_its_task_does_not_wake_the_next_one_in_its_place() {
    on_engine(|| async {
        let (first, second) = (Parked::default(), Parked::default());
        first.spawn(2);
        turns(2).await;
        let stale = first.waker();
        stale.wake_by_ref();
        turns(2).await;
        assert_eq!((first.polls.get(), tasks()), (2, 1), "it has ended");
        second.spawn(u32::MAX);
        turns(2).await;
        stale.wake_by_ref();
        turns(2).await;
        assert_eq!(second.polls.get(), 1);
        // It is in the same place indeed, and has another waker.
        assert!(!second.waker().will_wake(&stale));
        let place = |waker: &Waker| TaskHandle::from_bits(waker.data().addr() as u64).task();
        assert_eq!(place(&second.waker()), place(&stale));
        second.waker().wake();
        turns(2).await;
        assert_eq!(second.polls.get(), 2);
    });
}

#[test]
fn a_waker_that_outlives_its_engine_wakes_nobody() {
    let (hand_over, wakers) = sync_channel(1);
    thread(move || {
        let start = || {
            let parked = std::future::poll_fn(move |context| {
                hand_over.send(context.waker().clone()).expect("the test waits");
                stop();
                Poll::<()>::Pending
            });
            spawn(Priority::Flow, parked);
        };
        run((), start).expect("an epoll instance");
    })
    .join()
    .expect("the engine's thread");
    let stale = wakers.recv().expect("it was polled");
    stale.wake_by_ref();
    on_engine(move || async move {
        stale.wake_by_ref();
        let other = Parked::default();
        other.spawn(u32::MAX);
        turns(3).await;
        stale.wake();
        turns(3).await;
        assert_eq!(other.polls.get(), 1);
    });
}

/// There and back a thousand times between an engine that sleeps and a thread that does.
#[test]
fn a_wake_from_another_thread_reaches_an_engine_that_sleeps() {
    on_engine(|| async {
        give_up_after(Duration::from_secs(20));
        static ROUND: AtomicU32 = AtomicU32::new(0);
        let (hand_over, wakers) = sync_channel::<Waker>(1);
        let thread = thread(move || {
            wakers.iter().for_each(|waker| {
                ROUND.fetch_add(1, Ordering::Release);
                waker.wake();
            });
        });
        for round in 1..=1000 {
            let mut is_polled = false;
            std::future::poll_fn(|context| {
                if !std::mem::replace(&mut is_polled, true) {
                    hand_over.send(context.waker().clone()).expect("the thread listens");
                }
                if ROUND.load(Ordering::Acquire) < round { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
        }
        drop(hand_over);
        thread.join().expect("the thread that wakes");
    });
}

/// More tasks than the list of tasks woken by name has room for.
#[test]
fn another_thread_can_wake_any_number_of_tasks_at_once() {
    on_engine(|| async {
        give_up_after(Duration::from_secs(20));
        let crowd: Vec<Parked> = (0..1000).map(|_| Parked::default()).collect();
        crowd.iter().for_each(|parked| parked.spawn(2));
        turns(2).await;
        let wakers: Vec<Waker> = crowd.iter().map(Parked::waker).collect();
        // Joined before this engine looks, so all of them are in one list.
        thread(move || wakers.into_iter().for_each(Waker::wake)).join().expect("the thread that wakes");
        while crowd.iter().any(|parked| parked.polls.get() < 2) {
            yield_now().await;
        }
        // The test's own task, and the one that gives up.
        assert_eq!(tasks(), 2);
    });
}

#[test]
fn a_task_runs_only_while_it_is_polled() {
    on_engine(|| async {
        let me = current();
        assert!(me.is_running());
        let (other, seen) = (Rc::new(Cell::new(TaskHandle::NONE)), Rc::new(Cell::new(None)));
        {
            let (other, seen) = (Rc::clone(&other), Rc::clone(&seen));
            spawn(Priority::Flow, async move {
                other.set(current());
                seen.set(Some((current().is_running(), me.is_running())));
                wait(Moment::NEVER).await;
            });
        }
        turns(2).await;
        assert_eq!(seen.get(), Some((true, false)));
        assert!(!other.get().is_running() && current() == me);
        assert_eq!(thread(move || me.is_running()).join().ok(), Some(false), "not on another thread");
    });
}
