//! Every supported or recognized keyword of HAProxy, and its conversion. A name that ends with `*` is for all that begin so.
//!
//! An example is a part of a frontend, or of what is in front of `|`; a line that begins with `%` begins another section.

use super::grammar::Line;
use crate::row::{self, Row, Table, find};

/// The keywords of HAProxy 2.4 to 3.2.
pub(crate) static ROWS: Table = Table::new(|| row::rows(include_str!("../../tables/haproxy.tsv")));

/// The row of a name, or of all names that begin as it does.
pub(super) fn of(name: &str) -> Option<&'static Row> {
    find(&ROWS, name)
}

/// The name of the row of an option of `bind` or `server`.
pub(super) fn option_of(kind: &str, word: &str) -> String {
    let word = word.split_once('(').map_or(word, |(word, _)| word);
    format!("{kind} … {word}")
}

/// The row of a line: by its first three words, two, or one.
pub(super) fn of_line(line: &Line, prefix: &str) -> Option<&'static Row> {
    let word = |at: usize| line.word(at).split_once('(').map_or(line.word(at), |(word, _)| word);
    let one = format!("{prefix}{}", word(0));
    let two = format!("{one} {}", word(1));
    let three = format!("{two} {}", word(2));
    let has_actions = |name: &str| {
        ["http-request", "http-response", "http-after-response", "option", "timeout"].contains(&name)
    };
    let found = of(&three).or_else(|| of(&two));
    match found {
        Some(row) => Some(row),
        // An action that has no row is not one that has.
        None if prefix.is_empty() && has_actions(word(0)) => of(&format!("http-response {}", word(1)))
            .filter(|_| {
                word(0) == "http-after-response"
                    && ["set-header", "add-header", "del-header"].contains(&word(1))
            }),
        None => of(&one),
    }
}
