//! The live figures of a run, served over HTTP.
//!
//! In: the lines of [`crate::live`], as they come. Out: counters since the start of the run, and gauges of its last second.

use std::collections::BTreeMap;

use super::Exposition;
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
        let mut text = Exposition(String::new());
        text.family("live", "info", "", "What is run.");
        text.sample("live_info", &[("work", &self.begin.work), ("part", &self.begin.part)], 1.0);
        text.counter("live_seconds", "seconds", "Seconds of the run that are over.", &[(&[], self.seconds)]);
        self.counters(&mut text);
        let gauge =
            |name: &str, help: &str, value: f64, text: &mut Exposition| text.gauge(name, "", help, value);
        let last = &self.last;
        if let Some(rate) = last.offered_rate {
            gauge("live_offered_rate", "Transactions a second that the model asks for.", rate, &mut text);
        }
        gauge("live_in_flight", "Transactions under way.", last.in_flight as f64, &mut text);
        gauge(
            "live_open_connections",
            "Open connections, of those that are kept.",
            last.open as f64,
            &mut text,
        );
        text.family(
            "live_latency_seconds",
            "gauge",
            "seconds",
            "Latencies of what ended in the last second, by step.",
        );
        for series in &last.series {
            quantiles(&mut text, "live_latency_seconds", &[("step", &series.name)], series);
        }
        self.parts(&mut text, "client", &self.sum.members, &last.members);
        self.parts(&mut text, "request", &self.sum.requests, &last.requests);
        text.0.push_str("# EOF\n");
        text.0
    }

    fn counters(&self, text: &mut Exposition) {
        let sum = &self.sum;
        let rows = [
            ("live_started", "", "Transactions that started.", sum.started),
            ("live_done", "", "Transactions that succeeded.", sum.done),
            ("live_failed", "", "Transactions and connections that failed.", sum.failed),
            ("live_queued", "", "Transactions that had to wait for a free connection.", sum.queued),
            ("live_connections", "", "Connections started.", sum.connections),
            ("live_sent_bytes", "bytes", "Application bytes sent.", sum.sent_bytes),
            ("live_received_bytes", "bytes", "Application bytes received.", sum.received_bytes),
        ];
        for (name, unit, help, value) in rows {
            text.counter(name, unit, help, &[(&[], value)]);
        }
        let kinds: [(&[(&str, &str)], u64); 2] =
            [(&[("kind", "full")], sum.full), (&[("kind", "resumed")], sum.resumed)];
        text.counter("live_handshakes", "", "Handshakes.", &kinds);
        text.family("live_errors", "counter", "", "Failures by step and cause.");
        for ((step, cause), count) in &self.errors {
            text.sample("live_errors_total", &[("step", step), ("cause", cause)], *count as f64);
        }
    }

    /// What each kind of client did, or each request.
    fn parts(&self, text: &mut Exposition, what: &str, sums: &[Part], last: &[Part]) {
        if sums.is_empty() {
            return;
        }
        for (outcome, of) in
            [("done", (|part| part.done) as fn(&Part) -> u64), ("failed", |part| part.failed)]
        {
            let name = format!("live_{what}_{outcome}");
            text.family(&name, "counter", "", &format!("Of each {what}."));
            for part in sums {
                text.sample(&format!("{name}_total"), &[(what, &part.name)], of(part) as f64);
            }
        }
        let (name, of) =
            (format!("live_{what}_latency_seconds"), if what == "client" { "handshake" } else { "exchange" });
        text.family(&name, "gauge", "seconds", &format!("The {of} of each {what} in the last second."));
        for part in last {
            if let Some(series) = &part.series {
                quantiles(text, &name, &[(what, &part.name)], series);
            }
        }
    }
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

fn quantiles(text: &mut Exposition, name: &str, labels: &[(&str, &str)], series: &Series) {
    let quantiles = [("p50", "0.5"), ("p90", "0.9"), ("p99", "0.99"), ("p99.9", "0.999")];
    for (percentile, quantile) in quantiles {
        if let Some(nanos) = series.percentiles_ns.get(percentile) {
            let labels = [labels, &[("quantile", quantile)]].concat();
            text.sample(name, &labels, *nanos as f64 / 1e9);
        }
    }
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
