//! Any first bytes of a connection as a PROXY header: a verdict never changes with more bytes, and a header is where it says.
#![no_main]

use handfast_wire::proxy_header::{Peek, V2_LIMIT, peek};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|received: &[u8]| {
    let whole = peek(received, V2_LIMIT);
    // Every prefix of a short input, some 64 of a long one.
    for end in (0..received.len()).step_by(received.len() / 64 + 1) {
        let part = peek(&received[..end], V2_LIMIT);
        assert!(part == Peek::Incomplete || part == whole, "{part:?} at {end} became {whole:?}");
    }
    match whole {
        Peek::Incomplete => assert!(received.len() < V2_LIMIT),
        Peek::Complete(header) => {
            assert!(header.length <= received.len().min(V2_LIMIT));
            assert_eq!(peek(&received[..header.length - 1], V2_LIMIT), Peek::Incomplete);
            assert_eq!(peek(&received[..header.length], V2_LIMIT), Peek::Complete(header.clone()));
            let inside: usize = header.tlvs().map(|tlv| 3 + tlv.value.len()).sum();
            assert!(inside <= header.length);
            header.tls().iter().flat_map(|tls| tls.values()).for_each(drop);
        }
        Peek::Absent => {}
        // The sentence must be sayable for every way to be wrong.
        Peek::Invalid(invalid) => assert!(!invalid.to_string().is_empty()),
    }
});
