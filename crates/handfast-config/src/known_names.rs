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

    /// The name that is exactly this word. A status is a name in `error-pages`.
    pub(crate) fn get(&self, word: &str) -> Option<&'static str> {
        let is_status =
            || matches!(word.as_bytes(), [b'4' | b'5', rest @ ..] if rest == b"xx" || is_number(rest));
        self.names.get(word).copied().or_else(|| is_status().then_some("error-pages"))
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

/// The last two digits of a status.
fn is_number(text: &[u8]) -> bool {
    text.len() == 2 && text.iter().all(u8::is_ascii_digit)
}
