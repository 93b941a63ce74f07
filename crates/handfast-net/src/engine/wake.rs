//! Waking tasks by their handles, from any thread.
//!
//! In: a handle. Out: a place of its task in the ready queue, on this thread or through [`super::remote`].

use std::task::Waker;

use super::{ENGINE, TaskHandle, engine, remote, tasks};
use crate::sys;

impl TaskHandle {
    /// Makes the task look around, from any thread.
    ///
    /// **Cost**: on the task's own thread a place in its queue, no lock and no system call. From another thread a lock
    /// that the engine holds for no longer than it takes to fetch a list, and a system call unless one is under way already.
    pub fn wake(self) {
        self.wake_by(tasks::Tasks::wake_exactly);
    }

    /// The same for a task of this thread that carries bytes: it is polled in the present turn of the event loop, behind all tasks that are ready, so
    /// that what several of them have passed on is looked at once.
    pub fn wake_late(self) {
        self.wake_by(tasks::Tasks::wake_late);
    }

    fn wake_by(self, wake: fn(&mut tasks::Tasks, u32, u32)) {
        // An engine's number is its own for as long as it runs, so one comparison shows if the task is of this thread. A
        // thread that is being torn down has no engine any more.
        let here = ENGINE.try_with(|cell| match cell.get() {
            Some(engine) if engine.number == self.engine() => {
                wake(&mut engine.tasks.borrow_mut(), self.task(), self.generation());
                true
            }
            _ => false,
        });
        if here != Ok(true) {
            remote::wake(self);
        }
    }

    /// Returns true if this is the task that is being polled, on this thread, at this moment.
    pub fn is_running(self) -> bool {
        let running = ENGINE.try_with(|cell| {
            cell.get().is_some_and(|engine| {
                let tasks = engine.tasks.borrow();
                engine.number == self.engine()
                    && engine.current.get() == self.task()
                    && tasks.generation(self.task()) == Some(self.generation())
                    && tasks.is_polled(self.task())
            })
        });
        running == Ok(true)
    }

    /// The waker that a future polled by this task gets as its context's.
    pub fn waker(self) -> Waker {
        sys::waker_of(self.to_bits())
    }
}

/// A handle of the present task.
pub fn current() -> TaskHandle {
    engine(|engine| {
        let task = engine.current.get();
        let generation = engine.tasks.borrow().generation(task).unwrap_or(0);
        TaskHandle::new(engine.number, task, generation)
    })
}
