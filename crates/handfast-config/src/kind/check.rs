//! The types of values that only checks have: statuses of HTTP, and bytes.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::wrong_type;
use crate::keys;
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;
use crate::table::Table;

/// Most bytes that a check sends or waits for.
const MOST_BYTES: usize = 4_096;

/// A status of HTTP, or a range of them.
pub(crate) struct StatusRange;

impl ValueKind for StatusRange {
    type Value = RangeInclusive<u16>;
    const FORM: &'static str = "whole number, such as `200`, or a range, such as `\"200-399\"`";
    const ALLOWED: &'static str = "100 to 599";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Self::Value> {
        let status = |text: &str| text.parse().ok().filter(|status| (100..=599).contains(status));
        let range = match item.value {
            DeValue::Integer(number) => status(number.as_str()).map(|status| status..=status),
            DeValue::String(text) => match text.split_once('-') {
                Some((first, last)) => status(first.trim()).zip(status(last.trim())),
                None => status(text).map(|status| (status, status)),
            }
            .map(|(first, last)| first..=last)
            .filter(|range| !range.is_empty()),
            _ => {
                reading.error(&item.span, wrong_type(self, item));
                return None;
            }
        };
        if range.is_none() {
            let written = reading.text().get(item.span.clone()).unwrap_or_default();
            let fault =
                Fault::new(format!("{} is no status of HTTP, and no range of them", shortened(written)));
            reading.error(&item.span, fault.allowed(self.allowed()));
        }
        range
    }
}

/// Bytes: a text, or hexadecimal digits.
pub(crate) struct Bytes;

impl ValueKind for Bytes {
    type Value = Vec<u8>;
    const FORM: &'static str = "text, such as `\"PING\\r\\n\"`, or `{ hex = \"50494e470d0a\" }`";
    const ALLOWED: &'static str = "1 to 4096 bytes";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Vec<u8>> {
        let bytes = match item.value {
            DeValue::String(text) => text.as_bytes().to_vec(),
            DeValue::Table(entries) => {
                let table = Table::open(&keys::HEX_TABLE, entries, item.span.clone(), reading);
                let digits = table.required(&keys::HEX)?;
                let Some(bytes) = from_hex(&digits) else {
                    let fault =
                        Fault::new(format!("`{}` is not pairs of hexadecimal digits", shortened(&digits)));
                    reading
                        .error(&item.span, fault.hint("write `{ hex = \"0d0a\" }` for the bytes 13 and 10"));
                    return None;
                };
                bytes
            }
            _ => {
                reading.error(&item.span, wrong_type(self, item));
                return None;
            }
        };
        if (1..=MOST_BYTES).contains(&bytes.len()) {
            return Some(bytes);
        }
        let fault = Fault::new(format!("these are {} bytes", bytes.len()));
        reading.error(&item.span, fault.allowed(self.allowed()));
        None
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
    let digit = |byte: &u8| (*byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    let pair = |[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    if rest.is_empty() { pairs.iter().map(pair).collect() } else { None }
}
