//! Heads in HTTP/2.

use crate::http1::{Field, HeadError, HeadLimits, Method, RequestHead, ResponseHead};
use crate::http2::hpack::Encoder;

/// Kind of a field section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Head of a request.
    #[default]
    Request,
    /// Head of a response.
    Response,
    /// Trailer section.
    Trailers {
        /// True if it is that of a response.
        is_response: bool,
    },
}

/// Reason why a head or trailer section is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// It is malformed: its stream ends with PROTOCOL_ERROR (RFC 9113 §8.1.1).
    Malformed(&'static str),
    /// A rule that HTTP/1 has too: a request is answered with the status.
    Refused(HeadError),
}

/// Buffer for the head or trailer section that a decoder writes, used again for the next one.
#[derive(Debug, Default)]
pub struct HeadText {
    text: Vec<u8>,
    fields: Vec<Field>,
    part: Part,
    limits: HeadLimits,
}

impl HeadText {
    /// Empties the buffer for a part with these limits: `head` bounds the bytes with 32 for each field (RFC 9113 §6.5.2), `fields` the number with
    /// each crumb of a cookie, `start_line` method and path.
    pub fn begin(&mut self, part: Part, limits: &HeadLimits) {
        self.text.clear();
        self.fields.clear();
        self.part = part;
        self.limits = *limits;
    }

    /// Returns true if it is the head of a response that another one follows.
    pub fn is_interim(&self) -> bool {
        false
    }

    /// Returns the priority that a request asks for.
    pub fn priority(&self) -> super::priority::Priority {
        super::priority::Priority::default()
    }

    /// Returns true if the request wants a WebSocket (RFC 8441 §5), so that [`HeadText::request`] needs a key.
    pub fn is_websocket(&self) -> bool {
        false
    }

    /// The head of a request, once. `has_content`: its stream has not ended with its head. `key`: value of `Sec-WebSocket-Key`
    /// where [one is needed](HeadText::is_websocket).
    pub fn request(&mut self, has_content: bool, key: Option<&str>) -> Result<RequestHead<'_>, HeadFault> {
        let _ = (has_content, key, Method::GET);
        Err(HeadFault::Malformed(""))
    }

    /// The head of a response, once. `has_content`: its stream has not ended with its head.
    pub fn response(&mut self, has_content: bool) -> Result<ResponseHead<'_>, HeadFault> {
        let _ = has_content;
        Err(HeadFault::Malformed(""))
    }

    /// The trailer section, once: its text and its fields.
    pub fn trailers(&mut self) -> Result<(&[u8], &[Field]), HeadFault> {
        Ok((&self.text, &self.fields))
    }
}

/// Writes the field block of a request.
pub fn encode_request(out: &mut Vec<u8>, encoder: &mut Encoder, head: &RequestHead<'_>, scheme: &str) {
    let _ = (out, encoder, head, scheme);
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
    let _ = (out, encoder, head, status, length, drops, added);
}

/// Writes the field block of a trailer section; `text` is what the fields refer to.
pub fn encode_trailers(out: &mut Vec<u8>, encoder: &mut Encoder, text: &[u8], fields: &[Field]) {
    let _ = (out, encoder, text, fields);
}
