//! Parameters of queries whose values are in no line: tokens and keys that applications put into URLs.
//!
//! In: a path with its query, or a URL, as a client sent it. Out: the same with `***` in place of the values. A name is compared as an
//! application reads it: percent-encoded letters are decoded (RFC 3986 §2.1), and case is ignored.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

/// Replacement for a value.
const MASK: &str = "***";

/// Names of parameters, in lower case.
#[derive(Clone, Debug, Default)]
pub(super) struct Redaction(Arc<[Box<str>]>);

impl Redaction {
    pub(super) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_lowercase().into()).collect())
    }

    /// The text without the values. **Cost**: none without names, or without a query.
    pub(super) fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.0.is_empty() {
            return text.into();
        }
        let Some((path, query)) = text.split_once('?') else { return text.into() };
        let mut shown = format!("{path}?");
        // Some applications separate parameters by `;`, and a second `?` begins one for some, too.
        for parameter in query.split_inclusive(['&', ';', '?', '#']) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if value.is_empty() || !self.has(name) {
                shown.push_str(parameter);
                continue;
            }
            let end = value.strip_suffix(['&', ';', '?', '#']).map_or("", |rest| &value[rest.len()..]);
            shown.push_str(&format!("{name}={MASK}{end}"));
        }
        shown.into()
    }

    fn has(&self, name: &str) -> bool {
        let decoded = percent_decode_str(name).decode_utf8_lossy().to_lowercase();
        self.0.iter().any(|known| **known == *decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_some_parameters_are_replaced() {
        let redaction = Redaction::new(&["token".to_owned(), "Key".to_owned()]);
        for (text, expected) in [
            ("/a?token=abc", "/a?token=***"),
            ("/a?b=1&token=abc&c=2", "/a?b=1&token=***&c=2"),
            ("/a?TOKEN=abc;key=def#x", "/a?TOKEN=***;key=***#x"),
            ("/a?t%6Fken=abc&%6b%65%79=d=e", "/a?t%6Fken=***&%6b%65%79=***"),
            ("/a?b?token=abc", "/a?b?token=***"),
            ("https://example.org/a?token=abc", "https://example.org/a?token=***"),
            ("/a?token=", "/a?token="),
            ("/a?token", "/a?token"),
            ("/a?tokens=1&x%zztoken=2", "/a?tokens=1&x%zztoken=2"),
            ("/token=abc", "/token=abc"),
        ] {
            assert_eq!(redaction.redacted(text), expected);
            assert_eq!(Redaction::default().redacted(text), text);
        }
    }
}
