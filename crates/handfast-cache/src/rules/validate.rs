//! Asking the origin whether a stored response is current, and what its reply changes (RFC 9111 §4.3).
//!
//! In: a stored response and a 304 or a response to HEAD. Out: the stored response with its fields updated. And which objects an unsafe request
//! invalidates (RFC 9111 §4.4).

use handfast_http::http1::{
    Field, Kind, Method, RequestHead, ResponseHead, push_field, write_fields, write_status_line,
};

use super::key::Key;
use super::policy::Policy;
use super::stored::{NotStored, Stored, Times, is_kept, parsed};

/// The fields that make a request conditional on a stored response: those of the client with these names are not forwarded.
pub const CONDITIONS: [&str; 5] =
    ["if-none-match", "if-modified-since", "if-range", "range", "if-unmodified-since"];

/// Returns true if a field of a client's request is left out of a conditional request of the cache: its own condition replaces the
/// client's.
pub fn is_condition(name: &[u8]) -> bool {
    CONDITIONS.iter().any(|condition| name.eq_ignore_ascii_case(condition.as_bytes()))
}

/// Fields of a 304 that never replace stored ones: they describe the content that is stored, or the validator that was just confirmed.
const KEPT: [&str; 9] = [
    "content-digest",
    "content-encoding",
    "content-length",
    "content-md5",
    "content-range",
    "digest",
    "etag",
    "repr-digest",
    "trailer",
];

impl Stored {
    /// The fields that make a request conditional: names and values. Empty if it has no validator.
    pub fn conditions(&self) -> Vec<(&'static str, Vec<u8>)> {
        if !self.can_validate() {
            return Vec::new();
        }
        let etag = self.etag.iter().map(|etag| ("If-None-Match", etag.clone()));
        let modified = self.last_modified.iter().map(|date| ("If-Modified-Since", date.clone()));
        etag.chain(modified).collect()
    }

    /// This response with the fields of a 304 (RFC 9111 §3.2 and §4.3.4).
    ///
    /// **Errors**: the reason why it must not be stored any longer. It may still be the response to this request.
    pub fn freshened(
        &self,
        request: &RequestHead<'_>,
        response: &ResponseHead<'_>,
        policy: &Policy,
        times: Times,
    ) -> Result<Self, NotStored> {
        let text = self.merged(response);
        parsed(&text, |head| Self::keep(request, head, policy, times)).unwrap_or(Err(NotStored::Status))
    }

    /// The head for the client whose request was validated: with all fields of the 304, stored or not (as `Set-Cookie`).
    pub(crate) fn updated_head(&self, response: &ResponseHead<'_>) -> Vec<u8> {
        self.merged(response)
    }

    fn merged(&self, response: &ResponseHead<'_>) -> Vec<u8> {
        let replaces = |field: &Field| is_kept(field.kind()) && !is_fixed(field.name(response.text));
        let is_replaced = |name: &[u8]| {
            response
                .fields
                .iter()
                .any(|field| replaces(field) && field.name(response.text).eq_ignore_ascii_case(name))
        };
        let mut text = Vec::with_capacity(self.head.len() + response.length);
        let has_etag = self.etag.is_some();
        let kept = self.with_head(|head| {
            write_status_line(&mut text, head);
            write_fields(&mut text, head.text, head.fields, |field| is_replaced(field.name(head.text)));
        });
        debug_assert!(kept.is_some(), "a stored head was parsed before");
        write_fields(&mut text, response.text, response.fields, |field| !replaces(field));
        if !has_etag && let Some(etag) = response.values("etag").next() {
            let is_written = push_field(&mut text, "ETag", etag);
            debug_assert!(is_written, "a parsed value is valid");
        }
        text.extend_from_slice(b"\r\n");
        text
    }

    /// Updates this stored response after a 200 response to HEAD (RFC 9111 §4.3.5); `None` if that shows that the content
    /// changed.
    pub fn after_head(
        &self,
        request: &RequestHead<'_>,
        response: &ResponseHead<'_>,
        size: u64,
        policy: &Policy,
        times: Times,
    ) -> Option<Self> {
        let is_same = |known: &Option<Vec<u8>>, name: &str| match (known, response.values(name).next()) {
            (Some(known), Some(new)) => known == new,
            _ => true,
        };
        let length = response.announced_length(Method::HEAD);
        let is_current = is_same(&self.etag, "etag")
            && is_same(&self.last_modified, "last-modified")
            && length.is_none_or(|length| length == size);
        if is_current { self.freshened(request, response, policy, times).ok() } else { None }
    }
}

fn is_fixed(name: &[u8]) -> bool {
    KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()))
        || matches!(Kind::of(name), Kind::ContentLength)
}

/// The keys that a response to an unsafe request invalidates: its own, and those of `Location` and `Content-Location` on the same origin.
pub fn invalidated(key: &Key, request: &RequestHead<'_>, response: &ResponseHead<'_>) -> Vec<Key> {
    if request.method.is_safe() || !matches!(response.status, 200..=399) {
        return Vec::new();
    }
    let references = ["location", "content-location"].into_iter().flat_map(|name| response.values(name));
    let mut keys: Vec<Key> = references.filter_map(|reference| key.same_origin(reference)).collect();
    keys.push(key.clone());
    keys.sort_unstable();
    keys.dedup();
    keys
}
