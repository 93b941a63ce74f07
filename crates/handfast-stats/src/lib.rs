//! Histograms, rates, intervals and comparison: numbers in, numbers out. No clock, no files.
//!
//! | question | file |
//! |---|---|
//! | counts of durations | [`histogram`] |
//! | reproducible random numbers | [`random`] |
//! | do runs of A and B differ by more than chance | [`compare`] |
#![forbid(unsafe_code)]

pub mod compare;
pub mod histogram;
pub mod random;

pub use compare::Comparison;
pub use histogram::Histogram;
pub use random::Random;
