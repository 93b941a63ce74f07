//! Tests for the guarantees to tasks.

mod letters;
mod moves;
mod timers;
mod wakers;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::*;

fn thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new().name("engine-test".into()).spawn(body).expect("a thread")
}

/// Runs `test` as a task on an engine of a new thread and passes a panic on.
pub(crate) fn on_engine<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    thread(move || {
        struct Panics(Rc<Cell<bool>>);
        impl Observer for Panics {
            fn turn(&mut self, _: Duration, _: usize) {}
            fn before_sleep(&mut self) {}
            fn panicked(&mut self) {
                self.0.set(true);
                stop();
            }
        }
        let panicked = Rc::new(Cell::new(false));
        run(Panics(Rc::clone(&panicked)), || {
            spawn(Priority::Flow, async move {
                test().await;
                stop();
            });
        })
        .expect("an epoll instance");
        assert!(!panicked.get(), "a task panicked; see above");
    })
    .join()
    .expect("the test's thread");
}

#[test]
fn deadlines_come_in_order_and_not_early() {
    on_engine(|| async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let begin = Moment::now();
        for ms in [30_u64, 10, 20] {
            let order = Rc::clone(&order);
            spawn(Priority::Flow, async move {
                sleep(Duration::from_millis(ms)).await;
                assert!(Moment::now().since(begin) >= Duration::from_millis(ms));
                order.borrow_mut().push(ms);
            });
        }
        sleep(Duration::from_millis(60)).await;
        assert_eq!(*order.borrow(), [10, 20, 30]);
    });
}

/// Polls once, as something does that waits for several things together.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Ends a test that hangs.
fn give_up_after(limit: Duration) {
    spawn(Priority::Flow, async move {
        sleep(limit).await;
        panic!("nothing happened within {limit:?}");
    });
}

#[test]
fn a_deadline_can_be_moved_both_ways() {
    on_engine(|| async {
        give_up_after(Duration::from_secs(20));
        let milliseconds = |count| now() + Duration::from_millis(count);
        // Armed far away, and then wanted soon.
        let mut far = std::pin::pin!(wait(milliseconds(3_600_000)));
        assert_eq!(poll_once(far.as_mut()).await, Poll::Pending);
        assert_eq!(wait(milliseconds(5)).await, Woken::Deadline);
        // Armed soon, and then wanted later: the one that is armed comes out of the wheel and wakes no task.
        let mut soon = std::pin::pin!(wait(milliseconds(8)));
        assert_eq!(poll_once(soon.as_mut()).await, Poll::Pending);
        let later = milliseconds(60);
        assert_eq!(wait(later).await, Woken::Deadline);
        assert!(Moment::now() >= later);
        // … and soon again, though the wheel has received the later one since.
        assert_eq!(poll_once(std::pin::pin!(wait(milliseconds(3_600_000)))).await, Poll::Pending);
        assert_eq!(wait(milliseconds(5)).await, Woken::Deadline);
    });
}

#[test]
fn a_panic_costs_one_task() {
    let survived = thread(|| {
        #[derive(Default)]
        struct Count(Rc<Cell<u32>>);
        impl Observer for Count {
            fn turn(&mut self, _: Duration, _: usize) {}
            fn before_sleep(&mut self) {}
            fn panicked(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let count = Rc::new(Cell::new(0));
        run(Count(Rc::clone(&count)), || {
            spawn(Priority::Flow, async { panic!("on purpose") });
            spawn(Priority::Flow, async {
                sleep(Duration::from_millis(5)).await;
                assert_eq!(tasks(), 1, "the task that panicked is gone");
                stop();
            });
        })
        .expect("an epoll instance");
        count.get()
    })
    .join()
    .expect("the thread survives");
    assert_eq!(survived, 1);
}

/// A thousand handshakes of 1 ms each are ready; a task that carries bytes still runs between any two of them.
#[test]
fn handshakes_do_not_starve_the_flow() {
    on_engine(|| async {
        let done = Rc::new(Cell::new(0_u32));
        for _ in 0..50 {
            let done = Rc::clone(&done);
            spawn(Priority::Handshake, async move {
                let begin = Moment::now();
                while Moment::now().since(begin) < Duration::from_millis(1) {}
                done.set(done.get() + 1);
            });
        }
        let mut turns = 0;
        while done.get() < 50 {
            yield_now().await;
            turns += 1;
        }
        assert!(turns >= 50, "{turns} turns of the flow during 50 handshakes");
    });
}

/// Fifty tasks that compute for a millisecond at a time have work; a task whose timer rings still runs between any few of them.
#[test]
fn tasks_that_yield_do_not_starve_those_that_wait() {
    on_engine(|| async {
        let pieces = Rc::new(Cell::new(0_u32));
        for _ in 0..50 {
            let pieces = Rc::clone(&pieces);
            spawn(Priority::Flow, async move {
                for _ in 0..10 {
                    let begin = Moment::now();
                    while Moment::now().since(begin) < Duration::from_millis(1) {}
                    pieces.set(pieces.get() + 1);
                    yield_now().await;
                }
            });
        }
        // All of them begin in the same turn.
        while pieces.get() < 50 {
            sleep(Duration::from_micros(1)).await;
        }
        let (mut seen, mut most) = (pieces.get(), 0);
        while seen < 500 {
            sleep(Duration::from_micros(1)).await;
            most = most.max(pieces.get() - seen);
            seen = pieces.get();
        }
        assert!(most <= 5, "{most} pieces between two looks");
    });
}

#[test]
fn tasks_left_over_are_dropped_at_the_end() {
    let dropped = Rc::new(Cell::new(false));
    struct Flag(Rc<Cell<bool>>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let flag = Flag(Rc::clone(&dropped));
    run((), || {
        spawn(Priority::Flow, async move {
            let _flag = flag;
            wait(Moment::NEVER).await;
        });
        spawn(Priority::Flow, async { stop() });
    })
    .expect("an epoll instance");
    assert!(dropped.get());
}
