//! A sentence in lines of a certain width.

use crate::units::plain;

/// Breaks a sentence at its blanks into lines of at most `width` columns; the first begins with `first`, the others with `rest`.
///
/// Every character counts one column. Control characters of the sentence become visible. A word that is too long for a line has
/// a separate line.
pub fn wrapped(first: &str, rest: &str, sentence: &str, width: usize) -> Vec<String> {
    let columns = |text: &str| text.chars().count();
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

/// Lines of the smallest usual terminal, less one for the prompt behind it.
pub const SCREEN: usize = 23;
/// Its columns.
pub const SCREEN_COLUMNS: usize = 80;

/// Sentences, each with its beginning, in at most `room` lines together, but of each one line at least: the longest are cut, and then end
/// with "…".
pub fn in_lines(items: &[(String, String)], rest: &str, width: usize, room: usize) -> Vec<String> {
    let mut all: Vec<_> =
        items.iter().map(|(first, sentence)| wrapped(first, rest, sentence, width)).collect();
    let mut most: Vec<usize> = all.iter().map(Vec::len).collect();
    while most.iter().sum::<usize>() > room
        && let Some(longest) = most.iter_mut().max().filter(|longest| **longest > 1)
    {
        *longest -= 1;
    }
    for (lines, most) in all.iter_mut().zip(most).filter(|(lines, most)| lines.len() > *most) {
        lines.truncate(most);
        let last = &mut lines[most - 1];
        while last.chars().count() + 2 > width
            && let Some((kept, _)) = last.rsplit_once(' ')
        {
            *last = kept.to_owned();
        }
        last.push_str(" …");
    }
    all.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_sentences_share_their_lines() {
        let items = |texts: &[&str]| {
            texts.iter().map(|text| ("- ".to_owned(), (*text).to_owned())).collect::<Vec<_>>()
        };
        let all = items(&["one two three", "four", "five six seven"]);
        assert_eq!(
            in_lines(&all, "  ", 8, 9),
            ["- one", "  two", "  three", "- four", "- five", "  six", "  seven"]
        );
        assert_eq!(in_lines(&all, "  ", 8, 5), ["- one", "  two …", "- four", "- five", "  six …"]);
        assert_eq!(in_lines(&all, "  ", 8, 0), ["- one …", "- four", "- five …"]);
        assert_eq!(in_lines(&items(&["one two three"]), "  ", 9, 1), ["- one …"], "within the width");
    }

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
