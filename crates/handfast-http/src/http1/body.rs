//! Bodies: where their data is in the bytes received, by any framing.
//!
//! In: a [`Framing`] and bytes as they arrive. Out: [`Piece`]s that refer to these bytes.

use std::ops::Range;

use super::chunked::ChunkedReader;
use super::error::HeadError;
use super::field::Field;
use super::framing::Framing;
use super::limits::HeadLimits;

/// The next piece of a body, as positions in the bytes that the reader was called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Data; everything up to its end is consumed, and the next call starts behind it.
    Data(Range<usize>),
    /// Nothing more in these bytes: the next call starts behind the consumed ones and has more.
    More {
        /// Bytes that are consumed.
        consumed: usize,
    },
    /// The message has ended.
    End {
        /// Bytes that are consumed: what follows belongs to the next message.
        consumed: usize,
        /// The trailer section, to which the trailer fields refer.
        trailers: Range<usize>,
    },
}

/// A reader for one body.
#[derive(Clone, Debug)]
pub enum BodyReader {
    /// A number of bytes to come.
    Length(u64),
    /// Chunks.
    Chunked(ChunkedReader),
    /// Everything up to the end of the connection.
    UntilClose,
}

impl BodyReader {
    /// A reader for the bytes behind a head.
    pub fn new(framing: Framing, limits: &HeadLimits, is_response: bool) -> Self {
        match framing {
            Framing::None => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(ChunkedReader::new(limits, is_response)),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    /// Takes the next piece out of these bytes. At the end, `trailers` has the trailer fields.
    pub fn next(&mut self, received: &[u8], trailers: &mut Vec<Field>) -> Result<Piece, HeadError> {
        let most = match self {
            Self::Chunked(reader) => return reader.next(received, trailers),
            Self::Length(0) => {
                trailers.clear();
                return Ok(Piece::End { consumed: 0, trailers: 0..0 });
            }
            Self::Length(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            Self::UntilClose => usize::MAX,
        };
        if received.is_empty() {
            return Ok(Piece::More { consumed: 0 });
        }
        let length = received.len().min(most);
        if let Self::Length(left) = self {
            *left -= length as u64;
        }
        Ok(Piece::Data(0..length))
    }

    /// Returns true if the end of the connection is the clean end of this body; otherwise the message was cut off.
    pub const fn ends_with_connection(&self) -> bool {
        matches!(self, Self::UntilClose)
    }
}
