//! One message body in records of any sizes: the answer is that of the same message in large records.
//!
//! Input: a count, as many record sizes (one byte each, used in turn), and the body of a ClientHello.
#![no_main]

use handfast_wire::peek::RECORD_COUNT_LIMIT;
use handfast_wire::record::PLAINTEXT_LIMIT;
use handfast_wire::{Peek, peek};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((count, rest)) = input.split_first() else { return };
    let Some((sizes, body)) = rest.split_at_checked(usize::from(*count)) else { return };
    let message = message(body);
    if message.len() > PLAINTEXT_LIMIT.min(RECORD_COUNT_LIMIT) {
        return;
    }
    let whole = peek(&records(&message, &[u8::MAX]), usize::MAX);
    let split = peek(&records(&message, sizes), usize::MAX);
    match (whole, split) {
        (Peek::Complete(mut whole), Peek::Complete(split)) => {
            (whole.length_on_wire, whole.record_count) = (split.length_on_wire, split.record_count);
            assert_eq!(whole, split);
        }
        (whole, split) => assert_eq!(whole, split),
    }
});

fn message(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[1, length[1], length[2], length[3]], body].concat()
}

fn records(message: &[u8], sizes: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut left = message;
    let mut sizes = sizes.iter().cycle();
    while !left.is_empty() {
        let size = usize::from(*sizes.next().unwrap_or(&1)).clamp(1, left.len());
        wire.extend([22, 3, 1, 0, size as u8]);
        wire.extend(&left[..size]);
        left = &left[size..];
    }
    wire
}
