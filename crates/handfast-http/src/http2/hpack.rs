//! Compression of heads (HPACK): a decoder with a table for each connection, and an encoder without one.
//!
//! In: field blocks, whole. Out: lines of text with the meaning of each name, in a [`HeadText`](super::head::HeadText), and field blocks for heads that are sent.
//!
//! The encoder writes names of the static table, and all else as it is. Huffman coding would save a quarter of the bytes for more work than it
//! saves, and texts that are compressed together can betray each other (RFC 7541 §7.1).
//!
//! **Source**: RFC 7541.

mod decoder;
mod dynamic_table;
mod encoder;
mod huffman;
pub(super) mod integer;
mod static_table;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub(super) use encoder::index;

use super::frame::ErrorCode;
use super::name::{Flaw, Name};

/// Reason why a field block cannot be decoded: its connection must end, because both sides no longer have the same table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// A number has more than 28 bits.
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

    /// Returns the error in a sentence without its end.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Truncated => "a field block ends within a field",
            Self::Integer => "an integer of a field block has more than 28 bits",
            Self::Index => "an index of a field block names no entry",
            Self::Huffman => "a text of a field block is not in Huffman code",
            Self::SizeUpdate => {
                "the size of the dynamic table changes behind a field, too often or to too much"
            }
            Self::TooLarge => "the fields of a block are many times larger than the limit",
        }
    }
}

/// A decoded field: lengths in the text, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) name_length: usize,
    pub(crate) value_length: usize,
    pub(crate) name: Name,
    pub(crate) flaw: Flaw,
}

/// Receiver of decoded fields.
pub(crate) trait Sink {
    /// The text to whose end the decoder writes a line.
    fn text(&mut self) -> &mut Vec<u8>;

    /// Counts a field, and returns true if its line is to be written.
    ///
    /// **Errors**: the block is too much work.
    fn admits(&mut self, line: &Line) -> Result<bool, HpackError>;

    /// Takes the line from this position to the end of the text, which was admitted.
    fn take(&mut self, start: usize, line: &Line);
}

#[cfg(test)]
mod tests;
