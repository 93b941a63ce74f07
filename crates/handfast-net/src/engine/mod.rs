//! One thread's event engine: tasks, the sockets they wait for, their deadlines.
//!
//! In: futures that serve one connection each. Out: each is polled when one of its sockets became ready or its
//! deadline came, and at no other time.
//!
//! Everything belongs to the thread that runs it, so nothing here takes a lock or does an atomic operation. A
//! socket is registered with the kernel once in its life (edge-triggered) and never taken back: closing does that. The two
//! together, and clocks read once a turn, are what a general runtime cannot do; docs/internals/decisions-path.md (1) has the figures.
//!
//! Two ways to wait. [`wait`] is that of a connection: its task is polled when one of its sockets becomes ready, and the
//! sockets know the task, not a waker, so a wait costs no memory and moving its deadline nothing. All other futures
//! (hyper's, channels', [`timer`]s) wait by the waker in their context, which wakes the same task from any thread. Inside of
//! something that polls its parts only when *their* wakers were called (`FuturesUnordered`, a join set) the second way
//! works and the first does not: a socket's event would reach the task and never the part. `handfast-http` is
//! how the two go together.
//!
//! A turn of the loop: deadlines, then every task that carries bytes, then tasks that have [yielded](yield_now) and handshakes until their shares of
//! the turn are used up, then one `epoll_wait`. So neither long work nor signatures of new clients can starve the open connections.

mod alarm;
mod handle;
mod mailbox;
mod remote;
mod source;
mod tasks;
mod timer;
mod wake;
mod wheel;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

pub use alarm::Alarm;
pub use handle::TaskHandle;
pub use mailbox::{Full, Letterbox, Mailbox, Sender, mailbox};
pub(crate) use source::{EventSource, Ready};
pub use tasks::Priority;
pub use timer::{Timer, timer};
pub use wake::current;

use crate::clock::Moment;
use remote::{Remote, Woken as WokenElsewhere};
use source::Sources;
use tasks::{Taken, Tasks};
use timer::Timers;
use wheel::Wheel;

/// Computing time that handshakes may take in one turn before the open connections are looked at again.
///
/// One RSA-2048 signature takes about 0.6 ms, an ECDSA P-256 handshake 0.1 ms: at least one is done each turn,
/// whatever it takes, so handshakes go on under any load.
const HANDSHAKE_SHARE: Duration = Duration::from_micros(500);

/// Share of a turn for tasks that have yielded: one at least goes on.
const YIELDED_SHARE: Duration = Duration::from_millis(1);

/// Rounds of tasks that are polled behind the others of a turn, each with those that the round before has woken.
const LATE_ROUNDS: usize = 2;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

/// Event data of the bell for other threads, where events of sockets have the key of a source. There is no source at
/// that place: its lower half is beyond every index.
const BELL: u64 = u64::MAX;

/// Callbacks of the engine to its owner; every method is called on the engine's own thread.
pub trait Observer {
    /// A turn ended: how long it kept the thread busy (so long an event that came meanwhile had to wait), and how
    /// many tasks there are. It may wake some: they run in the next turn, before the thread sleeps.
    fn turn(&mut self, busy: Duration, tasks: usize);
    /// The thread is about to sleep: time to hand over what was gathered.
    fn before_sleep(&mut self);
    /// A task panicked and was ended; its sockets were aborted. The panic hook has already logged the place.
    fn panicked(&mut self);
}

/// An observer that does not look.
impl Observer for () {
    fn turn(&mut self, _: Duration, _: usize) {}
    fn before_sleep(&mut self) {}
    fn panicked(&mut self) {}
}

thread_local! {
    static ENGINE: OnceCell<Box<Engine>> = const { OnceCell::new() };
}

struct Engine {
    /// Number of the engine in handles, unique in this process while it runs.
    number: u16,
    epoll: OwnedFd,
    sources: RefCell<Sources>,
    tasks: RefCell<Tasks>,
    wheel: RefCell<Wheel>,
    timers: RefCell<Timers>,
    /// The first of the timers, kept apart so that a turn without any looks at nothing else.
    next_timer: Cell<Moment>,
    /// Tasks that other threads have woken.
    remote: Arc<Remote>,
    /// The clock, read once a turn.
    now: Cell<Moment>,
    /// The task that is being polled; afterwards the one that was.
    current: Cell<u32>,
    stopping: Cell<bool>,
}

fn engine<T>(action: impl FnOnce(&Engine) -> T) -> T {
    ENGINE.with(|engine| action(engine.get().expect("called on a thread that runs an engine")))
}

/// Runs an engine on this thread until [`stop`] is called; `start` spawns the first tasks.
///
/// Tasks that remain when it stops are dropped, which aborts their sockets.
///
/// **Errors**: creating or waiting on the epoll instance; an engine already runs or ran on this thread
/// (`AlreadyExists`).
pub fn run(mut observer: impl Observer, start: impl FnOnce()) -> io::Result<()> {
    // Struck out when this function is left: a wake of a task of this engine has no effect after that.
    let entry = remote::enter()?;
    let engine = Engine {
        number: entry.number(),
        epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        sources: RefCell::default(),
        tasks: RefCell::default(),
        wheel: RefCell::new(Wheel::new(Moment::now())),
        timers: RefCell::default(),
        next_timer: Cell::new(Moment::NEVER),
        remote: entry.remote(),
        now: Cell::new(Moment::now()),
        current: Cell::new(0),
        stopping: Cell::new(false),
    };
    let bell = epoll::EventData::new_u64(BELL);
    epoll::add(&engine.epoll, engine.remote.bell(), bell, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
    ENGINE.with(|cell| cell.set(Box::new(engine)).map_err(|_| io::ErrorKind::AlreadyExists))?;
    start();
    let outcome = ENGINE.with(|cell| cell.get().expect("set above").turn_until_stopped(&mut observer));
    // Dropped one by one and outside of any borrow: a task's sockets return their sources to the engine.
    while let Some(future) = engine_take_any() {
        drop(catch_unwind(AssertUnwindSafe(move || drop(future))));
    }
    // Of timers that ended on other threads.
    let wakers = engine_take_wakers();
    drop(catch_unwind(AssertUnwindSafe(move || wakers.for_each(drop))));
    observer.before_sleep();
    outcome
}

fn engine_take_any() -> Option<tasks::TaskFuture> {
    engine(|engine| engine.tasks.borrow_mut().take_any())
}

fn engine_take_wakers() -> impl Iterator<Item = std::task::Waker> {
    engine(|engine| engine.timers.borrow_mut().take_all())
}

/// Ends [`run`] after the present turn.
pub fn stop() {
    engine(|engine| engine.stopping.set(true));
}

/// Starts a task on this thread's engine; it is polled for the first time in the next turn.
///
/// **Cost**: one allocation of the future's size.
pub fn spawn(priority: Priority, future: impl Future<Output = ()> + 'static) {
    // Boxed here: a closure that has it would be one more copy.
    let task = Box::pin(future);
    engine(|engine| engine.tasks.borrow_mut().insert(priority, task));
}

/// Starts a task that carries bytes; it is polled for the first time in the present turn, behind all tasks that are ready.
///
/// **Cost**: as [`spawn`].
pub fn spawn_late(future: impl Future<Output = ()> + 'static) {
    let task = Box::pin(future);
    engine(|engine| engine.tasks.borrow_mut().insert_late(task));
}

/// The clock as it stood when this turn began. Deadlines are reckoned from it; measurements take [`Moment::now`].
pub fn now() -> Moment {
    engine(|engine| engine.now.get())
}

/// Tasks on this engine.
pub fn tasks() -> usize {
    engine(|engine| engine.tasks.borrow().len())
}

/// Moves the present task to another priority, from its next turn on.
pub fn set_priority(priority: Priority) {
    engine(|engine| engine.tasks.borrow_mut().set_priority(engine.current.get(), priority));
}

/// Returns true if tasks that compute handshakes wait for their turn.
pub fn handshakes_wait() -> bool {
    engine(|engine| engine.tasks.borrow().ready(Priority::Handshake) > 0)
}

/// Makes every task look around, as when the program is about to stop.
pub fn wake_all() {
    engine(|engine| engine.tasks.borrow_mut().wake_all());
}

/// Reason why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A socket of this task became ready, or a message came.
    Event,
    /// The deadline passed.
    Deadline,
}

/// Waits until one of the present task's sockets becomes ready, or `deadline` passes.
///
/// A socket that returned "would block" is waited for from that moment on; one that never did is not. One wait at a
/// time: a task has one deadline, and the causes of a wake are not distinguished. [`timer`] is for more than one.
///
/// **Cancel**: leaves nothing behind. **Cost**: moving a deadline later costs nothing, as the one that is armed is
/// only looked at again when it comes.
pub fn wait(deadline: Moment) -> Wait {
    Wait { deadline, waiting: false }
}

/// The future of [`wait`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Wait {
    deadline: Moment,
    waiting: bool,
}

impl Future for Wait {
    type Output = Woken;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Woken> {
        engine(|engine| {
            if engine.now.get() >= self.deadline {
                Poll::Ready(Woken::Deadline)
            } else if self.waiting {
                Poll::Ready(Woken::Event)
            } else {
                self.waiting = true;
                engine.set_deadline(self.deadline);
                Poll::Pending
            }
        })
    }
}

/// Lets every other ready task run before this one goes on, also those whose sockets become ready meanwhile. Tasks that yield go on until their
/// share of a turn is used up, one at least, and the others in the next turn: so long work of many tasks delays no short one by more than that.
pub async fn yield_now() {
    engine(|engine| engine.tasks.borrow_mut().yield_now(engine.current.get()));
    wait(Moment::NEVER).await;
}

/// Sleeps for `duration`, whatever happens to the task's sockets meanwhile.
pub async fn sleep(duration: Duration) {
    let deadline = now() + duration;
    while wait(deadline).await == Woken::Event {}
}

impl Engine {
    fn turn_until_stopped(&self, observer: &mut impl Observer) -> io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while !self.stopping.get() {
            self.expire_deadlines();
            if self.next_timer.get() <= self.now.get() {
                self.ring_timers();
            }
            self.poll_ready(observer);
            let busy = Moment::now().since(self.now.get());
            let tasks = self.tasks.borrow().len();
            observer.turn(busy, tasks);
            let timeout = self.time_to_sleep(observer);
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.now.set(Moment::now());
            self.deliver(&events);
        }
        Ok(())
    }

    fn expire_deadlines(&self) {
        let now = self.now.get();
        let mut early = Vec::new();
        let mut tasks = self.tasks.borrow_mut();
        let mut wheel = self.wheel.borrow_mut();
        wheel.advance(now, |task| match tasks.deadline(task) {
            Some(deadline) if deadline > now => early.push((task, deadline)),
            Some(_) => tasks.wake(task),
            None => {}
        });
        // Deadlines that were moved later since they were armed.
        for (task, deadline) in early {
            wheel.arm(task, deadline);
            tasks.set_armed(task, deadline);
        }
    }

    fn poll_ready(&self, observer: &mut impl Observer) {
        // Only those that are ready now: a task that wakes itself waits for the next turn.
        let flowing = self.tasks.borrow().ready(Priority::Flow);
        for _ in 0..flowing {
            let taken = self.tasks.borrow_mut().take_ready(Priority::Flow);
            self.poll_taken(taken, observer);
        }
        let yielded = self.tasks.borrow().yielded();
        let start = if yielded > 0 { Moment::now() } else { Moment::NEVER };
        for _ in 0..yielded {
            let taken = self.tasks.borrow_mut().take_yielded();
            self.poll_taken(taken, observer);
            if Moment::now().since(start) > YIELDED_SHARE {
                break;
            }
        }
        // What they have passed on to others, and those to them: a request to its stream, responses of one turn to their connection.
        for _ in 0..LATE_ROUNDS {
            let late = self.tasks.borrow().late();
            for _ in 0..late {
                let taken = self.tasks.borrow_mut().take_late();
                self.poll_taken(taken, observer);
            }
        }
        let handshakes = self.tasks.borrow().ready(Priority::Handshake);
        let start = Moment::now();
        for _ in 0..handshakes {
            let taken = self.tasks.borrow_mut().take_ready(Priority::Handshake);
            self.poll_taken(taken, observer);
            if Moment::now().since(start) > HANDSHAKE_SHARE {
                break;
            }
        }
    }

    fn ring_timers(&self) {
        let now = self.now.get();
        loop {
            // Called when the timers are free again: a foreign waker may do anything, as dropping another timer.
            let Some(waker) = self.timers.borrow_mut().next_due(now) else { break };
            drop(catch_unwind(AssertUnwindSafe(move || waker.wake())));
        }
        self.next_timer.set(self.timers.borrow().first());
    }

    fn poll_taken(&self, taken: Option<Taken>, observer: &mut impl Observer) {
        let Some(Taken { task, generation, mut future }) = taken else { return };
        self.current.set(task);
        // Dropping it would be a call through its table, to do nothing.
        let waker = ManuallyDrop::new(TaskHandle::new(self.number, task, generation).waker());
        let mut context = Context::from_waker(&waker);
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(Poll::Pending) => self.tasks.borrow_mut().put_back(task, future),
            Ok(Poll::Ready(())) => self.end(task, future),
            Err(_) => {
                observer.panicked();
                self.end(task, future);
            }
        }
    }

    fn end(&self, task: u32, future: tasks::TaskFuture) {
        // A second panic, while dropping what the first one left, must not take the thread along.
        drop(catch_unwind(AssertUnwindSafe(move || drop(future))));
        self.wheel.borrow_mut().disarm(task);
        self.tasks.borrow_mut().remove(task);
    }

    /// `None`: until an event comes.
    fn time_to_sleep(&self, observer: &mut impl Observer) -> Option<Timespec> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        if self.tasks.borrow().any_ready() || self.stopping.get() {
            return Some(NOW);
        }
        observer.before_sleep();
        let next = match (self.wheel.borrow().next(), self.next_timer.get()) {
            (None, Moment::NEVER) => return None,
            (None, timer) => timer,
            (Some(deadline), timer) => deadline.min(timer),
        };
        // Rounded up to the millisecond that epoll_wait(2) counts in, or the last one would be spent spinning.
        let sleep = next.since(Moment::now()).as_nanos().div_ceil(1_000_000) as i64;
        Some(Timespec { tv_sec: sleep / 1000, tv_nsec: (sleep % 1000) * 1_000_000 })
    }

    fn deliver(&self, events: &[epoll::Event]) {
        let mut sources = self.sources.borrow_mut();
        let mut tasks = self.tasks.borrow_mut();
        for event in events {
            // The event is packed: its fields are copied out before they are looked at.
            let (data, flags) = (event.data, event.flags);
            if let Some(task) = sources.deliver(data.u64(), flags) {
                tasks.wake(task);
            } else if data.u64() == BELL {
                match self.remote.take() {
                    WokenElsewhere::NoTask => {}
                    WokenElsewhere::Some(woken) => {
                        woken.iter().for_each(|one| tasks.wake_exactly(one.task(), one.generation()));
                    }
                    WokenElsewhere::AllTasks => tasks.wake_all(),
                }
            }
        }
    }

    fn set_deadline(&self, deadline: Moment) {
        let task = self.current.get();
        let mut tasks = self.tasks.borrow_mut();
        if tasks.set_deadline(task, deadline) {
            self.wheel.borrow_mut().arm(task, deadline);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
