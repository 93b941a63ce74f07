//! Huffman code, decoded.
//!
//! In: bytes of a text. Out: the text. The code is canonical: codes of one length follow each other in the order of their bytes, and shorter ones
//! come first. So the lengths alone give all tables. Ten bits are looked up at once, which is enough for what texts are made of; longer codes are
//! found by their length.
//!
//! **Source**: RFC 7541 §5.2 and Appendix B.

use super::HpackError;

/// Bits of a code, for each byte; then the end of the string.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];
const SYMBOLS: usize = 257;
const END: usize = SYMBOLS - 1;
const MIN_CODE_BITS: usize = 5;
const MAX_CODE_BITS: usize = 30;
/// Bits that are looked up at once.
const STEP: usize = 10;

/// Codes by their length.
struct Code {
    /// Bytes in the order of their codes, without the end of the string, which has the last code.
    bytes: [u8; END],
    /// The first number behind the codes of each length and of shorter ones, as if it had 32 bits.
    ends: [u64; MAX_CODE_BITS + 1],
    /// The first code of each length, and its place in `bytes`.
    first: [(u32, u32); MAX_CODE_BITS + 1],
}

static CODE: Code = {
    let mut code = Code { bytes: [0; END], ends: [0; MAX_CODE_BITS + 1], first: [(0, 0); MAX_CODE_BITS + 1] };
    let (mut next, mut place, mut length) = (0_u32, 0, 1);
    while length <= MAX_CODE_BITS {
        next <<= 1;
        code.first[length] = (next, place as u32);
        let mut byte = 0;
        while byte < END {
            if LENGTHS[byte] as usize == length {
                code.bytes[place] = byte as u8;
                place += 1;
                next += 1;
            }
            byte += 1;
        }
        next += (LENGTHS[END] as usize == length) as u32;
        code.ends[length] = (next as u64) << (32 - length);
        length += 1;
    }
    assert!(place == END && code.ends[MAX_CODE_BITS] == 1 << 32, "a code without a gap");
    code
};

/// The byte and its length in four bits, for all codes that begin the index; 0: the code is longer.
static FAST: [u16; 1 << STEP] = {
    let mut fast = [0; 1 << STEP];
    let mut index = 0;
    while index < fast.len() {
        let bits = (index as u64) << (64 - STEP);
        let mut length = MIN_CODE_BITS;
        while length <= STEP && bits >> 32 >= CODE.ends[length] {
            length += 1;
        }
        if length <= STEP {
            let (first, place) = CODE.first[length];
            let byte = CODE.bytes[((bits >> (64 - length)) as u32 - first + place) as usize];
            fast[index] = (byte as u16) << 4 | length as u16;
        }
        index += 1;
    }
    fast
};

/// Appends the text of a code.
///
/// **Errors**: it has the end of the string, or its last bits are neither a code nor up to seven ones.
pub(super) fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let start = out.len();
    out.resize(start + code.len() * 8 / MIN_CODE_BITS, 0);
    let mut free = out[start..].iter_mut();
    // The next bits, from the highest one on, and their number.
    let (mut bits, mut count) = (0_u64, 0_u32);
    let (words, rest) = code.as_chunks();
    for word in words {
        bits |= u64::from(u32::from_be_bytes(*word)) << (u32::BITS - count);
        count += u32::BITS;
        while count >= MAX_CODE_BITS as u32 {
            let (byte, length) = next(bits)?;
            *free.next().ok_or(HpackError::Huffman)? = byte;
            bits <<= length;
            count -= length;
        }
    }
    for byte in rest {
        bits |= u64::from(*byte) << (u64::BITS - u8::BITS - count);
        count += u8::BITS;
    }
    loop {
        let (byte, length) = next(bits)?;
        if length > count {
            break;
        }
        *free.next().ok_or(HpackError::Huffman)? = byte;
        bits <<= length;
        count -= length;
    }
    if count >= u8::BITS || bits.leading_ones() < count {
        return Err(HpackError::Huffman);
    }
    let unused = free.len();
    out.truncate(out.len() - unused);
    Ok(())
}

/// Returns the first byte of these bits, and the length of its code.
#[inline(always)]
fn next(bits: u64) -> Result<(u8, u32), HpackError> {
    match FAST[(bits >> (u64::BITS as usize - STEP)) as usize] {
        0 => rare(bits),
        found => Ok(((found >> 4) as u8, u32::from(found & 0xF))),
    }
}

/// Returns the byte and the length of a long code.
#[cold]
fn rare(bits: u64) -> Result<(u8, u32), HpackError> {
    let length =
        (STEP + 1..MAX_CODE_BITS).find(|length| bits >> 32 < CODE.ends[*length]).unwrap_or(MAX_CODE_BITS);
    let (first, place) = CODE.first[length];
    let place = (bits >> (u64::BITS as usize - length)) as u32 - first + place;
    let byte = CODE.bytes.get(place as usize).ok_or(HpackError::Huffman)?;
    Ok((*byte, length as u32))
}
