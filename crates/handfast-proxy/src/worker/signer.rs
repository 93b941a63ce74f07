//! A thread that answers hellos for a worker, when a crowd of newcomers would delay the connections that carry bytes.
//!
//! In: a session that has received nothing yet, and its client's hello. Out: the session with its answer, whose signature is nearly all
//! that a handshake with RSA costs (0.6 ms with 2048 bits, 4 ms with 4096).
//!
//! A worker has one. It runs while nothing else needs its processor (`SCHED_IDLE`): with nice 19 the worker, which relays, waited for the end
//! of a slice (bench/runs/2026-11-24-2-core-vm-signer-idle). Waiting work can be taken back, for when it gets no processor at all.
//! The worker never waits for a lock here: it only tries, and computes the answer itself where the lock is held.

#![expect(
    clippy::disallowed_types,
    reason = "the worker only tries the locks, and only while a crowd of newcomers waits; the signer may wait"
)]

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use handfast_tls::buffer::Buffer;
use handfast_tls::policy::contexts;
use handfast_tls::server::ServerSession;
use handfast_tls::session::{Received, Session as _};

use handfast_process::sandbox;

/// The lowest priority of an ordinary thread (setpriority(2)), for where a sandbox around this process refuses `SCHED_IDLE`.
const LOWEST_NICE: i32 = 19;
/// Room for a usual first flight: a chain of two or three certificates.
const FLIGHT_BYTES: usize = 4096;
/// The worker is woken for this number of answers at once: each time it is woken it takes the processor away from the signer, and back.
const ANSWER_BATCH: usize = 8;
/// No answer waits longer for those that follow it.
const MAX_ANSWER_DELAY: Duration = Duration::from_millis(2);

pub(crate) struct Work {
    pub(crate) session: ServerSession,
    pub(crate) hello: Vec<u8>,
}

/// The session when the hello has been answered.
pub(crate) struct ServerFlight {
    pub(crate) session: ServerSession,
    pub(crate) received: Received,
    pub(crate) plaintext: Buffer,
    pub(crate) replies: Buffer,
}

impl Work {
    /// Computes the answer, here.
    pub(crate) fn answer(mut self) -> ServerFlight {
        let (mut plaintext, mut replies) = (Buffer::default(), Buffer::with_capacity(FLIGHT_BYTES));
        let received = self.session.receive(&mut self.hello, &mut plaintext, &mut replies);
        ServerFlight { session: self.session, received, plaintext, replies }
    }
}

enum JobState {
    Waits(Box<Work>),
    /// Begun, taken back or handed out.
    Away,
    Answered(Box<ServerFlight>),
    Panicked(Box<dyn Any + Send>),
}

struct Slot {
    state: Mutex<JobState>,
    task: Waker,
}

impl Slot {
    /// Takes the state if `accepts` accepts it, without waiting; `None` also while the signer is at it.
    fn take_if(&self, accepts: impl FnOnce(&JobState) -> bool) -> Option<JobState> {
        let mut state = tried(&self.state)?;
        accepts(&state).then(|| std::mem::replace(&mut *state, JobState::Away))
    }
}

/// A panic leaves nothing half done under these locks.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, if it is not held.
fn tried<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[derive(Default)]
struct JobQueue {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// Work that was given and is not done.
    open: AtomicUsize,
    /// Work that has been looked at, ever.
    turns: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// At most one of each connection that is in its handshake.
    slots: VecDeque<Arc<Slot>>,
    ends: bool,
}

impl JobQueue {
    /// Waits for the next work; `None`: the signer is to end.
    fn next(&self) -> Option<Arc<Slot>> {
        let idle = |queue: &mut Queue| queue.slots.is_empty() && !queue.ends;
        let queue = self.filled.wait_while(locked(&self.queue), idle);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        if queue.ends { None } else { queue.slots.pop_front() }
    }

    /// Answers the work of a slot. Returns false if it was taken back before.
    fn work_on(&self, slot: &Slot) -> bool {
        let found = std::mem::replace(&mut *locked(&slot.state), JobState::Away);
        let is_done = matches!(found, JobState::Waits(_));
        if let JobState::Waits(work) = found {
            let outcome = catch_unwind(AssertUnwindSafe(|| work.answer()));
            let answered = outcome.map(|answered| JobState::Answered(Box::new(answered)));
            *locked(&slot.state) = answered.unwrap_or_else(JobState::Panicked);
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_sub(1, Ordering::Relaxed);
        is_done
    }

    fn run(&self) {
        if handfast_net::sys::run_when_idle().is_err() {
            // On Linux this applies to the thread alone. If it is refused too, the signer is an ordinary thread, and still works.
            let _ = rustix::process::setpriority_process(None, LOWEST_NICE);
        }
        handfast_tls::warm_up();
        sandbox::confine_this_thread();
        self.serve(Instant::now);
    }

    /// Answers until it is to end, and wakes the worker for several answers at once. `now` is the clock.
    fn serve(&self, now: impl Fn() -> Instant) {
        let mut answered = Vec::with_capacity(ANSWER_BATCH);
        let mut first = now();
        while let Some(slot) = self.next() {
            if answered.is_empty() {
                first = now();
            }
            if self.work_on(&slot) {
                answered.push(slot);
            }
            // The session goes on in the worker.
            contexts::give_back();
            let is_late = now().saturating_duration_since(first) >= MAX_ANSWER_DELAY;
            if answered.len() == ANSWER_BATCH || is_late || locked(&self.queue).slots.is_empty() {
                answered.drain(..).for_each(|slot| slot.task.wake_by_ref());
            }
        }
    }
}

/// A worker's signer. Dropping it ends its thread.
pub(crate) struct Signer {
    shared: Arc<JobQueue>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("open", &self.shared.open).finish_non_exhaustive()
    }
}

impl Signer {
    /// Starts the thread `signer-N`.
    ///
    /// **Errors**: thread creation (pthread_create(3)).
    pub(crate) fn start(number: usize) -> io::Result<Self> {
        let shared = Arc::<JobQueue>::default();
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(format!("signer-{number}")).spawn(move || its.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// One without a thread: it works when [`Signer::work_once`] is called.
    #[cfg(test)]
    pub(crate) fn by_hand() -> Self {
        Self { shared: Arc::default(), thread: None }
    }

    /// Does the next work, if there is any; returns true if there was.
    #[cfg(test)]
    pub(crate) fn work_once(&self) -> bool {
        let next = locked(&self.shared.queue).slots.pop_front();
        let Some(slot) = next else { return false };
        if self.shared.work_on(&slot) {
            slot.task.wake_by_ref();
        }
        true
    }

    /// Returns true if it has work: new work waits behind it.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.open.load(Ordering::Relaxed) > 0
    }

    /// Hands it work; `task` is woken when that is done. The work comes back when the signer is at its queue at this moment.
    pub(crate) fn give(&self, work: Work, task: Waker) -> Result<Pending, Box<Work>> {
        let work = Box::new(work);
        let Some(mut queue) = tried(&self.shared.queue) else { return Err(work) };
        let slot = Arc::new(Slot { state: Mutex::new(JobState::Waits(work)), task });
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        queue.slots.push_back(Arc::clone(&slot));
        drop(queue);
        self.shared.filled.notify_one();
        let turns = self.shared.turns.load(Ordering::Relaxed);
        Ok(Pending { slot, shared: Arc::clone(&self.shared), turns })
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        locked(&self.shared.queue).ends = true;
        self.shared.filled.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its computations take milliseconds at most. A panic has been logged where it happened.
            let _ = thread.join();
        }
    }
}

/// Work that was given to a signer. Dropping it takes it back if it was not begun.
pub(crate) struct Pending {
    slot: Arc<Slot>,
    shared: Arc<JobQueue>,
    /// The signer's turns when it was last looked whether it works.
    turns: u64,
}

impl Pending {
    /// Returns the outcome, once there is one.
    ///
    /// **Panics** when computing it has, as if it had been computed here.
    pub(crate) fn take(&self) -> Option<ServerFlight> {
        match self.slot.take_if(|state| matches!(state, JobState::Answered(_) | JobState::Panicked(_)))? {
            JobState::Answered(answered) => Some(*answered),
            JobState::Panicked(panic) => resume_unwind(panic),
            JobState::Waits(_) | JobState::Away => None,
        }
    }

    /// The work, when the signer has done nothing at all since this was asked last, and has not begun with it.
    pub(crate) fn take_back(&mut self) -> Option<Work> {
        let turns = self.shared.turns.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.turns, turns) != turns {
            return None;
        }
        let state = self.slot.take_if(|state| matches!(state, JobState::Waits(_)))?;
        if let JobState::Waits(work) = state { Some(*work) } else { None }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Held: it is being begun or ended at this moment, and goes with the slot.
        drop(self.slot.take_if(|_| true));
    }
}

#[cfg(test)]
mod tests;
