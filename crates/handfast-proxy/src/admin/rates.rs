//! How fast things go now: totals of the last minute, sampled every few seconds.
//!
//! In: snapshots. Out: [`Rates`] per second over at most the last minute. Kept here because nobody else needs the past; who
//! wants more of it scrapes the metrics.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use std::time::Instant;

use serde::Serialize;

use crate::metrics::Snapshot;

/// How often totals are kept.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// How many are kept: a minute of them.
const SAMPLES: usize = 12;

/// The totals of the last minute.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
}

#[derive(Debug)]
struct Sample {
    at: Instant,
    services: BTreeMap<String, [u64; 4]>,
    cpu_seconds: BTreeMap<String, f64>,
}

/// What happened in each second, over some seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rates {
    /// Over how many seconds; zero when there is no past yet.
    pub(super) over_seconds: f64,
    /// By service.
    pub(super) services: BTreeMap<String, ServiceRates>,
    /// CPU seconds for each second, by thread name.
    pub(super) cpu: BTreeMap<String, f64>,
}

/// One service's rates, for each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct ServiceRates {
    pub(super) connections: f64,
    pub(super) handshakes: f64,
    pub(super) bytes_to_backend: f64,
    pub(super) bytes_to_client: f64,
}

impl Sample {
    fn of(snapshot: &Snapshot, at: Instant) -> Self {
        let services = snapshot.services.iter().map(|service| {
            let handshakes = service.handshakes_full + service.handshakes_resumed;
            (
                service.name.clone(),
                [service.accepted, handshakes, service.bytes_to_backend, service.bytes_to_client],
            )
        });
        Self { at, services: services.collect(), cpu_seconds: snapshot.process.cpu_seconds.clone() }
    }
}

impl History {
    /// Keeps the totals of this moment.
    pub(super) fn add(&mut self, snapshot: &Snapshot) {
        self.add_at(snapshot, Instant::now());
    }

    fn add_at(&mut self, snapshot: &Snapshot, at: Instant) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample::of(snapshot, at));
    }

    /// What happened from the oldest kept totals to these.
    pub(super) fn rates(&self, snapshot: &Snapshot) -> Rates {
        self.rates_at(snapshot, Instant::now())
    }

    fn rates_at(&self, snapshot: &Snapshot, at: Instant) -> Rates {
        let now = Sample::of(snapshot, at);
        let Some(past) = self.samples.front() else { return Rates::default() };
        let over_seconds = now.at.saturating_duration_since(past.at).as_secs_f64();
        // Over a fraction of a second, one connection more or less would look like hundreds.
        if over_seconds < 1.0 {
            return Rates::default();
        }
        let services = now.services.iter().map(|(name, totals)| {
            let before = past.services.get(name).copied().unwrap_or_default();
            let rate = |index: usize| totals[index].saturating_sub(before[index]) as f64 / over_seconds;
            let [connections, handshakes, bytes_to_backend, bytes_to_client] = [0, 1, 2, 3].map(rate);
            (name.clone(), ServiceRates { connections, handshakes, bytes_to_backend, bytes_to_client })
        });
        let cpu = now.cpu_seconds.iter().map(|(name, seconds)| {
            let before = past.cpu_seconds.get(name).copied().unwrap_or_default();
            (name.clone(), ((seconds - before) / over_seconds).max(0.0))
        });
        Rates { over_seconds, services: services.collect(), cpu: cpu.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    #[test]
    fn rates_are_differences_over_time() {
        let registry = Registry::new();
        let web = registry.thread("worker-0").service("web");
        let mut history = History::default();
        let start = Instant::now();
        assert_eq!(history.rates_at(&registry.snapshot(), start).over_seconds, 0.0, "no past, no rates");
        web.bytes_to_client(5_000);
        history.add_at(&registry.snapshot(), start);
        for _ in 0..30 {
            web.accepted();
        }
        web.bytes_to_client(1_000);
        let rates = history.rates_at(&registry.snapshot(), start + Duration::from_secs(10));
        assert_eq!(rates.over_seconds, 10.0);
        assert_eq!(
            rates.services["web"],
            ServiceRates { connections: 3.0, bytes_to_client: 100.0, ..ServiceRates::default() }
        );
        let soon = history.rates_at(&registry.snapshot(), start + Duration::from_millis(10));
        assert_eq!(soon.over_seconds, 0.0, "too short to divide by");
    }

    #[test]
    fn only_the_last_minute_is_kept() {
        let registry = Registry::new();
        let mut history = History::default();
        let start = Instant::now();
        let at = |count: u32| start + SAMPLE_INTERVAL * count;
        for count in 0..100 {
            history.add_at(&registry.snapshot(), at(count));
        }
        assert_eq!(history.samples.len(), SAMPLES);
        assert_eq!(history.rates_at(&registry.snapshot(), at(100)).over_seconds, 60.0);
    }
}
