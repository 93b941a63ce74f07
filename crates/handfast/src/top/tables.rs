//! The content of each table.
//!
//! In: a [`Pair`] of moments. Out: [`Table`]s. A figure that is not known yet is a dash and never a zero.

use std::time::Duration;

use handfast_admin::{RecentTimes, Urgency};
use handfast_observe::metrics::{
    BackendSnapshot, BackendState, CheckSnapshot, End, HandshakeSnapshot, PHASES, RequestSnapshot,
    ServiceSnapshot, StatusClass,
};
use handfast_text::calendar::Utc;
use handfast_text::table::Column;
use handfast_text::units::{count, long};

use super::cache_table::caches;
use super::cells::{Pair, column, counts, figures, known, percent, plain, rates, times, volume, words};
use super::request_tables::{clients, open_requests, request_failures, routes};
use super::sample::Sample;
use super::table::{Cell, Table, table};
use crate::screen::{Line, Look, Pieces, Shade};

/// The place of [`attention`] among [`TABLES`], which is its key less one.
pub(super) const ATTENTION: usize = 7;
/// Columns of a bar.
const BAR: usize = 24;
/// Names of the phases of a handshake.
pub(super) const PHASE_WORDS: [&str; PHASES.len()] = ["hello", "crypto", "client", "queue"];
const DAY: Duration = Duration::from_secs(86_400);

/// Function that makes a table.
type Make = fn(&Pair<'_>, Look) -> Table;

/// The tables with their names, and shorter ones for a line of 80 columns, in the order of their keys.
pub(super) const TABLES: [(&str, &str, Make); 13] = [
    ("Services", "Services", services),
    ("Backends", "Backends", backends),
    ("Failures", "Failed", failures),
    ("Recent", "Recent", recent),
    ("Handshakes", "TLS", handshakes),
    ("Certificates", "Certs", certificates),
    ("Threads", "CPU", threads),
    ("Attention", "Alerts", attention),
    ("Caches", "Cache", caches),
    ("Routes", "Routes", routes),
    ("Open requests", "Open", open_requests),
    ("Clients", "Clients", clients),
    ("Failed requests", "Req", request_failures),
];

/// The keys that choose the tables.
pub(super) const KEYS: &str = "1234567890abc";

fn services(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.services.iter() => |service| {
            let before = pair.service_before(&service.name);
            let ever = |of: fn(&ServiceSnapshot) -> u64| pair.rate(of(service), pair.or_new(before.map(of)));
            let open = service.connections();
            let full = service.connections_limit.is_some_and(|limit| open >= limit);
            let of_limit = |open: f64| match service.connections_limit {
                Some(limit) => format!("{} of {}", count(open as u64), count(limit)),
                None => count(open as u64),
            };
            let shade = if full { Shade::Warning } else { Shade::Plain };
            let is_http = service.requests.is_some();
        }
        column("service", 8, 0) => words(&service.name, Shade::Strong);
        column("listens on", 12, 9) => plain(pair.now.listens(&service.name));
        figures("open", 0) => known(Some(open as f64), of_limit, shade);
        figures("new", 0) => rates(ever(|service| service.accepted), Shade::Plain);
        figures("handshakes", 0) => rates(ever(handshakes_of), Shade::Plain);
        figures("requests", 3) => rates(is_http.then(|| ever(requests)).flatten(), Shade::Plain);
        figures("5xx", 4) => share(is_http.then(|| server_error_share(ever(server_errors), ever(requests))).flatten());
        figures("to backends", 2) => volume(ever(|service| service.bytes_to_backend));
        figures("to clients", 1) => volume(ever(|service| service.bytes_to_client));
        figures("failed", 0) => rates(ever(failed), Shade::Bad);
        figures("waiting", 8) => counts(service.waiting.values().sum(), Shade::Warning);
    }
}

/// HTTP requests of a service that ended.
pub(super) fn requests(service: &ServiceSnapshot) -> u64 {
    service.requests.as_ref().map_or(0, RequestSnapshot::ended)
}

/// Those with status 5xx.
pub(super) fn server_errors(service: &ServiceSnapshot) -> u64 {
    service.requests.as_ref().map_or(0, |requests| requests.of_class(StatusClass::ServerError))
}

/// The share of requests with status 5xx; unknown where there were no requests.
pub(super) fn server_error_share(errors: Option<f64>, requests: Option<f64>) -> Option<f64> {
    requests.filter(|requests| *requests > 0.0).zip(errors).map(|(requests, errors)| errors / requests)
}

fn share(value: Option<f64>) -> Cell {
    known(value, percent, Shade::Bad)
}

fn handshakes_of(service: &ServiceSnapshot) -> u64 {
    service.handshakes_full.saturating_add(service.handshakes_resumed)
}

/// The ways in which connections of a service failed.
pub(super) fn failures_of(service: &ServiceSnapshot) -> impl Iterator<Item = &End> {
    service.ends.iter().filter(|end| end.is_failure())
}

/// Connections of a service that failed.
pub(super) fn failed(service: &ServiceSnapshot) -> u64 {
    failures_of(service).map(|end| end.count).sum()
}

fn backends(pair: &Pair<'_>, _: Look) -> Table {
    let each = pair.now.services.iter().flat_map(|service| {
        service.backends.iter().map(move |backend| (service, backend, backend.connections()))
    });
    let mut each: Vec<_> =
        each.filter(|(_, backend, open)| backend.state != BackendState::Gone || *open > 0).collect();
    let before = |service: &ServiceSnapshot, name: &str| {
        pair.service_before(&service.name)?.backends.iter().find(|known| known.name == name)
    };
    let failing = |service, backend: &BackendSnapshot| {
        pair.rate(backend.failed(), pair.or_new(before(service, &backend.name).map(BackendSnapshot::failed)))
    };
    // Those that need attention first.
    each.sort_by_key(|(service, backend, _)| {
        (backend.state == BackendState::Up, failing(service, backend).is_none_or(|rate| rate <= 0.0))
    });
    table! {
        each.into_iter() => |(service, backend, open)| {
            let before = before(service, &backend.name);
            let ever = |of: fn(&BackendSnapshot) -> u64| pair.rate(of(backend), pair.or_new(before.map(of)));
            let state = match backend.state {
                BackendState::Up => Shade::Good,
                BackendState::Drained | BackendState::TakenDown | BackendState::Gone => Shade::Warning,
                _ => Shade::Bad,
            };
            let check = check(backend.check.as_ref());
            let checked = if check.starts_with("failed") { Shade::Bad } else { Shade::Plain };
        }
        column("backend", 16, 0) => words(&backend.name, Shade::Strong);
        column("service", 14, 0) => plain(&service.name);
        column("state", 0, 0) => words(backend.state.name(), state);
        figures("open", 0) => counts(open, Shade::Plain);
        figures("new", 1) => rates(ever(|backend| backend.connected), Shade::Plain);
        figures("failing", 0) => rates(failing(service, backend), Shade::Bad);
        figures("failed", 5) => counts(backend.failed(), Shade::Plain);
        column("last failure", 12, 2) => words(backend.last_failure.as_deref().unwrap_or_default(), Shade::Faint);
        figures("connect p50", 6) => times(backend.connect.quantile_seconds(0.5));
        figures("p99", 8) => times(backend.connect.quantile_seconds(0.99));
        figures("response p50", 4) => times(backend.response.quantile_seconds(0.5));
        column("check", 16, 3) => words(check, checked);
    }
}

/// The result of the last health check.
fn check(check: Option<&CheckSnapshot>) -> String {
    match check {
        None => "not checked".to_owned(),
        Some(CheckSnapshot { last_failure: Some(why), .. }) => format!("failed: {why}"),
        Some(CheckSnapshot { last_at: None, .. }) => "not yet".to_owned(),
        Some(_) => "passed".to_owned(),
    }
}

fn failures(pair: &Pair<'_>, _: Look) -> Table {
    let each =
        pair.now.services.iter().flat_map(|service| failures_of(service).map(move |end| (service, end)));
    let mut table = table! {
        each => |(service, end)| {
            let before = pair.service_before(&service.name);
            let before = before.and_then(|it| it.ends.iter().find(|known| known.key() == end.key()));
            let now = pair.rate(end.count, pair.or_new(before.map(|end| end.count)));
        }
        figures("now", 0) => rates(now, Shade::Bad);
        figures("count", 0) => counts(end.count, Shade::Plain);
        column("service", 6, 0) => plain(&service.name);
        column("what happened", 40, 0) => plain(end.sentence());
        column("step / side / cause", 0, 3) => words(end.words().join(" / "), Shade::Faint);
    };
    // The most frequent first, then what happens now.
    table.rows.sort_by(|one, other| other[1].key.unwrap_or(0.0).total_cmp(&one[1].key.unwrap_or(0.0)));
    table
}

fn recent(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.status.failures.iter() => |failure| {
            let client = failure.client.map_or("unix socket".to_owned(), |client| client.to_string());
        }
        column("time UTC", 0, 0) => plain(Utc::of(failure.time).time_of_day().to_string());
        column("service", 6, 3) => plain(&*failure.service);
        column("client", 0, 0) => plain(client);
        column("backend", 0, 5) => plain(failure.backend.as_deref().unwrap_or_default());
        column("what happened", 40, 0) => plain(&*failure.sentence);
        column("detail", 12, 6) => words(failure.detail.as_deref().unwrap_or_default(), Shade::Faint);
    }
}

fn handshakes(pair: &Pair<'_>, look: Look) -> Table {
    let times_of =
        |seen: &HandshakeSnapshot| RecentTimes { total: seen.total.clone(), phases: seen.phases.clone() };
    let mean = |times: &RecentTimes| times.total.mean_seconds();
    let all = &pair.now.handshakes;
    let longest = all.iter().filter_map(|seen| seen.total.mean_seconds()).fold(0.0, f64::max);
    table! {
        all.iter() => |seen| {
            let (name, ever) = (name_of(seen), times_of(seen));
            let before = pair.before.and_then(|it| it.handshakes.iter().find(|known| name_of(known) == name));
            let now = before.map(|before| ever.since(&times_of(before))).filter(|now| now.total.count() > 0);
            let now = now.unwrap_or_else(|| ever.clone());
            let share = mean(&ever).filter(|_| longest > 0.0).map_or(0.0, |mean| mean / longest);
            let line = bar(&now, (share * BAR as f64).ceil() as usize, look);
            let rate = pair.rate(seen.total.count(), before.map(|before| before.total.count()));
        }
        column("handshake", 24, 0) => words(name, Shade::Strong);
        figures("now", 0) => rates(rate, Shade::Plain);
        figures("count", 0) => counts(seen.total.count(), Shade::Plain);
        figures("mean", 4) => times(mean(&now));
        figures("p50", 0) => times(seen.total.quantile_seconds(0.5));
        figures("p99", 0) => times(seen.total.quantile_seconds(0.99));
        column("where the mean time goes", 0, 2) => Cell { line, key: mean(&now).or(Some(0.0)) };
    }
}

/// `TLSv1.3 full X25519 RSA-2048`.
fn name_of(seen: &HandshakeSnapshot) -> String {
    let kind = if seen.resumed { "resumed" } else { "full" };
    let words = [&*seen.version, kind, &seen.group, &seen.signature];
    words.into_iter().filter(|word| *word != "none").collect::<Vec<_>>().join(" ")
}

/// The parts of handshakes one behind the other.
pub(super) fn bar(times: &RecentTimes, width: usize, look: Look) -> Line {
    stacked(&times.phases.each_ref().map(|phase| phase.sum_seconds()), &PHASE_WORDS, width, look)
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
    certificates.sort_by_key(|certificate| certificate.not_after);
    table! {
        certificates.into_iter() => |certificate| {
            let left = certificate.not_after.duration_since(pair.now.process.now).unwrap_or_default();
            let shade = match left {
                left if left >= 21 * DAY => Shade::Good,
                left if left >= 7 * DAY => Shade::Warning,
                _ => Shade::Bad,
            };
            let in_words = if left.is_zero() { "expired".to_owned() } else { long(left) };
        }
        column("certificate", 16, 0) => words(&certificate.name, Shade::Strong);
        column("key", 0, 2) => plain(&certificate.kind);
        column("service", 6, 0) => plain(&certificate.service);
        figures("time left", 0) => Cell { line: Line::of(in_words, shade), key: Some(left.as_secs_f64()) };
        column("until", 0, 1) => plain(Utc::of(certificate.not_after).date().to_string());
    }
}

fn threads(pair: &Pair<'_>, look: Look) -> Table {
    let before = pair.before.map(Sample::all_threads).unwrap_or_default();
    table! {
        pair.now.all_threads().into_iter() => |thread| {
            let before = before.iter().find(|known| known.name == thread.name);
            let cpu = before.zip(pair.over()).map(|(before, over)| (thread.cpu - before.cpu).max(0.0) / over);
            let busy = cpu.unwrap_or_default();
            let shade = if busy > 0.9 { Shade::Warning } else { Shade::Plain };
            let bar = block((busy.min(1.0) * 10.0).round() as usize, look, shade);
            let worker = thread.worker;
            let turns = worker.zip(before.and_then(|before| before.worker));
            let lag = turns.and_then(|(now, before)| {
                let turned = now.turns.saturating_sub(before.turns);
                let lag = now.loop_lag.since(&before.loop_lag).sum_seconds();
                (turned > 0).then(|| lag / turned as f64)
            });
            let turns = turns.and_then(|(now, before)| pair.rate(now.turns, Some(before.turns)));
            let tasks = worker.map(|worker| worker.tasks as f64);
        }
        column("thread", 8, 0) => words(thread.name, Shade::Strong);
        figures("CPU", 0) => known(cpu, |share| format!("{:.0} %", share * 100.0), shade);
        column("", 0, 3) => Cell { line: bar, key: None };
        figures("tasks", 0) => known(tasks, |tasks| count(tasks as u64), Shade::Plain);
        figures("lag mean", 0) => times(lag);
        figures("lag p99", 0) => times(thread.lag_p99);
        figures("turns", 2) => rates(turns, Shade::Plain);
        figures("CPU time", 4) => times(Some(thread.cpu));
    }
}

fn attention(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.status.attention.iter() => |point| {
            let [bad, soon] = [("bad", Shade::Bad), ("soon", Shade::Warning)];
            let (word, shade) = if point.urgency == Urgency::Bad { bad } else { soon };
        }
        column("urgency", 0, 0) => words(word, shade);
        column("what needs attention", 40, 0) => plain(&point.sentence);
    }
}
