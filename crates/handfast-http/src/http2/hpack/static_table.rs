//! The static table.
//!
//! In: an index, or a name. Out: an entry as a line of text, or the index.
//!
//! **Source**: RFC 7541, Appendix A.

use super::Line;
use crate::http1::{Kind, end_words, is_text};
use crate::http2::name::{Flaw, Name, Pseudo};

/// Number of entries; the dynamic table follows.
pub(super) const LENGTH: usize = 61;

/// An entry.
#[derive(Debug)]
pub(super) struct StaticEntry {
    /// `name: value` and CRLF.
    pub(super) text: &'static [u8],
    pub(super) name_length: u8,
    pub(super) name: Name,
    /// Ends of its name.
    ends: (u64, u64),
}

impl StaticEntry {
    /// Returns the entry of an index that is not 0.
    pub(super) fn get(index: usize) -> Option<&'static Self> {
        ENTRIES.get(index.wrapping_sub(1))
    }

    #[inline]
    pub(super) fn line(&self) -> Line {
        let name_length = usize::from(self.name_length);
        let value_length = self.text.len() - name_length - 4;
        Line { name_length, value_length, name: self.name, flaw: Flaw::None }
    }

    pub(super) fn name_text(&self) -> &'static [u8] {
        &self.text[..usize::from(self.name_length)]
    }

    pub(super) fn value(&self) -> &'static [u8] {
        &self.text[usize::from(self.name_length) + 2..self.text.len() - 2]
    }
}

const OTHER: Name = Name::Field(Kind::Other);

macro_rules! entries {
    ($($name:literal $value:literal $meaning:expr;)*) => {
        [$(StaticEntry {
            text: concat!($name, ": ", $value, "\r\n").as_bytes(),
            name_length: $name.len() as u8,
            name: $meaning,
            ends: lower_ends($name.as_bytes()),
        },)*]
    };
}

static ENTRIES: [StaticEntry; LENGTH] = entries! {
    ":authority" "" Name::Pseudo(Pseudo::Authority);
    ":method" "GET" Name::Pseudo(Pseudo::Method);
    ":method" "POST" Name::Pseudo(Pseudo::Method);
    ":path" "/" Name::Pseudo(Pseudo::Path);
    ":path" "/index.html" Name::Pseudo(Pseudo::Path);
    ":scheme" "http" Name::Pseudo(Pseudo::Scheme);
    ":scheme" "https" Name::Pseudo(Pseudo::Scheme);
    ":status" "200" Name::Pseudo(Pseudo::Status);
    ":status" "204" Name::Pseudo(Pseudo::Status);
    ":status" "206" Name::Pseudo(Pseudo::Status);
    ":status" "304" Name::Pseudo(Pseudo::Status);
    ":status" "400" Name::Pseudo(Pseudo::Status);
    ":status" "404" Name::Pseudo(Pseudo::Status);
    ":status" "500" Name::Pseudo(Pseudo::Status);
    "accept-charset" "" OTHER;
    "accept-encoding" "gzip, deflate" OTHER;
    "accept-language" "" OTHER;
    "accept-ranges" "" OTHER;
    "accept" "" OTHER;
    "access-control-allow-origin" "" OTHER;
    "age" "" OTHER;
    "allow" "" OTHER;
    "authorization" "" OTHER;
    "cache-control" "" OTHER;
    "content-disposition" "" OTHER;
    "content-encoding" "" OTHER;
    "content-language" "" OTHER;
    "content-length" "" Name::Field(Kind::ContentLength);
    "content-location" "" OTHER;
    "content-range" "" OTHER;
    "content-type" "" OTHER;
    "cookie" "" Name::Cookie;
    "date" "" OTHER;
    "etag" "" OTHER;
    "expect" "" Name::Field(Kind::Expect);
    "expires" "" OTHER;
    "from" "" OTHER;
    "host" "" Name::Field(Kind::Host);
    "if-match" "" OTHER;
    "if-modified-since" "" OTHER;
    "if-none-match" "" OTHER;
    "if-range" "" OTHER;
    "if-unmodified-since" "" OTHER;
    "last-modified" "" OTHER;
    "link" "" OTHER;
    "location" "" OTHER;
    "max-forwards" "" OTHER;
    "proxy-authenticate" "" Name::Field(Kind::HopByHop);
    "proxy-authorization" "" Name::Field(Kind::HopByHop);
    "range" "" OTHER;
    "referer" "" OTHER;
    "refresh" "" OTHER;
    "retry-after" "" OTHER;
    "server" "" OTHER;
    "set-cookie" "" OTHER;
    "strict-transport-security" "" OTHER;
    "transfer-encoding" "" Name::Connection;
    "user-agent" "" OTHER;
    "vary" "" OTHER;
    "via" "" OTHER;
    "www-authenticate" "" OTHER;
};

/// Slots of [`BY_NAME`], and a factor that gives each name another slot, found by search.
const SLOT_BITS: u32 = 7;
const FACTOR: u64 = 0x3601_3EEE_DBAD_4F41;
/// Makes letters small.
const SPACES: u64 = u64::from_le_bytes([0x20; 8]);

/// Returns the ends of a name in lower case.
#[inline(always)]
const fn lower_ends(name: &[u8]) -> (u64, u64) {
    match end_words(name) {
        Some((first, last)) => (first | SPACES, last | SPACES),
        None => match *name {
            [a, b, c] => (u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]) | SPACES, 0),
            _ => (0, 0),
        },
    }
}

#[inline(always)]
const fn slot((first, last): (u64, u64)) -> usize {
    ((first ^ last.rotate_left(29)).wrapping_mul(FACTOR) >> (u64::BITS - SLOT_BITS)) as usize
}

/// The first entry with each name that is no pseudo-field, by the slot of the name; 0: none.
static BY_NAME: [u8; 1 << SLOT_BITS] = {
    let mut slots = [0; 1 << SLOT_BITS];
    let mut index = LENGTH;
    while index > 0 {
        let entry = &ENTRIES[index - 1];
        if entry.text[0] != b':' {
            let slot = slot(entry.ends);
            assert!(slots[slot] == 0, "two names share a slot");
            slots[slot] = index as u8;
        }
        index -= 1;
    }
    slots
};

/// Returns the index of the first entry with a name, in any case, that is no pseudo-field. `name` is a token.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<usize> {
    let ends = lower_ends(name);
    let index = usize::from(BY_NAME[slot(ends)]);
    let entry = StaticEntry::get(index)
        .filter(|entry| entry.ends == ends && usize::from(entry.name_length) == name.len())?;
    let is_same = name.len() <= 16 || is_text(name, entry.name_text());
    is_same.then_some(index)
}
