//! DER, read one value after the other, without memory and without recursion (X.690, distinguished encoding rules).
//!
//! In: bytes from a peer or a file. Out: tags and contents that borrow from them, or `None` where a value ends beyond its
//! surroundings. The caller knows what the contents mean.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Rest of a byte string.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// Tag and content of the next value.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            // Nothing that is read here has four gibibytes.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next value, which must have this tag.
    pub(crate) fn expect(&mut self, expected_tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == expected_tag).map(|(_, content)| content)
    }

    /// The next value unchanged, tag and length included; it must have this tag.
    pub(crate) fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.expect(tag)?;
        before.get(..before.len() - self.0.len())
    }

    /// The content of the next value if it has this tag; else nothing is taken.
    pub(crate) fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.expect(tag) } else { None }
    }

    /// The bytes of the next value, a BIT STRING of whole bytes.
    pub(crate) fn whole_bits(&mut self) -> Option<&'a [u8]> {
        match self.expect(BIT_STRING)? {
            [0, bytes @ ..] => Some(bytes),
            _ => None,
        }
    }

    /// Returns the number of values; the count ends at bytes that are not a value.
    pub(crate) fn count(mut self) -> usize {
        let mut count = 0;
        while self.next().is_some() {
            count += 1;
        }
        count
    }

    /// Returns true if no bytes are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value with this tag and content.
pub(crate) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut whole = vec![tag];
    match content.len() {
        length @ 0..=0x7f => whole.push(length.to_le_bytes()[0]),
        length => {
            let bytes = length.to_be_bytes();
            let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
            whole.push(0x80 | (bytes.len() - first).to_le_bytes()[0]);
            whole.extend_from_slice(&bytes[first..]);
        }
    }
    whole.extend_from_slice(content);
    whole
}

/// Bits of a big-endian number.
pub(crate) fn bits(number: &[u8]) -> usize {
    let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    let number = &number[first..];
    number.first().map_or(0, |top| number.len() * 8 - top.leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_without_leading_zeros() {
        assert_eq!(bits(&[]), 0);
        assert_eq!(bits(&[0, 0]), 0);
        assert_eq!(bits(&[0, 1]), 1);
        assert_eq!(bits(&[0, 0x80, 0]), 16);
    }
}
