//! The content of each table of a run of `handfast load`.
//!
//! In: a [`Run`]. Out: [`Table`]s. Figures are of the newest second where nothing else is said.

use handfast_report::live::Part;
use handfast_report::run::Run;
use handfast_report::units::{nanos, share};

use handfast_text::table::Column;

use super::cells::{column, counts, figures, known, plain, words};
use super::table::{Cell, Table, table};
use super::tables::{block, stacked};
use crate::load::live::{of_cpu, of_starved};
use crate::screen::{Line, Look, Pieces, Shade};

/// Function that makes a table.
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
    let slowest = run.steps.iter().map(|step| step.p99_ns).max().unwrap_or_default();
    table! {
        run.steps.iter() => |step| {
            let length = (step.p50_ns as f64 / slowest.max(1) as f64 * 24.0).ceil() as usize;
            let bar = block(length.min(24), look, Shade::Good);
        }
        column("step", 0, 0) => words(&step.name, Shade::Strong);
        figures("count", 0) => counts(step.count, Shade::Plain);
        figures("mean", 1) => time(step.mean_ns as u64, step.count);
        figures("p50", 0) => time(step.p50_ns, step.count);
        figures("p90", 2) => time(step.p90_ns, step.count);
        figures("p99", 0) => time(step.p99_ns, step.count);
        figures("max", 3) => time(step.max_ns, step.count);
        column("p50 as a bar", 0, 4) => Cell { line: bar, key: Some(step.p50_ns as f64) };
    }
}

fn failures(run: &Run, _: Look) -> Table {
    table! {
        run.failures.iter() => |failed| {}
        figures("last second", 0) => counts(failed.last, Shade::Bad);
        figures("count", 0) => counts(failed.count, Shade::Plain);
        column("step", 0, 0) => plain(&failed.step);
        column("cause", 0, 0) => plain(&failed.cause);
    }
}

fn parts(parts: &[Part]) -> Table {
    table! {
        parts.iter() => |part| {
            let series = part.series.as_ref();
            let of = |name: &str| series.and_then(|series| series.percentiles_ns.get(name)).copied();
            let time = |ns: Option<u64>| time(ns.unwrap_or_default(), ns.is_some().into());
        }
        column("name", 16, 0) => words(&part.name, Shade::Strong);
        figures("done", 0) => counts(part.done, Shade::Plain);
        figures("failed", 0) => counts(part.failed, Shade::Bad);
        column("time of", 0, 1) => plain(series.map_or("", |series| series.name.as_str()));
        figures("p50", 0) => time(of("p50"));
        figures("p99", 0) => time(of("p99"));
        figures("max", 2) => time(series.map(|series| series.max_ns));
    }
}

fn threads(run: &Run, look: Look) -> Table {
    table! {
        run.threads.iter().zip(1..) => |(thread, number)| {
            let shade = of_cpu(thread.cpu);
            let bar = block((thread.cpu.clamp(0.0, 1.0) * 10.0).round() as usize, look, shade);
        }
        figures("thread", 0) => counts(number, Shade::Strong);
        figures("CPU", 0) => known(Some(thread.cpu), share, shade);
        column("", 0, 1) => Cell { line: bar, key: Some(thread.cpu) };
        figures("waiting for a CPU", 0) => known(Some(thread.starved), share, of_starved(thread.starved));
    }
}

/// Shares of the steps in the time of the transactions that ended in the newest second.
pub(super) fn path(run: &Run, line: Line, width: usize, look: Look) -> Line {
    let steps = PATH.map(|name| run.steps.iter().find(|step| step.name == name));
    let sums = steps.map(|step| step.map_or(0.0, |step| step.mean_ns * step.count as f64));
    if sums.iter().sum::<f64>() <= 0.0 {
        return line.and("nothing ended in the last second", Shade::Faint);
    }
    // The words need some 60 columns.
    let mut line = line;
    line.extend(stacked(&sums, &PATH, width.saturating_sub(76).min(24), look));
    for (phase, step) in steps.iter().enumerate() {
        let Some(step) = step else { continue };
        line = line
            .and(format!(" {}", step.name), Shade::Phase(phase))
            .and(format!(" {}", nanos(step.mean_ns as u64)), Shade::Plain);
    }
    line
}
