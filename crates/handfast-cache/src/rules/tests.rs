//! Tests of the rules, and the heads that all tests of this crate use.

mod by_section;
mod values;

use handfast_http::http1::{
    Field, HeadLimits, HeadProgress, RequestHead, ResponseHead, parse_request, parse_response,
};

/// A request for `/` with these field lines; a first line without a colon is `METHOD /path`.
pub(crate) fn request(lines: &str) -> RequestHead<'static> {
    let (first, rest) = start(lines, "GET /");
    let text = format!("{first} HTTP/1.1\r\nHost: example.com\r\n{}\r\n", fields(rest));
    let list: &mut Vec<Field> = Box::leak(Box::default());
    parse_request(text.leak().as_bytes(), &mut HeadProgress::default(), list, &HeadLimits::default())
        .expect("a request as the parser takes it")
        .expect("a whole request")
}

/// A response with these field lines; a first line without a colon is `STATUS reason`. Without a length its content is chunked.
pub(crate) fn response(lines: &str) -> ResponseHead<'static> {
    let (first, rest) = start(lines, "200 OK");
    let framing = if rest.to_ascii_lowercase().contains("content-length:") {
        ""
    } else {
        "Transfer-Encoding: chunked\r\n"
    };
    let text = format!("HTTP/1.1 {first}\r\n{}{framing}\r\n", fields(rest));
    let list: &mut Vec<Field> = Box::leak(Box::default());
    parse_response(text.leak().as_bytes(), &mut HeadProgress::default(), list, &HeadLimits::default())
        .expect("a response as the parser takes it")
        .expect("a whole response")
}

fn start<'a>(lines: &'a str, default: &'a str) -> (&'a str, &'a str) {
    let first = lines.lines().next().unwrap_or("").trim();
    if first.is_empty() || first.split(' ').next().is_some_and(|word| word.ends_with(':')) {
        return (default, lines);
    }
    (first, lines.split_once('\n').map_or("", |(_, rest)| rest))
}

fn fields(lines: &str) -> String {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect()
}
