//! The counts of a process as text, for the process that takes over: a line for each counter, of its value and its words
//! (`3 service web accepted`, with tabs). A version leaves out what it does not know. Old and new versions exchange this text: its words
//! never change.
//!
//! Only counters are transferred. What is now (open connections, states) belongs to each process, and so does what threads and the
//! process itself used (turns, lag, CPU).

use std::collections::BTreeMap;

use super::histogram::Distribution;
use crate::words::Word;

/// Between a line's value and its words.
const TAB: char = '\t';

/// The words and the value of each line.
pub(super) fn lines(counts: &str) -> impl Iterator<Item = (&str, u64)> {
    counts.lines().filter_map(|line| {
        let (value, words) = line.split_once(TAB)?;
        Some((words, value.parse().ok()?))
    })
}

/// Lines of counts.
#[derive(Default)]
pub(super) struct Counts(String);

impl Counts {
    /// The lines.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Adds a line, unless the value is zero.
    pub(super) fn add(&mut self, words: &[&str], value: u64) {
        // A path may have any character in its name. One with these would break the line, and is left out.
        if value == 0 || words.iter().any(|word| word.contains(['\t', '\n', '\r'])) {
            return;
        }
        self.0.push_str(&value.to_string());
        for word in words {
            self.0.push(TAB);
            self.0.push_str(word);
        }
        self.0.push('\n');
    }
}

/// Values that a process sends to the one that takes over.
pub(super) trait Transfer {
    /// True if it is one number: those are sent first.
    const IS_NUMBER: bool = false;
    /// Writes each number under its words, after these.
    fn write(&self, words: &[&str], to: &mut Counts);
    /// Returns its number under these words; `None`: it has none.
    fn place(&mut self, words: &[&str]) -> Option<&mut u64>;
}

/// Implements [`Transfer`] for a struct: the words of its fields, and of those that are only derived.
macro_rules! transferred {
    ($values:ident {} derived {}) => {};
    (
        $values:ident { $($name:ident: $value:ty => $words:expr;)* } derived { $($derived:ident => $of:expr;)* }
    ) => {
        impl $crate::metrics::transfer::Transfer for $values {
            fn write(&self, words: &[&str], to: &mut $crate::metrics::transfer::Counts) {
                use $crate::metrics::transfer::Transfer;
                for numbers in [true, false] {
                    $(if <$value as Transfer>::IS_NUMBER == numbers {
                        Transfer::write(&self.$name, &[words, &$words[..]].concat(), to);
                    })*
                }
            }

            fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
                $(if let Some(rest) = words.strip_prefix(&$words[..])
                    && let Some(place) = $crate::metrics::transfer::Transfer::place(&mut self.$name, rest)
                {
                    return Some(place);
                })*
                $(if words == $of {
                    return Some(&mut self.$derived);
                })*
                None
            }
        }
    };
}
pub(super) use transferred;

impl Transfer for u64 {
    const IS_NUMBER: bool = true;

    fn write(&self, words: &[&str], to: &mut Counts) {
        to.add(words, *self);
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        words.is_empty().then_some(self)
    }
}

impl<T: Transfer> Transfer for Option<T> {
    fn write(&self, words: &[&str], to: &mut Counts) {
        self.iter().for_each(|value| value.write(words, to));
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        self.as_mut()?.place(words)
    }
}

impl Transfer for Distribution {
    fn write(&self, words: &[&str], to: &mut Counts) {
        for (cell, value) in self.cells().filter(|(_, value)| *value > 0) {
            to.add(&[words, &[&cell.to_string()]].concat(), value);
        }
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let [cell] = words else { return None };
        self.cell(cell)
    }
}

/// By a label with a fixed list of values.
impl<T: Transfer> Transfer for BTreeMap<Word, T> {
    fn write(&self, words: &[&str], to: &mut Counts) {
        self.iter().for_each(|(word, value)| value.write(&[words, &[&**word]].concat(), to));
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let (word, rest) = words.split_first()?;
        self.iter_mut().find(|(known, _)| *known == word)?.1.place(rest)
    }
}
