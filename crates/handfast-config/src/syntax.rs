//! Errors in a file's TOML syntax, in words for people who do not know TOML's grammar.
//!
//! In: the text. Out: one problem for each slip, and the text without the lines that have one, so that the rest can be
//! read as if they were not there. The parser alone does not get that far: after some slips it loses the section.
//! The parser's own message is kept where this module has no better one.

use std::borrow::Cow;
use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};

use super::part::Part;
use super::problem::{Fault, shortened};
use super::reading::Reading;

/// Maximum number of times that a text is parsed again without the lines with syntax errors. Each round finds at least one of them.
const MAX_ROUNDS: usize = 16;

/// The text with every line that has a slip blanked out, places unchanged; `None` when there are too many.
///
/// The slips are noted in the reading.
pub(crate) fn without_slips<'r>(part: &Part<'r>, reading: &Reading<'r>) -> Option<Cow<'r, str>> {
    let mut text = Cow::Borrowed(part.text());
    for _ in 0..MAX_ROUNDS {
        let (tree, errors) = DeTable::parse_recoverable(&text);
        if errors.is_empty() {
            drop(tree);
            return Some(text);
        }
        let slips = note(errors, tree.get_ref(), &text, (part, reading));
        drop(tree);
        let mut bytes = text.into_owned().into_bytes();
        for slip in slips {
            let spoilt = bytes.get_mut(slip).unwrap_or_default();
            spoilt.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        // Whole lines were blanked, so what is left is still UTF-8.
        text = Cow::Owned(String::from_utf8_lossy(&bytes).into_owned());
    }
    None
}

/// Notes the slips of one round, and tells which bytes to blank out.
fn note(
    errors: Vec<Error>,
    tree: &DeTable<'_>,
    text: &str,
    (part, reading): (&Part<'_>, &Reading<'_>),
) -> Vec<Range<usize>> {
    let mut errors: Vec<(Range<usize>, String)> =
        errors.into_iter().map(|error| (error.span().unwrap_or(0..0), error.message().to_owned())).collect();
    // In one place, "no value" explains more than the parser's message about the next character.
    errors.sort_by_key(|(span, message)| {
        (part.line(span.start), !message.starts_with("key with no"), span.start)
    });
    let open = open_bracket(&errors, tree, text);

    let mut blank = Vec::new();
    let mut last_line = 0;
    for (span, message) in &errors {
        if open.as_ref().is_some_and(|open| span.start >= open.start) {
            continue;
        }
        let line = part.line(span.start);
        if line != last_line {
            reading.error(&part.outside(span), fault(message, span, part));
            blank.push(reach(line, false, part));
        }
        last_line = line;
    }
    if let Some(open) = open {
        reading.error(&part.outside(&open), unclosed(&text[open.clone()]));
        blank.push(reach(part.line(open.start), true, part));
    }
    blank
}

/// The bytes that a slip in a line spoils: the line; a broken header's section; an unclosed list as far as it can go.
fn reach(line: usize, is_open: bool, part: &Part<'_>) -> Range<usize> {
    let (start, text) = part.line_text(line);
    let is_header = |text: &str| text.trim_start().starts_with('[') && !text.contains(',');
    let is_name = |key: &str| key.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric());
    let is_key = |text: &str| {
        text.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty() && is_name(key.trim()))
    };
    let more = |text: &str| match (is_header(part.line_text(line).1), is_open) {
        (true, _) => !is_header(text),
        (false, true) => !is_header(text) && !is_key(text),
        (false, false) => false,
    };
    let mut end = start + text.len();
    for next in line + 1..=part.lines() {
        let (start, text) = part.line_text(next);
        if !more(text) {
            break;
        }
        end = start + text.len();
    }
    start..end
}

/// The bracket of a list or inline table that is never closed: everything after it is a consequence.
fn open_bracket(errors: &[(Range<usize>, String)], tree: &DeTable<'_>, text: &str) -> Option<Range<usize>> {
    let unclosed =
        |message: &String| message.starts_with("unclosed array,") || message.starts_with("unclosed inline");
    let (end, _) = errors.iter().find(|(_, message)| unclosed(message))?;
    let start = first_ending_at(tree, end.start)?;
    text.get(start..start + 1).map(|_| start..start + 1)
}

/// The outermost list or inline table that ends at a byte.
fn first_ending_at(tree: &DeTable<'_>, end: usize) -> Option<usize> {
    tree.iter().filter_map(|(_, value)| value_ending_at(value.get_ref(), value.span(), end)).min()
}

fn value_ending_at(value: &DeValue<'_>, span: Range<usize>, end: usize) -> Option<usize> {
    let inside = match value {
        DeValue::Array(list) => {
            list.iter().filter_map(|item| value_ending_at(item.get_ref(), item.span(), end)).min()
        }
        DeValue::Table(table) => first_ending_at(table, end),
        _ => return None,
    };
    if span.end == end && span.start < end { Some(span.start) } else { inside }
}

fn unclosed(bracket: &str) -> Fault {
    match bracket {
        "{" => Fault::new("what begins here with `{` is not closed").hint("add the missing `}`"),
        _ => Fault::new("the list that begins here is not closed").hint("add the missing `]`"),
    }
}

/// One slip in words, by the parser's message and the line it is in.
fn fault(message: &str, span: &Range<usize>, part: &Part<'_>) -> Fault {
    let (start, line) = part.line_text(part.line(span.start));
    let found = part.text().get(span.clone()).unwrap_or_default();
    let trimmed = line.trim();
    if trimmed.starts_with(';') || trimmed.starts_with("//") {
        return Fault::new("this is not a key").hint("comments begin with `#`");
    }
    if trimmed.starts_with('[') {
        return header(message, found, trimmed);
    }
    if message.starts_with("duplicate key") {
        return Fault::new(format!("`{}` is written twice", shortened(found))).hint(
            "keep one of them; several values go into one list, as in `listen = [\"127.0.0.1:8443\", \"[::1]:8443\"]`",
        );
    }
    if message.starts_with("key with no value") {
        return no_value(trimmed);
    }
    if message.starts_with("missing escaped value") || message.starts_with("invalid escape") {
        let fault = Fault::new("`\\` begins an escape in a text in double quotes");
        return fault.hint("write `\\\\`, or put the text in single quotes");
    }
    if message.starts_with("invalid basic string") || message.starts_with("invalid literal string") {
        return Fault::new("the text has no closing quote")
            .hint("end it with the quote it begins with, on the same line");
    }
    if let Some((from, value)) = bare_value(start, line)
        && span.start >= from
    {
        return bare(value, message);
    }
    if message.starts_with("string values must be quoted") {
        let fault = Fault::new(format!("`{}` is not a value", shortened(found)));
        return fault.hint("texts are quoted, and each key has its own line");
    }
    if message.starts_with("missing comma") {
        return Fault::new("a comma is missing").hint("separate what is in a list by `,`");
    }
    if message.starts_with("unexpected key or value") {
        return Fault::new("the line should end here").hint("each key has its own line");
    }
    Fault::new(message.to_owned())
}

fn header(message: &str, found: &str, line: &str) -> Fault {
    let name = line.trim_matches(|character| "[] \t".contains(character));
    let known =
        super::keys::FILE.all().into_iter().find(|section| section.header.trim_matches(['[', ']']) == name);
    let right = known.map(|section| format!("write `{}`", section.header));
    if message.starts_with("duplicate key") {
        let other = "is there already, as something else";
        let (what, hint) = match found {
            "name" => (other, "rules for certain names begin with `[[service.rule]]`, and have `names`"),
            "service" => {
                (other, "each service begins with `[[service]]`, before its `[service.limits]` and the like")
            }
            _ => ("is written twice", "put its keys into one section"),
        };
        return Fault::new(format!("`{}` {what}", shortened(found))).hint(hint);
    }
    Fault::new("this header of a section is not right").maybe_hint(right.or(Some(
        "single brackets for what is there once, as in `[process]`; double ones for what may repeat, as in `[[service]]`"
            .to_owned(),
    )))
}

fn no_value(line: &str) -> Fault {
    let split = line.split_once([':', ' ', '\t']).map(|(key, value)| (key.trim(), value.trim()));
    let fault = Fault::new("there is no `=` after the key");
    match split {
        Some((key, value)) if !value.is_empty() => {
            let value = value.trim_start_matches(['=', ':']).trim();
            let quote = if value.starts_with(['"', '\'', '[', '{']) { "" } else { "\"" };
            fault.hint(format!("write `{key} = {}`", shortened(&format!("{quote}{value}{quote}"))))
        }
        _ => fault.hint("write `key = value`"),
    }
}

/// The value of a line that has no quotes, and where it starts.
fn bare_value(line_start: usize, line: &str) -> Option<(usize, &str)> {
    let (key, value) = line.split_once('=')?;
    let start = line_start + key.len() + 1;
    let value = value.split(" #").next().unwrap_or(value).trim();
    let is_bare = !value.starts_with(['"', '\'', '[', '{']) && !value.contains(['"', '\'']);
    is_bare.then_some((start, value))
}

fn bare(value: &str, message: &str) -> Fault {
    if value.is_empty() {
        return Fault::new("there is no value after `=`");
    }
    if message.contains("leading zero") {
        return Fault::new("a number does not begin with 0")
            .hint(format!("modes are written as text: `\"{value}\"`"));
    }
    let fault = Fault::new(format!("`{}` is not a value", shortened(value)));
    fault.hint(format!("put texts, durations, sizes and addresses in quotes: `\"{}\"`", shortened(value)))
}

#[cfg(test)]
mod tests;
