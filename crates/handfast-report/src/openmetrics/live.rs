//! The live figures of a run, served over HTTP.
//!
//! In: the lines of [`crate::live`], as they come. Out: counters since the start of the run, and gauges of its last second.

use std::collections::BTreeMap;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{Exposition, Sample, of, only};
use crate::live::{Begin, Line, Part, Second, Series};

/// A run so far.
#[derive(Clone, Debug, Default)]
pub struct LiveMetrics {
    begin: Begin,
    seconds: u64,
    last: Second,
    /// Sums of the seconds' counts.
    sum: Second,
    /// Failures by step and cause.
    errors: BTreeMap<(String, String), u64>,
}

impl LiveMetrics {
    /// Adds a line. A new run starts at 0, like a restarted process.
    pub fn take(&mut self, line: &Line) {
        match line {
            Line::Begin(begin) => *self = Self { begin: begin.clone(), ..Self::default() },
            Line::Second(second) => self.add(second),
            Line::End(_) => {}
        }
    }

    fn add(&mut self, second: &Second) {
        let sum = &mut self.sum;
        sum.started += second.started;
        sum.done += second.done;
        sum.failed += second.failed;
        sum.queued += second.queued;
        sum.connections += second.connections;
        sum.full += second.full;
        sum.resumed += second.resumed;
        sum.sent_bytes += second.sent_bytes;
        sum.received_bytes += second.received_bytes;
        add_parts(&mut sum.members, &second.members);
        add_parts(&mut sum.requests, &second.requests);
        for failure in &second.errors {
            *self.errors.entry((failure.step.clone(), failure.cause.clone())).or_default() += failure.count;
        }
        self.seconds += 1;
        self.last = second.clone();
    }

    /// The exposition.
    pub fn text(&self) -> String {
        let (mut to, last) = (Exposition::default(), &self.last);
        let labels = vec![("work", self.begin.work.clone()), ("part", self.begin.part.clone())];
        to.family(MetricType::Info, ("live", None), "What is run", [(labels, 1.0)]);
        self.counters(&mut to);
        if let Some(rate) = last.offered_rate {
            to.gauges("live_offered_rate", "Transactions a second that the model asks for", only(rate));
        }
        to.gauges("live_in_flight", "Transactions under way", only(last.in_flight as f64));
        let help = "Open connections, of those that are kept";
        to.gauges("live_open_connections", help, only(last.open as f64));
        let latencies = last.series.iter().flat_map(|series| quantiles("step", &series.name, series));
        to.seconds("live_latency", "Latencies of what ended in the last second, by step", latencies);
        parts(&mut to, "client", &self.sum.members, &last.members);
        parts(&mut to, "request", &self.sum.requests, &last.requests);
        to.text()
    }

    fn counters(&self, to: &mut Exposition) {
        let sum = &self.sum;
        let bytes = || Some(Unit::Bytes);
        let rows = [
            ("live", Some(Unit::Seconds), "Seconds of the run that are over", self.seconds),
            ("live_started", None, "Transactions that started", sum.started),
            ("live_done", None, "Transactions that succeeded", sum.done),
            ("live_failed", None, "Transactions and connections that failed", sum.failed),
            ("live_queued", None, "Transactions that had to wait for a free connection", sum.queued),
            ("live_connections", None, "Connections started", sum.connections),
            ("live_sent", bytes(), "Application bytes sent", sum.sent_bytes),
            ("live_received", bytes(), "Application bytes received", sum.received_bytes),
        ];
        for (name, unit, help, value) in rows {
            to.family(MetricType::Counter, (name, unit), help, only(value as f64));
        }
        let kinds = [("full", sum.full), ("resumed", sum.resumed)];
        let kinds = kinds.map(|(kind, count)| of("kind", kind, count as f64));
        to.family(MetricType::Counter, ("live_handshakes", None), "Handshakes", kinds);
        let errors = self.errors.iter().map(|((step, cause), count)| {
            (vec![("step", step.clone()), ("cause", cause.clone())], *count as f64)
        });
        to.family(MetricType::Counter, ("live_errors", None), "Failures by step and cause", errors);
    }
}

/// Writes the counters and latencies of each kind of client, or of each request.
fn parts(to: &mut Exposition, what: &'static str, sums: &[Part], last: &[Part]) {
    if sums.is_empty() {
        return;
    }
    for outcome in ["done", "failed"] {
        let count = |part: &Part| if outcome == "done" { part.done } else { part.failed };
        let samples = sums.iter().map(|part| of(what, &part.name, count(part) as f64));
        let name = format!("live_{what}_{outcome}");
        to.family(MetricType::Counter, (&name, None), &format!("Of each {what}"), samples);
    }
    let step = if what == "client" { "handshake" } else { "exchange" };
    let known = last.iter().filter_map(|part| Some((&part.name, part.series.as_ref()?)));
    let samples = known.flat_map(|(name, series)| quantiles(what, name, series));
    to.seconds(
        &format!("live_{what}_latency"),
        &format!("The {step} of each {what} in the last second"),
        samples,
    );
}

fn add_parts(sums: &mut Vec<Part>, parts: &[Part]) {
    if sums.is_empty() {
        sums.extend(parts.iter().map(|part| Part { name: part.name.clone(), ..Part::default() }));
    }
    for (sum, part) in sums.iter_mut().zip(parts) {
        sum.done += part.done;
        sum.failed += part.failed;
    }
}

/// Samples of some quantiles of a series.
fn quantiles(label: &'static str, name: &str, series: &Series) -> impl Iterator<Item = Sample> {
    let quantiles = [("p50", "0.5"), ("p90", "0.9"), ("p99", "0.99"), ("p99.9", "0.999")];
    quantiles.into_iter().filter_map(move |(percentile, quantile)| {
        let nanos = *series.percentiles_ns.get(percentile)?;
        Some((vec![(label, name.to_owned()), ("quantile", quantile.to_owned())], nanos as f64 / 1e9))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Failure;

    #[test]
    fn counts_add_up_and_gauges_are_the_last_seconds() {
        let mut metrics = LiveMetrics::default();
        metrics.take(&Line::Begin(Begin { work: "a \"b\"".into(), ..Begin::default() }));
        let part = Part { name: "old".into(), done: 2, ..Part::default() };
        let percentiles_ns = [("p99".to_owned(), 1_500_000)].into();
        let series = Series { name: "total".into(), count: 3, percentiles_ns, max_ns: 1 };
        let errors = vec![Failure { step: "connect".into(), cause: "refused".into(), count: 1 }];
        let second = Second {
            done: 3,
            failed: 1,
            in_flight: 7,
            offered_rate: Some(5.0),
            errors,
            series: vec![series],
            members: vec![part],
            ..Second::default()
        };
        metrics.take(&Line::Second(second.clone()));
        metrics.take(&Line::Second(Second { in_flight: 2, ..second }));
        let text = metrics.text();
        for line in [
            "handfast_load_live_info{work=\"a \\\"b\\\"\",part=\"\"} 1",
            "handfast_load_live_done_total 6",
            "handfast_load_live_in_flight 2",
            "handfast_load_live_offered_rate 5",
            "handfast_load_live_errors_total{step=\"connect\",cause=\"refused\"} 2",
            "handfast_load_live_latency_seconds{step=\"total\",quantile=\"0.99\"} 0.0015",
            "handfast_load_live_client_done_total{client=\"old\"} 4",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        metrics.take(&Line::Begin(Begin::default()));
        assert!(metrics.text().contains("handfast_load_live_done_total 0\n"), "a new run");
    }
}
