//! The content of each table.
//!
//! In: a [`Pair`] of moments. Out: [`Table`]s. A figure that is not known yet is a dash and never a zero.

use handfast_text::units::{bytes, count, duration, long, rate};
use std::time::Duration;

use super::sample::{PHASES, Sample, Times};
use super::table::{Cell, Column, Table};
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
    pub(super) fn sum(&self, of: fn(&super::sample::Service) -> u64) -> Option<f64> {
        let sum = |sample: &Sample| sample.services.iter().map(of).sum::<u64>();
        self.rate(sum(self.now), self.before.map(sum))
    }

    fn service_before(&self, name: &str) -> Option<&super::sample::Service> {
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
    const COLUMNS: &[Column] = &[
        column("service", 8, 0),
        column("listens on", 12, 9),
        figures("open", 0),
        figures("new", 0),
        figures("handshakes", 0),
        figures("to backends", 2),
        figures("to clients", 1),
        figures("failed", 0),
        figures("waiting", 8),
    ];
    let row = |service: &super::sample::Service| {
        let before = pair.service_before(&service.name);
        let ever =
            |of: fn(&super::sample::Service) -> u64| pair.rate(of(service), pair.or_new(before.map(of)));
        let open = service.accepted.saturating_sub(service.closed);
        let full = service.connections_limit.is_some_and(|limit| open >= limit);
        let of_limit = |open: f64| match service.connections_limit {
            Some(limit) => format!("{} of {}", count(open as u64), count(limit)),
            None => count(open as u64),
        };
        vec![
            words(&service.name, Shade::Strong),
            plain(&service.listens),
            known(Some(open as f64), of_limit, if full { Shade::Warning } else { Shade::Plain }),
            rates(ever(|service| service.accepted), Shade::Plain),
            rates(ever(|service| service.handshakes), Shade::Plain),
            volume(ever(|service| service.bytes_to_backend)),
            volume(ever(|service| service.bytes_to_client)),
            rates(ever(failed), Shade::Bad),
            counts(service.waiting, Shade::Warning),
        ]
    };
    Table { columns: COLUMNS, rows: pair.now.services.iter().map(row).collect() }
}

/// Connections of a service that failed.
pub(super) fn failed(service: &super::sample::Service) -> u64 {
    service.ends.iter().map(|end| end.count).sum()
}

fn backends(pair: &Pair<'_>, _: Look) -> Table {
    const COLUMNS: &[Column] = &[
        column("backend", 16, 0),
        column("service", 6, 4),
        column("state", 0, 0),
        figures("open", 0),
        figures("new", 0),
        figures("failing", 0),
        figures("failed", 2),
        column("last failure", 10, 7),
        figures("connect p50", 3),
        figures("p99", 5),
        figures("answer p50", 1),
        column("check", 10, 6),
    ];
    let mut rows = Vec::new();
    for service in &pair.now.services {
        let before = pair.service_before(&service.name);
        for backend in &service.backends {
            let open = backend.connected.saturating_sub(backend.disconnected);
            if backend.state == "gone" && open == 0 {
                continue;
            }
            let earlier =
                before.and_then(|service| service.backends.iter().find(|known| known.name == backend.name));
            let ever = |now: u64, before: Option<u64>| pair.rate(now, pair.or_new(before));
            let state = match backend.state.as_str() {
                "up" => Shade::Good,
                "drained" | "taken-down" | "gone" => Shade::Warning,
                _ => Shade::Bad,
            };
            let check = backend.check();
            let has_failed = check.starts_with("failed");
            rows.push(vec![
                words(&backend.name, Shade::Strong),
                plain(&service.name),
                words(&backend.state, state),
                counts(open, Shade::Plain),
                rates(ever(backend.connected, earlier.map(|it| it.connected)), Shade::Plain),
                rates(ever(backend.failed, earlier.map(|it| it.failed)), Shade::Bad),
                counts(backend.failed, Shade::Plain),
                words(&backend.last_failure, Shade::Faint),
                times(backend.connect.p50_seconds),
                times(backend.connect.p99_seconds),
                times(backend.answer.p50_seconds),
                words(check, if has_failed { Shade::Bad } else { Shade::Plain }),
            ]);
        }
    }
    Table { columns: COLUMNS, rows }
}

fn failures(pair: &Pair<'_>, _: Look) -> Table {
    const COLUMNS: &[Column] = &[
        figures("now", 0),
        figures("count", 0),
        column("service", 6, 0),
        column("what happened", 40, 0),
        column("step / side / cause", 0, 3),
    ];
    let mut rows = Vec::new();
    for service in &pair.now.services {
        let before = pair.service_before(&service.name);
        for end in &service.ends {
            let earlier =
                before.and_then(|service| service.ends.iter().find(|known| known.words() == end.words()));
            rows.push(vec![
                rates(pair.rate(end.count, pair.or_new(earlier.map(|end| end.count))), Shade::Bad),
                counts(end.count, Shade::Plain),
                plain(&service.name),
                plain(&end.sentence),
                words(end.words(), Shade::Faint),
            ]);
        }
    }
    // The most frequent first, then what happens now.
    rows.sort_by(|one, other| other[1].key.unwrap_or(0.0).total_cmp(&one[1].key.unwrap_or(0.0)));
    Table { columns: COLUMNS, rows }
}

fn recent(pair: &Pair<'_>, _: Look) -> Table {
    const COLUMNS: &[Column] = &[
        column("time UTC", 0, 0),
        column("service", 6, 3),
        column("client", 0, 0),
        column("backend", 0, 5),
        column("what happened", 40, 0),
        column("detail", 12, 6),
    ];
    let row = |failure: &super::sample::Failure| {
        vec![
            plain(failure.clock()),
            plain(&failure.service),
            plain(if failure.client.is_empty() { "unix socket" } else { &failure.client }),
            plain(&failure.backend),
            plain(&failure.sentence),
            words(&failure.detail, Shade::Faint),
        ]
    };
    Table { columns: COLUMNS, rows: pair.now.failures.iter().map(row).collect() }
}

fn handshakes(pair: &Pair<'_>, look: Look) -> Table {
    const COLUMNS: &[Column] = &[
        column("handshake", 24, 0),
        figures("now", 0),
        figures("count", 0),
        figures("mean", 4),
        figures("p50", 0),
        figures("p99", 0),
        column("where the mean time goes", 0, 2),
    ];
    let longest = pair.now.kinds.iter().map(|kind| mean(&kind.times())).fold(0.0, f64::max);
    let row = |kind: &super::sample::Kind| {
        let (name, ever) = (kind.name(), kind.times());
        let before = pair.before.and_then(|before| before.kinds.iter().find(|known| known.name() == name));
        let before = before.map(super::sample::Kind::times);
        let now = before.map(|before| ever.since(&before)).filter(|now| now.count > 0);
        let times_now = now.unwrap_or(ever);
        let room = if longest > 0.0 { (mean(&ever) / longest * BAR as f64).ceil() as usize } else { 0 };
        vec![
            words(name, Shade::Strong),
            rates(pair.rate(ever.count, before.map(|before| before.count)), Shade::Plain),
            counts(ever.count, Shade::Plain),
            times((times_now.count > 0).then(|| mean(&times_now))),
            times(kind.total.p50_seconds),
            times(kind.total.p99_seconds),
            Cell { line: bar(&times_now, room, look), key: Some(mean(&times_now)) },
        ]
    };
    Table { columns: COLUMNS, rows: pair.now.kinds.iter().map(row).collect() }
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
    const COLUMNS: &[Column] = &[
        column("certificate", 16, 0),
        column("key", 0, 2),
        column("service", 6, 0),
        figures("time left", 0),
        column("until", 0, 1),
    ];
    let mut certificates: Vec<_> = pair.now.certificates.iter().collect();
    certificates
        .sort_by(|one, other| one.not_after().unwrap_or(0.0).total_cmp(&other.not_after().unwrap_or(0.0)));
    let row = |certificate: &&super::sample::Certificate| {
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
        vec![
            words(&certificate.name, Shade::Strong),
            plain(&certificate.kind),
            plain(&certificate.service),
            Cell { line: Line::of(in_words, shade), key: Some(left.unwrap_or(0.0)) },
            plain(certificate.last_day()),
        ]
    };
    Table { columns: COLUMNS, rows: certificates.iter().map(row).collect() }
}

fn threads(pair: &Pair<'_>, look: Look) -> Table {
    const COLUMNS: &[Column] = &[
        column("thread", 8, 0),
        figures("CPU", 0),
        column("", 0, 3),
        figures("tasks", 0),
        figures("lag mean", 0),
        figures("lag p99", 0),
        figures("turns", 2),
        figures("CPU time", 4),
    ];
    let row = |thread: &super::sample::Thread| {
        let before =
            pair.before.and_then(|before| before.threads.iter().find(|known| known.name == thread.name));
        let cpu = before.zip(pair.over()).map(|(before, over)| ((thread.cpu - before.cpu) / over).max(0.0));
        let busy = cpu.unwrap_or_default();
        let shade = if busy > 0.9 { Shade::Warning } else { Shade::Plain };
        let turns = thread.worker.as_ref().zip(before.and_then(|before| before.worker.as_ref()));
        let turned =
            turns.map(|(now, before)| now.turns.saturating_sub(before.turns)).filter(|turns| *turns > 0);
        let lag = turns
            .zip(turned)
            .map(|((now, before), turns)| (now.lag() - before.lag()).max(0.0) / turns as f64);
        vec![
            words(&thread.name, Shade::Strong),
            known(cpu, |share| format!("{:.0} %", share * 100.0), shade),
            Cell { line: block((busy.min(1.0) * 10.0).round() as usize, look, shade), key: None },
            known(
                thread.worker.as_ref().map(|worker| worker.tasks as f64),
                |tasks| count(tasks as u64),
                Shade::Plain,
            ),
            times(lag),
            times(thread.worker.as_ref().and_then(|worker| worker.lag_p99)),
            rates(turns.and_then(|(now, before)| pair.rate(now.turns, Some(before.turns))), Shade::Plain),
            times(Some(thread.cpu)),
        ]
    };
    Table { columns: COLUMNS, rows: pair.now.threads.iter().map(row).collect() }
}

fn attention(pair: &Pair<'_>, _: Look) -> Table {
    const COLUMNS: &[Column] = &[column("urgency", 0, 0), column("what needs attention", 40, 0)];
    let row = |point: &super::sample::Attention| {
        let (word, shade) = if point.is_urgent() { ("bad", Shade::Bad) } else { ("soon", Shade::Warning) };
        vec![words(word, shade), plain(&point.sentence)]
    };
    Table { columns: COLUMNS, rows: pair.now.attention.iter().map(row).collect() }
}
