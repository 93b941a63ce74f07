//! A cursor over bytes that are all here, which cannot run past their end.
//!
//! In: a slice and the name of the field it is. Out: numbers and sub-slices, or [`Invalid::Short`] and
//! [`Invalid::Trailing`] with that name. It only ever lends, so no length on the wire can make it allocate.

use crate::invalid::Invalid;

/// Unread rest of one field.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    field: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8], field: &'static str) -> Self {
        Self { bytes, field }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes left.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Invalid> {
        self.take_for(count, self.field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Invalid> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Invalid> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A field behind a length of one byte.
    pub(crate) fn vector8(&mut self, field: &'static str) -> Result<Self, Invalid> {
        let length = self.take_for(1, field)?[0];
        Ok(Self::new(self.take_for(usize::from(length), field)?, field))
    }

    /// A field behind a length of two bytes.
    pub(crate) fn vector16(&mut self, field: &'static str) -> Result<Self, Invalid> {
        let length = self.take_for(2, field)?;
        let length = u16::from_be_bytes([length[0], length[1]]);
        Ok(Self::new(self.take_for(usize::from(length), field)?, field))
    }

    /// All that is left.
    pub(crate) const fn all(self) -> &'a [u8] {
        self.bytes
    }

    /// All that is left, at least one byte.
    pub(crate) fn rest(self) -> Result<&'a [u8], Invalid> {
        if self.bytes.is_empty() { Err(Invalid::Empty { field: self.field }) } else { Ok(self.bytes) }
    }

    /// All that is left as numbers of two bytes, at least one of them.
    pub(crate) fn u16_list(self) -> Result<Vec<u16>, Invalid> {
        let field = self.field;
        let (pairs, odd) = self.rest()?.as_chunks::<2>();
        if odd.is_empty() {
            Ok(pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect())
        } else {
            Err(Invalid::OddLength { field, length: pairs.len() * 2 + 1 })
        }
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> Result<(), Invalid> {
        match self.bytes.len() {
            0 => Ok(()),
            count => Err(Invalid::Trailing { field: self.field, count }),
        }
    }

    fn take_for(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Invalid> {
        let (taken, left) = self.bytes.split_at_checked(count).ok_or(Invalid::Short {
            field,
            needed: count,
            left: self.bytes.len(),
        })?;
        self.bytes = left;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_past_the_end_is_short_and_names_the_field() {
        let mut reader = Reader::new(&[0, 3, 1, 2], "outer");
        let problem = reader.vector16("inner").err();
        assert_eq!(problem, Some(Invalid::Short { field: "inner", needed: 3, left: 2 }));
    }

    #[test]
    fn a_failed_take_consumes_nothing() {
        let mut reader = Reader::new(&[7], "field");
        assert!(reader.u16().is_err());
        assert_eq!(reader.u8(), Ok(7));
        assert!(reader.is_empty());
    }

    #[test]
    fn number_lists_are_even_and_not_empty() {
        assert_eq!(Reader::new(&[1, 2, 3, 4], "list").u16_list(), Ok(vec![0x0102, 0x0304]));
        assert_eq!(Reader::new(&[], "list").u16_list(), Err(Invalid::Empty { field: "list" }));
        assert_eq!(
            Reader::new(&[1, 2, 3], "list").u16_list(),
            Err(Invalid::OddLength { field: "list", length: 3 })
        );
    }

    #[test]
    fn what_is_left_over_is_counted() {
        assert_eq!(Reader::new(&[1, 2], "list").finish(), Err(Invalid::Trailing { field: "list", count: 2 }));
    }
}
