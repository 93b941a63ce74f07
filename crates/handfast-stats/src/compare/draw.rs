//! Drawing with replacement, and merging what was drawn cheaply.
//!
//! In: runs of seconds and a seed. Out: draws; the same for the same seed on every machine.

use std::collections::BTreeMap;

use crate::{Histogram, Random};

/// As many runs as there are, drawn with replacement, and from each as many seconds as it has.
pub(super) fn draw<T>(random: &mut Random, runs: &[&[T]], mut each: impl FnMut(&T)) {
    for _ in runs {
        let Some(run) = random.pick(runs) else { return };
        for _ in *run {
            if let Some(second) = random.pick(run) {
                each(second);
            }
        }
    }
}

/// A second's histogram as places in the merger's list of values, and counts.
type Compact = Vec<(u32, u64)>;

/// Merges compact seconds: one counter for each value that occurs at all, which is a few hundred and not 22,000.
pub(super) struct Merger {
    /// Every value that occurs, ascending, in nanoseconds.
    values: Vec<u64>,
    counts: Vec<u64>,
}

impl Merger {
    pub(super) fn new(runs: &[&[&Histogram]]) -> Self {
        let seconds = runs.iter().flat_map(|run| run.iter());
        let mut values: Vec<u64> =
            seconds.flat_map(|second| second.buckets()).map(|(value, _)| value).collect();
        values.sort_unstable();
        values.dedup();
        let counts = vec![0; values.len()];
        Self { values, counts }
    }

    /// The runs in compact form.
    pub(super) fn seconds(&self, runs: &[&[&Histogram]]) -> Vec<Vec<Compact>> {
        let places: BTreeMap<u64, u32> = self.values.iter().copied().zip(0..).collect();
        let compact = |second: &&Histogram| {
            second.buckets().iter().filter_map(|(value, count)| Some((*places.get(value)?, *count))).collect()
        };
        runs.iter().map(|run| run.iter().map(compact).collect()).collect()
    }

    /// The quantile of everything.
    pub(super) fn whole(&mut self, runs: &[&[Compact]], quantile: f64) -> f64 {
        runs.iter().flat_map(|run| run.iter()).for_each(|second| add(&mut self.counts, second));
        self.take(quantile)
    }

    /// The quantile of one draw.
    pub(super) fn drawn(&mut self, runs: &[&[Compact]], quantile: f64, random: &mut Random) -> f64 {
        draw(random, runs, |second| add(&mut self.counts, second));
        self.take(quantile)
    }

    /// Reads the quantile, as [`Histogram::quantile_nanos`] does, and empties the counters.
    fn take(&mut self, quantile: f64) -> f64 {
        let total: u64 = self.counts.iter().sum();
        let wanted = ((quantile.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        self.counts.fill(0);
        reached.and_then(|place| self.values.get(place)).map_or(0.0, |value| *value as f64)
    }
}

fn add(counts: &mut [u64], second: &Compact) {
    for (place, count) in second {
        counts[*place as usize] += count;
    }
}
