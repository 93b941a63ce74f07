//! The dynamic table of a decoder.
//!
//! In: lines of text with the meaning of their names. Out: the same by their index. Text is in one ring of bytes, which is allocated with the
//! first entry and grows by need to [`LIMIT`] at most. The CRLF and the colon of a line fit there, because the size of an entry counts 32 bytes.
//!
//! **Source**: RFC 7541 §2.3.2 and §4.

use std::collections::VecDeque;

use super::Line;
use crate::http2::name::{Flaw, Name};

/// Most bytes of the table as RFC 7541 counts them: the default of HEADER_TABLE_SIZE, which is never changed.
pub(super) const LIMIT: usize = 4096;
/// First size of the ring; like all later ones a power of two.
const FIRST_BYTES: usize = 256;
/// Bytes that an entry counts beside its name and value.
const OVERHEAD: usize = 32;

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Position of its line among all bytes that were ever written.
    start: u32,
    name_length: u16,
    value_length: u16,
    name: Name,
    flaw: Flaw,
}

impl Entry {
    pub(super) fn line(&self) -> Line {
        let (name_length, value_length) = (usize::from(self.name_length), usize::from(self.value_length));
        Line { name_length, value_length, name: self.name, flaw: self.flaw }
    }
}

/// Entries, the newest first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// Position behind the newest line, and bytes of all lines.
    end: u32,
    used: usize,
    entries: VecDeque<Entry>,
    /// As RFC 7541 counts.
    size: usize,
    most: usize,
}

impl Default for DynamicTable {
    fn default() -> Self {
        Self { bytes: Vec::new(), end: 0, used: 0, entries: VecDeque::new(), size: 0, most: LIMIT }
    }
}

impl DynamicTable {
    /// Returns an entry; the newest has the index 0.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// Appends the first bytes of an entry's line to a text.
    #[inline(always)]
    pub(super) fn copy(&self, entry: &Entry, length: usize, out: &mut Vec<u8>) {
        let start = self.place(entry.start);
        match self.bytes.get(start..start + length) {
            Some(line) => out.extend_from_slice(line),
            None => self.copy_wrapped(start, length, out),
        }
    }

    #[cold]
    fn copy_wrapped(&self, start: usize, length: usize, out: &mut Vec<u8>) {
        let (behind, first) = self.bytes.split_at(start);
        out.extend_from_slice(first);
        out.extend_from_slice(&behind[..length - first.len()]);
    }

    /// Adds an entry with this text, after the oldest ones have made room. One that is larger than the table empties it (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, text: &[u8], line: &Line) {
        let size = line.size();
        self.evict(size);
        if size > self.most {
            return;
        }
        self.grow(text.len());
        let start = self.end;
        let place = self.place(start);
        let until_wrap = text.len().min(self.bytes.len() - place);
        let (first, rest) = text.split_at(until_wrap);
        self.bytes[place..place + until_wrap].copy_from_slice(first);
        self.bytes[..rest.len()].copy_from_slice(rest);
        self.end = start.wrapping_add(text.len() as u32);
        self.used += text.len();
        self.size += size;
        // Both are below the size of the table.
        let (name_length, value_length) = (line.name_length as u16, line.value_length as u16);
        self.entries.push_front(Entry { start, name_length, value_length, name: line.name, flaw: line.flaw });
    }

    /// Changes the size, up to [`LIMIT`].
    pub(super) fn resize(&mut self, most: usize) {
        self.most = most.min(LIMIT);
        self.evict(0);
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Removes the oldest entries until this size fits.
    fn evict(&mut self, size: usize) {
        while self.size + size > self.most
            && let Some(oldest) = self.entries.pop_back()
        {
            let line = oldest.line();
            self.size -= line.size();
            self.used -= line.text_length();
        }
    }

    fn grow(&mut self, length: usize) {
        let needed = self.used + length;
        if needed <= self.bytes.len() {
            return;
        }
        let mut bytes = vec![0; needed.next_power_of_two().max(FIRST_BYTES)];
        let mask = bytes.len() - 1;
        let mut position = self.end.wrapping_sub(self.used as u32);
        while position != self.end {
            bytes[position as usize & mask] = self.bytes[self.place(position)];
            position = position.wrapping_add(1);
        }
        self.bytes = bytes;
    }

    /// Returns the place of a position in the ring.
    #[inline(always)]
    fn place(&self, position: u32) -> usize {
        position as usize & self.bytes.len().wrapping_sub(1)
    }
}

const _: () = assert!(LIMIT.is_power_of_two() && FIRST_BYTES.is_power_of_two() && OVERHEAD >= 4);

impl Line {
    /// Returns its size in a table and in a list of fields (RFC 7541 §4.1, RFC 9113 §6.5.2).
    pub(crate) const fn size(&self) -> usize {
        self.name_length + self.value_length + OVERHEAD
    }

    /// Returns the bytes of its text, with colon, blank and CRLF.
    pub(crate) const fn text_length(&self) -> usize {
        self.name_length + self.value_length + 4
    }
}
