//! Words of the interface that were renamed: an old word is still accepted, with a message that has the new one.
//!
//! In: a word as it is written. Out: the present word. Metrics, log fields and JSON are not read by this program, so that their old names are
//! in the changelog alone.

/// An old word, and the present one.
pub type Renamed = (&'static str, &'static str);

/// Keys of the configuration. An old word counts in each section that has the new one.
pub const KEYS: [Renamed; 17] = [
    ("add-request-fields", "add-request-headers"),
    ("add-response-fields", "add-response-headers"),
    ("answer-timeout", "response-timeout"),
    ("backend-ended", "half-closed-client"),
    ("content-timeout", "body-timeout"),
    ("failed-to", "fallback-backend"),
    ("head-timeout", "header-timeout"),
    ("keepalive", "tcp-keepalive"),
    ("max-fields", "max-headers"),
    ("max-head", "max-header-size"),
    ("new-path", "rewrite-path"),
    ("remove-request-fields", "remove-request-headers"),
    ("remove-response-fields", "remove-response-headers"),
    ("security-fields", "security-headers"),
    ("set-request-fields", "set-request-headers"),
    ("set-response-fields", "set-response-headers"),
    ("unacknowledged", "tcp-user-timeout"),
];

/// Values of keys that are one of a few words. An old word counts for each key that has the new one.
pub const VALUES: [Renamed; 1] = [("apart", "separate-process")];

/// Causes, as in the access log.
pub const CAUSES: [Renamed; 7] = [
    ("answer-deadline", "response-timeout"),
    ("backend-ended", "backend-closed"),
    ("checked", "health-check"),
    ("connect-deadline", "connect-timeout"),
    ("content-deadline", "body-timeout"),
    ("handshake-deadline", "handshake-timeout"),
    ("request-deadline", "request-timeout"),
];

/// The present word for an old one; `None`: it is not an old word of this table.
pub fn new_word(table: &[Renamed], word: &str) -> Option<&'static str> {
    table.iter().find(|(old, _)| *old == word).map(|(_, new)| *new)
}

/// The old words for a present one.
pub fn old_words(table: &'static [Renamed], word: &str) -> impl Iterator<Item = &'static str> {
    table.iter().filter(move |(_, new)| *new == word).map(|(old, _)| *old)
}

/// The message about an old word.
pub fn message(old: &str, new: &str) -> String {
    format!("`{old}` is now called `{new}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_old_and_new_at_once() {
        for table in [&KEYS[..], &VALUES, &CAUSES] {
            for (old, new) in table {
                assert_eq!(new_word(table, old), Some(*new));
                assert_eq!(new_word(table, new), None, "{new}");
            }
        }
    }
}
