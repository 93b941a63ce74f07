//! Many prefixes, and the one that an address is in.

use std::net::IpAddr;

use super::{Prefix, number};

/// Prefixes in the order in which they are searched.
///
/// **Cost**: a lookup is one binary search and at most one step for each prefix around the one that it found; 40 bytes for a
/// prefix of either family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixSet {
    v4: Vec<Entry>,
    v6: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// First and last address.
    range: (u128, u128),
    /// The nearest prefix around this one: its place, from 1; 0: none.
    around: u32,
    length: u8,
}

impl PrefixSet {
    /// Returns true if it has no prefix.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Returns the number of prefixes; a duplicate counts once.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns true if one of them has this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.entry(address).is_some()
    }

    /// The longest of them that has this address.
    pub fn find(&self, address: IpAddr) -> Option<Prefix> {
        let address = address.to_canonical();
        let length = self.entry(address)?.length;
        Prefix::of(address, length)
    }

    fn entry(&self, address: IpAddr) -> Option<&Entry> {
        let address = address.to_canonical();
        let list = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let searched = number(address);
        // The last that begins before the address has it, or else one around that one does: prefixes never overlap by half.
        let mut place = list.partition_point(|entry| entry.range.0 <= searched);
        loop {
            let entry = &list[place.checked_sub(1)?];
            if searched <= entry.range.1 {
                return Some(entry);
            }
            place = entry.around as usize;
        }
    }
}

impl FromIterator<Prefix> for PrefixSet {
    fn from_iter<I: IntoIterator<Item = Prefix>>(prefixes: I) -> Self {
        let (v4, v6): (Vec<_>, Vec<_>) = prefixes.into_iter().partition(|prefix| prefix.first.is_ipv4());
        Self { v4: nested(v4), v6: nested(v6) }
    }
}

/// Prefixes of one family, outer ones first, each with the one that it is in.
fn nested(mut prefixes: Vec<Prefix>) -> Vec<Entry> {
    prefixes.sort_unstable();
    prefixes.dedup();
    let mut entries: Vec<Entry> = Vec::with_capacity(prefixes.len());
    for prefix in prefixes {
        let range = prefix.range();
        let mut around = entries.len();
        while let Some(entry) = around.checked_sub(1).map(|place| &entries[place]) {
            if range.1 <= entry.range.1 {
                break;
            }
            around = entry.around as usize;
        }
        let around = u32::try_from(around).unwrap_or(0);
        entries.push(Entry { range, around, length: prefix.length });
    }
    entries
}
