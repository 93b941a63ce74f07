//! The status of a proxy at one moment, or of a run of `handfast load`, from the JSON of `/status.json`.
//!
//! A part that is missing is empty: a newer or older proxy of the same schema is shown as far as it goes.
//! Fields have the names of the JSON. Times are in seconds.

use std::collections::BTreeMap;

use handfast_report::run;
use handfast_text::calendar::seconds_since_1970;
use handfast_text::units::plain;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::tolerant;

/// Version of the status that is understood.
const SCHEMA: u64 = 2;
/// Parts of a handshake.
pub(crate) const PHASES: usize = 4;

/// One answer.
pub(crate) enum Seen {
    /// A moment of a proxy, and perhaps an earlier one.
    Proxy(Box<(Sample, Option<Sample>)>),
    /// A run at this moment.
    Run(Box<run::Run>),
}

impl Seen {
    /// Reads the answer to a request of the time `at`. A part that is missing is empty.
    ///
    /// **Errors**: what it is instead, as a sentence.
    pub(crate) fn read(text: &str, at: f64) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        if json["schema"] == run::SCHEMA {
            return tolerant::read(json).map(Self::Run).map_err(|error| error.to_string());
        }
        Sample::read(json, at).map(|moments| Self::Proxy(moments.into()))
    }
}

/// One moment of a proxy.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct Sample {
    /// When it was requested, by our clock; zero is the start of this program.
    #[serde(skip)]
    pub(crate) at: f64,
    pub(crate) process: Process,
    pub(crate) reload: Reload,
    pub(crate) overview: Overview,
    /// Present when a separate process holds the private keys.
    pub(crate) key_process: Option<KeyProcess>,
    pub(crate) not_ready_because: Option<String>,
    pub(crate) attention: Vec<Attention>,
    pub(crate) services: Vec<Service>,
    /// Full handshakes, and resumed ones.
    #[serde(skip)]
    pub(crate) handshakes: [Times; 2],
    #[serde(rename = "handshakes")]
    pub(crate) kinds: Vec<Kind>,
    pub(crate) certificates: Vec<Certificate>,
    /// Those that serve connections in their order, then the others.
    #[serde(skip)]
    pub(crate) threads: Vec<Thread>,
    #[serde(rename = "threads")]
    workers: Vec<Worker>,
    /// The last failures, the newest first.
    pub(crate) failures: Vec<Failure>,
    rates: Rates,
    recent: Recent,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u64,
    pub(crate) version: String,
    /// Since 1970.
    #[serde(deserialize_with = "moment")]
    pub(crate) started: f64,
    /// Since 1970.
    #[serde(deserialize_with = "moment")]
    pub(crate) now: f64,
    /// By thread.
    cpu_seconds: BTreeMap<String, f64>,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Reload {
    pub(crate) generation: u64,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Overview {
    pub(crate) configuration: String,
    services: Vec<Listening>,
}

#[derive(Clone, Default, Deserialize)]
struct Listening {
    name: String,
    listen: Vec<String>,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct KeyProcess {}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Attention {
    urgency: String,
    pub(crate) sentence: String,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Service {
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) listens: String,
    pub(crate) accepted: u64,
    pub(crate) closed: u64,
    pub(crate) connections_limit: Option<u64>,
    /// At all limits.
    #[serde(deserialize_with = "sum")]
    pub(crate) waiting: u64,
    /// Full and resumed.
    #[serde(skip)]
    pub(crate) handshakes: u64,
    handshakes_full: u64,
    handshakes_resumed: u64,
    pub(crate) bytes_to_backend: u64,
    pub(crate) bytes_to_client: u64,
    /// Only those that are failures.
    pub(crate) ends: Vec<End>,
    pub(crate) backends: Vec<Backend>,
    /// Of a service that serves HTTP.
    pub(crate) requests: Option<Requests>,
}

/// HTTP requests of a service.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct Requests {
    by_status: BTreeMap<String, u64>,
    /// Of all HTTP versions.
    #[serde(deserialize_with = "sum")]
    pub(crate) open: u64,
    /// Those that ended.
    #[serde(skip)]
    pub(crate) ended: u64,
    /// Those with status 5xx.
    #[serde(skip)]
    pub(crate) server_errors: u64,
}

/// Connections that ended in one way.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct End {
    step: String,
    side: String,
    cause: String,
    pub(crate) sentence: String,
    pub(crate) count: u64,
    failed: bool,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) connected: u64,
    pub(crate) disconnected: u64,
    /// For all causes.
    #[serde(rename = "failures", deserialize_with = "sum")]
    pub(crate) failed: u64,
    pub(crate) last_failure: String,
    pub(crate) connect: Durations,
    pub(crate) answer: Durations,
    check: Option<Check>,
}

#[derive(Clone, Default, Deserialize)]
struct Check {
    last_at: Option<String>,
    last_failure: Option<String>,
}

/// A distribution of durations; `None`: there was none.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct Durations {
    count: u64,
    sum_seconds: f64,
    pub(crate) p50_seconds: Option<f64>,
    pub(crate) p99_seconds: Option<f64>,
}

/// Handshakes: their number, their duration in all, and in their parts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) phases: [f64; PHASES],
}

/// Handshakes that agreed on the same.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct Kind {
    version: String,
    resumed: bool,
    group: String,
    signature: String,
    pub(crate) total: Durations,
    phases: Vec<Durations>,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Certificate {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) service: String,
    not_after: String,
}

#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) cpu: f64,
    /// Of one that serves connections.
    pub(crate) worker: Option<Worker>,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Worker {
    name: String,
    pub(crate) tasks: u64,
    pub(crate) turns: u64,
    /// How long events waited for it.
    loop_lag: Durations,
    /// Of the last minute: 99 % waited no longer.
    #[serde(skip)]
    pub(crate) lag_p99: Option<f64>,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Failure {
    time: String,
    pub(crate) service: String,
    pub(crate) client: String,
    pub(crate) backend: String,
    pub(crate) sentence: String,
    pub(crate) detail: String,
}

/// Each second of the last minute.
#[derive(Clone, Default, Deserialize)]
struct Rates {
    over_seconds: f64,
    services: BTreeMap<String, BTreeMap<String, f64>>,
    cpu: BTreeMap<String, f64>,
}

/// Counts of the last minute.
#[derive(Clone, Default, Deserialize)]
struct Recent {
    over_seconds: f64,
    services: BTreeMap<String, RecentService>,
    /// `full` and `resumed`.
    handshakes: BTreeMap<String, Kind>,
    loop_lag: BTreeMap<String, Durations>,
}

#[derive(Clone, Default, Deserialize)]
struct RecentService {
    ends: Vec<End>,
    backends: BTreeMap<String, Attempts>,
}

#[derive(Clone, Default, Deserialize)]
struct Attempts {
    connected: u64,
    failed: u64,
}

impl Sample {
    /// Reads a status that was requested at `at`: now, and up to a minute earlier.
    ///
    /// **Errors**: what it is instead, as a sentence.
    pub(crate) fn read(json: Value, at: f64) -> Result<(Self, Option<Self>), String> {
        if json["schema"].as_u64() != Some(SCHEMA) {
            let found: String = plain(&json["schema"].to_string()).chars().take(60).collect();
            return Err(format!(
                "its schema is {found}, expected {SCHEMA}: another version of Handfast answers"
            ));
        }
        let mut now: Self = tolerant::read(json).map_err(|error| error.to_string())?;
        now.at = at;
        now.complete();
        let earlier = (now.rates.over_seconds >= 1.0).then(|| now.earlier());
        Ok((now, earlier))
    }

    /// Computes the fields that the JSON does not have.
    fn complete(&mut self) {
        for service in &mut self.services {
            let known = self.overview.services.iter().find(|known| known.name == service.name);
            service.listens = known.map(|known| known.listen.join(" ")).unwrap_or_default();
            service.handshakes = service.handshakes_full + service.handshakes_resumed;
            service.ends.retain(|end| end.failed);
            if let Some(requests) = &mut service.requests {
                requests.ended = requests.by_status.values().fold(0, |sum, one| sum.saturating_add(*one));
                requests.server_errors = requests.by_status.get("5xx").copied().unwrap_or_default();
            }
        }
        for kind in &self.kinds {
            self.handshakes[usize::from(kind.resumed)].add(&kind.times());
        }
        let cpu = &mut self.process.cpu_seconds;
        for mut worker in std::mem::take(&mut self.workers) {
            worker.lag_p99 = self.recent.loop_lag.get(&worker.name).and_then(|lag| lag.p99_seconds);
            let (name, cpu) = (worker.name.clone(), cpu.remove(&worker.name).unwrap_or_default());
            self.threads.push(Thread { name, cpu, worker: Some(worker) });
        }
        let others = std::mem::take(cpu).into_iter();
        self.threads.extend(others.map(|(name, cpu)| Thread { name, cpu, worker: None }));
    }

    /// The same a minute earlier, computed from what the proxy counted since.
    fn earlier(&self) -> Self {
        let mut earlier = self.clone();
        let (rates, recent, over) = (&self.rates, &self.recent, self.recent.over_seconds);
        earlier.at -= over;
        earlier.kinds.clear();
        for service in &mut earlier.services {
            if let Some(rates) = rates.services.get(&service.name) {
                let amount =
                    |name: &str| (rates.get(name).copied().unwrap_or_default() * over).round() as u64;
                less(&mut service.accepted, amount("connections"));
                less(&mut service.handshakes, amount("handshakes"));
                less(&mut service.bytes_to_backend, amount("bytes_to_backend"));
                less(&mut service.bytes_to_client, amount("bytes_to_client"));
                if let Some(requests) = &mut service.requests {
                    less(&mut requests.ended, amount("requests"));
                    less(&mut requests.server_errors, amount("server_errors"));
                }
            }
            if let Some(recent) = recent.services.get(&service.name) {
                recent.take_from(service);
            }
        }
        for (times, kind) in earlier.handshakes.iter_mut().zip(["full", "resumed"]) {
            *times = times.since(&recent.handshakes.get(kind).map(Kind::times).unwrap_or_default());
        }
        for thread in &mut earlier.threads {
            thread.cpu -= rates.cpu.get(&thread.name).copied().unwrap_or_default() * over;
            if let (Some(worker), Some(lag)) = (&mut thread.worker, recent.loop_lag.get(&thread.name)) {
                worker.loop_lag.sum_seconds -= lag.sum_seconds;
                less(&mut worker.turns, lag.count);
            }
        }
        earlier
    }

    /// Whether both are of one process, so that its counters can be compared.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        (self.process.pid, self.process.started) == (other.process.pid, other.process.started)
    }
}

impl RecentService {
    fn take_from(&self, service: &mut Service) {
        for end in &mut service.ends {
            let words = end.words();
            let same = self.ends.iter().filter(|recent| recent.words() == words);
            less(&mut end.count, same.map(|recent| recent.count).sum());
        }
        for backend in &mut service.backends {
            if let Some(attempts) = self.backends.get(&backend.name) {
                less(&mut backend.connected, attempts.connected);
                less(&mut backend.failed, attempts.failed);
            }
        }
    }
}

impl Attention {
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgency == "bad"
    }
}

impl End {
    /// `step / side / cause`.
    pub(crate) fn words(&self) -> String {
        [&*self.step, &self.side, &self.cause].join(" / ")
    }
}

impl Backend {
    /// The result of the last health check.
    pub(crate) fn check(&self) -> String {
        match &self.check {
            None => "not checked".to_owned(),
            Some(Check { last_failure: Some(why), .. }) => format!("failed: {why}"),
            Some(Check { last_at: None, .. }) => "not yet".to_owned(),
            Some(_) => "passed".to_owned(),
        }
    }
}

impl Kind {
    /// `TLSv1.3 full X25519 RSA-2048`.
    pub(crate) fn name(&self) -> String {
        let resumed = if self.resumed { "resumed" } else { "full" };
        let words = [&*self.version, resumed, &self.group, &self.signature];
        words.into_iter().filter(|word| *word != "none").collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn times(&self) -> Times {
        let phase = |phase| self.phases.get(phase).map_or(0.0, |phase: &Durations| phase.sum_seconds);
        Times { count: self.total.count, seconds: self.total.sum_seconds, phases: std::array::from_fn(phase) }
    }
}

impl Times {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.seconds += other.seconds;
        self.phases.iter_mut().zip(other.phases).for_each(|(sum, more)| *sum += more);
    }

    /// What came since; nothing where counts went back.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        since.count = self.count.saturating_sub(before.count);
        since.seconds = (self.seconds - before.seconds).max(0.0);
        since.phases.iter_mut().zip(before.phases).for_each(|(sum, less)| *sum = (*sum - less).max(0.0));
        since
    }
}

impl Certificate {
    /// Since 1970.
    pub(crate) fn not_after(&self) -> Option<f64> {
        seconds_since_1970(&self.not_after)
    }

    /// `2026-11-30`.
    pub(crate) fn last_day(&self) -> &str {
        self.not_after.split('T').next().unwrap_or_default()
    }
}

impl Worker {
    /// How long all events together waited for it.
    pub(crate) fn lag(&self) -> f64 {
        self.loop_lag.sum_seconds
    }
}

impl Failure {
    /// `12:00:01`.
    pub(crate) fn clock(&self) -> String {
        self.time.split_once('T').map_or("", |(_, clock)| clock).chars().take(8).collect()
    }
}

fn less(count: &mut u64, by: u64) {
    *count = count.saturating_sub(by);
}

fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(seconds_since_1970(&String::deserialize(deserializer)?).unwrap_or_default())
}

fn sum<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(BTreeMap::<String, u64>::deserialize(deserializer)?
        .values()
        .fold(0, |sum, one| sum.saturating_add(*one)))
}
