//! Text as HTML: text of a peer or a user never becomes markup.

use std::fmt::Write;

use crate::units::plain;

/// Text as HTML has it, control characters made visible.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in plain(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A sentence as HTML: escaped, with text between backticks as code. An unpaired backtick is kept.
pub(super) fn prose(text: &str) -> String {
    let safe = escape(text);
    let mut parts = safe.split('`');
    let mut html = parts.next().unwrap_or_default().to_owned();
    while let Some(inside) = parts.next() {
        match parts.next() {
            Some(after) => {
                let _ = write!(html, "<code>{inside}</code>{after}");
            }
            None => {
                let _ = write!(html, "`{inside}");
            }
        }
    }
    html
}
