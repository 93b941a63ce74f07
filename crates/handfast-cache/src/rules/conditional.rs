//! Conditions and ranges of a request (RFC 9110 §13 and RFC 9110 §14).
//!
//! In: what identifies the content of a response, its size, a request. Out: the form of the response.

use std::ops::Range;

use handfast_http::http1::{Method, RequestHead};

use super::lists::{date, elements, seconds};

/// Fields that identify the content of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'v> {
    pub(crate) etag: Option<&'v [u8]>,
    pub(crate) last_modified: Option<&'v [u8]>,
    /// Date of the response, in seconds since 1970.
    pub(crate) date: u64,
}

/// Form of the response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Part(Range<u64>),
    Unsatisfiable,
    NotModified,
}

impl Validators<'_> {
    /// Returns the form of a response with status 200; `size`: that of its content, if it is known.
    pub(crate) fn form(&self, request: &RequestHead<'_>, size: Option<u64>) -> Form {
        if self.is_current_for(request) {
            return Form::NotModified;
        }
        let mut ranges = request.values("range");
        let (Some(range), None, Some(size)) = (ranges.next(), ranges.next(), size) else {
            return Form::Whole;
        };
        // Some clients demand a part of everything: of nothing they get all.
        if size == 0 || request.method != Method::GET || !self.meets_if_range(request) {
            return Form::Whole;
        }
        match part(range, size) {
            Some(part) if part.is_empty() => Form::Unsatisfiable,
            Some(part) => Form::Part(part),
            None => Form::Whole,
        }
    }

    /// Returns true if the client's copy is this response (RFC 9110 §13.2.2).
    pub(crate) fn is_current_for(&self, request: &RequestHead<'_>) -> bool {
        let mut tags = request.values("if-none-match").flat_map(elements).peekable();
        if tags.peek().is_some() {
            let own = self.etag.map(weak);
            return tags.any(|tag| tag == b"*" || Some(weak(tag)) == own);
        }
        let Some(since) = request.values("if-modified-since").next().and_then(date) else { return false };
        self.modified().unwrap_or(self.date) <= since
    }

    /// Returns true if the client demands another version of the content (RFC 9110 §13.1.1 and RFC 9110 §13.1.4). For an origin server alone.
    pub(crate) fn fails_precondition(&self, request: &RequestHead<'_>) -> bool {
        let mut tags = request.values("if-match").flat_map(elements).peekable();
        if tags.peek().is_some() {
            // Strong comparison: a weak tag matches none.
            let own = self.etag.filter(|tag| !tag.starts_with(b"W/"));
            return !tags.any(|tag| tag == b"*" || Some(tag) == own);
        }
        let since = request.values("if-unmodified-since").next().and_then(date);
        since.zip(self.modified()).is_some_and(|(since, modified)| modified > since)
    }

    fn modified(&self) -> Option<u64> {
        self.last_modified.and_then(date)
    }

    /// RFC 9110 §13.1.5: strong validators only.
    fn meets_if_range(&self, request: &RequestHead<'_>) -> bool {
        let Some(condition) = request.values("if-range").next() else { return true };
        if condition.starts_with(b"\"") {
            return self.etag == Some(condition);
        }
        self.last_modified == Some(condition) && self.modified().is_some_and(|modified| modified < self.date)
    }
}

/// The opaque part of an entity tag.
fn weak(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The bytes of a single range; empty if there are none; `None` if it is to be ignored: several ranges, another unit, or malformed.
fn part(range: &[u8], size: u64) -> Option<Range<u64>> {
    let (unit, set) = range.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") || set.contains(&b',') {
        return None;
    }
    let set = set.trim_ascii();
    let dash = set.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&set[..dash], &set[dash + 1..]);
    let number = |text: &[u8]| -> Option<u64> {
        seconds(text)?;
        // `seconds` stops at 2³¹; a position does not.
        Some(str::from_utf8(text).ok()?.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        let suffix = number(last)?.min(size);
        return Some(size - suffix..size);
    }
    let first = number(first)?;
    let end = if last.is_empty() {
        size
    } else {
        number(last).filter(|last| *last >= first)?.saturating_add(1).min(size)
    };
    Some(if first < size { first..end } else { 0..0 })
}
