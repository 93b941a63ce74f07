//! The search for the highest rate that holds a latency bound: doubling, then halving the gap.
//!
//! In: the result of each step. Out: the next rate to offer, and at the end the highest that held. It measures nothing
//! itself: the caller gets a rate from [`Search::next`], makes a run at that rate, and passes its report to [`Search::result`].
//!
//! Each rate is tried until most of its repeats agree, since one step's percentile depends on chance. A step that
//! the generator or its ports limited does not describe the target, so it has no vote, and is repeated. If
//! that happens too often at a rate, the rate is unknown: the search continues below it, and never above. If the answer is next
//! to that rate, it is no answer about the target, which the verdict reports.

pub use handfast_report::job::SearchSpec;
use handfast_report::model::{self, SearchStep, Verdict, VerdictWord};
use handfast_report::units::rate as per_second;
use handfast_text::units::counted;

/// Most rates that are tried: 2^40 times the first one, and more halvings than any precision takes.
const MAX_RATES: u32 = 64;
/// Lowest rate that the search tries before it gives up, as a share of the first rate.
const MIN_RATE: f64 = 1.0 / 1024.0;
/// Best precision that can be requested: repeats do not agree more closely.
const MIN_PRECISION: f64 = 0.001;
/// Steps at one rate that the generator or its ports may limit before the rate counts as unknown.
const MAX_LIMITED_STEPS: u32 = 3;

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
    /// Lowest rate at which the generator or its ports were in the way, and which of them.
    ceiling: Option<(f64, VerdictWord)>,
    rates: u32,
    done: bool,
    steps: Vec<SearchStep>,
}

/// Answers at the present rate.
#[derive(Debug, Default)]
struct Votes {
    held: u32,
    missed: u32,
    /// Steps that the generator or its ports limited: no votes.
    limited: u32,
}

/// The result of a search.
#[derive(Debug)]
pub struct Found {
    /// The rates, and every step.
    pub search: model::Search,
    /// Notes for the reader, in sentences.
    pub notes: Vec<String>,
    /// Replacement for the shown step's verdict, when the search ended for another reason than the target.
    pub verdict: Option<Verdict>,
}

impl Search {
    /// Begins at the first rate. Values that make no sense are made to: a rate below one in a thousand seconds, a
    /// precision below 0.1 %, no repeats.
    pub fn new(mut spec: SearchSpec) -> Self {
        spec.from = if spec.from.is_finite() { spec.from.clamp(0.001, 1e9) } else { 100.0 };
        spec.precision =
            if spec.precision.is_finite() { spec.precision.clamp(MIN_PRECISION, 1.0) } else { 0.05 };
        spec.repeats = spec.repeats.clamp(1, 99);
        let rate = spec.from;
        let votes = Votes::default();
        Self {
            spec,
            rate,
            votes,
            low: None,
            high: None,
            ceiling: None,
            rates: 0,
            done: false,
            steps: Vec::new(),
        }
    }

    /// The rate to offer now; `None` when the search has ended. The same one is named until [`Search::result`].
    ///
    /// It ends after at most 64 rates, each tried as often as the repeats say, and twice more when the generator was in
    /// the way.
    pub const fn next(&self) -> Option<f64> {
        if self.done { None } else { Some(self.rate) }
    }

    /// Takes what the step at [`Search::next`] found.
    pub fn result(&mut self, step: SearchStep) {
        if self.done {
            return;
        }
        let (held, verdict) = (step.held, step.verdict);
        self.steps.push(step);
        let votes = &mut self.votes;
        match (held, verdict.is_unusable()) {
            (true, _) => votes.held += 1,
            (false, false) => votes.missed += 1,
            (false, true) => votes.limited += 1,
        }
        let majority = self.spec.repeats.div_ceil(2);
        if votes.held >= majority {
            self.low = Some(self.rate);
        } else if votes.missed >= majority {
            self.high = Some(self.rate);
        } else if votes.limited >= MAX_LIMITED_STEPS {
            self.ceiling = Some((self.rate, verdict));
        } else {
            return;
        }
        self.votes = Votes::default();
        self.rates += 1;
        match self.following() {
            Some(rate) if self.rates < MAX_RATES => self.rate = rate,
            _ => self.done = true,
        }
    }

    /// The highest rate that held so far, by most of its repeats.
    pub const fn highest(&self) -> Option<f64> {
        self.low
    }

    /// Ends the search now, with what is known.
    pub const fn stop(&mut self) {
        self.done = true;
    }

    /// Returns the result of the search.
    pub fn finish(self) -> Found {
        let (notes, verdict) = (self.notes(), self.verdict());
        let search = model::Search {
            bound: self.spec.bound.written().to_owned(),
            highest_rate: self.low,
            lowest_failed: self.high,
            steps: self.steps,
        };
        Found { search, notes, verdict }
    }

    /// The rate after this one; `None` when the answer is near enough, or there is none.
    fn following(&self) -> Option<f64> {
        match (self.low, self.upper()) {
            (Some(low), None) => Some(low * 2.0),
            // A generator that cannot even reach this rate need not try lower ones.
            (None, Some(_)) if self.limiting().is_some() => None,
            (None, Some(high)) => Some(high / 2.0).filter(|rate| *rate >= self.spec.from * MIN_RATE),
            (Some(low), Some(high)) if high - low > low * self.spec.precision => {
                Some(f64::midpoint(low, high))
            }
            _ => None,
        }
    }

    /// Rate that the result must be below: a rate that missed, or one that is not known.
    fn upper(&self) -> Option<f64> {
        self.limiting().map(|(rate, _)| rate).or(self.high)
    }

    /// The rate that is not known, when nothing below it has missed.
    fn limiting(&self) -> Option<(f64, VerdictWord)> {
        self.ceiling.filter(|(rate, _)| self.high.is_none_or(|high| *rate < high))
    }

    /// The verdict of a search that the generator or its ports ended.
    fn verdict(&self) -> Option<Verdict> {
        let (rate, word) = self.limiting()?;
        let bound = self.spec.bound.written();
        let (reason, cure) = match word {
            VerdictWord::PortLimited => {
                ("source ports were at their limit", "more --source addresses, --close reset")
            }
            _ => (
                "the generator was at its limit",
                "a separate machine, more --machines, longer steps (--step)",
            ),
        };
        let known = match self.low {
            Some(low) => format!("above {} it is not known whether {bound} holds", per_second(low)),
            None => format!("it is not known which rate holds {bound}"),
        };
        let why =
            format!("{known}: at {} {reason} in {MAX_LIMITED_STEPS} steps (hint: {cure})", per_second(rate));
        Some(Verdict { word, evidence: vec![why] })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let bound = self.spec.bound.written();
        if self.limiting().is_none() && self.high.is_none() && self.low.is_some() {
            notes.push("the search ended before a rate was found that misses the bound".to_owned());
        }
        if let (None, Some(high)) = (self.low, self.high) {
            notes.push(format!("no rate held {bound}: {} was the lowest that missed it", per_second(high)));
        }
        let limited = self.steps.iter().filter(|step| step.verdict.is_unusable()).count() as u64;
        if limited > 0 {
            notes.push(format!(
                "{} of the search had no vote, because the generator or its ports were at their limit",
                counted(limited, "step")
            ));
        }
        let votes = || self.steps.iter().filter(|step| !step.verdict.is_unusable());
        let undecided = votes().any(|step| {
            let same = |other: &&SearchStep| (other.offered_rate - step.offered_rate).abs() < f64::EPSILON;
            votes().filter(same).any(|other| other.held != step.held)
        });
        if undecided {
            notes.push(
                "repeats of the search at the same rate did not agree, and most of them decided: longer steps make the answer more certain"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests;
