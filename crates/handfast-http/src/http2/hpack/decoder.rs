//! Field blocks to lines of text.
//!
//! In: a whole field block. Out: a line `name: value` for each field, at the end of the text of a [`Sink`].
//!
//! **Source**: RFC 7541 §3 and §6.

use super::dynamic_table::{DynamicTable, LIMIT};
use super::static_table::{self, StaticEntry};
use super::{HpackError, Line, Sink, huffman, integer};
use crate::http2::head::HeadText;
use crate::http2::name::{Flaw, Name};

/// Most changes of the table's size in front of the fields (RFC 7541 §4.2): the smallest, and the last.
const MAX_SIZE_UPDATES: usize = 2;

/// Decoder of the field blocks of one connection.
///
/// An idle connection keeps the table alone, as far as it is filled.
#[derive(Debug, Default)]
pub struct Decoder {
    table: DynamicTable,
}

impl Decoder {
    /// Decodes a whole field block into a head that was [begun](HeadText::begin). A block must be decoded although its stream is refused or
    /// unknown, because the table is the connection's.
    ///
    /// **Cost**: bounded by the block and by eight times the limit for the bytes of the head.
    pub fn decode(&mut self, block: &[u8], head: &mut HeadText) -> Result<(), HpackError> {
        self.run(block, head)
    }

    /// Returns the bytes that the decoder keeps for the connection beside itself.
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    #[cfg(test)]
    pub(super) fn table_size(&self) -> usize {
        self.table.size()
    }

    pub(crate) fn run(&mut self, mut block: &[u8], sink: &mut impl Sink) -> Result<(), HpackError> {
        let mut updates = 0;
        while let Some((&first @ 0x20..=0x3F, rest)) = block.split_first() {
            block = rest;
            self.resize(first, &mut block)?;
            updates += 1;
            if updates > MAX_SIZE_UPDATES {
                return Err(HpackError::SizeUpdate);
            }
        }
        while let Some((&first, rest)) = block.split_first() {
            block = rest;
            match first {
                0x80.. => self.indexed(first, &mut block, sink)?,
                0x40..=0x7F => self.literal(first, 6, &mut block, sink)?,
                0x20..=0x3F => return Err(HpackError::SizeUpdate),
                _ => self.literal(first, 4, &mut block, sink)?,
            }
        }
        Ok(())
    }

    fn resize(&mut self, first: u8, block: &mut &[u8]) -> Result<(), HpackError> {
        let size = integer::read(first, 5, block)?;
        if size > LIMIT {
            return Err(HpackError::SizeUpdate);
        }
        self.table.resize(size);
        Ok(())
    }

    #[inline(always)]
    fn indexed(&mut self, first: u8, block: &mut &[u8], sink: &mut impl Sink) -> Result<(), HpackError> {
        let index = integer::read(first, 7, block)?;
        let start = sink.text().len();
        if let Some(entry) = index.checked_sub(static_table::LENGTH + 1) {
            let entry = self.table.get(entry).ok_or(HpackError::Index)?;
            let line = entry.line();
            if sink.admits(&line)? {
                self.table.copy(entry, line.text_length(), sink.text());
                sink.take(start, &line);
            }
        } else {
            let entry = StaticEntry::get(index).ok_or(HpackError::Index)?;
            let line = entry.line();
            if sink.admits(&line)? {
                sink.text().extend_from_slice(entry.text);
                sink.take(start, &line);
            }
        }
        Ok(())
    }

    /// A literal with `prefix` bits for its name; with six it is inserted into the table.
    fn literal(
        &mut self,
        first: u8,
        prefix: u32,
        block: &mut &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), HpackError> {
        let index = integer::read(first, prefix, block)?;
        let text = sink.text();
        let start = text.len();
        let name = match index.checked_sub(static_table::LENGTH + 1) {
            Some(entry) => {
                let entry = self.table.get(entry).ok_or(HpackError::Index)?;
                let line = entry.line();
                self.table.copy(entry, line.name_length, text);
                line.name
            }
            None if index == 0 => {
                string(block, text)?;
                Name::of(&text[start..])
            }
            None => {
                let entry = StaticEntry::get(index).ok_or(HpackError::Index)?;
                text.extend_from_slice(entry.name_text());
                entry.name
            }
        };
        let name_length = text.len() - start;
        text.extend_from_slice(b": ");
        let value_start = text.len();
        string(block, text)?;
        let value = &text[value_start..];
        let line = Line { name_length, value_length: value.len(), name, flaw: Flaw::of(value) };
        text.extend_from_slice(b"\r\n");
        if prefix == 6 {
            self.table.insert(&text[start..], &line);
        }
        if sink.admits(&line)? {
            sink.take(start, &line);
        } else {
            sink.text().truncate(start);
        }
        Ok(())
    }
}

/// Appends a text literal (RFC 7541 §5.2).
#[inline(always)]
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let (first, rest) = block.split_first().ok_or(HpackError::Truncated)?;
    *block = rest;
    let length = integer::read(*first, 7, block)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *block = rest;
    if first & 0x80 != 0 {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Ok(())
}
