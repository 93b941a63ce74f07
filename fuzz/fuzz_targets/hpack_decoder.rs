//! Field blocks of one connection, each behind its length: the result of a block does not depend on what it is, memory has a bound, and text and
//! fields stay within the limits.
#![no_main]

use handfast_http::http1::HeadLimits;
use handfast_http::http2::head::{HeadText, Part};
use handfast_http::http2::hpack::Decoder;
use libfuzzer_sys::fuzz_target;

const PARTS: [Part; 3] = [Part::Request, Part::Response, Part::Trailers { is_response: true }];

fuzz_target!(|input: &[u8]| {
    let limits = HeadLimits { head: 1_000, fields: 20, start_line: 500, ..HeadLimits::default() };
    let mut decoders = PARTS.map(|part| (part, Decoder::default(), HeadText::default()));
    let mut rest = input;
    while let Some((length, behind)) = rest.split_first() {
        let (block, next) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = next;
        let results = decoders.each_mut().map(|(part, decoder, head)| {
            head.begin(*part, &limits);
            let result = decoder.decode(block, head);
            assert!(decoder.heap_bytes() <= 4_096 + 128 * 12);
            (result, decoder.heap_bytes())
        });
        assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
        if results[0].0.is_err() {
            return;
        }
        if let Ok(head) = decoders[1].2.response(true) {
            assert!(head.text.len() <= 1_000 && head.fields.len() <= 20);
        }
        if let Ok((text, fields)) = decoders[2].2.trailers() {
            assert!(text.len() <= 1_000 && fields.len() <= 20);
        }
        // The cookie is written once more.
        if let Ok(head) = decoders[0].2.request(false, None) {
            assert!(head.text.len() <= 1_100 && head.fields.len() <= 21);
        }
    }
});
