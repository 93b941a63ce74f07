//! The names of keys and sections, without their descriptions: what decides which parts of a text may be shown.

use std::collections::HashSet;

use handfast_text::suggest;

use super::foreign_keys::has_word;

/// Every name that a configuration may have, and the words of other programs for its keys.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    names: HashSet<&'static str>,
    /// A key, and its names in other programs, separated by spaces.
    elsewhere: Vec<(&'static str, &'static str)>,
}

impl KnownNames {
    /// Adds a key or section.
    pub(crate) fn add(&mut self, name: &'static str, elsewhere: &'static str) {
        self.names.insert(name);
        self.elsewhere.push((name, elsewhere));
    }

    /// The name that is exactly this word.
    pub(crate) fn get(&self, word: &str) -> Option<&'static str> {
        self.names.get(word).copied()
    }

    /// Returns true if this is a name.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.names.contains(word)
    }

    /// The key that other programs call so, or else the closest name. **Cost**: linear in the names.
    pub(crate) fn meant(&self, word: &str) -> Option<&'static str> {
        let plain = suggest::plain(word);
        let called = self.elsewhere.iter().find(|(_, elsewhere)| has_word(elsewhere, &plain));
        called.map(|(name, _)| *name).or_else(|| suggest::closest(word, self.names.iter().copied()))
    }
}
