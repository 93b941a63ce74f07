//! Heads of responses.
//!
//! In: bytes from a backend. Out: a [`ResponseHead`], the wait for more, or the rule that was broken: always a 502 for the client.

use super::Version;
use super::error::{HeadError, Rule};
use super::field::Field;
use super::framing::{Coding, Facts, Framing};
use super::head::{HeadProgress, run};
use super::limits::HeadLimits;
use super::lines::{Lines, Stop};
use super::request::{Method, values};
use super::write::{WrittenHead, push_field};

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The bytes that were parsed; fields refer to them.
    pub text: &'a [u8],
    /// Bytes of the head: the body follows.
    pub length: usize,
    /// The version of the backend.
    pub version: Version,
    /// The status, 100 to 999.
    pub status: u16,
    /// The reason phrase, often empty.
    pub reason: &'a [u8],
    /// All fields, in their order.
    pub fields: &'a [Field],
    /// `Content-Length`, whatever it means for this status.
    pub content_length: Option<u64>,
    /// True if the connection can carry another request after the body; also false where the framing leaves a doubt.
    pub keeps_open: bool,
    /// The protocol that the backend changes to; only with status 101.
    pub upgrade: Option<&'a [u8]>,
    pub(crate) is_chunked: bool,
}

impl<'a> ResponseHead<'a> {
    /// A head without fields, for responses of the proxy's own.
    pub const EMPTY: Self = Self {
        text: b"",
        length: 0,
        version: Version::Http11,
        status: 200,
        reason: b"",
        fields: &[],
        content_length: None,
        keeps_open: true,
        upgrade: None,
        is_chunked: false,
    };

    /// Returns true if another response to the same request follows. HTTP/1.0 clients do not expect such a response.
    pub const fn is_interim(&self) -> bool {
        matches!(self.status, 100 | 102..=199)
    }

    /// Returns the end of the body, in the response to a request with this method (RFC 9112 §6.3).
    pub fn framing(&self, method: Method<'_>) -> Framing {
        match (self.is_chunked, self.content_length) {
            _ if method == Method::HEAD || matches!(self.status, 100..=199 | 204 | 304) => Framing::None,
            (true, _) => Framing::Chunked,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::UntilClose,
        }
    }

    /// The length to announce where no body follows: of a response to HEAD and of a 304 (RFC 9110 §8.6).
    pub fn announced_length(&self, method: Method<'_>) -> Option<u64> {
        let announces =
            self.status == 304 || (method == Method::HEAD && !matches!(self.status, 100..=199 | 204));
        self.content_length.filter(|_| announces && !self.is_chunked)
    }

    /// The values of all fields with this name; the case does not matter.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        values(self.text, self.fields, name)
    }

    /// Returns the same head in `room`, which is empty, without the fields that `drops` names and with others behind the rest. A field of the proxy's own that cannot be
    /// one is left out, as [`push_field`] does.
    pub fn changed<'r>(
        &self,
        room: &'r mut WrittenHead,
        drops: impl Fn(&[u8]) -> bool,
        added: &[(&str, &[u8])],
    ) -> ResponseHead<'r>
    where
        'a: 'r,
    {
        room.text.extend_from_slice(self.text);
        room.fields.extend(self.fields.iter().filter(|field| !drops(field.name(self.text))));
        for (name, value) in added {
            let _ = push_field(room, name, value);
        }
        ResponseHead { text: &room.text, fields: &room.fields, ..*self }
    }

    /// Returns the same head for content whose length is not known.
    pub const fn without_length(&self) -> Self {
        Self { content_length: None, is_chunked: true, ..*self }
    }
}

/// Reads the head of a response from its first byte on; `None` waits for more, with the same `progress` and all bytes again.
///
/// **Cost**: one pass, and no allocation once `fields` has room.
/// **Source**: RFC 9112 §4 to §6.
pub fn parse_response<'a>(
    received: &'a [u8],
    progress: &mut HeadProgress,
    fields: &'a mut Vec<Field>,
    limits: &HeadLimits,
) -> Result<Option<ResponseHead<'a>>, HeadError> {
    run(received, progress, limits, true, |lines| parse(lines, fields))
}

fn parse<'a>(lines: &mut Lines<'a>, fields: &'a mut Vec<Field>) -> Result<ResponseHead<'a>, Stop> {
    lines.first_byte(|byte| byte == b'H')?;
    let line = lines.rest_of_start_line()?;
    let (version, rest) = match line {
        // RFC 9110 §2.5: a higher minor version is read as the highest known. Some servers write `HTTP/2.0` here.
        [b'H', b'T', b'T', b'P', b'/', b'1'..=b'9', b'.', b'0'..=b'9', b' ' | b'\t', rest @ ..] => {
            (if line.starts_with(b"HTTP/1.0") { Version::Http10 } else { Version::Http11 }, rest)
        }
        _ => return Err(Stop::Final(Rule::StatusLine, 0)),
    };
    let rest = rest.trim_ascii_start();
    // Some servers leave the space out where there is no reason; this is not ambiguous.
    let (status, reason) = match rest {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', reason @ ..] => {
            (u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'), reason)
        }
        _ => return Err(Stop::Final(Rule::StatusLine, 0)),
    };
    let reason = match reason {
        [] => reason,
        [b' ', reason @ ..] => reason,
        _ => return Err(Stop::Final(Rule::StatusLine, 0)),
    };

    let is_old = version == Version::Http10;
    let mut facts = Facts { is_response: true, is_old, ..Facts::default() };
    lines.fields(fields, &mut facts)?;
    let broken = |rule| Err(Stop::Final(rule, facts.framing_at));
    match facts.coding {
        Coding::Other => return broken(Rule::Coding),
        Coding::Chunked if is_old => return broken(Rule::CodingInOldVersion),
        _ => {}
    }
    let is_chunked = facts.coding == Coding::Chunked;
    let has_no_body = matches!(status, 100..=199 | 204);
    // Both framings, or a body where there can be none: what follows on this connection could be anything.
    let is_doubtful = (is_chunked && facts.length.is_some())
        || (has_no_body && (is_chunked || facts.length.is_some_and(|length| length > 0)));
    Ok(ResponseHead {
        text: lines.read(),
        length: lines.at,
        version,
        status,
        reason,
        fields,
        content_length: facts.length,
        keeps_open: facts.keeps_open() && !is_doubtful,
        upgrade: facts.upgrade().filter(|_| status == 101),
        is_chunked,
    })
}
