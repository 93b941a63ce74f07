//! Monotonic time as one number, cheap to copy, compare and store per connection.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub use synchronised::{Synchronised, synchronised};

mod synchronised;

/// A moment on the monotonic clock.
///
/// **Units**: nanoseconds since an arbitrary start, the same for every thread of the machine. It does not jump when
/// the clock is set, and stops while the machine sleeps (`CLOCK_MONOTONIC`, clock_gettime(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The far future: later than every deadline.
    pub const NEVER: Self = Self(u64::MAX);
    /// The start of the clock: before everything.
    pub const START: Self = Self(0);

    /// Reads the clock. **Cost**: about 30 ns, no system call (vDSO).
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// A moment from its nanoseconds, for tests and simulations.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Its nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `limit` after this one, or [`Moment::NEVER`] for a zero limit, which means "no limit" everywhere
    /// in the configuration.
    pub fn deadline(self, limit: Duration) -> Self {
        if limit.is_zero() { Self::NEVER } else { self + limit }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates at [`Moment::NEVER`].
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_limit_never_comes() {
        assert_eq!(Moment::now().deadline(Duration::ZERO), Moment::NEVER);
        assert_eq!(Moment::from_nanos(5).deadline(Duration::from_nanos(2)), Moment::from_nanos(7));
    }

    #[test]
    fn adding_saturates_and_since_does_not_go_below_zero() {
        assert_eq!(Moment::from_nanos(5) + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::from_nanos(5).since(Moment::from_nanos(9)), Duration::ZERO);
    }
}
