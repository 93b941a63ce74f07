//! Tables of the parts that the proxy depends on: certificates, backends, their names, threads, the process.

use std::time::SystemTime;

use handfast_html::{Table, bar_with_words, card, pairs, with_small};
use handfast_observe::metrics::{
    BackendSnapshot, BackendState, Distribution, KeyProcessSnapshot, Snapshot, source_ports,
};
use handfast_text::calendar::Utc;
use maud::{Markup, html};

use super::format::{bytes, count, counted, expiry, list_expiry, long, rate, seconds, share_of, times};
use crate::status::Status;

pub(super) fn certificates(status: &Status) -> Markup {
    let mut certificates: Vec<_> = status.measured.certificates.iter().collect();
    if certificates.is_empty() {
        return card("Certificates", "None is served.", &Markup::default());
    }
    certificates.sort_by_key(|certificate| certificate.not_after);
    let headings =
        "Certificate|Key|Service|Expiry|Until|OCSP response until|#Full handshakes with its kind of key";
    let mut table = Table::new("Certificates", headings);
    for certificate in certificates {
        let (urgency, words) = expiry(certificate.not_after, status.measured.process.now);
        let staple = certificate.staple_until.map(|until| Utc::of(until).for_people().to_string());
        let signed = status.measured.handshakes.iter().filter(|seen| seen.signature == certificate.kind);
        table.row([
            html! { (certificate.name) },
            html! { (certificate.kind) },
            html! { (certificate.service) },
            html! { span class=(urgency.class()) { (words) } },
            html! { (Utc::of(certificate.not_after).date()) },
            html! { (staple.as_deref().unwrap_or("none")) },
            html! { (count(signed.map(|seen| seen.total.count()).sum())) },
        ]);
    }
    card("Certificates", "", &table.draw())
}

/// Revocation lists of client authorities, the first to expire first.
pub(super) fn revocation_lists(status: &Status) -> Markup {
    let mut lists: Vec<_> = status.measured.revocation_lists.iter().collect();
    if lists.is_empty() {
        return Markup::default();
    }
    lists.sort_by_key(|list| list.next_update);
    let mut table = Table::new("Revocation lists", "Authority|Service|#Revoked|Expiry");
    for list in lists {
        let (urgency, words) = list_expiry(list, status.measured.process.now);
        table.row([
            html! { (list.issuer) },
            html! { (list.service) },
            html! { (count(list.entries)) },
            html! { span class=(urgency.class()) { (words) } },
        ]);
    }
    card("Revocation lists", "Clients' certificates are held against them.", &table.draw())
}

/// Backends: their state, and how far source ports reach.
pub(super) fn backends(status: &Status) -> Markup {
    let measured = &status.measured;
    let headings = "Backend|State|#Weight|Last checks|#Connections now|#New|#Failed attempts|#Connect: median|Source ports";
    let mut table = Table::new("Backends", headings);
    for service in &measured.services {
        // Removed backends without connections are history, which the metrics keep.
        let shown = |backend: &&BackendSnapshot| backend.is_up().is_some() || backend.connections() > 0;
        let mut backends = service.backends.iter().filter(shown).peekable();
        if backends.peek().is_some() {
            table.group(html! { (service.name) });
        }
        for backend in backends {
            let [median, most] = quantiles(&backend.connect);
            table.row([
                html! { (backend.name) },
                state(backend, measured.process.now),
                weight(backend),
                check(backend, measured.process.now),
                html! { (count(backend.connections())) },
                html! { (new(status, &service.name, &backend.name)) },
                failures(backend),
                html! { (median) @if median != most { small { "99 %: " (most) } } },
                ports(measured, &backend.name),
            ]);
        }
    }
    let content = html! {
        (table.draw())
        @if let Some(time_wait) = measured.process.time_wait {
            p.soft {
                (count(time_wait)) " TCP sockets of this machine are in TIME_WAIT, which may hold further source ports."
            }
        }
    };
    card("Backends", "Failed attempts: also those after which another backend served the client.", &content)
}

/// Source ports in use towards a backend.
fn ports(measured: &Snapshot, backend: &str) -> Markup {
    match (source_ports(measured).get(backend), measured.process.source_port_count()) {
        (Some((used, sources)), Some(range)) => {
            let all = range.saturating_mul(*sources);
            let share = *used as f64 / all as f64;
            bar_with_words(&[("blue", share)], &format!("{} of {}", count(*used), count(all)))
        }
        _ => html! { "none needed" },
    }
}

fn state(backend: &BackendSnapshot, now: SystemTime) -> Markup {
    let since = backend.down_since.map(|since| now.duration_since(since).unwrap_or_default());
    let since = since.map(long).unwrap_or_default();
    let (class, words) = match backend.state {
        BackendState::Up => ("good", "up".to_owned()),
        BackendState::Down => ("bad", format!("down for {since}")),
        BackendState::OnTrial => ("bad", format!("down for {since}, being tried")),
        BackendState::CheckFailed => ("bad", "down: its checks fail".to_owned()),
        BackendState::Drained => ("", "set to drain by an operator".to_owned()),
        BackendState::TakenDown => ("", "set to down by an operator".to_owned()),
        BackendState::NoAddress => ("bad", "its name has no address".to_owned()),
        BackendState::Gone => ("", "not configured any more".to_owned()),
    };
    html! { span class=(class) { (words) } }
}

fn weight(backend: &BackendSnapshot) -> Markup {
    let weight = backend.weight.map(|weight| weight.to_string()).unwrap_or_default();
    with_small(&weight, if backend.backup { "backup" } else { "" })
}

fn check(backend: &BackendSnapshot, now: SystemTime) -> Markup {
    let Some(check) = &backend.check else { return html! { "not checked" } };
    let Some(at) = check.last_at else { return html! { "not yet" } };
    let (number, ago) = (count(check.in_a_row.into()), long(now.duration_since(at).unwrap_or_default()));
    html! {
        @match &check.last_failure {
            None => { (number) " passed" },
            Some(reason) => span.bad { (number) " failed: " (reason) },
        }
        small { (ago) " ago" }
    }
}

/// Connections to it made each second of the last minute.
fn new(status: &Status, service: &str, backend: &str) -> String {
    let attempts = status.recent.services.get(service).and_then(|recent| recent.backends.get(backend));
    let over = status.recent.over_seconds;
    attempts.filter(|_| over >= 1.0).map_or("–".into(), |attempts| rate(attempts.connected as f64 / over))
}

/// Attempts that failed, and why, the most frequent cause first.
fn failures(backend: &BackendSnapshot) -> Markup {
    let mut causes: Vec<_> = backend.failures.iter().filter(|(_, failed)| **failed > 0).collect();
    causes.sort_by_key(|(_, failed)| std::cmp::Reverse(**failed));
    let words: Vec<_> = causes.iter().map(|(cause, failed)| format!("{cause} {}", count(**failed))).collect();
    with_small(&count(backend.failed()), &words.join(", "))
}

/// Names of backends: what they resolve to, and whether lookups succeed.
pub(super) fn names(status: &Status) -> Markup {
    if status.measured.names.is_empty() {
        return Markup::default();
    }
    let headings = "Name|Service|State|Addresses in use|#Answered|#Failed";
    let mut table = Table::new("Names of backends", headings);
    for name in &status.measured.names {
        let (class, state) = match (&name.problem, name.addresses.is_empty()) {
            (None, false) => ("good", "resolved".to_owned()),
            (None, true) => ("soon", "no answer yet".to_owned()),
            (Some(problem), none) => {
                (if none { "bad" } else { "soon" }, format!("the last DNS lookup failed: {problem}"))
            }
        };
        table.row([
            html! { (name.name) },
            html! { (name.services.join("\n")) },
            html! { span class=(class) { (state) } },
            html! { (name.addresses.join("\n")) },
            html! { (count(name.answered)) },
            html! { (count(name.failed)) },
        ]);
    }
    card("Names of backends", "Resolved in the background; no connection waits for an answer.", &table.draw())
}

/// Median and 99 %.
pub(super) fn quantiles(times: &Distribution) -> [String; 2] {
    [0.5, 0.99].map(|q| times.quantile_seconds(q).map_or("–".into(), seconds))
}

/// Worker threads, then the others by their CPU time.
pub(super) fn threads(status: &Status) -> Markup {
    let headings = "Thread|CPU|#CPU time|#Tasks|#Lag: median|#99 %|#Turns|#Idle turns";
    let mut table = Table::new("Threads", headings);
    let workers = &status.measured.threads;
    for thread in workers {
        let [median, most] = quantiles(&thread.loop_lag);
        let counts = [count(thread.turns), count(thread.spurious_turns)];
        let rest = [count(thread.tasks), median, most].into_iter().chain(counts);
        table.row(cpu(status, &thread.name).into_iter().chain(rest.map(|text| html! { (text) })));
    }
    let is_worker = |name: &str| workers.iter().any(|thread| thread.name == name);
    for name in status.measured.process.cpu_seconds.keys().filter(|name| !is_worker(name)) {
        table.row(cpu(status, name));
    }
    let errors = workers
        .iter()
        .flat_map(|thread| thread.accept_errors.iter().map(|(cause, errors)| (&thread.name, cause, *errors)));
    let content = html! {
        (table.draw())
        @for (name, cause, errors) in errors { p { (name) ": accept failed " (count(errors)) " times: " (cause) "." } }
    };
    card(
        "Threads",
        "Lag: how long an event had to wait while the thread worked on others. Idle turns: woken, and nothing moved.",
        &content,
    )
}

/// Its name, its share of a CPU, and its CPU time.
fn cpu(status: &Status, thread: &str) -> [Markup; 3] {
    let bar = match status.rates.cpu.get(thread) {
        Some(share) => bar_with_words(&[("blue", *share)], &format!("{:.0} %", share * 100.0)),
        None => html! { "–" },
    };
    let time = status.measured.process.cpu_seconds.get(thread).map_or("–".into(), |time| seconds(*time));
    [html! { (thread) }, bar, html! { (time) }]
}

/// The other machines of the fleet; nothing without one.
pub(super) fn fleet(status: &Status) -> Markup {
    let Some(fleet) = &status.measured.fleet else { return Markup::default() };
    let now = status.measured.process.now;
    let ago = |time| format!("{} ago", long(now.duration_since(time).unwrap_or_default()));
    let mut table = Table::new("Machines", "Machine|Last message|Clock|Version");
    for machine in &fleet.machines {
        let differs = seconds(machine.clock_offset_seconds);
        let clock = format!("{differs} {}", if machine.clock_behind { "behind" } else { "ahead" });
        table.row([
            html! { (machine.name) },
            html! { (ago(machine.last_seen_at)) },
            html! { (clock) },
            html! { (machine.version) },
        ]);
    }
    let keys = match fleet.keys_shared_at {
        Some(at) => format!("Another machine reported the ticket key that is used here {}.", ago(at)),
        None => "No other machine has reported the ticket key that is used here.".to_owned(),
    };
    let words =
        format!("{} is this machine's name in {}, on {}. {keys}", fleet.machine, fleet.name, fleet.bus);
    card("Fleet", &words, &table.draw())
}

/// Caches of services; nothing without one.
pub(super) fn caches(status: &Status) -> Markup {
    if status.measured.caches.is_empty() {
        return Markup::default();
    }
    let mut table =
        Table::new("Caches", "Service|Objects|On the disk|Served from it|Of backends|Not asked|Evicted|Disk");
    for cache in &status.measured.caches {
        let (served, requested, all) = (cache.served(), cache.of_backends(), cache.all_requests());
        let mean = |operation: &str| {
            let (number, time) = cache.disk.get(operation).copied().unwrap_or_default();
            (number > 0).then(|| format!("{operation} {}", seconds(time / number as f64)))
        };
        let disk: Vec<_> = ["read", "write"].into_iter().filter_map(mean).collect();
        table.row([
            html! { (cache.service) },
            html! { (count(cache.objects)) },
            with_small(&bytes(cache.disk_bytes), &format!("of {}", bytes(cache.disk_bytes_limit))),
            with_small(&count(served), &share_of(served, all)),
            with_small(&count(requested), &format!("{} confirmed", count(cache.confirmed))),
            html! { (count(all - served - requested)) },
            with_small(
                &count(cache.changed("evicted")),
                &format!("{} purged", count(cache.changed("purged"))),
            ),
            with_small(&disk.join(", "), &format!("{} errors", count(cache.errors))),
        ]);
    }
    card(
        "Caches",
        "Since each cache was opened. Disk: mean times of its threads. handfast cache lists and purges objects.",
        &table.draw(),
    )
}

pub(super) fn process(status: &Status) -> Markup {
    let measured = &status.measured;
    let (process, reload) = (&measured.process, &measured.reload);
    let mut facts = Vec::new();
    let mut fact = |name: &'static str, value: String| facts.push((name, value));
    fact("Configuration", status.overview.configuration.clone());
    fact("Generation", reload.generation.map_or("none yet".into(), |generation| generation.to_string()));
    let ago = |time| process.now.duration_since(time).unwrap_or_default();
    fact(
        "Last start or reload",
        match (reload.last_at, &reload.last_problem) {
            (Some(at), None) => format!("{} ago, took effect", long(ago(at))),
            (Some(at), Some(_)) if reload.left_out => {
                format!("{} ago, took effect, except for the files that are named above", long(ago(at)))
            }
            (Some(at), Some(_)) => format!("{} ago, changed nothing (see above)", long(ago(at))),
            (None, _) => "–".into(),
        },
    );
    fact(
        "Private keys",
        match measured.key_process {
            None => "in this process".into(),
            Some(KeyProcessSnapshot { answers: true, restarts: 0 }) => "in a separate process".into(),
            Some(KeyProcessSnapshot { answers: true, restarts }) => {
                format!("in a separate process, started again {}", times(restarts))
            }
            Some(_) => "in a separate process, which does not answer".into(),
        },
    );
    if measured.connections_draining > 0 {
        let left = counted(measured.connections_draining, "connection");
        fact("Draining", format!("{left} of processes that an upgrade has replaced"));
    }
    fact("Reloads", format!("{} took effect, {} failed", count(reload.succeeded), count(reload.failed)));
    if let Some(resident) = process.resident_bytes {
        fact("Memory", bytes(resident));
    }
    if let Some(open) = process.open_files {
        fact(
            "Open files",
            match process.max_files {
                Some(max) => format!("{} of {} ({})", count(open), count(max), share_of(open, max)),
                None => count(open),
            },
        );
    }
    if let Some(time) = process.process_cpu_seconds {
        fact("CPU time", seconds(time));
    }
    let (written, dropped) = (measured.access_log_written, measured.access_log_dropped);
    fact("Access log", format!("{} written, {} lost", counted(written, "line"), count(dropped)));
    card("Process", "", &pairs(facts))
}
