//! Limits that a run must keep: `handshake.p99=50ms`, `errors=1%`, `rate=1000`.
//!
//! In: the values of `--max` and `--min`, and a report. Out: whether each limit held, with the measured value.

use std::fmt;

use serde::{Deserialize, Serialize};

use handfast_text::bound::{self, BoundError, Names, Statistic, Unit, Value};

use crate::series::Series;

/// Side of its limit on which a figure must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `--max`: at most the limit.
    Max,
    /// `--min`: at least the limit.
    Min,
}

/// A limit, as text and parsed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Bound {
    pub(crate) written: String,
    pub(crate) direction: Direction,
    pub(crate) figure: Figure,
    pub(crate) limit: f64,
}

/// The form of a limit in a job: `{"max": "handshake.p99=50ms"}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Written {
    Max(String),
    Min(String),
}

impl From<Bound> for Written {
    fn from(bound: Bound) -> Self {
        match bound.direction {
            Direction::Max => Self::Max(bound.written),
            Direction::Min => Self::Min(bound.written),
        }
    }
}

impl TryFrom<Written> for Bound {
    type Error = LimitError;

    fn try_from(written: Written) -> Result<Self, LimitError> {
        match written {
            Written::Max(text) => Self::parse(&text, Direction::Max),
            Written::Min(text) => Self::parse(&text, Direction::Min),
        }
    }
}

/// Figure that is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// A latency in nanoseconds.
    Latency(Series, Statistic),
    /// Transactions that failed.
    Errors,
    /// Their share of all, 0 to 1.
    ErrorShare,
    /// Transactions a second.
    Rate,
    /// Exchanges a second.
    ExchangeRate,
}

/// The names of series, for [`NAMES`].
const SERIES: [&str; Series::ALL.len()] = {
    let mut names = [""; Series::ALL.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = Series::ALL[place].name();
        place += 1;
    }
    names
};

/// Names of the figures that can be bounded.
const NAMES: Names = Names {
    kinds: &[],
    times: &SERIES,
    ignored_prefix: "",
    numbers: &[("errors", Unit::Count), ("rate", Unit::Rate), ("exchange-rate", Unit::Rate)],
    statistics: &["p50", "p75", "p90", "p95", "p99", "p99.9", "mean", "max", "min"],
    any_percentile: true,
};

impl Bound {
    /// Reads `series.statistic=duration`, `errors=count`, `errors=share%` or `rate=number`.
    ///
    /// **Errors**: what is wrong and what is expected, in one line.
    pub fn parse(written: &str, direction: Direction) -> Result<Self, LimitError> {
        let bound::Bound { written, figure: name, value, .. } =
            NAMES.parse(written).map_err(LimitError::Written)?;
        let (figure, limit) = match value {
            Value::Time(statistic, time) => {
                let series = Series::ALL.into_iter().find(|series| series.name() == name);
                (Figure::Latency(series.unwrap_or(Series::Total), statistic), time.as_nanos() as f64)
            }
            Value::Share(share) => (Figure::ErrorShare, share),
            Value::Number(number) => match name {
                "errors" => (Figure::Errors, number),
                "rate" => (Figure::Rate, number),
                _ => (Figure::ExchangeRate, number),
            },
        };
        Ok(Self { written, direction, figure, limit })
    }

    /// As it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Side of the limit on which the figure must stay.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns true if it is a bound of failed transactions, as a number or a share.
    pub const fn is_errors(&self) -> bool {
        matches!(self.figure, Figure::Errors | Figure::ErrorShare)
    }

    /// Returns true if it is a latency's.
    pub const fn is_latency(&self) -> bool {
        matches!(self.figure, Figure::Latency(..))
    }
}

/// A limit that cannot be read, or not be used where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// It cannot be read.
    Written(BoundError),
    /// A search needs a bound that a higher rate breaks, and this is none: as it was written.
    NotSearchable(String),
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written(error) => error.fmt(f),
            Self::NotSearchable(written) => write!(
                f,
                "bound `{written}`: a search needs a latency or errors, for instance `total.p99=50ms` or `errors=0.5%`"
            ),
        }
    }
}

impl std::error::Error for LimitError {}

#[cfg(test)]
mod tests {
    use handfast_stats::Histogram;

    use super::*;
    use crate::model::{Report, Series as Row, Totals};

    fn report() -> Report {
        let mut histogram = Histogram::new();
        (1..=1_000).for_each(|step| histogram.record_nanos(step * 100_000));
        let row = Row {
            name: "handshake".into(),
            count: histogram.count(),
            min_ns: histogram.min_nanos(),
            mean_ns: histogram.mean_nanos(),
            max_ns: histogram.max_nanos(),
            histogram,
            ..Row::default()
        };
        let totals =
            Totals { rate: 1_234.5, exchange_rate: 9.0, transactions: 990, failed: 10, ..Totals::default() };
        Report { totals, series: vec![row], ..Report::default() }
    }

    fn judged(written: &str, direction: Direction) -> (bool, String) {
        let limit = Bound::parse(written, direction).unwrap().judge(&report());
        assert_eq!(limit.wanted, written);
        (limit.held, limit.found)
    }

    #[test]
    fn latencies_are_judged_by_any_percentile() {
        assert_eq!(judged("handshake.p99=99.1ms", Direction::Max), (true, "99.0 ms".into()));
        assert!(!judged("handshake.p99=98ms", Direction::Max).0);
        assert!(judged("handshake.p37.5=37.6ms", Direction::Max).0);
        assert!(!judged("handshake.p37.5=37.4ms", Direction::Max).0);
        assert!(
            judged("handshake.mean=51ms", Direction::Max).0
                && !judged("handshake.mean=50ms", Direction::Max).0
        );
        assert!(
            judged("handshake.max=0.101s", Direction::Max).0
                && !judged("handshake.max=99ms", Direction::Max).0
        );
        assert!(judged("handshake.min=99us", Direction::Min).0);
    }

    #[test]
    fn errors_and_rates_are_judged() {
        assert_eq!(judged("errors=0", Direction::Max), (false, "10".into()));
        assert_eq!(judged("errors=10", Direction::Max), (true, "10".into()));
        assert_eq!(judged("errors=1%", Direction::Max), (true, "1.0 %".into()));
        assert!(!judged("errors=0.9 %", Direction::Max).0);
        assert_eq!(judged("rate=1000", Direction::Min), (true, "1,235/s".into()));
        assert!(!judged("rate=1_300/s", Direction::Min).0);
        assert!(judged("exchange-rate=9", Direction::Min).0);
    }

    #[test]
    fn what_was_not_measured_did_not_hold() {
        assert_eq!(judged("total.p50=1m", Direction::Max), (false, "no sample".into()));
        let nothing = Report::default();
        assert!(!Bound::parse("errors=1%", Direction::Max).unwrap().judge(&nothing).held);
        assert!(Bound::parse("errors=0", Direction::Max).unwrap().judge(&nothing).held);
    }

    #[test]
    fn a_wrong_limit_says_what_would_be_right() {
        let wrong = |written| Bound::parse(written, Direction::Max).unwrap_err().to_string();
        assert!(wrong("handshak.p99=1ms").contains("did you mean `handshake`?"));
        assert!(wrong("total.p9x=1ms").contains("did you mean `p9"), "{}", wrong("total.p9x=1ms"));
        assert!(wrong("total.p101=1ms").contains("total has no `p101`"));
    }

    #[test]
    fn a_latency_without_a_statistic_is_the_median() {
        let bound = Bound::parse("handshake=50.1ms", Direction::Max).unwrap();
        assert_eq!(bound, Bound::parse("handshake.p50=50.1ms", Direction::Max).unwrap());
        assert!(bound.judge(&report()).held);
    }

    #[test]
    fn a_bound_is_kept_as_it_was_written() {
        let bound = Bound::parse(" lag.p99 = 1ms ", Direction::Max).unwrap();
        let json = serde_json::to_string(&bound).unwrap();
        assert_eq!(json, r#"{"max":"lag.p99 = 1ms"}"#);
        assert_eq!(serde_json::from_str::<Bound>(&json).unwrap(), bound);
        let refused = serde_json::from_str::<Bound>(r#"{"min":"nothing=1"}"#).unwrap_err();
        assert!(refused.to_string().contains("unknown figure `nothing`"), "{refused}");
    }
}
