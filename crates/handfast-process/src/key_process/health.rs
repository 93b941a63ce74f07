//! Whether the key process answers: one value for all threads that use it.
//!
//! In: answers, timeouts, heartbeats, and messages of the supervisor. Out: how long it makes sense to wait now. The numbers are atomic,
//! because every worker reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A worker's timeout for a signature; then it takes the key process for unresponsive. RSA-4096 takes 4 ms; the rest is for a machine whose
/// processors are all busy.
pub(super) const WORKER_TIMEOUT: Duration = Duration::from_millis(200);
/// The timeout of all other threads: a new key process may take this long until it serves.
pub(super) const OTHER_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the key process answers, and how often it was restarted. Shared by everything that depends on it.
#[derive(Debug)]
pub struct KeyProcessHealth {
    /// The moment ([`Self::now`]) of the first timeout since its last answer; 0: it answers.
    silent_since: AtomicU64,
    restarts: AtomicU64,
    started: Instant,
}

impl KeyProcessHealth {
    /// Of a key process that has received no request yet.
    pub(super) fn new() -> Self {
        Self { silent_since: AtomicU64::new(0), restarts: AtomicU64::new(0), started: Instant::now() }
    }

    /// The number of times that the key process ended and was started again.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Whether it does not answer at the moment: a thread that carries connections should not wait for it.
    ///
    /// **Cost**: one relaxed load.
    pub fn is_unresponsive(&self) -> bool {
        self.silent_since.load(Ordering::Relaxed) != 0
    }

    /// How long it has not answered, from [`OTHER_TIMEOUT`] on, when no thread waits for a signature any more. Shorter silences are restarts,
    /// or a machine under load.
    pub fn outage(&self) -> Option<Duration> {
        self.silence().filter(|silence| *silence >= OTHER_TIMEOUT)
    }

    fn silence(&self) -> Option<Duration> {
        let since = self.silent_since.load(Ordering::Relaxed);
        (since != 0).then(|| Duration::from_millis(self.now().saturating_sub(since)))
    }

    /// Milliseconds since this value was made, and one, so that no moment is 0.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The timeout of a request now, for a thread with this usual timeout; `None`: it must send no request, the heartbeat notices when
    /// the key process answers again.
    ///
    /// A key process that is restarted answers within [`OTHER_TIMEOUT`], so requests wait for that long.
    pub(super) fn timeout(&self, usual: Duration) -> Option<Duration> {
        let Some(silence) = self.silence() else { return Some(usual) };
        let left = OTHER_TIMEOUT.saturating_sub(silence);
        (!left.is_zero()).then(|| usual.min(left))
    }

    /// It has answered a ping that was sent at this moment ([`Self::now`]). One from before the silence proves nothing.
    pub(super) fn ping_answered(&self, sent_at: u64) {
        if self.silent_since.load(Ordering::Relaxed) <= sent_at {
            self.answered();
        }
    }

    pub(super) fn answered(&self) {
        if self.is_unresponsive() {
            self.silent_since.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn timed_out(&self) {
        // The first timeout counts.
        let _ = self.silent_since.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn was_restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }
}
