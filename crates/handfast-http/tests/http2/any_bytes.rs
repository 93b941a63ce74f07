//! Any bytes: frames, field blocks and heads end in a result, and within the limits.

use handfast_http::http1::HeadLimits;
use handfast_http::http2::frame::{self, FrameHead, Settings};
use handfast_http::http2::head::{HeadText, Part};
use handfast_http::http2::hpack::Decoder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Bytes of which field blocks are made: representations, short texts, and indices.
fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let field = (select(vec![0x00_u8, 0x10, 0x40]), "[a-z:_-]{0,12}", vec(any::<u8>(), 0..40)).prop_map(
        |(pattern, name, value)| {
            let length = |text: &[u8]| u8::try_from(text.len()).expect("a short text");
            [&[pattern, length(name.as_bytes())], name.as_bytes(), &[length(&value)], &value].concat()
        },
    );
    let part = prop_oneof![
        4 => field,
        4 => (0x80_u8..).prop_map(|index| vec![index]),
        1 => vec(any::<u8>(), 0..4),
        1 => (0x20_u8..0x40).prop_map(|size| vec![size]),
    ];
    vec(part, 0..20).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn field_blocks_become_heads_or_faults(blocks in vec(blocks(), 0..6), most in 0_usize..400) {
        let limits = HeadLimits { head: most, fields: most / 40, start_line: most, ..HeadLimits::default() };
        let parts =
            [Part::Request, Part::Response, Part::Trailers { is_response: false }, Part::Trailers { is_response: true }];
        for part in parts {
            let (mut decoder, mut head) = (Decoder::default(), HeadText::default());
            for block in &blocks {
                head.begin(part, &limits);
                if decoder.decode(block, &mut head).is_err() {
                    break;
                }
                prop_assert!(decoder.heap_bytes() <= 4_096 + 128 * 12);
                let (text, fields) = match part {
                    Part::Request => match head.request(block.len() % 2 == 0, Some("key")) {
                        Ok(head) => (head.text, head.fields),
                        Err(_) => continue,
                    },
                    Part::Response => match head.response(block.len() % 2 == 0) {
                        Ok(head) => (head.text, head.fields),
                        Err(_) => continue,
                    },
                    Part::Trailers { .. } => match head.trailers() {
                        Ok(trailers) => trailers,
                        Err(_) => continue,
                    },
                };
                // The cookie is written once more, and a key may be added.
                prop_assert!(text.len() <= most + 64 && fields.len() <= most / 40 + 2);
                for field in fields {
                    let (name, value) = (field.name(text), field.value(text));
                    prop_assert!(!name.iter().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_control()));
                    prop_assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)));
                    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| b" \t".contains(byte));
                    prop_assert!(!is_blank(value.first()) && !is_blank(value.last()));
                }
            }
        }
    }

    #[test]
    fn frames_have_a_head_and_a_payload(bytes in any::<[u8; 9]>(), payload in vec(any::<u8>(), 0..40)) {
        let head = FrameHead::parse(&bytes);
        let mut written = Vec::new();
        head.write(&mut written);
        // The reserved bit is not kept.
        prop_assert_eq!(&written[..5], &bytes[..5]);
        prop_assert_eq!(written[5], bytes[5] & 0x7F);
        prop_assert_eq!(FrameHead::parse(written.first_chunk().expect("nine bytes")), head);
        let head = FrameHead { length: payload.len() as u32, ..head };
        let _ = head.check_length(16_384);
        prop_assert!(frame::content(head, &payload).is_err() || frame::content(head, &payload).is_ok_and(|content| content.len() <= payload.len()));
        let _ = frame::block_fragment(head, &payload);
        prop_assert_eq!(Settings::new(&payload).count(), payload.len() / 6);
    }
}
