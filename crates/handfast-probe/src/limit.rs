//! Bounds on what is found: `appconnect=60ms`, `resumed.handshake.p95=30ms`.
//!
//! In: the text of an option, then a report. Out: whether the bound holds.

use std::time::Duration;

use handfast_text::bound::{BoundError, Names, Statistic, Value};

use crate::report::{Kind, LimitReport, Report, Spread};

/// Names of the figures that can be bounded. Users of curl may write `time_` in front.
const NAMES: Names = Names {
    kinds: &["resumed"],
    times: &[
        "appconnect",
        "namelookup",
        "connect",
        "pretransfer",
        "starttransfer",
        "total",
        "handshake",
        "server",
        "rtt",
    ],
    ignored_prefix: "time_",
    numbers: &[],
    statistics: &["min", "p50", "p95", "max"],
    any_percentile: false,
};

/// One bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    text: String,
    resumed: bool,
    figure: &'static str,
    statistic: Statistic,
    most: Duration,
}

impl Limit {
    /// Reads `[resumed.]FIGURE[.STATISTIC]=TIME`; without a statistic the median counts.
    ///
    /// **Errors**: what is wrong, and what is expected.
    pub fn parse(text: &str) -> Result<Self, BoundError> {
        let bound = NAMES.parse(text)?;
        let Value::Time(statistic, most) = bound.value else { unreachable!("NAMES has only times") };
        let (resumed, figure) = (bound.kind.is_some(), bound.figure);
        Ok(Self { text: text.to_owned(), resumed, figure, statistic, most })
    }

    /// Returns true if it needs a request to be made.
    pub fn needs_request(&self) -> bool {
        matches!(self.figure, "pretransfer" | "starttransfer" | "total")
    }

    /// Judges a report; a missing figure violates the bound.
    pub(crate) fn judge(&self, report: &Report) -> LimitReport {
        let kind = if self.resumed { report.resumed.as_ref() } else { Some(&report.full) };
        let of = |kind: &Kind| -> Option<Spread> {
            match self.figure {
                "namelookup" => Some(kind.timers.namelookup),
                "connect" => Some(kind.timers.connect),
                "appconnect" => Some(kind.timers.appconnect),
                "pretransfer" => kind.timers.pretransfer,
                "starttransfer" => kind.timers.starttransfer,
                "total" => kind.timers.total,
                "handshake" => Some(kind.handshake_ms),
                "server" => Some(kind.server_ms),
                _ => Some(report.rtt_ms),
            }
        };
        let found_ms =
            kind.and_then(of).filter(|spread| spread.count > 0).map(|spread| match self.statistic {
                Statistic::Min => spread.min,
                Statistic::Max => spread.max,
                Statistic::Quantile(quantile) if quantile > 0.5 => spread.p95,
                Statistic::Quantile(_) | Statistic::Mean => spread.p50,
            });
        let held = found_ms.is_some_and(|found| found <= self.most.as_secs_f64() * 1e3);
        LimitReport { bound: self.text.clone(), found_ms, held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_and_mistakes_named() {
        let limit = Limit::parse("resumed.handshake.p95=30ms").expect("a bound");
        assert_eq!(
            (limit.resumed, limit.figure, limit.statistic),
            (true, "handshake", Statistic::Quantile(0.95))
        );
        assert_eq!(Limit::parse("time_appconnect=60ms").expect("curl's name").figure, "appconnect");
        assert!(Limit::parse("total=1s").expect("a bound").needs_request());
        for (wrong, why) in [
            ("appconnect", "no `=`, expected a figure and its value such as appconnect.p95=50ms"),
            ("apconnect=60ms", "appconnect"),
            ("connect.p99=1ms", "p95"),
            ("connect=fast", "invalid duration `fast`"),
        ] {
            let message = Limit::parse(wrong).expect_err(wrong).to_string();
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn a_bound_holds_up_to_itself_and_never_without_a_figure() {
        let mut report = crate::advice::tests::sample();
        report.full.timers.connect = Spread { count: 9, min: 21.0, p50: 22.0, p95: 23.0, max: 24.0 };
        report.full.timers.total = None;
        report.resumed = None;
        let judged = |text: &str| {
            let judged = Limit::parse(text).expect(text).judge(&report);
            (judged.held, judged.found_ms)
        };
        for (statistic, found) in [("min", 21.0), ("p50", 22.0), ("p95", 23.0), ("max", 24.0)] {
            assert_eq!(judged(&format!("connect.{statistic}={found}ms")), (true, Some(found)));
            assert_eq!(judged(&format!("connect.{statistic}={}ms", found - 0.5)), (false, Some(found)));
        }
        assert_eq!(judged("connect=22ms"), (true, Some(22.0)), "the median, where nothing else is said");
        assert_eq!(judged("total=1h"), (false, None));
        assert_eq!(judged("resumed.connect=1h"), (false, None));
    }
}
