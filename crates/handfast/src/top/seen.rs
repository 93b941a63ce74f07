//! What answers at an address: a proxy, or a run of `handfast load` with `--metrics`.
//!
//! In: the JSON of `/status.json`. Out: a [`Seen`], with text that is fit for a terminal. What is missing is empty.

use handfast_report::live::{Part, Series};
use handfast_report::run::{Counts, Failed, Latency, Run, SCHEMA, Thread};
use serde_json::Value;

use super::sample::{Sample, figure, list, number, text};

/// One answer.
pub(crate) enum Seen {
    /// A moment of a proxy, and perhaps an earlier one.
    Proxy(Box<(Sample, Option<Sample>)>),
    /// A run as it stands.
    Run(Box<Run>),
}

impl Seen {
    /// Reads what was asked for at `at`.
    ///
    /// **Errors**: what it is instead, as a sentence.
    pub(crate) fn read(text: &str, at: f64) -> Result<Self, String> {
        let whole: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        if whole["schema"] == SCHEMA {
            return Ok(Self::Run(run(&whole).into()));
        }
        Sample::read(&whole, at).map(|moments| Self::Proxy(moments.into()))
    }
}

fn run(seen: &Value) -> Run {
    Run {
        schema: SCHEMA.to_owned(),
        program: text(seen, "program"),
        process: small(seen, "process"),
        title: text(seen, "title"),
        part: text(seen, "part"),
        duration_seconds: figure(seen, "duration_seconds"),
        ending: seen["ending"] == true,
        counts: match seen["counts"].as_str() {
            Some("exchanges") => Counts::Exchanges,
            Some("bytes") => Counts::Bytes,
            Some("handshakes") => Counts::Handshakes,
            _ => Counts::Transactions,
        },
        seconds: small(seen, "seconds"),
        tail: seen["tail"] == true,
        rates: list(seen, "rates").iter().filter_map(Value::as_f64).collect(),
        mean_rate: figure(seen, "mean_rate"),
        so_far: latency(&seen["so_far"]),
        last: latency(&seen["last"]),
        steps: list(seen, "steps").iter().map(latency).collect(),
        failures: list(seen, "failures").iter().map(failed).collect(),
        full: number(seen, "full"),
        resumed: number(seen, "resumed"),
        wanted_resumed: figure(seen, "wanted_resumed"),
        open: number(seen, "open"),
        queued: number(seen, "queued"),
        threads: list(seen, "threads").iter().map(thread).collect(),
        lag_p99_ns: seen["lag_p99_ns"].as_u64(),
        members: list(seen, "members").iter().map(part).collect(),
        requests: list(seen, "requests").iter().map(part).collect(),
    }
}

fn small(value: &Value, name: &str) -> u32 {
    u32::try_from(number(value, name)).unwrap_or(u32::MAX)
}

fn latency(seen: &Value) -> Latency {
    Latency {
        name: text(seen, "name"),
        count: number(seen, "count"),
        mean_ns: figure(seen, "mean_ns"),
        p50_ns: number(seen, "p50_ns"),
        p90_ns: number(seen, "p90_ns"),
        p99_ns: number(seen, "p99_ns"),
        max_ns: number(seen, "max_ns"),
    }
}

fn failed(seen: &Value) -> Failed {
    Failed {
        step: text(seen, "step"),
        cause: text(seen, "cause"),
        count: number(seen, "count"),
        last: number(seen, "last"),
    }
}

fn thread(seen: &Value) -> Thread {
    Thread { cpu: figure(seen, "cpu"), starved: figure(seen, "starved") }
}

fn part(seen: &Value) -> Part {
    let series = |series: &Value| Series {
        name: text(series, "name"),
        count: number(series, "count"),
        percentiles_ns: ["p50", "p90", "p99", "p99.9"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), series["percentiles_ns"][name].as_u64()?)))
            .collect(),
        max_ns: number(series, "max_ns"),
    };
    Part {
        name: text(seen, "name"),
        done: number(seen, "done"),
        failed: number(seen, "failed"),
        series: Some(&seen["series"]).filter(|seen| seen.is_object()).map(series),
    }
}
