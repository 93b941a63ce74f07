//! Writing heads: first line, the fields that stay, then our framing and connection fields.
//!
//! In: a parsed head. Out: bytes appended to the caller's buffer. Fields keep their case and order. A line without unusual blanks is copied
//! together with its neighbours; all others are written from their parts.

use super::Version;
use super::field::{Field, Kind, trim};
use super::framing::Framing;
use super::request::{Method, RequestHead};
use super::response::ResponseHead;
use super::scan::{TOKEN, class};

/// Fields that the proxy writes after the last field, and the end of the head.
#[derive(Clone, Copy, Debug)]
pub struct HeadEnd<'a> {
    /// End of the body.
    pub framing: Framing,
    /// The length of a body that does not follow; see [`ResponseHead::announced_length`].
    pub announced_length: Option<u64>,
    /// True if the connection ends after this message.
    pub close: bool,
    /// True if HTTP/1.0 must keep the connection open.
    pub keep_alive: bool,
    /// The protocols to change to.
    pub upgrade: Option<&'a [u8]>,
    /// True if trailers are read, for a request.
    pub accepts_trailers: bool,
}

impl<'a> HeadEnd<'a> {
    /// Framing alone, on a connection that stays open by default.
    pub const fn new(framing: Framing) -> Self {
        Self {
            framing,
            announced_length: None,
            close: false,
            keep_alive: false,
            upgrade: None,
            accepts_trailers: false,
        }
    }

    /// For a request that goes to a backend.
    pub const fn for_backend(head: &RequestHead<'a>) -> Self {
        let (upgrade, accepts_trailers) = (head.upgrade, head.accepts_trailers);
        Self { upgrade, accepts_trailers, ..Self::new(head.framing) }
    }

    /// For a response to a client of this version; `keeps_open` is whether its connection can carry another request.
    pub fn for_client(
        head: &ResponseHead<'a>,
        method: Method<'_>,
        version: Version,
        keeps_open: bool,
    ) -> Self {
        let framing = head.framing(method).for_client(version);
        let is_last = !head.is_interim() && head.status != 101;
        let close = is_last && (!keeps_open || framing == Framing::UntilClose);
        Self {
            announced_length: head.announced_length(method),
            close,
            keep_alive: is_last && !close && version == Version::Http10,
            upgrade: head.upgrade,
            ..Self::new(framing)
        }
    }
}

/// Writes the request line in the form in which the target is forwarded: in HTTP/1.1, or 1.0 for a request without a host, which 1.1 does not
/// have (RFC 9112 §3.2).
pub fn write_request_line(out: &mut Vec<u8>, head: &RequestHead<'_>) {
    out.extend_from_slice(head.method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.with_forwarded_target(&mut Vec::new()).target.path());
    out.extend_from_slice(if head.host.is_none() { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
}

/// Writes the status line, in HTTP/1.1.
pub fn write_status_line(out: &mut Vec<u8>, head: &ResponseHead<'_>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_number(out, u64::from(head.status));
    out.push(b' ');
    out.extend_from_slice(head.reason);
    out.extend_from_slice(b"\r\n");
}

/// Destination of fields: the text of a head alone, or [with the index of its fields](WrittenHead).
pub trait HeadOutput {
    /// Returns the text, which ends with the last field.
    fn text(&mut self) -> &mut Vec<u8>;

    /// Takes the index of a field that is written at its position; there it is `name: value`.
    fn note(&mut self, _: Field) {}
}

impl HeadOutput for Vec<u8> {
    fn text(&mut self) -> &mut Vec<u8> {
        self
    }
}

/// A head that is written, with the index of its fields: it need not be parsed to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenHead {
    /// The text so far.
    pub text: Vec<u8>,
    pub(crate) fields: Vec<Field>,
}

impl WrittenHead {
    /// Returns an empty head with room for so many bytes and fields.
    pub fn with_capacity(bytes: usize, fields: usize) -> Self {
        Self { text: Vec::with_capacity(bytes), fields: Vec::with_capacity(fields) }
    }
}

impl HeadOutput for WrittenHead {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    fn note(&mut self, field: Field) {
        self.fields.push(field);
    }
}

/// Writes the fields that are forwarded by their [kind](super::Kind) and that `drops` does not name; `text` is what they were parsed from.
pub fn write_fields(
    out: &mut impl HeadOutput,
    text: &[u8],
    fields: &[Field],
    mut drops: impl FnMut(&Field) -> bool,
) {
    // Lines that follow each other and stay as they are.
    let (mut start, mut end) = (0, 0);
    for field in fields {
        if !field.kind.is_forwarded() || drops(field) {
            continue;
        }
        let is_next = field.is_plain && field.name_start as usize == end;
        if !is_next {
            out.text().extend_from_slice(&text[start..end]);
            start = field.name_start as usize;
            end = start;
        }
        let at = out.text().len() + (end - start);
        let (name, value) = (field.name(text), field.value(text));
        out.note(Field::plain(at, name.len(), value.len(), field.kind));
        if field.is_plain {
            end = field.value_end as usize + 2;
        } else {
            push_line(out.text(), name, value);
        }
    }
    out.text().extend_from_slice(&text[start..end]);
}

/// Writes a field of the proxy's own, without blanks around its value (RFC 9113 §8.2.1 forbids them); `false`, and nothing written, where the
/// name is not a token or the value has a control byte.
#[must_use]
pub fn push_field(out: &mut impl HeadOutput, name: &str, value: &[u8]) -> bool {
    let is_name = !name.is_empty() && name.bytes().all(|byte| class(byte) & TOKEN != 0);
    let is_valid = is_name && !value.iter().any(u8::is_ascii_control);
    if is_valid {
        let value = trim(value);
        let at = out.text().len();
        out.note(Field::plain(at, name.len(), value.len(), Kind::of(name.as_bytes())));
        push_line(out.text(), name.as_bytes(), value);
    }
    is_valid
}

/// Writes the framing and connection fields and the empty line.
pub fn end_head(out: &mut Vec<u8>, end: &HeadEnd<'_>) {
    match (end.framing, end.announced_length) {
        (Framing::Length(length), _) | (Framing::None, Some(length)) => {
            out.extend_from_slice(b"Content-Length: ");
            push_number(out, length);
            out.extend_from_slice(b"\r\n");
        }
        (Framing::Chunked, _) => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        (Framing::None | Framing::UntilClose, _) => {}
    }
    if let Some(protocols) = end.upgrade {
        push_line(out, b"Upgrade", protocols);
    }
    if end.accepts_trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    let options: [(bool, &[u8]); 4] = [
        (end.close, b"close"),
        (end.keep_alive && !end.close, b"keep-alive"),
        (end.upgrade.is_some(), b"Upgrade"),
        (end.accepts_trailers, b"TE"),
    ];
    let mut separator: &[u8] = b"Connection: ";
    for (_, option) in options.iter().filter(|(is_listed, _)| *is_listed) {
        out.extend_from_slice(separator);
        out.extend_from_slice(option);
        separator = b", ";
    }
    out.extend_from_slice(if separator == b", " { b"\r\n\r\n" } else { b"\r\n" });
}

fn push_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(digits(number, &mut [0; 20]));
}

/// Returns the decimal digits of a number.
pub(crate) fn digits(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[start..];
        }
    }
}
