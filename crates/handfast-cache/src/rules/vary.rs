//! Matches requests with stored responses (RFC 9111 §4.1).
//!
//! In: `Vary` of a response and the request that it answers. Out: a [`Selection`], which matches later requests. Values are normalised: several
//! lines are one list, blanks around commas do not count. Of languages, encodings, charsets and media types neither case nor order counts.

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
        let fields = names.into_iter().map(|name| {
            let value = normalised(request, &name);
            (name, value)
        });
        Some(Self { fields: fields.collect(), language: language(response) })
    }

    /// Returns true if the response is for this request: its values are the same.
    pub(crate) fn matches(&self, request: &RequestHead<'_>) -> bool {
        self.fields.iter().all(|(name, value)| normalised(request, name) == *value)
    }

    /// Returns true if it is for this request in either way.
    pub(crate) fn fits(&self, request: &RequestHead<'_>) -> bool {
        self.matches(request) || self.is_preferred(request)
    }

    /// Returns true if it is for this request because its language is the one that the request prefers to all others; all other values are
    /// the same.
    pub(crate) fn is_preferred(&self, request: &RequestHead<'_>) -> bool {
        let is_same = |(name, value): &(Vec<u8>, Option<Vec<u8>>)| {
            name == b"accept-language" || normalised(request, name) == *value
        };
        let names_language = self.fields.iter().any(|(name, _)| name == b"accept-language");
        names_language
            && self.language.is_some()
            && self.fields.iter().all(is_same)
            && preferred_language(request) == self.language
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
        let (language, weight) = match element.split(|byte| *byte == b';').collect::<Vec<_>>()[..] {
            [language] => (language, 1000),
            [language, weight] => (language, thousandths(weight.trim_ascii().strip_prefix(b"q=")?)?),
            _ => return None,
        };
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

/// A weight (RFC 9110 §12.4.2).
fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, fraction) = match text {
        [whole @ (b'0' | b'1')] => (whole, &text[1..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let digits = fraction.iter().map(|digit| digit.is_ascii_digit().then(|| u16::from(digit - b'0')));
    let parts: Option<Vec<u16>> = digits.collect();
    let fraction: u16 = parts?.iter().zip([100, 10, 1]).map(|(digit, weight)| digit * weight).sum();
    Some((u16::from(whole - b'0') * 1000 + fraction).min(1000))
}

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
