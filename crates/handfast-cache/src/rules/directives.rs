//! `Cache-Control` of requests and responses, and fields that are addressed to caches like this one (RFC 9213).
//!
//! In: field values. Out: [`Directives`]. Malformed or repeated directives are read as strictly as possible: an invalid `max-age` is 0, of
//! two the smaller counts (RFC 9111 §4.2.1). Unknown directives are ignored.

use handfast_http::http1::{RequestHead, ResponseHead, is_token};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use super::lists::{elements, seconds};

/// Directives of a request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) max_age: Option<u64>,
    pub(crate) s_maxage: Option<u64>,
    pub(crate) stale_while_revalidate: Option<u64>,
    pub(crate) stale_if_error: Option<u64>,
    pub(crate) min_fresh: Option<u64>,
    /// Without a value: any.
    pub(crate) max_stale: Option<u64>,
    pub(crate) no_cache: bool,
    pub(crate) no_store: bool,
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    pub(crate) must_understand: bool,
    pub(crate) only_if_cached: bool,
    /// Names in `no-cache="…"` and `private="…"`: these fields are not stored.
    pub(crate) withheld: Vec<Vec<u8>>,
}

impl Directives {
    /// Of a request.
    pub(crate) fn of_request(head: &RequestHead<'_>) -> Self {
        Self::parse(head.values("cache-control"))
    }

    /// Of a response: those addressed to caches like this one alone if there are any that can be read, else `Cache-Control`. The boolean is
    /// true in the first case.
    pub(crate) fn of_response(head: &ResponseHead<'_>) -> (Self, bool) {
        match Self::targeted(head.values("cdn-cache-control")) {
            Some(directives) => (directives, true),
            None => (Self::parse(head.values("cache-control")), false),
        }
    }

    fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut directives = Self::default();
        for element in values.flat_map(elements) {
            let end = element.iter().position(|byte| *byte == b'=');
            let (name, value) = match end {
                Some(end) => (&element[..end], Some(&element[end + 1..])),
                None => (element, None),
            };
            // Blanks around `=` are malformed: the directive is read, with a value that is not valid.
            let is_malformed = !is_token(name);
            let value = value.map(|value| if is_malformed { b"?".to_vec() } else { unquoted(value) });
            directives.apply(&name.trim_ascii().to_ascii_lowercase(), value.as_deref());
        }
        directives
    }

    fn targeted<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let lines: Vec<&[u8]> = values.collect();
        let members: Dictionary = Parser::new(&lines.join(&b", "[..])).parse().ok()?;
        if members.is_empty() {
            return None;
        }
        let mut directives = Self::default();
        for (name, entry) in &members {
            let item = if let ListEntry::Item(item) = entry { Some(&item.bare_item) } else { None };
            let value = match item {
                Some(BareItem::Boolean(false)) => continue,
                Some(BareItem::Boolean(true)) => None,
                Some(BareItem::Integer(number)) => Some(number.to_string().into_bytes()),
                Some(BareItem::String(text)) if matches!(name.as_str(), "no-cache" | "private") => {
                    Some(text.as_str().as_bytes().to_vec())
                }
                _ => Some(b"?".to_vec()),
            };
            directives.apply(name.as_str().as_bytes(), value.as_deref());
        }
        Some(directives)
    }

    fn apply(&mut self, name: &[u8], value: Option<&[u8]>) {
        let number = value.and_then(seconds);
        let smaller = |known: &mut Option<u64>, number: u64| {
            *known = Some(known.map_or(number, |known| known.min(number)));
        };
        match name {
            b"max-age" => smaller(&mut self.max_age, number.unwrap_or(0)),
            b"s-maxage" => smaller(&mut self.s_maxage, number.unwrap_or(0)),
            b"stale-while-revalidate" => smaller(&mut self.stale_while_revalidate, number.unwrap_or(0)),
            b"stale-if-error" => smaller(&mut self.stale_if_error, number.unwrap_or(0)),
            b"max-stale" if value.is_none() => smaller(&mut self.max_stale, u64::MAX),
            b"max-stale" => smaller(&mut self.max_stale, number.unwrap_or(0)),
            b"min-fresh" => self.min_fresh = self.min_fresh.max(number),
            b"no-store" => self.no_store = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"no-cache" => self.no_cache |= !self.withhold(value),
            b"private" => self.private |= !self.withhold(value),
            _ => {}
        }
    }

    /// Notes the names of fields in the value; `false` if it has none or something else, so that the directive is about the whole response.
    fn withhold(&mut self, value: Option<&[u8]>) -> bool {
        let names: Vec<&[u8]> = value.into_iter().flat_map(elements).collect();
        let are_names = !names.is_empty() && names.iter().all(|name| is_token(name));
        if are_names {
            self.withheld.extend(names.iter().map(|name| name.to_ascii_lowercase()));
        }
        are_names
    }
}

/// The text of a quoted string; anything else as it is.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(quoted) = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) else {
        return value.to_vec();
    };
    let mut is_escaped = false;
    let keep = |byte: &&u8| {
        is_escaped = **byte == b'\\' && !is_escaped;
        !is_escaped
    };
    quoted.iter().filter(keep).copied().collect()
}
