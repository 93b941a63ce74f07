//! Assembles a run's report: the measurements, the verdict, the circumstances.
//!
//! In: an [`Outcome`], and facts that only the program has. Out: a [`Report`] with every field filled.

use handfast_text::units::counted;
use std::collections::BTreeMap;

use handfast_report::model::{
    ErrorRow, Limit, Manifest, Mix, Ports, Report, SCHEMA, Search, Second, Series as Row, ServerUse, Totals,
    Worker,
};
use handfast_stats::Histogram;
use handfast_text::calendar::Utc;

use crate::machine;
use crate::outcome::{Outcome, WorkerOutcome};
use crate::plan::Verify;
use crate::ports;
use crate::sample::{Interval, Series, ThreadUse};
use crate::verdict::{self, Busy, View, addresses};
use handfast_report::job::Job;
use handfast_report::limits::Bound;

mod live;
mod notes;
mod parts;

pub use handfast_report::plan::sentence as work_sentence;
pub use live::Live;

/// The shortest second whose shares of CPU time are reported, in nanoseconds.
const GAUGED: u64 = 500_000_000;
/// Percentiles in the report's table, by name.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// … and of each second.
const PERCENTILES_OF_A_SECOND: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// The parts of a report that do not come from an outcome.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// `handfast 0.1.0`.
    pub program: String,
    /// Libraries that matter, and their versions.
    pub libraries: BTreeMap<String, String>,
    /// The command line, as it was typed.
    pub command: Vec<String>,
    /// All options of the run.
    pub job: Job,
    /// CPU time of the server's processes, when it was counted.
    pub account: Option<ServerUse>,
    /// The search of which this was the last run, or the best.
    pub search: Option<Search>,
    /// Further notes for the reader, in sentences.
    pub notes: Vec<String>,
}

/// Makes the report, the verdict and the judgement of the limits included. **Cost**: merges nothing that is not
/// merged; about a millisecond for each hundred seconds of the run.
pub fn report(outcome: &Outcome, circumstances: Circumstances) -> Report {
    let view = View::of(outcome);
    let ports = tightest_ports(outcome);
    let verdict = verdict::judge(outcome, ports.as_ref());
    let is_search = circumstances.search.is_some();
    let used = use_of_workers(&view, outcome);
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        verdict,
        work: work_sentence(&outcome.plan),
        totals: totals(&view, outcome),
        mix: mix(outcome),
        members: parts::members(outcome),
        requests: parts::requests(outcome),
        series: outcome.totals.series.iter().filter_map(|(series, samples)| row(*series, samples)).collect(),
        errors: errors(&outcome.totals),
        timeline: outcome.seconds.iter().map(|second| row_of_second(second, outcome, view.length)).collect(),
        stalled: verdict::stalled(&view),
        workers: outcome.workers.iter().zip(used).map(|(one, used)| worker(one, &used)).collect(),
        server: circumstances.account,
        both_ends: None,
        kernel: kernel(outcome),
        limits: Vec::new(),
        search: circumstances.search,
        notes: notes::of(outcome, ports.as_ref(), &view, &circumstances.job),
        ports,
        manifest: Manifest {
            program: circumstances.program,
            binary: machine::program_hash(),
            libraries: circumstances.libraries,
            started: Utc::of(outcome.started).to_seconds().to_string(),
            command: circumstances.command,
            job: Some(circumstances.job.clone().without_secrets()),
            // Steps of a search have separate seeds, which are derived from this one.
            seed: if is_search { circumstances.job.plan.seed } else { outcome.plan.seed },
            start_skew_ns: start_skew(outcome),
            addresses: addresses(outcome).iter().map(ToString::to_string).collect(),
        },
    };
    report.notes.extend(circumstances.notes);
    report.limits = circumstances.job.limits.iter().map(|bound| limit(bound, &report)).collect();
    report
}

/// Judges a limit. A limit on latency counts as not held if a closed model hid a pause of the target:
/// the transactions that would have shown the pause never began.
fn limit(bound: &Bound, report: &Report) -> Limit {
    let mut limit = bound.judge(report);
    let hidden = report.totals.offered_rate.is_none() && !report.stalled.is_empty();
    if limit.held && hidden && bound.is_latency() {
        let seconds = counted(report.stalled.len() as u64, "second");
        limit.held = false;
        limit.found =
            format!("{}, but the target stalled for {seconds}, which a closed model hides", limit.found);
    }
    limit
}

/// The ports of the worker that has fewest.
fn tightest_ports(outcome: &Outcome) -> Option<Ports> {
    let targets = addresses(outcome);
    // A worker dials one address; several are several workers' views of the name.
    let target = targets.get(..1).unwrap_or_default();
    let known = outcome.workers.iter().map(|worker| &worker.facts.machine);
    let mut ports = known
        .filter_map(|settings| ports::arithmetic_with(&outcome.plan, target, settings))
        .min_by_key(|ports| ports.capacity)?;
    if outcome.workers.len() > 1 {
        ports.sentence = format!("on each machine {}", ports.sentence);
    }
    Some(ports)
}

fn totals(view: &View<'_>, outcome: &Outcome) -> Totals {
    let tally = &outcome.totals.tally;
    let per_second = |count: u64| if view.length > 0.0 { count as f64 / view.length } else { 0.0 };
    let within = outcome.seconds.iter().take_while(|second| f64::from(second.second) < view.length);
    let exchanges = within.map(|second| second.tally.exchanges).sum();
    Totals {
        duration_seconds: view.length,
        rate: per_second(tally.transactions.saturating_sub(tally.tail)),
        offered_rate: view.offered_rate(),
        exchange_rate: per_second(exchanges),
        connections: tally.connections + tally.warm_up,
        warm_up_connections: tally.warm_up,
        transactions: tally.transactions,
        failed: tally.failed,
        tail: tally.tail,
        exchanges: tally.exchanges,
        http_status: parts::by_class(tally.http_status),
        sent_bytes: tally.sent,
        received_bytes: tally.received,
        open: tally.open,
        queued: tally.queued,
    }
}

fn mix(outcome: &Outcome) -> Mix {
    let tally = &outcome.totals.tally;
    if outcome.plan.target.plain {
        return Mix::default();
    }
    Mix {
        full: tally.full,
        resumed: tally.resumed,
        hello_retry: tally.hello_retry,
        early_data_accepted: tally.early_accepted,
        early_data_refused: tally.early_refused,
        without_ticket: tally.without_ticket,
        wanted_resumed: outcome.plan.wanted_resumed(),
        agreed: outcome.totals.agreed.clone(),
        verification: verification(outcome),
        offered: match outcome.plan.mix.len() {
            0 => outcome.plan.tls.sentence(),
            members => {
                format!("by {} of client, each in its own way (below)", counted(members as u64, "kind"))
            }
        },
    }
}

fn verification(outcome: &Outcome) -> String {
    let tls = &outcome.plan.tls;
    let several = outcome.plan.clients().any(|(_, tls)| !tls.server_names.is_empty());
    let name = tls.server_name.as_ref().unwrap_or(&outcome.plan.target.host);
    let name = if several { "the name that was sent" } else { name };
    match &tls.verify {
        Verify::Off => "the server's certificate was not verified, not even its signature".to_owned(),
        Verify::System => {
            format!("the server's certificate was verified for {name} against the system's authorities")
        }
        Verify::File(path) => {
            format!(
                "the server's certificate was verified for {name} against the authorities in {}",
                path.display()
            )
        }
    }
}

fn row(series: Series, samples: &Histogram) -> Option<Row> {
    (!samples.is_empty()).then(|| Row {
        name: series.name().to_owned(),
        count: samples.count(),
        min_ns: samples.min_nanos(),
        mean_ns: samples.mean_nanos(),
        deviation_ns: samples.deviation_nanos(),
        percentiles_ns: percentiles(samples, &PERCENTILES),
        max_ns: samples.max_nanos(),
        histogram: samples.clone(),
    })
}

fn percentiles(samples: &Histogram, names: &[(&str, f64)]) -> BTreeMap<String, u64> {
    names.iter().map(|(name, quantile)| ((*name).to_owned(), samples.quantile_nanos(*quantile))).collect()
}

fn errors(totals: &Interval) -> Vec<ErrorRow> {
    let row = |failures: &crate::sample::Failures| ErrorRow {
        step: failures.step.name().to_owned(),
        cause: failures.cause.name().to_owned(),
        count: failures.count,
        examples: failures.examples.clone(),
    };
    let mut rows: Vec<ErrorRow> = totals.failures.iter().map(row).collect();
    rows.sort_by(|one, other| {
        other.count.cmp(&one.count).then_with(|| (&one.step, &one.cause).cmp(&(&other.step, &other.cause)))
    });
    rows
}

fn row_of_second(second: &Interval, outcome: &Outcome, length: f64) -> Second {
    let gauged = is_gauged(second, length);
    let threads: Vec<Busy> = second.threads.iter().filter(|_| gauged).filter_map(Busy::of).collect();
    let machine = if gauged { second.machine.as_slice() } else { &[] };
    let mean = |of: fn(&Busy) -> f64| threads.iter().map(of).sum::<f64>() / threads.len().max(1) as f64;
    let tally = &second.tally;
    let samples = second.series.iter().filter(|(_, samples)| !samples.is_empty());
    let missing = outcome.workers.iter().filter(|worker| worker.missing.contains(&second.second));
    Second {
        second: second.second,
        transactions: tally.transactions,
        exchanges: tally.exchanges,
        failed: tally.failed,
        bytes: tally.sent + tally.received,
        open: tally.open,
        generator_cpu: mean(|thread| thread.busy),
        busiest_thread: threads.iter().map(|thread| thread.busy).fold(0.0, f64::max),
        generator_starved: mean(|thread| thread.starved),
        generator_paused_ns: second.threads.iter().map(|used| used.paused_ns).max().unwrap_or(0),
        machine_cpu: machine.iter().sum::<f64>() / machine.len().max(1) as f64,
        main: second.series.get(&outcome.plan.main_series()).cloned().unwrap_or_default(),
        percentiles_ns: samples
            .map(|(series, samples)| {
                (series.name().to_owned(), percentiles(samples, &PERCENTILES_OF_A_SECOND))
            })
            .collect(),
        missing: missing.map(|worker| worker.name.clone()).collect(),
    }
}

/// Returns true if a second's shares of CPU time are meaningful: not after the measured part, where threads wait for pending
/// transactions, and not for a few milliseconds, unless the run is that short.
fn is_gauged(second: &Interval, length: f64) -> bool {
    let wall = second.threads.iter().map(|used| used.wall_ns).max().unwrap_or(0);
    f64::from(second.second) < length && (wall >= GAUGED || second.second == 0)
}

/// The CPU time of each worker's threads in the measured part. Within a second they are in the order of the workers that were
/// there. A worker without any second that can be distinguished counts until its end.
fn use_of_workers(view: &View<'_>, outcome: &Outcome) -> Vec<Vec<ThreadUse>> {
    let workers = &outcome.workers;
    let mut used: Vec<Vec<ThreadUse>> = vec![Vec::new(); workers.len()];
    let measured = outcome.seconds.iter().take_while(|second| f64::from(second.second) < view.length);
    for second in measured {
        let there = |worker: &WorkerOutcome| !worker.missing.contains(&second.second);
        let threads = |worker: &WorkerOutcome| {
            if there(worker) { usize::try_from(worker.facts.threads).unwrap_or(usize::MAX) } else { 0 }
        };
        let all = workers.iter().map(threads).fold(0, usize::saturating_add);
        if all != second.threads.len() {
            continue;
        }
        let mut rest = second.threads.as_slice();
        for (worker, sums) in workers.iter().zip(&mut used) {
            let (mine, others) = rest.split_at(threads(worker));
            rest = others;
            sums.resize(sums.len().max(mine.len()), ThreadUse::default());
            sums.iter_mut().zip(mine).for_each(|(sum, used)| sum.add(used));
        }
    }
    for (worker, sums) in workers.iter().zip(&mut used).filter(|(_, sums)| sums.is_empty()) {
        sums.extend(worker.end.iter().flat_map(|end| end.totals.threads.iter().cloned()));
    }
    used
}

fn worker(worker: &WorkerOutcome, threads: &[ThreadUse]) -> Worker {
    let end = worker.end.as_ref();
    let busy: Vec<f64> = threads.iter().filter_map(Busy::of).map(|thread| thread.busy).collect();
    Worker {
        name: worker.name.clone(),
        machine: worker.facts.machine.clone(),
        threads: worker.facts.threads,
        clock_offset_ns: worker.clock_offset_ns,
        clock_error_ns: worker.clock_error_ns,
        start_error_ns: end.map_or(0, |end| end.start_error_ns),
        transactions: end.map_or(worker.delivered, |end| end.totals.tally.transactions),
        cpu: busy.iter().sum::<f64>() / busy.len().max(1) as f64,
        lost: worker.lost.clone(),
        sums_agree: worker.sums_agree,
    }
}

fn kernel(outcome: &Outcome) -> BTreeMap<String, i64> {
    let mut sum = BTreeMap::<String, i64>::new();
    for end in outcome.workers.iter().filter_map(|worker| worker.end.as_ref()) {
        for (name, moved) in &end.kernel {
            let total = sum.entry(name.clone()).or_default();
            *total = total.saturating_add(*moved);
        }
    }
    sum
}

/// Greatest difference between the workers' true starts.
fn start_skew(outcome: &Outcome) -> u64 {
    let starts = outcome.workers.iter().filter_map(|worker| Some(worker.end.as_ref()?.start_error_ns));
    let bounds = starts.fold(None, |bounds: Option<(i64, i64)>, start| {
        let (least, most) = bounds.unwrap_or((start, start));
        Some((least.min(start), most.max(start)))
    });
    bounds.map_or(0, |(least, most)| most.abs_diff(least))
}

#[cfg(test)]
mod tests;
