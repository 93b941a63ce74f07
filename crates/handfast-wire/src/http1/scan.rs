//! Classes of bytes, and the search for the next byte that ends or breaks a line.
//!
//! In: bytes. Out: positions. Values are searched eight bytes at a time, because they are most of a head.

/// A byte of a token: names and methods (RFC 9110 §5.6.2).
pub(super) const TOKEN: u8 = 1;
/// A byte of a request target: visible ASCII without `#`.
pub(super) const TARGET: u8 = 2;
/// The underscore, which gateways such as CGI do not distinguish from `-`.
pub(super) const UNDERSCORE: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0x21_u8;
    while byte < 0x7F {
        let is_delimiter = matches!(
            byte,
            b'"' | b'(' | b')' | b',' | b'/' | b':'..=b'@' | b'[' | b'\\' | b']' | b'{' | b'}'
        );
        let mut class = if is_delimiter { 0 } else { TOKEN };
        if byte != b'#' {
            class |= TARGET;
        }
        if byte == b'_' {
            class |= UNDERSCORE;
        }
        classes[byte as usize] = class;
        byte += 1;
    }
    classes
};

/// All classes of a byte.
pub(super) const fn class(byte: u8) -> u8 {
    CLASSES[byte as usize]
}

/// Whether this is a space or a tab.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Where the next control byte is, from this position on; the tab is one too.
pub(super) fn next_control(text: &[u8], from: usize) -> Option<usize> {
    let (words, rest) = text[from..].as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let controls = controls(u64::from_le_bytes(*word));
        if controls != 0 {
            return Some(from + index * 8 + controls.trailing_zeros() as usize / 8);
        }
    }
    let found = rest.iter().position(u8::is_ascii_control)?;
    Some(from + words.len() * 8 + found)
}

/// Marks control bytes by their highest bit. A borrow can also mark bytes above the lowest marked one, so only that one counts.
const fn controls(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let deletes = word ^ (ONES * 0x7F);
    ((word.wrapping_sub(ONES * 0x20) & !word) | (deletes.wrapping_sub(ONES) & !deletes)) & HIGH
}
