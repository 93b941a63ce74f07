//! Judges a report by a limit, and a step of a search by its bound.

use handfast_text::bound::Statistic;

use crate::job::SearchSpec;
use crate::limits::{Bound, Direction, Figure};
use crate::model::{Limit, Report, SearchStep, Series as Row, VerdictWord};
use crate::units;

impl Bound {
    /// Judges the report by the limit. A latency without samples has not held, since it is unknown.
    pub fn judge(&self, report: &Report) -> Limit {
        let found = self.figure.in_report(report);
        let held = found.is_some_and(|found| match self.direction {
            Direction::Max => found <= self.limit,
            Direction::Min => found >= self.limit,
        });
        let found = found.map_or_else(|| "no sample".to_owned(), |found| self.figure.words(found));
        Limit { wanted: self.written.clone(), found, held }
    }
}

impl SearchSpec {
    /// Judges a step: its report must hold the bound, and the target must have accepted the whole offered rate.
    pub fn step(&self, offered_rate: f64, report: &Report) -> SearchStep {
        let limit = self.bound.judge(report);
        let verdict = report.verdict.word;
        // An allowed share of errors does not fail the step.
        let allowed = self.bound.is_errors() && verdict == VerdictWord::Errors;
        SearchStep {
            offered_rate,
            rate: report.totals.rate,
            found: limit.found,
            held: limit.held && (verdict == VerdictWord::Valid || allowed),
            verdict,
        }
    }
}

/// A statistic of a row.
fn statistic_of(statistic: Statistic, row: &Row) -> f64 {
    match statistic {
        Statistic::Min => row.min_ns as f64,
        Statistic::Mean => row.mean_ns,
        Statistic::Max => row.max_ns as f64,
        Statistic::Quantile(quantile) => row.histogram.quantile_nanos(quantile) as f64,
    }
}

impl Figure {
    fn in_report(self, report: &Report) -> Option<f64> {
        let totals = &report.totals;
        match self {
            Self::Latency(series, statistic) => {
                let row = report.series.iter().find(|row| row.name == series.name() && row.count > 0)?;
                Some(statistic_of(statistic, row))
            }
            Self::Errors => Some(totals.failed as f64),
            Self::ErrorShare => {
                let all = totals.transactions + totals.failed;
                (all > 0).then(|| totals.failed as f64 / all as f64)
            }
            Self::Rate => Some(totals.rate),
            Self::ExchangeRate => Some(totals.exchange_rate),
        }
    }

    fn words(self, found: f64) -> String {
        match self {
            Self::Latency(..) => units::duration(found),
            Self::Errors => units::count(found as u64),
            Self::ErrorShare => units::share(found),
            Self::Rate | Self::ExchangeRate => units::rate(found),
        }
    }
}
