//! Weights: the frequency of one of several requests or clients.

use super::error::PlanError;

/// Parses a relative weight.
pub(super) fn weight(text: &str) -> Result<u32, PlanError> {
    let weight = text.parse::<u32>().ok().filter(|weight| (1..=1_000_000).contains(weight));
    weight.ok_or_else(|| PlanError::Weight(text.to_owned()))
}
