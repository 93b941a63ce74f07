//! Every way in which bytes that begin as a PROXY header are none that may be believed.
//!
//! In: what the parsers found. Out: a sentence for people (`Display`).

use std::fmt;

use super::limits::V1_LIMIT;
use super::tlv;

/// Reason why this is no PROXY header; the sender is always the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Invalid {
    // Version 1.
    /// No line end within [`V1_LIMIT`] bytes.
    LineTooLong,
    /// A carriage return or line feed that is not part of CRLF.
    LineEnd {
        /// Position, from the connection's first byte.
        at: usize,
    },
    /// The word behind `PROXY` is none of `TCP4`, `TCP6` and `UNKNOWN`.
    Protocol,
    /// A field is missing, empty or not what it must be.
    Field {
        /// Name of the field.
        field: &'static str,
        /// Required value.
        expected: &'static str,
    },
    /// More behind the last field, or more than one space between two.
    MoreFields,
    // Version 2.
    /// The version in the thirteenth byte is not 2.
    Version {
        /// The one given.
        version: u8,
    },
    /// The command is neither LOCAL (0) nor PROXY (1).
    Command {
        /// The one given.
        command: u8,
    },
    /// The address family is none of 0 to 3.
    Family {
        /// The one given.
        family: u8,
    },
    /// The transport is none of 0 to 2.
    Transport {
        /// The one given.
        transport: u8,
    },
    /// The header announces more than the limit.
    TooLong {
        /// Bytes of the whole header as announced.
        announced: usize,
        /// Most that are taken.
        limit: usize,
    },
    /// The announced length ends inside the addresses.
    AddressesShort {
        /// Bytes that addresses of this family take.
        needed: usize,
        /// Bytes announced.
        length: usize,
    },
    /// A type-length-value reaches beyond the end of what contains it.
    TlvBeyond {
        /// Start of the value, from the connection's first byte.
        at: usize,
        /// Its type, if that much is there.
        number: Option<u8>,
        /// Bytes that it takes, its type and length included.
        needed: usize,
        /// Bytes there.
        left: usize,
    },
    /// A value has a length that its type does not have.
    TlvLength {
        /// The type.
        number: u8,
        /// Its length.
        length: usize,
        /// Required length.
        expected: &'static str,
    },
    /// A value that must be text is none.
    TlvText {
        /// The type.
        number: u8,
        /// `ASCII` or `UTF-8`.
        expected: &'static str,
    },
    /// A type that means one thing comes twice.
    TlvTwice {
        /// The type.
        number: u8,
    },
    /// The checksum is another one than that of the bytes that came.
    Checksum {
        /// The one in the header.
        found: u32,
        /// The one of these bytes.
        computed: u32,
    },
}

/// A type's number with its name.
struct Named(u8);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match tlv::name(self.0) {
            Some(name) => write!(f, "{name} (0x{:02x})", self.0),
            None => write!(f, "type 0x{:02x}", self.0),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LineTooLong => write!(f, "no CRLF within {V1_LIMIT} bytes, the most that version 1 takes"),
            Self::LineEnd { at } => {
                write!(f, "byte {at} is a CR or LF that is not part of the CRLF at the end")
            }
            Self::Protocol => f.write_str("the word behind `PROXY` is not TCP4, TCP6 or UNKNOWN"),
            Self::Field { field, expected } => write!(f, "the {field} is not {expected}"),
            Self::MoreFields => f.write_str("something follows the destination port, expected CRLF"),
            Self::Version { version } => write!(f, "version {version} behind the signature, expected 2"),
            Self::Command { command } => write!(f, "command {command}, expected 0 (LOCAL) or 1 (PROXY)"),
            Self::Family { family } => {
                write!(f, "address family {family}, expected 0 (UNSPEC), 1 (INET), 2 (INET6) or 3 (UNIX)")
            }
            Self::Transport { transport } => {
                write!(f, "transport {transport}, expected 0 (UNSPEC), 1 (STREAM) or 2 (DGRAM)")
            }
            Self::TooLong { announced, limit } => {
                write!(f, "{announced} bytes announced, limit {limit}")
            }
            Self::AddressesShort { needed, length } => {
                write!(f, "{length} bytes announced, but addresses of this family take {needed}")
            }
            Self::TlvBeyond { at, number, needed, left } => {
                match number {
                    Some(number) => write!(f, "{}", Named(number))?,
                    None => f.write_str("a type-length-value")?,
                }
                write!(f, " at byte {at} takes {needed} bytes, but {left} are left there")
            }
            Self::TlvLength { number, length, expected } => {
                write!(f, "{} has {length} bytes, expected {expected}", Named(number))
            }
            Self::TlvText { number, expected } => write!(f, "{} is not {expected} text", Named(number)),
            Self::TlvTwice { number } => write!(f, "{} comes twice", Named(number)),
            Self::Checksum { found, computed } => {
                write!(f, "the checksum says 0x{found:08x}, but the bytes that came have 0x{computed:08x}")
            }
        }
    }
}

impl std::error::Error for Invalid {}
