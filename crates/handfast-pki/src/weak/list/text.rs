//! Lists as others publish them: lines of text.
//!
//! In: CSV with SHA-256 hashes, or the lines of `openssl-blacklist`; empty lines and those that begin with `#` count for
//! nothing. Out: entries, or the first line that has none.

use std::io::{BufRead, Read};

use crate::weak::entries::{Broken, Entries, Entry, MAX_ENTRIES};

/// Bytes of a line; real ones have a hundred.
const LINE: u64 = 4096;
const FORM: &str = "a line has a SHA-256 in 64 hexadecimal digits, or an entry of openssl-blacklist in 20";

pub(super) fn read(from: &mut impl BufRead) -> Result<Entries, Broken> {
    let mut entries = Entries::default();
    let mut bytes = Vec::new();
    // Index of the field in each line, if the first line names it.
    let mut column = None;
    let mut is_first = true;
    for number in 1_u64.. {
        bytes.clear();
        if from.by_ref().take(LINE).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let wrong = |what: &str| {
            let hint = if number == 1 && bytes.starts_with(b"\x1f\x8b") {
                "it is compressed: gunzip it first"
            } else {
                FORM
            };
            Broken::problem(format!("line {number}: {what}"), hint)
        };
        let line =
            std::str::from_utf8(&bytes).map_err(|_| wrong("not text"))?.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match entry(line, column) {
            Some(ListedKey::Sha256(entry)) => entries.sha256.push(entry),
            Some(ListedKey::Blacklist(entry)) => entries.blacklist.push(entry),
            None if is_first && line.contains(SEPARATORS) => column = heading(line),
            None => return Err(wrong("no known key in it")),
        }
        is_first = false;
        if entries.count() > MAX_ENTRIES {
            return Err(Broken::too_many());
        }
    }
    entries.sort();
    Ok(entries)
}

const SEPARATORS: [char; 3] = [',', ';', '\t'];

enum ListedKey {
    Sha256(Entry),
    Blacklist(Entry),
}

/// Fields of a line, without quotes.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(SEPARATORS).map(|field| field.trim().trim_matches('"'))
}

/// Returns the index of the hash column, by the names in the first line.
fn heading(line: &str) -> Option<usize> {
    fields(line).position(|name| name.to_ascii_lowercase().replace(['-', '_', ' '], "").contains("sha256"))
}

fn entry(line: &str, column: Option<usize>) -> Option<ListedKey> {
    if let Some(column) = column {
        return fields(line).nth(column).and_then(sha256);
    }
    // A line may have both; the longer one is enough.
    fields(line).find_map(sha256).or_else(|| fields(line).find_map(blacklist))
}

fn sha256(field: &str) -> Option<ListedKey> {
    let entry = field.len() == 64 && field.bytes().all(|byte| byte.is_ascii_hexdigit());
    entry.then(|| decoded(&field[..20])).flatten().map(ListedKey::Sha256)
}

fn blacklist(field: &str) -> Option<ListedKey> {
    (field.len() == 20).then(|| decoded(field)).flatten().map(ListedKey::Blacklist)
}

/// Twenty hexadecimal digits.
fn decoded(digits: &str) -> Option<Entry> {
    let mut entry = Entry::default();
    for (byte, digits) in entry.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()?;
    }
    Some(entry)
}
