//! The packed form: sorted, with a version, counts and a hash, so that a damaged copy is noticed.
//!
//! | bytes | |
//! |---|---|
//! | 16 | `handfast-weakkey` |
//! | 4 | version, 1; all numbers little-endian |
//! | 4 | bytes of an entry, 10 |
//! | 8 | count of entries by SHA-256: its first bytes |
//! | 8 | count of entries of `openssl-blacklist` |
//! | 32 | SHA-256 over the first count and all entries |
//! | the rest | entries, each kind sorted, each entry once |

use std::io::{self, Read, Write};

use crate::weak::entries::{Broken, Entries, Entry, MAX_ENTRIES};

pub(super) const MAGIC: &[u8; 16] = b"handfast-weakkey";
const VERSION: u32 = 1;
const REPACK_HINT: &str = "pack it again, or copy it again";

pub(super) fn write(entries: &Entries, to: &mut impl Write) -> io::Result<()> {
    to.write_all(MAGIC)?;
    to.write_all(&VERSION.to_le_bytes())?;
    to.write_all(&(size_of::<Entry>() as u32).to_le_bytes())?;
    to.write_all(&(entries.sha256.len() as u64).to_le_bytes())?;
    to.write_all(&(entries.blacklist.len() as u64).to_le_bytes())?;
    to.write_all(&entries.hash())?;
    to.write_all(entries.sha256.as_flattened())?;
    to.write_all(entries.blacklist.as_flattened())
}

pub(super) fn read(from: &mut impl Read) -> Result<Entries, Broken> {
    let mut beginning = [0; 40];
    let mut hash = [0; 32];
    from.read_exact(&mut beginning)?;
    from.read_exact(&mut hash)?;
    let number = |at: usize| beginning[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let count = |at: usize| beginning[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (version, length) = (number(16), number(20));
    if version != VERSION || length as usize != size_of::<Entry>() {
        let what = format!(
            "is a packed list of version {version} with entries of {length} bytes, expected version {VERSION} and {}",
            size_of::<Entry>()
        );
        return Err(Broken::problem(what, "pack it again with this program"));
    }
    let entries = Entries { sha256: sorted(from, count(24))?, blacklist: sorted(from, count(32))? };
    if from.read(&mut [0])? != 0 {
        return Err(Broken::problem("goes on after its last entry", REPACK_HINT));
    }
    if entries.hash() != hash {
        return Err(Broken::problem("is damaged: its hash does not fit its entries", REPACK_HINT));
    }
    Ok(entries)
}

/// Reads entries in pieces, so that a count that is only announced takes no memory.
fn sorted(from: &mut impl Read, count: u64) -> Result<Vec<Entry>, Broken> {
    const PIECE: usize = 4096;
    let count =
        usize::try_from(count).ok().filter(|count| *count <= MAX_ENTRIES).ok_or_else(Broken::too_many)?;
    let mut entries: Vec<Entry> = Vec::new();
    while entries.len() < count {
        let known = entries.len();
        entries.resize(count.min(known + PIECE), Entry::default());
        from.read_exact(entries[known..].as_flattened_mut())?;
        let unsorted = (known.max(1)..entries.len()).find(|place| entries[place - 1] >= entries[*place]);
        if let Some(place) = unsorted {
            return Err(Broken::problem(
                format!("is damaged: entry {} is out of order", place + 1),
                REPACK_HINT,
            ));
        }
    }
    entries.shrink_to_fit();
    Ok(entries)
}
