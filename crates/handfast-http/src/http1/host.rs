//! The value of `Host`, and the authority of a target.
//!
//! In: bytes. Out: name and port, or nothing. Stricter than RFC 3986 §3.2: no userinfo, no percent encoding, no empty name or label.

use std::net::Ipv6Addr;
use std::ops::Deref;

use super::scan::{HOST, class};

/// Most bytes of a host that a rule can name: a name has at most 253, an IPv6 address in brackets 41.
const MAX_CANONICAL: usize = 253;

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
    /// No host: that of a request in HTTP/1.0 that names none.
    pub const NONE: Self = Self { text: b"", name: b"", port: None };

    /// Returns true if no host was named.
    pub const fn is_none(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns true if both are forms of the same host and port; `port`: the one that is meant where there is none (RFC 9110 §4.2.3).
    pub fn is_equivalent(&self, other: &Self, port: u16) -> bool {
        let same_name = match (self.canonical(), other.canonical()) {
            (Some(own), Some(other)) => *own == *other,
            _ => self.name.eq_ignore_ascii_case(other.name),
        };
        same_name && self.port.unwrap_or(port) == other.port.unwrap_or(port)
    }

    /// Reads the value of a `Host` field; `None`: it is no name or address with an optional port.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
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
            // RFC 3986 §3.2.3: the same as none.
            [b':'] => None,
            [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
                Some(str::from_utf8(digits).ok()?.parse().ok()?)
            }
            _ => return None,
        };
        // Some programs drop empty labels and others do not, so the same text would name two hosts.
        let has_empty_label = name.starts_with(b".") || name.windows(2).any(|pair| pair == b"..");
        (!name.is_empty() && !has_empty_label).then_some(Self { text, name, port })
    }

    /// Returns the form in which hosts are compared; `None`: it is longer than a rule can name.
    pub fn canonical(&self) -> Option<CanonicalHost> {
        CanonicalHost::new(self.name)
    }
}

/// A host in the form in which hosts are compared: in lower case, without the dot of the root, an IPv6 address as RFC 5952 writes it.
#[derive(Clone, Copy)]
pub struct CanonicalHost {
    bytes: [u8; MAX_CANONICAL],
    length: usize,
}

impl CanonicalHost {
    /// Takes a name, or an address in any notation, IPv6 in brackets; `None`: it is longer than a rule can name, or not UTF-8.
    ///
    /// **Cost**: one copy; parsing for IPv6 addresses alone.
    pub fn new(name: &[u8]) -> Option<Self> {
        if let Some(address) = name.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
            let address = str::from_utf8(address).ok()?.parse::<Ipv6Addr>().ok()?;
            return Self::copy(format!("[{address}]").as_bytes());
        }
        Self::copy(name.strip_suffix(b".").unwrap_or(name))
    }

    fn copy(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_CANONICAL];
        let copied = bytes.get_mut(..name.len())?;
        copied.copy_from_slice(name);
        copied.make_ascii_lowercase();
        str::from_utf8(name).ok().map(|_| Self { bytes, length: name.len() })
    }
}

impl Deref for CanonicalHost {
    type Target = str;

    fn deref(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}
