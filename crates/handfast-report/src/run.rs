//! The current state of a run, for displays: `--metrics` serves it as JSON, and `handfast top` draws it. Field names are stable within
//! a version.
//!
//! In: what the seconds of a run gave. Out: a [`Run`]. **Units** are in the names, as in [`crate::model`]; rates are per second.

use handfast_stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::live::Part;

/// Name and version of the schema.
pub const SCHEMA: &str = "handfast-run/1";

/// The current state of a run, complete for a display; `--metrics` serves it as JSON.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The program and its version.
    pub program: String,
    /// Its process.
    pub process: u32,
    /// The target and the amount of load: `localhost:8443, 32 connections`.
    pub title: String,
    /// Step of a search; empty without one.
    pub part: String,
    /// Length of the measured part.
    pub duration_seconds: f64,
    /// True if it ends early on request.
    pub ending: bool,
    /// Unit in which a second is counted.
    pub counts: Counts,
    /// Seconds that have come; 0 while it is prepared.
    pub seconds: u32,
    /// True if the newest second was after the measured part, in which the last transactions end.
    pub tail: bool,
    /// Counts of the last seconds of the measured part, the newest last.
    pub rates: Vec<f64>,
    /// Its mean over the measured part.
    pub mean_rate: f64,
    /// The step that the run is judged by, since the start.
    pub so_far: Latency,
    /// The same in the newest second.
    pub last: Latency,
    /// Each step in the newest second, in the order of the path.
    pub steps: Vec<Latency>,
    /// Failures since the start, by step and cause.
    pub failures: Vec<Failed>,
    /// Full handshakes since the start.
    pub full: u64,
    /// Resumed handshakes since the start.
    pub resumed: u64,
    /// Share of resumed handshakes that was asked for.
    pub wanted_resumed: f64,
    /// Open connections.
    pub open: u64,
    /// Arrivals since the start that had to wait because too many were in flight.
    pub queued: u64,
    /// Generator threads in the newest second.
    pub threads: Vec<Thread>,
    /// p99 of the generator's own lag in the newest second; `None` without one.
    pub lag_p99_ns: Option<u64>,
    /// Each kind of client of the mix in the newest second.
    pub members: Vec<Part>,
    /// Each of several requests in the newest second.
    pub requests: Vec<Part>,
}

/// Unit in which a second of a run is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    /// Exchanges on connections that are kept.
    Exchanges,
    /// Bytes of bulk transfers, both ways.
    Bytes,
    /// Handshakes, of connections that then stand idle.
    Handshakes,
    /// Transactions: connections from connect to close. A reader takes an unknown word for it.
    #[default]
    #[serde(other)]
    Transactions,
}

/// Durations of a step.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Step: `connect`, `handshake`, …
    pub name: String,
    /// Samples; without any the others are 0.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Half took no longer.
    pub p50_ns: u64,
    /// 90 % took no longer.
    pub p90_ns: u64,
    /// 99 % took no longer.
    pub p99_ns: u64,
    /// Greatest.
    pub max_ns: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Failed {
    /// `connect`, `handshake`, `exchange`, `close`.
    pub step: String,
    /// The cause's word.
    pub cause: String,
    /// Since the start.
    pub count: u64,
    /// In the newest second.
    pub last: u64,
}

/// A generator thread in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// CPU time, as a share of one CPU.
    pub cpu: f64,
    /// Time in which it was ready to run and had no CPU, as a share.
    pub starved: f64,
}

impl Run {
    /// Returns the count of the newest second of the measured part.
    pub fn rate(&self) -> f64 {
        self.rates.last().copied().unwrap_or(0.0)
    }

    /// All failures since the start.
    pub fn failed(&self) -> u64 {
        self.failures.iter().fold(0, |sum, failed| sum.saturating_add(failed.count))
    }

    /// All failures in the newest second.
    pub fn failed_last(&self) -> u64 {
        self.failures.iter().fold(0, |sum, failed| sum.saturating_add(failed.last))
    }

    /// The most frequent failure.
    pub fn worst(&self) -> Option<&Failed> {
        self.failures.iter().max_by_key(|failed| failed.count)
    }
}

impl Latency {
    /// Summarizes these samples.
    pub fn of(name: &str, samples: &Histogram) -> Self {
        let mut latency = Self { name: name.to_owned(), ..Self::default() };
        if !samples.is_empty() {
            latency.count = samples.count();
            latency.mean_ns = samples.mean_nanos();
            [latency.p50_ns, latency.p90_ns, latency.p99_ns] =
                [0.5, 0.9, 0.99].map(|q| samples.quantile_nanos(q));
            latency.max_ns = samples.max_nanos();
        }
        latency
    }
}
