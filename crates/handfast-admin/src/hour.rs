//! The last hour, for the lines on the status page: one point every ten seconds, in memory of a fixed size, made from snapshots that were
//! taken anyway. A longer history is the task of a monitoring system.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use handfast_observe::metrics::{Distribution, RequestSnapshot, ServiceSnapshot, Snapshot, StatusClass};

pub(super) const APART: Duration = Duration::from_secs(10);
/// Points of an hour; with them it takes 22 KiB, whatever is served.
pub(super) const POINTS: usize = 360;
/// Snapshots come every five seconds, a moment late each.
const NEARLY: Duration = Duration::from_secs(9);

/// Ten seconds: events are means for each second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) connections: f32,
    pub(super) full: f32,
    pub(super) resumed: f32,
    pub(super) failures: f32,
    pub(super) to_backend: f32,
    pub(super) to_client: f32,
    pub(super) open: f32,
    /// Time of a handshake in seconds that half of them, and 99 %, did not exceed; `None`: there was none.
    pub(super) handshake: Option<[f32; 2]>,
    /// HTTP requests that ended, and those with status 5xx or none.
    pub(super) requests: f32,
    pub(super) server_errors: f32,
    pub(super) no_status: f32,
    /// As `handshake`, of requests.
    pub(super) request: Option<[f32; 2]>,
}

/// The last hour.
#[derive(Debug)]
pub(super) struct Hour {
    points: VecDeque<Point>,
    last: Option<Totals>,
}

#[derive(Debug)]
struct Totals {
    at: Instant,
    /// Accepted, full and resumed handshakes, failures, bytes to backends and to clients; requests, those with status 5xx, and without any.
    events: [u64; 9],
    handshakes: Distribution,
    requests: Distribution,
}

impl Default for Hour {
    fn default() -> Self {
        Self { points: VecDeque::with_capacity(POINTS), last: None }
    }
}

impl Totals {
    fn of(snapshot: &Snapshot, at: Instant) -> Self {
        let mut events = [0; 9];
        let mut times = Distribution::default();
        for service in &snapshot.services {
            let failed = service.ends.iter().filter(|end| end.is_failure()).map(|end| end.count).sum();
            let requests = service.requests.as_ref();
            let of_class = |class| requests.map_or(0, |requests| requests.of_class(class));
            requests
                .iter()
                .flat_map(|requests| requests.duration.values())
                .for_each(|more| times.merge(more));
            let more = [
                service.accepted,
                service.handshakes_full,
                service.handshakes_resumed,
                failed,
                service.bytes_to_backend,
                service.bytes_to_client,
                requests.map_or(0, RequestSnapshot::ended),
                of_class(StatusClass::ServerError),
                of_class(StatusClass::Missing),
            ];
            events.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        let mut handshakes = Distribution::default();
        snapshot.handshakes.iter().for_each(|seen| handshakes.merge(&seen.total));
        Self { at, events, handshakes, requests: times }
    }
}

impl Hour {
    /// Adds a point, if the last one is old enough.
    pub(super) fn add(&mut self, snapshot: &Snapshot, at: Instant) {
        let age = self.last.as_ref().map(|last| at.saturating_duration_since(last.at));
        if age.is_some_and(|age| age < NEARLY) {
            return;
        }
        let now = Totals::of(snapshot, at);
        if let (Some(last), Some(age)) = (&self.last, age) {
            if self.points.len() == POINTS {
                self.points.pop_front();
            }
            self.points.push_back(point(snapshot, &now, last, age.as_secs_f64()));
        }
        self.last = Some(now);
    }

    pub(super) fn points(&self) -> Vec<Point> {
        self.points.iter().copied().collect()
    }
}

fn point(snapshot: &Snapshot, now: &Totals, last: &Totals, seconds: f64) -> Point {
    let rate = |place: usize| (now.events[place].saturating_sub(last.events[place]) as f64 / seconds) as f32;
    let [connections, full, resumed, failures, to_backend, to_client, requests, server_errors, no_status] =
        std::array::from_fn(rate);
    let quantiles = |times: &Distribution| {
        let quantile = |q: f64| times.quantile_seconds(q).map(|seconds| seconds as f32);
        quantile(0.5).zip(quantile(0.99)).map(|(half, most)| [half, most])
    };
    Point {
        connections,
        full,
        resumed,
        failures,
        to_backend,
        to_client,
        open: snapshot.services.iter().map(ServiceSnapshot::connections).sum::<u64>() as f32,
        handshake: quantiles(&now.handshakes.since(&last.handshakes)),
        requests,
        server_errors,
        no_status,
        request: quantiles(&now.requests.since(&last.requests)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_observe::metrics::Registry;

    #[test]
    fn a_point_is_what_happened_in_ten_seconds() {
        let registry = Registry::new();
        let web = registry.thread("worker-0").service("web");
        web.bytes_to_client(7_000);
        let (mut hour, start) = (Hour::default(), Instant::now());
        hour.add(&registry.snapshot(), start);
        assert_eq!(hour.points(), [], "there is no past yet");
        (0..30).for_each(|_| web.accepted());
        web.bytes_to_client(1_000);
        hour.add(&registry.snapshot(), start + Duration::from_secs(5));
        assert_eq!(hour.points(), [], "too early");
        hour.add(&registry.snapshot(), start + APART);
        let expected = Point { connections: 3.0, to_client: 100.0, open: 30.0, ..Point::default() };
        assert_eq!(hour.points(), [expected]);
    }

    #[test]
    fn only_an_hour_is_kept_in_memory_that_does_not_grow() {
        let (registry, start) = (Registry::new(), Instant::now());
        let web = registry.thread("worker-0").service("web");
        let mut hour = Hour::default();
        let room = hour.points.capacity();
        for count in 0..1_000_u32 {
            web.accepted();
            hour.add(&registry.snapshot(), start + APART * count);
        }
        assert_eq!((hour.points.len(), hour.points.capacity()), (POINTS, room));
        assert!(hour.points.iter().all(|point| (point.connections - 0.1).abs() < 1e-6), "{hour:?}");
        assert!(room * size_of::<Point>() <= 24 * 1024, "as the head of this file says");
    }
}
