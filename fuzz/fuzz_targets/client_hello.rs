//! Any first bytes of a connection: a verdict never changes with more bytes, and nothing waits beyond the limit.
#![no_main]

use handfast_wire::peek::SMALLEST_LIMIT;
use handfast_wire::{Peek, peek};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|received: &[u8]| {
    // One limit for each input keeps the runs fast; the length chooses, so that inputs stay plain bytes.
    let limit = [16_384, 512, usize::MAX, 0][received.len() % 4];
    judge(received, limit);
});

fn judge(received: &[u8], limit: usize) {
    let whole = peek(received, limit);
    // Every prefix of a short input, some 64 of a long one.
    for end in (0..received.len()).step_by(received.len() / 64 + 1) {
        let part = peek(&received[..end], limit);
        assert!(part == Peek::Incomplete || part == whole, "{part:?} at {end} became {whole:?}");
    }
    match whole {
        Peek::Incomplete => assert!(received.len() < limit.max(SMALLEST_LIMIT)),
        Peek::Complete(hello) => {
            assert!(hello.length_on_wire <= received.len().min(limit.max(SMALLEST_LIMIT)));
            let exact = peek(&received[..hello.length_on_wire], limit);
            assert_eq!(exact, Peek::Complete(hello.clone()));
            let one_less = peek(&received[..hello.length_on_wire - 1], limit);
            assert_eq!(one_less, Peek::Incomplete);
            assert!(hello.server_name.is_none() || hello.server_name_problem.is_none());
        }
        Peek::TooLarge { announced } => assert!(announced > limit.max(SMALLEST_LIMIT) || limit == usize::MAX),
        Peek::NotTls(_) => {}
        // The sentence must be sayable for every way to be wrong.
        Peek::Invalid(invalid) => assert!(!invalid.to_string().is_empty()),
    }
}
