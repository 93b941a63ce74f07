//! The result of a run before the verdict: the merged seconds, and the facts about each worker.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::sample::Interval;

/// One run, merged over its workers.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The request.
    pub plan: Plan,
    /// Start time, by the coordinator's clock.
    pub started: SystemTime,
    /// One for each second, merged over the workers, in order and without gaps.
    pub seconds: Vec<Interval>,
    /// The sum of the workers' final totals; for a worker without a final message, of its seconds.
    pub totals: Interval,
    /// Each worker, in the order of their indices.
    pub workers: Vec<WorkerOutcome>,
    /// Reason for an end before its time, if there was one.
    pub early_end: Option<EarlyEnd>,
}

/// Reason for an end of a run before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlyEnd {
    /// The user requested it (Ctrl-C).
    Interrupted,
    /// A worker was lost: its name.
    WorkerLost(String),
}

/// One worker's part.
#[derive(Clone, Debug, Default)]
pub struct WorkerOutcome {
    /// Its name: `this machine`, or host name and process.
    pub name: String,
    /// Its machine.
    pub facts: Facts,
    /// Measured clock difference to the coordinator: its clock minus ours.
    pub clock_offset_ns: i64,
    /// The uncertainty of that.
    pub clock_error_ns: u64,
    /// Its final message; `None` if it was lost before.
    pub end: Option<WorkerEnd>,
    /// Transactions that succeeded in the seconds that came from it: of a lost one all that is known.
    pub delivered: u64,
    /// Reason for its loss, if it was lost.
    pub lost: Option<String>,
    /// True if its final totals were the sum of the intervals that came.
    pub sums_agree: bool,
    /// Seconds in which nothing came from it.
    pub missing: Vec<u32>,
}

/// A worker's facts before the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// `kernel`, `cpu`, `cores`, `memory`, `files`, and sysctls by their names.
    pub machine: BTreeMap<String, String>,
    /// Addresses that the target's name has there.
    pub addresses: Vec<String>,
    /// Generator threads.
    pub threads: u32,
    /// Notes for the reader of the report, in sentences.
    pub notes: Vec<String>,
}

/// A worker's final message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerEnd {
    /// Everything it measured, all seconds merged.
    pub totals: Interval,
    /// Its true start minus the agreed one.
    pub start_error_ns: i64,
    /// Kernel counters that moved meanwhile.
    pub kernel: BTreeMap<String, i64>,
}
