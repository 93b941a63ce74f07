//! Bounds on figures as people type them: `handshake.p99=50ms`, `errors=1%`, `rate=1000`.
//!
//! In: text, and the [`Names`] that a tool knows. Out: a [`Bound`], or a [`BoundError`] with what was given and what is expected.
//! One grammar for all tools: `[KIND.]FIGURE[.STATISTIC]=VALUE`, where a time without a statistic is the median's.

use std::fmt;
use std::time::Duration;

use crate::duration::{self, DurationError};
use crate::suggest::did_you_mean_or_all;

/// Names of the figures that a tool can bound.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Words that may stand in front of a time: of which kind of connection it is.
    pub kinds: &'static [&'static str],
    /// Figures that are times.
    pub times: &'static [&'static str],
    /// A prefix of times that means nothing: other tools write it.
    pub ignored_prefix: &'static str,
    /// Figures that are one number.
    pub numbers: &'static [(&'static str, Unit)],
    /// Statistics of a time. For others than these see `any_percentile`.
    pub statistics: &'static [&'static str],
    /// True if any percentile is a figure, such as `p37.5`.
    pub any_percentile: bool,
}

/// The unit of a figure that is one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number, or a share of all: `10`, `1%`.
    Count,
    /// A number a second: `1000`, `1000/s`.
    Rate,
}

/// A statistic of a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The least.
    Min,
    /// The arithmetic mean.
    Mean,
    /// The greatest.
    Max,
    /// A quantile, 0 to 1.
    Quantile(f64),
}

/// The value of a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of a time's statistic.
    Time(Statistic, Duration),
    /// A number.
    Number(f64),
    /// A share, 0 to 1.
    Share(f64),
}

/// A bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// As it was written, with its statistic.
    pub written: String,
    /// The word in front.
    pub kind: Option<&'static str>,
    /// Figure that is bounded.
    pub figure: &'static str,
    /// The most or the least it may be.
    pub value: Value,
}

/// A bound that cannot be read. Its `Display` is the whole sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundError {
    written: String,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    NoValue { example: &'static str },
    UnknownFigure { word: String, known: Vec<&'static str> },
    UnknownStatistic { figure: &'static str, word: String, known: &'static [&'static str] },
    Number(String),
    Duration(DurationError),
}

impl fmt::Display for BoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bound `{}`: ", self.written)?;
        match &self.fault {
            Fault::NoValue { example } => {
                write!(f, "no `=`, expected a figure and its value such as {example}.p95=50ms")
            }
            Fault::UnknownFigure { word, known } => {
                write!(f, "unknown figure `{word}`; {}", did_you_mean_or_all(word, known))
            }
            Fault::UnknownStatistic { figure, word, known } => {
                write!(f, "{figure} has no `{word}`; {}", did_you_mean_or_all(word, known))
            }
            Fault::Number(text) => write!(f, "invalid number `{text}`, expected one from 0"),
            Fault::Duration(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BoundError {}

impl Names {
    /// Reads a bound.
    ///
    /// **Errors**: what is wrong and what is expected, in one line.
    pub fn parse(&self, written: &str) -> Result<Bound, BoundError> {
        let written = written.trim();
        self.read(written).map_err(|fault| BoundError { written: written.to_owned(), fault })
    }

    fn read(&self, written: &str) -> Result<Bound, Fault> {
        let example = self.times.first().copied().unwrap_or_default();
        let (name, value) = written.split_once('=').ok_or(Fault::NoValue { example })?;
        let (name, value) = (name.trim(), value.trim());
        if let Some((figure, unit)) = self.numbers.iter().find(|(known, _)| *known == name) {
            let value = number_of(value, *unit)?;
            return Ok(Bound { written: written.to_owned(), kind: None, figure, value });
        }
        let in_front = |kind: &&str| name.split_once('.').is_some_and(|(first, _)| first == *kind);
        let kind = self.kinds.iter().copied().find(in_front);
        let rest = kind.map_or(name, |kind| &name[kind.len() + 1..]);
        let (word, statistic) = rest.split_once('.').map_or((rest, None), |(word, rest)| (word, Some(rest)));
        let plain = word.strip_prefix(self.ignored_prefix).unwrap_or(word);
        let figure = self.times.iter().copied().find(|known| *known == plain).ok_or_else(|| {
            let numbers = self.numbers.iter().map(|(name, _)| *name);
            Fault::UnknownFigure {
                word: word.to_owned(),
                known: self.times.iter().copied().chain(numbers).collect(),
            }
        })?;
        let known = self.statistic(statistic.unwrap_or("p50")).ok_or_else(|| Fault::UnknownStatistic {
            figure,
            word: statistic.unwrap_or_default().to_owned(),
            known: self.statistics,
        })?;
        let time = duration::parse(value).map_err(Fault::Duration)?;
        let written = match statistic {
            Some(_) => written.to_owned(),
            None => format!("{name}.p50={value}"),
        };
        Ok(Bound { written, kind, figure, value: Value::Time(known, time) })
    }

    /// `mean`, `max`, `min`, or `p` with a percentile between 0 and 100.
    fn statistic(&self, word: &str) -> Option<Statistic> {
        if !self.any_percentile && !self.statistics.contains(&word) {
            return None;
        }
        match word {
            "mean" => Some(Statistic::Mean),
            "max" => Some(Statistic::Max),
            "min" => Some(Statistic::Min),
            _ => {
                let digits =
                    word.strip_prefix('p').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
                let percent = digits.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
                Some(Statistic::Quantile(percent / 100.0))
            }
        }
    }
}

fn number_of(value: &str, unit: Unit) -> Result<Value, Fault> {
    match (unit, value.strip_suffix('%')) {
        (Unit::Count, Some(percent)) => number(percent).map(|percent| Value::Share(percent / 100.0)),
        (Unit::Count, None) => number(value).map(Value::Number),
        (Unit::Rate, _) => number(value.strip_suffix("/s").unwrap_or(value)).map(Value::Number),
    }
}

/// A number that is not negative.
fn number(text: &str) -> Result<f64, Fault> {
    let plain = text.trim().replace('_', "");
    let value = plain.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| Fault::Number(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names {
        kinds: &["resumed"],
        times: &["handshake", "total"],
        ignored_prefix: "time_",
        numbers: &[("errors", Unit::Count), ("rate", Unit::Rate)],
        statistics: &["min", "p50", "p95", "max"],
        any_percentile: false,
    };

    fn time(text: &str) -> (Option<&'static str>, &'static str, Statistic, Duration) {
        let bound = NAMES.parse(text).unwrap_or_else(|error| panic!("{error}"));
        let Value::Time(statistic, time) = bound.value else { panic!("{bound:?}") };
        (bound.kind, bound.figure, statistic, time)
    }

    #[test]
    fn times_have_a_kind_a_figure_and_a_statistic() {
        let ms = Duration::from_millis;
        assert_eq!(time("handshake.p95=30ms"), (None, "handshake", Statistic::Quantile(0.95), ms(30)));
        assert_eq!(time(" resumed.total.max = 1s "), (Some("resumed"), "total", Statistic::Max, ms(1000)));
        assert_eq!(time("time_total=5ms"), (None, "total", Statistic::Quantile(0.5), ms(5)));
        assert_eq!(NAMES.parse("resumed.total=5ms").expect("good").written, "resumed.total.p50=5ms");
        let any = Names { any_percentile: true, ..NAMES };
        let written = any.parse("total.p37.5=1ms").expect("any percentile");
        assert_eq!(written.value, Value::Time(Statistic::Quantile(0.375), ms(1)));
        assert_eq!(
            any.parse("total.mean=1ms").map(|bound| bound.value),
            Ok(Value::Time(Statistic::Mean, ms(1)))
        );
    }

    #[test]
    fn numbers_have_units() {
        let value = |text: &str| NAMES.parse(text).map(|bound| bound.value);
        assert_eq!(value("errors=10"), Ok(Value::Number(10.0)));
        assert_eq!(value("errors=1 %"), Ok(Value::Share(0.01)));
        assert_eq!(value("rate=1_000/s"), Ok(Value::Number(1000.0)));
        assert!(value("rate=1%").is_err() && value("errors=1/s").is_err() && value("rate=nan").is_err());
    }

    #[test]
    fn durations_have_units() {
        let read = ["50ms", "1.5s", "200us", "200\u{b5}s", "200\u{3bc}s", "100ns", "2m", "1 ms"]
            .map(|text| time(&format!("total.max={text}")).3.as_nanos());
        assert_eq!(
            read,
            [50_000_000, 1_500_000_000, 200_000, 200_000, 200_000, 100, 120_000_000_000, 1_000_000]
        );
        for wrong in ["50", "ms", "-1ms", "1e400s", "nans", "", "1 2ms"] {
            assert!(NAMES.parse(&format!("total.max={wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_bound_says_what_would_be_right() {
        for (text, written) in [
            ("total", "bound `total`: no `=`, expected a figure and its value such as handshake.p95=50ms"),
            ("handshak.p95=1ms", "unknown figure `handshak`; did you mean `handshake`?"),
            ("error=0", "did you mean `errors`?"),
            ("nothing=0", "there are `handshake`, `total`, `errors` and `rate`"),
            ("total.p99=1ms", "total has no `p99`; did you mean"),
            ("total.mean=1ms", "total has no `mean`; "),
            ("total.p101=1ms", "total has no `p101`"),
            ("total.p95=50", "no unit"),
            ("errors=-1", "invalid number `-1`, expected one from 0"),
            ("errors=nan%", "invalid number `nan`"),
        ] {
            let found = NAMES.parse(text).expect_err(text).to_string();
            assert!(found.contains(written), "{text}: {found}");
        }
    }
}
