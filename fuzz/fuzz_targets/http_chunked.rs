//! A chunked body in pieces of any sizes: data, trailers and end are those of one piece.
//!
//! Input: a count, as many sizes of pieces (one byte each, used in turn), and the body.
#![no_main]

use handfast_http::http1::{ChunkedReader, HeadLimits, Piece, Rule, write_last_chunk};
use libfuzzer_sys::fuzz_target;

/// Data, what ended it, and the trailers as they are written again.
type Outcome = (Vec<u8>, Result<Option<(usize, Vec<u8>)>, Rule>);

fuzz_target!(|input: &[u8]| {
    let Some((count, rest)) = input.split_first() else { return };
    let Some((sizes, body)) = rest.split_at_checked(usize::from(*count)) else { return };
    let whole = read(body, &[usize::MAX]);
    let sizes: Vec<usize> = sizes.iter().map(|size| usize::from(*size).max(1)).chain([1]).collect();
    assert_eq!(read(body, &sizes), whole);
    assert!(whole.0.len() <= body.len());
});

fn read(body: &[u8], sizes: &[usize]) -> Outcome {
    let mut reader = ChunkedReader::new(&HeadLimits::default(), false);
    let (mut data, mut fields, mut start, mut end) = (Vec::new(), Vec::new(), 0, 0);
    let mut sizes = sizes.iter().cycle();
    loop {
        let received = &body[start..end];
        match reader.next(received, &mut fields) {
            Err(error) => return (data, Err(error.rule)),
            Ok(Piece::Data(range)) => {
                assert!(!range.is_empty());
                data.extend(&received[range.clone()]);
                start += range.end;
            }
            Ok(Piece::End { consumed, trailers }) => {
                let mut written = Vec::new();
                write_last_chunk(&mut written, &received[trailers], &fields, |_| false);
                return (data, Ok(Some((start + consumed, written))));
            }
            Ok(Piece::More { consumed }) => {
                start += consumed;
                if end == body.len() {
                    return (data, Ok(None));
                }
                end = body.len().min(end.saturating_add(*sizes.next().unwrap_or(&1)));
            }
        }
    }
}
