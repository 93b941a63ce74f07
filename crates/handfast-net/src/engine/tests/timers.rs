//! Timers that are waited for by their wakers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use super::*;

fn waiting() -> usize {
    engine(|engine| engine.timers.borrow().len())
}

#[test]
fn several_in_one_task_come_in_their_order_and_not_early() {
    on_engine(|| async {
        give_up_after(Duration::from_secs(20));
        let begin = now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut timers: Vec<_> = [30, 10, 20, 10].map(|when| (when, Box::pin(timer(at(when))))).into();
        let mut order = Vec::new();
        std::future::poll_fn(|context| {
            timers.retain_mut(|(when, timer)| {
                let due = timer.as_mut().poll(context).is_ready();
                assert!(!due || Moment::now() >= at(*when), "{when} ms came early");
                if due {
                    order.push(*when);
                }
                !due
            });
            if timers.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(order, [10, 10, 20, 30]);
        assert_eq!(waiting(), 0);
    });
}

/// As in a set of futures that polls a part only when the part's own waker was called.
#[test]
fn the_waker_that_it_was_polled_with_last_is_the_one_that_is_called() {
    #[derive(Default)]
    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    on_engine(|| async {
        let (first, last) = (Arc::<Count>::default(), Arc::<Count>::default());
        let mut timer = std::pin::pin!(timer(now() + Duration::from_millis(10)));
        for count in [&first, &last] {
            let waker = Waker::from(Arc::clone(count));
            assert_eq!(timer.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        }
        assert_eq!(waiting(), 1);
        sleep(Duration::from_millis(40)).await;
        let calls = |count: &Count| count.0.load(Ordering::Relaxed);
        assert_eq!((calls(&first), calls(&last)), (0, 1));
        assert_eq!(
            engine(|engine| engine.next_timer.get()),
            Moment::NEVER,
            "no turn is spent on it any more"
        );
        assert_eq!(timer.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        // No waker is kept that is not needed any more.
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (1, 1));
    });
}

#[test]
fn what_is_dropped_leaves_nothing_and_wakes_nobody() {
    on_engine(|| async {
        let mut dropped: Vec<_> =
            (1..11).map(|ms| Box::pin(timer(now() + Duration::from_millis(ms)))).collect();
        // Within an iteration the clock does not advance.
        for timer in &mut dropped {
            assert_eq!(poll_once(timer.as_mut()).await, Poll::Pending);
        }
        assert_eq!(waiting(), 10);
        drop(dropped);
        assert_eq!(waiting(), 0);
        assert_eq!(wait(now() + Duration::from_millis(40)).await, Woken::Deadline);
    });
}

/// The engine calls wakers between two polls too, when the task that was polled last is still its present one.
#[test]
fn nobody_is_running_while_timers_are_rung() {
    struct Look(TaskHandle, AtomicU32);
    impl Wake for Look {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1 + u32::from(self.0.is_running()), Ordering::Relaxed);
        }
    }
    on_engine(|| async {
        let look = Arc::new(Look(current(), AtomicU32::new(0)));
        let mut timer = std::pin::pin!(timer(now() + Duration::from_millis(10)));
        let waker = Waker::from(Arc::clone(&look));
        assert_eq!(timer.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        assert_eq!(wait(now() + Duration::from_millis(50)).await, Woken::Deadline);
        assert_eq!(look.1.load(Ordering::Relaxed), 1);
    });
}

/// hyper asks for timers that may be sent away. The rest of one that ended elsewhere is removed at its moment.
#[test]
fn one_that_is_dropped_on_another_thread_goes_at_its_moment() {
    on_engine(|| async {
        let mut sent = Box::pin(timer(now() + Duration::from_millis(10)));
        assert_eq!(poll_once(sent.as_mut()).await, Poll::Pending);
        thread(move || drop(sent)).join().expect("a thread without an engine");
        assert_eq!(waiting(), 1);
        sleep(Duration::from_millis(40)).await;
        assert_eq!(waiting(), 0);
    });
}

#[test]
fn timers_of_the_same_moment_are_distinguished() {
    on_engine(|| async {
        give_up_after(Duration::from_secs(20));
        let moment = now() + Duration::from_millis(10);
        let done = Rc::new(RefCell::new(HashSet::new()));
        for number in 0..50 {
            let done = Rc::clone(&done);
            spawn(Priority::Flow, async move {
                timer(moment).await;
                done.borrow_mut().insert(number);
            });
        }
        while done.borrow().len() < 50 {
            timer(now() + Duration::from_millis(5)).await;
        }
    });
}
