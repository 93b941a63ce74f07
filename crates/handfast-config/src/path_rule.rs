//! The beginning of a path, as a route names it.
//!
//! In: the text of a configuration. Out: whether a path begins so. Used for the path as it is forwarded and for its
//! [readings](crate::path_readings).

use std::fmt;

use crate::path_readings::{decoded, decoded_except_slashes};

/// The paths that a route is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// It starts with `/`.
    pub prefix: Box<str>,
    /// `/api` matches `/api` and `/api/v1`, not `/apis`. Otherwise all paths that begin with these letters match (`"/api*"`).
    pub at_segments: bool,
    /// The letters A to Z match in both cases.
    pub ignores_case: bool,
    /// The prefix without its percent signs, for readings of paths without theirs; empty where it has none.
    decoded: Vec<Box<[u8]>>,
}

impl PathRule {
    /// Takes the value of `path`: a prefix, with `*` at its end where it is not for whole segments.
    pub fn new(written: &str, ignores_case: bool) -> Self {
        let (prefix, at_segments) = written.strip_suffix('*').map_or((written, true), |text| (text, false));
        let bytes = prefix.as_bytes();
        let readings = [decoded(bytes), decoded_except_slashes(bytes)];
        let decoded = readings.into_iter().filter(|reading| reading != bytes).map(Into::into).collect();
        Self { prefix: prefix.into(), at_segments, ignores_case, decoded }
    }

    /// Returns true if a path, with or without its query, begins so. `/` is the beginning of every target, also of `*`.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.begins(path, self.prefix.as_bytes())
            || self.decoded.iter().any(|prefix| self.begins(path, prefix))
    }

    /// Returns what follows the prefix in a path that it matches, from the slash at its end if there is one.
    pub fn rest<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        let own = std::iter::once(self.prefix.as_bytes());
        let mut prefixes = own.chain(self.decoded.iter().map(|prefix| &**prefix));
        let prefix = prefixes.find(|prefix| self.begins(path, prefix)).unwrap_or_default();
        path.get(prefix.strip_suffix(b"/").unwrap_or(prefix).len()..).unwrap_or_default()
    }

    fn begins(&self, path: &[u8], prefix: &[u8]) -> bool {
        if prefix == b"/" {
            return true;
        }
        let Some((start, rest)) = path.split_at_checked(prefix.len()) else { return false };
        let is_same = if self.ignores_case { start.eq_ignore_ascii_case(prefix) } else { start == prefix };
        is_same
            && (!self.at_segments
                || prefix.ends_with(b"/")
                || matches!(rest.first(), None | Some(b'/' | b'?')))
    }

    /// Returns true if every path that `other` matches is surely matched by this rule.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let is_as_wide = other.at_segments || !self.at_segments || self.prefix.ends_with('/');
        is_as_wide && (self.ignores_case || !other.ignores_case) && self.matches(other.prefix.as_bytes())
    }
}

/// As it is written in a configuration.
impl fmt::Display for PathRule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.prefix)?;
        if self.at_segments { Ok(()) } else { to.write_str("*") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_matches_whole_segments_unless_an_asterisk_ends_it() {
        for (written, ignores_case, path, matches) in [
            ("/api", false, "/api", true),
            ("/api", false, "/api/v1", true),
            ("/api", false, "/api?x", true),
            ("/api", false, "/apis", false),
            ("/api", false, "/API", false),
            ("/api", true, "/API/v1", true),
            ("/api*", false, "/apis", true),
            ("/api*", false, "/ap", false),
            ("/api*", true, "/APIS", true),
            ("/api/", false, "/api/v1", true),
            ("/api/", false, "/api", false),
            ("/", false, "/x", true),
            ("/", false, "*", true),
            ("/x", false, "*", false),
            ("/a%20b", false, "/a%20b/c", true),
            ("/a%20b", false, "/a b/c", true),
            ("/a%2fb", false, "/a/b", true),
        ] {
            let rule = PathRule::new(written, ignores_case);
            assert_eq!(rule.matches(path.as_bytes()), matches, "{written} {path}");
            assert_eq!(rule.to_string(), written);
        }
    }

    #[test]
    fn a_rule_covers_those_that_match_less() {
        let rule = |(written, ignores_case)| PathRule::new(written, ignores_case);
        for (wide, narrow, covers) in [
            (("/api", false), ("/api", false), true),
            (("/api", false), ("/api/v1", false), true),
            (("/api", false), ("/api*", false), false),
            (("/api*", false), ("/apis", false), true),
            (("/api*", false), ("/api*", false), true),
            (("/api/", false), ("/api/v*", false), true),
            (("/api", false), ("/api", true), false),
            (("/api", true), ("/API/v1", false), true),
            (("/", false), ("/x*", false), true),
        ] {
            assert_eq!(rule(wide).covers(&rule(narrow)), covers, "{wide:?} {narrow:?}");
        }
    }
}
