//! What a proxy says of itself at one moment, as far as it is shown.
//!
//! In: the JSON of `/status.json`. Out: a [`Sample`], and what the same counters were up to a minute ago, as far as the proxy tells.
//! What is missing is empty: a newer or older proxy of the same schema is shown as far as it goes.

use handfast_text::calendar::seconds_since_1970;
use handfast_text::units::plain;
use serde_json::Value;

/// Version of the status that is understood.
const SCHEMA: u64 = 2;
/// Parts of a handshake.
pub(crate) const PHASES: usize = 4;

/// One moment of a proxy. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// When it was asked, by our clock; zero is the start of this program.
    pub(crate) at: f64,
    pub(crate) process: u64,
    pub(crate) version: String,
    /// Since 1970.
    pub(crate) started: f64,
    pub(crate) now: f64,
    pub(crate) generation: u64,
    pub(crate) configuration: String,
    /// Whether a process of their own holds the private keys.
    pub(crate) keys_apart: bool,
    /// Why it is not ready; `None`: it is.
    pub(crate) not_ready: Option<String>,
    /// Whether urgent, and what.
    pub(crate) attention: Vec<(bool, String)>,
    pub(crate) services: Vec<Service>,
    /// Full handshakes, and resumed ones.
    pub(crate) handshakes: [Times; 2],
    pub(crate) kinds: Vec<Kind>,
    pub(crate) certificates: Vec<Certificate>,
    pub(crate) threads: Vec<Thread>,
    /// The last failures, the newest first.
    pub(crate) failures: Vec<Failure>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) listens: String,
    pub(crate) accepted: u64,
    pub(crate) closed: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) waiting: u64,
    pub(crate) handshakes: u64,
    pub(crate) to_backend: u64,
    pub(crate) to_client: u64,
    pub(crate) ends: Vec<End>,
    pub(crate) backends: Vec<Backend>,
}

/// A way in which connections failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct End {
    /// `step / side / cause`.
    pub(crate) words: String,
    pub(crate) sentence: String,
    pub(crate) count: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) connected: u64,
    pub(crate) disconnected: u64,
    pub(crate) failed: u64,
    pub(crate) last_failure: String,
    /// Half of the connects, and 99 %, took no longer; `None`: there was none.
    pub(crate) connect: [Option<f64>; 2],
    pub(crate) answer: Option<f64>,
    pub(crate) check: String,
}

/// Handshakes: how many, how long in all, and in their parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) phases: [f64; PHASES],
}

/// Handshakes that agreed on the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) times: Times,
    pub(crate) quantiles: [Option<f64>; 2],
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Certificate {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) service: String,
    /// As it is said, and in seconds since 1970.
    pub(crate) until: String,
    pub(crate) not_after: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) cpu: f64,
    /// Of one that serves connections.
    pub(crate) worker: Option<Worker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Worker {
    pub(crate) tasks: u64,
    pub(crate) turns: u64,
    /// How long events waited for it, all together.
    pub(crate) lag: f64,
    /// Of the last minute: 99 % waited no longer.
    pub(crate) lag_p99: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failure {
    pub(crate) time: String,
    pub(crate) service: String,
    pub(crate) client: String,
    pub(crate) backend: String,
    pub(crate) sentence: String,
    pub(crate) detail: String,
}

impl Times {
    fn of(value: &Value) -> Self {
        let total = &value["total"];
        let mut phases = [0.0; PHASES];
        for (sum, phase) in phases.iter_mut().zip(list(value, "phases")) {
            *sum = figure(phase, "sum_seconds");
        }
        Self { count: number(total, "count"), seconds: figure(total, "sum_seconds"), phases }
    }

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

impl Sample {
    /// Reads a status that was asked for at `at`: now, and up to a minute ago.
    ///
    /// **Errors**: what it is instead, as a sentence.
    pub(crate) fn read(whole: &Value, at: f64) -> Result<(Self, Option<Self>), String> {
        if whole["schema"].as_u64() != Some(SCHEMA) {
            let found: String = plain(&whole["schema"].to_string()).chars().take(60).collect();
            return Err(format!(
                "its schema is {found}, expected {SCHEMA}: another version of Handfast answers"
            ));
        }
        let now = Self::of(whole, at);
        let over = figure(&whole["recent"], "over_seconds");
        let earlier = (figure(&whole["rates"], "over_seconds") >= 1.0).then(|| now.earlier(whole, over));
        Ok((now, earlier))
    }

    fn of(whole: &Value, at: f64) -> Self {
        let process = &whole["process"];
        let mut handshakes = [Times::default(); 2];
        let kinds = list(whole, "handshakes").iter().map(|seen| {
            let kind = kind(seen);
            handshakes[usize::from(seen["resumed"] == true)].add(&kind.times);
            kind
        });
        let kinds = kinds.collect();
        let point = |point: &Value| (point["urgency"] == "bad", text(point, "sentence"));
        Self {
            at,
            process: number(process, "pid"),
            version: text(process, "version"),
            started: moment(process, "started").unwrap_or_default(),
            now: moment(process, "now").unwrap_or_default(),
            generation: number(&whole["reload"], "generation"),
            configuration: text(&whole["overview"], "configuration"),
            keys_apart: whole["key_process"].is_object(),
            not_ready: whole["not_ready_because"].as_str().map(plain),
            attention: list(whole, "attention").iter().map(point).collect(),
            services: list(whole, "services").iter().map(|seen| service(seen, &whole["overview"])).collect(),
            handshakes,
            kinds,
            certificates: list(whole, "certificates").iter().map(certificate).collect(),
            threads: threads(whole),
            failures: list(whole, "failures").iter().map(failure).collect(),
        }
    }

    /// The same `over` seconds earlier, made of what the proxy says of the last minute.
    fn earlier(&self, whole: &Value, over: f64) -> Self {
        let mut earlier = self.clone();
        earlier.at -= over;
        earlier.kinds.clear();
        let less = |count: &mut u64, by: u64| *count = count.saturating_sub(by);
        for service in &mut earlier.services {
            let rates = &whole["rates"]["services"][&service.name];
            let amount = |name: &str| (figure(rates, name) * over).round() as u64;
            less(&mut service.accepted, amount("connections"));
            less(&mut service.handshakes, amount("handshakes"));
            less(&mut service.to_backend, amount("bytes_to_backend"));
            less(&mut service.to_client, amount("bytes_to_client"));
            let recent = &whole["recent"]["services"][&service.name];
            for end in list(recent, "ends").iter().map(end) {
                service
                    .ends
                    .iter_mut()
                    .filter(|seen| seen.words == end.words)
                    .for_each(|seen| less(&mut seen.count, end.count));
            }
            for backend in &mut service.backends {
                let attempts = &recent["backends"][&backend.name];
                less(&mut backend.connected, number(attempts, "connected"));
                less(&mut backend.failed, number(attempts, "failed"));
            }
        }
        for (times, kind) in earlier.handshakes.iter_mut().zip(["full", "resumed"]) {
            *times = times.since(&Times::of(&whole["recent"]["handshakes"][kind]));
        }
        for thread in &mut earlier.threads {
            thread.cpu -= figure(&whole["rates"]["cpu"], &thread.name) * over;
            let lag = &whole["recent"]["loop_lag"][&thread.name];
            if let Some(worker) = &mut thread.worker {
                worker.lag -= figure(lag, "sum_seconds");
                less(&mut worker.turns, number(lag, "count"));
            }
        }
        earlier
    }

    /// Whether both are of one process, so that its counters can be compared.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        (self.process, self.started) == (other.process, other.started)
    }
}

fn service(seen: &Value, overview: &Value) -> Service {
    let name = text(seen, "name");
    let listens = list(overview, "services").iter().find(|known| text(known, "name") == name);
    let listens = listens
        .map(|known| list(known, "listen").iter().filter_map(Value::as_str).map(plain).collect::<Vec<_>>());
    Service {
        listens: listens.unwrap_or_default().join(" "),
        accepted: number(seen, "accepted"),
        closed: number(seen, "closed"),
        limit: seen["connections_limit"].as_u64(),
        waiting: seen["waiting"]
            .as_object()
            .map_or(0, |limits| limits.values().filter_map(Value::as_u64).sum()),
        handshakes: number(seen, "handshakes_full") + number(seen, "handshakes_resumed"),
        to_backend: number(seen, "bytes_to_backend"),
        to_client: number(seen, "bytes_to_client"),
        ends: list(seen, "ends").iter().filter(|end| end["failed"] == true).map(end).collect(),
        backends: list(seen, "backends").iter().map(backend).collect(),
        name,
    }
}

fn end(seen: &Value) -> End {
    let words = [text(seen, "step"), text(seen, "side"), text(seen, "cause")].join(" / ");
    End { words, sentence: text(seen, "sentence"), count: number(seen, "count") }
}

fn backend(seen: &Value) -> Backend {
    let check = &seen["check"];
    let check = match (check.is_null(), check["last_failure"].as_str()) {
        (true, _) => "not checked".to_owned(),
        (false, None) if check["last_at"].is_null() => "not yet".to_owned(),
        (false, None) => "passed".to_owned(),
        (false, Some(why)) => format!("failed: {}", plain(why)),
    };
    let failures = seen["failures"].as_object();
    Backend {
        name: text(seen, "name"),
        state: text(seen, "state"),
        connected: number(seen, "connected"),
        disconnected: number(seen, "disconnected"),
        failed: failures.map_or(0, |causes| causes.values().filter_map(Value::as_u64).sum()),
        last_failure: text(seen, "last_failure"),
        connect: quantiles(&seen["connect"]),
        answer: seen["answer"]["p50_seconds"].as_f64(),
        check,
    }
}

fn kind(seen: &Value) -> Kind {
    let kind = if seen["resumed"] == true { "resumed" } else { "full" };
    let words = [text(seen, "version"), kind.to_owned(), text(seen, "group"), text(seen, "signature")];
    let words: Vec<_> = words.into_iter().filter(|word| word != "none").collect();
    Kind { name: words.join(" "), times: Times::of(seen), quantiles: quantiles(&seen["total"]) }
}

fn certificate(seen: &Value) -> Certificate {
    let until = text(seen, "not_after");
    Certificate {
        name: text(seen, "name"),
        kind: text(seen, "kind"),
        service: text(seen, "service"),
        not_after: seconds_since_1970(&until),
        until: until.split('T').next().unwrap_or_default().to_owned(),
    }
}

/// Those that serve in their order, then the others.
fn threads(whole: &Value) -> Vec<Thread> {
    let cpu = &whole["process"]["cpu_seconds"];
    let worker = |seen: &Value| {
        let name = text(seen, "name");
        let worker = Worker {
            tasks: number(seen, "tasks"),
            turns: number(seen, "turns"),
            lag: figure(&seen["loop_lag"], "sum_seconds"),
            lag_p99: whole["recent"]["loop_lag"][&name]["p99_seconds"].as_f64(),
        };
        Thread { cpu: figure(cpu, &name), name, worker: Some(worker) }
    };
    let mut threads: Vec<_> = list(whole, "threads").iter().map(worker).collect();
    for (name, seconds) in cpu.as_object().into_iter().flatten() {
        if !threads.iter().any(|thread| thread.name == *name) {
            threads.push(Thread {
                name: plain(name),
                cpu: seconds.as_f64().unwrap_or_default(),
                worker: None,
            });
        }
    }
    threads
}

fn failure(seen: &Value) -> Failure {
    let time = text(seen, "time");
    let clock = time.split_once('T').map_or("", |(_, clock)| clock);
    Failure {
        time: clock.chars().take(8).collect(),
        service: text(seen, "service"),
        client: text(seen, "client"),
        backend: text(seen, "backend"),
        sentence: text(seen, "sentence"),
        detail: text(seen, "detail"),
    }
}

fn quantiles(distribution: &Value) -> [Option<f64>; 2] {
    ["p50_seconds", "p99_seconds"].map(|name| distribution[name].as_f64())
}

fn moment(value: &Value, name: &str) -> Option<f64> {
    seconds_since_1970(value[name].as_str()?)
}

/// Text of a peer or a file, fit for a terminal.
pub(super) fn text(value: &Value, name: &str) -> String {
    plain(value[name].as_str().unwrap_or_default())
}

pub(super) fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

pub(super) fn figure(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_default()
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
