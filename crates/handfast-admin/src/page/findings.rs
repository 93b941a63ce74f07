//! What needs attention about the way to the backends: those that are down, names, limits, and connections that fail.
//!
//! In: the status with what happened in the last minute. Out: sentences that say which service, which backend, since
//! when, why, and where to look. The words in parentheses are those of the log, the metrics and the runbook.

use std::time::SystemTime;

use handfast_text::calendar::Utc;

use super::format::{Urgency, count, counted, long, share_of};
use crate::rates::{Attempts, RecentService};
use crate::status::Status;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::{
    BackendSnapshot, BackendState, CheckSnapshot, End, NameSnapshot, ServiceSnapshot,
};
use handfast_observe::reason::{Side, Step};

/// Share of the source ports or files in use from which it is worth reporting, in percent.
pub(super) const NEARLY_FULL: u64 = 80;
/// From so many percent of a service's connections on, what fails is urgent; below, it is worth a look.
const URGENT: u64 = 10;
/// TLS clients of a service that must have failed, with none that got through, to be worth reporting: on a public address
/// some scanners always fail.
const CLIENTS: u64 = 5;

type Findings = Vec<(Urgency, String)>;

/// Adds all of it.
pub(super) fn add_findings(status: &Status, findings: &mut Findings) {
    let now = status.measured.process.now;
    for service in &status.measured.services {
        backends(service, now, findings);
        if let Some(recent) = status.recent.services.get(&service.name) {
            let over = format!("in the last {:.0} s", status.recent.over_seconds);
            connecting(service, recent, &over, findings);
            others(service, recent, &over, findings);
        }
        limits(service, status, findings);
    }
    for name in &status.measured.names {
        if let Some(problem) = &name.problem {
            findings.push(unresolved(name, problem, status));
        }
    }
    let (all, limit) = (connections(status), status.measured.connections_limit);
    if limit > 0 && all * 100 >= limit * NEARLY_FULL {
        findings.push((
            Urgency::Soon,
            format!(
                "{} of the {} connections that the process may serve are open: raise process.max-connections or LimitNOFILE.",
                count(all),
                count(limit)
            ),
        ));
    }
}

fn connections(status: &Status) -> u64 {
    status.measured.services.iter().map(ServiceSnapshot::connections).sum()
}

/// Whether connections of a service have a backend to go to.
fn has_backend(service: &ServiceSnapshot) -> bool {
    service.backends.iter().any(|backend| backend.is_up() == Some(true))
}

fn backends(service: &ServiceSnapshot, now: SystemTime, findings: &mut Findings) {
    let configured = service.backends.iter().filter(|backend| backend.is_up().is_some()).count();
    let urgency = if has_backend(service) { Urgency::Soon } else { Urgency::Bad };
    if configured > 0 && urgency == Urgency::Bad {
        let all = if configured == 1 { "Its only backend is" } else { "None of its backends is" };
        let not = if configured == 1 { "not " } else { "" };
        findings
            .push((Urgency::Bad, format!("Clients of {} reach no backend. {all} {not}up.", service.name)));
    }
    for backend in &service.backends {
        if matches!(backend.state, BackendState::Down | BackendState::OnTrial) {
            findings.push((urgency, down(service, backend, now)));
        }
        if let (BackendState::CheckFailed, Some(check)) = (backend.state, &backend.check) {
            findings.push((urgency, checked_down(service, backend, check, now)));
        }
    }
}

fn down(service: &ServiceSnapshot, backend: &BackendSnapshot, now: SystemTime) -> String {
    let since = backend.down_since.unwrap_or(now);
    let again = match backend.pause_left_seconds {
        None => "one connection tries it now".to_owned(),
        Some(left) if left > 0.0 => format!("one connection tries it in {left:.0} s"),
        Some(_) => "the next connection tries it".to_owned(),
    };
    format!(
        "Backend {} of {} is down since {} ({} ago): {}. {} in a row failed; {again}.",
        backend.name,
        service.name,
        clock(since),
        long(now.duration_since(since).unwrap_or_default()),
        cause(backend.last_failure),
        counted(backend.failures_in_a_row.into(), "attempt"),
    )
}

fn checked_down(
    service: &ServiceSnapshot,
    backend: &BackendSnapshot,
    check: &CheckSnapshot,
    now: SystemTime,
) -> String {
    let since = check.since.unwrap_or(now);
    format!(
        "Backend {} of {} is down since {} ({} ago) by its checks: {}.",
        backend.name,
        service.name,
        clock(since),
        long(now.duration_since(since).unwrap_or_default()),
        match &check.last_failure {
            Some(reason) => format!("the last {} failed: {reason}", counted(check.in_a_row.into(), "check")),
            None => format!(
                "the last {} passed, which is not yet enough",
                counted(check.in_a_row.into(), "check")
            ),
        }
    )
}

fn cause(word: Option<&str>) -> String {
    let Some(word) = word else { return "the cause is in the log".into() };
    match Cause::named(word) {
        Some(cause) => format!("{word}: {}", cause.sentence(Side::Backend)),
        None => word.into(),
    }
}

/// A moment to the second: a person looks for it in a log.
fn clock(time: SystemTime) -> String {
    Utc::of(time).for_people().to_string()
}

/// Connections that reached no backend, and attempts that failed though another backend then served.
fn connecting(service: &ServiceSnapshot, recent: &RecentService, over: &str, findings: &mut Findings) {
    let failed = |end: &&End| {
        end.step == Some(Step::Connect) && end.side != Some(Side::Client) && end.cause != Some(Cause::Stopped)
    };
    let reached: u64 = recent.backends.values().map(|backend| backend.connected).sum();
    if let Some((missed, why)) = most(recent, failed) {
        let all = reached + missed;
        let urgency = if missed * 100 >= all * URGENT { Urgency::Bad } else { Urgency::Soon };
        let (missed, share) = (count(missed), share_of(missed, all));
        let name = &service.name;
        findings.push((
            urgency,
            format!(
                "{missed} of {} ({share}) of {name} reached no backend {over}: {why}.",
                counted(all, "connection")
            ),
        ));
    }
    for backend in service.backends.iter().filter(|backend| backend.state == BackendState::Up) {
        let Attempts { connected, failed } = recent.backends.get(&backend.name).copied().unwrap_or_default();
        if failed > 0 {
            let all = counted(connected + failed, "attempt");
            let why = cause(backend.last_failure);
            let (backend, service) = (&backend.name, &service.name);
            findings.push((
                Urgency::Soon,
                format!(
                    "{} of {all} to connect to backend {backend} of {service} failed {over}: {why}.",
                    count(failed)
                ),
            ));
        }
    }
}

/// Connections that backends broke off, that failed on this machine, and handshakes of which none succeeds.
fn others(service: &ServiceSnapshot, recent: &RecentService, over: &str, findings: &mut Findings) {
    let name = &service.name;
    let all: u64 = recent.ends.iter().map(|end| end.count).sum();
    let broken = |end: &&End| {
        end.step == Some(Step::Relay) && end.side == Some(Side::Backend) && end.cause != Some(Cause::Finished)
    };
    if let Some((broken, why)) = most(recent, broken)
        && broken * 100 >= all * URGENT
    {
        let all = counted(all, "connection");
        findings.push((
            Urgency::Soon,
            format!("The backend broke off {} of {all} of {name} that ended {over}: {why}.", count(broken)),
        ));
    }
    let ours = |end: &&End| end.side == Some(Side::Local) && end.step != Some(Step::Connect);
    if let Some((failed, why)) = most(recent, ours) {
        let failed = counted(failed, "connection");
        findings.push((Urgency::Bad, format!("{failed} of {name} failed on this machine {over}: {why}.")));
    }
    if let Some((failed, why)) = most(recent, |end| end.step == Some(Step::Handshake))
        && recent.handshakes == 0
        && failed >= CLIENTS
    {
        findings.push((
            Urgency::Soon,
            format!(
                "None of {} of {name} completed its handshake {over}: {why}.",
                counted(failed, "TLS client")
            ),
        ));
    }
}

/// How many ends are of a kind, and what the most frequent of them is; `None` when there are none.
fn most(recent: &RecentService, kind: impl Fn(&&End) -> bool) -> Option<(u64, String)> {
    let most = recent.ends.iter().find(&kind)?;
    let all: u64 = recent.ends.iter().filter(&kind).map(|end| end.count).sum();
    let mostly = if most.count < all { "mostly " } else { "" };
    Some((all, format!("{mostly}{} ({})", most.sentence(), most.words().join(" / "))))
}

fn limits(service: &ServiceSnapshot, status: &Status, findings: &mut Findings) {
    let name = &service.name;
    for (limit, waiting) in service.waiting.iter().filter(|(_, waiting)| **waiting > 0) {
        let (key, most, now) = match *limit {
            "process" => ("process.max-connections", status.measured.connections_limit, connections(status)),
            _ => (
                "max-connections of the service",
                service.connections_limit.unwrap_or_default(),
                service.connections(),
            ),
        };
        findings.push((
            Urgency::Bad,
            format!(
                "{} for {name}: {} of {} connections are open. Raise {key}, or find out why they do not end.",
                counted_waiting(*waiting),
                count(now),
                count(most)
            ),
        ));
    }
    let nearly = |limit: &u64| service.connections() * 100 >= limit * NEARLY_FULL;
    let waits = service.waiting.values().any(|waiting| *waiting > 0);
    if let Some(limit) = service.connections_limit.filter(nearly)
        && !waits
    {
        let (now, limit) = (count(service.connections()), count(limit));
        findings.push((
            Urgency::Soon,
            format!("{name} has {now} of {limit} connections (max-connections): then clients wait."),
        ));
    }
    let too_fast = status.recent.services.get(name).map_or(0, |recent| recent.too_fast);
    if too_fast > 0 {
        findings.push((
            Urgency::Soon,
            format!(
                "{} to {name} refused by a reset in the last {:.0} s: too many handshakes from their address (handshake-rate). The \
                 access log has the addresses (handshake-rate).",
                counted(too_fast, "connection"),
                status.recent.over_seconds,
            ),
        ));
    }
    let turned_away = status.recent.services.get(name).map_or(0, |recent| recent.turned_away);
    if turned_away > 0 {
        let (clients, limit) =
            (counted(turned_away, "connection"), service.address_limit.unwrap_or_default());
        findings.push((
            Urgency::Soon,
            format!(
                "{clients} to {name} refused by a reset in the last {:.0} s: their address had {} already (max-connections-per-address). \
                 The access log has the addresses (address-limit).",
                status.recent.over_seconds,
                count(limit)
            ),
        ));
    }
}

fn counted_waiting(waiting: u64) -> String {
    if waiting == 1 { "1 client waits".into() } else { format!("{} clients wait", count(waiting)) }
}

fn unresolved(name: &NameSnapshot, problem: &str, status: &Status) -> (Urgency, String) {
    let now = status.measured.process.now;
    let services = name.services.join(", ");
    let since = name.failing_since.map_or(String::new(), |since| {
        format!(" since {} ({} ago)", clock(since), long(now.duration_since(since).unwrap_or_default()))
    });
    let host = name.name.rsplit_once(':').map_or(&*name.name, |(host, _)| host);
    let failed = counted(name.failed, "DNS lookup");
    if name.addresses.is_empty() {
        let of_name = |service: &&ServiceSnapshot| name.services.contains(&service.name);
        let served = status.measured.services.iter().filter(of_name).all(has_backend);
        let urgency = if served { Urgency::Soon } else { Urgency::Bad };
        return (
            urgency,
            format!(
                "The name {} of backends of {services} has no address{since}: {problem}. {failed} failed, none was ever \
                 answered. Try getent ahosts {host} on this machine.",
                name.name
            ),
        );
    }
    (
        Urgency::Soon,
        format!(
            "The name {} of backends of {services} cannot be resolved{since}: {problem}. {} in use until it can.",
            name.name,
            match &name.addresses[..] {
                [address] => format!("Its last address {address} stays"),
                addresses => format!("Its last addresses {} stay", addresses.join(", ")),
            }
        ),
    )
}

#[cfg(test)]
pub(super) mod tests;
