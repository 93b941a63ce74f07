//! Polls foreign futures inside one task of our engine, until none of them wants to be polled any more.
//!
//! In: hyper's futures, and whoever waits for them. Out: each is polled when there may be something for it.
//!
//! Two things meet here. Our sockets wake a task; they do not know which of its futures reads them. Foreign futures wake each
//! other by the waker in their context: a request wakes the connection that is to send it, the connection wakes
//! whoever waits for the answer. If that waker were the task's, each such step would be a turn of the engine's loop, with its
//! system call. So they get one of their own that sets a flag. Whoever drives them polls them again at once while the
//! flag goes up, and lets the task wait when it stays down.
//!
//! The flag must not be the task's own state either ("has this task been woken?"): other futures of the task, beside the
//! ones that are driven here, would have their wakes taken for ours.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use handfast_net::clock::Moment;
use handfast_net::engine::{self, TaskHandle, Woken};
use hyper::rt::Executor;

/// Rounds of polling before the other tasks of the thread have their turn.
const ROUNDS: u32 = 16;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What the waker of driven futures does.
#[derive(Debug, Default)]
struct Flag {
    raised: AtomicBool,
    /// The task that drives them, which changes when a connection is kept and used by another one; 0 before the first.
    driven_by: AtomicU64,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // First the flag, then the task: one that looks in between finds the flag and is woken once for nothing. The other
        // way round it could find nothing and sleep.
        self.raised.store(true, Ordering::Release);
        let task = TaskHandle::from_bits(self.driven_by.load(Ordering::Acquire));
        // The task that drives them is at work: it looks at the flag before it waits.
        if !task.is_running() {
            task.wake();
        }
    }
}

/// The futures that hyper wants run: they belong to the connection, and are polled with it.
#[derive(Clone)]
pub struct Tasks(Rc<List>);

struct List {
    tasks: RefCell<Vec<Task>>,
    /// How many there are, those that are just being polled included.
    count: Cell<usize>,
    most: usize,
    refused: Cell<u64>,
    flag: Arc<Flag>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("count", &self.0.count).field("most", &self.0.most).finish()
    }
}

/// hyper cannot be told that there is no room: a future beyond the bound is dropped, by which its stream is reset
/// (RFC 9113 §5.4.2) and the connection goes on.
impl<F: Future<Output = ()> + 'static> Executor<F> for Tasks {
    fn execute(&self, future: F) {
        if self.0.count.get() >= self.0.most {
            self.0.refused.set(self.0.refused.get() + 1);
            return drop(future);
        }
        self.0.count.set(self.0.count.get() + 1);
        self.0.tasks.borrow_mut().push(Box::pin(future));
        // It is to be polled once, and nobody else says so: a connection that starts a stream's task goes to sleep after it.
        self.0.flag.wake_by_ref();
    }
}

impl Tasks {
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
/// Whoever has one drives it before waiting for anything else: what its futures want meanwhile is done then.
#[derive(Debug)]
pub struct Driver {
    tasks: Tasks,
    flag: Arc<Flag>,
    waker: Waker,
    rounds: u32,
}

impl Driver {
    /// A driver that runs at most `most` of hyper's tasks at once.
    ///
    /// **Cost**: two allocations.
    pub fn new(most: usize) -> Self {
        let flag = Arc::<Flag>::default();
        let list = List {
            tasks: RefCell::default(),
            count: Cell::new(0),
            most,
            refused: Cell::new(0),
            flag: Arc::clone(&flag),
        };
        Self { tasks: Tasks(Rc::new(list)), waker: Waker::from(Arc::clone(&flag)), flag, rounds: 0 }
    }

    /// What hyper gives its tasks to.
    pub fn executor(&self) -> Tasks {
        self.tasks.clone()
    }

    /// Tasks of hyper's that had no room.
    pub fn refused(&self) -> u64 {
        self.tasks.0.refused.get()
    }

    /// Begins a round of polling by the present task: lowers the flag, and gives the waker to poll with.
    pub fn begin_round(&mut self) -> Waker {
        self.flag.driven_by.store(engine::current().to_bits(), Ordering::Release);
        self.flag.raised.store(false, Ordering::Release);
        self.waker.clone()
    }

    /// Polls hyper's own tasks; within a round.
    pub fn poll_tasks(&self, context: &mut Context<'_>) {
        self.tasks.poll(context);
    }

    /// Whether another round is wanted before the task waits. After some rounds the other tasks of the thread come first: one
    /// connection's peer decides how long its futures have something to do.
    pub async fn another_round(&mut self) -> bool {
        if !self.flag.raised.load(Ordering::Acquire) {
            self.rounds = 0;
            return false;
        }
        self.rounds += 1;
        if self.rounds == ROUNDS {
            self.rounds = 0;
            engine::yield_now().await;
        }
        true
    }

    /// Drives everything until `future` is done; `None` when that is not before `deadline`.
    ///
    /// **Cancel**: dropping this drops `future`; hyper's tasks stay, for the next who drives them.
    pub async fn drive<F: Future>(&mut self, future: F, deadline: Moment) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        loop {
            let waker = self.begin_round();
            let context = &mut Context::from_waker(&waker);
            self.poll_tasks(context);
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Some(output);
            }
            // What a peer keeps busy never gets to the wait, which would find the deadline.
            let over = match self.another_round().await {
                true => engine::now() >= deadline,
                false => engine::wait(deadline).await == Woken::Deadline,
            };
            if over {
                return None;
            }
        }
    }
}

/// Ends the tasks: they hold clones of the list that they are in, and so would never be.
impl Drop for Driver {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.tasks.0.tasks.borrow_mut());
        drop(tasks);
    }
}
