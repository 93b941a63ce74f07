//! Tests if two groups of runs differ by more than chance: Welch's t-test on the logarithms of one figure of each run.
//!
//! In: a figure (a rate, a percentile) of each run of A, and of each run of B. Out: the ratio of B to A, an interval that holds the
//! true ratio in all but `alpha` of the cases, and p.
//!
//! **The run is the unit.** Runs of the same work differ: threads and memory have other places, the machine has other
//! work. All samples of one run share that. A statistic over the seconds or samples of runs cannot detect it: one
//! over seconds reported a difference for 13 of 28 pairs of runs of the same server.
//!
//! **Why this test.** An exact Mann–Whitney or permutation test of three runs a side cannot give a p below 2 / 20 = 0.1, whatever the
//! figures: it could never find a difference at 5 %, and with four runs a side (2 / 70 = 0.029) only for one figure. Welch's test has no
//! least p. It assumes that the logarithms of the runs' figures are roughly normal; the tests try other distributions (heavy
//! tails, two modes, drift) and count false differences. It does not assume equal variances.
//!
//! **Source**: B. L. Welch, "The generalization of 'Student's' problem when several different population variances are
//! involved", Biometrika 34 (1947).

use statrs::distribution::{ContinuousCDF as _, StudentsT};

#[cfg(test)]
mod tests;

/// B against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// `b / a`, of the geometric means.
    pub ratio: f64,
    /// Lower end of the interval of the ratio.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability of such a difference, or a greater one, between runs of the same thing.
    pub p: f64,
}

impl Comparison {
    /// Smallest difference that these runs could have shown, as a factor: how far the interval reaches from the ratio.
    pub fn resolution(&self) -> f64 {
        (self.high / self.low).sqrt()
    }
}

/// Compares the figures of A's runs with those of B's; the interval holds the true ratio in all but `alpha` of the cases. `None`: a
/// side has fewer than two runs, or a figure that has no logarithm.
pub fn welch(a: &[f64], b: &[f64], alpha: f64) -> Option<Comparison> {
    let (mean_a, error_a) = mean_and_error(a)?;
    let (mean_b, error_b) = mean_and_error(b)?;
    let (difference, error) = (mean_b - mean_a, error_a + error_b);
    if error <= 0.0 {
        // Every run of a side had the same figure.
        let ratio = difference.exp();
        let p = if difference == 0.0 { 1.0 } else { 0.0 };
        return Some(Comparison { ratio, low: ratio, high: ratio, p });
    }
    let squares = |error: f64, runs: &[f64]| error * error / (runs.len() as f64 - 1.0);
    // Welch–Satterthwaite.
    let freedom = error * error / (squares(error_a, a) + squares(error_b, b));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let reach = student.inverse_cdf(1.0 - alpha / 2.0) * error.sqrt();
    Some(Comparison {
        ratio: difference.exp(),
        low: (difference - reach).exp(),
        high: (difference + reach).exp(),
        p: 2.0 * student.cdf(-difference.abs() / error.sqrt()),
    })
}

/// Geometric mean of the figures of runs; `None`: there are none, or one has no logarithm.
pub fn geometric_mean(runs: &[f64]) -> Option<f64> {
    Some(mean(&logarithms(runs)?).exp())
}

/// Mean of the logarithms, and the square of its standard error.
fn mean_and_error(runs: &[f64]) -> Option<(f64, f64)> {
    let logarithms = logarithms(runs).filter(|logarithms| logarithms.len() > 1)?;
    let (mean, number) = (mean(&logarithms), logarithms.len() as f64);
    let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (number - 1.0);
    Some((mean, variance / number))
}

fn logarithms(runs: &[f64]) -> Option<Vec<f64>> {
    let good = !runs.is_empty() && runs.iter().all(|value| value.is_finite() && *value > 0.0);
    good.then(|| runs.iter().map(|value| value.ln()).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
