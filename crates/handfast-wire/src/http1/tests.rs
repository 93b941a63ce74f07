//! Tests of HTTP/1: a request through parser and writer.

use super::*;

const BROWSER: &[u8] = b"GET /assets/app.js?v=3 HTTP/1.1\r\nHost: www.example.org\r\n\
Connection: keep-alive\r\nX-Thing:  two blanks\r\naccept: */*\r\n\r\n";

#[test]
fn a_request_is_written_again() {
    let (mut fields, mut progress) = (Vec::new(), HeadProgress::default());
    let head = parse_request(BROWSER, &mut progress, &mut fields, &HeadLimits::default());
    let head = head.expect("well-formed").expect("whole");
    let mut out = Vec::new();
    write_request_line(&mut out, &head);
    write_fields(&mut out, head.text, head.fields, |_| false);
    end_head(&mut out, &HeadEnd::new(head.framing));
    let expected = "GET /assets/app.js?v=3 HTTP/1.1\r\nHost: www.example.org\r\nX-Thing: two blanks\r\naccept: */*\r\n\r\n";
    assert_eq!(String::from_utf8(out).expect("ASCII"), expected);
}
