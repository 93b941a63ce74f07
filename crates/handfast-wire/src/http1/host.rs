//! The value of `Host`, and the authority of a target.
//!
//! In: bytes. Out: name and port, or nothing. Stricter than RFC 3986 §3.2: no userinfo, no percent encoding, no empty name or port.

use std::net::Ipv6Addr;

use super::scan::{HOST, class};

/// A host as a client named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// All of it.
    pub text: &'a [u8],
    /// The name or address; an IPv6 address in its brackets.
    pub name: &'a [u8],
    /// The port, if there is one.
    pub port: Option<u16>,
}

impl<'a> Host<'a> {
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let end = if text.first() == Some(&b'[') {
            let end = text.iter().position(|byte| *byte == b']')?;
            str::from_utf8(&text[1..end]).ok()?.parse::<Ipv6Addr>().ok()?;
            end + 1
        } else {
            text.iter().position(|byte| class(*byte) & HOST == 0).unwrap_or(text.len())
        };
        let (name, rest) = text.split_at(end);
        let port = match rest {
            [] => None,
            [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
                Some(str::from_utf8(digits).ok()?.parse().ok()?)
            }
            _ => return None,
        };
        (!name.is_empty()).then_some(Self { text, name, port })
    }
}
