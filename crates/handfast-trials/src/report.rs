//! Outcome of each experiment, as data.

use serde::{Deserialize, Serialize};

/// The name and version of what [`Report`] is as JSON.
pub const SCHEMA: &str = "handfast-trials/1";

/// All of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `handfast-trials/1`.
    pub schema: String,
    /// Version of the laboratory.
    pub laboratory: String,
    /// The programs that were tested.
    pub programs: Vec<ProgramUnderTest>,
    /// The day on which it began, in UTC: `2026-11-26`.
    pub day: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// The experiments, in the order of the table.
    pub experiments: Vec<Experiment>,
    /// Faults that are not tried, with the reasons.
    pub absent: Vec<Absent>,
}

/// A program that was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramUnderTest {
    /// The word for it on the command line.
    pub proxy: String,
    /// Its name for people.
    pub title: String,
    /// Its version, as it prints it.
    pub version: String,
}

/// One case in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The program.
    pub proxy: String,
    /// The case.
    pub case: String,
    /// The mode.
    pub mode: String,
    /// The step of the path.
    pub step: String,
    /// Fault that was made.
    pub fault: String,
    /// Promise that had to hold.
    pub must: String,
    /// Outcome of the experiment.
    pub outcome: Outcome,
    /// Measurements of the experiment.
    pub figures: Figures,
}

/// Outcome of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", content = "why", rename_all = "kebab-case")]
pub enum Outcome {
    /// Everything held.
    Kept,
    /// The proxy did not do what it has to.
    Broken(String),
    /// This machine cannot make the fault.
    Skipped(String),
    /// The program has no such mode or setting, or the case is about Handfast's own.
    NotPossible(String),
    /// The laboratory failed, so there is no result for the proxy.
    Unknown(String),
}

/// Measurements of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Evidence that the fault happened.
    pub happened: String,
    /// Connections lost that should not have been.
    pub lost: usize,
    /// From the end of the fault until a fresh client was served to its end, in milliseconds.
    pub recovered_ms: Option<f64>,
    /// Open descriptors before any of it.
    pub descriptors_before: usize,
    /// And after it.
    pub descriptors_after: usize,
    /// Memory in KiB before.
    pub memory_before_kib: u64,
    /// And after.
    pub memory_after_kib: u64,
    /// The reasons that records give for it: `step/side/cause`.
    pub reasons: Vec<String>,
    /// Duration of the experiment in milliseconds.
    pub took_ms: f64,
}

/// A fault that is not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// The fault.
    pub fault: String,
    /// Reason why it is not tried, and the test that covers it instead.
    pub why: String,
}

/// Number of experiments by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Everything held.
    pub passed: usize,
    /// Something did not.
    pub failed: usize,
    /// Could not be made here.
    pub skipped: usize,
    /// The program cannot play them.
    pub not_possible: usize,
    /// The laboratory failed.
    pub unknown: usize,
}

impl Summary {
    /// Counts these experiments.
    pub fn of<'a>(experiments: impl Iterator<Item = &'a Experiment>) -> Self {
        let mut summary = Self::default();
        for experiment in experiments {
            match experiment.outcome {
                Outcome::Kept => summary.passed += 1,
                Outcome::Broken(_) => summary.failed += 1,
                Outcome::Skipped(_) => summary.skipped += 1,
                Outcome::NotPossible(_) => summary.not_possible += 1,
                Outcome::Unknown(_) => summary.unknown += 1,
            }
        }
        summary
    }
}

impl Report {
    /// Returns the number of all experiments by outcome.
    pub fn summary(&self) -> Summary {
        Summary::of(self.experiments.iter())
    }

    /// Returns true if every fault that can be made here was made, and everything held.
    pub fn is_good(&self) -> bool {
        let summary = self.summary();
        summary.failed == 0 && summary.unknown == 0
    }
}
