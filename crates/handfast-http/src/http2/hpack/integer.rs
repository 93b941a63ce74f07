//! Integers with a prefix.
//!
//! **Source**: RFC 7541 §5.1.

use super::HpackError;

/// Most bytes behind the prefix: 28 bits, more than any length or index here can need.
const MAX_BYTES: usize = 4;

/// Reads an integer whose first byte was taken from `rest`; `prefix` is the number of its bits.
#[inline(always)]
pub(super) fn read(first: u8, prefix: u32, rest: &mut &[u8]) -> Result<usize, HpackError> {
    let most = (1_u8 << prefix) - 1;
    let value = first & most;
    if value < most { Ok(usize::from(value)) } else { read_rest(usize::from(most), rest) }
}

fn read_rest(mut value: usize, rest: &mut &[u8]) -> Result<usize, HpackError> {
    for index in 0..MAX_BYTES {
        let (byte, behind) = rest.split_first().ok_or(HpackError::Truncated)?;
        *rest = behind;
        value += usize::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::Integer)
}

/// Writes an integer behind the bits of `pattern`.
#[inline(always)]
pub(in crate::http2) fn write(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: usize) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        out.push(pattern | value as u8);
    } else {
        out.push(pattern | most as u8);
        write_rest(out, value - most);
    }
}

fn write_rest(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
