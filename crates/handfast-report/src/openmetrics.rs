//! The run's figures as OpenMetrics (version 1.0), which Prometheus' own text format (0.0.4) allows too: node_exporter's text-file
//! collector reads the latter, and rejects a file with a type such as `info`.
//!
//! In: a report. Out: text that ends with `# EOF`. The run is over, so all counts are gauges: a counter's family and its samples have
//! different names in OpenMetrics, and equal ones in Prometheus' format. **Units**: base units, seconds and bytes, also where the JSON report has
//! nanoseconds.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::csv::number;
use crate::model::{Report, VerdictWord};
use crate::words::main_series;

mod live;

pub use live::LiveMetrics;

/// Prefix of every family's name.
const PREFIX: &str = "handfast_load";

/// The family of the latencies.
const LATENCY: &str = "handfast_load_latency_seconds";

/// Labels of one sample, and its value.
type Sample = (Vec<(&'static str, String)>, f64);

/// A family: its name without the unit, which follows it.
#[derive(Debug)]
struct Family {
    name: String,
    unit: Option<Unit>,
    help: String,
    kind: MetricType,
    samples: Vec<Sample>,
}

#[derive(Debug, Default)]
struct Exposition(Vec<Family>);

/// The whole exposition.
pub fn to_openmetrics(report: &Report) -> String {
    let mut to = Exposition::default();
    about(report, &mut to);
    counts(report, &mut to);
    rates(report, &mut to);
    latencies(report, &mut to);
    circumstances(report, &mut to);
    with_summary(&to.text())
}

/// The same with the families of latencies as one summary: prometheus-client has no such type. It has written the samples; of the lines
/// about them, the first ones stay.
fn with_summary(text: &str) -> String {
    let (mut known, mut lines) = (Vec::new(), String::new());
    for line in text.lines() {
        if let ["#", what, name, _] = line.splitn(4, ' ').collect::<Vec<_>>()[..]
            && let Some("" | "_count" | "_sum") = name.strip_prefix(LATENCY)
        {
            if name != LATENCY || known.contains(&what) {
                continue;
            }
            known.push(what);
        }
        lines.push_str(line);
        lines.push('\n');
    }
    lines.replace(&format!("# TYPE {LATENCY} gauge"), &format!("# TYPE {LATENCY} summary"))
}

impl Exposition {
    fn family(
        &mut self,
        kind: MetricType,
        (name, unit): (&str, Option<Unit>),
        help: &str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        let (name, help) = (name.to_owned(), help.to_owned());
        self.0.push(Family { name, unit, help, kind, samples: samples.into_iter().collect() });
    }

    fn gauges(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
        self.family(MetricType::Gauge, (name, None), help, samples);
    }

    fn seconds(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
        self.family(MetricType::Gauge, (name, Some(Unit::Seconds)), help, samples);
    }

    fn text(self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        match text::encode(&mut text, &registry) {
            Ok(()) => text,
            Err(fmt::Error) => "# EOF\n".to_owned(),
        }
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for Family { name, unit, help, kind, samples } in &self.0 {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
            for (labels, value) in samples {
                match (kind, labels.is_empty()) {
                    (MetricType::Info, _) => family.encode_info(labels)?,
                    (_, true) => write(&mut family, *kind, *value)?,
                    (_, false) => write(&mut family.encode_family(labels)?, *kind, *value)?,
                }
            }
        }
        Ok(())
    }
}

/// A whole number is written as one.
fn write(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: f64) -> fmt::Result {
    match kind {
        MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&(value as u64), None),
        _ if value.fract() == 0.0 => encoder.encode_gauge(&(value as i64)),
        _ => encoder.encode_gauge(&value),
    }
}

/// A sample without labels.
fn only(value: f64) -> [Sample; 1] {
    [(Vec::new(), value)]
}

/// A sample with one label.
fn of(label: &'static str, word: &str, value: f64) -> Sample {
    (vec![(label, word.to_owned())], value)
}

fn about(report: &Report, to: &mut Exposition) {
    let manifest = &report.manifest;
    let labels = [
        ("schema", &report.schema),
        ("program", &manifest.program),
        ("started", &manifest.started),
        ("work", &report.work),
        ("verification", &report.mix.verification),
    ];
    let labels = labels.map(|(label, text)| (label, text.clone())).to_vec();
    to.gauges("run_info", "What was run", [(labels, 1.0)]);
    let words = [
        VerdictWord::Valid,
        VerdictWord::GeneratorLimited,
        VerdictWord::PortLimited,
        VerdictWord::TargetLimited,
        VerdictWord::Errors,
    ];
    let verdict = words.map(|word| of("verdict", word.name(), f64::from(word == report.verdict.word)));
    to.gauges("verdict", "What the figures are worth: 1 of the verdict, 0 of the others", verdict);
}

fn counts(report: &Report, to: &mut Exposition) {
    let (totals, mix) = (&report.totals, &report.mix);
    let split = |label, parts: [(&str, u64); 2]| parts.map(|(word, count)| of(label, word, count as f64));
    let bytes = |name| (name, Some(Unit::Bytes));
    let ended = split("result", [("ok", totals.transactions), ("failed", totals.failed)]);
    to.gauges("transactions", "Transactions by how they ended", ended);
    to.gauges("exchanges", "Exchanges that succeeded", only(totals.exchanges as f64));
    to.gauges("connections", "Connections started, warm-up included", only(totals.connections as f64));
    let (sent, received) = (only(totals.sent_bytes as f64), only(totals.received_bytes as f64));
    to.family(MetricType::Gauge, bytes("sent"), "Application bytes sent", sent);
    to.family(MetricType::Gauge, bytes("received"), "Application bytes received", received);
    let kinds = split("kind", [("full", mix.full), ("resumed", mix.resumed)]);
    to.gauges("handshakes", "Handshakes by kind", kinds);
    let retries = only(mix.hello_retry as f64);
    to.gauges("hello_retries", "Full handshakes with a HelloRetryRequest", retries);
    let early = split("result", [("accepted", mix.early_data_accepted), ("refused", mix.early_data_refused)]);
    to.gauges("early_data", "0-RTT data offered, by the answer", early);
    let agreed = mix.agreed.iter().map(|(what, count)| of("agreed", what, *count as f64));
    to.gauges("agreed_handshakes", "Handshakes by version, suite and group", agreed);
    let classes = totals.http_status.iter().map(|(class, count)| of("class", class, *count as f64));
    to.gauges("http_responses", "HTTP responses by class", classes);
    let errors = report
        .errors
        .iter()
        .map(|row| (vec![("step", row.step.clone()), ("cause", row.cause.clone())], row.count as f64));
    to.gauges("errors", "Failures by step and cause", errors);
}

fn rates(report: &Report, to: &mut Exposition) {
    let totals = &report.totals;
    to.seconds("duration", "Length of the measured part", only(totals.duration_seconds));
    to.gauges("transaction_rate", "Transactions a second that succeeded", only(totals.rate));
    to.gauges("exchange_rate", "Exchanges a second that succeeded", only(totals.exchange_rate));
    if let Some(offered) = totals.offered_rate {
        to.gauges("offered_rate", "Transactions a second that were asked for", only(offered));
    }
}

fn latencies(report: &Report, to: &mut Exposition) {
    for series in &report.series {
        let named = series.percentiles_ns.iter().map(|(name, ns)| (number(name), *ns));
        let mut named: Vec<(f64, u64)> =
            named.filter(|(percent, _)| (0.0..=100.0).contains(percent)).collect();
        named.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantiles = named.into_iter().map(|(percent, nanos)| {
            // Through decimal text, so that 99.9 is 0.999 and not 0.9990000000000001.
            let quantile = format!("{:.7}", percent / 100.0);
            let quantile = quantile.trim_end_matches('0').trim_end_matches('.').to_owned();
            (vec![("step", series.name.clone()), ("quantile", quantile)], nanos as f64 / 1e9)
        });
        to.seconds("latency", "Latencies by step", quantiles);
        let (count, step) = (series.count as f64, |value| [of("step", &series.name, value)]);
        to.gauges("latency_seconds_count", "", step(count));
        to.gauges("latency_seconds_sum", "", step(series.mean_ns * count / 1e9));
    }
    let greatest = report.series.iter().map(|series| of("step", &series.name, series.max_ns as f64 / 1e9));
    to.seconds("latency_max", "Greatest latency by step", greatest);
    if let Some(main) = main_series(report) {
        to.gauges("main_step_info", "The step that the run is judged by", [of("step", &main.name, 1.0)]);
    }
}

fn circumstances(report: &Report, to: &mut Exposition) {
    // Two workers may have the same name: the number distinguishes them.
    let numbered =
        |label, place: usize, name: &str| vec![(label, name.to_owned()), ("index", place.to_string())];
    let workers = report.workers.iter().enumerate();
    let workers = workers.map(|(place, worker)| (numbered("worker", place, &worker.name), worker.cpu));
    let ratio = Some(Unit::Other("ratio".to_owned()));
    let help = "Mean CPU use of a worker's generator threads";
    to.family(MetricType::Gauge, ("worker_cpu", ratio), help, workers);
    let limits = report.limits.iter().enumerate();
    let limits =
        limits.map(|(place, limit)| (numbered("limit", place, &limit.wanted), f64::from(limit.held)));
    to.gauges("limit_held", "Whether a limit that was asked for held: 1 or 0", limits);
    if let Some(server) = &report.server {
        to.seconds("server_cpu", "CPU time of the server's processes", only(server.cpu_seconds));
        let resident = ("server_resident", Some(Unit::Bytes));
        let help = "Greatest resident memory of the server's processes";
        to.family(MetricType::Gauge, resident, help, only(server.resident_bytes as f64));
    }
    if let Some(highest) = report.search.as_ref().and_then(|search| search.highest_rate) {
        to.gauges("highest_rate", "Highest rate that held the searched bound", only(highest));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::made_up;

    /// The rules of OpenMetrics 1.0 that a writer can break, checked line by line.
    fn check(text: &str) -> usize {
        let mut family = String::new();
        let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
        let body = text.strip_suffix("# EOF\n").expect("it does not end with # EOF");
        for line in body.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let mut words = comment.splitn(3, ' ');
                let (what, name, rest) =
                    (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
                match what {
                    "HELP" => {
                        family = name.into();
                        assert!(families.insert(name.to_owned()), "{name} comes twice");
                    }
                    "TYPE" => {
                        assert_eq!(name, family);
                        assert!(!name.ends_with("_total"), "{name} has a suffix");
                        // The types of Prometheus' own text format.
                        assert!(["gauge", "summary"].contains(&rest), "{line}");
                    }
                    "UNIT" => assert!(name == family && name.ends_with(rest), "{line}"),
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
            assert!(["", "_count", "_sum"].contains(&suffix), "{line}");
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
        for (line, times) in [
            ("UNIT handfast_load_latency_seconds seconds", 1),
            ("TYPE handfast_load_latency_seconds summary", 1),
        ] {
            assert_eq!(text.matches(&format!("# {line}\n")).count(), times, "{line}: {text}");
        }
    }
}
