//! Reads the V2 DEFLATE form from untrusted input.
//!
//! In: bytes from a file or a peer. Out: a histogram with our bounds, or what is wrong with them. The library's
//! reader trusts the lengths and bounds in the header (it would allocate 4 GiB for eight bytes), and negates the least
//! integer. So this module checks everything first.

use std::io::Read;

use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::{DeserializeError, Deserializer};

use super::{DIGITS, HIGHEST, LOWEST};

/// First four bytes of the compressed form (HdrHistogram's `V2CompressedEncodingCookieBase | 0x10`).
const COMPRESSED: u32 = 0x1c84_9314;
/// First four bytes of what was compressed (`V2EncodingCookieBase | 0x10`).
const PLAIN: u32 = 0x1c84_9313;
/// Cookie, length, offset, digits, lowest, highest, ratio.
const HEADER: usize = 40;
/// Bytes of the longest number.
const NUMBER: usize = 9;
/// Most samples in one histogram: a thousand million a second for three days. So that sums of many still fit 64 bits.
const MAX_SAMPLES: u64 = 1 << 48;

/// Problem with the bytes of a histogram.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The bytes end within the header.
    #[error("ends within its header")]
    Header,
    /// The first bytes are those of another format.
    #[error("begins with {0:#010x}, expected {COMPRESSED:#010x} (V2, DEFLATE)")]
    Cookie(u32),
    /// The announced length is wrong.
    #[error("{announced} bytes are announced and {there} are there")]
    Length {
        /// Bytes that the header announces.
        announced: u32,
        /// Bytes behind it.
        there: usize,
    },
    /// DEFLATE is damaged.
    #[error("inflate: {0}")]
    Inflate(#[source] std::io::Error),
    /// No histogram of ours has that many bytes.
    #[error("longer than {most} bytes when inflated")]
    TooLong {
        /// Bytes of the largest one.
        most: usize,
    },
    /// The inflated bytes end within their header.
    #[error("ends within its inner header")]
    InnerHeader,
    /// The first inflated bytes are those of another format.
    #[error("begins, inflated, with {0:#010x}, expected {PLAIN:#010x} (V2)")]
    InnerCookie(u32),
    /// The announced length of the counts is wrong.
    #[error("{announced} bytes of counts are announced and {there} are there")]
    CountsLength {
        /// Bytes that the header announces.
        announced: u32,
        /// Bytes behind it.
        there: usize,
    },
    /// It has other bounds than ours.
    #[error(
        "counts from {lowest} to {highest} with {digits} digits, expected {LOWEST} to {HIGHEST} ns with {DIGITS}"
    )]
    Bounds {
        /// The lowest value.
        lowest: u64,
        /// The highest value.
        highest: u64,
        /// Digits that are exact.
        digits: u32,
    },
    /// The bytes end within a count.
    #[error("ends within a count")]
    Count,
    /// It has more counters than its bounds need.
    #[error("more than {counters} counters")]
    ManyCounters {
        /// Counters of a histogram with our bounds.
        counters: u64,
    },
    /// It has more samples than any run.
    #[error("more than {MAX_SAMPLES} samples")]
    ManySamples,
    /// The library refuses it for another reason.
    #[error(transparent)]
    Library(DeserializeError),
}

/// Reads one histogram.
pub(super) fn read(bytes: &[u8]) -> Result<hdrhistogram::Histogram<u64>, WireError> {
    let plain = inflate(bytes)?;
    check(&plain)?;
    Deserializer::new().deserialize(&mut plain.as_slice()).map_err(WireError::Library)
}

/// Decompresses, up to the length of the largest histogram of ours.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    let (cookie, rest) = split_u32(bytes).ok_or(WireError::Header)?;
    let (length, rest) = split_u32(rest).ok_or(WireError::Header)?;
    if cookie != COMPRESSED {
        return Err(WireError::Cookie(cookie));
    }
    if usize::try_from(length).ok() != Some(rest.len()) {
        return Err(WireError::Length { announced: length, there: rest.len() });
    }
    let most = HEADER + NUMBER * counters();
    let mut plain = Vec::new();
    let reader = ZlibDecoder::new(rest);
    reader.take(most as u64 + 1).read_to_end(&mut plain).map_err(WireError::Inflate)?;
    if plain.len() > most { Err(WireError::TooLong { most }) } else { Ok(plain) }
}

/// Returns the number of counters of a histogram with our bounds, which is the length of the library's array.
///
/// The first 2,048 values of the lowest unit (64 ns, the power of two within [`LOWEST`]) have one each; then
/// every doubling has 1,024, until [`HIGHEST`] is reached.
pub(super) fn counters() -> usize {
    let unit = LOWEST.ilog2();
    let first = 2 * 10_u64.pow(u32::from(DIGITS));
    let (mut covered, mut doublings) = (first.next_power_of_two() << unit, 0);
    while covered <= HIGHEST {
        covered <<= 1;
        doublings += 1;
    }
    usize::try_from(first.next_power_of_two() / 2 * (doublings + 2)).unwrap_or(usize::MAX)
}

/// Header and numbers of the inflated form.
fn check(plain: &[u8]) -> Result<(), WireError> {
    let header = plain.get(..HEADER).ok_or(WireError::InnerHeader)?;
    let four = |at: usize| header[at..at + 4].iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    let eight = |at: usize| u64::from(four(at)) << 32 | u64::from(four(at + 4));
    let bounds = (eight(16), eight(24), four(12));
    let numbers = &plain[HEADER..];
    if four(0) != PLAIN {
        return Err(WireError::InnerCookie(four(0)));
    }
    if usize::try_from(four(4)).ok() != Some(numbers.len()) {
        return Err(WireError::CountsLength { announced: four(4), there: numbers.len() });
    }
    if bounds != (LOWEST, HIGHEST, u32::from(DIGITS)) || four(8) != 0 || eight(32) != 1_f64.to_bits() {
        let (lowest, highest, digits) = bounds;
        return Err(WireError::Bounds { lowest, highest, digits });
    }
    check_numbers(numbers)
}

/// Each number is a count, or, below zero, how many counters to leave out.
fn check_numbers(mut numbers: &[u8]) -> Result<(), WireError> {
    let (counters, mut at, mut total) = (counters() as u64, 0_u64, 0_u64);
    while !numbers.is_empty() {
        let (number, rest) = split_number(numbers).ok_or(WireError::Count)?;
        numbers = rest;
        if number < 0 {
            at = at.saturating_add(number.unsigned_abs());
        } else {
            at = at.saturating_add(1);
            total = total.saturating_add(number.unsigned_abs());
        }
        if at > counters {
            return Err(WireError::ManyCounters { counters });
        }
        if total > MAX_SAMPLES {
            return Err(WireError::ManySamples);
        }
    }
    Ok(())
}

/// One ZigZag LEB128 number: seven bits a byte, but the ninth byte has eight.
fn split_number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (mut value, mut length) = (0_u64, 0);
    loop {
        let byte = u64::from(*bytes.get(length)?);
        let last = length + 1 == NUMBER;
        value |= (if last { byte } else { byte & 0x7f }) << (7 * length);
        length += 1;
        if last || byte & 0x80 == 0 {
            let magnitude = i64::try_from(value >> 1).ok()?;
            return Some((if value & 1 == 0 { magnitude } else { -magnitude - 1 }, &bytes[length..]));
        }
    }
}

fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (four, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*four), rest))
}
