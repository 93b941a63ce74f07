//! Tests for the futures that are polled, and for the end of all of them.

use hyper::rt::Executor as _;

use super::*;
use crate::Driver;

#[test]
fn beyond_the_bound_a_task_is_dropped_and_there_is_room_again_when_one_has_ended() {
    on_engine(|| async {
        let (dropped, go) = (Rc::new(Cell::new(0)), Rc::new(Gate::default()));
        let mut driver = Driver::<Engine>::new(2);
        let tasks = driver.executor();
        let start = || {
            let (dropped, go) = (Dropped(Rc::clone(&dropped)), Rc::clone(&go));
            tasks.execute(async move {
                let _dropped = dropped;
                go.pass(3).await;
            });
        };
        (0..5).for_each(|_| start());
        assert_eq!((dropped.get(), driver.refused()), (3, 3));
        driver.drive(go.pass(3), soon::<Engine>()).await.expect("two are there, and this one");
        driver.drive(std::future::ready(()), soon::<Engine>()).await.expect("at once");
        assert_eq!(dropped.get(), 5, "they have ended");
        (0..3).for_each(|_| start());
        assert_eq!((dropped.get(), driver.refused()), (6, 4));
        drop((tasks, driver));
        assert_eq!(dropped.get(), 8, "the rest end with their driver");
    });
}

#[test]
fn nothing_is_polled_that_was_not_woken() {
    on_engine(|| async {
        let polls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&polls);
        let idle = std::future::poll_fn(move |_| {
            counted.set(counted.get() + 1);
            Poll::<()>::Pending
        });
        let mut driver = Driver::<Engine>::new(1);
        let ended = driver.drive(idle, engine::now() + Duration::from_millis(50)).await;
        assert_eq!((ended, polls.get()), (None, 1));
    });
}

/// A peer that keeps its connection busy has the thread for some rounds, and not forever.
#[test]
fn one_that_always_has_something_to_do_lets_the_others_run_and_ends_at_its_deadline() {
    on_engine(|| async {
        let others = Rc::new(Cell::new(0_u32));
        let counted = Rc::clone(&others);
        spawn(Priority::Flow, async move {
            loop {
                counted.set(counted.get() + 1);
                engine::yield_now().await;
            }
        });
        let polls = Rc::new(Cell::new(0_u32));
        let busy = std::future::poll_fn(|context| {
            polls.set(polls.get() + 1);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let mut driver = Driver::<Engine>::new(1);
        let ended = driver.drive(busy, engine::now() + Duration::from_millis(50)).await;
        assert_eq!(ended, None);
        assert!(
            others.get() > 10 && polls.get() <= others.get() * 16 + 32,
            "{} {}",
            others.get(),
            polls.get()
        );
    });
}

/// Another future of the same task, which is not driven, has its own wakes: a driver that took them for its own would let it
/// sleep.
#[test]
fn what_else_the_task_waits_for_is_not_forgotten() {
    on_engine(|| async {
        let gate = Rc::new(Gate::default());
        let mut beside = Box::pin(gate.pass(2));
        let mut driver = Driver::<Engine>::new(1);
        let mut driven = Box::pin(driver.drive(
            async {
                gate.pass(2).await;
                std::future::pending::<()>().await;
            },
            soon::<Engine>(),
        ));
        // The one beside is polled first, and what is driven opens the gate for it.
        std::future::poll_fn(|context| {
            let done = beside.as_mut().poll(context).is_ready();
            assert!(driven.as_mut().poll(context).is_pending());
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
}
