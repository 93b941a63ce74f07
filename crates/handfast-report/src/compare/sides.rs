//! Both sides of a comparison, and its thresholds.

use crate::model::Report;

/// Least share of comparisons of a server with itself that find no difference.
pub const CONFIDENCE: f64 = 0.95;
/// Smallest difference that is reported: ten times the resolution of histograms.
pub(super) const MIN_DIFFERENCE: f64 = 0.01;

/// Both sides.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'r> {
    /// The runs of A.
    pub a: &'r [Report],
    /// The runs of B.
    pub b: &'r [Report],
    /// The names of both sides.
    pub names: (&'r str, &'r str),
    /// True if their targets may differ: two servers are compared.
    pub across_targets: bool,
}

impl<'r> Sides<'r> {
    pub(super) fn each(&self) -> [(&'static str, &'r [Report]); 2] {
        [("A", self.a), ("B", self.b)]
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &'r Report> {
        self.a.iter().chain(self.b)
    }
}
