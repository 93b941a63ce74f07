//! Returns freed memory to the system after many connections have ended, or a few with much memory, and not while many arrive.
//!
//! The C library keeps what a thread has freed: after 1,000 handshakes at once the process stayed at its peak until the next reload, and
//! after 25 clients of HTTP/2 that did not read, too. To give it back takes about 0.1 ms for each MB that a thread has freed, during which
//! this thread waits if it allocates.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Fewer connections than this leave too little behind.
const MIN_CROWD: u64 = 1_000;
/// The crowd is over when at most one in 100 of its connections ends between two checks: health checks of load balancers never stop.
const MAX_ENDED_SHARE: u64 = 100;
/// Resident bytes above the least so far, from which on a release is tried whatever the number of connections.
const MIN_EXCESS: u64 = 32 << 20;
/// Maximum number of checks between two releases that freed nothing: the memory is in use.
const MAX_PAUSE: u32 = 16;

#[derive(Debug)]
pub(crate) struct Memory {
    next: Instant,
    ended: u64,
    /// The same when memory was given back last.
    ended_before: u64,
    resident: Resident,
}

/// Memory of the process, in bytes.
#[derive(Debug)]
struct Resident {
    /// At the last check.
    last: u64,
    /// The least so far.
    least: u64,
    /// Before the last try.
    tried: u64,
    /// Connections that had ended then.
    ended: u64,
    /// Checks until the next try, and those after the next try that frees nothing.
    pause: u32,
    pauses: u32,
}

impl Resident {
    /// State before the first connection; `resident`: bytes in memory then.
    fn new(resident: Option<u64>) -> Self {
        Self { last: 0, least: resident.unwrap_or(u64::MAX), tried: 0, ended: 0, pause: 0, pauses: 1 }
    }

    /// Returns true if a release is worth a try: much is resident, it does not grow, and connections have ended since the last try.
    fn is_worth_a_try(&mut self, resident: u64, ended: u64) -> bool {
        let grows = resident > std::mem::replace(&mut self.last, resident) + (1 << 20);
        self.least = self.least.min(resident);
        if self.tried > 0 && resident + MIN_EXCESS / 2 < self.tried {
            (self.tried, self.pauses) = (0, 1);
        }
        self.pause = self.pause.saturating_sub(1);
        if grows || self.pause > 0 || ended == self.ended || resident < self.least + MIN_EXCESS {
            return false;
        }
        (self.tried, self.ended, self.pause) = (resident, ended, self.pauses);
        self.pauses = (self.pauses * 2).min(MAX_PAUSE);
        true
    }
}

impl Memory {
    /// Begins with the memory of an idle process: a crowd can arrive before the first check.
    pub(crate) fn new(resident: Option<u64>) -> Self {
        let next = Instant::now() + CHECK_INTERVAL;
        Self { next, ended: 0, ended_before: 0, resident: Resident::new(resident) }
    }

    pub(crate) async fn wait_until_due(&self) {
        sleep_until(self.next).await;
    }

    /// Releases memory if a crowd is over; `ended`: connections that have ended since the start, `resident`: bytes in memory.
    pub(crate) fn check(&mut self, ended: u64, resident: Option<u64>) {
        self.next = Instant::now() + CHECK_INTERVAL;
        let is_worth_it = resident.is_some_and(|resident| self.resident.is_worth_a_try(resident, ended));
        if self.is_over(ended) || is_worth_it {
            // On another thread: this one answers service managers and operators.
            drop(tokio::task::spawn_blocking(handfast_net::sys::release_memory));
        }
    }

    fn is_over(&mut self, ended: u64) -> bool {
        let lately = ended.saturating_sub(std::mem::replace(&mut self.ended, ended));
        let crowd = ended.saturating_sub(self.ended_before);
        let is_over = crowd >= MIN_CROWD && lately <= crowd / MAX_ENDED_SHARE;
        if is_over {
            self.ended_before = ended;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_when_a_crowd_is_over() {
        let mut memory = Memory::new(None);
        let outcomes = |memory: &mut Memory, ended: &[u64]| -> Vec<bool> {
            ended.iter().map(|ended| memory.is_over(*ended)).collect()
        };
        assert_eq!(outcomes(&mut memory, &[0, 999, 999]), [false; 3], "no crowd");
        assert_eq!(outcomes(&mut memory, &[5_000, 9_000, 9_040, 9_040]), [false, false, true, false]);
        // A load balancer's checks alone.
        let checks: Vec<u64> = (1..=50).map(|index| 9_040 + index * 10).collect();
        assert_eq!(outcomes(&mut memory, &checks), [false; 50]);
        assert_eq!(outcomes(&mut memory, &[90_000, 90_010]), [false, true]);
    }

    /// Takes the resident MiB and the number of ended connections at each look; returns true for looks at which it is time.
    fn tries(samples: &[(u64, u64)]) -> Vec<bool> {
        let mut resident = Resident::new(Some(20 << 20));
        samples.iter().map(|(mib, ended)| resident.is_worth_a_try(mib << 20, *ended)).collect()
    }

    #[test]
    fn memory_of_few_connections_is_given_back_when_they_have_ended() {
        // It grows, stays while they are open, stays when they have ended, and is given back.
        let samples = [(20, 0), (250, 0), (250, 0), (250, 25), (40, 25), (40, 26)];
        assert_eq!(tries(&samples), [false, false, false, true, false, false]);
        // It has come and gone before the first check.
        assert_eq!(tries(&[(250, 25), (250, 25)]), [false, true]);
        // A second crowd is given back as soon as the first one.
        let samples = [(20, 0), (250, 0), (250, 25), (40, 25), (250, 25), (250, 50), (40, 50)];
        assert_eq!(tries(&samples), [false, false, true, false, false, true, false]);
    }

    #[test]
    fn memory_that_is_in_use_is_tried_less_and_less() {
        let samples: Vec<_> = (0..100).map(|index| (if index == 0 { 20 } else { 300 }, index)).collect();
        let tries = tries(&samples);
        assert!(tries[..10].iter().any(|tried| *tried));
        assert!(tries.iter().filter(|tried| **tried).count() <= 10, "{tries:?}");
    }
}
