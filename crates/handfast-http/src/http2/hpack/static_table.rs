//! The static table.
//!
//! In: an index, or a name. Out: an entry as a line of text, or the index.
//!
//! **Source**: RFC 7541, Appendix A.

use super::Line;
use crate::http1::{Kind, is_text};
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

/// Slots of [`BY_NAME`].
const SLOTS: usize = 128;

/// Returns the slot of a name in any case, which no two names of the table share. Multipliers were found by search.
#[inline(always)]
const fn slot(length: usize, first: u8, middle: u8, last: u8) -> usize {
    let (first, middle, last) = (first | 0x20, middle | 0x20, last | 0x20);
    (length * 7 + first as usize * 47 + last as usize * 30 + middle as usize) % SLOTS
}

/// The first entry with each name that is no pseudo-field, by the slot of the name; 0: none.
static BY_NAME: [u8; SLOTS] = {
    let mut slots = [0; SLOTS];
    let mut index = LENGTH;
    while index > 0 {
        let StaticEntry { text, name_length, .. } = ENTRIES[index - 1];
        let length = name_length as usize;
        if text[0] != b':' {
            let slot = slot(length, text[0], text[length / 2], text[length - 1]);
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
    let (first, last) = (name.first()?, name.last()?);
    let index = usize::from(BY_NAME[slot(name.len(), *first, name[name.len() / 2], *last)]);
    StaticEntry::get(index).filter(|entry| is_text(name, entry.name_text())).map(|_| index)
}
