//! Locks of this crate: held for a few steps, never while the disk is waited for, except where only the disk's threads take them.

#![expect(
    clippy::disallowed_types,
    reason = "sections of a few steps; the disk is never waited for under a lock that a worker takes"
)]

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

pub(crate) type Lock<T> = Mutex<T>;
pub(crate) type Gate<T> = RwLock<T>;

/// Takes a lock, also after a panic of another holder: each section leaves its data whole.
pub(crate) fn locked<T>(lock: &Lock<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
