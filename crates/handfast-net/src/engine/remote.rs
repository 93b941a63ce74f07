//! Wakes from other threads: how a waker reaches a task whose engine sleeps elsewhere.
//!
//! In: handles of tasks of other threads' engines. Out: an event of that engine, and its tasks woken there.
//!
//! One list for each engine, and a bell (an eventfd) that is in its epoll instance. Only threads that have nothing to do
//! with the engine's own come here, so the locks are not on the path of a connection.

#![expect(
    clippy::disallowed_types,
    reason = "held for a push or a take, and only when another thread has woken a task"
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::handle::TaskHandle;

/// Tasks that are woken by name. With more of them, all tasks are woken: that is expensive once, and no task
/// waits forever.
const MAX_NAMED_TASKS: usize = 256;

/// The engines that run, in this process: a handful of threads. Shared because a handle has room for a number only.
static ENGINES: Mutex<Engines> = Mutex::new(Engines { last: 0, running: Vec::new() });

struct Engines {
    /// The number that was given last; they are given in turn, so that one is long unused before it comes again.
    last: u16,
    running: Vec<Arc<Remote>>,
}

/// Tasks that other threads have woken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Woken {
    #[default]
    NoTask,
    /// These, at least one and at most [`MAX_NAMED_TASKS`].
    Some(Vec<TaskHandle>),
    AllTasks,
}

/// An engine as other threads know it.
#[derive(Debug)]
pub(super) struct Remote {
    number: u16,
    woken: Mutex<Woken>,
    bell: OwnedFd,
}

/// An engine's entry among those that run; dropping it strikes it out.
#[derive(Debug)]
pub(super) struct Entry(Arc<Remote>);

fn engines() -> MutexGuard<'static, Engines> {
    // Nothing that is done under the lock leaves it half done.
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters an engine.
///
/// **Errors**: out of file descriptors; 65,535 engines run already.
pub(super) fn enter() -> io::Result<Entry> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let mut engines = engines();
    let mut number = engines.last;
    for _ in 0..u16::MAX {
        // Zero is no engine's number.
        number = number.checked_add(1).unwrap_or(1);
        if engines.running.iter().all(|remote| remote.number != number) {
            let remote = Arc::new(Remote { number, woken: Mutex::default(), bell });
            engines.last = number;
            engines.running.push(Arc::clone(&remote));
            return Ok(Entry(remote));
        }
    }
    Err(io::Error::other("every number of an engine is in use"))
}

/// Wakes a task of another thread's engine; no effect when that has ended.
pub(super) fn wake(handle: TaskHandle) {
    let remote = engines().running.iter().find(|remote| remote.number == handle.engine()).map(Arc::clone);
    if let Some(remote) = remote {
        remote.wake(handle);
    }
}

impl Entry {
    pub(super) fn number(&self) -> u16 {
        self.0.number
    }

    pub(super) fn remote(&self) -> Arc<Remote> {
        Arc::clone(&self.0)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        engines().running.retain(|remote| !Arc::ptr_eq(remote, &self.0));
    }
}

impl Remote {
    /// Returns the descriptor that the engine's epoll instance watches, edge-triggered: each ring is an event, and it
    /// need not be read.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn woken(&self) -> MutexGuard<'_, Woken> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, handle: TaskHandle) {
        let first = self.woken().add(handle);
        if first {
            // Its counter cannot overflow: that takes 2^64 − 2 rings.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Tasks that others have woken since this was asked last.
    ///
    /// Taken only after the event of the bell. A wake that adds to an empty list rings, so none is missed.
    pub(super) fn take(&self) -> Woken {
        std::mem::take(&mut *self.woken())
    }
}

impl Woken {
    /// Adds a task; whether it is the first.
    fn add(&mut self, handle: TaskHandle) -> bool {
        match self {
            Self::NoTask => {
                *self = Self::Some(vec![handle]);
                return true;
            }
            // The same one again and again is the usual case.
            Self::Some(tasks) if tasks.last() == Some(&handle) => {}
            Self::Some(tasks) if tasks.len() < MAX_NAMED_TASKS => tasks.push(handle),
            Self::Some(_) => *self = Self::AllTasks,
            Self::AllTasks => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_a_bound_and_nobody_is_forgotten() {
        let mut woken = Woken::default();
        let handle = |task: usize| TaskHandle::new(1, task as u32, 0);
        assert!(woken.add(handle(0)), "the first rings");
        for task in 0..MAX_NAMED_TASKS {
            assert!(!woken.add(handle(task)), "and the others do not");
            assert!(!woken.add(handle(task)), "nor the same one again");
        }
        assert_eq!(woken, Woken::Some((0..MAX_NAMED_TASKS).map(handle).collect()));
        woken.add(handle(MAX_NAMED_TASKS));
        assert_eq!(woken, Woken::AllTasks);
        assert!(!woken.add(handle(0)));
        assert_eq!(woken, Woken::AllTasks);
    }

    #[test]
    fn numbers_are_given_in_turn_and_taken_back() {
        let (one, other) = (enter().expect("an eventfd"), enter().expect("an eventfd"));
        assert_ne!(one.number(), other.number());
        let number = one.number();
        drop(one);
        let next = enter().expect("an eventfd");
        assert_ne!(next.number(), number, "a number that is free is not given again at once");
        assert!(engines().running.iter().any(|remote| remote.number == next.number()));
        let gone = next.number();
        drop(next);
        assert!(!engines().running.iter().any(|remote| remote.number == gone));
    }
}
