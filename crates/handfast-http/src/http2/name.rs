//! Meaning of a field's name in HTTP/2, and faults of values.
//!
//! In: a name or a value. Out: its meaning, which is kept with an entry of the dynamic table, so that a repeated field is not read again.

use crate::http1::{Kind, has_control, is_blank, is_lower_token, next_control};

/// A field of the protocol itself (RFC 9113 §8.3, RFC 8441 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pseudo {
    Method,
    Scheme,
    Authority,
    Path,
    Protocol,
    Status,
}

/// Meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Pseudo(Pseudo),
    /// It begins with a colon, and no document defines it.
    UnknownPseudo,
    /// It is no token in lower case.
    Invalid,
    /// It belongs to connections of HTTP/1 (RFC 9113 §8.2.2).
    Connection,
    /// A cookie, or a part of it.
    Cookie,
    /// The key of a WebSocket handshake.
    WebSocketKey,
    /// Any other, with its meaning in HTTP/1.
    Field(Kind),
}

impl Name {
    /// Returns the meaning of a name as a peer sent it.
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b":method" => return Self::Pseudo(Pseudo::Method),
            b":scheme" => return Self::Pseudo(Pseudo::Scheme),
            b":authority" => return Self::Pseudo(Pseudo::Authority),
            b":path" => return Self::Pseudo(Pseudo::Path),
            b":protocol" => return Self::Pseudo(Pseudo::Protocol),
            b":status" => return Self::Pseudo(Pseudo::Status),
            [b':', ..] => return Self::UnknownPseudo,
            _ if !is_lower_token(name) => return Self::Invalid,
            _ if name.contains(&b'_') => return Self::Field(Kind::Underscore),
            b"cookie" => return Self::Cookie,
            b"sec-websocket-key" => return Self::WebSocketKey,
            b"keep-alive" | b"proxy-connection" => return Self::Connection,
            _ => {}
        }
        match Kind::of(name) {
            Kind::Connection | Kind::TransferEncoding | Kind::Upgrade => Self::Connection,
            kind => Self::Field(kind),
        }
    }
}

/// Fault of a value (RFC 9113 §8.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// It begins or ends with a blank.
    Blank,
    /// It has a control byte that is no tab.
    Control,
    /// It has NUL, CR or LF.
    LineEnd,
}

impl Flaw {
    /// Returns the worst fault of a value.
    pub(crate) fn of(value: &[u8]) -> Self {
        let is_at_end = |byte: Option<&u8>| byte.is_some_and(|byte| is_blank(*byte));
        let has_blank = is_at_end(value.first()) || is_at_end(value.last());
        let mut flaw = if has_blank { Self::Blank } else { Self::None };
        if !has_control(value) {
            return flaw;
        }
        let mut from = 0;
        while let Some(at) = next_control(value, from) {
            match value[at] {
                0 | b'\r' | b'\n' => return Self::LineEnd,
                b'\t' => {}
                _ => flaw = Self::Control,
            }
            from = at + 1;
        }
        flaw
    }
}

#[cfg(test)]
mod tests;
