//! One machine's share of a run: threads that make load, and their seconds merged.

use std::sync::mpsc::SyncSender;

use handfast_net::clock::Moment;
use serde::{Deserialize, Serialize};

use crate::outcome::{Facts, Refusal, WorkerEnd};
use crate::plan::Plan;
use crate::sample::Interval;

/// Which part of the plan is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Our number, from 0.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

/// A share that is ready to start.
#[derive(Debug)]
pub struct Generator {
    facts: Facts,
}

/// A share that is being run.
#[derive(Debug)]
pub struct Running {}

impl Generator {
    /// Resolves the target, reads certificates, checks descriptors and ports, fills the ticket pool. Blocks: up to
    /// the plan's timeout for the name and as long for the tickets.
    ///
    /// **Errors**: everything that would keep the run from meaning anything, said before it begins.
    pub fn prepare(plan: &Plan, share: Share) -> Result<Self, Refusal> {
        let _ = (plan, share);
        Err(Refusal::failed("not yet"))
    }

    /// What is known before the start.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Begins at `start`. Each second's measurement goes to `seconds` about a quarter of a second after it is over,
    /// in order and without gaps, the last ones after the plan's duration; then the channel is dropped.
    ///
    /// **Errors**: threads that could not be made.
    pub fn start(self, start: Moment, seconds: SyncSender<Interval>) -> Result<Running, Refusal> {
        let _ = (start, seconds);
        Err(Refusal::failed("not yet"))
    }
}

impl Running {
    /// Ends the measured part now: what is in flight is finished, nothing new begins.
    pub fn stop(&self) {}

    /// Waits for the end (the plan's duration, or [`Running::stop`], and what is in flight).
    pub fn join(self) -> WorkerEnd {
        WorkerEnd::default()
    }
}
