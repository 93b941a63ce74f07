//! Notes that a reader needs to judge a report, in sentences.
//!
//! In: an outcome. Out: notes, the most important first. They do not repeat the verdict.

use handfast_report::model::Ports;
use handfast_report::units::{count, counted, share};

use crate::job::Job;
use crate::outcome::{EarlyEnd, Outcome};
use crate::plan::{Model, Verify, Work};
use crate::verdict::{Lost, View};

/// Share of used ports from which on a note reports it.
const NEARLY: f64 = 0.8;
/// Runs shorter than this have a first second that is most of them.
const SHORT_RUN_SECONDS: f64 = 3.0;

/// All notes of this run.
pub(super) fn of(outcome: &Outcome, ports: Option<&Ports>, view: &View<'_>, job: &Job) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(early_end(outcome, view));
    workers(outcome, view, &mut notes);
    notes.extend(limits(outcome, job));
    tls(outcome, &mut notes);
    work(outcome, &mut notes);
    notes.extend(ports.and_then(|ports| nearly_used_up(outcome, ports)));
    if view.length > 0.0 && view.length <= SHORT_RUN_SECONDS {
        notes.push("the run was short: its start, in which connections are made and caches filled, is in every figure".into());
    }
    for worker in &outcome.workers {
        let name = if outcome.workers.len() > 1 { format!("{}: ", worker.name) } else { String::new() };
        notes.extend(worker.facts.notes.iter().map(|note| format!("{name}{note}")));
    }
    notes
}

fn early_end(outcome: &Outcome, view: &View<'_>) -> Option<String> {
    let (planned, true_length) = (outcome.plan.duration.as_secs_f64(), view.length);
    Some(match outcome.early_end.as_ref()? {
        EarlyEnd::Interrupted => format!("the run was interrupted after {true_length:.1} s of {planned} s"),
        EarlyEnd::WorkerLost(name) => format!(
            "the run was ended after {true_length:.1} s of {planned} s because worker {name} was lost: its share of the \
             load was missing"
        ),
    })
}

fn workers(outcome: &Outcome, view: &View<'_>, notes: &mut Vec<String>) {
    for Lost { name, why, from } in &view.lost {
        let part = share(view.part());
        let when = from.map_or_else(String::new, |from| format!("from second {from} on "));
        notes.push(format!("worker {name} was lost ({why}): {when}the load was {part} less than planned"));
    }
    for worker in &outcome.workers {
        let name = &worker.name;
        // A lost worker sent no final totals to compare.
        if worker.lost.is_none() && !worker.sums_agree {
            notes.push(format!(
                "worker {name}: its final totals are not the sum of the seconds that came from it"
            ));
        }
        if !worker.missing.is_empty() {
            let seconds = counted(worker.missing.len() as u64, "second");
            notes.push(format!("nothing came from worker {name} in {seconds} of the timeline"));
        }
    }
}

/// A limit on latency is easier to hold in a closed loop than it seems.
fn limits(outcome: &Outcome, job: &Job) -> Option<String> {
    let closed = matches!(outcome.plan.model, Model::Closed);
    (closed && job.limits.iter().any(crate::limits::Bound::is_latency)).then(|| {
        "in the closed model nothing starts while the target stalls, so percentiles show a stall once for each \
         connection; with --rate they show it to every transaction that was due"
            .to_owned()
    })
}

fn tls(outcome: &Outcome, notes: &mut Vec<String>) {
    let (tally, plan) = (&outcome.totals.tally, &outcome.plan.tls);
    if plan.verify == Verify::Off && !outcome.plan.target.plain {
        notes.push(
            "the certificate was not verified: a client that verifies it needs more CPU than this one".into(),
        );
    }
    if tally.without_ticket > 0 {
        let observed = tally.resumed as f64 / (tally.full + tally.resumed).max(1) as f64;
        notes.push(format!(
            "tickets ran out: {} should have resumed and had none, so {} were resumed instead of {}",
            counted(tally.without_ticket, "handshake"),
            share(observed),
            share(outcome.plan.wanted_resumed())
        ));
    }
    if tally.warm_up > 0 {
        let made = counted(tally.warm_up, "connection");
        let why = if outcome.plan.wanted_resumed() > 0.0 {
            "to fill the ticket pool"
        } else {
            "to see that the target answers as expected"
        };
        notes.push(format!(
            "before the start, {made} went to the target {why}: the target counts them, and no latency includes them"
        ));
    }
    if tally.hello_retry > 0 {
        notes.push(format!(
            "{} took a HelloRetryRequest, which costs a round trip: offer the target's preferred group first (--groups)",
            counted(tally.hello_retry, "handshake")
        ));
    }
    early_data(outcome, notes);
}

/// The result of requested 0-RTT.
fn early_data(outcome: &Outcome, notes: &mut Vec<String>) {
    let tally = &outcome.totals.tally;
    let offered = tally.early_accepted + tally.early_refused;
    let uses_early_data = outcome.plan.clients().any(|(_, tls)| tls.early_data);
    if uses_early_data && offered < tally.resumed {
        notes.push(format!(
            "0-RTT was requested, and {} of {} allowed it: the target's tickets decide whether it may be used, and \
             TLS 1.2 has none",
            count(offered),
            counted(tally.resumed, "resumed handshake")
        ));
    } else if uses_early_data && tally.resumed == 0 && tally.full > 0 {
        notes.push(
            "0-RTT was requested, and no handshake was resumed: only resumed handshakes can use it".into(),
        );
    }
    if tally.early_refused > 0 {
        notes.push(format!(
            "0-RTT data was refused in {} of {} that offered it, and sent again",
            count(tally.early_refused),
            counted(offered, "handshake")
        ));
    }
}

fn work(outcome: &Outcome, notes: &mut Vec<String>) {
    let tally = &outcome.totals.tally;
    if let (Work::Exchange { echo: true, .. }, 1..) = (&outcome.plan.work, tally.exchanges) {
        notes.push("every byte of the echo was compared with what was sent".into());
    }
    let [.., client, server] = tally.http_status;
    if client + server > 0 {
        let answers = tally.http_status.iter().sum::<u64>();
        let expected = matches!(&outcome.plan.work, Work::Http { expect, .. } if !expect.is_default());
        let were = if expected { "had the status of an error, expected or not" } else { "were errors" };
        notes.push(format!(
            "{} of {} HTTP responses {were} (4xx: {}, 5xx: {})",
            count(client + server),
            count(answers),
            count(client),
            count(server)
        ));
    }
    if tally.unserved > 0 {
        notes.push(format!("{} that were due never started", counted(tally.unserved, "transaction")));
    }
}

fn nearly_used_up(outcome: &Outcome, ports: &Ports) -> Option<String> {
    let lasting = ports.lasting_rate.filter(|rate| *rate > 0.0)?;
    // Ports in TIME_WAIT at the end: those of all connections within the last TIME_WAIT period.
    let rest = ports.capacity as f64 / lasting;
    let opened = outcome.totals.tally.connections as f64 / outcome.workers.len().max(1) as f64;
    let length = outcome.plan.duration.as_secs_f64().max(f64::MIN_POSITIVE);
    let resting = opened * (rest / length).min(1.0);
    let used = resting / ports.capacity as f64;
    (used >= NEARLY).then(|| {
        format!(
            "source ports were nearly used up: about {} of {} were in TIME_WAIT at the end",
            count(resting.min(ports.capacity as f64) as u64),
            count(ports.capacity)
        )
    })
}
