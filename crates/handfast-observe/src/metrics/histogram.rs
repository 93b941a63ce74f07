//! Durations counted in buckets that one thread writes and others read.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cell::Cell;

/// Number of bounded buckets: 1 µs · 2^(k/2) for k = 0 … 53, the last one 94.9 s.
const BOUNDED: usize = 54;
/// One more for what is longer.
const BUCKETS: usize = BOUNDED + 1;
/// Numbers of a histogram: the buckets, and after them the sum in nanoseconds, at the place [`BUCKETS`].
const PLACES: usize = BUCKETS + 1;

/// Upper bounds (inclusive) of the buckets, in nanoseconds.
const BOUNDS: [u64; BOUNDED] = bounds();

const fn bounds() -> [u64; BOUNDED] {
    let mut bounds = [0; BOUNDED];
    let mut k = 0;
    while k < BOUNDED {
        // 1000 · 2^(k/2) nanoseconds; √2 to ten digits for the odd ones.
        bounds[k] = if k % 2 == 0 { 1_000 << (k / 2) } else { (1_414_213_562 << (k / 2)) / 1_000_000 };
        k += 1;
    }
    bounds
}

/// Durations counted in buckets whose bounds grow by √2: 1 µs, 1.41 µs, 2 µs, … 94.9 s, and longer.
///
/// **Cost:** 448 bytes; a measurement is six comparisons and two additions.
#[derive(Debug)]
pub struct Histogram([Cell; PLACES]);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { Cell::new() }; PLACES])
    }
}

impl Histogram {
    /// Counts one duration; only its owner may.
    #[inline]
    pub fn record(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < nanoseconds);
        self.0[bucket].add(1);
        self.0[BUCKETS].add(nanoseconds);
    }

    /// Adds what it holds to `sum`.
    pub fn add_to(&self, sum: &mut Distribution) {
        sum.0.iter_mut().zip(&self.0).for_each(|(sum, cell)| *sum = sum.wrapping_add(cell.value()));
    }
}

/// Content of histograms when they were read, added up over threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution([u64; PLACES]);

impl Default for Distribution {
    fn default() -> Self {
        Self([0; PLACES])
    }
}

impl Distribution {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.0[..BUCKETS].iter().sum()
    }

    /// Their sum in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.0[BUCKETS] as f64 / 1e9
    }

    /// Their mean; `None` when nothing was counted.
    pub fn mean_seconds(&self) -> Option<f64> {
        Some(self.count()).filter(|count| *count > 0).map(|count| self.sum_seconds() / count as f64)
    }

    /// The duration that a share `q` (0 … 1) of them does not exceed, in seconds; `None` when nothing was counted.
    ///
    /// Interpolated inside the bucket, so it is within a factor of √2 of the true one. What is longer than the last
    /// bound is given as that bound.
    pub fn quantile_seconds(&self, q: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (q.clamp(0.0, 1.0) * count as f64).max(1.0);
        let mut below = 0;
        for (bucket, in_bucket) in self.0[..BUCKETS].iter().enumerate().filter(|(_, count)| **count > 0) {
            if (below + in_bucket) as f64 >= rank {
                let Some(upper) = BOUNDS.get(bucket) else { break };
                let lower = bucket.checked_sub(1).map_or(0, |previous| BOUNDS[previous]);
                let share = (rank - below as f64) / *in_bucket as f64;
                return Some((lower as f64 + (upper - lower) as f64 * share) / 1e9);
            }
            below += in_bucket;
        }
        Some(BOUNDS[BOUNDED - 1] as f64 / 1e9)
    }

    /// Upper bounds in seconds with the counts up to each since the one before, the last one infinite.
    ///
    /// Every second bound only (1, 2, 4 … µs): half the lines of a scrape, and bounds that a person can read.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(BOUNDED / 2 + 1);
        let mut pending = 0;
        for (bucket, count) in self.0[..BUCKETS].iter().enumerate() {
            pending += count;
            let bound = BOUNDS.get(bucket).copied();
            if bucket % 2 == 0 || bound.is_none() {
                // An even bound is a whole number of microseconds, so this division gives its shortest decimal.
                let seconds = bound.map_or(f64::INFINITY, |bound| (bound / 1_000) as f64 / 1e6);
                buckets.push((seconds, pending));
                pending = 0;
            }
        }
        buckets
    }

    /// Every number that it is made of by its place: the buckets, and after them the sum in nanoseconds.
    pub(super) fn cells(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate()
    }

    /// The number at such a place.
    pub(super) fn cell(&mut self, place: &str) -> Option<&mut u64> {
        self.0.get_mut(place.parse::<usize>().ok()?)
    }

    /// Returns the durations since an earlier reading of the same histograms.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place].saturating_sub(earlier.0[place])))
    }

    /// Adds another one to it.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
    }
}

/// In JSON: the summary for people and scripts, and the buckets that it is made of.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Summary {
    count: u64,
    sum_seconds: f64,
    p50_seconds: Option<f64>,
    p90_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    /// Upper bound of a bucket, and its number of durations; only of buckets that have some.
    buckets_ns: Vec<(u64, u64)>,
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [p50_seconds, p90_seconds, p99_seconds] = [0.5, 0.9, 0.99].map(|q| self.quantile_seconds(q));
        let (count, sum_seconds) = (self.count(), self.sum_seconds());
        let bounds = BOUNDS.into_iter().chain([u64::MAX]).zip(self.0);
        let buckets_ns = bounds.filter(|(_, count)| *count > 0).collect();
        Summary { count, sum_seconds, p50_seconds, p90_seconds, p99_seconds, buckets_ns }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let summary = Summary::deserialize(deserializer)?;
        let mut cells = Self::default();
        for (bound, count) in summary.buckets_ns {
            cells.0[BOUNDS.partition_point(|known| *known < bound)] = count;
        }
        // A number that is negative becomes 0.
        cells.0[BUCKETS] = (summary.sum_seconds * 1e9).round() as u64;
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(durations: impl IntoIterator<Item = Duration>) -> Distribution {
        let histogram = Histogram::default();
        durations.into_iter().for_each(|duration| histogram.record(duration));
        let mut sum = Distribution::default();
        histogram.add_to(&mut sum);
        sum
    }

    #[test]
    fn bounds_grow_by_the_root_of_two() {
        assert_eq!(&BOUNDS[..4], &[1_000, 1_414, 2_000, 2_828]);
        for pair in BOUNDS.windows(2) {
            let ratio = pair[1] as f64 / pair[0] as f64;
            assert!((ratio - std::f64::consts::SQRT_2).abs() < 0.001, "{pair:?}");
        }
    }

    #[test]
    fn a_duration_on_a_bound_is_inside_it() {
        let sum = distribution([Duration::from_micros(2), Duration::from_nanos(2_001), Duration::ZERO]);
        let buckets = sum.buckets();
        assert_eq!(buckets[0], (0.000_001, 1), "zero is in the first");
        assert_eq!(buckets[1], (0.000_002, 1), "2 µs is not above 2 µs");
        assert_eq!(buckets[2], (0.000_004, 1));
    }

    #[test]
    fn what_is_beyond_the_last_bound_is_still_counted() {
        let sum = distribution([Duration::from_secs(10_000), Duration::MAX]);
        assert_eq!(sum.count(), 2);
        assert_eq!(sum.buckets().last(), Some(&(f64::INFINITY, 2)));
        assert_eq!(sum.quantile_seconds(0.5), Some(BOUNDS[BOUNDED - 1] as f64 / 1e9));
    }

    #[test]
    fn quantiles_are_within_one_bucket() {
        let sum = distribution((1..=10_000).map(Duration::from_micros));
        for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let truth = q * 10_000.0 / 1e6;
            let seen = sum.quantile_seconds(q).expect("not empty");
            assert!(seen / truth < 1.42 && truth / seen < 1.42, "q {q}: {seen} instead of {truth}");
        }
        assert!((sum.mean_seconds().expect("not empty") - 0.005_000_5).abs() < 1e-9);
        assert_eq!(distribution([]).quantile_seconds(0.5), None);
    }

    #[test]
    fn merging_adds_up() {
        let mut sum = distribution([Duration::from_millis(1)]);
        sum.merge(&distribution([Duration::from_millis(3), Duration::from_secs(1)]));
        assert_eq!(sum.count(), 3);
        assert!((sum.sum_seconds() - 1.004).abs() < 1e-9);
    }
}
