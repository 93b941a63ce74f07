//! The run's figures as text that both OpenMetrics (version 1.0) and Prometheus' own text format (0.0.4) allow: node_exporter's
//! text-file collector reads the latter, and rejects a file with a type such as `info`.
//!
//! In: a report. Out: text that ends with `# EOF`. The run is over, so all counts are gauges: a counter's family and its samples have
//! different names in OpenMetrics, and equal ones in Prometheus' format. **Units**: base units, seconds and bytes, also where the JSON report has
//! nanoseconds. One family after the other, since families must not mix.

use std::fmt::Write;

use crate::csv::number;
use crate::model::{Report, VerdictWord};
use crate::words::main_series;

mod live;

pub use live::LiveMetrics;

/// What every family's name begins with.
const PREFIX: &str = "handfast_load";

/// Labels of one sample.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// The whole exposition.
pub fn to_openmetrics(report: &Report) -> String {
    let mut text = Exposition(String::new());
    about(report, &mut text);
    counts(report, &mut text);
    rates(report, &mut text);
    latencies(report, &mut text);
    circumstances(report, &mut text);
    text.0.push_str("# EOF\n");
    text.0
}

struct Exposition(String);

impl Exposition {
    /// Begins a family. A unit, when there is one, must end its name.
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let _ = writeln!(self.0, "# TYPE {PREFIX}_{name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {PREFIX}_{name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {PREFIX}_{name} {}", escaped(help));
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        let _ = write!(self.0, "{PREFIX}_{name}");
        let pairs = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        if !labels.is_empty() {
            let _ = write!(self.0, "{{{}}}", pairs.collect::<Vec<_>>().join(","));
        }
        let _ = match value {
            value if value.is_nan() => writeln!(self.0, " NaN"),
            value if value.is_infinite() => writeln!(self.0, " {}Inf", if value > 0.0 { '+' } else { '-' }),
            value => writeln!(self.0, " {value}"),
        };
    }

    fn gauge(&mut self, name: &str, unit: &str, help: &str, value: f64) {
        self.family(name, "gauge", unit, help);
        self.sample(name, &[], value);
    }

    fn counts(&mut self, name: &str, unit: &str, help: &str, rows: &[(Labels<'_>, u64)]) {
        self.family(name, "gauge", unit, help);
        for (labels, value) in rows {
            self.sample(name, labels, *value as f64);
        }
    }

    fn counter(&mut self, name: &str, unit: &str, help: &str, rows: &[(Labels<'_>, u64)]) {
        self.family(name, "counter", unit, help);
        for (labels, value) in rows {
            self.sample(&format!("{name}_total"), labels, *value as f64);
        }
    }
}

/// Backslash, quote and end of line, as label values have them; help text takes the same.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn about(report: &Report, text: &mut Exposition) {
    let manifest = &report.manifest;
    text.family("run_info", "gauge", "", "What was run.");
    let labels = [
        ("schema", report.schema.as_str()),
        ("program", &manifest.program),
        ("started", &manifest.started),
        ("work", &report.work),
        ("verification", &report.mix.verification),
    ];
    text.sample("run_info", &labels, 1.0);
    text.family("verdict", "gauge", "", "What the figures are worth: 1 of the verdict, 0 of the others.");
    let words = [
        VerdictWord::Valid,
        VerdictWord::GeneratorLimited,
        VerdictWord::PortLimited,
        VerdictWord::TargetLimited,
        VerdictWord::Errors,
    ];
    for word in words {
        let value = if word == report.verdict.word { 1.0 } else { 0.0 };
        text.sample("verdict", &[("verdict", word.name())], value);
    }
}

fn counts(report: &Report, text: &mut Exposition) {
    let (totals, mix) = (&report.totals, &report.mix);
    let ended: [(Labels<'_>, u64); 2] =
        [(&[("result", "ok")], totals.transactions), (&[("result", "failed")], totals.failed)];
    text.counts("transactions", "", "Transactions by how they ended.", &ended);
    text.counts("exchanges", "", "Exchanges that succeeded.", &[(&[], totals.exchanges)]);
    text.counts("connections", "", "Connections started, warm-up included.", &[(&[], totals.connections)]);
    text.counts("sent_bytes", "bytes", "Application bytes sent.", &[(&[], totals.sent_bytes)]);
    text.counts("received_bytes", "bytes", "Application bytes received.", &[(&[], totals.received_bytes)]);
    let kinds: [(Labels<'_>, u64); 2] =
        [(&[("kind", "full")], mix.full), (&[("kind", "resumed")], mix.resumed)];
    text.counts("handshakes", "", "Handshakes by kind.", &kinds);
    text.counts("hello_retries", "", "Full handshakes with a HelloRetryRequest.", &[(&[], mix.hello_retry)]);
    let early: [(Labels<'_>, u64); 2] = [
        (&[("result", "accepted")], mix.early_data_accepted),
        (&[("result", "refused")], mix.early_data_refused),
    ];
    text.counts("early_data", "", "0-RTT data offered, by the answer.", &early);
    text.family("agreed_handshakes", "gauge", "", "Handshakes by version, suite and group.");
    for (what, count) in &mix.agreed {
        text.sample("agreed_handshakes", &[("agreed", what)], *count as f64);
    }
    text.family("http_responses", "gauge", "", "HTTP responses by class.");
    for (class, count) in &totals.http_status {
        text.sample("http_responses", &[("class", class)], *count as f64);
    }
    text.family("errors", "gauge", "", "Failures by step and cause.");
    for row in &report.errors {
        text.sample("errors", &[("step", &row.step), ("cause", &row.cause)], row.count as f64);
    }
}

fn rates(report: &Report, text: &mut Exposition) {
    let totals = &report.totals;
    text.gauge("duration_seconds", "seconds", "Length of the measured part.", totals.duration_seconds);
    text.gauge("transaction_rate", "", "Transactions a second that succeeded.", totals.rate);
    text.gauge("exchange_rate", "", "Exchanges a second that succeeded.", totals.exchange_rate);
    if let Some(offered) = totals.offered_rate {
        text.gauge("offered_rate", "", "Transactions a second that were asked for.", offered);
    }
}

fn latencies(report: &Report, text: &mut Exposition) {
    text.family("latency_seconds", "summary", "seconds", "Latencies by step.");
    for series in &report.series {
        let step = ("step", series.name.as_str());
        let mut named: Vec<(f64, u64)> =
            series.percentiles_ns.iter().map(|(name, ns)| (number(name), *ns)).collect();
        named.retain(|(percent, _)| (0.0..=100.0).contains(percent));
        named.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (percent, nanos) in named {
            // Through decimal text, so that 99.9 is 0.999 and not 0.9990000000000001.
            let quantile = format!("{:.7}", percent / 100.0);
            let quantile = quantile.trim_end_matches('0').trim_end_matches('.');
            text.sample("latency_seconds", &[step, ("quantile", quantile)], nanos as f64 / 1e9);
        }
        text.sample("latency_seconds_count", &[step], series.count as f64);
        text.sample("latency_seconds_sum", &[step], series.mean_ns * series.count as f64 / 1e9);
    }
    text.family("latency_max_seconds", "gauge", "seconds", "Greatest latency by step.");
    for series in &report.series {
        text.sample("latency_max_seconds", &[("step", &series.name)], series.max_ns as f64 / 1e9);
    }
    if let Some(main) = main_series(report) {
        text.family("main_step_info", "gauge", "", "The step that the run is judged by.");
        text.sample("main_step_info", &[("step", &main.name)], 1.0);
    }
}

fn circumstances(report: &Report, text: &mut Exposition) {
    text.family("worker_cpu_ratio", "gauge", "ratio", "Mean CPU use of a worker's generator threads.");
    for (place, worker) in report.workers.iter().enumerate() {
        // Two workers may have the same name: the number distinguishes them.
        let labels = [("worker", worker.name.as_str()), ("index", &place.to_string())];
        text.sample("worker_cpu_ratio", &labels, worker.cpu);
    }
    text.family("limit_held", "gauge", "", "Whether a limit that was asked for held: 1 or 0.");
    for (place, limit) in report.limits.iter().enumerate() {
        let labels = [("limit", limit.wanted.as_str()), ("index", &place.to_string())];
        text.sample("limit_held", &labels, f64::from(u8::from(limit.held)));
    }
    if let Some(server) = &report.server {
        text.gauge(
            "server_cpu_seconds",
            "seconds",
            "CPU time of the server's processes.",
            server.cpu_seconds,
        );
        let resident = server.resident_bytes as f64;
        text.gauge(
            "server_resident_bytes",
            "bytes",
            "Greatest resident memory of the server's processes.",
            resident,
        );
    }
    if let Some(highest) = report.search.as_ref().and_then(|search| search.highest_rate) {
        text.gauge("highest_rate", "", "Highest rate that held the searched bound.", highest);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::made_up;

    /// The rules of OpenMetrics 1.0 that a writer can break, checked line by line.
    fn check(text: &str) -> usize {
        let (mut family, mut kind) = (String::new(), String::new());
        let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
        let body = text.strip_suffix("# EOF\n").expect("it does not end with # EOF");
        for line in body.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                let (what, name, rest) =
                    (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
                match what {
                    "TYPE" => {
                        (family, kind) = (name.into(), rest.into());
                        assert!(families.insert(name.to_owned()), "{name} comes twice");
                        assert!(!name.ends_with("_total"), "{name} has a suffix");
                        // The types of Prometheus' own text format.
                        assert!(["gauge", "summary"].contains(&rest), "{line}");
                    }
                    "UNIT" => assert!(name == family && name.ends_with(rest), "{line}"),
                    "HELP" => assert_eq!(name, family),
                    other => panic!("unknown: # {other}"),
                }
                continue;
            }
            let (sample, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(samples.insert(sample.to_owned()), "{sample} comes twice");
            let name = sample.split('{').next().unwrap();
            let suffix =
                name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{name} within {family}"));
            let allowed: &[&str] = match kind.as_str() {
                "summary" => &["", "_count", "_sum"],
                _ => &[""],
            };
            assert!(allowed.contains(&suffix), "{name} in a {kind}");
        }
        samples.len()
    }

    #[test]
    fn it_keeps_the_formats_rules() {
        let mut report = made_up::report();
        report.errors[0].cause = "a \"b\"\\\nc".into();
        report.limits.push(report.limits[0].clone());
        let text = to_openmetrics(&report);
        assert!(check(&text) > 60, "{text}");
        assert!(text.contains(r#"cause="a \"b\"\\\nc"}"#), "{text}");
        assert!(check(&to_openmetrics(&Report::default())) > 5);
    }

    #[test]
    fn latencies_are_in_seconds() {
        let report = made_up::report();
        let text = to_openmetrics(&report);
        let nanos = report.series[0].percentiles_ns["p99.9"];
        let line = format!(
            "handfast_load_latency_seconds{{step=\"connect\",quantile=\"0.999\"}} {}\n",
            nanos as f64 / 1e9
        );
        assert!(text.contains(&line), "no {line} in {text}");
        assert!(text.contains("# UNIT handfast_load_latency_seconds seconds\n"));
    }
}
