//! Threads that open and read the files of one file system. One that hangs delays no other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::pool::Pool;

/// Number of threads of one file system.
const THREADS: usize = 4;
/// Most requests that wait for them.
const MAX_WAITING: usize = 1024;

/// Threads for the files of one file system. Dropping the last handle ends them after what they do now.
#[derive(Default)]
pub struct DiskThreads {
    pub(super) pool: Arc<Pool>,
    is_started: AtomicBool,
}

impl DiskThreads {
    /// Starts them, once. Work that was given before waits until then.
    ///
    /// **Errors**: no thread can be started.
    pub fn start(&self) -> io::Result<()> {
        if !self.is_started.swap(true, Ordering::Relaxed) {
            // They end when the pool is closed, and own nothing that must be waited for.
            drop(self.pool.start("files-disk", THREADS)?);
        }
        Ok(())
    }

    /// Returns true if so many requests wait that another one would wait too long.
    pub(super) fn are_busy(&self) -> bool {
        self.pool.waiting_reads() >= MAX_WAITING
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl std::fmt::Debug for DiskThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskThreads").finish_non_exhaustive()
    }
}
