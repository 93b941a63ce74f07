//! The `Cache-Status` field (RFC 9211).
//!
//! In: what happened to a request. Out: the value of the field. It is added behind those of other caches, never in their place.

use std::fmt::Write;

/// Reason why a request was forwarded (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Forwarded {
    /// The cache was not asked.
    Bypass,
    /// The method.
    Method,
    /// Nothing is stored for this URL.
    UriMiss,
    /// The responses stored for this URL are for other requests.
    VaryMiss,
    /// The stored response could be used, but the request demands the origin.
    Request,
    /// The stored response is stale.
    Stale,
    /// A part was requested that is not stored.
    Partial,
}

impl Forwarded {
    /// The token.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// Handling of a request in this cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Reason why it was forwarded; `None` if it was not: a hit.
    pub forwarded: Option<Forwarded>,
    /// The status that the origin answered, if the client receives another one.
    pub forwarded_status: Option<u16>,
    /// Seconds for which the response is fresh still.
    pub ttl: Option<i64>,
    /// True if the response was stored.
    pub is_stored: bool,
    /// True if it shared the forwarded request of another client.
    pub is_collapsed: bool,
    /// More, for an operator.
    pub detail: Option<String>,
}

impl CacheStatus {
    /// The value of the field.
    pub fn value(&self) -> String {
        let mut out = String::from("Handfast");
        match self.forwarded {
            None => out.push_str("; hit"),
            Some(forwarded) => {
                out.push_str("; fwd=");
                out.push_str(forwarded.token());
            }
        }
        let mut number = |name: &str, value: Option<i64>| {
            if let Some(value) = value {
                // RFC 9651 §3.3.1: at most 15 digits.
                let value = value.clamp(-999_999_999_999_999, 999_999_999_999_999);
                write!(out, "; {name}={value}").expect("a String takes all text");
            }
        };
        number("fwd-status", self.forwarded_status.map(i64::from));
        number("ttl", self.ttl);
        if self.is_stored && self.forwarded.is_some() {
            out.push_str("; stored");
        }
        if self.is_collapsed && self.forwarded.is_some() {
            out.push_str("; collapsed");
        }
        if let Some(detail) = &self.detail {
            out.push_str("; detail=");
            push_string(&mut out, detail);
        }
        out
    }
}

/// Writes a string (RFC 9651 §4.1.6); bytes that a string cannot have are left out.
fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars().filter(|character| matches!(character, ' '..='~')) {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}
