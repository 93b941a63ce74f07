//! Polls foreign futures inside one task, until none of them requests another poll.
//!
//! In: futures of hyper or h2. Out: each is polled when there may be something for it.
//!
//! Two things meet here. Our sockets wake a task; they do not know which of its futures reads them. Foreign futures wake each
//! other by the waker in their context: a request wakes the connection that is to send it, the connection wakes the future
//! that waits for the answer. If that waker were the task's, each such step would be an iteration of the event loop, with its
//! system call. So they get a separate one that sets a flag. The driver polls them again at once while the
//! flag is set, and lets the task wait when it stays clear.
//!
//! The flag must not be the task's own state either ("has this task been woken?"): other futures of the task, beside the
//! ones that are driven here, would have their wakes taken for ours.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use handfast_leg::runtime::{Engine, Runtime};
use handfast_net::clock::Moment;
use handfast_net::engine::{TaskHandle, Woken};
use hyper::rt::Executor;

/// Rounds of polling before the other tasks of the thread have their turn.
const ROUNDS: u32 = 16;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// State that the waker of driven futures sets.
#[derive(Debug)]
struct Flag<R> {
    state: AtomicU8,
    /// The task that drives them, which changes when a connection is kept and used by another one.
    driven_by: AtomicU64,
    /// Without a runtime's own value: the flag is shared between threads.
    runtime: PhantomData<fn() -> R>,
}

/// The task polls, and looks at the flag before it waits …
const POLLING: u8 = 0;
/// … waits, and has to be woken …
const WAITING: u8 = 1;
/// … or has been woken since it began to poll, and polls again.
const RAISED: u8 = 2;

impl<R> Default for Flag<R> {
    fn default() -> Self {
        Self { state: AtomicU8::new(POLLING), driven_by: AtomicU64::new(0), runtime: PhantomData }
    }
}

impl<R: Runtime> Wake for Flag<R> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Only the first wake of a waiting task has to reach it.
        if self.state.swap(RAISED, Ordering::AcqRel) == WAITING {
            R::wake(TaskHandle::from_bits(self.driven_by.load(Ordering::Acquire)));
        }
    }
}

/// The futures that hyper spawns: they belong to the connection, and are polled with it.
pub struct Tasks<R>(Rc<List<R>>);

impl<R> Clone for Tasks<R> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

struct List<R> {
    tasks: RefCell<Vec<Task>>,
    /// Number of tasks, those that are just being polled included.
    count: Cell<usize>,
    most: usize,
    refused: Cell<u64>,
    flag: Arc<Flag<R>>,
}

impl<R> fmt::Debug for Tasks<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("count", &self.0.count).field("most", &self.0.most).finish()
    }
}

/// hyper has no answer for "there is no room": a future beyond the bound is dropped, by which its stream is reset
/// (RFC 9113 §5.4.2) and the connection goes on.
impl<R: Runtime, F: Future<Output = ()> + 'static> Executor<F> for Tasks<R> {
    fn execute(&self, future: F) {
        if self.0.count.get() >= self.0.most {
            self.0.refused.set(self.0.refused.get() + 1);
            return drop(future);
        }
        self.0.count.set(self.0.count.get() + 1);
        self.0.tasks.borrow_mut().push(Box::pin(future));
        // Nothing else causes its first poll: a connection that starts a stream's task goes to sleep after it.
        self.0.flag.wake_by_ref();
    }
}

impl<R> Tasks<R> {
    fn poll(&self, context: &mut Context<'_>) {
        // Taken out meanwhile: a task may start another one.
        let mut tasks = std::mem::take(&mut *self.0.tasks.borrow_mut());
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        let mut list = self.0.tasks.borrow_mut();
        // Those that were started go behind those that were there.
        tasks.append(&mut list);
        *list = tasks;
        self.0.count.set(list.len());
    }
}

/// Drives the futures of one connection.
///
/// Its owner drives it before waiting for anything else: what its futures want meanwhile is done then.
#[derive(Debug)]
pub struct Driver<R = Engine> {
    tasks: Tasks<R>,
    flag: Arc<Flag<R>>,
    waker: Waker,
    rounds: u32,
}

impl<R: Runtime> Driver<R> {
    /// A driver that runs at most `most` of hyper's tasks at once.
    ///
    /// **Cost**: two allocations.
    pub fn new(most: usize) -> Self {
        let flag = Arc::<Flag<R>>::default();
        let list = List {
            tasks: RefCell::default(),
            count: Cell::new(0),
            most,
            refused: Cell::new(0),
            flag: Arc::clone(&flag),
        };
        Self { tasks: Tasks(Rc::new(list)), waker: Waker::from(Arc::clone(&flag)), flag, rounds: 0 }
    }

    /// Returns the executor for hyper's tasks.
    pub fn executor(&self) -> Tasks<R> {
        self.tasks.clone()
    }

    /// Tasks of hyper's that had no room.
    pub fn refused(&self) -> u64 {
        self.tasks.0.refused.get()
    }

    /// Begins a round of polling by the present task: clears the flag, and gives the waker to poll with.
    pub fn begin_round(&mut self) -> Waker {
        self.flag.driven_by.store(R::task().to_bits(), Ordering::Release);
        self.flag.state.store(POLLING, Ordering::Release);
        self.waker.clone()
    }

    /// Polls hyper's own tasks; within a round.
    pub fn poll_tasks(&self, context: &mut Context<'_>) {
        self.tasks.poll(context);
    }

    /// Returns true if another round is due before [`Driver::wait`]. After some rounds the other tasks of the thread come
    /// first: one connection's peer decides how long its futures have something to do.
    pub async fn another_round(&mut self) -> bool {
        if self.flag.state.load(Ordering::Acquire) != RAISED {
            self.rounds = 0;
            return false;
        }
        self.rounds += 1;
        if self.rounds == ROUNDS {
            self.rounds = 0;
            R::yield_now().await;
        }
        true
    }

    /// Waits until a socket of the task may be ready, one of the driven futures is woken, or `deadline` is reached.
    ///
    /// **Cancel**: leaves a state in which a wake costs the task one look for nothing.
    pub async fn wait(&mut self, deadline: Moment) -> Woken {
        let state = &self.flag.state;
        if state.compare_exchange(POLLING, WAITING, Ordering::AcqRel, Ordering::Acquire) == Err(RAISED) {
            return Woken::Event;
        }
        let woken = R::wait(deadline).await;
        // The task is at work again: what it wakes now needs no iteration of the loop.
        let _ = state.compare_exchange(WAITING, POLLING, Ordering::AcqRel, Ordering::Acquire);
        woken
    }

    /// Drives everything until `future` is done; `None` when that is not before `deadline`.
    ///
    /// **Cancel**: dropping this drops `future`; hyper's tasks stay, for the next call.
    pub async fn drive<F: Future>(&mut self, future: F, deadline: Moment) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        loop {
            let waker = self.begin_round();
            let context = &mut Context::from_waker(&waker);
            self.poll_tasks(context);
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Some(output);
            }
            // Work that a peer keeps busy never gets to the wait, which would find the deadline.
            let over = match self.another_round().await {
                true => R::turn() >= deadline,
                false => self.wait(deadline).await == Woken::Deadline,
            };
            if over {
                return None;
            }
        }
    }
}

/// Ends the tasks: they hold clones of the list that they are in, and so would never be.
impl<R> Drop for Driver<R> {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.tasks.0.tasks.borrow_mut());
        drop(tasks);
    }
}
