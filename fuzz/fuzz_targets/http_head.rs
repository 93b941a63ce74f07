//! Any first bytes of an HTTP/1 message, from both sides: a verdict does not depend on how they are split, and what is written again is the same.
#![no_main]

use handfast_http::http1::{
    HeadEnd, HeadError, HeadLimits, HeadProgress, Method, RequestHead, ResponseHead, Version, end_head,
    parse_request, parse_response, write_fields, write_request_line, write_status_line,
};
use libfuzzer_sys::fuzz_target;

/// A head as it is written for the other side, and its length; nothing when more bytes are needed.
type Outcome = Result<Option<(Vec<u8>, usize)>, HeadError>;
type Parse = fn(&[u8], &mut HeadProgress) -> Outcome;

fuzz_target!(|received: &[u8]| {
    for parse in [request as Parse, response] {
        let whole = parse(received, &mut HeadProgress::default());
        // Byte by byte for a short input, in some 64 pieces of a long one.
        let mut progress = HeadProgress::default();
        let step = received.len() / 64 + 1;
        let ends = (0..received.len()).step_by(step).chain([received.len()]);
        let split = ends.map(|end| parse(&received[..end], &mut progress)).find(|part| *part != Ok(None));
        match (&whole, split) {
            (Ok(None), None) => assert!(received.len() < HeadLimits::default().head),
            (Err(whole), Some(Err(split))) => {
                assert_eq!((whole.rule, whole.at), (split.rule, split.at));
                assert!(!whole.to_string().is_empty() && (400..600).contains(&whole.status()));
            }
            (Ok(Some((written, length))), split) => {
                assert_eq!(split.as_ref(), Some(&whole));
                assert!(*length <= received.len());
                assert_eq!(parse(&received[..length - 1], &mut HeadProgress::default()), Ok(None));
                assert_eq!(
                    parse(written, &mut HeadProgress::default()),
                    Ok(Some((written.clone(), written.len())))
                );
            }
            (whole, split) => panic!("{whole:?} in one piece, {split:?} in several"),
        }
    }
});

fn request(received: &[u8], progress: &mut HeadProgress) -> Outcome {
    let mut fields = Vec::new();
    let head = parse_request(received, progress, &mut fields, &HeadLimits::default())?;
    Ok(head.map(|head: RequestHead<'_>| {
        let mut out = Vec::new();
        write_request_line(&mut out, &head);
        write_fields(&mut out, head.text, head.fields, |_| false);
        end_head(&mut out, &HeadEnd::for_backend(&head));
        (out, head.length)
    }))
}

fn response(received: &[u8], progress: &mut HeadProgress) -> Outcome {
    let mut fields = Vec::new();
    let head = parse_response(received, progress, &mut fields, &HeadLimits::default())?;
    Ok(head.map(|head: ResponseHead<'_>| {
        let mut out = Vec::new();
        write_status_line(&mut out, &head);
        write_fields(&mut out, head.text, head.fields, |_| false);
        end_head(&mut out, &HeadEnd::for_client(&head, Method::GET, Version::Http11, true));
        (out, head.length)
    }))
}
