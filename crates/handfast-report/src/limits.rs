//! Limits that a run must keep: `handshake.p99=50ms`, `errors=1%`, `rate=1000`.
//!
//! In: the values of `--max` and `--min`, and a report. Out: whether each limit held, with the measured value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{Limit, Report, Series as Row};
use handfast_text::suggest::did_you_mean_or_all as did_you_mean;

use crate::series::Series;
use crate::units;

/// On which side of its limit a figure must stay.
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
    written: String,
    direction: Direction,
    figure: Figure,
    limit: f64,
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

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Min,
    Mean,
    Max,
    /// A quantile, 0 to 1.
    Quantile(f64),
}

/// What can be bounded besides the series.
const COUNTS: [&str; 3] = ["errors", "rate", "exchange-rate"];
const STATISTICS: [&str; 9] = ["p50", "p75", "p90", "p95", "p99", "p99.9", "mean", "max", "min"];

impl Bound {
    /// Reads `series.statistic=duration`, `errors=count`, `errors=share%` or `rate=number`.
    ///
    /// **Errors**: what is wrong and what is expected, in one line.
    pub fn parse(written: &str, direction: Direction) -> Result<Self, LimitError> {
        let wrong = |fault| LimitError { written: written.to_owned(), fault };
        let (name, value) = written.split_once('=').ok_or_else(|| wrong(LimitFault::NoValue))?;
        let (figure, limit) = figure(name.trim(), value.trim()).map_err(wrong)?;
        Ok(Self { written: written.trim().to_owned(), direction, figure, limit })
    }

    /// That it cannot be used here.
    pub(crate) fn wrong(&self, fault: LimitFault) -> LimitError {
        LimitError { written: self.written.clone(), fault }
    }

    /// As it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// On which side the figure must stay.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether it is one of failed transactions, as a number or a share.
    pub const fn is_errors(&self) -> bool {
        matches!(self.figure, Figure::Errors | Figure::ErrorShare)
    }

    /// Whether it is a latency's.
    pub const fn is_latency(&self) -> bool {
        matches!(self.figure, Figure::Latency(..))
    }

    /// Whether it held. A latency without samples has not held, since it is unknown.
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

/// A limit that cannot be read, or not be used where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    /// As it was written.
    pub written: String,
    /// What is wrong with it.
    pub fault: LimitFault,
}

/// What can be wrong with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitFault {
    /// There is no `=`.
    NoValue,
    /// No such series, and no such count.
    UnknownSeries(String),
    /// A series without one of its figures.
    NoFigure(Series),
    /// A series has no such figure.
    UnknownFigure(Series, String),
    /// Something else than a number from 0.
    Number(String),
    /// A duration without a unit.
    Duration(handfast_text::duration::DurationError),
    /// A search needs a bound that a higher rate breaks, and this is none.
    NotSearchable,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit `{}`: {}", self.written, self.fault)
    }
}

impl fmt::Display for LimitFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue => f.write_str("no `=`; limits are written as `handshake.p99=50ms`"),
            Self::UnknownSeries(step) => {
                let series = Series::ALL.iter().map(|series| series.name());
                let names: Vec<&str> = series.chain(COUNTS).collect();
                write!(f, "there is no `{step}`; {}", did_you_mean(step, &names))
            }
            Self::NoFigure(series) => {
                write!(f, "which figure of {0}? For instance `{0}.p99`", series.name())
            }
            Self::UnknownFigure(series, word) => {
                write!(f, "{} has no `{word}`; {}", series.name(), did_you_mean(word, &STATISTICS))
            }
            Self::Number(text) => write!(f, "invalid number `{text}`, expected one from 0"),
            Self::Duration(error) => error.fmt(f),
            Self::NotSearchable => f.write_str(
                "a search needs a latency or errors, for instance `total.p99=50ms` or `errors=0.5%`",
            ),
        }
    }
}

impl std::error::Error for LimitError {}

/// Both sides of the `=`.
fn figure(name: &str, value: &str) -> Result<(Figure, f64), LimitFault> {
    match name {
        "errors" => match value.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| (Figure::ErrorShare, percent / 100.0)),
            None => number(value).map(|count| (Figure::Errors, count)),
        },
        "rate" => number(value.strip_suffix("/s").unwrap_or(value)).map(|rate| (Figure::Rate, rate)),
        "exchange-rate" => {
            number(value.strip_suffix("/s").unwrap_or(value)).map(|rate| (Figure::ExchangeRate, rate))
        }
        _ => Ok((latency(name)?, nanoseconds(value)?)),
    }
}

/// `handshake.p99`.
fn latency(name: &str) -> Result<Figure, LimitFault> {
    let (step, statistic) = name.split_once('.').unwrap_or((name, ""));
    let series = Series::ALL.into_iter().find(|series| series.name() == step);
    let series = series.ok_or_else(|| LimitFault::UnknownSeries(step.to_owned()))?;
    if statistic.is_empty() {
        return Err(LimitFault::NoFigure(series));
    }
    let known = Statistic::parse(statistic);
    let statistic = known.ok_or_else(|| LimitFault::UnknownFigure(series, statistic.to_owned()))?;
    Ok(Figure::Latency(series, statistic))
}

impl Statistic {
    /// `mean`, `max`, `min`, or `p` with any percentile between 0 and 100.
    fn parse(word: &str) -> Option<Self> {
        match word {
            "mean" => Some(Self::Mean),
            "max" => Some(Self::Max),
            "min" => Some(Self::Min),
            _ => {
                let digits =
                    word.strip_prefix('p').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
                let percent = digits.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
                Some(Self::Quantile(percent / 100.0))
            }
        }
    }

    fn of(self, row: &Row) -> f64 {
        match self {
            Self::Min => row.min_ns as f64,
            Self::Mean => row.mean_ns,
            Self::Max => row.max_ns as f64,
            Self::Quantile(quantile) => row.histogram.quantile_nanos(quantile) as f64,
        }
    }
}

impl Figure {
    fn in_report(self, report: &Report) -> Option<f64> {
        let totals = &report.totals;
        match self {
            Self::Latency(series, statistic) => {
                let row = report.series.iter().find(|row| row.name == series.name() && row.count > 0)?;
                Some(statistic.of(row))
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

/// A number that is not negative.
fn number(text: &str) -> Result<f64, LimitFault> {
    let plain = text.trim().replace('_', "");
    let value = plain.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| LimitFault::Number(text.trim().to_owned()))
}

/// `50ms`, `1.5s`, `200us`, `200µs`, `100ns`, `2m`, with or without a blank.
fn nanoseconds(text: &str) -> Result<f64, LimitFault> {
    let duration = handfast_text::duration::parse(text).map_err(LimitFault::Duration)?;
    Ok(duration.as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use handfast_stats::Histogram;

    use super::*;
    use crate::model::Totals;

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
    fn durations_have_units() {
        let read =
            ["50ms", "1.5s", "200us", "200\u{b5}s", "200\u{3bc}s", "100ns", "2m", "1 ms"].map(nanoseconds);
        let meant = [50e6, 1.5e9, 2e5, 2e5, 2e5, 100.0, 120e9, 1e6].map(Ok);
        assert_eq!(read, meant);
        for wrong in ["50", "ms", "-1ms", "1e400s", "nans", "", "1 2ms"] {
            assert!(nanoseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_limit_says_what_would_be_right() {
        let wrong = |written| Bound::parse(written, Direction::Max).unwrap_err().to_string();
        assert!(
            wrong("handshak.p99=1ms").contains("did you mean `handshake`?"),
            "{}",
            wrong("handshak.p99=1ms")
        );
        assert!(wrong("error=0").contains("did you mean `errors`?"));
        assert!(wrong("total.p9x=1ms").contains("did you mean `p9"), "{}", wrong("total.p9x=1ms"));
        assert!(wrong("total.p101=1ms").contains("total has no `p101`"));
        assert!(wrong("total=1ms").contains("`total.p99`"));
        assert!(wrong("total.p99").contains("no `=`"));
        assert!(wrong("total.p99=50").contains("no unit"));
        assert!(wrong("errors=-1").contains("invalid number"));
        assert!(wrong("errors=nan%").contains("invalid number"));
    }

    #[test]
    fn a_bound_is_kept_as_it_was_written() {
        let bound = Bound::parse(" lag.p99 = 1ms ", Direction::Max).unwrap();
        let json = serde_json::to_string(&bound).unwrap();
        assert_eq!(json, r#"{"max":"lag.p99 = 1ms"}"#);
        assert_eq!(serde_json::from_str::<Bound>(&json).unwrap(), bound);
        let refused = serde_json::from_str::<Bound>(r#"{"min":"nothing=1"}"#).unwrap_err();
        assert!(refused.to_string().contains("there is no `nothing`"), "{refused}");
    }
}
