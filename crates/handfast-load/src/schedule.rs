//! The intended starts of transactions, independent of the target.
//!
//! In: the model, and our part of it. Out: intended starts, in order. They are computed from the number of arrivals since
//! the start of the run, so that the parts of threads and machines interleave without drift.

use std::time::Duration;

use handfast_stats::Random;

use crate::plan::{Arrivals, Model};

/// Our part of the arrivals of one run.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Arrivals a second at the start, over all parts.
    from: f64,
    /// … and at the end.
    to: f64,
    seconds: f64,
    /// Parts there are.
    parts: f64,
    /// Arrivals of all parts before our next one.
    next: f64,
    /// Set when arrivals are independent of each other.
    random: Option<Random>,
}

impl Schedule {
    /// Part number `part` of `parts`; `None` in the closed model, which has no intended starts.
    pub(crate) fn new(model: &Model, duration: Duration, part: u64, parts: u64, seed: u64) -> Option<Self> {
        let (from, to, arrivals) = match *model {
            Model::Closed => return None,
            Model::Open { rate, arrivals } => (rate, rate, arrivals),
            Model::Ramp { from, to, arrivals } => (from, to, arrivals),
        };
        let mut schedule = Self {
            from,
            to,
            seconds: duration.as_secs_f64(),
            parts: parts.max(1) as f64,
            next: part as f64,
            random: (arrivals == Arrivals::Poisson).then(|| Random::stream(seed, part)),
        };
        if let Some(random) = &mut schedule.random {
            // Independent parts at a rate each add up to independent arrivals at the sum of the rates.
            schedule.next = random.exponential() * schedule.parts;
        }
        Some(schedule)
    }

    /// The intended start that comes next, counted from the start of the run; `None` when it would be after the end.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let seconds = self.when(self.next)?;
        self.next += match &mut self.random {
            Some(random) => random.exponential() * self.parts,
            None => self.parts,
        };
        Some(Duration::from_secs_f64(seconds))
    }

    /// When the arrival number `arrival` of all parts is due: where `from t + (to − from) t² / 2d` reaches it.
    fn when(&self, arrival: f64) -> Option<f64> {
        if arrival <= 0.0 {
            return Some(0.0);
        }
        let bend = (self.to - self.from) / (2.0 * self.seconds);
        let seconds = if bend.abs() < 1e-12 {
            arrival / self.from
        } else {
            let root = self.from.mul_add(self.from, 4.0 * bend * arrival);
            // Below zero: a falling rate reaches nothing before it gets there.
            if root < 0.0 {
                return None;
            }
            // The form that does not subtract two nearly equal numbers when the rate hardly changes.
            2.0 * arrival / (self.from + root.sqrt())
        };
        (seconds.is_finite() && seconds < self.seconds).then_some(seconds.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn all(model: &Model, part: u64, parts: u64) -> Vec<f64> {
        let mut schedule = Schedule::new(model, TEN, part, parts, 42).expect("an open model");
        std::iter::from_fn(|| schedule.next()).map(|start| start.as_secs_f64()).collect()
    }

    #[test]
    fn fixed_arrivals_of_two_parts_interleave_to_the_whole() {
        let model = Model::Open { rate: 100.0, arrivals: Arrivals::Fixed };
        let mut both = all(&model, 0, 2);
        both.extend(all(&model, 1, 2));
        both.sort_by(f64::total_cmp);
        assert_eq!(both.len(), 1000);
        for (index, start) in both.iter().enumerate() {
            assert!((start - index as f64 / 100.0).abs() < 1e-6, "{index}: {start}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let model = Model::Open { rate: 2000.0, arrivals: Arrivals::Poisson };
        let starts = all(&model, 0, 1);
        assert!((19_000..21_000).contains(&starts.len()), "{}", starts.len());
        let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of an exponential distribution the deviation is the mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn a_ramp_has_the_area_under_its_line() {
        for (from, to) in [(100.0, 500.0), (500.0, 100.0), (0.0, 600.0), (600.0, 0.0)] {
            let starts = all(&Model::Ramp { from, to, arrivals: Arrivals::Fixed }, 0, 1);
            assert!((2999..=3001).contains(&starts.len()), "{from}→{to}: {}", starts.len());
            let first = starts.iter().filter(|start| **start < 5.0).count() as f64;
            let expected = 5.0 * from + (to - from) * 1.25;
            assert!((first - expected).abs() < 2.0, "{from}→{to}: {first} before the middle, not {expected}");
        }
    }

    #[test]
    fn the_closed_model_has_none() {
        assert!(Schedule::new(&Model::Closed, TEN, 0, 1, 1).is_none());
    }
}
