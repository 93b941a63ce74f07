//! A field of a head, and what its name means for a proxy.
//!
//! In: a name. Out: its [`Kind`], which decides whether it is forwarded. A field has positions in the bytes of the head, no references.

use super::scan::{is_blank, is_text};

/// Fields that decide about rights or how content is read; a server that merges trailers into the head would take them from there
/// (RFC 9110 §6.5.1). A request with one is refused; of a response they are dropped.
const NEVER_TRAILERS: [&[u8]; 8] = [
    b"authorization",
    b"cookie",
    b"set-cookie",
    b"content-encoding",
    b"content-type",
    b"content-range",
    b"cache-control",
    b"trailer",
];

/// Meaning of a field's name for the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Any other: forwarded.
    Other,
    /// `Host`: forwarded.
    Host,
    /// `Expect: 100-continue`: forwarded, except from HTTP/1.0.
    Expect,
    /// `Forwarded`, `X-Forwarded-…`, `X-Real-IP`, `Client-Cert`, `Client-Cert-Chain`: they name the client, and are forwarded unless the caller
    /// writes its own.
    Forwarding,
    /// `Content-Length`: written again by the proxy.
    ContentLength,
    /// `Transfer-Encoding`: written again by the proxy.
    TransferEncoding,
    /// `Connection`: ends here.
    Connection,
    /// `Upgrade`: ends here, written again if the protocol may change.
    Upgrade,
    /// `TE`: ends here, written again as `trailers`.
    Te,
    /// `Keep-Alive`, `HTTP2-Settings`, `Proxy-…`: these belong to one connection. `Proxy` would set `HTTP_PROXY` in CGI programs (httpoxy).
    HopByHop,
    /// Listed in `Connection`, an `Expect` that is ignored, or a trailer of a response that must not be one.
    Nominated,
    /// A name with an underscore, which CGI and WSGI take for the same name with `-`.
    Underscore,
}

impl Kind {
    /// Returns the meaning of a field with this name, in any case. Only a head determines [`Kind::Nominated`], and only the operator's
    /// settings determine whether it is dropped as [`Kind::Underscore`].
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        let begins =
            |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        let Some(first) = name.first() else { return Self::Other };
        // By the first letter, because most names share it with none of these.
        let (known, kind): (&[u8], _) = match (first | 0x20, name.len()) {
            (b'c', 10) => (b"connection", Self::Connection),
            (b'c', 11) => (b"client-cert", Self::Forwarding),
            (b'c', 14) => (b"content-length", Self::ContentLength),
            (b'c', 17) => (b"client-cert-chain", Self::Forwarding),
            (b'e', 6) => (b"expect", Self::Expect),
            (b'f', 9) => (b"forwarded", Self::Forwarding),
            (b'h', 4) => (b"host", Self::Host),
            (b'h', 14) => (b"http2-settings", Self::HopByHop),
            (b'k', 10) => (b"keep-alive", Self::HopByHop),
            (b'p', 5) => (b"proxy", Self::HopByHop),
            (b'p', _) if begins(b"proxy-") => return Self::HopByHop,
            (b't', 2) => (b"te", Self::Te),
            (b't', 17) => (b"transfer-encoding", Self::TransferEncoding),
            (b'u', 7) => (b"upgrade", Self::Upgrade),
            (b'x', 9) => (b"x-real-ip", Self::Forwarding),
            (b'x', _) if begins(b"x-forwarded-") => return Self::Forwarding,
            _ => return Self::Other,
        };
        if is_text(name, known) { kind } else { Self::Other }
    }

    /// Returns true if such a field is forwarded to the other side.
    pub const fn is_forwarded(self) -> bool {
        matches!(self, Self::Other | Self::Host | Self::Expect | Self::Forwarding)
    }
}

/// One field line: positions in the bytes that were parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub(crate) name_start: u32,
    pub(crate) name_end: u32,
    pub(crate) value_start: u32,
    pub(crate) value_end: u32,
    pub(crate) kind: Kind,
    /// Exactly one space behind the colon and none behind the value: the line can be copied as it is.
    pub(crate) is_plain: bool,
}

impl Field {
    /// A line that is written as `name: value` and CRLF from this position on.
    pub(crate) const fn plain(start: usize, name_length: usize, value_length: usize, kind: Kind) -> Self {
        let name_start = start as u32;
        let name_end = name_start + name_length as u32;
        let value_start = name_end + 2;
        let value_end = value_start + value_length as u32;
        Self { name_start, name_end, value_start, value_end, kind, is_plain: true }
    }

    /// Its name, as it was written. `text` must be the bytes that were parsed.
    pub fn name<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.name_start as usize..self.name_end as usize]
    }

    /// Its value without blanks around it.
    pub fn value<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.value_start as usize..self.value_end as usize]
    }

    /// Returns the meaning of its name.
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

/// Returns true if a trailer section must not have this name. Names that frame, route or belong to a connection are known by their [`Kind`].
pub(crate) fn is_never_trailer(name: &[u8]) -> bool {
    NEVER_TRAILERS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The elements of a list value, without blanks around them; empty ones are left out.
pub fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|token| !token.is_empty())
}

/// Without spaces and tabs at both ends.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_blank(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_blank(*last)
    {
        text = rest;
    }
    text
}
