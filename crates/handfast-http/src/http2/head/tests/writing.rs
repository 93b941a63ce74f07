//! Field blocks of heads of HTTP/1.

use super::*;
use crate::http1::{BodyReader, Framing, HeadProgress, Piece, parse_request, parse_response};

/// Fields of a block, as a decoder of any peer has them.
fn fields_of(block: &[u8], part: Part) -> Vec<String> {
    let mut head = HeadText::default();
    head.begin(part, &HeadLimits { head: usize::MAX, fields: usize::MAX, ..HeadLimits::default() });
    Decoder::default().decode(block, &mut head).expect("a field block");
    assert_eq!(head.fault, None);
    String::from_utf8_lossy(&head.text).lines().map(str::to_owned).collect()
}

fn request(text: &str, scheme: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let head =
        parse_request(text.as_bytes(), &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
    let mut out = Vec::new();
    encode_request(&mut out, &mut Encoder::default(), &head.expect("well-formed").expect("whole"), scheme);
    let mut decoded = fields_of(&out, Part::Request);
    // Names that a decoder changes.
    decoded.iter_mut().for_each(|line| *line = line.replace("host: ", ":authority: "));
    decoded
}

#[test]
fn text_becomes_a_request() {
    for (text, scheme, expected) in [
        (
            "GET /a?b HTTP/1.1\r\nHost: A.example:80\r\n\r\n",
            "https",
            ":method: GET|:scheme: https|:authority: A.example:80|:path: /a?b",
        ),
        (
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "http",
            ":method: OPTIONS|:scheme: http|:authority: a|:path: *",
        ),
        (
            "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
            "https",
            ":method: GET|:scheme: https|:authority: a|:path: /",
        ),
        (
            "GET http://a?b HTTP/1.1\r\nHost: a\r\n\r\n",
            "https",
            ":method: GET|:scheme: https|:authority: a|:path: /?b",
        ),
        ("GET / HTTP/1.0\r\n\r\n", "https", ":method: GET|:scheme: https|:path: /"),
        (
            "PUT / HTTP/1.1\r\nX-A: 1\r\nHost: a\r\nX_B: 2\r\nX-A:  3\r\nContent-Length: 7\r\nTE: trailers\r\n\r\n",
            "https",
            ":method: PUT|:scheme: https|:authority: a|:path: /|x-a: 1|x-a: 3|content-length: 7|te: trailers",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: x-a, upgrade\r\nX-A: 1\r\nKeep-Alive: 1\r\nUpgrade: x\r\n\r\n",
            "https",
            ":method: POST|:scheme: https|:authority: a|:path: /",
        ),
    ] {
        assert_eq!(request(text, scheme).join("|"), expected, "{text}");
    }
}

#[test]
fn text_becomes_a_response() {
    let text = b"HTTP/1.1 404 Not Here\r\nSet-Cookie: a\r\nX-A: 1\r\nConnection: x-a, close\r\nset-cookie: b\x01\r\n\
                 Content-Length: 5\r\nX-B: 1\r\n\r\n";
    let mut fields = Vec::new();
    let head = parse_response(text, &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
    let head = head.expect("it is right").expect("a whole head");
    for (status, length, expected) in [
        (404, Some(5), ":status: 404|set-cookie: a|set-cookie: b|x-c: 2|content-length: 5"),
        (200, None, ":status: 200|set-cookie: a|set-cookie: b|x-c: 2"),
    ] {
        let mut out = Vec::new();
        let drops = |field: &Field| field.name(text) == b"X-B";
        let added = [("X-C", &b"2"[..])].into_iter();
        encode_response(&mut out, &mut Encoder::default(), &head, status, length, drops, added);
        assert_eq!(fields_of(&out, Part::Response).join("|"), expected);
    }
}

#[test]
fn trailers_are_written_without_those_that_are_dropped() {
    let text = b"0\r\nX-Sum: 1\r\nContent-Length: 5\r\n\r\n";
    let mut fields = Vec::new();
    let piece = BodyReader::new(Framing::Chunked, &HeadLimits::default(), true).next(text, &mut fields);
    let Ok(Piece::End { trailers, .. }) = piece else { panic!("{piece:?}") };
    let mut out = Vec::new();
    encode_trailers(&mut out, &mut Encoder::default(), &text[trailers], &fields);
    assert_eq!(fields_of(&out, Part::Trailers { is_response: true }), ["x-sum: 1"]);
}
