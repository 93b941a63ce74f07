//! The run that the command line of `handfast load` requests.
//!
//! In: [`LoadWords`]. Out: a [`RequestedLoad`], or every mistake at once, each with its option and what was expected.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use handfast_load::Plan;
use handfast_load::account::Accounted;
use handfast_load::distributed::{BusAddress, OnLost, Workers};
use handfast_load::job::Job;
use handfast_load::limits::{Bound, Direction};
use handfast_load::plan::{
    Arrivals, Close, ExpectedStatuses, HttpVersion, Model, Target, Think, Tls, Verify, Work, profile,
};
use handfast_load::search::SearchSpec;

use super::mistakes::Mistakes;
use crate::status::AdminAddress;
use crate::words::load::{
    BusWords, CloseWords, LimitWords, LoadWords, MachineWords, ModelWords, TlsWords, WorkWords,
};
use handfast_load::plan::values::{self, Aim, ValueError};

mod clients;
mod requests;

pub(crate) use requests::fill_in;

/// The default number of connections in the closed model: enough to keep a small target busy.
const CONNECTIONS: u32 = 32;
/// Most connections in flight at a rate: a second's worth at a thousand a second.
const IN_FLIGHT: u32 = 1024;
/// Most connections that can be asked for.
const MAX_CONNECTIONS: u64 = 10_000_000;

/// The requested run.
#[derive(Debug)]
pub(crate) struct RequestedLoad {
    /// The job that workers receive, and that a report keeps for `--replay`.
    pub(crate) job: Job,
    /// The load generators.
    pub(crate) workers: Workers,
    /// The effect of a lost worker on a run.
    pub(crate) on_lost: OnLost,
    /// The address of the target's status.
    pub(crate) status: Option<AdminAddress>,
}

/// Parses the options. `seed` is the default seed.
///
/// **Errors**: every mistake, added to `mistakes`.
pub(crate) fn parse_load(words: &LoadWords, seed: u64, mistakes: &mut Mistakes) -> RequestedLoad {
    let target = words.target.as_ref();
    let aim = mistakes.read("target", target, values::aim);
    // Continues with a harmless value, so that other mistakes are reported too.
    let aim = aim.unwrap_or_else(|| Aim {
        target: Target { host: "localhost".into(), port: 443, plain: false },
        http: target.filter(|target| target.starts_with("http")).map(|_| (String::new(), String::new())),
    });
    let work = work(&words.work, &aim, mistakes);
    let exchanges = exchanges(&words.work, &work, mistakes);
    let (model, staged, search) = model(&words.model, &work, mistakes);
    let think = think(&words.model, &work, mistakes);
    let sizes = sizes(&words.model, staged, mistakes);
    let (tls, mix) = match aim.target.plain {
        true => {
            clients::forbid(&words.tls, mistakes);
            (Tls::default(), Vec::new())
        }
        false => clients::clients(&words.tls, &aim, &work, mistakes),
    };
    let (close, sources) = close(&words.close, aim.target.plain, mistakes);
    let also = words.also.iter().filter_map(|text| mistakes.read("--also", Some(text), values::also));
    let also = also.map(|also| Target { plain: aim.target.plain, ..also }).collect();
    let plan = Plan {
        target: aim.target,
        also,
        work,
        model,
        think,
        tls,
        mix,
        close,
        connections: sizes.connections,
        exchanges,
        duration: sizes.duration,
        timeout: sizes.timeout,
        threads: sizes.threads,
        sources,
        seed: sizes.seed.unwrap_or(seed),
    };
    let (workers, on_lost) = workers(&words.machines, mistakes);
    let account = account(&words.machines, mistakes);
    let limits = limits(&words.limits, mistakes);
    let status = status(&words.machines, mistakes);
    RequestedLoad { job: Job { plan, limits, search, account }, workers, on_lost, status }
}

/// The address of the target's status.
pub(crate) fn status(words: &MachineWords, mistakes: &mut Mistakes) -> Option<AdminAddress> {
    mistakes.read("--status", words.status.as_ref(), AdminAddress::parse)
}

/// The amounts.
struct Sizes {
    connections: u32,
    duration: Duration,
    timeout: Duration,
    threads: u16,
    seed: Option<u64>,
}

/// `staged`: the duration that the stages of the rate make together.
fn sizes(words: &ModelWords, staged: Option<Duration>, mistakes: &mut Mistakes) -> Sizes {
    let up_to = |most| move |text: &str| values::number(text, 1, most);
    let at_a_rate = words.rate.is_some() || words.find_max.is_some();
    let connections = mistakes.read("--connections", words.connections.as_ref(), up_to(MAX_CONNECTIONS));
    let duration = mistakes.read("--duration", words.duration.as_ref(), values::time);
    if staged.is_some() && words.duration.is_some() {
        mistakes
            .note("--duration", "does not go with a --rate whose stages have lengths, expected one of them");
    }
    let step = mistakes.read("--step", words.step.as_ref(), values::time);
    let whole = Duration::from_secs(if words.find_max.is_some() { 5 } else { 10 });
    Sizes {
        connections: connections.and_then(|number| u32::try_from(number).ok()).unwrap_or(if at_a_rate {
            IN_FLIGHT
        } else {
            CONNECTIONS
        }),
        duration: step.or(duration).or(staged).unwrap_or(whole),
        timeout: mistakes
            .read("--timeout", words.timeout.as_ref(), values::time)
            .unwrap_or(Duration::from_secs(10)),
        threads: mistakes
            .read("--threads", words.threads.as_ref(), up_to(1024))
            .and_then(|number| u16::try_from(number).ok())
            .unwrap_or(0),
        seed: mistakes.read("--seed", words.seed.as_ref(), |text| values::number(text, 0, u64::MAX)),
    }
}

fn work(words: &WorkWords, aim: &Aim, mistakes: &mut Mistakes) -> Work {
    let send = mistakes.read("--send", words.send.as_ref(), values::size);
    let receive = mistakes.read("--receive", words.receive.as_ref(), values::size);
    let bytes = [
        ("--send", words.send.is_some()),
        ("--receive", words.receive.is_some()),
        ("--reply", words.reply.is_some()),
    ];
    let count = [("--exchanges", words.exchanges.is_some())];
    let kinds = [
        ("--handshake-only", words.handshake_only),
        ("--bulk", words.bulk.is_some()),
        ("--idle", words.idle),
    ];
    if let Some((authority, path)) = &aim.http {
        mistakes.forbid(
            "does not go with a target that is a URL, expected HOST:PORT",
            &[bytes.as_slice(), &kinds].concat(),
        );
        return http(words, (aim.target.scheme(), authority), path.clone(), mistakes);
    }
    let pages = [
        ("--http", words.http.is_some()),
        ("--streams", words.streams.is_some()),
        ("--method", words.method.is_some()),
        ("--header", !words.header.is_empty()),
        ("--body", words.body.is_some()),
        ("--url", !words.url.is_empty()),
        ("--expect", words.expect.is_some()),
        ("--in-order", words.in_order),
        ("--take", !words.take.is_empty()),
    ];
    mistakes.forbid("is for HTTP, expected a target such as https://HOST:PORT/", &pages);
    if kinds.iter().filter(|(_, given)| *given).count() > 1 {
        let given: Vec<&str> = kinds.iter().filter(|(_, given)| *given).map(|(option, _)| *option).collect();
        mistakes.note(&given.join(", "), "these exclude each other, expected one of them");
    }
    let send_bytes = send.unwrap_or(4096);
    let receive_bytes = receive.unwrap_or(send_bytes);
    if words.handshake_only {
        let why = "does not go with --handshake-only, which transfers no data";
        mistakes.forbid(why, &[bytes.as_slice(), &count].concat());
        return Work::Handshake;
    }
    if let Some(way) = &words.bulk {
        mistakes.forbid(
            "does not go with --bulk, which transfers bytes until the end",
            &[bytes.as_slice(), &count].concat(),
        );
        let (send, receive) = match way.as_str() {
            "send" => (true, false),
            "receive" => (false, true),
            "both" => (true, true),
            _ => {
                mistakes.note("--bulk", format!("invalid direction `{way}`, expected send, receive or both"));
                (true, true)
            }
        };
        return Work::Bulk { send, receive };
    }
    if words.idle {
        mistakes.forbid("does not go with --idle, which exchanges at most once", &count);
        mistakes.forbid("does not go with --idle: its answer is counted, not compared", &bytes[2..]);
        let send = send.unwrap_or(0);
        return Work::Idle { send, receive: receive.unwrap_or(send) };
    }
    if send_bytes == 0 && receive_bytes == 0 {
        mistakes.note("--send, --receive", "nothing to exchange, expected --handshake-only instead");
    }
    Work::Exchange {
        send: send_bytes,
        receive: receive_bytes,
        echo: echo(words, send_bytes == receive_bytes, mistakes),
    }
}

fn echo(words: &WorkWords, equal: bool, mistakes: &mut Mistakes) -> bool {
    match words.reply.as_deref() {
        None => equal,
        Some("any") => false,
        Some("echo") => {
            if !equal {
                mistakes.note("--reply", "echo needs --send and --receive to be equal, expected any");
            }
            true
        }
        Some(other) => {
            mistakes.note("--reply", format!("invalid kind of reply `{other}`, expected echo or any"));
            false
        }
    }
}

fn http(
    words: &WorkWords,
    (scheme, authority): (&str, &String),
    path: String,
    mistakes: &mut Mistakes,
) -> Work {
    let version = match words.http.as_deref() {
        None | Some("1.1" | "1") => HttpVersion::Http11,
        Some("2") => HttpVersion::Http2,
        Some(other) => {
            mistakes.note("--http", format!("invalid HTTP version `{other}`, expected 1.1 or 2"));
            HttpVersion::Http2
        }
    };
    // RFC 9113 §5.1.1: a client's streams have odd numbers of 31 bits; servers commonly allow 100 to 250 at once.
    let streams = mistakes.read("--streams", words.streams.as_ref(), |text| values::number(text, 1, 10_000));
    if version == HttpVersion::Http11 && streams.is_some_and(|streams| streams > 1) {
        mistakes.note(
            "--streams",
            "HTTP/1.1 has one request in flight on a connection, expected --http 2 with it",
        );
    }
    let streams = streams.and_then(|streams| u32::try_from(streams).ok()).unwrap_or(1);
    let requests = requests::requests(words, &format!("{scheme}://{authority}"), path, mistakes);
    let authority = authority.clone();
    let expect =
        mistakes.read("--expect", words.expect.as_ref(), ExpectedStatuses::parse).unwrap_or_default();
    let in_order = words.in_order;
    if in_order && streams > 1 {
        mistakes
            .note("--in-order", "needs one request at a time on a connection, expected no --streams with it");
    }
    Work::Http { version, authority, requests, streams, expect, in_order }
}

fn exchanges(words: &WorkWords, work: &Work, mistakes: &mut Mistakes) -> Option<u32> {
    let Some(text) = &words.exchanges else {
        return if matches!(work, Work::Http { .. }) { None } else { Some(1) };
    };
    if text == "unlimited" {
        return None;
    }
    let wrong = |_| ValueError::Exchanges(text.clone());
    let read = |text: &str| values::number(text, 1, u64::from(u32::MAX)).map_err(wrong);
    mistakes.read("--exchanges", Some(text), read).and_then(|number| u32::try_from(number).ok())
}

/// The think time of the closed model.
fn think(words: &ModelWords, work: &Work, mistakes: &mut Mistakes) -> Option<Think> {
    let think = mistakes.read("--think", words.think.as_ref(), values::think)?;
    mistakes.forbid(
        "does not go with --rate or --find-max: the rate already says when transactions start",
        &[("--think", words.rate.is_some() || words.find_max.is_some())],
    );
    let stand = matches!(work, Work::Bulk { .. } | Work::Idle { .. });
    mistakes.forbid("is between transactions, and --bulk and --idle have none", &[("--think", stand)]);
    Some(think)
}

/// The model, the duration that its stages make together, and the search.
fn model(
    words: &ModelWords,
    work: &Work,
    mistakes: &mut Mistakes,
) -> (Model, Option<Duration>, Option<SearchSpec>) {
    let rates = mistakes.read("--rate", words.rate.as_ref(), values::rates);
    let arrivals = match words.arrivals.as_deref() {
        None | Some("poisson") => Arrivals::Poisson,
        Some("fixed") => Arrivals::Fixed,
        Some(other) => {
            mistakes.note("--arrivals", format!("invalid arrivals `{other}`, expected poisson or fixed"));
            Arrivals::Fixed
        }
    };
    let start = mistakes.read("--find-start", words.find_start.as_ref(), values::rate);
    let repeats = mistakes.read("--repeats", words.repeats.as_ref(), |text| values::number(text, 1, 100));
    let at_a_rate = words.rate.is_some() || words.find_max.is_some();
    if matches!(work, Work::Bulk { .. } | Work::Idle { .. }) && at_a_rate {
        let what =
            "its connections stay open for the whole run, expected no --rate and no --find-max with it";
        mistakes.note(if matches!(work, Work::Idle { .. }) { "--idle" } else { "--bulk" }, what);
    }
    let Some(bound) = &words.find_max else {
        let steps = [
            ("--find-start", words.find_start.is_some()),
            ("--step", words.step.is_some()),
            ("--repeats", words.repeats.is_some()),
        ];
        mistakes.forbid("is for the search for the highest rate, expected --find-max with it", &steps);
        if !at_a_rate {
            let spaced = [("--arrivals", words.arrivals.is_some())];
            mistakes.forbid("spaces the starts of a rate, expected --rate or --find-max with it", &spaced);
        }
        let staged = rates.as_ref().and_then(|rates| rates.length);
        let model = rates.map_or(Model::Closed, |rates| Model::Open { stages: rates.stages, arrivals });
        return (model, staged, None);
    };
    let why = "does not go with --find-max, which chooses rates and takes --step for the length of each";
    mistakes.forbid(why, &[("--rate", words.rate.is_some()), ("--duration", words.duration.is_some())]);
    let mut search = mistakes.read("--find-max", Some(bound), SearchSpec::new);
    if let Some(search) = &mut search {
        search.from = start.unwrap_or(search.from);
        search.repeats = repeats.and_then(|number| u32::try_from(number).ok()).unwrap_or(search.repeats);
    }
    (Model::open(start.unwrap_or(100.0), arrivals), None, search)
}

fn tls(words: &TlsWords, aim: &Aim, work: &Work, mistakes: &mut Mistakes) -> Tls {
    let default = clients::usual(mistakes.read("--profile", words.profile.as_ref(), profile::named));
    let versions = mistakes.read("--tls", words.tls.as_ref(), values::list).unwrap_or(default.versions);
    let suites = mistakes.read("--suites", words.suites.as_ref(), values::list).unwrap_or(default.suites);
    let groups = mistakes.read("--groups", words.groups.as_ref(), values::list).unwrap_or(default.groups);
    check_names(&versions, &suites, &groups, mistakes);
    let alpn = mistakes.read("--alpn", words.alpn.as_ref(), values::list).unwrap_or_else(|| match work {
        Work::Http { version: HttpVersion::Http11, .. } => vec!["http/1.1".into()],
        Work::Http { version: HttpVersion::Http2, .. } => vec!["h2".into()],
        _ => default.alpn,
    });
    // RFC 7301 §3.1: a protocol's name has 1 to 255 bytes.
    if alpn.iter().any(|name| name.len() > 255) {
        mistakes.note("--alpn", "a name is longer than 255 bytes");
    }
    let verify = match (words.verify, &words.ca) {
        (_, Some(file)) => Verify::File(file.clone()),
        (true, None) => Verify::System,
        (false, None) => Verify::Off,
    };
    if words.verify && words.ca.is_some() {
        mistakes.note(
            "--verify",
            "means the system's authorities and does not go with --ca, expected one of them",
        );
    }
    let resume = mistakes.read("--resume", words.resume.as_ref(), values::share).unwrap_or(0.0);
    if words.early_data {
        early_data(&versions, resume, work, mistakes);
    }
    Tls {
        versions,
        suites,
        groups,
        server_name: server_name(words, aim, mistakes),
        server_names: clients::names(words, mistakes),
        alpn,
        client_certificate: client_certificate(words, mistakes),
        verify,
        resume,
        early_data: words.early_data,
    }
}

/// Checks names before the first connection.
fn check_names(versions: &[String], suites: &[String], groups: &[String], mistakes: &mut Mistakes) {
    use handfast_tls::policy::{self, Field};
    let suites = (!suites.is_empty()).then_some(suites);
    let resolve = |versions| policy::resolve(policy::DEFAULT, Some(versions), suites, Some(groups));
    let Err(problems) = resolve(versions) else { return };
    // Only versions with a suite and a group are offered.
    if versions.iter().any(|version| resolve(std::slice::from_ref(version)).is_ok()) {
        return;
    }
    for problem in problems {
        let option = match problem.field {
            Field::Versions | Field::Policy => "--tls",
            Field::Suites => "--suites",
            Field::Groups => "--groups",
        };
        let value = if problem.value.is_empty() { String::new() } else { format!("`{}` ", problem.value) };
        let expected = match (problem.meant, problem.allowed.is_empty()) {
            (Some(meant), _) => format!(", expected {meant}"),
            (None, false) => format!(", expected one of {}", problem.allowed.join(", ")),
            (None, true) => String::new(),
        };
        mistakes.note(option, format!("{value}{}{expected}", problem.what));
    }
}

/// RFC 9846 §4.3.10: 0-RTT data goes under the keys of an earlier session, in TLS 1.3 alone.
fn early_data(versions: &[String], resume: f64, work: &Work, mistakes: &mut Mistakes) {
    if resume <= 0.0 {
        mistakes.note("--early-data", "goes in resumed handshakes only, expected --resume with it");
    }
    if !versions.iter().any(|version| version == "1.3") {
        mistakes.note("--early-data", "is in TLS 1.3 only, expected 1.3 in --tls");
    }
    if !matches!(work, Work::Exchange { send: 1.., .. }) {
        mistakes
            .note("--early-data", "has nothing to carry here, expected HOST:PORT and exchanges that send");
    }
}

fn server_name(words: &TlsWords, aim: &Aim, mistakes: &mut Mistakes) -> Option<String> {
    let host = &aim.target.host;
    let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
    match words.sni.as_deref() {
        Some("off") => None,
        // Names in turn, which are read elsewhere.
        Some(file) if file.starts_with('@') => None,
        Some(name) if !handfast_pki::throwaway::is_host(name) || is_address(name) => {
            // RFC 6066 §3: names only.
            mistakes.note(
                "--sni",
                format!("invalid server name `{name}`, expected one such as www.example.org, or off"),
            );
            None
        }
        Some(name) => Some(name.to_owned()),
        None => (!is_address(host)).then(|| host.clone()),
    }
}

fn client_certificate(words: &TlsWords, mistakes: &mut Mistakes) -> Option<(PathBuf, PathBuf)> {
    match (&words.client_certificate, &words.client_key) {
        (Some(chain), Some(key)) => Some((chain.clone(), key.clone())),
        (Some(chain), None) => Some((chain.clone(), chain.clone())),
        (None, Some(_)) => {
            mistakes.note("--client-key", "belongs to a certificate, expected --client-certificate with it");
            None
        }
        (None, None) => None,
    }
}

fn close(words: &CloseWords, plain: bool, mistakes: &mut Mistakes) -> (Close, Vec<IpAddr>) {
    let ways = [Close::Notify, Close::Fin, Close::Reset, Close::Server];
    let close = match words.close.as_deref() {
        None if plain => Close::Fin,
        None => Close::Notify,
        Some("notify") if plain => {
            mistakes.note("--close", "notify needs TLS, and http:// has none, expected fin, reset or server");
            Close::Fin
        }
        Some(name) => ways.into_iter().find(|way| way.name() == name).unwrap_or_else(|| {
            let what = format!("invalid way to close `{name}`, expected notify, fin, reset or server");
            mistakes.note("--close", what);
            Close::Notify
        }),
    };
    let mut sources = Vec::new();
    for text in &words.source {
        sources.extend(mistakes.read("--source", Some(text), values::sources).unwrap_or_default());
    }
    let given = sources.len();
    sources.sort_unstable();
    sources.dedup();
    if sources.len() < given {
        mistakes.note("--source", "an address is named twice");
    }
    if sources.len() > values::SOURCES {
        mistakes
            .note("--source", format!("{} addresses, expected at most {}", sources.len(), values::SOURCES));
    }
    if sources.iter().any(IpAddr::is_ipv4) && sources.iter().any(IpAddr::is_ipv6) {
        mistakes.note("--source", "IPv4 and IPv6 addresses cannot reach the same target, expected one kind");
    }
    (close, sources)
}

/// The load generators, by the options that `--replay` and `doctor` allow too.
pub(crate) fn workers(words: &MachineWords, mistakes: &mut Mistakes) -> (Workers, OnLost) {
    let on_lost = match words.on_worker_lost.as_deref() {
        None | Some("fail") => OnLost::Fail,
        Some("continue") => OnLost::Continue,
        Some(other) => {
            mistakes.note("--on-worker-lost", format!("invalid action `{other}`, expected fail or continue"));
            OnLost::Fail
        }
    };
    let machines = mistakes.read("--machines", words.machines.as_ref(), |text| values::number(text, 1, 1000));
    let Some(url) = &words.workers else {
        let about_workers = [
            ("--machines", words.machines.is_some()),
            ("--fleet", words.bus.fleet.is_some()),
            ("--bus-ca", words.bus.bus_ca.is_some()),
            ("--bus-credentials", words.bus.bus_credentials.is_some()),
            ("--bus-tls-first", words.bus.bus_tls_first),
            ("--on-worker-lost", words.on_worker_lost.is_some()),
        ];
        mistakes.forbid("is about workers on other machines, expected --workers with it", &about_workers);
        return (Workers::Local, on_lost);
    };
    let machines = machines.and_then(|number| u32::try_from(number).ok()).unwrap_or(1);
    (Workers::Nats { bus: bus(url, &words.bus), machines }, on_lost)
}

/// The bus of the options.
pub(crate) fn bus(url: &str, words: &BusWords) -> BusAddress {
    let default = BusAddress::new(url);
    BusAddress {
        fleet: words.fleet.clone().unwrap_or(default.fleet),
        ca: words.bus_ca.clone(),
        credentials: words.bus_credentials.clone(),
        tls_first: words.bus_tls_first,
        purpose: default.purpose,
        url: default.url,
    }
}

fn account(words: &MachineWords, mistakes: &mut Mistakes) -> Option<Accounted> {
    if words.pid.is_some() && words.cgroup.is_some() {
        mistakes.note("--pid, --cgroup", "both name the server's processes, expected one of them");
    }
    // proc(5): /proc/sys/kernel/pid_max is at most 2^22.
    let pid = mistakes.read("--pid", words.pid.as_ref(), |text| values::number(text, 1, 1 << 22));
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).map(Accounted::Pid);
    pid.or_else(|| words.cgroup.clone().map(Accounted::Cgroup))
}

fn limits(words: &LimitWords, mistakes: &mut Mistakes) -> Vec<Bound> {
    let mut limits = Vec::new();
    for (option, given, direction) in
        [("--max", &words.max, Direction::Max), ("--min", &words.min, Direction::Min)]
    {
        for text in given {
            limits.extend(mistakes.read(option, Some(text), |text| Bound::parse(text, direction)));
        }
    }
    limits
}

#[cfg(test)]
mod tests;
