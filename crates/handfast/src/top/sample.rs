//! One moment of a proxy, and the one a minute earlier, computed from what the proxy counted since.

use std::ops::Deref;

use handfast_admin::{RecentService, RecentTimes, Status};
use handfast_observe::metrics::{HandshakeSnapshot, ServiceSnapshot, Snapshot, ThreadSnapshot};

/// One moment of a proxy.
#[derive(Clone)]
pub(crate) struct Sample {
    /// Time of its request, by our clock; zero is the start of this program.
    pub(crate) at: f64,
    pub(crate) status: Status,
}

/// A thread of the proxy.
pub(crate) struct Thread<'s> {
    pub(crate) name: &'s str,
    /// Seconds.
    pub(crate) cpu: f64,
    /// Of one that serves connections.
    pub(crate) worker: Option<&'s ThreadSnapshot>,
    /// Of the last minute: 99 % waited no longer.
    pub(crate) lag_p99: Option<f64>,
}

impl Deref for Sample {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.status.measured
    }
}

impl Sample {
    /// The same up to a minute earlier; `None`: the proxy has only just started.
    pub(crate) fn earlier(&self) -> Option<Self> {
        let mut earlier = self.clone();
        let (rates, recent) = (&self.status.rates, &self.status.recent);
        let over = Some(recent.over_seconds).filter(|_| rates.over_seconds >= 1.0)?;
        let amount = |rate: f64| (rate * over).round() as u64;
        earlier.at -= over;
        let measured = &mut earlier.status.measured;
        for service in &mut measured.services {
            if let Some(rates) = rates.services.get(&service.name) {
                less(&mut service.accepted, amount(rates.connections));
                less(&mut service.bytes_to_backend, amount(rates.bytes_to_backend));
                less(&mut service.bytes_to_client, amount(rates.bytes_to_client));
            }
            if let Some(recent) = recent.services.get(&service.name) {
                take_from(service, recent);
            }
        }
        let kinds = [(false, &recent.handshakes.full), (true, &recent.handshakes.resumed)];
        measured.handshakes = Vec::from(kinds.map(|(resumed, recent)| {
            let RecentTimes { total, phases } =
                self.handshakes_of(|seen| seen.resumed == resumed).since(recent);
            HandshakeSnapshot { resumed, total, phases, ..HandshakeSnapshot::default() }
        }));
        for (name, seconds) in &mut measured.process.cpu_seconds {
            *seconds -= rates.cpu.get(name).copied().unwrap_or_default() * over;
        }
        for thread in &mut measured.threads {
            if let Some(lag) = recent.loop_lag.get(&thread.name) {
                less(&mut thread.turns, lag.count());
                thread.loop_lag = thread.loop_lag.since(lag);
            }
        }
        Some(earlier)
    }

    /// Times of these handshakes.
    pub(crate) fn handshakes_of(&self, chosen: impl Fn(&HandshakeSnapshot) -> bool) -> RecentTimes {
        let mut times = RecentTimes::default();
        self.handshakes.iter().filter(|seen| chosen(seen)).for_each(|seen| times.add(seen));
        times
    }

    /// Those that serve connections in their order, then the others.
    pub(crate) fn all_threads(&self) -> Vec<Thread<'_>> {
        let cpu = &self.process.cpu_seconds;
        let lag = &self.status.recent.loop_lag;
        let workers = self.threads.iter().map(|worker| Thread {
            name: &worker.name,
            cpu: cpu.get(&worker.name).copied().unwrap_or_default(),
            worker: Some(worker),
            lag_p99: lag.get(&worker.name).and_then(|lag| lag.quantile_seconds(0.99)),
        });
        let is_other = |(name, _): &(&String, &f64)| self.threads.iter().all(|known| known.name != **name);
        let others = cpu.iter().filter(is_other);
        let others = others.map(|(name, cpu)| Thread { name, cpu: *cpu, worker: None, lag_p99: None });
        workers.chain(others).collect()
    }

    /// Addresses that a service listens on.
    pub(crate) fn listens(&self, service: &str) -> String {
        let known = self.status.overview.services.iter().find(|known| known.name == service);
        known.map(|known| known.listen.join(" ")).unwrap_or_default()
    }

    /// Returns true if both samples are of one process, so that its counters can be compared.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        (self.process.pid, self.process.started) == (other.process.pid, other.process.started)
    }
}

fn take_from(service: &mut ServiceSnapshot, recent: &RecentService) {
    service.handshakes_full += std::mem::take(&mut service.handshakes_resumed);
    less(&mut service.handshakes_full, recent.handshakes);
    for end in &mut service.ends {
        let same = recent.ends.iter().find(|known| known.key() == end.key());
        less(&mut end.count, same.map_or(0, |same| same.count));
    }
    for backend in &mut service.backends {
        let attempts = recent.backends.get(&backend.name).copied().unwrap_or_default();
        less(&mut backend.connected, attempts.connected);
        let mut failed = attempts.failed;
        for count in backend.failures.0.values_mut() {
            let before = *count;
            less(count, failed);
            failed -= before - *count;
        }
    }
    if let (Some(requests), Some(recent)) = (&mut service.requests, &recent.requests) {
        for (class, count) in &mut requests.by_status {
            less(count, recent.by_status.get(class).copied().unwrap_or_default());
        }
        for end in &mut requests.routes {
            let same = recent.routes.iter().find(|known| known.is_like(end));
            less(&mut end.count, same.map_or(0, |same| same.count));
        }
    }
}

fn less(count: &mut u64, by: u64) {
    *count = count.saturating_sub(by);
}
