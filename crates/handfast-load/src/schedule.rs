//! The intended starts of transactions, independent of the target.
//!
//! In: the model, and our part of it. Out: intended starts, in order. Their number is decided before the first one: the
//! rate times the duration, rounded. Each part has its share of that number, so that threads and machines make it exactly.

use std::time::Duration;

use handfast_stats::Random;

use crate::plan::{Arrivals, Model, Rates};

/// Our part of the arrivals of one run.
///
/// Places are arrivals of all parts since the start of the run: place 100 is due when the area below the rate is 100.
#[derive(Debug)]
pub(crate) struct Schedule {
    rates: Rates,
    length: Duration,
    /// The place of the end of the run.
    whole: f64,
    /// Our starts that are left.
    left: u64,
    /// The place of the last start, or of the next one if the distances are even.
    place: f64,
    spacing: Spacing,
}

/// Spacing of our starts.
#[derive(Debug)]
enum Spacing {
    /// One for each arrival of this number.
    Even(f64),
    /// Independent of each other.
    Poisson(Random),
}

impl Schedule {
    /// Part number `part` of `parts`; `None` in the closed model, which has no intended starts.
    pub(crate) fn new(model: &Model, length: Duration, part: u64, parts: u64, seed: u64) -> Option<Self> {
        let rates = model.rates(length)?;
        let (parts, all) = (parts.max(1), rates.starts());
        let whole = rates.due(length.as_secs_f64());
        let (place, spacing) = match model.arrivals()? {
            Arrivals::Fixed => (part as f64, Spacing::Even(parts as f64)),
            Arrivals::Poisson => (0.0, Spacing::Poisson(Random::stream(seed, part))),
        };
        let left = all / parts + u64::from(part < all % parts);
        Some(Self { rates, length, whole, left, place, spacing })
    }

    /// The intended start that comes next, counted from the start of the run; `None` after the last one.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let left = self.left;
        self.left = left.checked_sub(1)?;
        let place = match &mut self.spacing {
            Spacing::Even(distance) => {
                let place = self.place;
                self.place += *distance;
                place
            }
            // A Poisson process with a known number of arrivals is that many independent, evenly distributed places. In order,
            // without memory of them: the first of `left` places between here and the end is where a distance of
            // 1 - U^(1/left) of the rest leads (Devroye, Non-Uniform Random Variate Generation, 1986, chapter V.3.2). -ln U is
            // exponential.
            Spacing::Poisson(random) => {
                let step = -(-random.exponential() / left as f64).exp_m1();
                self.place += (self.whole - self.place) * step;
                self.place
            }
        };
        // An arrival that is due at the end itself would never start.
        let last = self.length.saturating_sub(Duration::from_nanos(1));
        Some(Duration::try_from_secs_f64(self.rates.when(place)).map_or(last, |start| start.min(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Stage;

    const TEN: Duration = Duration::from_secs(10);

    fn all(model: &Model, part: u64, parts: u64) -> Vec<f64> {
        let mut schedule = Schedule::new(model, TEN, part, parts, 42).expect("an open model");
        std::iter::from_fn(|| schedule.next()).map(|start| start.as_secs_f64()).collect()
    }

    #[test]
    fn fixed_arrivals_of_two_parts_interleave_to_the_whole() {
        let model = Model::open(100.0, Arrivals::Fixed);
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
        let model = Model::open(2000.0, Arrivals::Poisson);
        let starts = all(&model, 0, 1);
        assert_eq!(starts.len(), 20_000);
        let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of an exponential distribution the deviation is the mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{}", variance.sqrt() / mean);
        // The count of ten milliseconds varies as that of a Poisson process does: its variance is its mean, with even distances it
        // would be 0.
        let mut counts = [0.0; 1000];
        starts.iter().for_each(|start| counts[(start * 100.0) as usize] += 1.0);
        let variance = counts.iter().map(|count: &f64| (count - 20.0).powi(2)).sum::<f64>() / 1000.0;
        assert!((16.0..24.0).contains(&variance), "{variance}");
    }

    #[test]
    fn poisson_starts_are_as_many_as_planned_however_they_are_split() {
        for (from, to) in [(200.0, 200.0), (0.0, 333.3), (777.0, 1.0), (0.01, 0.02)] {
            let model = Model::ramp(from, to, Arrivals::Poisson);
            for parts in [1, 2, 3, 7, 64] {
                let starts: Vec<f64> = (0..parts).flat_map(|part| all(&model, part, parts)).collect();
                let planned = ((from + to) * 5.0).round().max(1.0) as usize;
                assert_eq!(starts.len(), planned, "{from}→{to} in {parts} parts");
                assert!(starts.iter().all(|start| (0.0..10.0).contains(start)), "within the run");
            }
            assert!(all(&model, 0, 1).is_sorted(), "in order");
        }
    }

    #[test]
    fn a_poisson_ramp_has_the_area_under_its_line() {
        let starts = all(&Model::ramp(0.0, 2000.0, Arrivals::Poisson), 0, 1);
        let before = starts.iter().filter(|start| **start < 5.0).count() as f64;
        // A quarter of 10,000, to within four deviations.
        assert!((before - 2_500.0).abs() < 4.0 * 43.4, "{before}");
    }

    #[test]
    fn a_ramp_has_the_area_under_its_line() {
        for (from, to) in [(100.0, 500.0), (500.0, 100.0), (0.0, 600.0), (600.0, 0.0)] {
            let starts = all(&Model::ramp(from, to, Arrivals::Fixed), 0, 1);
            assert_eq!(starts.len(), 3000, "{from}→{to}");
            let first = starts.iter().filter(|start| **start < 5.0).count() as f64;
            let expected = 5.0 * from + (to - from) * 1.25;
            assert!((first - expected).abs() < 2.0, "{from}→{to}: {first} before the middle, not {expected}");
        }
    }

    #[test]
    fn stages_follow_each_other() {
        let stage = |from, to, share| Stage { from, to, share };
        let stages = vec![stage(0.0, 0.0, 2.0), stage(100.0, 300.0, 4.0), stage(50.0, 50.0, 4.0)];
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
            let starts = all(&Model::Open { stages: stages.clone(), arrivals }, 0, 1);
            assert_eq!(starts.len(), 1000, "{arrivals:?}");
            let within = |from, to| starts.iter().filter(|start| (from..to).contains(*start)).count() as f64;
            assert!(within(0.0, 2.0) < 2.0, "{arrivals:?}: nothing starts at a rate of 0");
            // By chance 800 are off by four deviations at most.
            assert!((within(2.0, 6.0) - 800.0).abs() < 51.0, "{arrivals:?}: {}", within(2.0, 6.0));
        }
    }

    #[test]
    fn the_closed_model_has_none() {
        assert!(Schedule::new(&Model::Closed, TEN, 0, 1, 1).is_none());
    }
}
