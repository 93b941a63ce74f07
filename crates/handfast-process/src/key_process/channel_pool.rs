//! The channels of threads: each thread takes one at its first request, and returns it when it ends.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::channel::{Channel, Request, RequestError};
use super::health::{OTHER_TIMEOUT, WORKER_TIMEOUT};

/// Never contended on the way of a connection.
#[expect(clippy::disallowed_types, reason = "taken once by each thread, and where files are read")]
pub(super) type Mutex<T> = std::sync::Mutex<T>;

thread_local! {
    /// The channel of this thread. A thread-local, because rustls calls the signing key without any context, and because a thread waits
    /// for one answer at a time: so it needs one channel, and no lock for it.
    static LEASE: RefCell<Option<Lease>> = const { RefCell::new(None) };
    /// The timeout of this thread's requests. A thread-local for the same reason: the caller is rustls.
    static TIMEOUT: Cell<Duration> = const { Cell::new(OTHER_TIMEOUT) };
}

/// Sets the short timeout of a thread that carries connections, for all its requests.
pub fn this_thread_carries_connections() {
    TIMEOUT.set(WORKER_TIMEOUT);
}

/// The timeout of this thread's requests.
pub(super) fn timeout_of_this_thread() -> Duration {
    TIMEOUT.get()
}

/// Locks, also after a thread that held the lock has panicked: no value here is ever half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct ChannelPool {
    free: Arc<Mutex<Vec<Channel>>>,
}

/// The channel of a thread, which returns to its pool when the thread ends.
#[derive(Debug)]
struct Lease {
    channel: Option<Channel>,
    owner: Arc<Mutex<Vec<Channel>>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        lock(&self.owner).extend(self.channel.take());
    }
}

impl ChannelPool {
    pub(super) fn new(channels: Vec<Channel>) -> Self {
        Self { free: Arc::new(Mutex::new(channels)) }
    }

    /// Sends a request on this thread's channel, and waits for the answer.
    pub(super) fn request(
        &self,
        request: Request,
        parts: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<u8>, RequestError> {
        LEASE.with_borrow_mut(|lease| {
            let is_ours = |lease: &Lease| Arc::ptr_eq(&lease.owner, &self.free);
            if !lease.as_ref().is_some_and(is_ours) {
                let channel = lock(&self.free).pop();
                *lease = Some(Lease { channel, owner: Arc::clone(&self.free) });
            }
            let Some(channel) = lease.as_mut().and_then(|lease| lease.channel.as_mut()) else {
                *lease = None;
                return Err(RequestError::NoChannel);
            };
            channel.request(request, parts, timeout)
        })
    }
}
