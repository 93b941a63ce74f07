//! The search for the highest rate that holds a latency bound: doubling, then halving the gap.
//!
//! In: what each step found. Out: the next rate to offer, and at the end the highest that held. It measures nothing
//! itself: who runs it asks [`Search::next`], makes a run at that rate, and tells [`Search::result`].
//!
//! Each rate is tried until most of its repeats agree, since one step's percentile is a matter of luck. A step that
//! the generator or its ports limited says nothing of the target: the search then goes no higher, and says so.

use handfast_report::model::{self, Report, SearchStep, VerdictWord};
use handfast_report::units::rate as per_second;
use serde::{Deserialize, Serialize};

use crate::limits::{Bound, Direction};
use crate::plan::{Arrivals, Model, Plan};

/// Most rates that are tried: 2^40 times the first one, and more halvings than any precision takes.
const MOST_RATES: u32 = 64;
/// How far below the first rate the search goes before it gives up.
const LOWEST: f64 = 1.0 / 1024.0;
/// Best precision that can be asked for: repeats do not agree on less.
const FINEST: f64 = 0.001;

/// What is searched for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSpec {
    /// The bound that must hold: a latency's.
    pub bound: Bound,
    /// First rate that is offered, transactions a second.
    pub from: f64,
    /// Share by which the highest rate that held and the lowest that did not may differ at the end.
    pub precision: f64,
    /// How often a rate is tried; more than half decide. An even number is as good as the odd one below it.
    pub repeats: u32,
}

impl SearchSpec {
    /// The search for `total.p99=50ms`, from 100 a second on, to 5 %, best of three.
    ///
    /// **Errors**: a bound that cannot be read, or is no latency's; whoever wrote it is at fault.
    pub fn new(bound: &str) -> Result<Self, String> {
        let bound = Bound::parse(bound, Direction::Max)?;
        if !bound.is_latency() {
            return Err(format!(
                "limit `{}`: a search needs a latency, for instance `total.p99=50ms`",
                bound.written()
            ));
        }
        Ok(Self { bound, from: 100.0, precision: 0.05, repeats: 3 })
    }

    /// The plan of a step: the rate is offered, with the arrivals of `plan` when it has some.
    pub fn plan_at(plan: &Plan, rate: f64) -> Plan {
        let arrivals = match plan.model {
            Model::Open { arrivals, .. } | Model::Ramp { arrivals, .. } => arrivals,
            Model::Closed => Arrivals::Poisson,
        };
        Plan { model: Model::Open { rate, arrivals }, ..plan.clone() }
    }

    /// What a step's report says: the bound holds, and all that was offered was taken.
    pub fn step(&self, offered_rate: f64, report: &Report) -> SearchStep {
        let limit = self.bound.judge(report);
        let verdict = report.verdict.word;
        SearchStep {
            offered_rate,
            rate: report.totals.rate,
            found: limit.found,
            held: limit.held && verdict == VerdictWord::Valid,
            verdict,
        }
    }
}

/// A search that is under way.
#[derive(Debug)]
pub struct Search {
    spec: SearchSpec,
    /// The rate that is being tried.
    rate: f64,
    votes: Votes,
    /// Highest rate that held.
    low: Option<f64>,
    /// Lowest rate that did not.
    high: Option<f64>,
    /// Whether the generator, not the target, set `high`.
    ours: bool,
    rates: u32,
    done: bool,
    steps: Vec<SearchStep>,
}

/// Answers at the present rate.
#[derive(Debug, Default)]
struct Votes {
    held: u32,
    missed: u32,
    /// Of those that missed, the ones that the generator or its ports limited.
    limited: u32,
}

impl Search {
    /// Begins at the first rate. Values that make no sense are made to: a rate below one in a thousand seconds, a
    /// precision below 0.1 %, no repeats.
    pub fn new(mut spec: SearchSpec) -> Self {
        spec.from = if spec.from.is_finite() { spec.from.clamp(0.001, 1e9) } else { 100.0 };
        spec.precision = if spec.precision.is_finite() { spec.precision.clamp(FINEST, 1.0) } else { 0.05 };
        spec.repeats = spec.repeats.clamp(1, 99);
        let rate = spec.from;
        let votes = Votes::default();
        Self {
            spec,
            rate,
            votes,
            low: None,
            high: None,
            ours: false,
            rates: 0,
            done: false,
            steps: Vec::new(),
        }
    }

    /// The rate to offer now; `None` when the search has ended. The same one is named until [`Search::result`].
    ///
    /// It ends after at most 64 rates, each tried as often as the repeats say.
    pub const fn next(&self) -> Option<f64> {
        if self.done { None } else { Some(self.rate) }
    }

    /// Takes what the step at [`Search::next`] found.
    pub fn result(&mut self, step: SearchStep) {
        if self.done {
            return;
        }
        let limited = matches!(step.verdict, VerdictWord::GeneratorLimited | VerdictWord::PortLimited);
        self.votes.held += u32::from(step.held);
        self.votes.missed += u32::from(!step.held);
        self.votes.limited += u32::from(limited && !step.held);
        self.steps.push(step);
        let majority = self.spec.repeats.div_ceil(2);
        if self.votes.held >= majority {
            self.decided(true);
        } else if self.votes.missed >= majority {
            self.decided(false);
        }
    }

    /// Ends the search now, with what is known.
    pub const fn stop(&mut self) {
        self.done = true;
    }

    /// What was found, and what the reader must know of it.
    pub fn finish(self) -> (model::Search, Vec<String>) {
        let notes = self.notes();
        let search = model::Search {
            bound: self.spec.bound.written().to_owned(),
            highest_rate: self.low,
            lowest_failed: self.high,
            steps: self.steps,
        };
        (search, notes)
    }

    /// Most repeats agree on the present rate.
    fn decided(&mut self, held: bool) {
        let votes = std::mem::take(&mut self.votes);
        if held {
            self.low = Some(self.rate);
        } else {
            self.high = Some(self.rate);
            self.ours = votes.limited * 2 >= votes.missed;
        }
        self.rates += 1;
        match self.following() {
            Some(rate) if self.rates < MOST_RATES => self.rate = rate,
            _ => self.done = true,
        }
    }

    /// The rate after this one; `None` when the answer is near enough, or there is none.
    fn following(&self) -> Option<f64> {
        match (self.low, self.high) {
            (Some(low), None) => Some(low * 2.0),
            (None, Some(high)) => Some(high / 2.0).filter(|rate| *rate >= self.spec.from * LOWEST),
            (Some(low), Some(high)) if high - low > low * self.spec.precision => {
                Some(f64::midpoint(low, high))
            }
            _ => None,
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let bound = self.spec.bound.written();
        match (self.high, self.ours) {
            (Some(high), true) => notes.push(format!(
                "the search went no higher than {} because the generator or its ports were at their limit there, not \
                 the target: the target may hold more (hint: more --machines, more --source addresses, --close reset)",
                per_second(high)
            )),
            (None, _) if self.low.is_some() => {
                notes.push("the search ended before a rate was found that misses the bound".to_owned());
            }
            _ => {}
        }
        if let (None, Some(high)) = (self.low, self.high) {
            notes.push(format!("no rate held {bound}: {} was the lowest that was tried", per_second(high)));
        }
        let undecided = self.steps.iter().any(|step| {
            let same = |other: &&SearchStep| (other.offered_rate - step.offered_rate).abs() < f64::EPSILON;
            self.steps.iter().filter(same).any(|other| other.held != step.held)
        });
        if undecided {
            notes.push(
                "repeats of the search at the same rate did not agree, and most of them decided: longer steps make the \
                 answer firmer"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests;
