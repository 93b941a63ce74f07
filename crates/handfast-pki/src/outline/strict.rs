//! Checks that bytes are one X.509 certificate in DER, to the last byte, as strictly as the strictest client reads it.
//!
//! In: DER of a certificate. Out: nothing, or the fault. x509-parser, which reads the fields, accepts what OpenSSL refuses
//! with `ASN1 lib`: lengths with needless bytes, elements that follow the last one that it knows, text in names in another
//! encoding than that of its tag. A client would refuse such a certificate, so it must not be served.
//!
//! **Source**: X.690, sections 8 and 10 (DER); RFC 5280 §4.1 (the structure).

use super::Outline;
use crate::asn1::Extension;
use crate::der::{
    BIT_STRING, BOOLEAN, Der, ENUMERATED, GENERALIZED_TIME, INTEGER, OBJECT_IDENTIFIER, SEQUENCE, SET,
    UTC_TIME,
};

/// Values inside values; a certificate has 10.
const DEPTH: usize = 24;

const NULL: u8 = 0x05;
const UTF8_STRING: u8 = 0x0c;
const NUMERIC_STRING: u8 = 0x12;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const UNIVERSAL_STRING: u8 = 0x1c;
const BMP_STRING: u8 = 0x1e;

/// Text of the fault, to follow the words "the certificate has".
pub(crate) type Fault = &'static str;

/// Checks that `der` is one certificate and nothing else.
///
/// **Errors**: what is not DER, or not the structure of a certificate. **Cost**: two passes, some microseconds.
pub(crate) fn check(der: &[u8]) -> Result<(), Fault> {
    check_values(der, 0)?;
    structure(der).ok_or("another structure than RFC 5280 section 4.1 says")
}

/// Checks that `der` is any number of values in distinguished encoding.
fn check_values(der: &[u8], depth: usize) -> Result<(), Fault> {
    if depth > DEPTH {
        return Err("values that are nested too deeply");
    }
    let mut rest = Der(der);
    while !rest.is_empty() {
        let before = rest.0;
        let (tag, content) = rest.next().ok_or("a value that ends beyond its surroundings")?;
        let header = before.len() - rest.0.len() - content.len();
        if header != shortest_header(content.len()) {
            return Err("a length that is not in the shortest form");
        }
        if tag & 0x1f == 0x1f {
            return Err("a tag that no certificate has");
        }
        let is_universal = tag & 0xc0 == 0;
        let is_constructed = tag & 0x20 != 0;
        match is_constructed {
            true if is_universal && !matches!(tag, SEQUENCE | SET) => {
                return Err("a value in pieces that must be in one");
            }
            true => check_values(content, depth + 1)?,
            false if is_universal => check_primitive(tag, content)?,
            false => {}
        }
    }
    Ok(())
}

/// Bytes of tag and length before this number of bytes.
fn shortest_header(length: usize) -> usize {
    let bytes = (usize::BITS - length.leading_zeros()).div_ceil(8) as usize;
    2 + if length < 0x80 { 0 } else { bytes }
}

fn check_primitive(tag: u8, content: &[u8]) -> Result<(), Fault> {
    let is_good = match tag {
        BOOLEAN => matches!(content, [0 | 0xff]),
        INTEGER | ENUMERATED => !matches!(content, [] | [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..]),
        BIT_STRING => match content {
            [0] => true,
            [unused @ 0..=7, .., last] => last.trailing_zeros() >= u32::from(*unused),
            _ => false,
        },
        NULL => content.is_empty(),
        OBJECT_IDENTIFIER => is_identifier(content),
        UTF8_STRING => std::str::from_utf8(content).is_ok(),
        NUMERIC_STRING | PRINTABLE_STRING | IA5_STRING => content.is_ascii(),
        BMP_STRING => {
            let (units, rest) = content.as_chunks();
            rest.is_empty()
                && units.iter().all(|unit| char::from_u32(u16::from_be_bytes(*unit).into()).is_some())
        }
        UNIVERSAL_STRING => {
            let (units, rest) = content.as_chunks();
            rest.is_empty() && units.iter().all(|unit| char::from_u32(u32::from_be_bytes(*unit)).is_some())
        }
        UTC_TIME => is_time(content, 12),
        GENERALIZED_TIME => is_time(content, 14),
        SEQUENCE_TAG | SET_TAG | 0 => false,
        _ => true,
    };
    if is_good { Ok(()) } else { Err("a value that is not as DER writes it") }
}

/// Tags of SEQUENCE and SET without the bit for nested values.
const SEQUENCE_TAG: u8 = SEQUENCE & 0x1f;
const SET_TAG: u8 = SET & 0x1f;

/// Parts of seven bits in each byte, each in the shortest form, and the last one complete.
fn is_identifier(content: &[u8]) -> bool {
    let mut starts = true;
    for byte in content {
        if starts && *byte == 0x80 {
            return false;
        }
        starts = byte & 0x80 == 0;
    }
    starts && !content.is_empty()
}

/// This number of digits, and the letter of UTC.
fn is_time(content: &[u8], digits: usize) -> bool {
    matches!(content.split_last(), Some((b'Z', time)) if time.len() == digits && time.iter().all(u8::is_ascii_digit))
}

/// `None`: another element than the next one that RFC 5280 §4.1 names, or one too many.
fn structure(der: &[u8]) -> Option<()> {
    let outline = Outline::without_extensions(der)?;
    if let Some(version) = outline.version_number {
        // The default, version 1, is not written.
        let mut version = Der(version);
        matches!(version.expect(INTEGER)?, [1 | 2]).then_some(())?;
        end(version)?;
    }
    // RFC 5280 §4.1.1.2: both are the same.
    (outline.inner_algorithm == outline.parts.algorithm).then_some(())?;
    algorithm_identifier(outline.inner_algorithm)?;
    name(outline.issuer)?;
    let mut validity = Der(outline.validity);
    time(&mut validity)?;
    time(&mut validity)?;
    end(validity)?;
    name(outline.subject)?;
    let mut key = Der(outline.key);
    algorithm_identifier(key.expect(SEQUENCE)?)?;
    key.whole_bits()?;
    end(key)?;
    if let Some(extensions) = outline.extensions {
        let mut outer = Der(extensions);
        self::extensions(Der(outer.expect(SEQUENCE)?))?;
        end(outer)?;
    }
    outline.rests.into_iter().try_for_each(end)
}

fn end(rest: Der<'_>) -> Option<()> {
    rest.is_empty().then_some(())
}

fn time(from: &mut Der<'_>) -> Option<()> {
    matches!(from.next()?, (UTC_TIME | GENERALIZED_TIME, _)).then_some(())
}

fn algorithm_identifier(content: &[u8]) -> Option<()> {
    let mut rest = Der(content);
    rest.expect(OBJECT_IDENTIFIER)?;
    if !rest.is_empty() {
        rest.next()?;
    }
    end(rest)
}

fn name(content: &[u8]) -> Option<()> {
    let mut sets = Der(content);
    while !sets.is_empty() {
        let mut set = Der(sets.expect(SET)?);
        // RFC 5280 §4.1.2.4: one attribute at least.
        loop {
            let mut attribute = Der(set.expect(SEQUENCE)?);
            attribute.expect(OBJECT_IDENTIFIER)?;
            // DirectoryString, and what other attributes have in use.
            let (tag, _) = attribute.next()?;
            matches!(
                tag,
                UTF8_STRING
                    | NUMERIC_STRING
                    | PRINTABLE_STRING
                    | TELETEX_STRING
                    | IA5_STRING
                    | UNIVERSAL_STRING
                    | BMP_STRING
                    | BIT_STRING
            )
            .then_some(())?;
            end(attribute)?;
            if set.is_empty() {
                break;
            }
        }
    }
    Some(())
}

fn extensions(mut rest: Der<'_>) -> Option<()> {
    let mut seen: Vec<&[u8]> = Vec::new();
    loop {
        let Extension { identifier, value, rest: behind, .. } = Extension::read(&mut rest)?;
        end(behind)?;
        // RFC 5280 §4.2: none is there twice.
        if seen.contains(&identifier) {
            return None;
        }
        seen.push(identifier);
        // Those of RFC 5280 are in DER; others may hold what they like.
        if matches!(identifier, [0x55, 0x1d, _]) {
            check_values(value, 0).ok()?;
        }
        if rest.is_empty() {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests;
