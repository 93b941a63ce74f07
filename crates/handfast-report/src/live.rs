//! The live state of a run: a line of JSON for each second. Field names are stable within a version.
//!
//! In: the figures of one second. Out: one line of JSON. **Units** are in the names, as in [`crate::model`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the schema.
pub const SCHEMA: &str = "handfast-live/1";

/// A line.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Line {
    /// The preparation of a run begins: the first line, and one before each step of a search.
    Begin(Begin),
    /// A second is over.
    Second(Second),
    /// The last line of a complete stream.
    End(End),
}

/// The preparation of a run begins.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Begin {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Step of a search; empty without one.
    pub part: String,
    /// The work, in one sentence for people.
    pub work: String,
    /// Length of the measured part.
    pub duration_seconds: f64,
    /// Names of the members of the mix.
    pub members: Vec<String>,
}

/// A second is over, everywhere.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Second {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Seconds since the start.
    pub second: u32,
    /// True if it belongs to the measured part; false while the last transactions end.
    pub measured: bool,
    /// Transactions a second that the model requests; `None` in the closed model.
    pub offered_rate: Option<f64>,
    /// Transactions that began in it.
    pub started: u64,
    /// Transactions that ended well in it.
    pub done: u64,
    /// Transactions and connections that failed in it.
    pub failed: u64,
    /// Transactions under way at its end.
    pub in_flight: u64,
    /// Open connections at its end, of those that are kept.
    pub open: u64,
    /// Transactions that were due in it and had to wait because `--connections` were in use.
    pub queued: u64,
    /// Connections begun in it.
    pub connections: u64,
    /// Full handshakes.
    pub full: u64,
    /// Resumed handshakes.
    pub resumed: u64,
    /// Application bytes sent.
    pub sent_bytes: u64,
    /// Application bytes received.
    pub received_bytes: u64,
    /// Latencies of what ended in it, by step in the order of the path; empty ones are left out.
    pub series: Vec<Series>,
    /// Failures in it, by step and cause.
    pub errors: Vec<Failure>,
    /// Each kind of client of the mix.
    pub members: Vec<Part>,
    /// Each of several requests.
    pub requests: Vec<Part>,
}

/// Latencies of one step in one second.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Step: `connect`, `handshake`, …
    pub name: String,
    /// Samples.
    pub count: u64,
    /// Percentiles by name: `p50`, `p90`, `p99`, `p99.9`.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// Greatest.
    pub max_ns: u64,
}

/// Failures of one kind in one second.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Failure {
    /// `connect`, `handshake`, `exchange`, `close`.
    pub step: String,
    /// The cause's word.
    pub cause: String,
    /// Number of durations.
    pub count: u64,
}

/// Results of one kind of client, or of one request, in one second.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// The member's name, or method and path.
    pub name: String,
    /// Transactions, or answers, that ended well.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
    /// Handshakes of a kind of client, exchanges of a request; `None`: there was none.
    pub series: Option<Series>,
}

/// The end of the stream.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct End {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The verdict's word; `None`: there is no report.
    pub verdict: Option<crate::model::VerdictWord>,
    /// Lines that were dropped because the reader was too slow; 0 in a complete stream.
    pub lost_lines: u64,
}
