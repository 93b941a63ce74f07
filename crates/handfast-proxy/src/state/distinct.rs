//! Values of many places, most of which have the same one: a service with 10,000 rules has few different TLS settings.
//!
//! In: what decides about the value of each place. Out: each different value once, and the one of each place.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Values by place, numbered in the order in which they come first.
#[derive(Debug)]
pub(crate) struct Distinct<T> {
    values: Vec<T>,
    /// For each place, the index of its value.
    of: Arc<[usize]>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { values: Vec::new(), of: Arc::default() }
    }
}

impl<T> Distinct<T> {
    /// Makes one value for all places with equal keys; `make` gets the first of these places.
    ///
    /// A key has two halves: the second one need not be hashed. **Cost**: a search among the keys with the same first half.
    pub(crate) fn new<H: Hash + Eq, E: PartialEq>(
        keys: impl IntoIterator<Item = (H, E)>,
        mut make: impl FnMut(usize) -> T,
    ) -> Self {
        let mut known: HashMap<H, Vec<(E, usize)>> = HashMap::new();
        let (mut values, mut of) = (Vec::new(), Vec::new());
        for (place, (hashed, equal)) in keys.into_iter().enumerate() {
            let alike = known.entry(hashed).or_default();
            let index = match alike.iter().find(|(key, _)| *key == equal) {
                Some((_, index)) => *index,
                None => {
                    values.push(make(place));
                    alike.push((equal, values.len() - 1));
                    values.len() - 1
                }
            };
            of.push(index);
        }
        Self { values, of: of.into() }
    }

    /// The value of a place.
    pub(crate) fn at(&self, place: usize) -> &T {
        &self.values[self.of[place]]
    }

    /// Each value once.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// Each value once, with the first of its places.
    pub(crate) fn with_first_places(&self) -> impl Iterator<Item = (usize, &T)> {
        let mut values = self.values.iter().enumerate().peekable();
        self.of.iter().enumerate().filter_map(move |(place, index)| {
            values.next_if(|(next, _)| next == index).map(|(_, value)| (place, value))
        })
    }

    /// Other values for the same places.
    ///
    /// **Errors**: the first one of `change`.
    pub(crate) fn try_map<U, E>(&self, change: impl FnMut(&T) -> Result<U, E>) -> Result<Distinct<U>, E> {
        let values = self.values.iter().map(change).collect::<Result<_, _>>()?;
        Ok(Distinct { values, of: Arc::clone(&self.of) })
    }
}

impl<T> Distinct<Option<T>> {
    /// `None` where any value is.
    pub(crate) fn whole(self) -> Option<Distinct<T>> {
        let values = self.values.into_iter().collect::<Option<_>>()?;
        Some(Distinct { values, of: self.of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_have_one_value_and_each_place_has_its_own() {
        let keys = [("a", 1), ("b", 1), ("a", 1), ("a", 2), ("b", 1)];
        let mut made = Vec::new();
        let distinct = Distinct::new(keys, |place| {
            made.push(place);
            keys[place]
        });
        assert_eq!(made, [0, 1, 3]);
        assert!((0..keys.len()).all(|place| *distinct.at(place) == keys[place]));
        let firsts: Vec<_> = distinct.with_first_places().map(|(place, value)| (place, *value)).collect();
        assert_eq!(firsts, [(0, ("a", 1)), (1, ("b", 1)), (3, ("a", 2))]);
    }
}
