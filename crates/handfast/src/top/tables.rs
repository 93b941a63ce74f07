//! The content of each table.
//!
//! In: a [`Pair`] of moments. Out: [`Table`]s. A figure that is not known yet is a dash and never a zero.

use handfast_text::units::{bytes, count, duration, long, rate};
use std::time::Duration;

use super::sample::{Backend, Kind, PHASES, Sample, Service, Times};
use super::table::{Cell, Column, Table, table};
use crate::screen::{Line, Look, Shade};

/// Columns of a bar.
const BAR: usize = 24;
/// What the parts of a handshake are called.
pub(super) const PHASE_WORDS: [&str; PHASES] = ["hello", "crypto", "client", "queue"];
const DAY: f64 = 86_400.0;

/// What makes a table.
type Make = fn(&Pair<'_>, Look) -> Table;

/// The tables with their names, and shorter ones for a line of 80 columns, in the order of their keys.
pub(super) const TABLES: [(&str, &str, Make); 8] = [
    ("Services", "Services", services),
    ("Backends", "Backends", backends),
    ("Failures", "Failures", failures),
    ("Recent", "Recent", recent),
    ("Handshakes", "TLS", handshakes),
    ("Certificates", "Certs", certificates),
    ("Threads", "Threads", threads),
    ("Attention", "Attention", attention),
];

/// Two moments of one process.
pub(super) struct Pair<'s> {
    pub(super) now: &'s Sample,
    /// `None`: there is no earlier one yet.
    pub(super) before: Option<&'s Sample>,
}

impl Pair<'_> {
    /// Seconds between the two.
    pub(super) fn over(&self) -> Option<f64> {
        self.before.map(|before| self.now.at - before.at).filter(|seconds| *seconds > 0.0)
    }

    /// How many came each second, of a count that was `before`; none where it went back.
    pub(super) fn rate(&self, now: u64, before: Option<u64>) -> Option<f64> {
        Some(now.saturating_sub(before?) as f64 / self.over()?)
    }

    /// … of a count of all services.
    pub(super) fn sum(&self, of: fn(&Service) -> u64) -> Option<f64> {
        let sum = |sample: &Sample| sample.services.iter().map(of).sum::<u64>();
        self.rate(sum(self.now), self.before.map(sum))
    }

    fn service_before(&self, name: &str) -> Option<&Service> {
        self.before?.services.iter().find(|known| known.name == name)
    }

    /// The count of something that was not there before, and so was zero; unless nothing is known of before.
    fn or_new(&self, before: Option<u64>) -> Option<u64> {
        self.before.map(|_| before.unwrap_or(0))
    }
}

pub(super) const fn column(title: &'static str, least: usize, rank: u8) -> Column {
    Column { title, right: false, least, rank }
}

pub(super) const fn figures(title: &'static str, rank: u8) -> Column {
    Column { title, right: true, least: 0, rank }
}

pub(super) fn words(text: impl Into<String>, shade: Shade) -> Cell {
    Cell { line: Line::of(text, shade), key: None }
}

pub(super) fn plain(text: impl Into<String>) -> Cell {
    words(text, Shade::Plain)
}

/// A figure; a dash when it is not known.
pub(super) fn known(value: Option<f64>, shown: impl Fn(f64) -> String, shade: Shade) -> Cell {
    let shade = if value.is_some_and(|value| value > 0.0) { shade } else { Shade::Faint };
    Cell { line: Line::of(value.map_or("–".to_owned(), shown), shade), key: Some(value.unwrap_or(-1.0)) }
}

fn rates(value: Option<f64>, shade: Shade) -> Cell {
    known(value, rate, shade)
}

pub(super) fn counts(value: u64, shade: Shade) -> Cell {
    known(Some(value as f64), |value| count(value as u64), shade)
}

/// Seconds.
fn times(value: Option<f64>) -> Cell {
    known(value, |seconds| duration(seconds * 1e9), Shade::Plain)
}

fn volume(value: Option<f64>) -> Cell {
    known(value, |value| format!("{}/s", bytes(value as u64)), Shade::Plain)
}

fn services(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.services.iter() => |service| {
            let before = pair.service_before(&service.name);
            let ever = |of: fn(&Service) -> u64| pair.rate(of(service), pair.or_new(before.map(of)));
            let open = service.accepted.saturating_sub(service.closed);
            let full = service.connections_limit.is_some_and(|limit| open >= limit);
            let of_limit = |open: f64| match service.connections_limit {
                Some(limit) => format!("{} of {}", count(open as u64), count(limit)),
                None => count(open as u64),
            };
            let shade = if full { Shade::Warning } else { Shade::Plain };
            let is_http = service.requests.is_some();
        }
        column("service", 8, 0) => words(&service.name, Shade::Strong);
        column("listens on", 12, 9) => plain(&service.listens);
        figures("open", 0) => known(Some(open as f64), of_limit, shade);
        figures("new", 0) => rates(ever(|service| service.accepted), Shade::Plain);
        figures("handshakes", 0) => rates(ever(|service| service.handshakes), Shade::Plain);
        figures("requests", 3) => rates(is_http.then(|| ever(requests)).flatten(), Shade::Plain);
        figures("5xx", 4) => share(is_http.then(|| server_error_share(ever(server_errors), ever(requests))).flatten());
        figures("to backends", 2) => volume(ever(|service| service.bytes_to_backend));
        figures("to clients", 1) => volume(ever(|service| service.bytes_to_client));
        figures("failed", 0) => rates(ever(failed), Shade::Bad);
        figures("waiting", 8) => counts(service.waiting, Shade::Warning);
    }
}

/// HTTP requests of a service that ended.
pub(super) fn requests(service: &Service) -> u64 {
    service.requests.as_ref().map_or(0, |requests| requests.ended)
}

/// Those with status 5xx.
pub(super) fn server_errors(service: &Service) -> u64 {
    service.requests.as_ref().map_or(0, |requests| requests.server_errors)
}

/// The share of requests with status 5xx; unknown where there were no requests.
pub(super) fn server_error_share(errors: Option<f64>, requests: Option<f64>) -> Option<f64> {
    requests.filter(|requests| *requests > 0.0).zip(errors).map(|(requests, errors)| errors / requests)
}

fn share(value: Option<f64>) -> Cell {
    known(value, percent, Shade::Bad)
}

/// `0.4 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Connections of a service that failed.
pub(super) fn failed(service: &Service) -> u64 {
    service.ends.iter().map(|end| end.count).sum()
}

fn backends(pair: &Pair<'_>, _: Look) -> Table {
    let each = pair.now.services.iter().flat_map(|service| {
        service.backends.iter().map(move |backend| {
            let open = backend.connected.saturating_sub(backend.disconnected);
            (service, backend, open)
        })
    });
    table! {
        each.filter(|(_, backend, open)| backend.state != "gone" || *open > 0) => |(service, backend, open)| {
            let before = pair.service_before(&service.name);
            let before = before.and_then(|it| it.backends.iter().find(|known| known.name == backend.name));
            let ever = |of: fn(&Backend) -> u64| pair.rate(of(backend), pair.or_new(before.map(of)));
            let state = match backend.state.as_str() {
                "up" => Shade::Good,
                "drained" | "taken-down" | "gone" => Shade::Warning,
                _ => Shade::Bad,
            };
            let check = backend.check();
            let checked = if check.starts_with("failed") { Shade::Bad } else { Shade::Plain };
        }
        column("backend", 16, 0) => words(&backend.name, Shade::Strong);
        column("service", 6, 4) => plain(&service.name);
        column("state", 0, 0) => words(&backend.state, state);
        figures("open", 0) => counts(open, Shade::Plain);
        figures("new", 0) => rates(ever(|backend| backend.connected), Shade::Plain);
        figures("failing", 0) => rates(ever(|backend| backend.failed), Shade::Bad);
        figures("failed", 2) => counts(backend.failed, Shade::Plain);
        column("last failure", 10, 7) => words(&backend.last_failure, Shade::Faint);
        figures("connect p50", 3) => times(backend.connect.p50_seconds);
        figures("p99", 5) => times(backend.connect.p99_seconds);
        figures("answer p50", 1) => times(backend.answer.p50_seconds);
        column("check", 10, 6) => words(check, checked);
    }
}

fn failures(pair: &Pair<'_>, _: Look) -> Table {
    let each =
        pair.now.services.iter().flat_map(|service| service.ends.iter().map(move |end| (service, end)));
    let mut table = table! {
        each => |(service, end)| {
            let before = pair.service_before(&service.name);
            let before = before.and_then(|it| it.ends.iter().find(|known| known.words() == end.words()));
            let now = pair.rate(end.count, pair.or_new(before.map(|end| end.count)));
        }
        figures("now", 0) => rates(now, Shade::Bad);
        figures("count", 0) => counts(end.count, Shade::Plain);
        column("service", 6, 0) => plain(&service.name);
        column("what happened", 40, 0) => plain(&end.sentence);
        column("step / side / cause", 0, 3) => words(end.words(), Shade::Faint);
    };
    // The most frequent first, then what happens now.
    table.rows.sort_by(|one, other| other[1].key.unwrap_or(0.0).total_cmp(&one[1].key.unwrap_or(0.0)));
    table
}

fn recent(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.failures.iter() => |failure| {
            let client = if failure.client.is_empty() { "unix socket" } else { &failure.client };
        }
        column("time UTC", 0, 0) => plain(failure.clock());
        column("service", 6, 3) => plain(&failure.service);
        column("client", 0, 0) => plain(client);
        column("backend", 0, 5) => plain(&failure.backend);
        column("what happened", 40, 0) => plain(&failure.sentence);
        column("detail", 12, 6) => words(&failure.detail, Shade::Faint);
    }
}

fn handshakes(pair: &Pair<'_>, look: Look) -> Table {
    let longest = pair.now.kinds.iter().map(|kind| mean(&kind.times())).fold(0.0, f64::max);
    table! {
        pair.now.kinds.iter() => |kind| {
            let (name, ever) = (kind.name(), kind.times());
            let before = pair.before.and_then(|it| it.kinds.iter().find(|known| known.name() == name));
            let before = before.map(Kind::times);
            let now = before.map(|before| ever.since(&before)).filter(|now| now.count > 0).unwrap_or(ever);
            let room = if longest > 0.0 { (mean(&ever) / longest * BAR as f64).ceil() as usize } else { 0 };
            let line = bar(&now, room, look);
        }
        column("handshake", 24, 0) => words(name, Shade::Strong);
        figures("now", 0) => rates(pair.rate(ever.count, before.map(|before| before.count)), Shade::Plain);
        figures("count", 0) => counts(ever.count, Shade::Plain);
        figures("mean", 4) => times((now.count > 0).then(|| mean(&now)));
        figures("p50", 0) => times(kind.total.p50_seconds);
        figures("p99", 0) => times(kind.total.p99_seconds);
        column("where the mean time goes", 0, 2) => Cell { line, key: Some(mean(&now)) };
    }
}

fn mean(times: &Times) -> f64 {
    if times.count > 0 { times.seconds / times.count as f64 } else { 0.0 }
}

/// The parts of handshakes one behind the other.
pub(super) fn bar(times: &Times, width: usize, look: Look) -> Line {
    stacked(&times.phases, &PHASE_WORDS, width, look)
}

/// Parts one behind the other: blocks in colors, or else the first letters of their names.
pub(super) fn stacked(parts: &[f64], names: &[&str], width: usize, look: Look) -> Line {
    let all: f64 = parts.iter().sum();
    let mut line = Line::default();
    let (mut passed, mut drawn) = (0.0, 0);
    for (phase, (part, name)) in parts.iter().zip(names).enumerate().filter(|_| all > 0.0) {
        passed += part;
        let until = ((passed / all * width as f64).round() as usize).min(width);
        let letter = if look.color { "█" } else { &name[..1] };
        line = line.and(letter.repeat(until.saturating_sub(drawn)), Shade::Phase(phase));
        drawn = until.max(drawn);
    }
    line
}

/// A bar of one color.
pub(super) fn block(length: usize, look: Look, shade: Shade) -> Line {
    Line::of(if look.unicode { "█" } else { "#" }.repeat(length), shade)
}

fn certificates(pair: &Pair<'_>, _: Look) -> Table {
    let mut certificates: Vec<_> = pair.now.certificates.iter().collect();
    certificates
        .sort_by(|one, other| one.not_after().unwrap_or(0.0).total_cmp(&other.not_after().unwrap_or(0.0)));
    table! {
        certificates.into_iter() => |certificate| {
            let left = certificate.not_after().map(|until| until - pair.now.process.now);
            let shade = match left {
                Some(left) if left >= 21.0 * DAY => Shade::Good,
                Some(left) if left >= 7.0 * DAY => Shade::Warning,
                _ => Shade::Bad,
            };
            let in_words = match left {
                Some(left) if left > 0.0 => long(Duration::from_secs_f64(left)),
                Some(_) => "expired".to_owned(),
                None => "–".to_owned(),
            };
        }
        column("certificate", 16, 0) => words(&certificate.name, Shade::Strong);
        column("key", 0, 2) => plain(&certificate.kind);
        column("service", 6, 0) => plain(&certificate.service);
        figures("time left", 0) => Cell { line: Line::of(in_words, shade), key: Some(left.unwrap_or(0.0)) };
        column("until", 0, 1) => plain(certificate.last_day());
    }
}

fn threads(pair: &Pair<'_>, look: Look) -> Table {
    table! {
        pair.now.threads.iter() => |thread| {
            let before = pair.before.and_then(|it| it.threads.iter().find(|known| known.name == thread.name));
            let cpu = before.zip(pair.over()).map(|(before, over)| (thread.cpu - before.cpu).max(0.0) / over);
            let busy = cpu.unwrap_or_default();
            let shade = if busy > 0.9 { Shade::Warning } else { Shade::Plain };
            let bar = block((busy.min(1.0) * 10.0).round() as usize, look, shade);
            let worker = thread.worker.as_ref();
            let turns = worker.zip(before.and_then(|before| before.worker.as_ref()));
            let lag = turns.and_then(|(now, before)| {
                let turned = now.turns.saturating_sub(before.turns);
                (turned > 0).then(|| (now.lag() - before.lag()).max(0.0) / turned as f64)
            });
            let turns = turns.and_then(|(now, before)| pair.rate(now.turns, Some(before.turns)));
            let tasks = worker.map(|worker| worker.tasks as f64);
        }
        column("thread", 8, 0) => words(&thread.name, Shade::Strong);
        figures("CPU", 0) => known(cpu, |share| format!("{:.0} %", share * 100.0), shade);
        column("", 0, 3) => Cell { line: bar, key: None };
        figures("tasks", 0) => known(tasks, |tasks| count(tasks as u64), Shade::Plain);
        figures("lag mean", 0) => times(lag);
        figures("lag p99", 0) => times(worker.and_then(|worker| worker.lag_p99));
        figures("turns", 2) => rates(turns, Shade::Plain);
        figures("CPU time", 4) => times(Some(thread.cpu));
    }
}

fn attention(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.attention.iter() => |point| {
            let [bad, soon] = [("bad", Shade::Bad), ("soon", Shade::Warning)];
            let (word, shade) = if point.is_urgent() { bad } else { soon };
        }
        column("urgency", 0, 0) => words(word, shade);
        column("what needs attention", 40, 0) => plain(&point.sentence);
    }
}
