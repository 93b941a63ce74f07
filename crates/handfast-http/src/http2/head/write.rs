//! Field blocks of heads and trailer sections that are sent.
//!
//! In: a head as HTTP/1 has it. Out: a field block. Fields that frame a message of HTTP/1 or belong to a connection are left out (RFC 9113 §8.2.2).

use crate::http1::{Field, Framing, Kind, RequestHead, ResponseHead, digits};
use crate::http2::hpack::{Encoder, index};

/// Writes the field block of a request. `:authority` is its host, and there is none without one.
///
/// **Source**: RFC 9113 §8.3.1.
pub fn encode_request(out: &mut Vec<u8>, encoder: &mut Encoder, head: &RequestHead<'_>, scheme: &str) {
    encoder.begin(out);
    let by_method = if head.method.as_bytes() == b"POST" { index::METHOD_POST } else { index::METHOD };
    encoder.entry(out, by_method, head.method.as_bytes());
    let by_scheme = if scheme == "https" { index::SCHEME_HTTPS } else { index::SCHEME_HTTP };
    encoder.entry(out, by_scheme, scheme.as_bytes());
    if !head.host.is_none() {
        encoder.literal(out, index::AUTHORITY, head.host.text);
    }
    encoder.entry(out, index::PATH, head.with_forwarded_target(&mut Vec::new()).target.path());
    fields(out, encoder, head.text, head.fields, |field| field.kind == Kind::Host);
    if let Framing::Length(length) = head.framing {
        content_length(out, encoder, length);
    }
    if head.accepts_trailers {
        encoder.field(out, b"te", b"trailers");
    }
}

/// Writes the field block of a response with this status. `length`: announced length of its content. `drops` names fields that are left out,
/// `added` follow those that stay.
pub fn encode_response<'a>(
    out: &mut Vec<u8>,
    encoder: &mut Encoder,
    head: &ResponseHead<'_>,
    status: u16,
    length: Option<u64>,
    drops: impl FnMut(&Field) -> bool,
    added: impl Iterator<Item = (&'a str, &'a [u8])>,
) {
    encoder.begin(out);
    encoder.status(out, status);
    fields(out, encoder, head.text, head.fields, drops);
    for (name, value) in added {
        encoder.field(out, name.as_bytes(), value);
    }
    if let Some(length) = length {
        content_length(out, encoder, length);
    }
}

/// Writes the field block of a trailer section; `text` is what the fields refer to.
pub fn encode_trailers(out: &mut Vec<u8>, encoder: &mut Encoder, text: &[u8], trailers: &[Field]) {
    encoder.begin(out);
    fields(out, encoder, text, trailers, |_| false);
}

fn fields(
    out: &mut Vec<u8>,
    encoder: &Encoder,
    text: &[u8],
    fields: &[Field],
    mut drops: impl FnMut(&Field) -> bool,
) {
    out.reserve(text.len());
    for field in fields.iter().filter(|field| field.kind.is_forwarded()) {
        if !drops(field) {
            encoder.field(out, field.name(text), field.value(text));
        }
    }
}

fn content_length(out: &mut Vec<u8>, encoder: &Encoder, length: u64) {
    encoder.literal(out, index::CONTENT_LENGTH, digits(length, &mut [0; 20]));
}
