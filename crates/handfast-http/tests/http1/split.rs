//! However the bytes of a message are split, the result is that of one piece.

use handfast_http::http1::{
    BodyReader, Field, Framing, HeadLimits, HeadProgress, Piece, Rule, parse_request, parse_response,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::inputs::{changed, requests, responses};

/// Returns a parser's verdict on bytes that arrive in these pieces, in turn.
fn verdict(
    input: &[u8],
    pieces: &[usize],
    parse: fn(&[u8], &mut HeadProgress, &HeadLimits) -> Verdict,
) -> Verdict {
    let limits = HeadLimits { head: 200, start_line: 60, fields: 5, ..HeadLimits::default() };
    let (mut progress, mut end) = (HeadProgress::default(), 0);
    for piece in pieces.iter().cycle() {
        end = input.len().min(end + piece.max(&1));
        match parse(&input[..end], &mut progress, &limits) {
            Verdict::Incomplete if end < input.len() => {}
            verdict => return verdict,
        }
    }
    Verdict::Incomplete
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Incomplete,
    Refused(Rule, usize),
    Complete(String),
}

fn request(received: &[u8], progress: &mut HeadProgress, limits: &HeadLimits) -> Verdict {
    let mut fields = Vec::new();
    match parse_request(received, progress, &mut fields, limits) {
        Ok(None) => Verdict::Incomplete,
        Ok(Some(head)) => {
            let text = head.text[..head.length].to_vec();
            Verdict::Complete(format!("{text:?} {:?} {:?} {:?}", head.framing, head.target, head.fields))
        }
        Err(error) => Verdict::Refused(error.rule, error.at),
    }
}

fn response(received: &[u8], progress: &mut HeadProgress, limits: &HeadLimits) -> Verdict {
    let mut fields = Vec::new();
    match parse_response(received, progress, &mut fields, limits) {
        Ok(None) => Verdict::Incomplete,
        Ok(Some(head)) => Verdict::Complete(format!("{} {} {:?}", head.length, head.status, head.fields)),
        Err(error) => Verdict::Refused(error.rule, error.at),
    }
}

/// Data, what ended it, and where.
fn body(input: &[u8], pieces: &[usize]) -> (Vec<u8>, Result<Option<usize>, Rule>) {
    let mut reader =
        BodyReader::new(Framing::Chunked, &HeadLimits { head: 60, ..HeadLimits::default() }, false);
    let (mut data, mut start, mut end) = (Vec::new(), 0, 0);
    let mut fields: Vec<Field> = Vec::new();
    let mut sizes = pieces.iter().cycle();
    loop {
        match reader.next(&input[start..end], &mut fields) {
            Err(error) => return (data, Err(error.rule)),
            Ok(Piece::End { consumed, .. }) => return (data, Ok(Some(start + consumed))),
            Ok(Piece::Data(range)) => {
                data.extend(&input[start..end][range.clone()]);
                start += range.end;
            }
            Ok(Piece::More { consumed }) => {
                start += consumed;
                if end == input.len() {
                    return (data, Ok(None));
                }
                end = input.len().min(end + sizes.next().copied().unwrap_or(1).max(1));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_request_may_be_split(input in changed(requests()), pieces in vec(1..40_usize, 1..8)) {
        let whole = verdict(&input, &[usize::MAX / 2], request);
        prop_assert_eq!(verdict(&input, &pieces, request), whole.clone());
        prop_assert_eq!(verdict(&input, &[1], request), whole);
    }

    #[test]
    fn a_response_may_be_split(input in changed(responses()), pieces in vec(1..40_usize, 1..8)) {
        let whole = verdict(&input, &[usize::MAX / 2], response);
        prop_assert_eq!(verdict(&input, &pieces, response), whole.clone());
        prop_assert_eq!(verdict(&input, &[1], response), whole);
    }

    #[test]
    fn any_bytes_may_be_split(input in vec(any::<u8>(), 0..300), pieces in vec(1..40_usize, 1..8)) {
        prop_assert_eq!(verdict(&input, &pieces, request), verdict(&input, &[usize::MAX / 2], request));
        prop_assert_eq!(body(&input, &pieces), body(&input, &[usize::MAX / 2]));
    }

    #[test]
    fn a_chunked_body_may_be_split(
        input in changed(requests()).prop_map(|input| {
            // From the body on, or from anywhere in what was changed.
            let start = input.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
            input[start..].to_vec()
        }),
        pieces in vec(1..9_usize, 1..8),
    ) {
        let whole = body(&input, &[usize::MAX / 2]);
        prop_assert_eq!(body(&input, &pieces), whole.clone());
        prop_assert_eq!(body(&input, &[1]), whole);
    }
}
