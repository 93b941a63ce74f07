//! Tests for the end of a body, by the fields of a head.

use super::*;

fn of_request(method: &str, version: &str, fields: &str) -> Framing {
    let received = format!("{method} / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
    with_request(received.as_bytes(), |head| head.framing)
}

#[test]
fn a_request_has_a_length_or_chunks_or_no_body() {
    assert_eq!(of_request("POST", "1.1", ""), Framing::None);
    assert_eq!(of_request("POST", "1.0", ""), Framing::None, "never until the end of the connection");
    assert_eq!(of_request("POST", "1.1", "Content-Length: 0\r\n"), Framing::Length(0));
    assert_eq!(of_request("GET", "1.1", "content-length:\t7 \r\n"), Framing::Length(7));
    let longest = "Content-Length: 9999999999999999999\r\n";
    assert_eq!(of_request("PUT", "1.1", longest), Framing::Length(9_999_999_999_999_999_999));
    assert_eq!(of_request("PUT", "1.1", "Content-Length: 0000000000000000007\r\n"), Framing::Length(7));
    assert_eq!(of_request("PUT", "1.1", "Transfer-Encoding: chunked\r\n"), Framing::Chunked);
    assert_eq!(of_request("GET", "1.1", "tRANSFER-eNCODING:CHUNKED\r\n"), Framing::Chunked);
}

#[test]
fn a_length_is_one_number() {
    for value in [
        "",
        "+5",
        "-5",
        "5,5",
        "5 5",
        "5, 5",
        "5;a",
        "0x5",
        "5.0",
        "\u{b2}",
        "1e3",
        "5\u{a0}",
        "00000000000000000005",
        "18446744073709551616",
    ] {
        refuses(get(&format!("Content-Length: {value}\r\n")), Rule::LengthSyntax, 400);
        refuses_response(format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n"), Rule::LengthSyntax);
    }
    let twice = "Content-Length: 5\r\ncontent-length: 5\r\n";
    refuses(get(twice), Rule::LengthRepeated, 400);
    refuses_response(format!("HTTP/1.1 200 OK\r\n{twice}\r\n"), Rule::LengthRepeated);
}

#[test]
fn a_coding_is_one_chunked() {
    for value in [
        "",
        "identity",
        "gzip, chunked",
        "chunked, gzip",
        "chunked,chunked",
        ",chunked",
        "chunked,",
        "chunked;a=b",
        "identity, chunked",
        "xchunked",
        "\"chunked\"",
        "chunked\u{a0}",
    ] {
        let field = format!("Transfer-Encoding: {value}\r\n");
        refuses(get(&field), Rule::Coding, 501);
        refuses_response(format!("HTTP/1.1 200 OK\r\n{field}\r\n"), Rule::Coding);
    }
    refuses(get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Rule::Coding, 501);
    refuses(get("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), Rule::Coding, 501);
}

#[test]
fn a_length_and_a_coding_are_refused_together() {
    refuses(get("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), Rule::LengthWithCoding, 400);
    refuses(get("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n"), Rule::LengthWithCoding, 400);
}

#[test]
fn http_1_0_has_no_coding_and_few_bodies() {
    let old = |method: &str, fields: &str| format!("{method} / HTTP/1.0\r\nHost: a\r\n{fields}\r\n");
    refuses(old("POST", "Transfer-Encoding: chunked\r\n"), Rule::CodingInOldVersion, 400);
    refuses_response("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Rule::CodingInOldVersion);
    for method in ["GET", "HEAD", "DELETE"] {
        refuses(old(method, "Content-Length: 5\r\n"), Rule::BodyInOldVersion, 413);
        assert_eq!(of_request(method, "1.0", "Content-Length: 0\r\n"), Framing::Length(0));
    }
    assert_eq!(of_request("POST", "1.0", "Content-Length: 5\r\n"), Framing::Length(5));
}

#[test]
fn a_response_ends_by_method_status_and_fields() {
    let of = |status: u16, fields: &str, method| {
        let received = format!("HTTP/1.1 {status} a\r\n{fields}\r\n");
        with_response(received.as_bytes(), |head| head.framing(method))
    };
    let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
    for status in [100, 101, 103, 199, 204, 304] {
        for fields in ["", length, chunked] {
            assert_eq!(of(status, fields, Method::GET), Framing::None, "{status} {fields}");
        }
    }
    for status in [200, 205, 206, 302, 404, 500] {
        assert_eq!(of(status, "", Method::GET), Framing::UntilClose);
        assert_eq!(of(status, length, Method::GET), Framing::Length(5));
        assert_eq!(of(status, chunked, Method::GET), Framing::Chunked);
        assert_eq!(of(status, chunked, Method::HEAD), Framing::None);
    }
    assert_eq!(of(200, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Method::GET), Framing::Chunked);
}

#[test]
fn a_doubtful_response_ends_its_connection() {
    let open = |line: &str, fields: &str| {
        with_response(format!("HTTP/{line} a\r\n{fields}\r\n").as_bytes(), |head| head.keeps_open)
    };
    assert!(open("1.1 200", "Content-Length: 5\r\n") && open("1.1 204", "Content-Length: 0\r\n"));
    assert!(!open("1.1 200", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"));
    assert!(!open("1.1 204", "Content-Length: 5\r\n") && !open("1.1 103", "Transfer-Encoding: chunked\r\n"));
    assert!(!open("1.1 200", "Connection: close\r\n") && !open("1.0 200", ""));
    assert!(open("1.0 200", "Connection: keep-alive\r\n"));
}

#[test]
fn interim_responses_are_not_the_last() {
    let is_interim = |status: u16| {
        with_response(format!("HTTP/1.1 {status} a\r\n\r\n").as_bytes(), |head| head.is_interim())
    };
    assert!([100, 102, 103, 199].into_iter().all(is_interim));
    assert!(![101, 200, 204, 304, 999].into_iter().any(is_interim));
}

#[test]
fn a_length_is_announced_where_no_body_follows() {
    let announced = |status: u16, fields: &str, method| {
        let received = format!("HTTP/1.1 {status} a\r\n{fields}\r\n");
        with_response(received.as_bytes(), |head| head.announced_length(method))
    };
    let length = "Content-Length: 5\r\n";
    assert_eq!(announced(200, length, Method::HEAD), Some(5));
    assert_eq!(announced(304, length, Method::GET), Some(5));
    assert_eq!(announced(204, length, Method::HEAD), None);
    assert_eq!(announced(103, length, Method::GET), None);
    assert_eq!(announced(200, "", Method::HEAD), None);
}

#[test]
fn framing_is_translated_for_the_client() {
    assert_eq!(Framing::UntilClose.for_client(Version::Http11), Framing::Chunked);
    assert_eq!(Framing::Chunked.for_client(Version::Http10), Framing::UntilClose);
    for version in [Version::Http10, Version::Http11] {
        assert_eq!(Framing::Length(5).for_client(version), Framing::Length(5));
        assert_eq!(Framing::None.for_client(version), Framing::None);
    }
}

#[test]
fn bodies_are_read_by_length_and_until_close() {
    let limits = HeadLimits::default();
    let mut none = Vec::new();
    let mut reader = BodyReader::new(Framing::Length(5), &limits, false);
    assert_eq!(reader.next(b"", &mut none), Ok(Piece::More { consumed: 0 }));
    assert_eq!(reader.next(b"ab", &mut none), Ok(Piece::Data(0..2)));
    assert!(!reader.ends_with_connection());
    assert_eq!(reader.next(b"cdeGET", &mut none), Ok(Piece::Data(0..3)));
    assert_eq!(reader.next(b"GET", &mut none), Ok(Piece::End { consumed: 0, trailers: 0..0 }));
    let mut reader = BodyReader::new(Framing::UntilClose, &limits, true);
    assert_eq!(reader.next(b"ab", &mut none), Ok(Piece::Data(0..2)));
    assert_eq!(reader.next(b"", &mut none), Ok(Piece::More { consumed: 0 }));
    assert!(reader.ends_with_connection());
    let mut reader = BodyReader::new(Framing::None, &limits, true);
    assert_eq!(reader.next(b"HTTP", &mut none), Ok(Piece::End { consumed: 0, trailers: 0..0 }));
}
