//! Disk errors, and the time of the next attempt.
//!
//! In: errors and successes of the disk's threads. Out: whether the cache pauses, and a sentence for the operator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::lock::{Lock, locked};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct DiskErrors {
    started: Instant,
    /// Milliseconds since `started`.
    paused_until: AtomicU64,
    state: Lock<Option<(String, Duration)>>,
}

impl Default for DiskErrors {
    fn default() -> Self {
        Self { started: Instant::now(), paused_until: AtomicU64::new(0), state: Lock::default() }
    }
}

impl DiskErrors {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The disk failed: a pause, each time twice as long.
    pub(crate) fn failed(&self, what: &str, error: &dyn std::fmt::Display) {
        let mut state = locked(&self.state);
        // An operation that fails during a pause began before it.
        if self.is_paused() {
            return;
        }
        let pause = state.as_ref().map_or(FIRST_PAUSE, |(_, pause)| (*pause * 2).min(MAX_PAUSE));
        *state = Some((format!("{what}: {error}; the cache passes requests and tries again"), pause));
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.paused_until.store(self.now().saturating_add(pause), Ordering::Relaxed);
    }

    /// The disk works. `true`: it did not before.
    pub(crate) fn worked(&self) -> bool {
        locked(&self.state).take().is_some()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until.load(Ordering::Relaxed) > self.now()
    }

    pub(crate) fn problem(&self) -> Option<String> {
        locked(&self.state).as_ref().map(|(text, _)| text.clone())
    }

    #[cfg(test)]
    pub(crate) fn end_pause(&self) {
        self.paused_until.store(0, Ordering::Relaxed);
    }
}
