//! When the program gives freed memory back to the system: after a crowd of connections has ended, and not while many come.
//!
//! The C library keeps what a thread has freed: after 1,000 handshakes at once the process stayed at its peak until the next reload. To
//! give it back takes about 0.1 ms for each MB that a thread has freed, during which this thread waits if it allocates.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How often it is looked whether it is time.
const EVERY: Duration = Duration::from_secs(5);
/// Fewer connections than this do not leave enough behind.
const CROWD: u64 = 1_000;
/// The crowd is over when at most one in 100 of its connections ends between two looks: health checks of load balancers never stop.
const FEW: u64 = 100;

#[derive(Debug)]
pub(crate) struct Memory {
    next: Instant,
    ended: u64,
    /// The same when memory was given back last.
    ended_before: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self { next: Instant::now() + EVERY, ended: 0, ended_before: 0 }
    }
}

impl Memory {
    pub(crate) async fn look_is_due(&self) {
        sleep_until(self.next).await;
    }

    /// Gives memory back if a crowd is over; `ended`: connections that have ended since the start.
    pub(crate) fn look(&mut self, ended: u64) {
        self.next = Instant::now() + EVERY;
        if self.is_over(ended) {
            // On another thread: this one answers service managers and operators.
            drop(tokio::task::spawn_blocking(handfast_net::sys::release_memory));
        }
    }

    fn is_over(&mut self, ended: u64) -> bool {
        let lately = ended.saturating_sub(std::mem::replace(&mut self.ended, ended));
        let crowd = ended.saturating_sub(self.ended_before);
        let is_over = crowd >= CROWD && lately <= crowd / FEW;
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
        let mut memory = Memory::default();
        let looks = |memory: &mut Memory, ended: &[u64]| -> Vec<bool> {
            ended.iter().map(|ended| memory.is_over(*ended)).collect()
        };
        assert_eq!(looks(&mut memory, &[0, 999, 999]), [false; 3], "no crowd");
        assert_eq!(looks(&mut memory, &[5_000, 9_000, 9_040, 9_040]), [false, false, true, false]);
        // A load balancer's checks alone.
        let checks: Vec<u64> = (1..=50).map(|look| 9_040 + look * 10).collect();
        assert_eq!(looks(&mut memory, &checks), [false; 50]);
        assert_eq!(looks(&mut memory, &[90_000, 90_010]), [false, true]);
    }
}
