//! Detects pauses of the thread: it was due to run, and for a time neither ran nor waited for a CPU.
//!
//! In: its CPU clocks at each beat. Out: pauses of at least [`PAUSE`], by second. For other clocks, a pause of the generator
//! looks like a pause of its target. Causes are a stopped process, a suspended machine, an exhausted CPU quota.

use std::time::Duration;

use handfast_net::clock::Moment;

use super::Usage;
use crate::sample::PAUSE;

/// The interval at which a waiting thread checks the clock. **Cost**: at each beat two system calls, about 2 µs.
const BEAT: Duration = Duration::from_millis(10);

/// A thread's beats.
#[derive(Debug)]
pub(super) struct Heartbeat {
    last: Usage,
    /// Pauses that were not handed over yet, from the oldest: their starts and ends.
    pauses: Vec<(Moment, Moment)>,
}

impl Heartbeat {
    /// The first beat is now.
    pub(super) fn new() -> Self {
        Self { last: Usage::now(Moment::now()), pauses: Vec::new() }
    }

    /// Time at which the next beat is due.
    pub(super) fn next(&self) -> Moment {
        self.last.at + BEAT
    }

    /// The thread runs; `now` has its CPU clocks. The time by which it is late is a pause, without the time in which it ran or waited
    /// for a CPU.
    pub(super) fn beat(&mut self, now: Usage) {
        let before = std::mem::replace(&mut self.last, now);
        let ran = now.busy.saturating_sub(before.busy) + now.starved.saturating_sub(before.starved);
        let late = now.at.since(before.at).saturating_sub(BEAT + Duration::from_nanos(ran));
        if late >= PAUSE {
            let began = now.at.nanos().saturating_sub(super::nanos(late));
            self.pauses.push((Moment::from_nanos(began), now.at));
        }
    }

    /// Takes the time of the pauses before `end`: that of one that lasted longer, up to there.
    pub(super) fn paused_until(&mut self, end: Moment) -> Duration {
        let mut sum = Duration::ZERO;
        for (from, until) in &mut self.pauses {
            let part = (*until).min(end);
            sum += part.since(*from);
            *from = part.max(*from);
        }
        self.pauses.retain(|(from, until)| from < until);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(at_ms: u64, busy_ms: u64, starved_ms: u64) -> Usage {
        let nanos = |millis: u64| millis * 1_000_000;
        Usage { busy: nanos(busy_ms), starved: nanos(starved_ms), at: Moment::from_nanos(nanos(at_ms)) }
    }

    fn beats(all: &[(u64, u64, u64)]) -> Heartbeat {
        let mut heartbeat = Heartbeat { last: usage(0, 0, 0), pauses: Vec::new() };
        all.iter().for_each(|(at, busy, starved)| heartbeat.beat(usage(*at, *busy, *starved)));
        heartbeat
    }

    fn millis(heartbeat: &mut Heartbeat, end: u64) -> u128 {
        heartbeat.paused_until(usage(end, 0, 0).at).as_millis()
    }

    #[test]
    fn what_was_neither_run_nor_waited_is_a_pause() {
        assert_eq!(millis(&mut beats(&[(12, 1, 0), (24, 2, 0), (374, 2, 0)]), 1_000), 340);
        assert_eq!(millis(&mut beats(&[(350, 340, 0)]), 1_000), 0, "busy");
        assert_eq!(millis(&mut beats(&[(350, 10, 330)]), 1_000), 0, "without a CPU");
        assert_eq!(millis(&mut beats(&[(29, 0, 0)]), 1_000), 0, "a late timer");
        assert_eq!(millis(&mut beats(&[(31, 0, 0), (62, 0, 0)]), 1_000), 42);
    }

    #[test]
    fn a_pause_is_reported_each_second_that_it_was_in() {
        let mut heartbeat = beats(&[(500, 490, 0), (2_510, 490, 0)]);
        let seconds = [1_000, 2_000, 3_000, 4_000].map(|end| millis(&mut heartbeat, end));
        assert_eq!(seconds, [490, 1_000, 510, 0]);
        assert!(heartbeat.pauses.is_empty());
    }
}
