//! Totals of the last minute, sampled every few seconds: [`Rates`] per second and [`Recent`] events. A longer history is the task of a
//! monitoring system.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::hour::{Hour, Point};
pub use requests::RecentRequests;

mod requests;

use handfast_observe::metrics::{
    Distribution, End, HandshakeSnapshot, Limit, PHASES, RequestSnapshot, ServiceSnapshot, Snapshot,
    StatusClass,
};

pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Number of samples that are kept: a minute of them.
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
    /// Of each service: accepted connections, handshakes, bytes to backends, bytes to clients, HTTP requests, those with status 5xx.
    totals: BTreeMap<String, [u64; 6]>,
    cpu_seconds: BTreeMap<String, f64>,
    events: Recent,
}

/// Events of the last minute, or since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recent {
    /// Number of seconds that the events are from.
    pub over_seconds: f64,
    /// By service.
    pub services: BTreeMap<String, RecentService>,
    /// Completed handshakes.
    pub handshakes: RecentHandshakes,
    /// By worker thread, how long an event had to wait while the thread worked on others.
    pub loop_lag: BTreeMap<String, Distribution>,
}

/// Handshakes that were completed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentHandshakes {
    /// Full ones.
    pub full: RecentTimes,
    /// Those that resumed a session.
    pub resumed: RecentTimes,
}

/// Times of handshakes of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentTimes {
    /// Accept to the end of the handshake.
    pub total: Distribution,
    /// Its parts, in the order of [`PHASES`].
    pub phases: [Distribution; PHASES.len()],
}

/// Events of one service's connections.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentService {
    /// Ends of connections, the most frequent first.
    pub ends: Vec<End>,
    /// Completed handshakes.
    pub handshakes: u64,
    /// Clients turned away because of their address's limit.
    pub rejected: u64,
    /// Clients turned away because of the rate of handshakes from their address.
    pub rate_limited: u64,
    /// Its backends.
    pub backends: BTreeMap<String, Attempts>,
    /// Of a service that serves HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RecentRequests>,
}

/// Attempts to connect to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempts {
    /// That succeeded.
    pub connected: u64,
    /// That did not.
    pub failed: u64,
}

/// Events a second, as means over some seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rates {
    /// Number of seconds that the means are over; zero when there is no past yet.
    pub over_seconds: f64,
    /// By service.
    pub services: BTreeMap<String, ServiceRates>,
    /// Cores in use, by thread name.
    pub cpu: BTreeMap<String, f64>,
}

/// One service's rates, for each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceRates {
    /// Accepted connections.
    pub connections: f64,
    /// Completed handshakes.
    pub handshakes: f64,
    /// Plaintext bytes from clients to backends.
    pub bytes_to_backend: f64,
    /// Plaintext bytes from backends to clients.
    pub bytes_to_client: f64,
    /// HTTP requests that ended.
    pub requests: f64,
    /// Those with status 5xx.
    pub server_errors: f64,
}

/// Increases of the values under each name; `since` compares both totals of a name.
fn each_since<K: Ord + Clone, T: Default, S>(
    now: &BTreeMap<K, T>,
    before: &BTreeMap<K, T>,
    since: impl Fn(&T, &T) -> S,
) -> BTreeMap<K, S> {
    let nothing = T::default();
    now.iter().map(|(name, now)| (name.clone(), since(now, before.get(name).unwrap_or(&nothing)))).collect()
}

/// The ways in which something ended since, the most frequent first.
fn ends_since(now: &[End], before: &[End]) -> Vec<End> {
    let earlier =
        |end: &End| before.iter().find(|known| known.key() == end.key()).map_or(0, |known| known.count);
    let ends = now.iter().map(|end| End { count: end.count.saturating_sub(earlier(end)), ..end.clone() });
    let mut ends: Vec<_> = ends.filter(|end| end.count > 0).collect();
    ends.sort_by_key(|end| std::cmp::Reverse(end.count));
    ends
}

impl Recent {
    fn of(snapshot: &Snapshot) -> Self {
        let mut handshakes = RecentHandshakes::default();
        for seen in &snapshot.handshakes {
            let kind = if seen.resumed { &mut handshakes.resumed } else { &mut handshakes.full };
            kind.add(seen);
        }
        let services = snapshot.services.iter();
        let lag = snapshot.threads.iter().map(|thread| (thread.name.clone(), thread.loop_lag.clone()));
        Self {
            over_seconds: 0.0,
            services: services.map(|service| (service.name.clone(), RecentService::of(service))).collect(),
            handshakes,
            loop_lag: lag.collect(),
        }
    }

    fn since(&self, before: &Self, over: Duration) -> Self {
        let (full, resumed) = (&self.handshakes.full, &self.handshakes.resumed);
        Self {
            over_seconds: over.as_secs_f64(),
            services: each_since(&self.services, &before.services, RecentService::since),
            handshakes: RecentHandshakes {
                full: full.since(&before.handshakes.full),
                resumed: resumed.since(&before.handshakes.resumed),
            },
            loop_lag: each_since(&self.loop_lag, &before.loop_lag, Distribution::since),
        }
    }
}

impl RecentTimes {
    /// Adds handshakes.
    pub fn add(&mut self, seen: &HandshakeSnapshot) {
        self.total.merge(&seen.total);
        self.phases.iter_mut().zip(&seen.phases).for_each(|(sum, phase)| sum.merge(phase));
    }

    /// Returns the durations since an earlier snapshot.
    pub fn since(&self, before: &Self) -> Self {
        let phase = |place: usize| self.phases[place].since(&before.phases[place]);
        Self { total: self.total.since(&before.total), phases: std::array::from_fn(phase) }
    }
}

impl RecentService {
    fn of(service: &ServiceSnapshot) -> Self {
        let refused = |limit: Limit| service.refused.get(limit.name()).copied().unwrap_or_default();
        let backends = service.backends.iter().map(|backend| {
            let attempts = Attempts { connected: backend.connected, failed: backend.failed() };
            (backend.name.clone(), attempts)
        });
        Self {
            ends: service.ends.clone(),
            handshakes: service.handshakes_full + service.handshakes_resumed,
            rejected: refused(Limit::Address),
            rate_limited: refused(Limit::Rate),
            backends: backends.collect(),
            requests: service.requests.as_ref().map(RecentRequests::of),
        }
    }

    fn since(&self, before: &Self) -> Self {
        let nothing = RecentRequests::default();
        let earlier = before.requests.as_ref().unwrap_or(&nothing);
        let attempts = |now: &Attempts, before: &Attempts| Attempts {
            connected: now.connected.saturating_sub(before.connected),
            failed: now.failed.saturating_sub(before.failed),
        };
        Self {
            ends: ends_since(&self.ends, &before.ends),
            handshakes: self.handshakes.saturating_sub(before.handshakes),
            rejected: self.rejected.saturating_sub(before.rejected),
            rate_limited: self.rate_limited.saturating_sub(before.rate_limited),
            backends: each_since(&self.backends, &before.backends, attempts),
            requests: self.requests.as_ref().map(|requests| requests.since(earlier)),
        }
    }
}

impl Sample {
    fn of(snapshot: &Snapshot, at: Instant) -> Self {
        let totals = snapshot.services.iter().map(|service| {
            let handshakes = service.handshakes_full + service.handshakes_resumed;
            let requests = service.requests.as_ref();
            let totals = [
                service.accepted,
                handshakes,
                service.bytes_to_backend,
                service.bytes_to_client,
                requests.map_or(0, RequestSnapshot::ended),
                requests.map_or(0, |requests| requests.of_class(StatusClass::ServerError)),
            ];
            (service.name.clone(), totals)
        });
        let cpu_seconds = snapshot.process.cpu_seconds.clone();
        Self { at, totals: totals.collect(), cpu_seconds, events: Recent::of(snapshot) }
    }
}

impl History {
    pub(super) fn add(&mut self, snapshot: &Snapshot, at: Instant) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample::of(snapshot, at));
        self.hour.add(snapshot, at);
    }

    pub(super) fn hour(&self) -> Vec<Point> {
        self.hour.points()
    }

    /// Returns the events since the oldest kept totals; since the start, when there are none.
    pub(super) fn recent(&self, snapshot: &Snapshot) -> Recent {
        let (now, process) = (Recent::of(snapshot), &snapshot.process);
        match self.samples.front() {
            Some(past) => now.since(&past.events, past.at.elapsed()),
            None => {
                now.since(&Recent::default(), process.now.duration_since(process.started).unwrap_or_default())
            }
        }
    }

    /// Returns the rates from the oldest kept totals to these.
    pub(super) fn rates(&self, snapshot: &Snapshot, at: Instant) -> Rates {
        let now = Sample::of(snapshot, at);
        let Some(past) = self.samples.front() else { return Rates::default() };
        let over_seconds = now.at.saturating_duration_since(past.at).as_secs_f64();
        // Over a fraction of a second, one connection more or less would look like hundreds.
        if over_seconds < 1.0 {
            return Rates::default();
        }
        let services = each_since(&now.totals, &past.totals, |now, before| {
            let rate = |index: usize| now[index].saturating_sub(before[index]) as f64 / over_seconds;
            let [connections, handshakes, bytes_to_backend, bytes_to_client, requests, server_errors] =
                std::array::from_fn(rate);
            ServiceRates {
                connections,
                handshakes,
                bytes_to_backend,
                bytes_to_client,
                requests,
                server_errors,
            }
        });
        let cpu = each_since(&now.cpu_seconds, &past.cpu_seconds, |seconds, before| {
            ((seconds - before) / over_seconds).max(0.0)
        });
        Rates { over_seconds, services, cpu }
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
        assert_eq!(history.rates(&registry.snapshot(), start).over_seconds, 0.0, "no past, no rates");
        web.bytes_to_client(5_000);
        history.add(&registry.snapshot(), start);
        for _ in 0..30 {
            web.accepted();
        }
        web.bytes_to_client(1_000);
        let rates = history.rates(&registry.snapshot(), start + Duration::from_secs(10));
        assert_eq!(rates.over_seconds, 10.0);
        assert_eq!(
            rates.services["web"],
            ServiceRates { connections: 3.0, bytes_to_client: 100.0, ..ServiceRates::default() }
        );
        let soon = history.rates(&registry.snapshot(), start + Duration::from_millis(10));
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
        history.add(&registry.snapshot(), Instant::now());
        backend.failed(Cause::Socket(SocketCause::ConnectTimeout));
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
            history.add(&registry.snapshot(), at(count));
        }
        assert_eq!(history.samples.len(), SAMPLES);
        assert_eq!(history.rates(&registry.snapshot(), at(100)).over_seconds, 60.0);
    }
}
