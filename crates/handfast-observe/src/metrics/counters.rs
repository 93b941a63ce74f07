//! The table of counters: one row declares a counter for the worker that counts it, its value in a snapshot, the sum over threads, and the
//! words in an [upgrade](super::transfer). Families of OpenMetrics are declared in `openmetrics.rs`: one joins several counters, and they have
//! their own order.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::Duration;

use super::histogram::{Distribution, Histogram};
use crate::cell::Cell;
use crate::words::Word;

/// Declares counters: `name: value = cell => words`.
///
/// A row without a cell is set by the control thread. A row without words stays in this process. `as` instead of `=>`: other processes
/// do not send it, and this one adds what it derives from other counters.
macro_rules! counters {
    (
        $(#[$of_cells:meta])*
        $visible:vis cells $cells:ident;
        $(#[$of_values:meta])*
        values $values:ident;
        $($(#[$meta:meta])* $name:ident: $value:ty $(= $cell:ty)? $(=> $words:expr)? $(, as $derived:expr)?;)*
    ) => {
        $(#[$of_cells])*
        $visible struct $cells {
            $($(pub(super) $name: $cell,)?)*
        }

        $(#[$of_values])*
        pub struct $values {
            $($(#[$meta])* pub $name: $value,)*
        }

        impl $crate::metrics::counters::AddTo<$values> for $cells {
            fn add_to(&self, sum: &mut $values) {
                $crate::metrics::counters::last_first! {
                    $($({ <$cell as $crate::metrics::counters::AddTo<$value>>::add_to(&self.$name, &mut sum.$name); })?)*
                }
            }
        }

        $crate::metrics::transfer::transferred! {
            $values { $($($name: $value => $words;)?)* } derived { $($($name => $derived;)?)* }
        }
    };
}
pub(super) use counters;

/// Declares what is counted when something happens: methods that only the thread that owns the cells calls.
macro_rules! events {
    ($of:ident as $it:ident { $($(#[$meta:meta])* $event:ident($($with:ident: $type:ty),*) => $count:expr;)* }) => {
        impl $of {
            $($(#[$meta])*
            #[inline]
            pub fn $event(&self $(, $with: $type)*) {
                let $it = self;
                $count;
            })*
        }
    };
}
pub(super) use events;

/// Statements in reverse order: ends are declared after beginnings and read before them, so what comes meanwhile shows as one connection
/// more, never as one too few.
macro_rules! last_first {
    ({ $($first:tt)* } $($rest:tt)*) => {
        $crate::metrics::counters::last_first! { $($rest)* }
        $($first)*
    };
    () => {};
}
pub(super) use last_first;

/// Cells that one thread writes, which are added to the sum of all threads.
pub(super) trait AddTo<Sum> {
    /// Adds what they are at this moment.
    fn add_to(&self, sum: &mut Sum);
}

impl AddTo<u64> for Cell {
    fn add_to(&self, sum: &mut u64) {
        *sum += self.value();
    }
}

impl AddTo<bool> for Cell {
    fn add_to(&self, sum: &mut bool) {
        *sum |= self.value() != 0;
    }
}

impl AddTo<bool> for bool {
    fn add_to(&self, sum: &mut bool) {
        *sum |= self;
    }
}

impl AddTo<Distribution> for Histogram {
    fn add_to(&self, sum: &mut Distribution) {
        Histogram::add_to(self, sum);
    }
}

impl<Sum, C: AddTo<Sum>, const N: usize> AddTo<[Sum; N]> for [C; N] {
    fn add_to(&self, sum: &mut [Sum; N]) {
        sum.iter_mut().zip(self).for_each(|(sum, cells)| cells.add_to(sum));
    }
}

/// A label with a fixed list of values.
pub(super) trait Label: Copy + 'static {
    /// All of them, in the order of their numbers.
    const VALUES: &'static [Self];
    /// Its place in [`VALUES`](Self::VALUES).
    fn number(self) -> usize;
    /// The word used in labels.
    fn word(self) -> &'static str;
}

/// Declares that words are the values of a label.
macro_rules! labels {
    ($($label:ident)*) => {
        $(impl $crate::metrics::counters::Label for $label {
            const VALUES: &'static [Self] = &Self::ALL;

            #[inline]
            fn number(self) -> usize {
                self as usize
            }

            fn word(self) -> &'static str {
                self.name()
            }
        })*
    };
}
pub(super) use labels;

/// A cell, or a histogram, for each of the first `N` values of a label; others are not counted.
#[derive(Debug)]
pub(super) struct ByLabel<L, const N: usize, C = Cell>([C; N], PhantomData<L>);

impl<L, const N: usize, C: Default> Default for ByLabel<L, N, C> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| C::default()), PhantomData)
    }
}

impl<L: Label, const N: usize> ByLabel<L, N, Histogram> {
    /// Counts a duration; only its owner may.
    #[inline]
    pub(super) fn record(&self, label: L, duration: Duration) {
        if let Some(histogram) = self.0.get(label.number()) {
            histogram.record(duration);
        }
    }
}

impl<L: Label, const N: usize> ByLabel<L, N> {
    /// Adds to the cell of a value; only its owner may.
    #[inline]
    pub(super) fn add(&self, label: L, amount: u64) {
        if let Some(cell) = self.0.get(label.number()) {
            cell.add(amount);
        }
    }
}

impl<L: Label, Sum: Default, C: AddTo<Sum>, const N: usize> AddTo<BTreeMap<Word, Sum>> for ByLabel<L, N, C> {
    fn add_to(&self, sum: &mut BTreeMap<Word, Sum>) {
        for (label, cell) in L::VALUES.iter().zip(&self.0) {
            cell.add_to(sum.entry(label.word().into()).or_default());
        }
    }
}

/// Made when they are first counted.
impl<Sum: Default, C: AddTo<Sum>> AddTo<Option<Sum>> for OnceLock<Box<C>> {
    fn add_to(&self, sum: &mut Option<Sum>) {
        if let Some(cells) = self.get() {
            cells.add_to(sum.get_or_insert_default());
        }
    }
}
