//! The figures of a comparison: one value of each run, and their ratio.
//!
//! In: both sides. Out: for each figure the runs' values, and for those that decide a ratio with its interval.
//!
//! | model | decides | why not the other |
//! |---|---|---|
//! | closed | rate, p99 of the main series | its p50 is the rate again |
//! | open, ramp | p50 and p99 of the main series | the rate is the requested one |
//! | open or ramp, every run TARGET-LIMITED | rate | latencies grow with the length of the run |
//! | bulk | bytes a second | |
//! | idle | p50 and p99 of the handshake | |

use handfast_stats::Comparison;
use handfast_stats::compare::{geometric_mean, welch};

use super::sides::{CONFIDENCE, MIN_DIFFERENCE, Sides};
use crate::model::{Report, VerdictWord};
use crate::units::{bytes, duration, rate};
use crate::words::{RunKind, main_series};

/// One figure of both sides.
#[derive(Debug)]
pub(super) struct Figure {
    /// `rate`, `exchange rate`, `handshake p99`.
    pub(super) name: String,
    /// Its unit.
    pub(super) unit: Unit,
    /// Each run of A, in the order of the reports.
    pub(super) a: Vec<f64>,
    /// Each run of B.
    pub(super) b: Vec<f64>,
    /// True if it may decide.
    pub(super) decides: bool,
    /// Only for a deciding figure that every run has.
    pub(super) found: Option<Comparison>,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    PerSecond,
    BytesPerSecond,
    Nanoseconds,
}

impl Unit {
    /// Returns true if more is better.
    pub(super) fn more_is_better(self) -> bool {
        self != Self::Nanoseconds
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "per_second",
            Self::BytesPerSecond => "bytes_per_second",
            Self::Nanoseconds => "ns",
        }
    }

    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::PerSecond => rate(value),
            Self::BytesPerSecond => format!("{}/s", bytes(value.round() as u64)),
            Self::Nanoseconds => duration(value),
        }
    }
}

impl Figure {
    /// The geometric mean of a side's runs.
    pub(super) fn mean(&self, runs: &[f64]) -> Option<f64> {
        geometric_mean(runs)
    }

    /// B over A.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.mean(&self.b)? / self.mean(&self.a)?)
    }

    /// `faster` or `slower`, of B, when that is more than chance.
    pub(super) fn better(&self) -> Option<&'static str> {
        let found = self.found.filter(|found| found.low > 1.0 || found.high < 1.0)?;
        let great_enough = found.ratio.ln().abs() >= MIN_DIFFERENCE.ln_1p();
        great_enough.then_some(match (found.ratio > 1.0) == self.unit.more_is_better() {
            true => "faster",
            false => "slower",
        })
    }
}

/// Returns true if every run found its target's limit.
pub(super) fn all_at_their_limit(sides: &Sides<'_>) -> bool {
    sides.runs().all(|report| report.verdict.word == VerdictWord::TargetLimited)
}

/// Every figure that all runs have. `judged`: whether any figure may decide.
pub(super) fn figures(sides: &Sides<'_>, judged: bool) -> Vec<Figure> {
    let every = |is: fn(&Report) -> bool| sides.runs().all(is);
    let open = !every(|report| report.totals.offered_rate.is_none());
    let limits = open && all_at_their_limit(sides);
    let mut figures = Vec::new();
    let mut add = |name: String, unit: Unit, decides: bool, of: &dyn Fn(&Report) -> Option<f64>| {
        let runs = |reports: &[Report]| reports.iter().map(of).collect::<Option<Vec<f64>>>();
        if let (Some(a), Some(b)) = (runs(sides.a), runs(sides.b)) {
            figures.push(Figure { name, unit, a, b, decides: decides && judged, found: None });
        }
    };
    // Bulk and idle connections end with the run: their number in a second means nothing.
    let bulk = every(|report| RunKind::of(report) == RunKind::Bulk);
    let idle = every(|report| RunKind::of(report) == RunKind::Idle);
    if bulk {
        add("bytes".into(), Unit::BytesPerSecond, true, &bytes_per_second);
    } else if !idle {
        add("rate".into(), Unit::PerSecond, !open || limits, &|report| Some(report.totals.rate));
    }
    if !every(|report| [0, report.totals.transactions].contains(&report.totals.exchanges)) {
        add("exchange rate".into(), Unit::PerSecond, false, &|report| Some(report.totals.exchange_rate));
    }
    let main = |side: &[Report]| side.first().and_then(main_series).map(|series| series.name.clone());
    let main = main(sides.a).filter(|name| main(sides.b).as_ref() == Some(name));
    for name in common(sides) {
        let is_main = main.as_deref() == Some(name);
        for (percentile, decides) in [("p50", open || idle), ("p99", true)] {
            let decides = is_main && decides && !limits && !bulk;
            add(format!("{name} {percentile}"), Unit::Nanoseconds, decides, &|report| {
                of_series(report, name, percentile)
            });
        }
    }
    let deciding = figures.iter().filter(|figure| figure.decides).count().max(1);
    // Bonferroni: the intervals hold together.
    let alpha = (1.0 - CONFIDENCE) / deciding as f64;
    for figure in figures.iter_mut().filter(|figure| figure.decides) {
        figure.found = welch(&figure.a, &figure.b, alpha);
    }
    figures
}

fn bytes_per_second(report: &Report) -> Option<f64> {
    let all = report.totals.sent_bytes.saturating_add(report.totals.received_bytes);
    (report.totals.duration_seconds > 0.0).then(|| all as f64 / report.totals.duration_seconds)
}

fn of_series(report: &Report, name: &str, percentile: &str) -> Option<f64> {
    let series = report.series.iter().find(|series| series.name == name)?;
    series.percentiles_ns.get(percentile).map(|nanos| *nanos as f64)
}

/// Series that every run of both sides has, in the order of the first. Where all handshakes were full, or all resumed, the
/// series of that kind is the one of all.
fn common<'r>(sides: &Sides<'r>) -> Vec<&'r str> {
    let count = |report: &Report, name: &str| {
        report.series.iter().find(|series| series.name == name).map(|series| series.count)
    };
    let every = |is: &dyn Fn(&Report) -> bool| sides.runs().all(is);
    let shown = |name: &str| {
        let again = name.starts_with("handshake-")
            && every(&|report: &Report| count(report, name) == count(report, "handshake"));
        every(&|report: &Report| count(report, name).is_some()) && !again
    };
    let first = sides.a.first().map(|report| report.series.as_slice()).unwrap_or_default();
    first.iter().map(|series| series.name.as_str()).filter(|name| shown(name)).collect()
}
