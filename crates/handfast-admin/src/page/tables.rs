//! What the proxy stands on: certificates, backends, their names, threads, the process.

use std::time::SystemTime;

use super::format::{bytes, count, counted, expiry, list_expiry, long, rate, seconds, share_of, times};
use super::html::Html;
use handfast_text::calendar::Utc;

use crate::status::Status;
use handfast_observe::metrics::{
    BackendSnapshot, BackendState, Distribution, KeyProcessSnapshot, ThreadSnapshot, source_ports,
};

pub(super) fn certificates(html: &mut Html, status: &Status) {
    let mut certificates: Vec<_> = status.measured.certificates.iter().collect();
    certificates.sort_by_key(|certificate| certificate.not_after);
    html.section("Certificates", if certificates.is_empty() { "None is served." } else { "" });
    if !certificates.is_empty() {
        html.table(
            "Certificate|Key|Service|Expiry|Until|OCSP response until|#Full handshakes with its kind of key",
        );
        for certificate in certificates {
            let (urgency, words) = expiry(certificate.not_after, status.measured.process.now);
            html.raw("<tr>").cell(&certificate.name).cell(&certificate.kind).cell(&certificate.service);
            html.element(&format!("td class={}", urgency.class()), &words);
            html.cell(&Utc::of(certificate.not_after).date().to_string());
            let staple = certificate.staple_until.map(|until| Utc::of(until).for_people().to_string());
            html.cell(staple.as_deref().unwrap_or("none"));
            let signed = status.measured.handshakes.iter().filter(|seen| seen.signature == certificate.kind);
            html.number(&count(signed.map(|seen| seen.total.count()).sum())).raw("</tr>");
        }
        html.end_table();
    }
    html.raw("</section>");
}

/// Revocation lists of client authorities, the first to expire first.
pub(super) fn revocation_lists(html: &mut Html, status: &Status) {
    if status.measured.revocation_lists.is_empty() {
        return;
    }
    let mut lists: Vec<_> = status.measured.revocation_lists.iter().collect();
    lists.sort_by_key(|list| list.next_update);
    html.section("Revocation lists", "Clients' certificates are held against them.");
    html.table("Authority|Service|#Revoked|Expiry");
    for list in lists {
        let (urgency, words) = list_expiry(list, status.measured.process.now);
        html.raw("<tr>").cell(&list.issuer).cell(&list.service).number(&count(list.entries));
        html.element(&format!("td class={}", urgency.class()), &words).raw("</tr>");
    }
    html.end_table().raw("</section>");
}

/// Backends: how they do, and how far source ports reach.
pub(super) fn backends(html: &mut Html, status: &Status) {
    let measured = &status.measured;
    html.section("Backends", "Failed attempts: also those after which another backend served the client.");
    html.table("Backend|Service|State|#Weight|Last checks|#Connections now|#New|#Failed attempts|#Connect: median|#99 %|Source ports");
    let ports = source_ports(measured);
    for service in &measured.services {
        // What is gone and has no connection any more is history, which the metrics keep.
        let shown = |backend: &&BackendSnapshot| backend.is_up().is_some() || backend.connections() > 0;
        for backend in service.backends.iter().filter(shown) {
            html.raw("<tr>").cell(&backend.name).cell(&service.name);
            state(html, backend, measured.process.now);
            weight(html, backend);
            check(html, backend, measured.process.now);
            html.number(&count(backend.connections()));
            html.number(&new(status, &service.name, &backend.name));
            failures(html, backend);
            quantiles(html, &backend.connect);
            match (ports.get(backend.name.as_str()), measured.process.source_port_count()) {
                (Some((used, sources)), Some(range)) => {
                    let all = range.saturating_mul(*sources);
                    let words = format!("{} of {}", count(*used), count(all));
                    let share = *used as f64 / all as f64;
                    html.bar_cell(&words, &[("used", share), ("free", 1.0 - share)], &words);
                }
                _ => drop(html.cell("none needed")),
            }
            html.raw("</tr>");
        }
    }
    html.end_table();
    if let Some(time_wait) = measured.process.time_wait {
        let words = format!(
            "{} TCP sockets of this machine are in TIME_WAIT, which may hold further source ports.",
            count(time_wait)
        );
        html.element("p class=meaning", &words);
    }
    html.raw("</section>");
}

fn state(html: &mut Html, backend: &BackendSnapshot, now: SystemTime) {
    let since = || {
        let since = backend.down_since.map(|since| now.duration_since(since).unwrap_or_default());
        since.map(long).unwrap_or_default()
    };
    match backend.state {
        BackendState::Up => html.element("td class=good", "up"),
        BackendState::Down => html.element("td class=bad", &format!("down for {}", since())),
        BackendState::OnTrial => html.element("td class=bad", &format!("down for {}, being tried", since())),
        BackendState::CheckFailed => html.element("td class=bad", "down: its checks fail"),
        BackendState::Drained => html.element("td", "set to drain by an operator"),
        BackendState::TakenDown => html.element("td", "set to down by an operator"),
        BackendState::NoAddress => html.element("td class=bad", "its name has no address"),
        BackendState::Gone => html.element("td", "not configured any more"),
    };
}

fn weight(html: &mut Html, backend: &BackendSnapshot) {
    let weight = backend.weight.map(|weight| weight.to_string()).unwrap_or_default();
    html.raw("<td class=number>").text(&weight);
    if backend.backup {
        html.element("small", "backup");
    }
    html.raw("</td>");
}

fn check(html: &mut Html, backend: &BackendSnapshot, now: SystemTime) {
    let Some(check) = &backend.check else {
        html.element("td", "not checked");
        return;
    };
    let ago = check.last_at.map(|at| format!("{} ago", long(now.duration_since(at).unwrap_or_default())));
    let outcome = match (&check.last_failure, &ago) {
        (_, None) => "not yet".to_owned(),
        (None, _) => format!("{} passed", count(check.in_a_row.into())),
        (Some(reason), _) => format!("{} failed: {reason}", count(check.in_a_row.into())),
    };
    html.raw(if check.last_failure.is_some() { "<td class=bad>" } else { "<td>" }).text(&outcome);
    html.element("small", &ago.unwrap_or_default()).raw("</td>");
}

/// How many connections to it were made each second of the last minute.
fn new(status: &Status, service: &str, backend: &str) -> String {
    let attempts = status.recent.services.get(service).and_then(|recent| recent.backends.get(backend));
    let over = status.recent.over_seconds;
    attempts.filter(|_| over >= 1.0).map_or("–".into(), |attempts| rate(attempts.connected as f64 / over))
}

/// How many attempts failed, and why, the most frequent cause first.
fn failures(html: &mut Html, backend: &BackendSnapshot) {
    let mut causes: Vec<_> = backend.failures.iter().filter(|(_, failed)| **failed > 0).collect();
    causes.sort_by_key(|(_, failed)| std::cmp::Reverse(**failed));
    let words: Vec<_> = causes.iter().map(|(cause, failed)| format!("{cause} {}", count(**failed))).collect();
    html.raw("<td class=number>").text(&count(backend.failed()));
    html.element("small", &words.join(", ")).raw("</td>");
}

/// Names of backends: what they resolve to, and whether lookups succeed.
pub(super) fn names(html: &mut Html, status: &Status) {
    if status.measured.names.is_empty() {
        return;
    }
    html.section("Names of backends", "Resolved in the background; no connection waits for an answer.");
    html.table("Name|Service|State|Addresses in use|#Answered|#Failed");
    for name in &status.measured.names {
        html.raw("<tr>").cell(&name.name).cell(&name.services.join("\n"));
        match (&name.problem, name.addresses.is_empty()) {
            (None, false) => html.element("td class=good", "resolved"),
            (None, true) => html.element("td class=soon", "no answer yet"),
            (Some(problem), none) => {
                let class = if none { "td class=bad" } else { "td class=soon" };
                html.element(class, &format!("the last DNS lookup failed: {problem}"))
            }
        };
        html.cell(&name.addresses.join("\n"));
        html.number(&count(name.answered)).number(&count(name.failed)).raw("</tr>");
    }
    html.end_table().raw("</section>");
}

fn quantiles(html: &mut Html, times: &Distribution) {
    for q in [0.5, 0.99] {
        html.number(&times.quantile_seconds(q).map_or("–".into(), seconds));
    }
}

/// Worker threads, then the others by their CPU time.
pub(super) fn threads(html: &mut Html, status: &Status) {
    html.section("Threads", "Lag: how long an event had to wait while the thread worked on others. Idle turns: woken, and nothing moved.");
    html.table("Thread|CPU|#CPU time|#Tasks|#Lag: median|#99 %|#Turns|#Idle turns");
    let cpu_seconds = &status.measured.process.cpu_seconds;
    for thread in &status.measured.threads {
        html.raw("<tr>").cell(&thread.name);
        cpu(html, status, &thread.name);
        html.number(&count(thread.tasks));
        quantiles(html, &thread.loop_lag);
        let ThreadSnapshot { turns, spurious_turns, .. } = *thread;
        html.number(&count(turns)).number(&count(spurious_turns)).raw("</tr>");
    }
    let is_worker = |name: &str| status.measured.threads.iter().any(|thread| thread.name == name);
    for name in cpu_seconds.keys().filter(|name| !is_worker(name)) {
        html.raw("<tr>").cell(name);
        cpu(html, status, name);
        html.raw("<td></td><td></td><td></td><td></td><td></td></tr>");
    }
    html.end_table();
    for thread in &status.measured.threads {
        for (cause, errors) in thread.accept_errors.iter() {
            html.element("p", &format!("{}: accept failed {} times: {cause}.", thread.name, count(*errors)));
        }
    }
    html.raw("</section>");
}

fn cpu(html: &mut Html, status: &Status, thread: &str) {
    match status.rates.cpu.get(thread) {
        Some(share) => {
            let words = format!("{:.0} %", share * 100.0);
            html.bar_cell(&words, &[("used", *share), ("free", 1.0 - share)], &words)
        }
        None => html.cell("–"),
    };
    html.number(&status.measured.process.cpu_seconds.get(thread).map_or("–".into(), |time| seconds(*time)));
}

pub(super) fn process(html: &mut Html, status: &Status) {
    let measured = &status.measured;
    let (process, reload) = (&measured.process, &measured.reload);
    html.section("Process", "").raw("<dl>");
    let mut fact = |name: &str, value: String| {
        html.raw("<div>").element("dt", name).element("dd", &value).raw("</div>");
    };
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
    html.raw("</dl></section>");
}
