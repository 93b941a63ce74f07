//! Field blocks of our own.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::static_table::{self, StaticEntry};
use super::*;

fn encoded(encode: impl FnOnce(&mut Encoder, &mut Vec<u8>)) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    encoder.begin(&mut out);
    encode(&mut encoder, &mut out);
    out
}

fn field(name: &str, value: &str) -> Vec<u8> {
    encoded(|encoder, out| encoder.field(out, name.as_bytes(), value.as_bytes()))
}

#[test]
fn every_static_entry_has_its_meaning_and_is_found_by_its_name() {
    let mut first: Vec<(&[u8], usize)> = Vec::new();
    for index in 1..=static_table::LENGTH {
        let entry = StaticEntry::get(index).expect("an entry");
        let name = entry.name_text();
        assert_eq!(entry.name, Name::of(name), "{index}");
        assert_eq!(entry.text, [name, b": ", entry.value(), b"\r\n"].concat());
        if !first.iter().any(|(known, _)| *known == name) {
            first.push((name, index));
        }
    }
    assert_eq!(first.len(), 52);
    assert!(StaticEntry::get(0).is_none() && StaticEntry::get(62).is_none());
    for (name, index) in first {
        let expected = (!name.starts_with(b":")).then_some(index);
        assert_eq!(static_table::find(name), expected);
        assert_eq!(static_table::find(&name.to_ascii_uppercase()), expected);
        for changed in [&name[1..], &[name, b"x"].concat(), &[b"x", name].concat(), &name[..name.len() - 1]] {
            let is_other = static_table::find(changed).is_none_or(|found| {
                StaticEntry::get(found).is_some_and(|entry| entry.name_text() == changed)
            });
            assert!(is_other, "{}", changed.escape_ascii());
        }
    }
    // Between the ends of a long name.
    assert_eq!(static_table::find(b"access-control-xxxxw-origin"), None);
}

#[test]
fn statuses_are_entries_or_literals() {
    let status = |status| encoded(|encoder, out| encoder.status(out, status));
    for (number, block) in [
        (200, "88"),
        (204, "89"),
        (206, "8a"),
        (304, "8b"),
        (400, "8c"),
        (404, "8d"),
        (500, "8e"),
        (100, "08 03 31 30 30"),
        (503, "08 03 35 30 33"),
        (999, "08 03 39 39 39"),
    ] {
        assert_eq!(status(number), hex(block), "{number}");
    }
}

#[test]
fn fields_are_literals_with_known_names() {
    for (name, value, block) in [
        ("accept-encoding", "gzip, deflate", "90"),
        ("Accept-Encoding", "gzip", "0f01 04 677a6970"),
        ("Date", "x", "0f12 01 78"),
        // A new name, in lower case.
        ("X-A", "", "00 03 782d61 00"),
        // Never indexed.
        ("Cookie", "a", "1f11 01 61"),
        ("set-cookie", "a", "1f28 01 61"),
        ("authorization", "a", "1f08 01 61"),
        ("proxy-authorization", "a", "1f22 01 61"),
    ] {
        assert_eq!(field(name, value), hex(block), "{name}");
    }
}

/// Lengths around those that need another byte.
#[test]
fn lengths_are_integers() {
    for length in [0, 1, 125, 126, 127, 128, 254, 255, 256, 16_000] {
        let text = "v".repeat(length);
        for name in ["date", "accept", "x-a", &format!("x{text}")] {
            let fields = decode(&mut Decoder::default(), &field(name, &text));
            assert_eq!(fields, Ok(vec![(name.to_owned(), text.clone())]));
        }
    }
}

/// RFC 9110 §5.5; a tab is none of them.
#[test]
fn control_bytes_of_a_value_become_blanks() {
    for (value, expected) in
        [("a\x01b", "a b"), ("\0a\x7f", "a"), ("\r\n", ""), ("a\tb", "a\tb"), ("a\tb\x01c", "a\tb c")]
    {
        for name in ["date", "x-a"] {
            let fields = decode(&mut Decoder::default(), &field(name, value));
            assert_eq!(fields, Ok(vec![(name.to_owned(), expected.to_owned())]));
        }
    }
}

/// RFC 7541 §4.2.
#[test]
fn a_smaller_table_is_acknowledged_once() {
    let mut encoder = Encoder::default();
    let mut begun = |sizes: &[u32]| {
        let mut out = Vec::new();
        sizes.iter().for_each(|size| encoder.set_peer_table_size(*size));
        encoder.begin(&mut out);
        out
    };
    assert_eq!(begun(&[]), b"");
    assert_eq!(begun(&[4_096, 65_536]), b"");
    assert_eq!(begun(&[1_000, 4_096]), [0x20]);
    assert_eq!(begun(&[]), b"");
    assert_eq!(begun(&[0, 4_096, 100]), b"");
}

proptest! {
    #[test]
    fn fields_are_decoded_as_they_were_encoded(
        fields in vec(("[!#$%&'*+.^_`|~0-9a-zA-Z-]{1,40}", vec(prop_oneof![9 => 0x20_u8..0x7F, 1 => 0x80_u8..], 0..300)), 0..20)
    ) {
        let block = encoded(|encoder, out| {
            for (name, value) in &fields {
                encoder.field(out, name.as_bytes(), value);
            }
        });
        let mut sink = Pairs::default();
        let mut decoder = Decoder::default();
        prop_assert_eq!(decoder.run(&block, &mut sink), Ok(()));
        prop_assert_eq!(decoder.heap_bytes(), 0);
        let expected: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        prop_assert_eq!(sink.pairs, expected);
    }
}
