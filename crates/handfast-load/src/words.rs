//! Sentences about numbers, and words that were nearly right: those of the report.

pub(crate) use handfast_report::phrases::{did_you_mean, things};
