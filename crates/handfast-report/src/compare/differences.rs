//! What makes runs incomparable, field by field.
//!
//! In: the reports of both sides. Out: sentences that name the field and both values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::{Report, VerdictWord};

/// Most sentences about one part, so that two wholly different jobs do not fill the screen.
const MOST: usize = 12;

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
            job.iter().filter(|(name, _)| !["target", "seed", "sources"].contains(&name.as_str()))
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
