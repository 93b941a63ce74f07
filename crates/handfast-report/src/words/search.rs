//! The result of a search for the highest rate, in a sentence.

use crate::model::{Search, SearchStep};
use crate::units::{count, counted, rate};

/// The search's result in a sentence. How many steps decided says how certain it is.
pub(crate) fn search_result(search: &Search) -> String {
    let bound = &search.bound;
    match (search.highest_rate, search.lowest_failed) {
        (Some(highest), Some(failed)) => format!(
            "{} held {bound} in {}; {} did not in {}.",
            rate(highest),
            votes(search, highest, true),
            rate(failed),
            votes(search, failed, false)
        ),
        (Some(highest), None) => {
            format!(
                "{} held {bound} in {}; no rate that was tried missed it.",
                rate(highest),
                votes(search, highest, true)
            )
        }
        (None, Some(failed)) => format!("No rate held {bound}, not even {}.", rate(failed)),
        (None, None) => format!("No rate was tried against {bound} to the end."),
    }
}

/// `2 of 3 steps`: how many at this rate held the bound, or did not, of those that have a vote.
fn votes(search: &Search, at: f64, held: bool) -> String {
    let steps = || {
        let same = |step: &&SearchStep| (step.offered_rate - at).abs() < f64::EPSILON * at;
        search.steps.iter().filter(same).filter(|step| !step.verdict.is_unusable())
    };
    let agree = steps().filter(|step| step.held == held).count() as u64;
    format!("{} of {}", count(agree), counted(steps().count() as u64, "step"))
}
