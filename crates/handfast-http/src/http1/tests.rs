//! Tests of HTTP/1: each rule by its name. Properties and comparisons with other parsers are in `tests/http1`.

mod chunked;
mod framing;
mod rules;
mod scan;
mod writing;

use super::*;

/// A request line and fields with a Host in front of them.
fn get(fields: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n").into_bytes()
}

fn with_request<T>(received: &[u8], look: impl FnOnce(&RequestHead<'_>) -> T) -> T {
    let mut fields = Vec::new();
    let head = parse_request(received, &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
    match head {
        Ok(Some(head)) => look(&head),
        other => panic!("{}: {other:?}", received.escape_ascii()),
    }
}

fn with_response<T>(received: &[u8], look: impl FnOnce(&ResponseHead<'_>) -> T) -> T {
    let mut fields = Vec::new();
    let head = parse_response(received, &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
    match head {
        Ok(Some(head)) => look(&head),
        other => panic!("{}: {other:?}", received.escape_ascii()),
    }
}

fn request_error_with(received: &[u8], limits: &HeadLimits) -> Option<HeadError> {
    parse_request(received, &mut HeadProgress::default(), &mut Vec::new(), limits).err()
}

#[track_caller]
fn refuses(received: impl AsRef<[u8]>, rule: Rule, status: u16) {
    let received = received.as_ref();
    let error = request_error_with(received, &HeadLimits::default());
    let error = error.unwrap_or_else(|| panic!("not refused: {}", received.escape_ascii()));
    assert_eq!((error.rule, error.status()), (rule, status), "{}: {error}", received.escape_ascii());
    assert!(error.to_string().contains(rule.sentence()) && error.to_string().len() < 300);
}

#[track_caller]
fn refuses_response(received: impl AsRef<[u8]>, rule: Rule) {
    let received = received.as_ref();
    let error =
        parse_response(received, &mut HeadProgress::default(), &mut Vec::new(), &HeadLimits::default()).err();
    let error = error.unwrap_or_else(|| panic!("not refused: {}", received.escape_ascii()));
    assert_eq!((error.rule, error.status()), (rule, 502), "{}", received.escape_ascii());
}

#[track_caller]
fn waits(received: impl AsRef<[u8]>) {
    let received = received.as_ref();
    let mut fields = Vec::new();
    let head = parse_request(received, &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
    assert!(matches!(head, Ok(None)), "{}: {head:?}", received.escape_ascii());
}
