//! Chunked bodies: a decoder that takes pieces of any size, and the parts of an encoder.
//!
//! In: bytes as they arrive. Out: where the data is in them, in place. Chunk-size lines are consumed byte by byte; a trailer section is
//! left in the caller's buffer until it is whole. Extensions are checked and never forwarded.
//!
//! **Source**: RFC 9112 §7.1; of its optional blanks only those behind the size.

use super::body::Piece;
use super::error::{HeadError, Rule};
use super::field::{Field, Kind, is_never_trailer};
use super::framing::Facts;
use super::head::{HeadProgress, run};
use super::limits::HeadLimits;
use super::lines::Stop;
use super::scan::{TOKEN, class};
use super::write::write_fields;

/// Digits of a chunk size that always fit into 64 bits; of those behind them, [`EXTENSIONS_LIMIT`] bounds the number.
const SIZE_DIGITS: u8 = 16;
/// Most bytes of one extension with its semicolon.
const EXTENSION_LIMIT: u32 = 256;
/// Most bytes of all extensions, blanks and leading zeros of a message: they are work without data.
const EXTENSIONS_LIMIT: u32 = 16_384;
/// Most bytes of a chunk's first line as [`chunk_head`] writes it.
pub const CHUNK_HEAD_LIMIT: usize = 18;
/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Position of the next byte in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size {
        digits: u8,
    },
    /// Blanks behind the size, which some servers write to fill a buffer.
    SizeBlank,
    ExtensionName {
        is_empty: bool,
    },
    ExtensionValue {
        is_empty: bool,
    },
    Quoted,
    Escaped,
    QuoteEnded,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    Trailers,
    Ended,
}

/// A decoder for one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedReader {
    state: State,
    /// Bytes of data to come in this chunk.
    left: u64,
    /// Bytes of this extension, and of all.
    extension: u32,
    extensions: u32,
    is_response: bool,
    limits: HeadLimits,
    progress: HeadProgress,
}

impl ChunkedReader {
    /// A decoder for the bytes behind a head. The trailer section has the limits of a head.
    pub fn new(limits: &HeadLimits, is_response: bool) -> Self {
        Self {
            state: State::Size { digits: 0 },
            left: 0,
            extension: 0,
            extensions: 0,
            is_response,
            limits: *limits,
            progress: HeadProgress::default(),
        }
    }

    /// Takes the next piece out of these bytes; see [`Piece`]. At the end, `trailers` has the trailer fields.
    pub fn next(&mut self, received: &[u8], trailers: &mut Vec<Field>) -> Result<Piece, HeadError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Data => {
                    let there = received.len() - at;
                    let length = usize::try_from(self.left).map_or(there, |left| left.min(there));
                    if length == 0 {
                        return Ok(Piece::More { consumed: at });
                    }
                    self.left -= length as u64;
                    if self.left == 0 {
                        self.state = State::DataReturn;
                    }
                    return Ok(Piece::Data(at..at + length));
                }
                State::Trailers => return self.trailers(received, at, trailers),
                State::Ended => {
                    trailers.clear();
                    return Ok(Piece::End { consumed: at, trailers: at..at });
                }
                _ => {}
            }
            let Some(byte) = received.get(at) else { return Ok(Piece::More { consumed: at }) };
            self.state =
                self.after(*byte).map_err(|rule| HeadError::new(rule, self.is_response, received, at))?;
            at += 1;
        }
    }

    /// The state behind a byte that is not data.
    fn after(&mut self, byte: u8) -> Result<State, Rule> {
        match (self.state, byte) {
            (State::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(digits, byte),
            (State::SizeLineFeed, b'\n') if self.left == 0 => Ok(State::Trailers),
            (State::SizeLineFeed, b'\n') => Ok(State::Data),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(State::Size { digits: 0 }),
            (State::DataReturn | State::DataLineFeed, _) => Err(Rule::ChunkEnd),
            (State::SizeLineFeed, _) | (_, b'\n') => Err(Rule::LineEnd),
            (State::Size { digits: 1.. } | State::SizeBlank, b'\r') => Ok(State::SizeLineFeed),
            (State::Size { digits: 1.. } | State::SizeBlank, b';') => self.extension_starts(),
            (State::Size { digits: 1.. } | State::SizeBlank, b' ' | b'\t') => {
                self.count_ignored().map(|()| State::SizeBlank)
            }
            (State::Size { .. } | State::SizeBlank, _) => Err(Rule::ChunkSize),
            (
                State::ExtensionName { is_empty: false }
                | State::ExtensionValue { is_empty: false }
                | State::QuoteEnded,
                b'\r' | b';',
            ) => {
                if byte == b'\r' {
                    Ok(State::SizeLineFeed)
                } else {
                    self.extension_starts()
                }
            }
            _ => self.after_in_extension(byte),
        }
    }

    /// Adds a digit to the size. Leading zeros may make it longer than its value needs (RFC 9112 §7.1).
    fn digit(&mut self, digits: u8, byte: u8) -> Result<State, Rule> {
        if self.left >> (u64::BITS - 4) != 0 {
            return Err(Rule::ChunkSize);
        }
        if digits == SIZE_DIGITS {
            self.count_ignored()?;
        }
        self.left = self.left << 4 | (byte as char).to_digit(16).map_or(0, u64::from);
        Ok(State::Size { digits: (digits + 1).min(SIZE_DIGITS) })
    }

    /// Counts a byte that is neither data nor needed.
    fn count_ignored(&mut self) -> Result<(), Rule> {
        self.extensions += 1;
        if self.extensions > EXTENSIONS_LIMIT { Err(Rule::ChunkExtensionsTooLarge) } else { Ok(()) }
    }

    fn after_in_extension(&mut self, byte: u8) -> Result<State, Rule> {
        self.extension += 1;
        if self.extension > EXTENSION_LIMIT {
            return Err(Rule::ChunkExtensionTooLong);
        }
        self.count_ignored()?;
        let is_token = class(byte) & TOKEN != 0;
        match (self.state, byte) {
            (State::ExtensionName { is_empty: false }, b'=') => Ok(State::ExtensionValue { is_empty: true }),
            (State::ExtensionName { .. }, _) if is_token => Ok(State::ExtensionName { is_empty: false }),
            (State::ExtensionValue { is_empty: true }, b'"') => Ok(State::Quoted),
            (State::ExtensionValue { .. }, _) if is_token => Ok(State::ExtensionValue { is_empty: false }),
            (State::Quoted, b'"') => Ok(State::QuoteEnded),
            (State::Quoted, b'\\') => Ok(State::Escaped),
            (State::Quoted | State::Escaped, _) if byte == b'\t' || !byte.is_ascii_control() => {
                Ok(State::Quoted)
            }
            _ => Err(Rule::ChunkExtension),
        }
    }

    fn extension_starts(&mut self) -> Result<State, Rule> {
        self.extension = 1;
        self.extensions += 1;
        Ok(State::ExtensionName { is_empty: true })
    }

    fn trailers(
        &mut self,
        received: &[u8],
        start: usize,
        trailers: &mut Vec<Field>,
    ) -> Result<Piece, HeadError> {
        let text = &received[start..];
        let mut facts = Facts { is_trailer: true, is_response: self.is_response, ..Facts::default() };
        let length = run(text, &mut self.progress, &self.limits, self.is_response, |lines| {
            lines.fields(trailers, &mut facts)?;
            for field in trailers.iter_mut().filter(|field| is_never_trailer(field.name(text))) {
                if !facts.is_response {
                    return Err(Stop::Final(Rule::Trailer, field.name_start as usize));
                }
                field.kind = Kind::Nominated;
            }
            Ok(lines.at)
        })?;
        let Some(length) = length else { return Ok(Piece::More { consumed: start }) };
        self.state = State::Ended;
        Ok(Piece::End { consumed: start + length, trailers: start..start + length })
    }
}

/// Writes the first line of a chunk; its data and CRLF follow. A length of 0 would end the body.
pub fn chunk_head(length: usize, line: &mut [u8; CHUNK_HEAD_LIMIT]) -> &[u8] {
    let mut start = CHUNK_HEAD_LIMIT - 2;
    line[start..].copy_from_slice(b"\r\n");
    let mut left = length;
    loop {
        start -= 1;
        line[start] = b"0123456789abcdef"[left & 15];
        left >>= 4;
        if left == 0 {
            return &line[start..];
        }
    }
}

/// Ends a chunked body with these trailers, as [`Piece::End`] gives them; `drops` as for [`write_fields`].
pub fn write_last_chunk(
    out: &mut Vec<u8>,
    text: &[u8],
    trailers: &[Field],
    drops: impl FnMut(&Field) -> bool,
) {
    out.extend_from_slice(b"0\r\n");
    write_fields(out, text, trailers, drops);
    out.extend_from_slice(b"\r\n");
}
