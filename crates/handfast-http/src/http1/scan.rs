//! Classes of bytes, and the search for the next byte that ends or breaks a line.
//!
//! In: bytes. Out: positions. Values are searched eight bytes at a time, because they are most of a head.

/// A byte of a token: names of fields, and methods (RFC 9110 §5.6.2).
pub(super) const TOKEN: u8 = 1;
/// A byte of a host name.
pub(super) const HOST: u8 = 2;
/// A byte of a token without capital letters: names of fields in HTTP/2.
const LOWER: u8 = 4;

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0x21_u8;
    while byte < 0x7F {
        let is_delimiter = matches!(
            byte,
            b'"' | b'(' | b')' | b',' | b'/' | b':'..=b'@' | b'[' | b'\\' | b']' | b'{' | b'}'
        );
        let mut class = if is_delimiter { 0 } else { TOKEN };
        if !is_delimiter && !byte.is_ascii_uppercase() {
            class |= LOWER;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            class |= HOST;
        }
        classes[byte as usize] = class;
        byte += 1;
    }
    classes
};

/// All classes of a byte.
pub(super) fn class(byte: u8) -> u8 {
    CLASSES[byte as usize]
}

/// Returns true if this is a token (RFC 9110 §5.6.2): a method, or the name of a field.
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| class(*byte) & TOKEN != 0)
}

/// Returns true if this is a token without capital letters.
pub(crate) fn is_lower_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| class(*byte) & LOWER != 0)
}

/// Returns true if a text is this one, which has no capital letters. Only for text without control bytes: CR would match
/// `-`.
pub(crate) fn is_text(text: &[u8], lower: &[u8]) -> bool {
    text.len() == lower.len() && text.iter().zip(lower).all(|(byte, lower)| byte | 0x20 == *lower)
}

/// Appends a text in lower case.
pub(crate) fn push_lower(out: &mut Vec<u8>, text: &[u8]) {
    let lower = |bytes: &mut [u8; 8]| {
        let word = u64::from_le_bytes(*bytes);
        let low = word & LOW;
        let is_upper = (low + ONES * (0x80 - b'A' as u64)) & !(low + ONES * (0x7F - b'Z' as u64));
        *bytes = (word | (is_upper & !word & HIGH) >> 2).to_le_bytes();
    };
    let start = out.len();
    out.extend_from_slice(text);
    let copy = &mut out[start..];
    match copy.last_chunk_mut() {
        // It overlaps the word before.
        Some(last) => {
            lower(last);
            copy.as_chunks_mut().0.iter_mut().for_each(lower);
        }
        None => copy.make_ascii_lowercase(),
    }
}

/// Returns true if this is a space or a tab.
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = ONES << 7;
const LOW: u64 = !HIGH;

/// Returns the position of the first marked byte, from this position on. `words` marks bytes by their highest bit, as `byte` does one
/// by one.
#[inline(always)]
fn find(text: &[u8], from: usize, words: impl Fn(u64) -> u64, byte: impl Fn(u8) -> bool) -> Option<usize> {
    let (chunks, rest) = text.get(from..)?.as_chunks::<8>();
    let mut at = from;
    for chunk in chunks {
        let marks = words(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    rest.iter().position(|found| byte(*found)).map(|index| at + index)
}

/// Marks control bytes. One more than 0x7F is 0 in seven bits, so that one comparison finds both kinds.
#[inline(always)]
const fn controls(word: u64) -> u64 {
    !(((((word & LOW) + ONES) | HIGH) - ONES * 0x21) | word) & HIGH
}

/// Returns the position of the next control byte; the tab is one too.
#[inline(always)]
pub(crate) fn next_control(text: &[u8], from: usize) -> Option<usize> {
    // Long values, such as cookies, by blocks that are compared in one vector register.
    let mut at = from;
    for block in text.get(from..)?.as_chunks::<16>().0 {
        if block.iter().fold(false, |any, byte| any | byte.is_ascii_control()) {
            break;
        }
        at += 16;
    }
    find(text, at, controls, |byte| byte.is_ascii_control())
}

/// The first and the last eight bytes, some of them twice; of a shorter text all bytes, and `None` if it has less than four.
#[inline(always)]
pub(crate) const fn end_words(text: &[u8]) -> Option<(u64, u64)> {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return Some((u64::from_le_bytes(*first), u64::from_le_bytes(*last)));
    }
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => {
            let word = (u32::from_le_bytes(*first) as u64) << 32 | u32::from_le_bytes(*last) as u64;
            Some((word, word))
        }
        _ => None,
    }
}

/// Returns true if there is a control byte; the tab is one too.
#[inline]
pub(crate) fn has_control(text: &[u8]) -> bool {
    if let Some(last) = text.last_chunk() {
        let is_in = |block: &[u8; 16]| block.iter().fold(false, |any, byte| any | byte.is_ascii_control());
        return is_in(last) || text.as_chunks().0.iter().any(is_in);
    }
    match end_words(text) {
        Some((first, last)) => controls(first) | controls(last) != 0,
        None => text.iter().any(u8::is_ascii_control),
    }
}

/// Returns the position of the next byte that no request target has: not visible ASCII, or `#`.
#[inline(always)]
pub(crate) fn target_end(text: &[u8], from: usize) -> Option<usize> {
    let words = |word: u64| {
        let is_visible = (((word & LOW) + ONES) | HIGH) - ONES * 0x22;
        let is_not_hash = ((word & LOW) ^ (ONES * b'#' as u64)) + LOW;
        (!(is_visible & is_not_hash) | word) & HIGH
    };
    find(text, from, words, |byte| !byte.is_ascii_graphic() || byte == b'#')
}

/// Returns the position of the next byte that is neither a letter nor `-`: names seldom have another.
#[inline(always)]
pub(super) fn letters_end(text: &[u8], from: usize) -> Option<usize> {
    let words = |word: u64| {
        let low = word & LOW;
        let lower = low | (ONES * 0x20);
        let is_letter = (lower + ONES * (0x80 - b'a' as u64)) & !(lower + ONES * (0x7F - b'z' as u64));
        let is_not_dash = (low ^ (ONES * b'-' as u64)) + LOW;
        !((is_letter | !is_not_dash) & !word) & HIGH
    };
    find(text, from, words, |byte| !byte.is_ascii_alphabetic() && byte != b'-')
}
