//! Heads and trailer sections: the buffer that a decoder writes, the rules of HTTP/2, and the heads that come out.
//!
//! In: decoded fields. Out: the types of [`http1`](crate::http1) as a request line and fields of HTTP/1 would give them, so that every rule
//! compares what is forwarded; or a [`HeadFault`]. Rules that HTTP/1 has too are its own code.
//!
//! The text has a line `name: value` for each field. `:authority` is the line of `host`, other pseudo-fields are lines that no field refers to, and the
//! crumbs of a cookie become one line at the end (RFC 9113 §8.2.3).
//!
//! | the head has | verdict |
//! |---|---|
//! | a name, value or pseudo-field that RFC 9113 §8 calls malformed | malformed: RST_STREAM |
//! | blanks around a value, other control bytes in it | of a request 400; of a response they are tolerated |
//! | more or longer fields than the limits | 431, 414 |
//! | an underscore, two hosts, none, one that is no host | as in HTTP/1 |
//!
//! **Source**: RFC 9113 §8, RFC 8441 §4 and §5.

mod request;
mod response;
mod write;

pub use write::{encode_request, encode_response, encode_trailers};

use super::hpack::{HpackError, Line, Sink};
use super::name::{Flaw, Name, Pseudo};
use super::priority::Priority;
use crate::http1::{Field, HeadError, HeadLimits, Kind, Rule, Span, is_blank, trim};

/// Bytes of a request line beside method and target.
const START_LINE: usize = "  HTTP/1.1\r\n".len();
/// A field block whose list of fields is so many times larger than the limit ends its connection: decoding it only to keep the table costs work.
const EXCESS: usize = 8;

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
    part: Part,
    limits: HeadLimits,
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Crumbs of a cookie, joined.
    cookie: Vec<u8>,
    pseudo: PseudoFields,
    /// The value of a Host field beside `:authority`.
    host: Option<Span>,
    /// Fields and bytes as limits count them, and bytes of the request line.
    count: usize,
    size: usize,
    start_line: usize,
    has_fields: bool,
    has_cookie: bool,
    fault: Option<HeadFault>,
}

/// Values of pseudo-fields.
#[derive(Clone, Copy, Debug, Default)]
struct PseudoFields {
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
    status: Option<Span>,
}

impl HeadText {
    /// Empties the buffer for a part with these limits: `head` bounds the bytes with 32 for each field (RFC 9113 §6.5.2), `fields` the number with
    /// each crumb of a cookie, `start_line` method and path.
    pub fn begin(&mut self, part: Part, limits: &HeadLimits) {
        let Self { text, fields, cookie, .. } = self;
        text.clear();
        fields.clear();
        cookie.clear();
        // Positions are kept in 32 bits.
        let limits = HeadLimits { head: limits.head.min(u32::MAX as usize / 2), ..*limits };
        (self.part, self.limits) = (part, limits);
        (self.pseudo, self.host) = (PseudoFields::default(), None);
        (self.count, self.size, self.start_line) = (0, 0, START_LINE);
        (self.has_fields, self.has_cookie, self.fault) = (false, false, None);
    }

    /// Returns true if nothing is known against the request and it wants a WebSocket (RFC 8441 §5), so that [`HeadText::request`] needs a key.
    pub fn is_websocket(&self) -> bool {
        self.fault.is_none() && self.wants_websocket()
    }

    /// Returns true if it is the head of a response that another one follows.
    pub fn is_interim(&self) -> bool {
        self.pseudo.status.is_some_and(|status| status.get(&self.text).first() == Some(&b'1'))
    }

    /// Returns the number of bytes that it keeps, its fields included.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.fields.capacity() * size_of::<Field>() + self.cookie.capacity()
    }

    /// Returns the priority that a request asks for (RFC 9218 §5).
    pub fn priority(&self) -> Priority {
        let mut fields = self.fields.iter();
        let found = fields.find(|field| field.name(&self.text) == b"priority");
        found.map_or_else(Priority::default, |field| Priority::parse(field.value(&self.text)))
    }

    fn wants_websocket(&self) -> bool {
        let protocol = self.pseudo.protocol.map(|protocol| protocol.get(&self.text));
        protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
    }

    const fn is_response(&self) -> bool {
        matches!(self.part, Part::Response | Part::Trailers { is_response: true })
    }

    #[cold]
    fn malformed(&mut self, sentence: &'static str) {
        self.fault.get_or_insert(HeadFault::Malformed(sentence));
    }

    #[cold]
    fn refuse(&mut self, rule: Rule, at: usize) {
        let fault = HeadFault::Refused(HeadError::new(rule, self.is_response(), &self.text, at));
        self.fault.get_or_insert(fault);
    }

    /// Notes the limit that a field exceeds, unless an earlier field has a fault.
    #[cold]
    fn rejects(&mut self, line: &Line) -> Result<bool, HpackError> {
        let at = self.text.len();
        if self.size > self.limits.head.saturating_mul(EXCESS) {
            return Err(HpackError::TooLarge);
        }
        if self.size > self.limits.head {
            self.refuse(Rule::HeadTooLarge, at);
        } else if self.count > self.limits.fields {
            self.refuse(Rule::TooManyFields, at);
        } else if matches!(line.name, Name::Pseudo(_)) && self.start_line > self.limits.start_line {
            self.refuse(Rule::StartLineTooLong, at);
        }
        Ok(false)
    }

    fn take_pseudo(&mut self, pseudo: Pseudo, start: usize, line: &Line) {
        let (is_request, is_response) = (self.part == Part::Request, self.part == Part::Response);
        if self.has_fields {
            return self.malformed("a pseudo-field is behind other fields");
        }
        let value = line.value(start);
        let slot = match pseudo {
            Pseudo::Status if is_response => &mut self.pseudo.status,
            Pseudo::Method if is_request => &mut self.pseudo.method,
            Pseudo::Scheme if is_request => &mut self.pseudo.scheme,
            Pseudo::Path if is_request => &mut self.pseudo.path,
            Pseudo::Protocol if is_request => &mut self.pseudo.protocol,
            Pseudo::Authority if is_request => &mut self.pseudo.authority,
            _ if is_request => return self.malformed("a request has :status"),
            _ if is_response => return self.malformed("a response has a pseudo-field of requests"),
            _ => return self.malformed("a trailer section has a pseudo-field"),
        };
        if slot.replace(value).is_some() {
            return self.malformed("a pseudo-field is repeated");
        }
        if pseudo == Pseudo::Authority {
            self.take_authority(start, line);
        }
    }

    /// Turns `:authority: ` into `host: `.
    fn take_authority(&mut self, start: usize, line: &Line) {
        const HOST: &[u8] = b"host: ";
        let field = Field::plain(start, HOST.len() - 2, line.value_length, Kind::Host);
        self.text[start..start + HOST.len()].copy_from_slice(HOST);
        self.text.copy_within(line.value(start).start as usize.., field.value_start as usize);
        self.text.truncate(field.value_end as usize + 2);
        self.pseudo.authority = Some(Span { start: field.value_start, end: field.value_end });
        self.fields.push(field);
    }

    #[inline(always)]
    fn take_field(&mut self, kind: Kind, start: usize, line: &Line) {
        self.has_fields = true;
        let mut field = Field::plain(start, line.name_length, line.value_length, kind);
        if line.flaw != Flaw::None {
            field = trimmed(field, &self.text);
        }
        if kind != Kind::Other && !self.takes(&field) {
            return;
        }
        self.fields.push(field);
    }

    /// Returns false for a field with a special meaning that is not kept in the list.
    fn takes(&mut self, field: &Field) -> bool {
        match field.kind {
            // RFC 9113 §8.2.2.
            Kind::Te if field.value(&self.text) != b"trailers" => {
                self.malformed("te has another value than trailers");
                false
            }
            Kind::Host if self.part == Part::Request && self.pseudo.authority.is_some() => {
                let value = Span { start: field.value_start, end: field.value_end };
                if self.host.replace(value).is_some() {
                    self.refuse(Rule::HostRepeated, field.name_start as usize);
                }
                false
            }
            _ => true,
        }
    }

    fn take_crumb(&mut self, start: usize, line: &Line) {
        self.has_fields = true;
        if std::mem::replace(&mut self.has_cookie, true) {
            self.cookie.extend_from_slice(b"; ");
        }
        self.cookie.extend_from_slice(line.value(start).get(&self.text));
        self.text.truncate(start);
    }

    /// Writes a field of the proxy's own behind all others.
    fn push(&mut self, name: &[u8], value: &[u8]) {
        let start = self.text.len();
        for part in [name, b": ", value, b"\r\n"] {
            self.text.extend_from_slice(part);
        }
        self.fields.push(Field::plain(start, name.len(), value.len(), Kind::Other));
    }

    /// Returns false if the line has a fault for which its field is not kept.
    #[cold]
    fn tolerates(&mut self, start: usize, line: &Line) -> bool {
        let at = line.value(start).start as usize;
        match (line.flaw, self.part) {
            (Flaw::LineEnd, _) => self.malformed("a field value has NUL, CR or LF"),
            _ if matches!(line.name, Name::Pseudo(_)) => return true,
            (Flaw::Blank, Part::Request) => self.refuse(Rule::FieldBlank, at),
            (Flaw::Control, Part::Request | Part::Trailers { is_response: false }) => {
                self.refuse(Rule::FieldValue, at);
            }
            _ => return true,
        }
        false
    }
}

impl Sink for HeadText {
    #[inline(always)]
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    #[inline(always)]
    fn admits(&mut self, line: &Line) -> Result<bool, HpackError> {
        self.size += line.size();
        match line.name {
            Name::Pseudo(Pseudo::Method | Pseudo::Path) => self.start_line += line.value_length,
            Name::Pseudo(Pseudo::Scheme | Pseudo::Protocol | Pseudo::Status) => {}
            _ => self.count += 1,
        }
        let is_within = self.size <= self.limits.head
            && self.count <= self.limits.fields
            && self.start_line <= self.limits.start_line;
        if is_within && self.fault.is_none() { Ok(true) } else { self.rejects(line) }
    }

    #[inline(always)]
    fn take(&mut self, start: usize, line: &Line) {
        if line.flaw != Flaw::None && !self.tolerates(start, line) {
            return;
        }
        match line.name {
            Name::Field(kind) => self.take_field(kind, start, line),
            Name::Cookie if self.part == Part::Request => self.take_crumb(start, line),
            // RFC 8441 §5: the key is not used; a client's own would come beside the proxy's.
            Name::WebSocketKey if self.wants_websocket() => {}
            Name::Cookie | Name::WebSocketKey => self.take_field(Kind::Other, start, line),
            Name::Pseudo(pseudo) => self.take_pseudo(pseudo, start, line),
            Name::UnknownPseudo => self.malformed("there is an unknown pseudo-field"),
            Name::Invalid => self.malformed("a field name is not a token in lower case"),
            Name::Connection => self.malformed("there is a field that belongs to connections of HTTP/1"),
        }
    }
}

impl Line {
    /// The positions of its value, in a line that starts here.
    fn value(&self, start: usize) -> Span {
        let value_start = start + self.name_length + 2;
        Span { start: value_start as u32, end: (value_start + self.value_length) as u32 }
    }
}

/// A field without the blanks around its value, which are no part of it in HTTP/1.
#[cold]
fn trimmed(field: Field, text: &[u8]) -> Field {
    let value = field.value(text);
    let blanks = value.iter().take_while(|byte| is_blank(**byte)).count();
    let kept = trim(value).len();
    let value_start = field.value_start + blanks as u32;
    Field { value_start, value_end: value_start + kept as u32, is_plain: kept == value.len(), ..field }
}

#[cfg(test)]
mod tests;
