//! The results of a load run as data. This is the JSON report's schema: field names are stable within a version.
//!
//! **Units** are in the names: `_ns` nanoseconds, `_seconds`, `_bytes`; rates are per second.

use std::collections::BTreeMap;

use handfast_stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::both_ends::BothEnds;
use crate::job::Job;
use crate::plan::Plan;

/// Name and version of the schema. The number goes up when a reader of the old one would be misled.
pub const SCHEMA: &str = "handfast-load/1";

/// Everything about one run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Report {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Verdict on the reliability of the numbers.
    pub verdict: Verdict,
    /// The work, in one sentence for people.
    pub work: String,
    /// Circumstances: what is needed to judge the run and to repeat it.
    pub manifest: Manifest,
    /// Counts over the whole run.
    pub totals: Totals,
    /// Handshakes that happened.
    pub mix: Mix,
    /// Each kind of client of a mix; empty when all were of one kind.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Each of several HTTP requests; empty if there was only one.
    #[serde(default)]
    pub requests: Vec<Request>,
    /// Latencies by step, in the order of the path: `connect`, `handshake`, `handshake-full`, `handshake-resumed`,
    /// `first-byte`, `exchange`, `total`, `service`, `lag`. Empty ones are left out.
    pub series: Vec<Series>,
    /// Failures by step and cause, most frequent first.
    pub errors: Vec<ErrorRow>,
    /// One row for each second of the run.
    pub timeline: Vec<Second>,
    /// Seconds in which the target stalled: next to nothing finished, or a pause took a good part, though the generator ran.
    #[serde(default)]
    pub stalled: Vec<u32>,
    /// The load generators.
    pub workers: Vec<Worker>,
    /// CPU time of the server's processes, if requested.
    pub server: Option<ServerUse>,
    /// Parts of the time of connections, by the proxy's own counters; `None`: not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both_ends: Option<BothEnds>,
    /// Kernel counters that moved (TcpExt and Tcp of /proc/net/netstat and snmp), summed over the workers.
    pub kernel: BTreeMap<String, i64>,
    /// Source ports: those available, and those that the run used.
    pub ports: Option<Ports>,
    /// The requested limits, and whether they held.
    pub limits: Vec<Limit>,
    /// Steps of the search for the highest rate, if requested.
    pub search: Option<Search>,
    /// Notes for the reader, in sentences: verification off, no tickets left, ports nearly exhausted.
    pub notes: Vec<String>,
}

impl Report {
    /// The plan; `None` if the report has none.
    pub fn plan(&self) -> Option<&Plan> {
        self.manifest.job.as_ref().map(|job| &job.plan)
    }
}

/// Verdict on the reliability of the numbers.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Verdict {
    /// The word.
    pub word: VerdictWord,
    /// Why, in sentences with figures; the most important first.
    pub evidence: Vec<String>,
}

/// The five verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictWord {
    /// The figures describe the target, and are reliable.
    #[default]
    Valid,
    /// The generator was the bottleneck: the figures describe the generator.
    GeneratorLimited,
    /// Source ports ran out.
    PortLimited,
    /// The target did not keep up with the offered rate.
    TargetLimited,
    /// Too many transactions failed: the latencies are meaningless.
    Errors,
}

impl VerdictWord {
    /// As it is printed: `VALID`, `GENERATOR-LIMITED`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::GeneratorLimited => "GENERATOR-LIMITED",
            Self::PortLimited => "PORT-LIMITED",
            Self::TargetLimited => "TARGET-LIMITED",
            Self::Errors => "ERRORS",
        }
    }

    /// Returns true if a run with this verdict does not describe the target.
    pub const fn is_unusable(self) -> bool {
        matches!(self, Self::GeneratorLimited | Self::PortLimited)
    }
}

/// Circumstances of a run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Manifest {
    /// `handfast 0.1.0`, and the SHA-256 of the program.
    pub program: String,
    /// SHA-256 of the program's file, in hex.
    pub binary: String,
    /// Libraries that matter: rustls, aws-lc-rs.
    pub libraries: BTreeMap<String, String>,
    /// Start time, RFC 3339 in UTC.
    pub started: String,
    /// The command line, as it was typed.
    pub command: Vec<String>,
    /// Every option resolved, as `--replay` reads it; `None`: not recorded, or by a program with other options.
    #[serde(with = "crate::job::kept")]
    #[schemars(with = "serde_json::Value")]
    pub job: Option<Job>,
    /// Seed of everything random; each step of a search adds its number to it.
    pub seed: u64,
    /// Greatest difference between the workers' true starts.
    pub start_skew_ns: u64,
    /// Addresses that the run connected to.
    pub addresses: Vec<String>,
}

/// Counts over the whole run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Totals {
    /// Length of the measured part.
    pub duration_seconds: f64,
    /// Transactions a second that ended well within the measured part.
    pub rate: f64,
    /// The requested transactions a second (open and ramp models), without the share of lost workers after their
    /// loss.
    pub offered_rate: Option<f64>,
    /// Exchanges a second.
    pub exchange_rate: f64,
    /// Connections started, warm-up included: a server's own count must be equal.
    pub connections: u64,
    /// Of those, made to fill the ticket pool before the measured part.
    pub warm_up_connections: u64,
    /// Transactions that succeeded.
    pub transactions: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Of those that ended well, how many after the measured part's end (begun before it).
    pub tail: u64,
    /// Exchanges that ended well, warm-up excluded.
    pub exchanges: u64,
    /// HTTP responses by class, `2xx` and so on.
    pub http_status: BTreeMap<String, u64>,
    /// Application bytes sent.
    pub sent_bytes: u64,
    /// Application bytes received.
    pub received_bytes: u64,
    /// Open connections at the end of the run.
    pub open: u64,
    /// Arrivals that had to wait because `--connections` were in flight.
    pub queued: u64,
}

/// Handshakes that happened, warm-up excluded.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Mix {
    /// Full handshakes, those with a HelloRetryRequest included.
    pub full: u64,
    /// Resumed ones.
    pub resumed: u64,
    /// Of the full ones, those that needed a HelloRetryRequest.
    pub hello_retry: u64,
    /// 0-RTT data was accepted.
    pub early_data_accepted: u64,
    /// 0-RTT data was offered and refused.
    pub early_data_refused: u64,
    /// A handshake should resume, and no ticket was available.
    pub without_ticket: u64,
    /// The requested share of resumed handshakes.
    pub wanted_resumed: f64,
    /// The negotiated parameters: `TLSv1.3 TLS13_AES_128_GCM_SHA256 X25519` → count.
    pub agreed: BTreeMap<String, u64>,
    /// Verification of the server's certificate, in words.
    pub verification: String,
    /// The TLS offer, in words; each member of a mix has a separate one.
    #[serde(default)]
    pub offered: String,
}

/// One kind of client of a mix.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its requested share of the connections, 0 to 1.
    pub share: f64,
    /// Its TLS offer, in words.
    pub offered: String,
    /// The requested share of its handshakes that resume.
    pub wanted_resumed: f64,
    /// Connections started, warm-up excluded.
    pub connections: u64,
    /// Transactions that succeeded.
    pub transactions: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Full handshakes.
    pub full: u64,
    /// Resumed ones.
    pub resumed: u64,
    /// Mean size of its first ClientHello, with the record's header.
    pub hello_bytes: f64,
    /// Agreed parameters, as in `agreed` of the mix.
    pub agreed: BTreeMap<String, u64>,
    /// Its handshakes; `None`: there was none.
    pub handshake: Option<Series>,
    /// Its transactions, from their intended start.
    pub total: Option<Series>,
}

/// One of several HTTP requests.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers beyond the usual ones, `name: value`; values that may be secret are `***`.
    pub headers: Vec<String>,
    /// Its body: a text, or `@` and the file's path.
    pub body: Option<String>,
    /// Its requested share of the requests, 0 to 1.
    pub share: f64,
    /// Answers without an error.
    pub done: u64,
    /// Errors, and answers that never came.
    pub failed: u64,
    /// Answers by class, `2xx` and so on.
    pub http_status: BTreeMap<String, u64>,
    /// From the first byte of a request to the last of its answer; `None`: there was no good one.
    pub exchange: Option<Series>,
}

/// Latencies of one step.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Series {
    /// Step: `connect`, `handshake`, …
    pub name: String,
    /// Samples.
    pub count: u64,
    /// Least.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub deviation_ns: f64,
    /// Percentiles by name: `p50`, `p75`, `p90`, `p99`, `p99.9`, `p99.99`.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// Greatest.
    pub max_ns: u64,
    /// All samples, V2 DEFLATE in base64.
    #[schemars(with = "String")]
    pub histogram: Histogram,
}

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ErrorRow {
    /// `connect`, `handshake`, `exchange`, `close`.
    pub step: String,
    /// The cause's word.
    pub cause: String,
    /// Number of these failures.
    pub count: u64,
    /// The first few in full.
    pub examples: Vec<String>,
}

/// One second of the run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the start.
    pub second: u32,
    /// Transactions that ended well in it.
    pub transactions: u64,
    /// Exchanges.
    pub exchanges: u64,
    /// Transactions that failed in it.
    pub failed: u64,
    /// Application bytes, both ways.
    pub bytes: u64,
    /// Open connections at its end.
    pub open: u64,
    /// CPU time of the generator threads divided by their wall time, 0 to 1. This and the next three are 0 where they
    /// have no meaning: after the measured part, and in intervals shorter than half a second.
    pub generator_cpu: f64,
    /// The busiest generator thread, 0 to 1.
    pub busiest_thread: f64,
    /// Share of wall time in which generator threads wanted a CPU and had none, 0 to 1.
    pub generator_starved: f64,
    /// Longest time that a generator thread was paused in it: it was due to run, and neither ran nor waited for a CPU. Pauses
    /// below 20 ms are not counted.
    #[serde(default)]
    pub generator_paused_ns: u64,
    /// CPU of the whole machine, 0 to 1, the mean over workers.
    pub machine_cpu: f64,
    /// Latency histogram of the run's main series (`total`, else `exchange`, else `handshake`).
    #[schemars(with = "String")]
    pub main: Histogram,
    /// Percentiles of every series in this second: name → `p50`, `p99`.
    pub percentiles_ns: BTreeMap<String, BTreeMap<String, u64>>,
    /// Workers that were missing in it.
    pub missing: Vec<String>,
}

/// One load generator.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// `kernel`, `cpu`, `cores`, `memory`, `files`, and sysctls by their names.
    pub machine: BTreeMap<String, String>,
    /// Generator threads.
    pub threads: u32,
    /// Measured clock difference to the coordinator, and its uncertainty.
    pub clock_offset_ns: i64,
    /// Half of the best round trip of the measurement.
    pub clock_error_ns: u64,
    /// Difference of its true start from the agreed one.
    pub start_error_ns: i64,
    /// Transactions that succeeded.
    pub transactions: u64,
    /// Mean CPU use of its generator threads in the measured part, 0 to 1.
    pub cpu: f64,
    /// Reason for its loss, if it was lost.
    pub lost: Option<String>,
    /// True if its final totals were the sum of its intervals.
    pub sums_agree: bool,
}

/// CPU time of the server's processes on the same machine.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ServerUse {
    /// The processes: `pid 4711 and its children`, `cgroup …`.
    pub who: String,
    /// CPU seconds during the measured part.
    pub cpu_seconds: f64,
    /// For each transaction (or exchange, when connections are kept).
    pub cpu_ns_per_transaction: f64,
    /// Greatest resident memory seen.
    pub resident_bytes: u64,
}

/// Source ports.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Ports {
    /// Ports in `ip_local_port_range`.
    pub range: u64,
    /// Source addresses.
    pub sources: u64,
    /// Destination addresses.
    pub destinations: u64,
    /// Their product: connections that can be open or in TIME_WAIT at the same time.
    pub capacity: u64,
    /// Sustainable connections a second if each is in TIME_WAIT for 60 s; `None`: TIME_WAIT is not on this side.
    pub lasting_rate: Option<f64>,
    /// The arithmetic in a sentence.
    pub sentence: String,
}

/// A requested limit.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Limit {
    /// As it was written: `handshake.p99=50ms`.
    pub wanted: String,
    /// The measured value, for people.
    pub found: String,
    /// True if it held.
    pub held: bool,
}

/// The search for the highest rate that holds a latency bound.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Search {
    /// The bound, as written.
    pub bound: String,
    /// Highest rate that held it in most repeats; `None`: not even the lowest rate held it.
    pub highest_rate: Option<f64>,
    /// Lowest rate that did not hold it; `None`: none was tried, or the generator reached its limit first.
    pub lowest_failed: Option<f64>,
    /// Every step, in order.
    pub steps: Vec<SearchStep>,
}

/// One step of the search.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SearchStep {
    /// Rate that was offered.
    pub offered_rate: f64,
    /// Rate that was reached.
    pub rate: f64,
    /// The value of the bounded figure.
    pub found: String,
    /// True if the bound held, in a valid step. A step limited by the generator or its ports does not count.
    pub held: bool,
    /// The step's own verdict.
    pub verdict: VerdictWord,
}
