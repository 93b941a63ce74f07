//! Names and values, each behind its length: they are decoded as they were encoded, names in lower case and control bytes as blanks.
#![no_main]

use handfast_http::http1::{HeadLimits, is_token};
use handfast_http::http2::head::{HeadText, Part};
use handfast_http::http2::hpack::{Decoder, Encoder};
use libfuzzer_sys::fuzz_target;

/// Takes the next text, which may be repeated so that it is long.
fn text(input: &mut &[u8]) -> Option<Vec<u8>> {
    let (&[length, times], rest) = input.split_first_chunk()?;
    let (text, rest) = rest.split_at(usize::from(length).min(rest.len()));
    *input = rest;
    Some(text.repeat(usize::from(times % 16).max(1)))
}

/// Returns true if a response may have this field in HTTP/2.
fn is_known(name: &[u8]) -> bool {
    let names: [&[u8]; 6] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te"];
    is_token(name) && !names.contains(&&name.to_ascii_lowercase()[..])
}

fuzz_target!(|input: &[u8]| {
    let (mut encoder, mut block, mut expected) = (Encoder::default(), Vec::new(), Vec::new());
    let mut rest = input;
    if let Some((size, behind)) = rest.split_first() {
        encoder.set_peer_table_size(u32::from(*size) * 32);
        rest = behind;
    }
    encoder.begin(&mut block);
    encoder.status(&mut block, 200);
    while let (Some(name), Some(value)) = (text(&mut rest), text(&mut rest)) {
        if is_known(&name) && !name.eq_ignore_ascii_case(b"content-length") {
            encoder.field(&mut block, &name, &value);
            let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
            let value: Vec<u8> =
                value.iter().map(|byte| if is_control(byte) { b' ' } else { *byte }).collect();
            let value = String::from_utf8_lossy(&value).trim_matches([' ', '\t']).to_owned();
            expected.push((name.to_ascii_lowercase(), value));
        }
    }
    let limits = HeadLimits { head: usize::MAX, fields: usize::MAX, ..HeadLimits::default() };
    let (mut decoder, mut head) = (Decoder::default(), HeadText::default());
    head.begin(Part::Response, &limits);
    decoder.decode(&block, &mut head).expect("a field block");
    assert_eq!(decoder.heap_bytes(), 0);
    let head = head.response(true).expect("a response");
    let field = |field: &handfast_http::http1::Field| {
        (field.name(head.text).to_vec(), String::from_utf8_lossy(field.value(head.text)).into_owned())
    };
    assert_eq!(head.fields.iter().map(field).collect::<Vec<_>>(), expected);
});
