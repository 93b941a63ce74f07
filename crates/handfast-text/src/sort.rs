//! Sorting that is compiled once, for the short lists of a report, a page or a configuration.
//!
//! The standard library's sort is compiled anew for each type and each comparison, five KiB each time; sixty of them were 2 % of the
//! program. Here places are sorted, through a comparison behind a pointer, and the items then change places: a third slower, and
//! one allocation. What sorts many items, or often, takes the standard library's.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts short slices with little code; items that are equal stay in the order in which they were.
pub trait SmallSort<T> {
    /// Sorts by comparing two items.
    fn small_sort_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by a key of each item, which is computed anew for each comparison.
    fn small_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.small_sort_by(|one, other| key(one).cmp(&key(other)));
    }
}

impl<T> SmallSort<T> for [T] {
    fn small_sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut goes_to = places(self.len(), &mut |one, other| match (self.get(one), self.get(other)) {
            (Some(one), Some(other)) => compare(one, other),
            _ => Ordering::Equal,
        });
        // Each swap brings one item to its place for good.
        for place in 0..self.len() {
            while let Some(&target) = goes_to.get(place).filter(|target| **target != place) {
                self.swap(place, target);
                goes_to.swap(place, target);
            }
        }
    }
}

/// Where each item goes when all are in order.
fn places(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| compare(*one, *other));
    let mut goes_to = vec![0; count];
    for (place, item) in order.into_iter().enumerate() {
        if let Some(target) = goes_to.get_mut(item) {
            *target = place;
        }
    }
    goes_to
}

/// Collects into maps and sets in order, item by item: the standard library's `collect` sorts first, with a sort of its own.
pub trait IntoOrder: Iterator + Sized {
    /// A map; of equal keys the last one stays.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        for (key, value) in self {
            map.insert(key, value);
        }
        map
    }

    /// A set; of equal items the first one stays.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        for item in self {
            set.insert(item);
        }
        set
    }
}

impl<I: Iterator> IntoOrder for I {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_order_is_the_standard_librarys_also_of_equal_items(keys in prop::collection::vec(0_u8..20, 0..200)) {
            let items: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let (mut ours, mut theirs) = (items.clone(), items);
            ours.small_sort_by_key(|(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&ours, &theirs);
            ours.small_sort_by(|one, other| other.cmp(one));
            theirs.sort_by(|one, other| other.cmp(one));
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn maps_and_sets_are_the_standard_librarys(pairs in prop::collection::vec((0_u8..20, 0_u8..20), 0..60)) {
            prop_assert_eq!(pairs.iter().copied().into_map(), pairs.iter().copied().collect::<BTreeMap<_, _>>());
            prop_assert_eq!(pairs.iter().into_set(), pairs.iter().collect::<BTreeSet<_>>());
        }
    }
}
