//! Responses and trailer sections out of fields.

use super::*;
use crate::http1::{Framing, Method};

fn with_response(fields: &Pairs<'_>, has_content: bool, look: impl Fn(&ResponseHead<'_>)) {
    for mut head in heads(Part::Response, fields, &HeadLimits::default()) {
        look(&head.response(has_content).unwrap_or_else(|fault| panic!("{fields:?}: {fault:?}")));
    }
}

#[test]
fn a_response_has_its_parts() {
    let fields = [
        (":status", "999"),
        ("set-cookie", "a=1"),
        ("cookie", "a"),
        ("cookie", "b"),
        ("host", "a, b"),
        ("x_a", "1"),
        ("content-length", "5"),
        ("x-blanks", "\t a b "),
        ("x-blank", " "),
        ("x-control", "a\u{1}b"),
        ("sec-websocket-key", "k"),
    ];
    with_response(&fields, true, |head| {
        let expected = [
            "set-cookie: a=1",
            "cookie: a",
            "cookie: b",
            "host: a, b (Host)",
            "x_a: 1",
            "content-length: 5 (ContentLength)",
            "x-blanks: a b",
            "x-blank: ",
            "x-control: a\\x01b",
            "sec-websocket-key: k",
        ];
        assert_eq!(lines(head.text, head.fields), expected);
        assert_eq!((head.status, head.reason, head.content_length), (999, &b""[..], Some(5)));
        assert!(head.keeps_open && head.upgrade.is_none());
        let mut written = Vec::new();
        crate::http1::write_fields(&mut written, head.text, head.fields, |field| field.kind() != Kind::Other);
        let written = String::from_utf8_lossy(&written);
        assert!(written.contains("\r\nx-blanks: a b\r\nx-blank: \r\nx-control: a\x01b\r\n"), "{written}");
    });
}

#[test]
fn the_stream_frames_the_content() {
    for (status, length, has_content, method, expected) in [
        ("200", None, true, Method::GET, Framing::Chunked),
        ("200", Some("5"), true, Method::GET, Framing::Length(5)),
        ("200", Some("0"), false, Method::GET, Framing::Length(0)),
        ("200", Some("5"), false, Method::HEAD, Framing::None),
        ("204", None, true, Method::GET, Framing::None),
        ("304", Some("5"), false, Method::GET, Framing::None),
        ("103", None, true, Method::GET, Framing::None),
    ] {
        let fields: Vec<_> = [(":status", status)]
            .into_iter()
            .chain(length.map(|length| ("content-length", length)))
            .collect();
        with_response(&fields, has_content, |head| {
            assert_eq!(head.framing(method), expected, "{fields:?}");
            assert!(head.keeps_open);
        });
    }
}

#[test]
fn trailers_are_fields() {
    let fields = [("grpc-status", "0"), ("x-sum", " 1"), ("x_a", "1")];
    for (is_response, last) in [(false, "x_a: 1 (Underscore)"), (true, "x_a: 1")] {
        for mut head in heads(Part::Trailers { is_response }, &fields, &HeadLimits::default()) {
            let (text, fields) = head.trailers().expect("trailers");
            assert_eq!(lines(text, fields), ["grpc-status: 0", "x-sum: 1", last]);
        }
    }
}

#[test]
fn trailers_that_must_not_be_there_are_dropped_from_responses() {
    let fields =
        [("host", "a"), ("set-cookie", "a"), ("content-length", "5"), ("x-forwarded-for", "a"), ("x", "1")];
    for mut head in heads(Part::Trailers { is_response: true }, &fields, &HeadLimits::default()) {
        let (text, fields) = head.trailers().expect("trailers");
        let kept: Vec<_> = fields.iter().filter(|field| field.kind().is_forwarded()).copied().collect();
        assert_eq!(lines(text, &kept), ["x: 1"]);
    }
}
