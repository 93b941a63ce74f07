//! The run over time: rate, errors, and the load of the generator.
//!
//! In: the seconds of a report, merged to at most [`COLUMNS`]. Out: figures.

use handfast_html::axis::{even, plain_rate, time};
use handfast_html::plot::{Line, Plot, Size, area, path};
use handfast_html::{Table, details};
use handfast_stats::Histogram;
use maud::{Markup, html};

use crate::model::{Report, Second};
use crate::plan::Piece;
use crate::units::{bytes, count, share};
use crate::words::RunKind;

/// Most columns of a plot: about one for each two pixels.
pub(super) const COLUMNS: usize = 600;

/// One or more neighbouring seconds.
pub(super) struct Column {
    /// Begin, in seconds since the start.
    pub(super) from: f64,
    /// End, in seconds since the start.
    pub(super) to: f64,
    /// Samples of the main series.
    pub(super) main: Histogram,
    transactions: u64,
    bytes: u64,
    failed: u64,
    open: u64,
    cpu: f64,
    busiest: f64,
    starved: f64,
    machine: f64,
    missing: bool,
    /// True if it belongs to the measured part: in the second after it, only pending transactions end.
    measured: bool,
}

impl Column {
    /// Sums and means of the seconds; the maximum for the busiest thread and for starving.
    fn of(seconds: &[Second]) -> Option<Self> {
        let (first, last) = (seconds.first()?, seconds.last()?);
        let mean = |of: fn(&Second) -> f64| seconds.iter().map(of).sum::<f64>() / seconds.len() as f64;
        let worst = |of: fn(&Second) -> f64| seconds.iter().map(of).fold(0.0, f64::max);
        let mut main = Histogram::new();
        seconds.iter().for_each(|second| main.merge(&second.main));
        main.pack();
        Some(Self {
            from: f64::from(first.second),
            to: f64::from(last.second) + 1.0,
            main,
            transactions: seconds.iter().map(|second| second.transactions).sum(),
            bytes: seconds.iter().map(|second| second.bytes).sum(),
            failed: seconds.iter().map(|second| second.failed).sum(),
            open: last.open,
            cpu: mean(|second| second.generator_cpu),
            busiest: worst(|second| second.busiest_thread),
            starved: worst(|second| second.generator_starved),
            machine: mean(|second| second.machine_cpu),
            missing: seconds.iter().any(|second| !second.missing.is_empty()),
            measured: true,
        })
    }

    /// Its time for a table.
    pub(super) fn name(&self) -> String {
        if self.to - self.from > 1.0 {
            format!("{} to {} s", self.from, self.to)
        } else {
            format!("{} s", self.from)
        }
    }

    fn per_second(&self, value: u64) -> f64 {
        value as f64 / (self.to - self.from).max(1.0)
    }
}

/// Chart of the run's rate: title, name of the line, how to read it, the figure of a moment, and the form of its values.
struct Rated {
    title: &'static str,
    name: &'static str,
    reading: &'static str,
    of: fn(&Column) -> f64,
    show: fn(f64) -> String,
}

impl Rated {
    fn of(kind: RunKind) -> Self {
        let bytes_a_second = |value: f64| format!("{}/s", bytes(value.round() as u64));
        match kind {
            RunKind::Transactions => Self {
                title: "Transactions a second",
                name: "succeeded",
                reading: "Those that succeeded.",
                of: |column| column.per_second(column.transactions),
                show: plain_rate,
            },
            RunKind::Bulk => Self {
                title: "Bytes a second",
                name: "both ways",
                reading: "Application bytes, sent and received together.",
                of: |column| column.per_second(column.bytes),
                show: bytes_a_second,
            },
            RunKind::Idle => Self {
                title: "Open connections",
                name: "open",
                reading: "At the end of each second. In the last one they are closed.",
                of: |column| column.open as f64,
                show: plain_rate,
            },
        }
    }
}

/// The run in at most [`COLUMNS`] columns.
pub(super) fn columns(report: &Report) -> Vec<Column> {
    let each = report.timeline.len().div_ceil(COLUMNS).max(1);
    let mut columns: Vec<Column> = report.timeline.chunks(each).filter_map(Column::of).collect();
    for column in columns.iter_mut().skip(1) {
        column.measured = column.from < report.totals.duration_seconds;
    }
    columns
}

/// End of the time axis.
pub(super) fn reach(columns: &[Column]) -> f64 {
    columns.last().map_or(1.0, |column| column.to).max(1.0)
}

fn measured(columns: &[Column]) -> impl Iterator<Item = &Column> {
    columns.iter().filter(|column| column.measured)
}

fn line(columns: &[Column], name: &str, class: &str, part: impl Fn(&Column) -> f64) -> Line {
    let end = reach(columns);
    let point = |column: &Column| ((column.from + column.to) / 2.0 / end, part(column));
    Line { name: name.into(), class: class.into(), pieces: vec![measured(columns).map(point).collect()] }
}

/// The requested rate: moments as shares of the run, each with its rate.
fn offered(report: &Report) -> Option<Vec<(f64, f64)>> {
    let offered = report.totals.offered_rate?;
    let plan = report.plan().filter(|plan| plan.model.only_rate().is_none());
    let Some((plan, rates)) = plan.and_then(|plan| Some((plan, plan.rates()?))) else {
        return Some(vec![(0.0, offered), (1.0, offered)]);
    };
    let whole = plan.duration.as_secs_f64().max(f64::MIN_POSITIVE);
    let ends = |piece: &Piece| [(piece.begin, piece.from), (piece.begin + piece.length, piece.to)];
    Some(rates.pieces().iter().flat_map(ends).map(|(when, rate)| (when / whole, rate)).collect())
}

pub(super) fn rates(report: &Report, columns: &[Column]) -> Markup {
    let offered = offered(report);
    let rated = Rated::of(RunKind::of(report));
    let (ends, most) = measured(columns)
        .map(rated.of)
        .fold((f64::MAX, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    let offered_rates = offered.iter().flatten().map(|(_, rate)| *rate);
    let (up, top) = even(offered_rates.fold(most, f64::max), rated.show);
    let end = reach(columns);
    let well = line(columns, rated.name, "blue main", |column| (rated.of)(column) / top);
    let mut fill = well.pieces.concat();
    let (first, last) = (fill.first().copied(), fill.last().copied());
    fill.extend([last, first].into_iter().flatten().map(|(across, _)| (across, 0.0)));
    let mut missing = String::new();
    for column in columns.iter().filter(|column| column.missing) {
        area(&mut missing, (column.from / end, column.to / end), (0.0, 1.0));
    }
    let mut lines = vec![well];
    lines.extend(offered.map(|rates| Line {
        name: "offered".into(),
        class: "ink d1".into(),
        pieces: vec![rates.into_iter().map(|(across, rate)| (across, rate / top)).collect()],
    }));
    let gaps = if missing.is_empty() { "" } else { " Shaded: a worker's figures are missing." };
    let plot = Plot {
        title: rated.title,
        reading: format!("{}{gaps}", rated.reading),
        description: format!("Between {} and {}: {}", (rated.show)(ends), (rated.show)(most), rated.reading),
        across: time(end),
        across_name: "time since the start",
        up,
        below: html! { (path(&[fill], "fill blue")) path.gone d=(missing) {} },
        lines,
        size: Size::Low,
        after: data(columns, &rated),
    };
    plot.draw()
}

pub(super) fn errors(columns: &[Column]) -> Markup {
    let most = columns.iter().map(|column| column.per_second(column.failed)).fold(0.0, f64::max);
    if most == 0.0 {
        return html! { figure { h3 { "Failures a second" } p.soft { "No transaction failed." } } };
    }
    let (up, top) = even(most, plain_rate);
    let end = reach(columns);
    let mut bars = String::new();
    for column in columns.iter().filter(|column| column.failed > 0) {
        // Always high enough to be visible.
        let height = (column.per_second(column.failed) / top).max(0.012);
        area(&mut bars, (column.from / end, column.to / end), (0.0, height));
    }
    let worst = columns.iter().max_by(|a, b| a.per_second(a.failed).total_cmp(&b.per_second(b.failed)));
    let plot = Plot {
        title: "Failures a second",
        reading:
            "Transactions that failed, whatever the cause. A single failure is drawn tall enough to be seen."
                .into(),
        description: worst.map_or(String::new(), |column| {
            format!("The worst moment was at {:.0} s with {} failures.", column.from, count(column.failed))
        }),
        across: time(end),
        across_name: "time since the start",
        up,
        below: html! { path.bars.red d=(bars) {} },
        size: Size::Low,
        ..Plot::default()
    };
    plot.draw()
}

pub(super) fn generator(columns: &[Column]) -> Markup {
    let most = |of: fn(&Column) -> f64| share(columns.iter().map(of).fold(0.0, f64::max));
    let up = (0..=4).map(|quarter| (f64::from(quarter) / 4.0, format!("{} %", quarter * 25))).collect();
    let plot = Plot {
        title: "The load generator itself",
        reading: "CPU that its threads used, and time in which they waited for a CPU. Where these lines are high, the \
                  latencies above are partly its own."
            .into(),
        description: format!(
            "At most: threads {}, the busiest {}, the machine {}, starved {}.",
            most(|c| c.cpu),
            most(|c| c.busiest),
            most(|c| c.machine),
            most(|c| c.starved)
        ),
        across: time(reach(columns)),
        across_name: "time since the start",
        up,
        lines: vec![
            line(columns, "whole machine", "mauve d2", |c| c.machine),
            line(columns, "busiest thread", "blue d1", |c| c.busiest),
            line(columns, "all threads", "blue main", |c| c.cpu),
            line(columns, "starved", "red", |c| c.starved),
        ],
        size: Size::Low,
        ..Plot::default()
    };
    plot.draw()
}

/// Everything over time in figures.
fn data(columns: &[Column], rated: &Rated) -> Markup {
    let row = |column: &Column| {
        let mut row =
            vec![column.name(), (rated.show)((rated.of)(column)), count(column.failed), count(column.open)];
        row.extend([column.cpu, column.busiest, column.starved, column.machine].map(share));
        row
    };
    let header = format!("time|{}|failed|open|threads' CPU|busiest|starved|machine", rated.title);
    let table = Table::of_numbers("The run over time", &header, columns.iter().map(row));
    details("The same as a table, with failures and CPU", &table)
}
