//! The types of values that only checks have: statuses of HTTP, and bytes.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use crate::keys::values as keys;
use crate::problem::{Fault, shortened};
use crate::reading::{Item, Reading};
use crate::schema::{Shape, ValueKind};
use crate::table::Table;

/// Most bytes that a check sends or waits for.
const MAX_BYTES: usize = 4_096;

pub(crate) struct StatusRange;

impl ValueKind for StatusRange {
    type Value = RangeInclusive<u16>;
    const FORM: &'static str = "whole number, such as `200`, or a range, such as `\"200-399\"`";
    const ALLOWED: &'static str = "100 to 599";

    fn shape(&self) -> Shape {
        Shape::OneOf(vec![Shape::Number(100, 599), Shape::Text])
    }

    fn parse(&self, item: &Item<'_>, reading: &Reading<'_>) -> Result<Self::Value, Fault> {
        let status = |text: &str| text.trim().parse().ok().filter(|status| (100..=599).contains(status));
        let text = match item.value {
            DeValue::Integer(number) => number.as_str(),
            _ => self.text(item)?,
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = status(first).zip(status(last)).map(|(first, last)| first..=last);
        range.filter(|range| !range.is_empty()).ok_or_else(|| {
            let written = shortened(reading.source(item));
            Fault::new(format!("{written} is no status of HTTP, and no range of them"))
                .allowed(self.allowed())
        })
    }
}

pub(crate) struct Bytes;

impl ValueKind for Bytes {
    type Value = Vec<u8>;
    const FORM: &'static str = "text, such as `\"PING\\r\\n\"`, or `{ hex = \"50494e470d0a\" }`";
    const ALLOWED: &'static str = "1 to 4096 bytes";

    fn shape(&self) -> Shape {
        Shape::text_or(&keys::HEX_TABLE)
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Vec<u8>> {
        let error = |fault| reading.error(&item.span, fault);
        let bytes = match item.value {
            DeValue::Table(entries) => {
                let table = Table::open(&keys::HEX_TABLE, entries, item.span.clone(), reading);
                let digits = table.required(&keys::HEX)?;
                from_hex(&digits).ok_or_else(|| {
                    Fault::new(format!("`{}` is not pairs of hexadecimal digits", shortened(&digits)))
                        .hint("write `{ hex = \"0d0a\" }` for the bytes 13 and 10")
                })
            }
            _ => self.text(item).map(|text| text.as_bytes().to_vec()),
        };
        let bytes = bytes.and_then(|bytes| match bytes.len() {
            1..=MAX_BYTES => Ok(bytes),
            other => Err(Fault::new(format!("these are {other} bytes")).allowed(self.allowed())),
        });
        bytes.map_err(error).ok()
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b' ').collect();
    let digit = |byte: &u8| (*byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    let pair = |[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    if rest.is_empty() { pairs.iter().map(pair).collect() } else { None }
}
