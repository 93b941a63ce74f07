//! The form of a configuration's text: spaces, indentation and blank lines, with comments and the order of everything kept.
//!
//! In: a text, which is TOML. Out: the same configuration in one form. What was read from both is compared before anything is returned,
//! so that a fault here cannot change a configuration.

use toml_edit::{Array, Decor, DocumentMut, InlineTable, Item, KeyMut, RawString, Table, Value};

/// Indentation of the items of a list that is written over several lines.
const INDENT: &str = "    ";

/// Reason why a text is not formatted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// It is no TOML.
    #[error("line {line}: {what}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The parser's message, without the text of the line.
        what: String,
    },
    /// The formatted text would be another configuration, which is a fault of this program.
    #[error("the formatted text would have another meaning; this is a fault of this program")]
    Changed,
}

/// Formats a configuration's text. The result is its own formatted text.
///
/// **Errors**: it is no TOML.
pub fn format(text: &str) -> Result<String, FormatError> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let start = error.span().map_or(0, |span| text.floor_char_boundary(span.start));
        let line = text[..start].matches('\n').count() + 1;
        FormatError::Syntax { line, what: error.message().lines().collect::<Vec<_>>().join("; ") }
    })?;
    table(document.as_table_mut());
    let trailing = format!("{}\n", lines_before(document.trailing().as_str().unwrap_or_default()).trim_end());
    document.set_trailing(trailing);
    let formatted = format!("{}\n", document.to_string().trim_matches('\n'));
    let formatted = if formatted == "\n" { String::new() } else { formatted };
    let meaning = |text: &str| text.parse::<toml::Table>().ok();
    match meaning(text).is_some_and(|before| Some(before) == meaning(&formatted)) {
        true => Ok(formatted),
        false => Err(FormatError::Changed),
    }
}

fn table(entries: &mut Table) {
    for (mut key, item) in entries.iter_mut() {
        match item {
            Item::Value(content) => {
                key_of_line(&mut key);
                value(content, 0);
                let comment = comment_behind(suffix(content.decor()));
                *content.decor_mut() = Decor::new(" ", comment);
            }
            Item::Table(inner) => {
                bare_key(&mut key);
                header(inner);
                table(inner);
            }
            Item::ArrayOfTables(list) => {
                bare_key(&mut key);
                for inner in list.iter_mut() {
                    header(inner);
                    table(inner);
                }
            }
            Item::None => {}
        }
    }
}

fn prefix(decor: &Decor) -> String {
    decor.prefix().and_then(RawString::as_str).unwrap_or_default().to_owned()
}

fn suffix(decor: &Decor) -> &str {
    decor.suffix().and_then(RawString::as_str).unwrap_or_default()
}

/// A key in front of `=`, with the lines above it.
fn key_of_line(key: &mut KeyMut<'_>) {
    let above = lines_before(&prefix(key.leaf_decor()));
    *key.leaf_decor_mut() = Decor::new(above, " ");
    *key.dotted_decor_mut() = Decor::new("", "");
}

/// A key in the brackets of a header.
fn bare_key(key: &mut KeyMut<'_>) {
    *key.leaf_decor_mut() = Decor::new("", "");
    *key.dotted_decor_mut() = Decor::new("", "");
}

/// The header of a section, after one blank line.
fn header(section: &mut Table) {
    let above = lines_before(&prefix(section.decor()));
    let above = if above.starts_with('\n') { above } else { format!("\n{above}") };
    let comment = comment_behind(suffix(section.decor()));
    *section.decor_mut() = Decor::new(above, comment);
}

/// Comments and blank lines in front of something: without indentation, and never two blank lines.
fn lines_before(raw: &str) -> String {
    // The last line is the indentation of what follows.
    let lines = raw.rsplit_once('\n').map_or("", |(lines, _)| lines);
    if raw.rsplit_once('\n').is_none() {
        return String::new();
    }
    let mut text = String::new();
    for line in lines.split('\n').map(str::trim) {
        if !line.is_empty() || !(text == "\n" || text.ends_with("\n\n")) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// A comment at the end of a line.
fn comment_behind(raw: &str) -> String {
    let comment = raw.trim();
    if comment.is_empty() { String::new() } else { format!(" {comment}") }
}

fn value(content: &mut Value, depth: usize) {
    match content {
        Value::Array(list) => array(list, depth),
        Value::InlineTable(inner) => inline_table(inner, depth),
        _ => {}
    }
}

fn array(list: &mut Array, depth: usize) {
    let trailing = list.trailing().as_str().unwrap_or_default().to_owned();
    let is_broken = |decor: &Decor| prefix(decor).contains('\n') || suffix(decor).contains('\n');
    let is_broken = trailing.contains('\n') || list.iter().any(|item| is_broken(item.decor()));
    let mut ends_line = trailing.contains('\n');
    for (index, item) in list.iter_mut().enumerate() {
        value(item, depth + 1);
        let (before, after) = (prefix(item.decor()), suffix(item.decor()).to_owned());
        let before = match (before.contains('\n'), index) {
            (true, _) => broken_line(&before, depth + 1),
            (false, 0) => String::new(),
            (false, _) => " ".to_owned(),
        };
        ends_line |= after.contains('\n');
        // A comment between an item and its comma keeps its place.
        let after = if after.contains('#') { after } else { String::new() };
        *item.decor_mut() = Decor::new(before, after);
    }
    if !is_broken {
        list.set_trailing("");
        list.set_trailing_comma(false);
    } else if ends_line {
        let trailing = if trailing.contains('\n') { trailing } else { "\n".to_owned() };
        list.set_trailing(broken_line(&trailing, depth));
    }
}

/// The rest of a line of a list, comments on separate lines, and the beginning of the next line.
fn broken_line(raw: &str, depth: usize) -> String {
    let indent = INDENT.repeat(depth);
    let mut lines: Vec<&str> = raw.split('\n').map(str::trim).collect();
    let first = lines.remove(0);
    lines.pop();
    let mut text = comment_behind(first);
    for line in lines.iter().filter(|line| !line.is_empty()) {
        text.push_str(&format!("\n{indent}{line}"));
    }
    format!("{text}\n{indent}")
}

fn inline_table(entries: &mut InlineTable, depth: usize) {
    // One over several lines, with comments, or with dotted keys, stays as it is.
    let raw = entries.to_string();
    if raw.contains(['\n', '#']) || entries.iter().any(|(_, value)| is_dotted(value)) {
        return;
    }
    let last = entries.len().saturating_sub(1);
    for (index, (mut key, content)) in entries.iter_mut().enumerate() {
        *key.leaf_decor_mut() = Decor::new(" ", " ");
        value(content, depth);
        *content.decor_mut() = Decor::new(" ", if index == last { " " } else { "" });
    }
    entries.set_trailing("");
    entries.set_trailing_comma(false);
}

fn is_dotted(value: &Value) -> bool {
    value.as_inline_table().is_some_and(InlineTable::is_dotted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spaces_lines_and_lists_have_one_form() {
        let text = "\n\n  # of the file\ninclude=[\"a\",'b' ]   # why\n[admin]\n  listen   =  \"off\"\n\n\n\n# of the service\n[[ service ]] # web\nname=\"web\"\n\
                    backend = [  # all\n\"a:1\",\n   # the other\n  \"b:2\"]\n\tcheck={path=\"/\",interval =\"1s\"}\n  [service . limits]\nidle=\"1m\"\r\n   # the end\n\n";
        let expected = "# of the file\ninclude = [\"a\", 'b'] # why\n\n[admin]\nlisten = \"off\"\n\n# of the service\n[[service]] # web\nname = \"web\"\n\
                        backend = [ # all\n    \"a:1\",\n    # the other\n    \"b:2\"]\ncheck = { path = \"/\", interval = \"1s\" }\n\n[service.limits]\nidle = \"1m\"\n# the end\n";
        assert_eq!(format(text).as_deref(), Ok(expected));
        assert_eq!(format(expected).as_deref(), Ok(expected));
    }

    #[test]
    fn what_is_in_texts_stays_as_it_is() {
        let text =
            "a = \"\"\"\n  x  \n\n\n  y # no comment\n\"\"\"\nb = '  [z ]  '\nc = { x = [1,\n2] }\nd.e = 1\n";
        assert_eq!(format(text).as_deref(), Ok(text));
        assert_eq!(format("").as_deref(), Ok(""));
        assert_eq!(format("\n\n# only a comment\n\n").as_deref(), Ok("# only a comment\n"));
    }

    #[test]
    fn a_text_that_is_no_toml_is_refused_with_its_line() {
        let Err(FormatError::Syntax { line: 2, what }) = format("a = 1\nb = secret word\n") else {
            panic!("it is no TOML")
        };
        assert!(!what.contains("secret"), "{what}");
        assert!(matches!(format("[a]\nb = 1\n[a]\n"), Err(FormatError::Syntax { line: 3, .. })));
    }

    #[test]
    fn the_example_in_the_documents_keeps_its_meaning() {
        let example = include_str!("../../../docs/reference/handfast.toml");
        let formatted = format(example).expect("it is TOML");
        let comments = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('#')).count();
        assert_eq!(comments(&formatted), comments(example));
        assert_eq!(format(&formatted).as_deref(), Ok(&*formatted));
    }

    proptest! {
        #[test]
        fn a_formatted_text_is_formatted(text in "([a-c]( = |=)(1|\"x\"|\\[ ?1,[ \n]*(# c\n)?2 ?,?[ \n]*\\]|\\{ ?x=1, ?y = \\[1 \\] ?\\}) ?(# c)?\n| *# c\n|\n|\\[[d-f]\\]\n|\\[\\[ ?[g-h]\\]\\]( #)?\n){0,8}") {
            if let Ok(once) = format(&text) {
                prop_assert_eq!(format(&once), Ok(once));
            } else {
                prop_assert!(text.parse::<toml::Table>().is_err(), "{}", text);
            }
        }
    }
}
