//! Which requests a stored response is for (RFC 9111 §4.1).
//!
//! In: `Vary` of a response and the request that it answers. Out: a [`Selection`], which matches later requests. Values are normalised: several
//! lines are one list, blanks around commas do not count. Of languages, encodings, charsets and media types neither case nor order counts.

use handfast_wire::http1::{RequestHead, ResponseHead, is_token};

use super::lists::elements;

/// The fields that `Vary` names, with their values in the request that was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Lower-case names in their order; no value where the request had no such field.
    pub(crate) fields: Vec<(Vec<u8>, Option<Vec<u8>>)>,
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
        Some(Self { fields: fields.collect() })
    }

    /// Whether the response is for this request.
    pub(crate) fn matches(&self, request: &RequestHead<'_>) -> bool {
        self.fields.iter().all(|(name, value)| normalised(request, name) == *value)
    }
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
