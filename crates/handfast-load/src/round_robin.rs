//! Weighted round robin: for the members of a mix, names, requests.
//!
//! In: weights, and the number of earlier turns. Out: indices, one after the other. Nothing is random: after any
//! number of turns each index has had its share, to within about one turn, and the same weights give the same order
//! everywhere. So threads and machines that take consecutive parts of one order have exact shares together.
//!
//! It is the method of Webster and Sainte-Laguë: the next turn goes to the index with the least `(turns + ½) / weight`.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// The order of turns. **Cost**: of a turn, the logarithm of their number.
#[derive(Debug)]
pub(crate) struct WeightedRoundRobin {
    /// Empty when there is only one.
    waiting: BinaryHeap<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// `(turns + ½) / weight`.
    due: f64,
    turns: u64,
    weight: f64,
    place: usize,
}

impl Waiting {
    fn key(&self) -> (f64, usize) {
        (self.due, self.place)
    }
}

impl Ord for Waiting {
    /// The heap gives its greatest: that is the one that is due first.
    fn cmp(&self, other: &Self) -> Ordering {
        let ((mine, my_place), (theirs, their_place)) = (self.key(), other.key());
        theirs.total_cmp(&mine).then(their_place.cmp(&my_place))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl WeightedRoundRobin {
    /// Of these weights, each above 0, after `taken` turns that others have had.
    ///
    /// **Cost**: as much as `taken` turns, but of a billion of them no more than of a few thousand.
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>, taken: u64) -> Self {
        let waiting = |(place, weight): (usize, f64)| Waiting { due: 0.5 / weight, turns: 0, weight, place };
        let mut waiting: Vec<Waiting> = weights.into_iter().enumerate().map(waiting).collect();
        if waiting.len() < 2 {
            return Self { waiting: BinaryHeap::new() };
        }
        let sum: f64 = waiting.iter().map(|one| one.weight).sum();
        // For the distant past, each index gets its share rounded down, minus one for safety.
        for one in &mut waiting {
            let had = (taken as f64 * one.weight / sum).floor() - 1.0;
            one.turns = if had > 0.0 { had as u64 } else { 0 };
            one.due = (one.turns as f64 + 0.5) / one.weight;
        }
        let had: u64 = waiting.iter().map(|one| one.turns).sum();
        let mut turns = Self { waiting: waiting.into() };
        for _ in had..taken {
            turns.take();
        }
        turns
    }

    /// The index of the next turn.
    pub(crate) fn take(&mut self) -> usize {
        let Some(mut first) = self.waiting.peek_mut() else { return 0 };
        first.turns += 1;
        first.due = (first.turns as f64 + 0.5) / first.weight;
        let place = first.place;
        // Put where it now belongs.
        drop::<PeekMut<'_, Waiting>>(first);
        place
    }
}

#[cfg(test)]
mod tests {
    use handfast_stats::Random;

    use super::*;

    fn counts(weights: &[f64], turns: &mut WeightedRoundRobin, number: u64) -> Vec<u64> {
        let mut counts = vec![0; weights.len()];
        (0..number).for_each(|_| counts[turns.take()] += 1);
        counts
    }

    #[test]
    fn after_any_number_of_turns_each_has_its_share() {
        let mut random = Random::stream(1, 1);
        let mut worst: f64 = 0.0;
        for _ in 0..300 {
            let number = 2 + (random.unit() * 30.0) as usize;
            let weights: Vec<f64> = (0..number).map(|_| 0.01 + random.unit() * 100.0).collect();
            let sum: f64 = weights.iter().sum();
            let mut turns = WeightedRoundRobin::new(weights.iter().copied(), 0);
            let mut counts = vec![0_u64; number];
            for taken in 1..=500_u32 {
                counts[turns.take()] += 1;
                for (count, weight) in counts.iter().zip(&weights) {
                    worst = worst.max((*count as f64 - f64::from(taken) * weight / sum).abs());
                }
            }
        }
        assert!(worst < 1.5, "off by {worst} turns");
    }

    #[test]
    fn stretches_of_one_order_make_the_whole() {
        let weights = [70.0, 20.0, 9.5, 0.5];
        let whole: Vec<usize> = {
            let mut turns = WeightedRoundRobin::new(weights, 0);
            (0..4_000).map(|_| turns.take()).collect()
        };
        for taken in [0, 1, 7, 64, 999, 3_990] {
            let mut turns = WeightedRoundRobin::new(weights, taken as u64);
            let stretch: Vec<usize> = (0..10).map(|_| turns.take()).collect();
            assert_eq!(stretch, whole[taken..taken + 10], "after {taken} turns");
        }
        // 1,000 connections: exactly their shares.
        assert_eq!(counts(&weights, &mut WeightedRoundRobin::new(weights, 0), 1_000), [700, 200, 95, 5]);
    }

    #[test]
    fn one_alone_always_has_its_turn_and_equal_ones_go_round() {
        assert_eq!(counts(&[3.0], &mut WeightedRoundRobin::new([3.0], 9), 5), [5]);
        let mut turns = WeightedRoundRobin::new([1.0; 3], 0);
        assert_eq!([(); 6].map(|()| turns.take()), [0, 1, 2, 0, 1, 2]);
    }
}
