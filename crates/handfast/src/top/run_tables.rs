//! The content of each table of a run of `handfast load`.
//!
//! In: a [`Run`]. Out: [`Table`]s. Figures are of the newest second where nothing else is said.

use handfast_report::live::Part;
use handfast_report::run::{Latency, Run};
use handfast_report::units::{nanos, share};

use super::table::{Cell, Column, Table};
use super::tables::{block, column, counts, figures, known, plain, stacked, words};
use crate::load::live::{of_cpu, of_starved};
use crate::screen::{Line, Look, Shade};

/// What makes a table.
type Make = fn(&Run, Look) -> Table;

/// The tables with their names, short ones too, in the order of their keys.
pub(super) const TABLES: [(&str, &str, Make); 5] = [
    ("Steps", "Steps", steps),
    ("Failures", "Failures", failures),
    ("Requests", "Requests", |run, _| parts(&run.requests)),
    ("Clients of the mix", "Clients", |run, _| parts(&run.members)),
    ("Generator threads", "Threads", threads),
];

/// Steps of the path that follow one another and share nothing.
const PATH: [&str; 3] = ["connect", "handshake", "exchange"];

fn time(ns: u64, count: u64) -> Cell {
    known((count > 0).then_some(ns as f64), |ns| nanos(ns as u64), Shade::Plain)
}

fn steps(run: &Run, look: Look) -> Table {
    const COLUMNS: &[Column] = &[
        column("step", 0, 0),
        figures("count", 0),
        figures("mean", 1),
        figures("p50", 0),
        figures("p90", 2),
        figures("p99", 0),
        figures("max", 3),
        column("p50 as a bar", 0, 4),
    ];
    let slowest = run.steps.iter().map(|step| step.p99_ns).max().unwrap_or_default();
    let row = |step: &Latency| {
        let length = (step.p50_ns as f64 / slowest.max(1) as f64 * 24.0).ceil() as usize;
        vec![
            words(&step.name, Shade::Strong),
            counts(step.count, Shade::Plain),
            time(step.mean_ns as u64, step.count),
            time(step.p50_ns, step.count),
            time(step.p90_ns, step.count),
            time(step.p99_ns, step.count),
            time(step.max_ns, step.count),
            Cell { line: block(length.min(24), look, Shade::Good), key: Some(step.p50_ns as f64) },
        ]
    };
    Table { columns: COLUMNS, rows: run.steps.iter().map(row).collect() }
}

fn failures(run: &Run, _: Look) -> Table {
    const COLUMNS: &[Column] =
        &[figures("last second", 0), figures("count", 0), column("step", 0, 0), column("cause", 0, 0)];
    let row = |failed: &handfast_report::run::Failed| {
        vec![
            counts(failed.last, Shade::Bad),
            counts(failed.count, Shade::Plain),
            plain(&failed.step),
            plain(&failed.cause),
        ]
    };
    Table { columns: COLUMNS, rows: run.failures.iter().map(row).collect() }
}

fn parts(parts: &[Part]) -> Table {
    const COLUMNS: &[Column] = &[
        column("name", 16, 0),
        figures("done", 0),
        figures("failed", 0),
        column("time of", 0, 1),
        figures("p50", 0),
        figures("p99", 0),
        figures("max", 2),
    ];
    let row = |part: &Part| {
        let series = part.series.as_ref();
        let of = |name: &str| series.and_then(|series| series.percentiles_ns.get(name)).copied();
        let time = |ns: Option<u64>| time(ns.unwrap_or_default(), ns.is_some().into());
        vec![
            words(&part.name, Shade::Strong),
            counts(part.done, Shade::Plain),
            counts(part.failed, Shade::Bad),
            plain(series.map_or("", |series| series.name.as_str())),
            time(of("p50")),
            time(of("p99")),
            time(series.map(|series| series.max_ns)),
        ]
    };
    Table { columns: COLUMNS, rows: parts.iter().map(row).collect() }
}

fn threads(run: &Run, look: Look) -> Table {
    const COLUMNS: &[Column] =
        &[figures("thread", 0), figures("CPU", 0), column("", 0, 1), figures("waiting for a CPU", 0)];
    let row = |(number, thread): (usize, &handfast_report::run::Thread)| {
        let length = (thread.cpu.clamp(0.0, 1.0) * 10.0).round() as usize;
        vec![
            counts(number as u64 + 1, Shade::Strong),
            known(Some(thread.cpu), share, of_cpu(thread.cpu)),
            Cell { line: block(length, look, of_cpu(thread.cpu)), key: Some(thread.cpu) },
            known(Some(thread.starved), share, of_starved(thread.starved)),
        ]
    };
    Table { columns: COLUMNS, rows: run.threads.iter().enumerate().map(row).collect() }
}

/// Where the time of what ended in the newest second went.
pub(super) fn path(run: &Run, line: Line, width: usize, look: Look) -> Line {
    let steps = PATH.map(|name| run.steps.iter().find(|step| step.name == name));
    let sums = steps.map(|step| step.map_or(0.0, |step| step.mean_ns * step.count as f64));
    if sums.iter().sum::<f64>() <= 0.0 {
        return line.and("nothing ended in the last second", Shade::Faint);
    }
    // The words need some 60 columns.
    let mut line = line;
    line.0.extend(stacked(&sums, &PATH, width.saturating_sub(76).min(24), look).0);
    for (phase, step) in steps.iter().enumerate() {
        let Some(step) = step else { continue };
        line = line
            .and(format!(" {}", step.name), Shade::Phase(phase))
            .and(format!(" {}", nanos(step.mean_ns as u64)), Shade::Plain);
    }
    line
}
