//! Result of an experiment, as data: compared between runs, written as JSON, shown as text and as a page.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The columns of the matrix: what the program does when it meets the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// connect(2), and what SO_ERROR says afterwards.
    Connect,
    /// accept(2) of a connection that waited in the queue, and the first reads from it.
    Accept,
    /// recv(2).
    Read,
    /// send(2).
    Write,
    /// shutdown(2) of our direction.
    Shutdown,
    /// close(2), and what the peer gets of it.
    Close,
    /// poll(2), then SO_ERROR before any other call, then recv(2).
    Poll,
}

impl Operation {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 7] =
        [Self::Connect, Self::Accept, Self::Read, Self::Write, Self::Shutdown, Self::Close, Self::Poll];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Read => "read",
            Self::Write => "write",
            Self::Shutdown => "shutdown",
            Self::Close => "close",
            Self::Poll => "poll",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One call and what it said.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// The call's name.
    pub call: String,
    /// `ok`, a number of bytes, or the errno by name.
    pub result: String,
}

/// Everything that was seen in one experiment but the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// Events of poll(2) before the first call, and each time when they were different later.
    pub poll: Vec<String>,
    /// Values of SO_ERROR: before the calls in the columns connect and poll, after them in the others; read twice.
    pub so_error: Vec<String>,
    /// The state by TCP_INFO before the first call, and each other one later.
    pub state: Vec<String>,
    /// Content of the error queue.
    pub error_queue: Vec<String>,
    /// Packet that left our machine because of close(2): `FIN`, `RST` or `nothing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<String>,
    /// The cause that Handfast logs for the first error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Outcome of one experiment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured(Observation),
    /// There is no such case, for this reason.
    DoesNotApply(String),
    /// This machine cannot make it happen, for this reason.
    Skipped(String),
    /// The laboratory failed: the event could not be made, or did not happen.
    Failed(String),
}

/// An outcome and how often it was met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The outcome.
    pub outcome: Outcome,
    /// Number of runs with this outcome.
    pub runs: u32,
}

/// Milliseconds from the event until poll(2) reported it, over all runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noticed {
    /// The soonest.
    pub shortest_ms: f64,
    /// The middle one.
    pub median_ms: f64,
    /// The latest.
    pub longest_ms: f64,
}

impl Noticed {
    /// Of all runs; `None` where nothing was noticed.
    pub(super) fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let (shortest, longest) = (*times.first()?, *times.last()?);
        let median_ms = times[times.len() / 2];
        Some(Self { shortest_ms: shortest, median_ms, longest_ms: longest })
    }
}

/// One cell: an event and an operation, over all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The operation.
    pub operation: Operation,
    /// Every outcome that was met, the most frequent first; one, where the case is made consistently.
    pub outcomes: Vec<Counted>,
    /// Until it was noticed; `None`: it was not, within the timeout of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed: Option<Noticed>,
}

impl Cell {
    /// Of outcomes and times, one for each run.
    pub(super) fn of(operation: Operation, runs: Vec<(Outcome, Option<f64>)>) -> Self {
        let mut outcomes: Vec<Counted> = Vec::new();
        let mut times = Vec::new();
        for (outcome, time) in runs {
            times.extend(time);
            match outcomes.iter_mut().find(|counted| counted.outcome == outcome) {
                Some(counted) => counted.runs += 1,
                None => outcomes.push(Counted { outcome, runs: 1 }),
            }
        }
        outcomes.sort_by_key(|counted| std::cmp::Reverse(counted.runs));
        Self { operation, outcomes, noticed: Noticed::of(times) }
    }

    /// The observation, when it was the same in every run.
    pub fn measured(&self) -> Option<&Observation> {
        match self.outcomes.as_slice() {
            [Counted { outcome: Outcome::Measured(observation), .. }] => Some(observation),
            _ => None,
        }
    }
}

/// One row: an event, met by every operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowResult {
    /// The event's name.
    pub name: String,
    /// Description of the event.
    pub event: String,
    /// Socket options that the row sets.
    pub settings: String,
    /// One cell for each operation.
    pub cells: Vec<Cell>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_differ_are_counted_apart() {
        let outcome = |word: &str| Outcome::Skipped(word.into());
        let runs = vec![
            (outcome("a"), Some(3.0)),
            (outcome("b"), None),
            (outcome("b"), Some(1.0)),
            (outcome("b"), Some(2.0)),
        ];
        let cell = Cell::of(Operation::Read, runs);
        let counts: Vec<_> = cell.outcomes.iter().map(|counted| counted.runs).collect();
        assert_eq!(counts, [3, 1]);
        let noticed = cell.noticed.expect("it was noticed three times");
        assert_eq!((noticed.shortest_ms, noticed.median_ms, noticed.longest_ms), (1.0, 2.0, 3.0));
        assert_eq!(cell.measured(), None);
        assert_eq!(Cell::of(Operation::Read, vec![(outcome("a"), None)]).noticed, None);
    }
}
