//! Faults of field blocks, the table, and its memory.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::dynamic_table::LIMIT;
use super::*;

#[track_caller]
fn refuses(block: &str, error: HpackError) {
    assert_eq!(decode(&mut Decoder::default(), &hex(block)), Err(error), "{block}");
}

/// A literal as the encoder of a test writes it, without Huffman code.
fn literal(pattern: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![pattern];
    for text in [name, value] {
        integer::write(&mut out, 0, 7, text.len());
        out.extend_from_slice(text);
    }
    out
}

fn inserted(name: &[u8], value: &[u8]) -> Vec<u8> {
    literal(0x40, name, value)
}

#[test]
fn integers_have_a_limit() {
    // The largest one: 127 and 28 bits.
    let mut rest = &[0xFF, 0xFF, 0xFF, 0x7F][..];
    assert_eq!(integer::read(0xFF, 7, &mut rest), Ok(127 + 0x0FFF_FFFF));
    refuses("ff ff ff ff ff 00", HpackError::Integer);
    refuses("ff ff ff ff ff ff ff ff ff ff ff 01", HpackError::Integer);
    // Bytes without a bit.
    refuses("ff 80 80 80 80 00", HpackError::Integer);
    refuses("7f 80 80 80 80 00", HpackError::Integer);
    refuses("00 01 61 7f 80 80 80 80 00", HpackError::Integer);
    refuses("3f 80 80 80 80 00", HpackError::Integer);
    // Some of them are within the limit: they are only long.
    let mut rest = &[0x80, 0x80, 0x80, 0x00][..];
    assert_eq!(integer::read(0x1F, 5, &mut rest), Ok(31));
    refuses("ff", HpackError::Truncated);
    refuses("ff 80", HpackError::Truncated);
}

proptest! {
    #[test]
    fn integers_are_read_as_they_are_written(value in 0_usize..0x0FFF_FFFF, prefix in 4_u32..8) {
        let mut written = Vec::new();
        integer::write(&mut written, 0, prefix, value);
        let mut rest = &written[1..];
        prop_assert_eq!(integer::read(written[0], prefix, &mut rest), Ok(value));
        prop_assert!(rest.is_empty());
        let mut rest = &written[1..written.len().max(2) - 1];
        prop_assert!(written.len() == 1 || integer::read(written[0], prefix, &mut rest) == Err(HpackError::Truncated));
    }
}

#[test]
fn indices_name_entries() {
    refuses("80", HpackError::Index);
    refuses("be", HpackError::Index);
    refuses("7e 01 61", HpackError::Index);
    refuses("0f 2f 01 61", HpackError::Index);
    let mut decoder = Decoder::default();
    let block = [inserted(b"x-a", b"1"), inserted(b"x-b", b"2"), vec![0xBE, 0xBF]].concat();
    let names: Vec<_> =
        decode(&mut decoder, &block).expect("well-formed").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["x-a", "x-b", "x-b", "x-a"]);
    assert_eq!(decode(&mut decoder, &[0xC0]), Err(HpackError::Index));
}

#[test]
fn a_block_ends_with_a_field() {
    let block = hex("8286 84be 5886 a8eb 1064 9cbf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
    let ends = [0, 1, 2, 3, 4, 12, 32];
    for length in 0..=block.len() {
        let mut decoder = Decoder::default();
        decode(&mut decoder, &inserted(b"x", b"y")).expect("well-formed");
        let is_whole = decode(&mut decoder, &block[..length]);
        match is_whole {
            Ok(fields) => assert_eq!(Some(fields.len()), ends.iter().position(|end| *end == length)),
            Err(error) => {
                assert!(error == HpackError::Truncated && !ends.contains(&length), "{length}: {error:?}")
            }
        }
    }
}

#[test]
fn huffman_code_is_checked() {
    let text = |code: &str| {
        let mut out = Vec::new();
        huffman::decode(&hex(code), &mut out).map(|()| out)
    };
    for (code, expected) in
        [("", &b""[..]), ("1f", b"a"), ("f1e3c2e5f23a6ba0ab90f4ff", b"www.example.com"), ("ffc7", b"\0")]
    {
        assert_eq!(text(code).as_deref(), Ok(expected), "{code}");
    }
    for code in [
        // Eight ones or more, and zeros, behind a byte.
        "1fff",
        "1c",
        "18",
        "ff",
        "ffff",
        // The end of the string, alone and behind others.
        "fffffffc",
        "ffffffff",
        "1ffffffff8",
    ] {
        assert_eq!(text(code), Err(HpackError::Huffman), "{code}");
    }
}

/// Codes of RFC 7541, Appendix B: the first and the last of each length.
const CODES: [(u8, u32, u32); 40] = [
    (b'0', 0x0, 5),
    (b't', 0x9, 5),
    (b' ', 0x14, 6),
    (b'u', 0x2d, 6),
    (b':', 0x5c, 7),
    (b'z', 0x7b, 7),
    (b'&', 0xf8, 8),
    (b'Z', 0xfd, 8),
    (b'!', 0x3f8, 10),
    (b'?', 0x3fc, 10),
    (b'\'', 0x7fa, 11),
    (b'|', 0x7fc, 11),
    (b'#', 0xffa, 12),
    (b'>', 0xffb, 12),
    (0, 0x1ff8, 13),
    (b'~', 0x1ffd, 13),
    (b'^', 0x3ffc, 14),
    (b'}', 0x3ffd, 14),
    (b'<', 0x7ffc, 15),
    (b'{', 0x7ffe, 15),
    (b'\\', 0x7_fff0, 19),
    (208, 0x7_fff2, 19),
    (128, 0xf_ffe6, 20),
    (226, 0xf_ffed, 20),
    (153, 0x1f_ffdc, 21),
    (230, 0x1f_ffe8, 21),
    (129, 0x3f_ffd2, 22),
    (233, 0x3f_ffeb, 22),
    (1, 0x7f_ffd8, 23),
    (239, 0x7f_fff4, 23),
    (9, 0xff_ffea, 24),
    (237, 0xff_fff5, 24),
    (199, 0x1ff_ffec, 25),
    (235, 0x1ff_ffef, 25),
    (192, 0x3ff_ffe0, 26),
    (255, 0x3ff_ffee, 26),
    (203, 0x7ff_ffde, 27),
    (254, 0x7ff_fff0, 27),
    (2, 0xfff_ffe2, 28),
    (22, 0x3fff_fffe, 30),
];

#[test]
fn every_length_of_the_huffman_code_is_known() {
    for (byte, code, length) in CODES {
        // Twice, with ones behind: the second one begins within a byte.
        let bits = (u128::from(code) << (128 - length)) | (u128::from(code) << (128 - 2 * length));
        let used = (2 * length).next_multiple_of(8);
        let bits = bits | (u128::MAX >> (2 * length) & !(u128::MAX >> used.min(127)));
        let bytes = &bits.to_be_bytes()[..used as usize / 8];
        let mut out = b"before".to_vec();
        assert_eq!(huffman::decode(bytes, &mut out), Ok(()), "{byte} {bytes:x?}");
        assert_eq!(out, [b"before", &[byte, byte][..]].concat(), "{byte}");
    }
}

#[test]
fn sizes_change_in_front_of_fields_twice_at_most() {
    for (block, expected) in [("20", Ok(())), ("203f e11f", Ok(())), ("203f e11f 82", Ok(()))] {
        assert_eq!(decode(&mut Decoder::default(), &hex(block)).map(drop), expected, "{block}");
    }
    refuses("20 20 20", HpackError::SizeUpdate);
    refuses("82 20", HpackError::SizeUpdate);
    refuses("20 82 20", HpackError::SizeUpdate);
    // 4,097.
    refuses("3f e2 1f", HpackError::SizeUpdate);
    refuses("3f ff ff ff 7f", HpackError::SizeUpdate);
}

#[test]
fn an_entry_that_is_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::default();
    let largest = [b'v'; LIMIT - 32 - 1];
    decode(&mut decoder, &[inserted(b"a", b"1"), inserted(b"b", &largest)].concat()).expect("well-formed");
    assert_eq!(decoder.table_size(), LIMIT);
    assert_eq!(decode(&mut decoder, &[0xBF]), Err(HpackError::Index));
    decode(&mut decoder, &inserted(b"bc", &largest)).expect("well-formed");
    assert_eq!(decoder.table_size(), 0);
    assert_eq!(decode(&mut decoder, &[0xBE]), Err(HpackError::Index));
}

/// The name of an entry that its own insertion removes (RFC 7541 §4.4).
#[test]
fn a_name_may_be_that_of_an_entry_that_makes_room() {
    let mut decoder = Decoder::default();
    let name = [b'n'; 2_000];
    decode(&mut decoder, &inserted(&name, &[b'1'; 2_000])).expect("well-formed");
    let mut block = vec![0x7E];
    integer::write(&mut block, 0, 7, 1_000);
    block.extend([b'2'; 1_000]);
    let fields = decode(&mut decoder, &[&block[..], &[0xBE]].concat()).expect("well-formed");
    assert!(
        fields.iter().all(|(name, value)| (name.len(), value.len()) == (2_000, 1_000)) && fields.len() == 2
    );
    assert_eq!(decoder.table_size(), 3_032);
}

#[test]
fn memory_grows_with_what_is_kept() {
    let mut decoder = Decoder::default();
    assert_eq!(decoder.heap_bytes(), 0);
    decode(&mut decoder, &hex("82 86 84 0f 2b 01 61")).expect("well-formed");
    assert_eq!(decoder.heap_bytes(), 0);
    decode(&mut decoder, &inserted(b"x", b"y")).expect("well-formed");
    assert!(decoder.heap_bytes() <= 512, "{}", decoder.heap_bytes());
    // As many entries as fit, and as many bytes.
    for _ in 0..1_000 {
        decode(&mut decoder, &inserted(b"", b"")).expect("well-formed");
    }
    decode(&mut decoder, &inserted(b"x", &[b'y'; 4_000])).expect("well-formed");
    assert!(decoder.heap_bytes() <= LIMIT + 128 * 12, "{}", decoder.heap_bytes());
}

/// A name and a value.
type Pair = (Vec<u8>, Vec<u8>);

/// A step of an encoder.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, Vec<u8>),
    InsertNamed(usize, Vec<u8>),
    Repeat(usize),
    Resize(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = |most: usize| vec(b'a'..b'g', 0..most);
    let step = prop_oneof![
        4 => (text(40), text(120)).prop_map(|(name, value)| Step::Insert(name, value)),
        1 => (text(1_500), text(3_000)).prop_map(|(name, value)| Step::Insert(name, value)),
        3 => (any::<usize>(), text(300)).prop_map(|(index, value)| Step::InsertNamed(index, value)),
        4 => any::<usize>().prop_map(Step::Repeat),
        1 => (0..=LIMIT).prop_map(Step::Resize),
    ];
    vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The table is that of a list, whatever is inserted, also where the ring begins again.
    #[test]
    fn the_table_is_that_of_a_simple_model(steps in steps()) {
        let mut decoder = Decoder::default();
        let (mut model, mut most) = (Vec::<Pair>::new(), LIMIT);
        let size = |model: &[Pair]| -> usize {
            model.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        };
        for step in steps {
            let mut block = Vec::new();
            let (field, is_inserted) = match step {
                Step::Insert(name, value) => {
                    block = inserted(&name, &value);
                    ((name, value), true)
                }
                Step::InsertNamed(index, value) if !model.is_empty() => {
                    let index = index % model.len();
                    integer::write(&mut block, 0x40, 6, 62 + index);
                    integer::write(&mut block, 0, 7, value.len());
                    block.extend_from_slice(&value);
                    ((model[index].0.clone(), value), true)
                }
                Step::Repeat(index) if !model.is_empty() => {
                    let index = index % model.len();
                    integer::write(&mut block, 0x80, 7, 62 + index);
                    (model[index].clone(), false)
                }
                Step::Resize(size) => {
                    most = size;
                    integer::write(&mut block, 0x20, 5, size);
                    block.push(0x82);
                    ((b":method".to_vec(), b"GET".to_vec()), false)
                }
                _ => continue,
            };
            if is_inserted {
                model.insert(0, field.clone());
            }
            while size(&model) > most {
                model.pop();
            }
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("ASCII");
            prop_assert_eq!(decode(&mut decoder, &block), Ok(vec![(text(field.0), text(field.1))]));
            prop_assert_eq!(decoder.table_size(), size(&model));
        }
        prop_assert!(decoder.heap_bytes() <= LIMIT + 128 * 12);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(blocks in vec(vec(any::<u8>(), 0..60), 0..20)) {
        let mut decoder = Decoder::default();
        for block in blocks {
            let _ = decode(&mut decoder, &block);
            prop_assert!(decoder.table_size() <= LIMIT);
        }
    }
}
