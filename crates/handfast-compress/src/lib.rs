//! Content codings: content in pieces to compressed bytes. No I/O, no clock.
//!
//! In: a coding, its level, content. Out: the coded content; after a flush a decoder has everything that was put. An encoder that is dropped
//! has no end mark, so what it wrote never looks complete.
//!
//! **Bounds**: one call computes for less than a millisecond if it gets [`piece`] bytes at most and a flush follows, which is also what keeps the
//! memory of Brotli below [`memory`]. Measured by `tests/memory.rs`, and in `docs/internals/decisions-http.md`.

#![forbid(unsafe_code)]

mod brotli;
mod error;
mod gzip;
mod zstd;

use std::ops::RangeInclusive;

pub use error::EncodeError;
use handfast_http::content_coding::ContentCoding;

/// Codes one content.
pub struct Encoder(State);

enum State {
    Zstd(zstd::Zstd),
    Brotli(Box<brotli::Brotli>),
    Gzip(gzip::Gzip),
}

impl Encoder {
    /// Starts a content. `level` is one of [`levels`]; another one is moved to the nearest of them.
    ///
    /// **Errors**: there is no memory.
    pub fn new(coding: ContentCoding, level: u8) -> Result<Self, EncodeError> {
        let levels = levels(coding);
        let level = level.clamp(*levels.start(), *levels.end());
        Ok(Self(match coding {
            ContentCoding::Zstd => State::Zstd(zstd::Zstd::new(level)?),
            ContentCoding::Brotli => State::Brotli(Box::new(brotli::Brotli::new(level))),
            ContentCoding::Gzip => State::Gzip(gzip::Gzip::new(level)),
        }))
    }

    /// Takes content, and appends coded bytes as they are ready.
    ///
    /// **Errors**: the encoder cannot go on.
    pub fn put(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.0 {
            State::Zstd(encoder) => encoder.put(data, out),
            State::Brotli(encoder) => encoder.put(data, out),
            State::Gzip(encoder) => encoder.put(data, out),
        }
    }

    /// Appends everything that a decoder needs for the content that was put.
    ///
    /// **Errors**: the encoder cannot go on.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.0 {
            State::Zstd(encoder) => encoder.flush(out),
            State::Brotli(encoder) => encoder.flush(out),
            State::Gzip(encoder) => encoder.flush(out),
        }
    }

    /// Appends the rest and the end mark.
    ///
    /// **Errors**: the encoder cannot go on.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self.0 {
            State::Zstd(encoder) => encoder.finish(out),
            State::Brotli(encoder) => encoder.finish(out),
            State::Gzip(encoder) => encoder.finish(out),
        }
    }
}

/// Returns the levels of a coding: those beyond would take more time or memory than the bounds of this crate.
pub const fn levels(coding: ContentCoding) -> RangeInclusive<u8> {
    match coding {
        ContentCoding::Zstd => 1..=6,
        ContentCoding::Brotli => 1..=4,
        ContentCoding::Gzip => 1..=9,
    }
}

/// Returns the level that saves most for its time: `docs/internals/decisions-http.md` has the measurement.
pub const fn default_level(coding: ContentCoding) -> u8 {
    match coding {
        ContentCoding::Zstd => 3,
        ContentCoding::Brotli => 4,
        ContentCoding::Gzip => 5,
    }
}

/// Returns the bytes of content that are put at once, with a flush behind them.
pub const fn piece(coding: ContentCoding) -> usize {
    match coding {
        ContentCoding::Zstd | ContentCoding::Gzip => 16_384,
        ContentCoding::Brotli => 8192,
    }
}

/// Returns the most memory of an encoder, in bytes.
pub const fn memory(coding: ContentCoding) -> usize {
    match coding {
        ContentCoding::Zstd => 650 * 1024,
        ContentCoding::Brotli => 1024 * 1024,
        ContentCoding::Gzip => 312 * 1024,
    }
}

#[cfg(test)]
mod tests;
