//! Share of a backend's requests that failed lately, for `failure-ratio`.
//!
//! Threads count together, in windows that do not overlap: a backend that begins to fail is found within two of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handfast_net::clock::Moment;

/// Duration of one window.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// With fewer requests in a window their share has no meaning.
pub(super) const MIN_REQUESTS: u64 = 20;

/// Bits of a count, and its maximum.
const BITS: u32 = 24;
const MAX_COUNT: u64 = (1 << BITS) - 1;

/// The number of the window, in the upper 16 bits, then all requests, then those that failed.
#[derive(Debug, Default)]
pub(super) struct Ratio(AtomicU64);

/// The requests of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) all: u64,
    pub(super) failed: u64,
}

impl Ratio {
    /// Counts a request; those of its window with it.
    pub(super) fn count(&self, now: Moment, has_failed: bool) -> Counted {
        let window = (now.nanos() / WINDOW.as_nanos() as u64) & 0xffff;
        let after = |before: u64| {
            let is_same = before >> (2 * BITS) == window;
            let (all, failed) =
                if is_same { ((before >> BITS) & MAX_COUNT, before & MAX_COUNT) } else { (0, 0) };
            let (all, failed) = ((all + 1).min(MAX_COUNT), (failed + u64::from(has_failed)).min(MAX_COUNT));
            window << (2 * BITS) | all << BITS | failed
        };
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let counted = after(before);
            match self.0.compare_exchange_weak(before, counted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Counted { all: (counted >> BITS) & MAX_COUNT, failed: counted & MAX_COUNT },
                Err(other) => before = other,
            }
        }
    }

    /// Begins again.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_counts_for_itself() {
        let ratio = Ratio::default();
        let begin = Moment::from_nanos(WINDOW.as_nanos() as u64 * 7);
        let counted = |after: u64, has_failed: bool| {
            let Counted { all, failed } = ratio.count(begin + Duration::from_millis(after), has_failed);
            (all, failed)
        };
        assert_eq!([counted(0, true), counted(1, false), counted(9_999, true)], [(1, 1), (2, 1), (3, 2)]);
        assert_eq!([counted(10_000, false), counted(10_001, true)], [(1, 0), (2, 1)]);
        ratio.forget();
        assert_eq!(counted(10_002, true), (1, 1));
        // A window with the number of one that is long gone.
        assert_eq!(
            counted(10_000 + 10_000 * 0x10000, false),
            (2, 1),
            "its number has 16 bits, which are a week"
        );
    }

    #[test]
    fn threads_count_together_and_a_count_has_an_end() {
        let ratio = Ratio::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..1_000 {
                        let _ = ratio.count(Moment::from_nanos(1), number % 4 == 0);
                    }
                });
            }
        });
        assert_eq!(ratio.count(Moment::from_nanos(1), true), Counted { all: 4_001, failed: 1_001 });
        ratio.0.store(MAX_COUNT << BITS | MAX_COUNT, Ordering::Relaxed);
        assert_eq!(ratio.count(Moment::from_nanos(1), true), Counted { all: MAX_COUNT, failed: MAX_COUNT });
    }
}
