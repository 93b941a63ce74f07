//! How the key process is, for everybody in this process who asks it.
//!
//! In: answers, and that there were none; heartbeats; what the supervisor says. Out: how long it makes sense to wait now. Atomic
//! numbers, since every worker looks at them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::OF_OTHERS;
use crate::metrics::KeyProcessSnapshot;

/// Milliseconds since the first look at the clock, when it was silent for the first time; 0: it answers.
static SILENT_SINCE: AtomicU64 = AtomicU64::new(0);
static RESTARTS: AtomicU64 = AtomicU64::new(0);
/// Whether there is one at all.
static WANTED: AtomicBool = AtomicBool::new(false);

/// What is known of the key process; `None`: there is none, the keys are in this process.
pub(crate) fn condition() -> Option<KeyProcessSnapshot> {
    let wanted = WANTED.load(Ordering::Relaxed);
    wanted.then(|| KeyProcessSnapshot { answers: !hesitates(), restarts: RESTARTS.load(Ordering::Relaxed) })
}

/// Whether it does not answer now: whoever carries connections should not wait for it.
pub(crate) fn hesitates() -> bool {
    SILENT_SINCE.load(Ordering::Relaxed) != 0
}

/// How long it has not answered, once that is so long that no signature is waited for any more. Shorter ones are restarts and a
/// machine under load.
pub(crate) fn outage() -> Option<Duration> {
    silence().filter(|silence| *silence >= OF_OTHERS)
}

fn silence() -> Option<Duration> {
    let since = SILENT_SINCE.load(Ordering::Relaxed);
    (since != 0).then(|| Duration::from_millis(now().saturating_sub(since)))
}

/// Milliseconds since the first look at the clock.
pub(super) fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let first = FIRST.get_or_init(Instant::now);
    u64::try_from(first.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// How long a thread that usually waits for this time should wait now; `None`: not at all, the heartbeat finds out when it answers again.
///
/// A key process that is started again takes less than [`OF_OTHERS`], so for that long it is waited for.
pub(super) fn patience(usual: Duration) -> Option<Duration> {
    let Some(silence) = silence() else { return Some(usual) };
    let left = OF_OTHERS.saturating_sub(silence);
    (!left.is_zero()).then(|| usual.min(left))
}

/// It has answered a ping that was sent at this moment ([`now`]). One from before the silence proves nothing.
pub(super) fn answered_ping(sent_at: u64) {
    if SILENT_SINCE.load(Ordering::Relaxed) <= sent_at {
        answers();
    }
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
