//! Lines of `Accept-Encoding`: a coding is chosen only where the client names it or has `*`, and the order of lines and elements does not count.
#![no_main]

use handfast_http::content_coding::{AcceptedCodings, ContentCoding};
use handfast_http::http1::tokens;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let accepted = AcceptedCodings::parse(lines.iter().copied());
    let has = |name: &[u8]| {
        lines.iter().any(|line| line.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name)))
    };
    for coding in ContentCoding::ALL {
        if accepted.accepts(coding) {
            assert!(has(coding.name().as_bytes()) || has(b"*"));
        }
    }
    if let Some(best) = accepted.best(ContentCoding::ALL) {
        assert!(accepted.accepts(best));
    }
    // One line, and the elements in the other order.
    let elements: Vec<&[u8]> = lines.iter().copied().flat_map(tokens).collect();
    let backwards: Vec<&[u8]> = elements.iter().rev().copied().collect();
    for list in [elements, backwards] {
        assert_eq!(AcceptedCodings::parse(std::iter::once(list.join(&b", "[..]).as_slice())), accepted);
    }
});
