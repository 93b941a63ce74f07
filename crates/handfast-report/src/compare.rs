//! Comparison of two sides, whether B is faster than A or no difference was found: for people and for programs.
//!
//! In: the reports of each side's runs, and a name for each side. Out: a [`ComparisonResult`], and each figure of both sides with ratio,
//! interval and p.
//!
//! **The run is the unit** ([`handfast_stats::compare`] explains why): each run gives one value of each figure, from its
//! report. Only the deciding figures can differ: this takes [`MIN_RUNS`] runs of each side, made in turn and of the same work,
//! and an interval without 1. All intervals are right together in [`CONFIDENCE`] of the comparisons, whatever the number of
//! deciding figures.

mod differences;
mod figures;
mod sides;
mod text;
#[cfg(test)]
mod tests;

use serde_json::json;

use crate::model::{Report, VerdictWord};
use figures::{Figure, figures};
pub use sides::{CONFIDENCE, Sides};

/// Fewest runs of each side from which a difference is claimed.
pub const MIN_RUNS: usize = 3;
/// Most runs of one side in a row that still count as "in turn".
const IN_A_ROW: usize = 2;
/// Most unfit runs that the answer names.
const MAX_NAMED_RUNS: usize = 3;
/// Name and version of the JSON format.
pub const SCHEMA: &str = "handfast-compare/2";

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonResult {
    /// The sides did different work; the differences.
    NotComparable(Vec<String>),
    /// A run's figures do not describe the target, or are unreliable.
    NotCompared(String),
    /// Too few runs for a claim, or not in turn.
    SideBySide(String),
    /// At least one figure differs.
    Different,
    /// None does, by more than chance.
    NoDifference,
}

impl ComparisonResult {
    const fn word(&self) -> &'static str {
        match self {
            Self::NotComparable(_) => "not-comparable",
            Self::NotCompared(_) => "not-compared",
            Self::SideBySide(_) => "side-by-side",
            Self::Different => "different",
            Self::NoDifference => "no-difference-found",
        }
    }

    fn reasons(&self) -> Vec<String> {
        match self {
            Self::NotComparable(reasons) => reasons.clone(),
            Self::NotCompared(why) | Self::SideBySide(why) => vec![why.clone()],
            Self::Different | Self::NoDifference => Vec::new(),
        }
    }
}

/// A comparison.
#[derive(Debug)]
pub struct Compared<'r> {
    sides: Sides<'r>,
    answer: ComparisonResult,
    warnings: Vec<String>,
    figures: Vec<Figure>,
}

impl<'r> Compared<'r> {
    /// Compares. **Cost**: a few microseconds for each figure.
    pub fn new(sides: Sides<'r>) -> Self {
        let differences::Differences { reasons, warnings } = differences::of(&sides);
        let refusal = if reasons.is_empty() {
            unfit(&sides)
                .map(ComparisonResult::NotCompared)
                .or_else(|| too_little(&sides).map(ComparisonResult::SideBySide))
        } else {
            Some(ComparisonResult::NotComparable(reasons))
        };
        let figures = figures(&sides, refusal.is_none());
        let answer =
            refusal.unwrap_or_else(|| match figures.iter().any(|figure| figure.better().is_some()) {
                true => ComparisonResult::Different,
                false => ComparisonResult::NoDifference,
            });
        Self { sides, answer, warnings, figures }
    }

    /// Returns the answer of the comparison.
    pub const fn answer(&self) -> &ComparisonResult {
        &self.answer
    }

    /// For people; sentences are wrapped at `columns`, if there are any.
    pub fn text(&self, columns: Option<usize>) -> String {
        text::page(self, columns)
    }

    /// For programs.
    pub fn json(&self) -> String {
        let rows = self.figures.iter().map(|figure| {
            let found = figure.found;
            json!({
                "name": figure.name, "unit": figure.unit.name(), "decides": figure.decides, "better": figure.better(),
                "a": figure.mean(&figure.a), "b": figure.mean(&figure.b), "a_runs": figure.a, "b_runs": figure.b,
                "ratio": figure.ratio(), "low": found.map(|found| found.low), "high": found.map(|found| found.high),
                "p": found.map(|found| found.p),
            })
        });
        let Sides { a, b, names, .. } = self.sides;
        let whole = json!({
            "schema": SCHEMA, "a": names.0, "b": names.1, "runs": [a.len(), b.len()], "answer": self.answer.word(),
            "reasons": self.answer.reasons(), "warnings": self.warnings, "confidence": CONFIDENCE,
            "figures": rows.collect::<Vec<_>>(),
        });
        format!("{whole:#}\n")
    }
}

/// Reason why there is no answer: a run's figures do not describe the target, or are unreliable. TARGET-LIMITED runs are accepted if all
/// runs are: then the rates are the targets' limits, and can be compared.
fn unfit(sides: &Sides<'_>) -> Option<String> {
    let limits = figures::all_at_their_limit(sides);
    let fit = |word| word == VerdictWord::Valid || limits;
    let mut named = Vec::new();
    for (side, reports) in sides.each() {
        for (place, report) in reports.iter().enumerate().filter(|(_, report)| !fit(report.verdict.word)) {
            named.push(format!("run {} of {side} is {}", place + 1, report.verdict.word.name()));
        }
    }
    let more = named.len().saturating_sub(MAX_NAMED_RUNS);
    named.truncate(MAX_NAMED_RUNS);
    if more > 0 {
        named.push(format!("{more} more are not VALID"));
    }
    (!named.is_empty()).then(|| format!("{}, so which side is faster is not known", named.join(", ")))
}

/// Reason why no difference can be reported: too few runs, or runs not made in turn, so that any drift
/// in time would look like a difference.
fn too_little(sides: &Sides<'_>) -> Option<String> {
    if sides.a.len() < MIN_RUNS || sides.b.len() < MIN_RUNS {
        return Some(format!(
            "runs of the same thing differ too, so a claim takes at least {MIN_RUNS} runs of each side, made in turn \
             (A B B A A B)"
        ));
    }
    let of_side = |side: &'static str, runs: &[Report]| -> Vec<(String, &'static str)> {
        runs.iter().map(|run| (run.manifest.started.clone(), side)).collect()
    };
    let mut runs: Vec<_> = sides.each().into_iter().flat_map(|(side, runs)| of_side(side, runs)).collect();
    // RFC 3339 in UTC, all of the same length: they sort as text.
    runs.sort_unstable();
    // Unknown, or within the same second.
    if runs.iter().any(|(started, _)| started.is_empty()) || runs.windows(2).any(|two| two[0].0 == two[1].0) {
        return Some("the reports do not say in which order the runs were made; a claim takes runs that were made in turn".into());
    }
    let order: Vec<&str> = runs.iter().map(|(_, side)| *side).collect();
    order.windows(IN_A_ROW + 1).any(|row| row.iter().all(|side| *side == row[0])).then(|| {
        format!(
            "the runs were not made in turn ({}), so what changed on the machine meanwhile would look like a difference: make them \
             A B B A A B",
            order.join(" ")
        )
    })
}
