//! Every way in which TLS records are not a well-formed ClientHello.
//!
//! In: what the parsers found. Out: a sentence for people (`Display`) and the alert that answers it
//! ([`Invalid::alert`]).

use std::fmt;

use crate::alert::AlertDescription;
use crate::limits::RECORD_COUNT_LIMIT;
use crate::record::{ContentType, PLAINTEXT_LIMIT};
use crate::registry;

/// Reason why these TLS records are no ClientHello; the client is always the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Invalid {
    // Records.
    /// A record of another type before the ClientHello was whole.
    RecordType {
        /// Its type.
        content_type: ContentType,
    },
    /// A later record whose major version is not 3.
    RecordVersion {
        /// Its version.
        version: u16,
    },
    /// A handshake record without payload: "Implementations MUST NOT send zero-length fragments of Handshake
    /// types" (RFC 9846 §5.1).
    RecordEmpty,
    /// A record over [`PLAINTEXT_LIMIT`].
    RecordTooLong {
        /// The length in its header.
        length: u16,
    },
    /// The message is not whole after [`RECORD_COUNT_LIMIT`] records.
    TooManyRecords,
    // The message.
    /// The first handshake message is not a ClientHello.
    MessageType {
        /// The type it has.
        message_type: u8,
    },
    /// The record that ends the ClientHello goes on: a client sends nothing more before it is answered.
    BytesAfterHello {
        /// Number of surplus bytes.
        count: usize,
    },
    /// A field ends before the length it announced, or before what it must have.
    Short {
        /// The field, in the RFC's word.
        field: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        left: usize,
    },
    /// A field has bytes behind its end.
    Trailing {
        /// The field, in the RFC's word.
        field: &'static str,
        /// Number of bytes behind its end.
        count: usize,
    },
    /// A list or string that must have a member has none.
    Empty {
        /// The field, in the RFC's word.
        field: &'static str,
    },
    /// A list of two-byte numbers ends amid one.
    OddLength {
        /// The field, in the RFC's word.
        field: &'static str,
        /// Its length in bytes.
        length: usize,
    },
    // Values.
    /// `legacy_version` is below SSL 3.0.
    LegacyVersion {
        /// The version given.
        version: u16,
    },
    /// `legacy_session_id` over 32 bytes.
    SessionIdTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The compression methods lack `null`, which they MUST contain (RFC 5246 §7.4.1.2).
    NoNullCompression,
    /// The same extension twice (RFC 9846 §4.3).
    DuplicateExtension {
        /// Its type.
        extension: u16,
    },
    /// An extension behind pre_shared_key, which MUST be the last (RFC 9846 §4.3.11).
    PreSharedKeyNotLast,
    /// More than one host name, which a list MUST NOT contain (RFC 6066 §3).
    SeveralHostNames,
}

impl Invalid {
    /// The alert that answers it.
    ///
    /// **Source**: RFC 9846 §6.2, and the section of each rule.
    pub const fn alert(&self) -> AlertDescription {
        match self {
            Self::RecordType { .. } | Self::RecordEmpty | Self::TooManyRecords => {
                AlertDescription::UNEXPECTED_MESSAGE
            }
            Self::MessageType { .. } | Self::BytesAfterHello { .. } => AlertDescription::UNEXPECTED_MESSAGE,
            Self::RecordVersion { .. } | Self::LegacyVersion { .. } => AlertDescription::PROTOCOL_VERSION,
            Self::RecordTooLong { .. } => AlertDescription::RECORD_OVERFLOW,
            Self::Short { .. } | Self::Trailing { .. } | Self::Empty { .. } | Self::OddLength { .. } => {
                AlertDescription::DECODE_ERROR
            }
            Self::SessionIdTooLong { .. } => AlertDescription::DECODE_ERROR,
            Self::NoNullCompression
            | Self::DuplicateExtension { .. }
            | Self::PreSharedKeyNotLast
            | Self::SeveralHostNames => AlertDescription::ILLEGAL_PARAMETER,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecordType { content_type } => {
                write!(f, "record of type {} ", content_type.0)?;
                write!(f, "({}), expected handshake", content_type.name().unwrap_or("unknown"))
            }
            Self::RecordVersion { version } => write!(f, "record version 0x{version:04x}, expected 0x03.."),
            Self::RecordEmpty => f.write_str("handshake record of length 0, expected at least 1"),
            Self::RecordTooLong { length } => write!(f, "record length {length}, limit {PLAINTEXT_LIMIT}"),
            Self::TooManyRecords => write!(f, "hello not whole after {RECORD_COUNT_LIMIT} records"),
            Self::MessageType { message_type } => {
                write!(f, "handshake message of type {message_type}, expected client_hello (1)")
            }
            Self::BytesAfterHello { count } => write!(f, "{count} bytes after the hello in its last record"),
            Self::Short { field, needed, left } => write!(f, "{field} needs {needed} bytes, {left} left"),
            Self::Trailing { field, count } => write!(f, "{count} bytes behind the end of {field}"),
            Self::Empty { field } => write!(f, "{field} is empty"),
            Self::OddLength { field, length } => write!(f, "{field} length {length}, expected an even one"),
            Self::LegacyVersion { version } => {
                write!(f, "legacy_version 0x{version:04x}, expected at least 0x0300")
            }
            Self::SessionIdTooLong { length } => write!(f, "legacy_session_id length {length}, limit 32"),
            Self::NoNullCompression => f.write_str("compression methods without null"),
            Self::DuplicateExtension { extension } => {
                let name = registry::label(registry::extension_name(*extension), *extension);
                write!(f, "extension {name} twice")
            }
            Self::PreSharedKeyNotLast => f.write_str("pre_shared_key is not the last extension"),
            Self::SeveralHostNames => f.write_str("server_name has more than one host name"),
        }
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_say_what_was_found_and_what_was_expected() {
        for (invalid, sentence) in [
            (Invalid::RecordTooLong { length: 17_001 }, "record length 17001, limit 16384"),
            (
                Invalid::RecordType { content_type: ContentType::ALERT },
                "record of type 21 (alert), expected handshake",
            ),
            (Invalid::DuplicateExtension { extension: 51 }, "extension key_share twice"),
            (Invalid::DuplicateExtension { extension: 0x1234 }, "extension 0x1234 twice"),
            (
                Invalid::Short { field: "cipher_suites", needed: 8, left: 2 },
                "cipher_suites needs 8 bytes, 2 left",
            ),
        ] {
            assert_eq!(invalid.to_string(), sentence);
        }
    }
}
