//! The head file of an object: everything but its content.
//!
//! In: key, stored response, size and checksums of the content. Out: bytes that end with their checksum, and back. A file whose length or
//! checksum is wrong is no object.

use crate::rules::key::Key;
use crate::rules::stored::Stored;
use crate::rules::vary::Selection;

/// Contents of a head file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadFile {
    pub(crate) key: Key,
    pub(crate) stored: Stored,
    /// Bytes of content.
    pub(crate) size: u64,
    /// CRC-32 of each block of content.
    pub(crate) checksums: Vec<u32>,
}

/// The first bytes; the digit is the version of the format.
const MAGIC: &[u8] = b"handfast cache 1\n";
/// Value for seconds that a response does not state. No response states this number: `lists::seconds` has a largest
/// number.
const NOT_SAID: u64 = u64::MAX;
const NO_CACHE: u8 = 1;
const MUST_REVALIDATE: u8 = 2;

impl HeadFile {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let stored = &self.stored;
        let mut out = Vec::with_capacity(256 + stored.head.len() + self.checksums.len() * 4);
        out.extend_from_slice(MAGIC);
        for number in self.numbers() {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(
            if stored.no_cache { NO_CACHE } else { 0 }
                | if stored.must_revalidate { MUST_REVALIDATE } else { 0 },
        );
        push(&mut out, self.key.text());
        push(&mut out, &stored.head);
        push_length(&mut out, stored.selection.fields.len());
        for (name, value) in &stored.selection.fields {
            push(&mut out, name);
            out.push(u8::from(value.is_some()));
            push(&mut out, value.as_deref().unwrap_or_default());
        }
        push_length(&mut out, self.checksums.len());
        for checksum in &self.checksums {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    fn numbers(&self) -> [u64; 6] {
        let stored = &self.stored;
        [
            self.size,
            stored.received_ms,
            stored.initial_age,
            stored.lifetime,
            stored.stale_while_revalidate.unwrap_or(NOT_SAID),
            stored.stale_if_error.unwrap_or(NOT_SAID),
        ]
    }

    /// `None` if any of it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (text, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(text) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let mut reader = Reader { rest: text.strip_prefix(MAGIC)? };
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = u64::from_le_bytes(*reader.chunk::<8>()?);
        }
        let [size, received_ms, initial_age, lifetime, stale_while_revalidate, stale_if_error] = numbers;
        let is_stated = |seconds: &u64| *seconds != NOT_SAID;
        let [flags] = *reader.chunk::<1>()?;
        let key = Key::from_text(reader.bytes()?);
        let head = reader.bytes()?.to_vec();
        let mut selection = Selection::default();
        for _ in 0..reader.length()? {
            let name = reader.bytes()?.to_vec();
            let [has_value] = *reader.chunk::<1>()?;
            let value = reader.bytes()?.to_vec();
            selection.fields.push((name, (has_value == 1).then_some(value)));
        }
        let mut checksums = Vec::new();
        for _ in 0..reader.length()? {
            checksums.push(u32::from_le_bytes(*reader.chunk::<4>()?));
        }
        let mut stored = Stored {
            head,
            status: 0,
            received_ms,
            initial_age,
            lifetime,
            stale_while_revalidate: Some(stale_while_revalidate).filter(is_stated),
            stale_if_error: Some(stale_if_error).filter(is_stated),
            no_cache: flags & NO_CACHE != 0,
            must_revalidate: flags & MUST_REVALIDATE != 0,
            selection,
            etag: None,
            last_modified: None,
            date: 0,
            tags: Vec::new(),
        };
        (reader.rest.is_empty() && stored.restore()).then_some(Self { key, stored, size, checksums })
    }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
}

fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    push_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn chunk<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(chunk)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(*self.chunk()?)).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }
}
