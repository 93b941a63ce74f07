//! Findings that need attention, in sentences with the service, the backend, since when and why. The words in parentheses are those of
//! the log, the metrics and the documents.

use std::time::{Duration, SystemTime};

use handfast_html::{card, details};
use handfast_text::calendar::Utc;
use maud::{Markup, html};

use super::format::{Urgency, count, counted, expiry, list_expiry, long, share_of, times};
use crate::rates::{Attempts, RecentService};
use crate::status::Status;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::{
    BackendSnapshot, BackendState, End, FailureSnapshot, MaintenanceSnapshot, NameSnapshot, ServiceSnapshot,
    source_ports,
};
use handfast_observe::reason::{Side, Step};

/// Share of the source ports or files in use from which it is worth reporting, in percent.
const NEARLY_FULL: u64 = 80;
/// From so many percent of a service's connections on, what fails is urgent; below, it is worth a look.
const URGENT: u64 = 10;
/// TLS clients of a service that must have failed, with none that got through, to be worth reporting: on a public address
/// some scanners always fail.
const CLIENTS: u64 = 5;
/// Time left to an OCSP response from which it is worth reporting: CAs sign them for days, and those who fetch them do so
/// when half of that is over.
const STAPLE_SOON: Duration = Duration::from_secs(86_400);
/// Seconds by which clocks of a fleet may differ: its keys are made two minutes before their use.
const CLOCKS_DIFFER: f64 = 30.0;

/// Findings that are open on the page; with many backends there may be hundreds.
const MAX_OPEN_FINDINGS: usize = 12;

mod requests;

#[derive(Default)]
struct Findings(Vec<(Urgency, String)>);

impl Findings {
    fn add(&mut self, urgency: Urgency, sentence: String) {
        self.0.push((urgency, sentence));
    }

    fn soon(&mut self, sentence: String) {
        self.add(Urgency::Soon, sentence);
    }

    fn bad(&mut self, sentence: impl Into<String>) {
        self.add(Urgency::Bad, sentence.into());
    }
}

/// A box with all of it; a calm line when there is nothing.
pub(super) fn attention(status: &Status) -> Markup {
    let findings = sorted_findings(status);
    if findings.is_empty() {
        return html! { section.card { p.good { "Nothing needs attention." } } };
    }
    let list = |findings: &[(Urgency, String)]| {
        html! {
            ul { @for (urgency, sentence) in findings { li class=(urgency.class()) { (sentence) } } }
        }
    };
    let (first, others) = findings.split_at(findings.len().min(MAX_OPEN_FINDINGS));
    let content = html! {
        (list(first))
        @if !others.is_empty() { (details(&format!("{} more", others.len()), &list(others))) }
        @if let Some(problem) = &status.measured.reload.last_problem { pre { (problem) } }
    };
    card("Needs attention", "", &content)
}

/// All of it, the most urgent first.
pub(super) fn sorted_findings(status: &Status) -> Vec<(Urgency, String)> {
    let mut findings = Findings::default();
    program(status, &mut findings);
    fleet(status, &mut findings);
    caches(status, &mut findings);
    certificates(status, &mut findings);
    machine(status, &mut findings);
    let now = status.measured.process.now;
    for service in &status.measured.services {
        findings.0.extend(service.maintenance.as_ref().map(|maintenance| maintained(service, maintenance)));
        backends(service, now, &mut findings);
        if let Some(recent) = status.recent.services.get(&service.name) {
            let over = format!("in the last {:.0} s", status.recent.over_seconds);
            connecting(service, recent, &over, &mut findings);
            others(service, recent, &over, &mut findings);
            refused_certificates(&service.name, recent, status, &over, &mut findings);
            requests::requests(&service.name, recent, &over, &mut findings);
        }
        limits(service, status, &mut findings);
    }
    requests::waiting(status, &mut findings);
    for name in &status.measured.names {
        if let Some(problem) = &name.problem {
            unresolved(name, problem, status, &mut findings);
        }
    }
    let (all, limit) = (connections(status), status.measured.connections_limit);
    if limit > 0 && all * 100 >= limit * NEARLY_FULL {
        let (all, limit) = (count(all), count(limit));
        findings.soon(format!(
            "{all} of the {limit} connections that the process may serve are open: raise process.max-connections or \
             LimitNOFILE."
        ));
    }
    let Findings(mut all) = findings;
    all.sort_by_key(|(urgency, _)| std::cmp::Reverse(*urgency));
    all
}

/// Reports problems of readiness, of reloads, and of the process that holds the private keys.
fn program(status: &Status, findings: &mut Findings) {
    let reload = &status.measured.reload;
    if let Some(reason) = &status.not_ready_because {
        findings.bad(format!("Not ready: {reason}."));
    }
    if reload.last_problem.is_some() && reload.left_out {
        findings
            .bad("The last reload took effect only in part. What did not is named below; what was served before stays in use.");
    } else if reload.last_problem.is_some() {
        let generation = reload.generation.unwrap_or_default();
        findings.bad(format!(
            "The last reload changed nothing; generation {generation} is served. Its problems are below."
        ));
    }
    let keys = status.measured.key_process.unwrap_or_default();
    if status.measured.key_process.is_some() && !keys.answers {
        findings.bad(
            "The process that holds the private keys does not answer: handshakes that need a signature fail.",
        );
    }
    if keys.restarts > 0 {
        let often = times(keys.restarts);
        findings.soon(format!(
            "The process that holds the private keys was started again {often}: the log says why."
        ));
    }
}

/// Caches that do not work, or cannot delete.
fn caches(status: &Status, findings: &mut Findings) {
    for cache in &status.measured.caches {
        if let Some(problem) = &cache.problem {
            findings.bad(format!(
                "The cache of {} does not work, and requests go to its backends: {problem}.",
                cache.service
            ));
        }
        if cache.undeleted > 0 {
            let objects = counted(cache.undeleted, "object");
            findings.soon(format!(
                "The cache of {} could not delete the files of {objects}: they count as used, and what was purged of them comes back \
                 with the next start if they stay. It is tried again.",
                cache.service
            ));
        }
    }
}

/// The fleet: its bus, its clocks, and strangers.
fn fleet(status: &Status, findings: &mut Findings) {
    let Some(fleet) = &status.measured.fleet else { return };
    if let Some(problem) = &fleet.problem {
        let first = problem.lines().next().unwrap_or_default();
        findings.bad(format!("This machine goes on alone: {first}. Sessions resume on it and on no other."));
    }
    for machine in fleet.machines.iter().filter(|machine| machine.clock_offset_seconds > CLOCKS_DIFFER) {
        let how = if machine.clock_behind { "behind" } else { "ahead of" };
        let differs = long(Duration::from_secs_f64(machine.clock_offset_seconds));
        findings.soon(format!("The clock of {} is {differs} {how} this machine's.", machine.name));
    }
    if fleet.foreign_messages > 0 {
        let messages = counted(fleet.foreign_messages, "message");
        findings.soon(format!("On the bus of the fleet {messages} had another secret, and no effect."));
    }
}

/// Certificates and their files: those that are gone, those that expire, and their OCSP responses.
fn certificates(status: &Status, findings: &mut Findings) {
    let measured = &status.measured;
    for problems in measured.file_problems.iter().filter(|problems| problems.removed > 0) {
        let (files, service) = (counted(problems.removed, "certificate file"), &problems.service);
        findings.soon(format!("Removed from {service}: {files}. What was in them is served on for a while."));
    }
    for problems in measured.file_problems.iter().filter(|problems| problems.not_stapled > 0) {
        let (files, service) = (counted(problems.not_stapled, "OCSP response"), &problems.service);
        findings.soon(format!(
            "Of {service} {files} cannot be used. The certificates are served; the log says what is wrong."
        ));
    }
    for certificate in &measured.certificates {
        let (name, kind, service) = (&certificate.name, &certificate.kind, &certificate.service);
        let left = certificate.staple_until.and_then(|until| until.duration_since(measured.process.now).ok());
        if let Some(left) = left.filter(|left| *left < STAPLE_SOON).map(long) {
            findings.soon(format!(
                "The OCSP response of the {kind} certificate {name} of {service} expires in {left}: its renewal is late."
            ));
        }
        let (urgency, words) = expiry(certificate.not_after, measured.process.now);
        if urgency > Urgency::Good {
            findings.add(urgency, format!("The {kind} certificate {name} of {service} {words}."));
        }
    }
    for ordered in &measured.ordered {
        let name = &ordered.name;
        let next = Utc::of(ordered.next_try).for_people();
        let why = ordered.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let times = times(ordered.failures);
        match (ordered.not_after, ordered.failures) {
            (None, 0) => findings.soon(format!("The first certificate for {name} is being ordered; its clients are refused until then.")),
            (None, _) => findings.bad(format!("There is no certificate for {name}, and its clients are refused. Ordering it failed {times}, next try {next}{why}")),
            (Some(_), 0) => {}
            (Some(_), _) => findings.soon(format!("Renewing the certificate for {name} failed {times}, next try {next}{why}")),
        }
    }
    for list in &measured.revocation_lists {
        let (urgency, words) = list_expiry(list, measured.process.now);
        if urgency > Urgency::Good {
            let (issuer, service) = (&list.issuer, &list.service);
            findings.add(urgency, format!("The revocation list of {issuer} (clients of {service}) {words}."));
        }
    }
}

/// Threads, and what this machine is short of.
fn machine(status: &Status, findings: &mut Findings) {
    let (measured, process) = (&status.measured, &status.measured.process);
    for thread in &measured.threads {
        let name = &thread.name;
        if thread.backing_off {
            findings.bad(format!("{name} accepts nothing for now: this machine is out of files or memory."));
        }
        if thread.panics > 0 {
            let lost = counted(thread.panics, "connection");
            findings.bad(format!("{name}: {lost} lost to a fault of Handfast's own."));
        }
    }
    if let Some(range) = process.source_port_count() {
        for (backend, (ports, sources)) in source_ports(measured) {
            let all = range.saturating_mul(sources);
            if ports * 100 >= all * NEARLY_FULL {
                let share = share_of(ports, all);
                findings.bad(format!(
                    "{share} of the source ports towards {backend} are in use: add an address (source) or a backend."
                ));
            }
        }
    }
    if let (Some(open), Some(max)) = (process.open_files, process.max_files)
        && open.saturating_mul(100) >= max.saturating_mul(NEARLY_FULL)
    {
        let share = share_of(open, max);
        findings.bad(format!("{share} of the allowed file descriptors are open: raise LimitNOFILE."));
    }
    if measured.access_log_dropped > 0 {
        findings.soon(format!("{} of the access log lost.", counted(measured.access_log_dropped, "line")));
    }
}

/// A service in maintenance: an operator must not forget it.
fn maintained(service: &ServiceSnapshot, maintenance: &MaintenanceSnapshot) -> (Urgency, String) {
    let (name, words) = (&service.name, maintenance.in_words());
    (Urgency::Soon, format!("{name} is {words}: its requests are answered with 503 (maintenance)."))
}

fn connections(status: &Status) -> u64 {
    status.measured.services.iter().map(ServiceSnapshot::connections).sum()
}

/// Returns true if connections of a service have a backend to go to.
fn has_backend(service: &ServiceSnapshot) -> bool {
    service.backends.iter().any(|backend| backend.is_up() == Some(true))
}

/// `since 2026-11-24 12:00:01 UTC (3 min ago)`; to the second, so that a person finds it in a log.
fn since(time: SystemTime, now: SystemTime) -> String {
    let ago = long(now.duration_since(time).unwrap_or_default());
    format!("since {} ({ago} ago)", Utc::of(time).for_people())
}

fn backends(service: &ServiceSnapshot, now: SystemTime, findings: &mut Findings) {
    let name = &service.name;
    let configured = service.backends.iter().filter(|backend| backend.is_up().is_some()).count();
    let urgency = if has_backend(service) { Urgency::Soon } else { Urgency::Bad };
    if configured > 0 && urgency == Urgency::Bad {
        let all = if configured == 1 { "Its only backend is not" } else { "None of its backends is" };
        findings.bad(format!("Clients of {name} reach no backend. {all} up."));
    }
    for backend in &service.backends {
        if matches!(backend.state, BackendState::Down | BackendState::OnTrial) {
            findings.add(urgency, down(name, backend, now));
        }
        if let (BackendState::CheckFailed, Some(check)) = (backend.state, &backend.check) {
            let (since, checks) =
                (since(check.since.unwrap_or(now), now), counted(check.in_a_row.into(), "check"));
            let why = match &check.last_failure {
                Some(reason) => format!("the last {checks} failed: {reason}"),
                None => format!("the last {checks} passed, which is not yet enough"),
            };
            let backend = &backend.name;
            findings
                .add(urgency, format!("Backend {backend} of {name} is down {since} by its checks: {why}."));
        }
    }
}

fn down(service: &str, backend: &BackendSnapshot, now: SystemTime) -> String {
    let (name, since) = (&backend.name, since(backend.down_since.unwrap_or(now), now));
    let again = match backend.pause_left_seconds {
        None => "one connection tries it now".to_owned(),
        Some(left) if left > 0.0 => format!("one connection tries it in {left:.0} s"),
        Some(_) => "the next connection tries it".to_owned(),
    };
    let (cause, attempts) =
        (cause(backend.last_failure.as_deref()), counted(backend.failures_in_a_row.into(), "attempt"));
    format!("Backend {name} of {service} is down {since}: {cause}. {attempts} in a row failed; {again}.")
}

fn cause(word: Option<&str>) -> String {
    let Some(word) = word else { return "the cause is in the log".into() };
    match Cause::named(word) {
        Some(cause) => format!("{word}: {}", cause.sentence(Side::Backend)),
        None => word.into(),
    }
}

/// Connections that reached no backend, and attempts that failed though another backend then served.
fn connecting(service: &ServiceSnapshot, recent: &RecentService, over: &str, findings: &mut Findings) {
    let name = &service.name;
    let failed = |end: &&End| {
        end.step == Some(Step::Connect) && end.side != Some(Side::Client) && end.cause != Some(Cause::Stopped)
    };
    let reached: u64 = recent.backends.values().map(|backend| backend.connected).sum();
    if let Some((missed, why)) = most(recent, failed) {
        let all = reached + missed;
        let urgency = if missed * 100 >= all * URGENT { Urgency::Bad } else { Urgency::Soon };
        let (missed, all, share) = (count(missed), counted(all, "connection"), share_of(missed, all));
        findings
            .add(urgency, format!("{missed} of {all} ({share}) of {name} reached no backend {over}: {why}."));
    }
    for backend in service.backends.iter().filter(|backend| backend.state == BackendState::Up) {
        let Attempts { connected, failed } = recent.backends.get(&backend.name).copied().unwrap_or_default();
        if failed > 0 {
            let (failed, all) = (count(failed), counted(connected + failed, "attempt"));
            let (why, backend) = (cause(backend.last_failure.as_deref()), &backend.name);
            findings.soon(format!(
                "{failed} of {all} to connect to backend {backend} of {name} failed {over}: {why}."
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
        let (broken, all) = (count(broken), counted(all, "connection"));
        findings.soon(format!("The backend broke off {broken} of {all} of {name} that ended {over}: {why}."));
    }
    let ours = |end: &&End| end.side == Some(Side::Local) && end.step != Some(Step::Connect);
    if let Some((failed, why)) = most(recent, ours) {
        let failed = counted(failed, "connection");
        findings.bad(format!("{failed} of {name} failed on this machine {over}: {why}."));
    }
    if let Some((failed, why)) = most(recent, |end| end.step == Some(Step::Handshake))
        && recent.handshakes == 0
        && failed >= CLIENTS
    {
        let clients = counted(failed, "TLS client");
        findings.soon(format!("None of {clients} of {name} completed its handshake {over}: {why}."));
    }
}

/// Handshakes that clients end with an alert, or that fail at the client's certificate: most often a certificate that they do not trust. Some
/// scanners always fail; where none gets through, that is reported already.
fn refused_certificates(
    service: &str,
    recent: &RecentService,
    status: &Status,
    over: &str,
    findings: &mut Findings,
) {
    let is_refused = |end: &&End| {
        end.step == Some(Step::Handshake)
            && end.side == Some(Side::Client)
            && matches!(end.cause, Some(Cause::Alert | Cause::ClientCertificate))
    };
    let Some((refused, why)) = most(recent, is_refused) else { return };
    let all = recent.handshakes + refused;
    if refused < CLIENTS || recent.handshakes == 0 || refused * 100 < all * URGENT {
        return;
    }
    let is_known = |failure: &&FailureSnapshot| {
        *failure.service == *service
            && (&*failure.step, &*failure.side) == (Step::Handshake.name(), Side::Client.name())
            && [Cause::Alert.name(), Cause::ClientCertificate.name()].contains(&&*failure.cause)
    };
    let detail = status.failures.iter().find(is_known).and_then(|failure| failure.detail.as_deref());
    let detail = detail.map(|detail| format!("; the last one: {detail}")).unwrap_or_default();
    let urgency = if refused * 2 >= all { Urgency::Bad } else { Urgency::Soon };
    let share = share_of(refused, all);
    let (refused, all) = (count(refused), counted(all, "handshake"));
    findings.add(
        urgency,
        format!(
            "{refused} of {all} ({share}) of {service} failed at a certificate {over}: {why}{detail}. Did the certificate, or its CA, change? \
             See docs/diagnose/handshakes.md."
        ),
    );
}

/// Number of ends of a kind, and the most frequent of them; `None` when there are none.
fn most(recent: &RecentService, kind: impl Fn(&&End) -> bool) -> Option<(u64, String)> {
    most_of(&recent.ends, kind)
}

fn most_of(ends: &[End], kind: impl Fn(&&End) -> bool) -> Option<(u64, String)> {
    let most = ends.iter().find(&kind)?;
    let all: u64 = ends.iter().filter(&kind).map(|end| end.count).sum();
    let mostly = if most.count < all { "mostly " } else { "" };
    Some((all, format!("{mostly}{} ({})", most.sentence(), most.words().join(" / "))))
}

fn limits(service: &ServiceSnapshot, status: &Status, findings: &mut Findings) {
    let (name, limit) = (&service.name, service.connections_limit);
    let waiting = || service.waiting.iter().filter(|(_, waiting)| **waiting > 0);
    for (of, waiting) in waiting() {
        let (key, most, now) = match &**of {
            "process" => ("process.max-connections", status.measured.connections_limit, connections(status)),
            _ => ("max-connections of the service", limit.unwrap_or_default(), service.connections()),
        };
        let wait = if *waiting == 1 { "client waits" } else { "clients wait" };
        let (waiting, now, most) = (count(*waiting), count(now), count(most));
        findings.bad(format!(
            "{waiting} {wait} for {name}: {now} of {most} connections are open. Raise {key}, or find out why they do not \
             end."
        ));
    }
    let nearly = |limit: &u64| service.connections() * 100 >= limit * NEARLY_FULL;
    if let Some(limit) = limit.filter(nearly).filter(|_| waiting().next().is_none()) {
        let (now, limit) = (count(service.connections()), count(limit));
        findings
            .soon(format!("{name} has {now} of {limit} connections (max-connections): then clients wait."));
    }
    let over = format!("in the last {:.0} s", status.recent.over_seconds);
    let recent = status.recent.services.get(name);
    if let Some(clients) = recent.map(|recent| recent.rate_limited).filter(|clients| *clients > 0) {
        let clients = counted(clients, "connection");
        findings.soon(format!(
            "{clients} to {name} refused by a reset {over}: too many handshakes from their address (handshake-rate). The \
             access log has the addresses (handshake-rate)."
        ));
    }
    if let Some(clients) = recent.map(|recent| recent.rejected).filter(|clients| *clients > 0) {
        let (clients, limit) =
            (counted(clients, "connection"), count(service.address_limit.unwrap_or_default()));
        findings.soon(format!(
            "{clients} to {name} refused by a reset {over}: their address had {limit} already \
             (max-connections-per-address). The access log has the addresses (address-limit)."
        ));
    }
}

fn unresolved(lookups: &NameSnapshot, problem: &str, status: &Status, findings: &mut Findings) {
    let (name, services, now) = (&lookups.name, lookups.services.join(", "), status.measured.process.now);
    let since = lookups.failing_since.map_or(String::new(), |time| format!(" {}", since(time, now)));
    let stays = match &lookups.addresses[..] {
        [] => {
            let of_name = |service: &&ServiceSnapshot| lookups.services.contains(&service.name);
            let served = status.measured.services.iter().filter(of_name).all(has_backend);
            let urgency = if served { Urgency::Soon } else { Urgency::Bad };
            let host = name.rsplit_once(':').map_or(&**name, |(host, _)| host);
            let failed = counted(lookups.failed, "DNS lookup");
            return findings.add(
                urgency,
                format!(
                    "The name {name} of backends of {services} has no address{since}: {problem}. {failed} failed, none \
                     was ever answered. Try getent ahosts {host} on this machine."
                ),
            );
        }
        [address] => format!("Its last address {address} stays"),
        addresses => format!("Its last addresses {} stay", addresses.join(", ")),
    };
    findings.soon(format!(
        "The name {name} of backends of {services} cannot be resolved{since}: {problem}. {stays} in use until it can."
    ));
}

#[cfg(test)]
pub(super) mod tests;
