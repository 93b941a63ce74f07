//! Rates: totals of the last minute, sampled every few seconds.
//!
//! In: snapshots. Out: [`Rates`] per second and [`Recent`] events over at most the last minute. Kept here because no other part
//! needs the past; a longer history is the task of a monitoring system.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use std::time::Instant;

use serde::Serialize;

use super::hour::{Hour, Point};
use handfast_observe::metrics::{Distribution, End, Limit, PHASES, ServiceSnapshot, Snapshot};

/// How often totals are kept.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// How many are kept: a minute of them.
const SAMPLES: usize = 12;

/// The totals of the last minute.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    hour: Hour,
}

#[derive(Debug)]
struct Sample {
    at: Instant,
    services: BTreeMap<String, ServiceSample>,
    cpu_seconds: BTreeMap<String, f64>,
    handshakes: RecentHandshakes,
    loop_lag: BTreeMap<String, Distribution>,
}

#[derive(Clone, Debug, Default)]
struct ServiceSample {
    /// Accepted connections, handshakes, bytes to backends, bytes to clients.
    totals: [u64; 4],
    events: RecentService,
}

/// What happened in the last minute, or since the start.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Recent {
    /// Over how many seconds.
    pub(super) over_seconds: f64,
    /// By service.
    pub(super) services: BTreeMap<String, RecentService>,
    /// Handshakes that were completed, of all services.
    pub(super) handshakes: RecentHandshakes,
    /// By worker thread, how long an event had to wait while the thread worked on others.
    pub(super) loop_lag: BTreeMap<String, Distribution>,
}

/// Handshakes of both kinds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RecentHandshakes {
    pub(super) full: RecentTimes,
    pub(super) resumed: RecentTimes,
}

/// How long they took.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RecentTimes {
    /// Accept to the end of the handshake.
    pub(super) total: Distribution,
    /// Its parts, in the order of [`PHASES`].
    pub(super) phases: [Distribution; PHASES.len()],
}

impl RecentHandshakes {
    fn of(snapshot: &Snapshot) -> Self {
        let mut all = Self::default();
        for seen in &snapshot.handshakes {
            let kind = if seen.resumed { &mut all.resumed } else { &mut all.full };
            kind.total.merge(&seen.total);
            for (sum, phase) in kind.phases.iter_mut().zip(&seen.phases) {
                sum.merge(phase);
            }
        }
        all
    }

    fn since(&self, before: &Self) -> Self {
        Self { full: self.full.since(&before.full), resumed: self.resumed.since(&before.resumed) }
    }
}

impl RecentTimes {
    fn since(&self, before: &Self) -> Self {
        let phase = |place: usize| self.phases[place].since(&before.phases[place]);
        Self { total: self.total.since(&before.total), phases: std::array::from_fn(phase) }
    }
}

/// What happened to one service's connections.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RecentService {
    /// How those that ended did, the most frequent first.
    pub(super) ends: Vec<End>,
    /// Handshakes completed.
    pub(super) handshakes: u64,
    /// Clients turned away because of their address's limit.
    pub(super) turned_away: u64,
    /// Clients turned away because of the rate of handshakes from their address.
    pub(super) too_fast: u64,
    /// Attempts to connect to each backend.
    pub(super) backends: BTreeMap<String, Attempts>,
}

/// Attempts to connect to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Attempts {
    pub(super) connected: u64,
    pub(super) failed: u64,
}

impl ServiceSample {
    fn of(service: &ServiceSnapshot) -> Self {
        let handshakes = service.handshakes_full + service.handshakes_resumed;
        let backends = service.backends.iter();
        let refused = |limit: Limit| service.refused.get(limit.name()).copied().unwrap_or_default();
        Self {
            totals: [service.accepted, handshakes, service.bytes_to_backend, service.bytes_to_client],
            events: RecentService {
                ends: service.ends.clone(),
                handshakes,
                turned_away: refused(Limit::Address),
                too_fast: refused(Limit::Rate),
                backends: backends
                    .map(|backend| {
                        let attempts = Attempts { connected: backend.connected, failed: backend.failed() };
                        (backend.name.clone(), attempts)
                    })
                    .collect(),
            },
        }
    }
}

impl RecentService {
    /// What has come since.
    fn since(&self, before: &Self) -> Self {
        let earlier = |end: &End| {
            before.ends.iter().find(|known| known.key() == end.key()).map_or(0, |known| known.count)
        };
        let ends =
            self.ends.iter().map(|end| End { count: end.count.saturating_sub(earlier(end)), ..end.clone() });
        let mut ends: Vec<_> = ends.filter(|end| end.count > 0).collect();
        ends.sort_by_key(|end| std::cmp::Reverse(end.count));
        let backends = self.backends.iter().map(|(name, now)| {
            let before = before.backends.get(name).copied().unwrap_or_default();
            let attempts = Attempts {
                connected: now.connected.saturating_sub(before.connected),
                failed: now.failed.saturating_sub(before.failed),
            };
            (name.clone(), attempts)
        });
        Self {
            ends,
            handshakes: self.handshakes.saturating_sub(before.handshakes),
            turned_away: self.turned_away.saturating_sub(before.turned_away),
            too_fast: self.too_fast.saturating_sub(before.too_fast),
            backends: backends.collect(),
        }
    }
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
        let services =
            snapshot.services.iter().map(|service| (service.name.clone(), ServiceSample::of(service)));
        let lag = snapshot.threads.iter().map(|thread| (thread.name.clone(), thread.loop_lag.clone()));
        Self {
            at,
            services: services.collect(),
            cpu_seconds: snapshot.process.cpu_seconds.clone(),
            handshakes: RecentHandshakes::of(snapshot),
            loop_lag: lag.collect(),
        }
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
        self.hour.add(snapshot, at);
    }

    /// The last hour, the oldest point first.
    pub(super) fn hour(&self) -> Vec<Point> {
        self.hour.points()
    }

    /// What happened from the oldest kept totals to these.
    pub(super) fn rates(&self, snapshot: &Snapshot) -> Rates {
        self.rates_at(snapshot, Instant::now())
    }

    /// What happened since the oldest kept totals; since the start, when there are none.
    pub(super) fn recent(&self, snapshot: &Snapshot) -> Recent {
        let now = Sample::of(snapshot, Instant::now());
        let past = self.samples.front();
        let nothing = ServiceSample::default();
        let services = now.services.iter().map(|(name, service)| {
            let before = past.and_then(|past| past.services.get(name)).unwrap_or(&nothing);
            (name.clone(), service.events.since(&before.events))
        });
        let started = snapshot.process.now.duration_since(snapshot.process.started).unwrap_or_default();
        let over = past.map_or(started, |past| now.at.saturating_duration_since(past.at));
        let (no_handshakes, no_lag) = (RecentHandshakes::default(), Distribution::default());
        let handshakes = now.handshakes.since(past.map_or(&no_handshakes, |past| &past.handshakes));
        let lag = now.loop_lag.iter().map(|(name, lag)| {
            let before = past.and_then(|past| past.loop_lag.get(name)).unwrap_or(&no_lag);
            (name.clone(), lag.since(before))
        });
        Recent {
            over_seconds: over.as_secs_f64(),
            services: services.collect(),
            handshakes,
            loop_lag: lag.collect(),
        }
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
            let before = past.services.get(name).map(|before| before.totals).unwrap_or_default();
            let rate =
                |index: usize| totals.totals[index].saturating_sub(before[index]) as f64 / over_seconds;
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
    use handfast_observe::metrics::Registry;

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
    fn recent_events_are_those_of_the_last_minute() {
        use handfast_net::fault::Cause as SocketCause;
        use handfast_observe::cause::Cause;
        let registry = Registry::new();
        let web = registry.thread("worker-0").service("web");
        let backend = web.backend("10.0.0.7:80", true);
        backend.failed(Cause::Socket(SocketCause::Refused));
        let mut history = History::default();
        let recent =
            |history: &History| history.recent(&registry.snapshot()).services["web"].backends["10.0.0.7:80"];
        assert_eq!(recent(&history), Attempts { connected: 0, failed: 1 }, "since the start");
        history.add(&registry.snapshot());
        backend.failed(Cause::Socket(SocketCause::ConnectDeadline));
        backend.connected(Duration::ZERO);
        assert_eq!(recent(&history), Attempts { connected: 1, failed: 1 });
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
