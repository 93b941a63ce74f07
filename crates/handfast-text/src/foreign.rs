//! Text from outside, of a peer, a file or another program, inside a message of ours.
//!
//! In: any text. Out: one line of bounded length that a terminal and a log reader can take. Content of files is no part of a message at
//! all: a key may be in any of them.

use crate::units::plain;

/// Characters of a text from outside that a message may have: its sender chooses the length.
pub const MAX_FOREIGN_CHARS: usize = 500;
/// Characters of a field's name in an error.
const MAX_NAME_BYTES: usize = 40;

/// Bytes of a whole message: room for all problems of a configuration.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// A whole message for a log, whatever texts from outside are in it: nothing that a terminal obeys, bounded, and each line after the first
/// indented, so that none looks like another message.
pub fn message(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)];
    let mut lines = cut.split('\n');
    let mut message = plain(lines.next().unwrap_or_default());
    for line in lines {
        message.push_str(if line.starts_with("  ") { "\n" } else { "\n  " });
        message.push_str(&plain(line));
    }
    if cut.len() < text.len() {
        message.push('…');
    }
    message
}

/// A text of several lines for a terminal: of control characters only line ends, tabs and colours (`ESC [ … m`) stay.
pub fn screen(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) =
        rest.find(|character: char| character.is_control() && !matches!(character, '\n' | '\t'))
    {
        let (before, from) = rest.split_at(at);
        clean.push_str(before);
        let parameters = from.strip_prefix("\u{1b}[").unwrap_or_default();
        let end = parameters.find(|character: char| !matches!(character, '0'..='9' | ';'));
        let kept = match end.filter(|end| parameters[*end..].starts_with('m')) {
            Some(end) => &from[..end + 3],
            None => {
                clean.extend(from.chars().take(1).flat_map(char::escape_default));
                ""
            }
        };
        clean.push_str(kept);
        rest = &from[kept.len().max(from.chars().next().map_or(0, char::len_utf8))..];
    }
    clean + rest
}

/// Returns the text as it is if it is short and plain, else its [`excerpt`].
pub fn bounded(text: Box<str>) -> Box<str> {
    let is_plain = text.len() <= MAX_FOREIGN_CHARS && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain { text } else { excerpt(&text).into() }
}

/// A text of a peer for a message: on one line, without what a terminal obeys, and cut.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_FOREIGN_CHARS) {
        Some((end, _)) => plain(&text[..end]) + "…",
        None => plain(text),
    }
}

/// An error of serde about a file, without the values of the file: they may be secret. Names of fields stay.
///
/// serde writes `invalid type: string "VALUE", expected a map`, and ``unknown variant `VALUE`, expected `a` or `b` ``.
pub fn without_values(error: &impl std::fmt::Display) -> String {
    let error = error.to_string();
    let kinds =
        ["invalid type: ", "invalid value: ", "unknown variant ", "unknown field ", "duplicate field "];
    let Some((at, kind)) = kinds.iter().find_map(|kind| Some((error.find(kind)?, *kind))) else {
        return excerpt(&error);
    };
    let (before, value) = (&error[..at], &error[at + kind.len()..]);
    // A value may contain the words too: the last ones are those of serde.
    let end = ["`, expected ", "\", expected ", ", expected ", " at line "]
        .iter()
        .find_map(|words| value.rfind(words));
    let (value, after) = value.split_at(end.unwrap_or(value.len()));
    let name = value.trim_start_matches('`');
    let is_name = kind.ends_with("field ")
        && name.len() <= MAX_NAME_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'));
    let shown = if is_name { format!("`{name}`") } else { "a value that is not shown".to_owned() };
    excerpt(&format!("{before}{kind}{shown}{}", after.trim_start_matches(['`', '"'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_is_one_short_line() {
        assert_eq!(excerpt("a\r\nb\u{1b}[2J\u{202e}c"), "a\\r\\nb\\u{1b}[2J\\u{202e}c");
        let long = excerpt(&"ä".repeat(100_000));
        assert_eq!(long.chars().count(), MAX_FOREIGN_CHARS + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn no_text_inside_a_message_looks_like_another_message() {
        let forged = "no: \u{1b}[31mx\r\nhandfast: error: forged\n  hint: ours";
        assert_eq!(message(forged), "no: \\u{1b}[31mx\\r\n  handfast: error: forged\n  hint: ours");
        assert!(message(&"ä".repeat(MAX_MESSAGE_BYTES)).len() <= MAX_MESSAGE_BYTES + 3);
        assert_eq!(
            screen("\u{1b}[1;31merror:\u{1b}[0m a\n\tb\u{1b}[2J\u{9b}x\u{1b}"),
            "\u{1b}[1;31merror:\u{1b}[0m a\n\tb\\u{1b}[2J\\u{9b}x\\u{1b}"
        );
        assert_eq!(&*bounded("as it is".into()), "as it is");
        assert_eq!(&*bounded("a\nb".into()), "a\\nb");
    }

    #[test]
    fn an_error_keeps_its_place_and_loses_the_values() {
        let secret = "MARKER";
        for (error, expected) in [
            (
                "invalid type: string \"MARKER\", expected a map at line 1 column 8",
                "invalid type: a value that is not shown, expected a map at line 1 column 8",
            ),
            (
                "invalid value: string \"MARKER, expected x\", expected u8",
                "invalid value: a value that is not shown, expected u8",
            ),
            (
                "unknown variant `MARKER`, expected `a` or `b`",
                "unknown variant a value that is not shown, expected `a` or `b`",
            ),
            (
                "unknown field `MARKER9`, expected `a`",
                "unknown field a value that is not shown, expected `a`",
            ),
            ("unknown field `names`, expected `name`", "unknown field `names`, expected `name`"),
            (
                "a.json: invalid type: integer `7MARKER`, expected a string",
                "a.json: invalid type: a value that is not shown, expected a string",
            ),
            ("invalid type: string \"MARKER", "invalid type: a value that is not shown"),
            ("expected value at line 1 column 1", "expected value at line 1 column 1"),
        ] {
            let shown = without_values(&error);
            assert_eq!(shown, expected);
            assert!(!shown.contains(secret));
        }
    }
}
