//! Cells by label: a bounded table that its owner fills while others read. Labels beyond its capacity are counted together, so no peer can
//! make it grow.

use std::sync::OnceLock;

/// At most `N` keys with their values, and one value for all further keys.
///
/// **Cost:** a look-up compares with the keys that came before it, in the order they first came: the frequent ones are found first.
/// A value is allocated when its key first comes.
#[derive(Debug)]
pub(crate) struct Table<K, V, const N: usize> {
    slots: [OnceLock<Box<(K, V)>>; N],
    other: OnceLock<Box<V>>,
}

impl<K, V, const N: usize> Default for Table<K, V, N> {
    fn default() -> Self {
        Self { slots: [const { OnceLock::new() }; N], other: OnceLock::new() }
    }
}

impl<K, V: Default, const N: usize> Table<K, V, N> {
    /// The value of the key that `is_it`, which `key` makes when it first comes; only the owner may ask.
    #[inline]
    pub(crate) fn entry_of(&self, is_it: impl Fn(&K) -> bool, key: impl Fn() -> K) -> &V {
        for slot in &self.slots {
            let entry = slot.get_or_init(|| Box::new((key(), V::default())));
            if is_it(&entry.0) {
                return &entry.1;
            }
        }
        self.other.get_or_init(Box::default)
    }

    /// Every key with its value; `None` for those that found no place.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (Option<&K>, &V)> {
        let known = self.slots.iter().map_while(|slot| slot.get()).map(|entry| (Some(&entry.0), &entry.1));
        known.chain(self.other.get().map(|value| (None, &**value)))
    }
}

impl<K: Copy + PartialEq, V: Default, const N: usize> Table<K, V, N> {
    /// The value of a key; only the owner may ask.
    #[inline]
    pub(crate) fn entry(&self, key: K) -> &V {
        self.entry_of(|known| *known == key, || key)
    }

    /// Every key with its value; `None` for those that found no place.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Option<K>, &V)> {
        self.pairs().map(|(key, value)| (key.copied(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    #[test]
    fn a_full_table_counts_the_rest_together() {
        let table: Table<u8, Cell, 3> = Table::default();
        for key in [7, 7, 8, 9, 10, 11, 8] {
            table.entry(key).add(1);
        }
        let seen: Vec<_> = table.entries().map(|(key, cell)| (key, cell.value())).collect();
        assert_eq!(seen, [(Some(7), 2), (Some(8), 2), (Some(9), 1), (None, 2)]);
    }
}
