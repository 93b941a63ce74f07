//! Matches requests with stored responses (RFC 9111 §4.1).
//!
//! In: `Vary` of a response and the request that it answers. Out: a [`Selection`], which matches later requests. Values are normalised: several
//! lines are one list, blanks around commas do not count. Of languages, encodings, charsets and media types neither case nor order counts. Of
//! `Accept-Encoding` only the known codings count, unless the response has another one: browsers write it in many ways.

use handfast_http::content_coding::{AcceptedCodings, ContentCoding, weighted};
use handfast_http::http1::{RequestHead, ResponseHead, is_token};

use super::lists::elements;

/// The fields that `Vary` names, with their values in the request that was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Lower-case names in their order; no value where the request had no such field.
    pub(crate) fields: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// `Content-Language` of the response, if it is one language.
    pub(crate) language: Option<Vec<u8>>,
}

impl Selection {
    /// `None` if `Vary` has `*` or what is no name: no other request matches.
    pub(crate) fn of(request: &RequestHead<'_>, response: &ResponseHead<'_>) -> Option<Self> {
        let mut names: Vec<Vec<u8>> =
            response.values("vary").flat_map(elements).map(<[u8]>::to_ascii_lowercase).collect();
        names.sort_unstable();
        names.dedup();
        if names.iter().any(|name| name == b"*" || !is_token(name)) {
            return None;
        }
        let by_codings = has_known_coding(response);
        let fields = names.into_iter().map(|name| {
            let is_coding = by_codings && name == ACCEPT_ENCODING.as_bytes();
            let value = if is_coding { accepted_codings(request) } else { normalised(request, &name) };
            (name, value)
        });
        Some(Self { fields: fields.collect(), language: language(response) })
    }

    /// Returns true if the response is for this request: its values are the same.
    pub(crate) fn matches(&self, request: &RequestHead<'_>) -> bool {
        self.fields.iter().all(|(name, value)| is_same(request, name, value.as_deref()))
    }

    /// Returns true if it is for this request in either way.
    pub(crate) fn fits(&self, request: &RequestHead<'_>) -> bool {
        self.matches(request) || self.is_preferred(request)
    }

    /// Returns true if it is for this request because its language is the one that the request prefers to all others; all other values are
    /// the same.
    pub(crate) fn is_preferred(&self, request: &RequestHead<'_>) -> bool {
        let is_same = |(name, value): &(Vec<u8>, Option<Vec<u8>>)| {
            name == b"accept-language" || is_same(request, name, value.as_deref())
        };
        let names_language = self.fields.iter().any(|(name, _)| name == b"accept-language");
        names_language
            && self.language.is_some()
            && self.fields.iter().all(is_same)
            && preferred_language(request) == self.language
    }
}

/// Returns true if a request has this value in a field.
fn is_same(request: &RequestHead<'_>, name: &[u8], value: Option<&[u8]>) -> bool {
    match value {
        Some(value) if name == ACCEPT_ENCODING.as_bytes() && value.starts_with(KNOWN_CODINGS) => {
            accepted_codings(request).is_some_and(|own| own == value)
        }
        _ => normalised(request, name).as_deref() == value,
    }
}

/// The only language of a response, in lower case.
pub(crate) fn language(response: &ResponseHead<'_>) -> Option<Vec<u8>> {
    let mut languages = response.values("content-language").flat_map(elements);
    let language = languages.next().map(<[u8]>::to_ascii_lowercase);
    language.filter(|_| languages.next().is_none())
}

/// The language that a request weighs higher than each other one, in lower case. An unreadable value prefers nothing.
fn preferred_language(request: &RequestHead<'_>) -> Option<Vec<u8>> {
    let mut best: Option<(u16, &[u8])> = None;
    let mut is_tie = false;
    for element in request.values("accept-language").flat_map(elements) {
        let (language, weight) = weighted(element)?;
        match best {
            Some((most, _)) if weight < most => {}
            Some((most, _)) if weight == most => is_tie = true,
            _ => {
                best = Some((weight, language.trim_ascii()));
                is_tie = false;
            }
        }
    }
    best.filter(|(weight, language)| !is_tie && *weight > 0 && *language != b"*")
        .map(|(_, language)| language.to_ascii_lowercase())
}

/// Begins the value of a selection by the set of known codings; no element of a list begins with it.
const KNOWN_CODINGS: &[u8] = b"=";

/// The codings that a request accepts, of those that are known, without their weights: whatever a browser writes, one of these has what it can
/// read. `None`: the request has no such field, and what it gets may be coded in any way.
fn accepted_codings(request: &RequestHead<'_>) -> Option<Vec<u8>> {
    request.values(ACCEPT_ENCODING).next()?;
    let accepted = AcceptedCodings::parse(request.values(ACCEPT_ENCODING));
    let names = ContentCoding::ALL.into_iter().filter(|coding| accepted.accepts(*coding));
    let names: Vec<&[u8]> = names.map(|coding| coding.name().as_bytes()).collect();
    let refuses: &[u8] = if accepted.accepts_identity() { b"" } else { b",identity;q=0" };
    Some([KNOWN_CODINGS, &names.join(&b","[..]), refuses].concat())
}

/// Returns true if a response is not coded, or in a known way. Only then do the known codings decide for which requests it is.
fn has_known_coding(response: &ResponseHead<'_>) -> bool {
    let mut codings = response.values("content-encoding").flat_map(elements);
    codings.all(|coding| ContentCoding::of(coding).is_some())
}

const ACCEPT_ENCODING: &str = "accept-encoding";

fn normalised(request: &RequestHead<'_>, name: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(name).ok()?;
    request.values(text).next()?;
    let mut parts: Vec<&[u8]> = request.values(text).flat_map(elements).collect();
    if !matches!(text, "accept" | "accept-charset" | "accept-encoding" | "accept-language") {
        return Some(parts.join(&b","[..]));
    }
    let compact = |part: &&[u8]| -> Vec<u8> {
        part.iter().filter(|byte| !matches!(byte, b' ' | b'\t')).map(u8::to_ascii_lowercase).collect()
    };
    parts.retain(|part| !part.is_empty());
    let mut parts: Vec<Vec<u8>> = parts.iter().map(compact).collect();
    parts.sort_unstable();
    parts.dedup();
    Some(parts.join(&b","[..]))
}
