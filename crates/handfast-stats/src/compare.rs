//! Whether two runs differ by more than chance: bootstrap intervals over one-second samples.
//!
//! In: the seconds of one or more runs of A, and of B. Out: the ratio of B to A, and an interval that holds it in 95 of 100
//! cases. Seconds are drawn whole, because samples within one second are not independent: one pause makes
//! a thousand slow transactions. Where a side has several runs, runs are drawn first and then their seconds, so that what
//! changes from run to run counts as chance too. Which seconds belong to a run (not the first, not a broken last
//! one) is the caller's affair.
//!
//! The interval is the percentile bootstrap's, widened for few samples by `t / 1.96 · √(n / (n − 1))` (Hesterberg,
//! "What Teachers Should Know About the Bootstrap", 2015, section 4.1): without it, ten seconds find a difference between a
//! thing and itself one time in ten.

mod draw;
#[cfg(test)]
mod tests;

use crate::{Histogram, Random};
use draw::{Merger, draw};

/// Resamples of rates: the bounds of the interval are then the 50th least and the 50th greatest.
pub const RATE_RESAMPLES: usize = 2_000;
/// Resamples of percentiles, which cost more: the bounds are then the 10th least and the 10th greatest.
pub const QUANTILE_RESAMPLES: usize = 400;

/// B against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The figure of A, over all its seconds.
    pub a: f64,
    /// The figure of B, over all its seconds.
    pub b: f64,
    /// `b / a`.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The interval holds 1: the difference may be chance.
    pub noise: bool,
    /// Seconds of A and of B.
    pub samples: (usize, usize),
}

/// Compares the means of per-second values; each inner slice is one run. `None`: a side has fewer than two seconds, or A's
/// mean is not above zero, so that there is no ratio.
///
/// **Cost**: 2,000 sums over all seconds.
pub fn rates(a: &[&[f64]], b: &[&[f64]], seed: u64) -> Option<Comparison> {
    let mean = |runs: &[&[f64]]| {
        let (sum, count) =
            runs.iter().flat_map(|run| run.iter()).fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
        sum / count
    };
    let mut random = Random::new(seed);
    let mut resample = |runs: &[&[f64]]| {
        let (mut sum, mut count) = (0.0, 0.0);
        draw(&mut random, runs, |value| {
            sum += value;
            count += 1.0;
        });
        sum / count
    };
    let pairs = |_| (resample(a), resample(b));
    judge((mean(a), mean(b)), samples(a, b)?, (0..RATE_RESAMPLES).map(pairs).collect())
}

/// Compares a percentile of all samples together: whole seconds are drawn, merged, and asked. Each inner slice is one run.
/// **Units** of the figures: nanoseconds. `None`: a side has fewer than two seconds, or no samples.
///
/// **Cost**: 400 passes over the occupied buckets of all seconds; an hour of a thousand buckets a second takes seconds.
pub fn quantiles(a: &[&[&Histogram]], b: &[&[&Histogram]], quantile: f64, seed: u64) -> Option<Comparison> {
    let (mut merge_a, mut merge_b) = (Merger::new(a), Merger::new(b));
    let (compact_a, compact_b) = (merge_a.seconds(a), merge_b.seconds(b));
    let (runs_a, runs_b) = (as_slices(&compact_a), as_slices(&compact_b));
    let whole = (merge_a.whole(&runs_a, quantile), merge_b.whole(&runs_b, quantile));
    let mut random = Random::new(seed);
    let pairs = |_| {
        let drawn_a = merge_a.drawn(&runs_a, quantile, &mut random);
        (drawn_a, merge_b.drawn(&runs_b, quantile, &mut random))
    };
    judge(whole, samples(a, b)?, (0..QUANTILE_RESAMPLES).map(pairs).collect())
}

fn as_slices<T>(runs: &[Vec<T>]) -> Vec<&[T]> {
    runs.iter().map(Vec::as_slice).collect()
}

/// Seconds of each side, when there are enough.
fn samples<T>(a: &[&[T]], b: &[&[T]]) -> Option<(usize, usize)> {
    let count = |runs: &[&[T]]| runs.iter().map(|run| run.len()).sum::<usize>();
    Some((count(a), count(b))).filter(|(a, b)| *a > 1 && *b > 1)
}

/// Interval and judgement from the figures of the whole, and those of the resamples.
fn judge(whole: (f64, f64), samples: (usize, usize), resamples: Vec<(f64, f64)>) -> Option<Comparison> {
    let (a, b) = whole;
    if !(a > 0.0 && a.is_finite() && b.is_finite()) {
        return None;
    }
    // A draw of A may be all zeros when most of its seconds are: then B is as many times greater as can be said.
    let mut ratios: Vec<f64> =
        resamples.iter().map(|(a, b)| if *a > 0.0 { b / a } else { f64::MAX }).collect();
    ratios.sort_by(f64::total_cmp);
    let cut = resamples.len() / 40;
    let (low, high) = (*ratios.get(cut)?, *ratios.get(ratios.len().checked_sub(cut + 1)?)?);
    let ratio = b / a;
    let wider = widening(samples.0.min(samples.1));
    let low = (ratio - (ratio - low).max(0.0) * wider).max(0.0);
    let high = (ratio + (high - ratio).max(0.0) * wider).min(f64::MAX);
    Some(Comparison { a, b, ratio, low, high, noise: low <= 1.0 && 1.0 <= high, samples })
}

/// What the percentile interval of so many samples lacks: `t(0.975, n − 1) / 1.96 · √(n / (n − 1))`.
fn widening(samples: usize) -> f64 {
    /// Student's t at 97.5 % for 1 to 10 degrees of freedom (any table).
    const T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    const NORMAL: f64 = 1.960;
    let freedom = samples.saturating_sub(1).max(1);
    // Beyond the table: one term in 1/n, right to a hundredth.
    let t = T.get(freedom - 1).copied().unwrap_or(NORMAL + 2.6 / freedom as f64);
    t / NORMAL * ((freedom as f64 + 1.0) / freedom as f64).sqrt()
}
