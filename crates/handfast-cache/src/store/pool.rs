//! Threads that wait for the disk, so that no worker does.
//!
//! In: work, as closures. Out: nothing; work wakes the tasks that wait for it. Reading goes before writing, but for each fourth piece of work, and one thread
//! does nothing else. The queue
//! is bounded by its users: a reader and a fill have one piece of work in it at most, and hits are refused when it is long.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::thread::JoinHandle;

use super::lock::{Lock, locked};

/// Kind of disk access of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    reads: VecDeque<Job>,
    writes: VecDeque<Job>,
    taken: u64,
    is_closed: bool,
}

/// A queue of work and its threads.
#[derive(Default)]
pub(crate) struct Pool {
    queue: Lock<Queue>,
    /// The length of `reads`, for lookups, which do not take the lock.
    waiting_reads: AtomicUsize,
    changed: Condvar,
}

impl Pool {
    /// Starts threads; they end when the pool is closed.
    pub(crate) fn start(self: &Arc<Self>, name: &str, threads: usize) -> io::Result<Vec<JoinHandle<()>>> {
        let threads = threads.max(1);
        let start = |number| {
            let pool = Arc::clone(self);
            // One thread reads only, so that reading goes on while all others wait for a write.
            let reads_only = number == 0 && threads > 1;
            std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || pool.run(reads_only))
        };
        (0..threads).map(start).collect()
    }

    /// Adds work. After [`close`](Self::close) it is dropped.
    pub(crate) fn submit(&self, kind: Work, job: impl FnOnce() + Send + 'static) {
        let mut queue = locked(&self.queue);
        if queue.is_closed {
            return;
        }
        let line = if kind == Work::Read { &mut queue.reads } else { &mut queue.writes };
        line.push_back(Box::new(job));
        self.waiting_reads.store(queue.reads.len(), Ordering::Relaxed);
        drop(queue);
        // One thread could be the one that does not write.
        if kind == Work::Read { self.changed.notify_one() } else { self.changed.notify_all() }
    }

    /// The number of readers that wait.
    pub(crate) fn waiting_reads(&self) -> usize {
        self.waiting_reads.load(Ordering::Relaxed)
    }

    /// Ends the threads after what they do now.
    pub(crate) fn close(&self) {
        let mut queue = locked(&self.queue);
        queue.is_closed = true;
        let dropped = (std::mem::take(&mut queue.reads), std::mem::take(&mut queue.writes));
        drop(queue);
        drop(dropped);
        self.changed.notify_all();
    }

    fn run(&self, reads_only: bool) {
        while let Some(job) = self.next(reads_only) {
            // A panic costs this piece of work, not the thread; its waiters learn of it when what they wait on is dropped.
            let _outcome = catch_unwind(AssertUnwindSafe(job));
        }
    }

    fn next(&self, reads_only: bool) -> Option<Job> {
        let mut queue = locked(&self.queue);
        loop {
            if queue.is_closed {
                return None;
            }
            queue.taken += 1;
            let is_turn_of_writes = queue.taken.is_multiple_of(4) && !reads_only;
            let first = if is_turn_of_writes { queue.writes.pop_front() } else { None };
            let mut job = first.or_else(|| queue.reads.pop_front());
            if job.is_none() && !reads_only {
                job = queue.writes.pop_front();
            }
            if job.is_some() {
                self.waiting_reads.store(queue.reads.len(), Ordering::Relaxed);
                return job;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
