//! Every way in which a dialogue does not get to TLS.

use std::fmt;

use super::{BYTE_LIMIT, ROUND_LIMIT, UNIT_LIMIT};

/// Most characters of a peer's words that are repeated to people.
const QUOTE_LIMIT: usize = 120;

/// Reason why a dialogue ended before TLS; the peer is always the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Plain text came behind the last word before TLS, or before it was the peer's turn.
    Injected {
        /// Number of bytes.
        count: usize,
    },
    /// A line or packet over [`UNIT_LIMIT`].
    UnitTooLong,
    /// More than [`BYTE_LIMIT`] bytes or [`ROUND_LIMIT`] lines without getting to TLS.
    TooMuch,
    /// The client began TLS at once, where it has to ask for it.
    TlsAtOnce,
    /// The client took its leave.
    Left {
        /// Last message of the client.
        message: Box<str>,
    },
    /// The client insisted on plain text.
    Insisted {
        /// On what.
        on: Box<str>,
    },
    /// The server, or the proxy on the way, refused.
    Refused {
        /// Its words.
        message: Box<str>,
    },
    /// The server does not offer TLS.
    NotOffered,
    /// Something that the protocol does not have at this place.
    Unexpected {
        /// Expected message.
        expected: &'static str,
        /// Received message.
        got: Box<str>,
    },
}

impl Problem {
    pub(super) fn unexpected(expected: &'static str, got: &[u8]) -> Self {
        Self::Unexpected { expected, got: quote(got) }
    }

    pub(super) fn refused(message: &[u8]) -> Self {
        Self::Refused { message: quote(message) }
    }
}

/// A peer's bytes as printable text of bounded length.
pub(super) fn quote(bytes: &[u8]) -> Box<str> {
    let mut quoted = String::new();
    for byte in bytes {
        if quoted.len() >= QUOTE_LIMIT {
            quoted.push('…');
            break;
        }
        match byte {
            b' '..=b'~' => quoted.push(char::from(*byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.into()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Injected { count } => write!(f, "{count} bytes of plain text where TLS has to begin"),
            Self::UnitTooLong => write!(f, "a line or packet of more than {UNIT_LIMIT} bytes"),
            Self::TooMuch => {
                write!(f, "no request for TLS within {ROUND_LIMIT} lines or packets and {BYTE_LIMIT} bytes")
            }
            Self::TlsAtOnce => f.write_str("TLS at once, where the protocol has to ask for it first"),
            Self::Left { message } => write!(f, "it left with {message}"),
            Self::Insisted { on } => write!(f, "it insisted on plain text: {on}"),
            Self::Refused { message } => write!(f, "it said {message}"),
            Self::NotOffered => f.write_str("it does not offer TLS"),
            Self::Unexpected { expected, got } => write!(f, "expected {expected}, got {got}"),
        }
    }
}

impl std::error::Error for Problem {}
