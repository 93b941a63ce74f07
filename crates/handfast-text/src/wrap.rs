//! A sentence in lines of a certain width.

use crate::table::width as columns;
use crate::units::plain;

/// Breaks a sentence at its blanks into lines of at most `width` columns; the first begins with `first`, the others with `rest`.
///
/// Control characters of the sentence become visible. A word that is too long for a line has
/// a separate line.
pub fn wrapped(first: &str, rest: &str, sentence: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut is_empty) = (first.to_owned(), true);
    for word in plain(sentence).split(' ') {
        if !is_empty && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_allowed_and_begin_as_asked() {
        assert_eq!(wrapped("- ", "  ", "one two three", 9), ["- one two", "  three"]);
        assert_eq!(wrapped("- ", "  ", "one two three", 8), ["- one", "  two", "  three"]);
        assert_eq!(
            wrapped("", "", "überlang ü", 4),
            ["überlang", "ü"],
            "characters, not bytes; a long word stays whole"
        );
        assert_eq!(wrapped("first", "", "", 3), ["first"]);
        assert_eq!(wrapped("", "", "a\u{1b}[2Jb", 80), ["a\\u{1b}[2Jb"]);
    }
}
