//! Field blocks of one connection, decoded by loona-hpack too: both take or refuse the same blocks, and find the same fields.
//!
//! A block is raw bytes behind their length, or is composed of steps, most of which are right, so that the dynamic table fills.
#![no_main]

use handfast_http::http1::HeadLimits;
use handfast_http::http2::head::{HeadText, Part};
use handfast_http::http2::hpack::{Decoder, HpackError};
use libfuzzer_sys::fuzz_target;
use loona_hpack::decoder::DecoderError;

/// `:status: 200`, which a head begins with.
const STATUS: u8 = 0x88;
/// Entries of the static table whose name or value no response may have: pseudo-fields, content-length, transfer-encoding.
const UNUSABLE: fn(u8) -> bool = |index| index < 15 || index == 28 || index == 57;

fn take<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    taken
}

fn integer(out: &mut Vec<u8>, pattern: u8, prefix: u32, mut value: usize) {
    let most = (1 << prefix) - 1;
    if value < most {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | most as u8);
    value -= most;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A text of letters, or of any bytes that are Huffman codes or not.
fn text(out: &mut Vec<u8>, input: &mut &[u8]) {
    let &[kind] = take(input, 1) else { return out.push(0) };
    let bytes = take(input, usize::from(kind & 0x3F));
    if kind & 0x80 != 0 {
        integer(out, 0x80, 7, bytes.len());
        out.extend_from_slice(bytes);
    } else {
        let times = if kind & 0x40 != 0 { 9 } else { 1 };
        integer(out, 0, 7, bytes.len() * times);
        let letters: Vec<u8> = bytes.iter().map(|byte| b'a' + byte % 26).collect();
        out.extend(letters.repeat(times));
    }
}

fn compose(input: &mut &[u8]) -> Vec<u8> {
    let &[count] = take(input, 1) else { return Vec::new() };
    let mut out = Vec::new();
    if count & 0x80 != 0
        && let &[size] = take(input, 1)
    {
        integer(&mut out, 0x20, 5, usize::from(size) * 17);
    }
    out.push(STATUS);
    for _ in 0..count & 0x1F {
        let &[step] = take(input, 1) else { break };
        // Up to 94, where the table has some 30 entries.
        let index = usize::from(15 + step % 80);
        let index = if UNUSABLE(index as u8) { 62 } else { index };
        match step >> 5 {
            0..=2 => integer(&mut out, 0x80, 7, index),
            kind => {
                let (pattern, prefix) =
                    [(0x40, 6), (0x40, 6), (0x40, 6), (0, 4), (0x10, 4)][usize::from(kind - 3)];
                let is_new = take(input, 1).first().is_none_or(|byte| byte & 1 == 0);
                integer(&mut out, pattern, prefix, if is_new { 0 } else { index });
                if is_new {
                    text(&mut out, input);
                }
                text(&mut out, input);
            }
        }
    }
    out
}

fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(start, |end| end + 1);
    &text[start..end]
}

fuzz_target!(|input: &[u8]| {
    let limits = HeadLimits { head: usize::MAX, fields: usize::MAX, ..HeadLimits::default() };
    let (mut ours, mut head) = (Decoder::default(), HeadText::default());
    let mut theirs = loona_hpack::Decoder::new();
    theirs.set_max_allowed_table_size(4_096);
    let mut rest = input;
    while let &[kind] = take(&mut rest, 1) {
        let block =
            if kind & 0xC0 == 0 { take(&mut rest, usize::from(kind)).to_vec() } else { compose(&mut rest) };
        head.begin(Part::Response, &limits);
        let result = ours.decode(&block, &mut head);
        let expected = theirs.decode(&block);
        match (&result, &expected) {
            // RFC 7541 §4.2: at the beginning, and two at most.
            (Err(HpackError::SizeUpdate), _) => return,
            // A block of nothing but updates is legal.
            (Ok(()), Err(DecoderError::SizeUpdateAtEnd)) => continue,
            (Err(_), Err(_)) => return,
            (Ok(()), Ok(fields)) => {
                let Ok(head) = head.response(true) else { continue };
                let found =
                    head.fields.iter().map(|field| (field.name(head.text), trim(field.value(head.text))));
                let fields = fields.iter().skip(1).map(|(name, value)| (&name[..], trim(value)));
                assert!(found.eq(fields), "{}: {head:?}", block.escape_ascii());
            }
            _ => panic!("{}: {result:?}, {expected:?}", block.escape_ascii()),
        }
    }
});
