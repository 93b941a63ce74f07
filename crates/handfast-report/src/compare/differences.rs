//! What makes runs incomparable, field by field.
//!
//! In: the reports of both sides. Out: sentences that name the field and both values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::{Report, VerdictWord};

/// Most sentences about one part, so that two wholly different jobs do not fill the screen.
const MOST: usize = 12;

/// What a report says of something.
type Said = fn(&Report) -> String;

/// Why the figures of both sides are of different things: another mix of clients, or other requests. Then no ratio of
/// them means anything.
pub(super) fn incomparable(a: &[Report], b: &[Report]) -> Vec<String> {
    let Some(first) = a.first() else { return Vec::new() };
    let parts: [(&str, Said); 2] = [("the mix of clients", clients), ("the list of requests", requests)];
    let mut found = Vec::new();
    for (what, said) in parts {
        let mine = said(first);
        let others = a.iter().chain(b).map(said);
        if let Some(theirs) = others.into_iter().find(|theirs| *theirs != mine) {
            let none = |said: &str| if said.is_empty() { "none".to_owned() } else { said.to_owned() };
            found.push(format!(
                "{what} differs: {} on one side, {} on the other",
                none(&mine),
                none(&theirs)
            ));
        }
    }
    found
}

/// Each kind of client with its share and what it offers; names that follow the target's are no difference.
fn clients(report: &Report) -> String {
    let offers = |offered: &str| {
        let parts = offered.split("; ").filter(|part| !part.starts_with("SNI "));
        parts.collect::<Vec<_>>().join("; ")
    };
    let each = report.members.iter().map(|member| {
        let resumed = crate::units::share(member.wanted_resumed);
        let share = crate::units::share(member.share);
        format!("{share} {} ({}; {resumed} resumed)", member.name, offers(&member.offered))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Each of several requests with its share.
fn requests(report: &Report) -> String {
    let each = report.requests.iter().map(|request| {
        let more = [request.headers.join(", "), request.body.clone().unwrap_or_default()];
        let more: String =
            more.iter().filter(|more| !more.is_empty()).map(|more| format!(" ({more})")).collect();
        format!("{} {} {}{more}", crate::units::share(request.share), request.method, request.path)
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Everything that keeps the figures from being compared as they stand.
pub(super) fn warnings(a: &[Report], b: &[Report]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (side, reports) in [("A", a), ("B", b)] {
        for (place, report) in reports.iter().enumerate() {
            if report.verdict.word != VerdictWord::Valid {
                let word = report.verdict.word.name();
                warnings.push(format!(
                    "run {} of {side} is {word}: its figures are not the target's, or do not hold",
                    place + 1
                ));
            }
        }
    }
    for (side, reports) in [("A", a), ("B", b)] {
        for (place, report) in reports.iter().enumerate().filter(|(_, report)| !report.stalled.is_empty()) {
            let seconds = crate::units::counted(report.stalled.len() as u64, "second");
            warnings.push(format!("in run {} of {side} the target stood still for {seconds}", place + 1));
        }
    }
    warnings.extend(one_after_the_other(a, b));
    let Some((first, rest)) = a.first().and_then(|first| Some((first, a.get(1..)?))) else { return warnings };
    // Against the first of A, so that a difference is told once; the runs of A among themselves too.
    let mut told = BTreeSet::new();
    let others = rest.iter().enumerate().map(|(place, report)| ("A", place + 2, report));
    for (side, run, report) in
        others.chain(b.iter().enumerate().map(|(place, report)| ("B", place + 1, report)))
    {
        for (field, mine, theirs) in differing(first, report) {
            if told.len() < MOST && told.insert(field.clone()) {
                warnings
                    .push(format!("{field} differs: {mine} in run 1 of A, {theirs} in run {run} of {side}"));
            }
        }
    }
    warnings
}

/// That all runs of one side came before all of the other, so that whatever drifted meanwhile is in the difference. Of one run
/// each nothing is said: they can be in no other order.
fn one_after_the_other(a: &[Report], b: &[Report]) -> Option<String> {
    if a.len() + b.len() <= 2 {
        return None;
    }
    let runs = a.iter().map(|report| ('A', report)).chain(b.iter().map(|report| ('B', report)));
    // RFC 3339 in UTC, all of the same length: their order as text is that of time.
    let mut runs: Vec<(&str, char)> =
        runs.map(|(side, report)| (report.manifest.started.as_str(), side)).collect();
    runs.sort_unstable();
    // Unknown, or within the same second: their order is not known.
    if runs.iter().any(|(started, _)| started.is_empty()) || runs.windows(2).any(|two| two[0].0 == two[1].0) {
        return None;
    }
    let changes = runs.windows(2).filter(|two| two[0].1 != two[1].1).count();
    let order: Vec<String> = runs.iter().map(|(_, side)| side.to_string()).collect();
    (changes == 1).then(|| {
        format!(
            "the runs were made one side after the other ({}), so what changed on the machine meanwhile looks like a \
             difference: make them in turn, A B B A",
            order.join(" ")
        )
    })
}

/// Fields that differ, with both values.
fn differing(a: &Report, b: &Report) -> Vec<(String, String, String)> {
    let (mut left, mut right) = (facts(a), facts(b));
    let names: BTreeSet<String> = left.keys().chain(right.keys()).cloned().collect();
    let mut take = |name: &String| {
        let value = |side: &mut BTreeMap<String, String>| {
            side.remove(name).filter(|value| !value.is_empty()).unwrap_or_else(|| "none".into())
        };
        (name.clone(), value(&mut left), value(&mut right))
    };
    names.iter().map(&mut take).filter(|(_, mine, theirs)| mine != theirs).collect()
}

/// Everything that should be equal, flat. What is meant to differ (the target's address, the seed) is not among it.
fn facts(report: &Report) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    facts.insert("work".into(), report.work.clone());
    facts.insert("the certificate's verification".into(), report.mix.verification.clone());
    facts.insert("the program".into(), report.manifest.program.clone());
    facts.insert("the number of workers".into(), report.workers.len().to_string());
    let agreed: Vec<&str> = report.mix.agreed.keys().map(String::as_str).collect();
    facts.insert("TLS as agreed".into(), agreed.join(", "));
    let job = report.manifest.job.get("plan").unwrap_or(&report.manifest.job);
    if let Some(job) = job.as_object() {
        for (name, value) in
            job.iter().filter(|(name, _)| !["target", "seed", "sources", "mix"].contains(&name.as_str()))
        {
            flatten(&format!("job {name}"), value, &mut facts);
        }
    }
    // Names that follow the target's are no difference of work.
    facts.retain(|name, _| name != "job tls.server_name" && !name.ends_with(".authority"));
    for (place, worker) in report.workers.iter().enumerate() {
        facts.insert(format!("worker {} threads", place + 1), worker.threads.to_string());
        for (name, value) in &worker.machine {
            facts.insert(format!("worker {} {name}", place + 1), value.clone());
        }
    }
    facts
}

fn flatten(name: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value.as_object() {
        Some(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(field, value)| flatten(&format!("{name}.{field}"), value, into));
        }
        _ => {
            into.insert(name.to_owned(), value.to_string());
        }
    }
}
