//! How the key process is, for everybody in this process who asks it.
//!
//! In: answers, and that there were none; what the supervisor says. Out: how long it makes sense to wait now. Atomic numbers, since
//! every worker looks at them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::OF_OTHERS;
use crate::metrics::KeyProcessSnapshot;

/// Milliseconds since the first look at the clock, when it was silent for the first time; 0: it answers.
static SILENT_SINCE: AtomicU64 = AtomicU64::new(0);
/// The same for when somebody tried last.
static TRIED: AtomicU64 = AtomicU64::new(0);
static RESTARTS: AtomicU64 = AtomicU64::new(0);
/// Whether there is one at all.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Where it has been silent for long, one thread tries so often, and waits for so long.
const TRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(20));

/// What is known of the key process; `None`: there is none, the keys are in this process.
pub(crate) fn condition() -> Option<KeyProcessSnapshot> {
    let wanted = WANTED.load(Ordering::Relaxed);
    wanted.then(|| KeyProcessSnapshot { answers: !hesitates(), restarts: RESTARTS.load(Ordering::Relaxed) })
}

/// Whether it does not answer now: whoever carries connections should not wait for it.
pub(crate) fn hesitates() -> bool {
    SILENT_SINCE.load(Ordering::Relaxed) != 0
}

fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let first = FIRST.get_or_init(Instant::now);
    u64::try_from(first.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// How long somebody with this patience should wait for it now; `None`: not at all.
pub(super) fn patience(usual: Duration) -> Option<Duration> {
    let since = SILENT_SINCE.load(Ordering::Relaxed);
    if since == 0 {
        return Some(usual);
    }
    let now = now();
    let left = OF_OTHERS.saturating_sub(Duration::from_millis(now.saturating_sub(since)));
    if left > TRY.1 {
        // A new one takes less than that to come.
        return Some(usual.min(left));
    }
    let tried = TRIED.load(Ordering::Relaxed);
    let is_due = Duration::from_millis(now.saturating_sub(tried)) >= TRY.0;
    let is_first = TRIED.compare_exchange(tried, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    (is_due && is_first).then_some(TRY.1)
}

pub(super) fn answers() {
    if hesitates() {
        SILENT_SINCE.store(0, Ordering::Relaxed);
    }
}

pub(super) fn is_silent() {
    // Since the first time.
    let _ = SILENT_SINCE.compare_exchange(0, now(), Ordering::Relaxed, Ordering::Relaxed);
}

pub(super) fn is_wanted() {
    WANTED.store(true, Ordering::Relaxed);
}

pub(super) fn was_restarted() {
    RESTARTS.fetch_add(1, Ordering::Relaxed);
}
