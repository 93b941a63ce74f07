//! Chunked bodies: grammar, limits, trailers.

use super::*;

/// Data, trailers and the number of unread bytes.
type Body = (Vec<u8>, Vec<Vec<u8>>, usize);

/// Reads a body that arrives in pieces of this size.
fn read(body: &[u8], piece: usize) -> Result<Body, HeadError> {
    let mut reader = ChunkedReader::new(&HeadLimits::default(), false);
    let (mut data, mut fields, mut start, mut end) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        match reader.next(&body[start..end], &mut fields)? {
            Piece::Data(range) => {
                data.extend(&body[start..end][range.clone()]);
                start += range.end;
            }
            Piece::End { consumed, trailers } => {
                let text = &body[start..end][trailers];
                let lines = fields.iter().map(|field| [field.name(text), b"=", field.value(text)].concat());
                return Ok((data, lines.collect(), body.len() - start - consumed));
            }
            Piece::More { consumed } => {
                start += consumed;
                assert!(end < body.len(), "the body does not end: {}", body.escape_ascii());
                end = body.len().min(end + piece);
            }
        }
    }
}

#[track_caller]
fn body_refused(body: impl AsRef<[u8]>, rule: Rule) {
    let body = body.as_ref();
    for piece in [1, 2, 7, body.len().max(1)] {
        let error = read(body, piece).expect_err("refused");
        assert_eq!((error.rule, error.status()), (rule, rule.status()), "{}", body.escape_ascii());
    }
}

#[test]
fn data_is_found_in_place_however_it_is_split() {
    let body =
        b"5\r\nhello\r\n00A;a;b=c;d=\"e\\\"\t;\xff\"\r\n, chunked!\r\n0;last\r\nX-A: 1\r\nx-b:\r\n\r\nGET /";
    let expected = (b"hello, chunked!".to_vec(), vec![b"X-A=1".to_vec(), b"x-b=".to_vec()], b"GET /".len());
    for piece in 1..=body.len() {
        assert_eq!(read(body, piece), Ok(expected.clone()), "pieces of {piece}");
    }
    assert_eq!(read(LAST_CHUNK, 1), Ok((Vec::new(), Vec::new(), 0)));
}

#[test]
fn a_chunk_size_is_a_hexadecimal_number_of_64_bits() {
    for line in
        ["", " 5", "+5", "-5", "0x5", "g", "10000000000000000", "0010000000000000000", "5,", ";a", "_5"]
    {
        body_refused(format!("{line}\r\nhello\r\n0\r\n\r\n"), Rule::ChunkSize);
    }
    for line in ["5 ", "5 ;a", "5\t  ", "5 \t;a=b"] {
        let body = format!("{line}\r\nhello\r\n0\r\n\r\n");
        assert_eq!(read(body.as_bytes(), 1).map(|(data, ..)| data), Ok(b"hello".to_vec()), "{line:?}");
    }
    body_refused(format!("5{}\r\nhello\r\n0\r\n\r\n", " ".repeat(16_385)), Rule::ChunkExtensionsTooLarge);
    // RFC 9112 §7.1 names no most of them.
    for zeros in [15, 16, 17, 1_000] {
        let zeros = "0".repeat(zeros);
        let body = format!("{zeros}5\r\nhello\r\n{zeros}\r\n\r\n");
        assert_eq!(read(body.as_bytes(), 1).map(|(data, ..)| data), Ok(b"hello".to_vec()), "{zeros}");
    }
    body_refused(format!("{}\r\n\r\n", "0".repeat(16_401)), Rule::ChunkExtensionsTooLarge);
    let mut reader = ChunkedReader::new(&HeadLimits::default(), false);
    let huge = reader.next(b"FFFFFFFFFFFFFFFF\r\nab", &mut Vec::new());
    assert_eq!(huge, Ok(Piece::Data(18..20)));
}

#[test]
fn chunks_have_exact_line_ends() {
    body_refused("5\nhello\r\n0\r\n\r\n", Rule::LineEnd);
    body_refused("5\rhello\r\n0\r\n\r\n", Rule::LineEnd);
    body_refused("5\r\rhello\r\n0\r\n\r\n", Rule::LineEnd);
    body_refused("5;a\nhello\r\n0\r\n\r\n", Rule::LineEnd);
    body_refused("5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", Rule::LineEnd);
    body_refused("5\r\nhello0\r\n\r\n", Rule::ChunkEnd);
    body_refused("5\r\nhello\n0\r\n\r\n", Rule::ChunkEnd);
    body_refused("5\r\nhello\rX0\r\n\r\n", Rule::ChunkEnd);
    body_refused("5\r\nhello!\r\n0\r\n\r\n", Rule::ChunkEnd);
    body_refused("0\r\n\n", Rule::LineEnd);
    body_refused("0\r\n\rX\n", Rule::LineEnd);
}

#[test]
fn extensions_have_their_grammar() {
    for extension in [
        ";",
        ";;",
        ";a;",
        ";=b",
        ";a=",
        ";a=;b",
        "; a",
        ";a =b",
        ";a= b",
        ";a=\"b",
        ";a=\"b\"c",
        ";a=b\"c\"",
        ";\u{e9}",
        ";a=\"\x01\"",
        ";a=\"\\\x7f\"",
        ";a=(",
        ";a=b=c",
    ] {
        // An open string goes on in the next line, where its end is wrong.
        body_refused(format!("5{extension}\r\nhello\r\n0\r\n\r\n"), Rule::ChunkExtension);
    }
    for extension in [";a", ";a=b", ";a=\"\"", ";a=\"b;c\\\\\"", ";a;b;c=d"] {
        assert!(read(format!("0{extension}\r\n\r\n").as_bytes(), 1).is_ok(), "{extension}");
    }
}

#[test]
fn extensions_are_limited() {
    let extension = |length: usize| format!(";{}", "a".repeat(length - 1));
    assert!(read(format!("0{}\r\n\r\n", extension(256)).as_bytes(), 7).is_ok());
    assert!(read(format!("0{0}{0}\r\n\r\n", extension(256)).as_bytes(), 7).is_ok());
    body_refused(format!("0{}\r\n\r\n", extension(257)), Rule::ChunkExtensionTooLong);
    let chunks = |count: usize| format!("1{}\r\na\r\n", extension(256)).repeat(count) + "0\r\n\r\n";
    assert!(read(chunks(64).as_bytes(), 1_000).is_ok());
    body_refused(chunks(65), Rule::ChunkExtensionsTooLarge);
}

#[test]
fn trailers_are_never_framing_host_or_routing() {
    for name in [
        "Content-Length",
        "Transfer-Encoding",
        "Host",
        "Connection",
        "Upgrade",
        "TE",
        "Expect",
        "Keep-Alive",
        "Proxy",
        "Proxy-Authorization",
        "Forwarded",
        "X-Forwarded-For",
        "X-Real-IP",
        "Authorization",
        "Cookie",
        "Set-Cookie",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Cache-Control",
        "Trailer",
    ] {
        body_refused(format!("0\r\nX-A: 1\r\n{name}: 1\r\n\r\n"), Rule::Trailer);
        // Of a response they are dropped: all of its content was sent.
        let response = format!("0\r\nX-A: 1\r\n{name}: 1\r\n\r\n");
        let mut fields = Vec::new();
        let end = ChunkedReader::new(&HeadLimits::default(), true).next(response.as_bytes(), &mut fields);
        assert!(matches!(end, Ok(Piece::End { .. })), "{name}: {end:?}");
        let forwarded: Vec<_> = fields.iter().map(|field| field.kind().is_forwarded()).collect();
        assert_eq!(forwarded, [true, false], "{name}");
        body_refused(format!("0\r\n{}: 1\r\n\r\n", name.to_lowercase()), Rule::Trailer);
    }
    body_refused("0\r\n a: b\r\n\r\n", Rule::Folded);
    body_refused("0\r\na : b\r\n\r\n", Rule::FieldName);
    body_refused("0\r\nGET / HTTP/1.1\r\n\r\n", Rule::FieldName);
}

#[test]
fn trailers_have_the_limits_of_a_head() {
    let many = |count: usize| format!("0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(read(many(128).as_bytes(), 5).is_ok());
    body_refused(many(129), Rule::TooManyFields);
    let long = |length: usize| format!("0\r\nA: {}\r\n\r\n", "b".repeat(length - 7));
    assert!(read(long(32_768).as_bytes(), 1_000).is_ok());
    body_refused(long(32_769), Rule::HeadTooLarge);
}

#[test]
fn a_wrong_chunk_of_a_backend_is_502() {
    let mut reader = ChunkedReader::new(&HeadLimits::default(), true);
    let error = reader.next(b"x", &mut Vec::new()).expect_err("refused");
    assert_eq!((error.rule, error.status()), (Rule::ChunkSize, 502));
}

#[test]
fn chunks_are_written() {
    let mut line = [0; CHUNK_HEAD_LIMIT];
    assert_eq!(chunk_head(1, &mut line), b"1\r\n");
    assert_eq!(chunk_head(0x1f40, &mut line), b"1f40\r\n");
    assert_eq!(chunk_head(usize::MAX, &mut line), b"ffffffffffffffff\r\n");
    let body = b"0\r\nX-A:  1\r\nX_B: 2\r\nX-C: 3\r\n\r\n";
    let (mut reader, mut fields, mut out) =
        (ChunkedReader::new(&HeadLimits::default(), false), Vec::new(), Vec::new());
    let Ok(Piece::End { consumed, trailers }) = reader.next(body, &mut fields) else { panic!("whole") };
    assert_eq!(consumed, body.len());
    write_last_chunk(&mut out, &body[trailers], &fields, |_| false);
    assert_eq!(out, b"0\r\nX-A: 1\r\nX-C: 3\r\n\r\n");
}
