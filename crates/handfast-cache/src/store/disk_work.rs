//! One piece of work for the disk's threads, and the wait for its result.
//!
//! In: a closure. Out: its result, after a call of the waker; also where the work was dropped with its pool, or panicked.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::lock::{Lock, locked};
use super::pool::{Pool, Work};

/// The work was dropped with its pool, or it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

struct Slot<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

/// The disk's side of a [`Slot`]: wakes the requester when it ends, also if the work was dropped or panicked.
struct WakeOnDrop<T>(Option<Arc<Lock<Slot<T>>>>);

impl<T> Drop for WakeOnDrop<T> {
    fn drop(&mut self) {
        let waker = self.0.as_ref().and_then(|slot| locked(slot).waker.take());
        // The requester sees by the number of owners that no result comes.
        self.0 = None;
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Work that was given to the disk's threads; at most one piece at a time.
pub(crate) struct DiskWork<T>(Option<Arc<Lock<Slot<T>>>>);

impl<T> Default for DiskWork<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> DiskWork<T> {
    /// Gives work to the threads.
    pub(crate) fn start(&mut self, pool: &Pool, waker: &Waker, work: impl FnOnce() -> T + Send + 'static) {
        let slot = Arc::new(Lock::new(Slot { result: None, waker: Some(waker.clone()) }));
        self.0 = Some(Arc::clone(&slot));
        let guard = WakeOnDrop(Some(slot));
        pool.submit(Work::Read, move || {
            let result = work();
            if let Some(slot) = &guard.0 {
                locked(slot).result = Some(result);
            }
            drop(guard);
        });
    }

    /// Takes the result; `None`: no work was started.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Option<Result<T, Lost>>> {
        let Some(slot) = &self.0 else { return Poll::Ready(None) };
        let result = {
            let mut locked_slot = locked(slot);
            match locked_slot.result.take() {
                Some(result) => Ok(result),
                None if Arc::strong_count(slot) == 1 => Err(Lost),
                None => {
                    locked_slot.waker = Some(waker.clone());
                    return Poll::Pending;
                }
            }
        };
        self.0 = None;
        Poll::Ready(Some(result))
    }
}
