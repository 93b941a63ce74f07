//! Reports a run while it is in progress.
//!
//! In: the plan, then its seconds as they are merged. Out: the lines of [`handfast_report::live`].

use handfast_report::live::{Begin, Failure, Part, SCHEMA, Second, Series as Row};
use handfast_stats::Histogram;

use crate::plan::{Plan, Work};
use crate::sample::Interval;

/// Percentiles that are reported for each second.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A run that is reported while it goes on.
#[derive(Debug)]
pub struct Live {
    plan: Plan,
    started: u64,
    ended: u64,
}

impl Live {
    /// A run without any report.
    pub fn new(plan: &Plan) -> Self {
        Self { plan: plan.clone(), started: 0, ended: 0 }
    }

    /// Describes the work of the run; `part` is the step of a search.
    pub fn begin(&self, part: &str) -> Begin {
        Begin {
            schema: SCHEMA.to_owned(),
            part: part.to_owned(),
            work: super::work_sentence(&self.plan),
            duration_seconds: self.plan.duration.as_secs_f64(),
            members: self.plan.mix.iter().map(|member| member.name.clone()).collect(),
        }
    }

    /// The next second. **Cost**: a few percentiles of each histogram.
    pub fn second(&mut self, interval: &Interval) -> Second {
        let tally = &interval.tally;
        self.started += tally.started;
        self.ended += tally.ended;
        let stand = matches!(self.plan.work, Work::Bulk { .. } | Work::Idle { .. });
        let series = interval.series.iter();
        let errors = interval.failures.iter().map(|failures| Failure {
            step: failures.step.name().to_owned(),
            cause: failures.cause.name().to_owned(),
            count: failures.count,
        });
        Second {
            schema: SCHEMA.to_owned(),
            second: interval.second,
            measured: f64::from(interval.second) < self.plan.duration.as_secs_f64(),
            offered_rate: offered(&self.plan, interval.second),
            started: tally.started,
            done: tally.transactions,
            failed: tally.failed,
            in_flight: if stand { tally.open } else { self.started.saturating_sub(self.ended) },
            open: tally.open,
            queued: tally.queued,
            connections: tally.connections,
            full: tally.full,
            resumed: tally.resumed,
            sent_bytes: tally.sent,
            received_bytes: tally.received,
            series: series.filter_map(|(series, samples)| row(series.name(), samples)).collect(),
            errors: errors.collect(),
            members: self.members(interval),
            requests: self.requests(interval),
        }
    }

    fn members(&self, interval: &Interval) -> Vec<Part> {
        let all = self.plan.mix.iter().zip(&interval.members);
        let part = |(member, sample): (&crate::plan::Member, &crate::sample::MemberSample)| Part {
            name: member.name.clone(),
            done: sample.transactions,
            failed: sample.failed,
            series: row("handshake", &sample.handshake),
        };
        all.map(part).collect()
    }

    fn requests(&self, interval: &Interval) -> Vec<Part> {
        let all = self.plan.requests().iter().zip(&interval.requests);
        let part = |(request, sample): (&crate::plan::Request, &crate::sample::RequestSample)| Part {
            name: request.name(),
            done: sample.done,
            failed: sample.failed,
            series: row("exchange", &sample.exchange),
        };
        all.map(part).collect()
    }
}

fn row(name: &str, samples: &Histogram) -> Option<Row> {
    (!samples.is_empty()).then(|| Row {
        name: name.to_owned(),
        count: samples.count(),
        percentiles_ns: super::percentiles(samples, &PERCENTILES),
        max_ns: samples.max_nanos(),
    })
}

/// The model's rate in a second.
fn offered(plan: &Plan, second: u32) -> Option<f64> {
    let (rates, whole, from) = (plan.rates()?, plan.duration.as_secs_f64(), f64::from(second));
    let until = (from + 1.0).min(whole);
    Some(if from < whole { (rates.due(until) - rates.due(from)) / (until - from) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::{Arrivals, Model};
    use crate::sample::Series;

    #[test]
    fn what_is_under_way_is_what_began_and_did_not_end() {
        let model = Model::ramp(0.0, 40.0, Arrivals::Fixed);
        let plan = Plan { model, duration: Duration::from_secs(4), ..Plan::default() };
        let mut live = Live::new(&plan);
        let second = |second, started, ended, transactions| {
            let mut interval = Interval { second, ..Interval::default() };
            (interval.tally.started, interval.tally.ended) = (started, ended);
            interval.tally.transactions = transactions;
            interval
        };
        let mut first = second(0, 5, 2, 2);
        first.series.entry(Series::Total).or_default().record_nanos(1_000_000);
        let first = live.second(&first);
        assert_eq!((first.in_flight, first.offered_rate, first.measured), (3, Some(5.0), true));
        assert_eq!((first.series[0].name.as_str(), first.series[0].count), ("total", 1));
        assert_eq!(live.second(&second(1, 10, 12, 11)).in_flight, 1);
        let last = live.second(&second(4, 0, 1, 1));
        assert_eq!((last.in_flight, last.offered_rate, last.measured), (0, Some(0.0), false));
    }
}
