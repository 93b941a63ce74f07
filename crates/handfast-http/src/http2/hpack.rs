//! Compression of heads (HPACK).
//!
//! **Source**: RFC 7541.

use super::frame::ErrorCode;
use super::head::HeadText;

/// Reason why a field block cannot be decoded: its connection must end, because both sides no longer have the same table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// A number does not fit, or has more bytes than it can need.
    Integer,
    /// An index names no entry.
    Index,
    /// A text has a wrong code, the end-of-string code, or a wrong padding.
    Huffman,
    /// The table's size changes behind a field, more than twice, or to more than the limit.
    SizeUpdate,
    /// The fields are much larger than the limits of a head.
    TooLarge,
}

impl HpackError {
    /// Returns the code for GOAWAY.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::TooLarge => ErrorCode::ENHANCE_YOUR_CALM,
            _ => ErrorCode::COMPRESSION_ERROR,
        }
    }
}

/// Decoder of the field blocks of one connection.
#[derive(Debug, Default)]
pub struct Decoder {}

impl Decoder {
    /// Decodes a whole field block, that of a refused head too. `head` was [begun](HeadText::begin).
    pub fn decode(&mut self, block: &[u8], head: &mut HeadText) -> Result<(), HpackError> {
        let _ = (block, head);
        Err(HpackError::Truncated)
    }

    /// Returns the bytes that the decoder keeps for the connection beside itself.
    pub fn heap_bytes(&self) -> usize {
        0
    }
}

/// Encoder of the field blocks of one connection: names of the static table, all else as it is.
#[derive(Debug, Default)]
pub struct Encoder {}

impl Encoder {
    /// Takes the peer's HEADER_TABLE_SIZE.
    pub fn set_peer_table_size(&mut self, size: u32) {
        let _ = size;
    }

    /// Begins a field block; always the first call for one.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Writes `:status`.
    pub fn status(&self, out: &mut Vec<u8>, status: u16) {
        let _ = (out, status);
    }

    /// Writes a field: its name in lower case, control bytes of its value as blanks (RFC 9110 §5.5).
    pub fn field(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let _ = (out, name, value);
    }
}
