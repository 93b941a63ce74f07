//! Requests out of fields.

use super::*;
use crate::http1::{Framing, OwnedRequest, Underscores, write_fields};

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")];

/// Calls this with the head of a request in each of its forms.
fn with_request(fields: &Pairs<'_>, has_content: bool, look: impl Fn(&RequestHead<'_>)) {
    for mut head in heads(Part::Request, fields, &HeadLimits::default()) {
        look(
            &head.request(has_content, Some("a2V5")).unwrap_or_else(|fault| panic!("{fields:?}: {fault:?}")),
        );
    }
}

#[test]
fn a_request_has_its_parts() {
    let fields = [
        (":method", "GET"),
        (":authority", "A.example:8443"),
        (":scheme", "https"),
        (":path", "/a?b"),
        ("accept", "*/*"),
        ("cookie", "a=1"),
        ("x-forwarded-for", "192.0.2.1"),
        ("cookie", "b=2; c=3"),
        ("x-empty", ""),
        ("x_a", "1"),
        ("proxy-authorization", "x"),
        ("te", "trailers"),
        ("expect", "100-continue"),
    ];
    with_request(&fields, false, |head| {
        assert_eq!(described(head), "GET /a?b A.example:8443 None true true None");
        assert_eq!((head.version, head.keeps_open), (crate::http1::Version::Http11, true));
        let expected = [
            "host: A.example:8443 (Host)",
            "accept: */*",
            "x-forwarded-for: 192.0.2.1 (Forwarding)",
            "x-empty: ",
            "x_a: 1 (Underscore)",
            "proxy-authorization: x (HopByHop)",
            "te: trailers (Te)",
            "expect: 100-continue (Expect)",
            "cookie: a=1; b=2; c=3",
        ];
        assert_eq!(lines(head.text, head.fields), expected);
        let mut written = Vec::new();
        write_fields(&mut written, head.text, head.fields, |_| false);
        let expected = "host: A.example:8443\r\naccept: */*\r\nx-forwarded-for: 192.0.2.1\r\nx-empty: \r\n\
                        expect: 100-continue\r\ncookie: a=1; b=2; c=3\r\n";
        assert_eq!(String::from_utf8_lossy(&written), expected);
        let owned = OwnedRequest::new(head);
        assert_eq!(described(&owned.head()), described(head));
        assert_eq!(lines(owned.head().text, owned.head().fields), lines(head.text, head.fields));
    });
}

#[test]
fn the_stream_and_the_length_frame_the_content() {
    for (method, length, has_content, expected) in [
        ("GET", None, false, Framing::None),
        ("DELETE", None, false, Framing::None),
        ("GET", None, true, Framing::Chunked),
        ("POST", None, true, Framing::Chunked),
        ("POST", None, false, Framing::Length(0)),
        ("PUT", None, false, Framing::Length(0)),
        ("PATCH", None, false, Framing::Length(0)),
        ("POST", Some("5"), true, Framing::Length(5)),
        ("POST", Some("0"), true, Framing::Length(0)),
        ("GET", Some("0"), false, Framing::Length(0)),
    ] {
        let mut fields = GET.to_vec();
        fields[0].1 = method;
        fields.extend(length.map(|length| ("content-length", length)));
        with_request(&fields, has_content, |head| assert_eq!(head.framing, expected, "{method} {length:?}"));
    }
}

/// RFC 8441 §5.
#[test]
fn websocket_in_a_stream_becomes_an_upgrade() {
    let fields = |protocol| {
        [
            (":method", "CONNECT"),
            (":protocol", protocol),
            (":scheme", "https"),
            (":path", "/chat?x"),
            (":authority", "a.example"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("cookie", "a=1"),
        ]
    };
    let common = ["host: a.example (Host)", "sec-websocket-version: 13"];
    let own = ["cookie: a=1", "sec-websocket-key: a2V5"];
    let of_client = ["sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", "cookie: a=1"];
    for (protocol, more, upgrade) in [
        ("websocket", own, "Some(\"websocket\")"),
        ("WebSocket", own, "Some(\"WebSocket\")"),
        ("connect-udp", of_client, "Some(\"connect-udp\")"),
        // Its requests would bypass all rules.
        ("h2c", of_client, "None"),
    ] {
        for has_content in [true, false] {
            with_request(&fields(protocol), has_content, |head| {
                assert_eq!(described(head), format!("GET /chat?x a.example None false false {upgrade}"));
                assert_eq!(lines(head.text, head.fields), [common, more].concat());
                let owned = OwnedRequest::new(head);
                assert_eq!(described(&owned.head()), described(head));
            });
        }
    }
    for (protocol, is_websocket) in [("websocket", true), ("connect-udp", false)] {
        for head in heads(Part::Request, &fields(protocol), &HeadLimits::default()) {
            assert_eq!(head.is_websocket(), is_websocket);
        }
    }
}

/// RFC 9113 §8.3.1: both are normalised before they are compared.
#[test]
fn a_host_may_have_another_form_than_the_authority() {
    for (scheme, authority, host) in [
        ("https", "a.example", "A.Example"),
        ("https", "a.example", "a.example:443"),
        ("http", "a.example:80", "a.example"),
        ("HTTP", "a.example:80", "a.example"),
        ("https", "a.example", "a.example:"),
        ("https", "a.example", "a.example."),
        ("https", "[2001:db8::1]", "[2001:DB8:0::1]"),
    ] {
        let fields = [
            (":method", "GET"),
            (":scheme", scheme),
            (":path", "/"),
            (":authority", authority),
            ("x", "1"),
            ("host", host),
        ];
        with_request(&fields, false, |head| {
            assert_eq!(head.host.text, authority.as_bytes());
            assert_eq!(lines(head.text, head.fields), [&format!("host: {authority} (Host)"), "x: 1"]);
        });
    }
}

#[test]
fn a_host_comes_first() {
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":path", "/"), ("x", "1"), ("y", "2"), ("host", "b")];
    with_request(&fields, false, |head| {
        assert_eq!(head.host.text, b"b");
        assert_eq!(lines(head.text, head.fields), ["host: b (Host)", "x: 1", "y: 2"]);
    });
}

#[test]
fn underscores_are_dropped_refused_or_forwarded() {
    let fields = [&GET[..], &[("x_real_ip", "1")]].concat();
    for (underscores, expected) in [
        (Underscores::Drop, Ok("x_real_ip: 1 (Underscore)")),
        (Underscores::Forward, Ok("x_real_ip: 1")),
        (Underscores::Refuse, Err(Rule::Underscore)),
    ] {
        for mut head in heads(Part::Request, &fields, &HeadLimits { underscores, ..HeadLimits::default() }) {
            match (head.request(false, None), expected) {
                (Ok(head), Ok(line)) => assert_eq!(lines(head.text, head.fields)[1], line),
                (Err(HeadFault::Refused(error)), Err(rule)) => {
                    assert_eq!((error.rule, error.status()), (rule, 400))
                }
                (other, _) => panic!("{other:?}"),
            }
        }
    }
}

/// A blank at the end is no part of a value in HTTP/1.
#[test]
fn empty_crumbs_leave_no_blank() {
    for (crumbs, expected) in [
        (&["a=1", ""][..], "cookie: a=1;"),
        (&["", "a=1"], "cookie: ; a=1"),
        (&["", ""], "cookie: ;"),
        (&[""], "cookie: "),
    ] {
        let mut fields = GET.to_vec();
        fields.extend(crumbs.iter().map(|crumb| ("cookie", *crumb)));
        with_request(&fields, false, |head| assert_eq!(lines(head.text, head.fields)[1], expected));
    }
}

/// The limits, and the fields that fit exactly.
#[test]
fn limits_are_kept_to_the_byte() {
    // 4 × 32 and 42, 15, 19 and 6 bytes; then 32 and 6.
    let fields = [&GET[..], &[("cookie", "ab"), ("cookie", ""), ("x", "1")]].concat();
    let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    let exact =
        HeadLimits { head: size, start_line: "GET / HTTP/1.1\r\n".len(), fields: 4, ..HeadLimits::default() };
    for (limits, expected) in [
        (exact, None),
        (HeadLimits { head: size - 1, ..exact }, Some(Rule::HeadTooLarge)),
        (HeadLimits { start_line: exact.start_line - 1, ..exact }, Some(Rule::StartLineTooLong)),
        (HeadLimits { fields: 3, ..exact }, Some(Rule::TooManyFields)),
        (HeadLimits { fields: 0, ..exact }, Some(Rule::TooManyFields)),
    ] {
        for mut head in heads(Part::Request, &fields, &limits) {
            let rule = match head.request(false, None) {
                Ok(head) => {
                    assert_eq!(
                        lines(head.text, head.fields),
                        ["host: a.example (Host)", "x: 1", "cookie: ab;"]
                    );
                    None
                }
                Err(HeadFault::Refused(error)) => Some(error.rule),
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(rule, expected, "{limits:?}");
        }
    }
}

/// A block with one-byte references to a long field: nothing is written beyond the limit, and the rest of the block is not worth its work.
#[test]
fn a_refused_head_is_not_stored() {
    let limits = HeadLimits { head: 2_000, ..HeadLimits::default() };
    let mut decoder = Decoder::default();
    let mut head = HeadText::default();
    let long = "v".repeat(1_000);
    let refers = |count| [block(0x40, &[("x", &long)]), vec![0xBE; count]].concat();
    // 1,033 bytes each: the limit is 2,000, and eight times as much ends the connection.
    for (count, expected) in
        [(1, Ok(())), (14, Ok(())), (15, Err(HpackError::TooLarge)), (1_000, Err(HpackError::TooLarge))]
    {
        head.begin(Part::Request, &limits);
        assert_eq!(decoder.decode(&refers(count), &mut head), expected, "{count}");
        assert!(head.text.len() <= 2_000 && head.fields.len() <= 1, "{count}");
        assert!(matches!(head.fault, Some(HeadFault::Refused(error)) if error.rule == Rule::HeadTooLarge));
    }
    // Literals, kept or not, leave nothing behind.
    for pattern in [0x00, 0x40] {
        head.begin(Part::Request, &limits);
        decoder.decode(&block(pattern, &[("x", &long[..]); 10]), &mut head).expect("a field block");
        assert_eq!((head.text.len(), head.fields.len()), (1_005, 1));
    }
    // The table is kept all the same.
    head.begin(Part::Request, &limits);
    let block = [refers(14), block(0x40, &[("y", "2")])].concat();
    decoder.decode(&block, &mut head).expect("a field block");
    head.begin(Part::Response, &limits);
    decoder.decode(&[0x88, 0xBE], &mut head).expect("a field block");
    let head = head.response(false).expect("a response");
    assert_eq!(lines(head.text, head.fields), ["y: 2"]);
}

#[test]
fn a_buffer_that_was_used_is_like_a_new_one() {
    let all = [
        &GET[..],
        &[(":protocol", "websocket"), ("host", "a.example"), ("cookie", "a=1"), ("x", "1"), ("te", "gzip")],
    ]
    .concat();
    for used in [
        heads(Part::Request, &all, &HeadLimits::default()),
        heads(Part::Response, &all, &HeadLimits::default()),
    ] {
        for mut head in used {
            assert!(head.fault.is_some());
            let mut new = HeadText::default();
            for head in [&mut head, &mut new] {
                head.begin(Part::Request, &HeadLimits::default());
            }
            assert_eq!(format!("{head:?}"), format!("{new:?}"));
        }
    }
}

#[test]
fn nothing_is_allocated_once_there_is_room() {
    let fields = [
        &GET[..],
        &[("accept", "*/*"), ("cookie", "a=1"), ("cookie", "b=2"), ("x-a", "1"), ("user-agent", "test/1.0")],
    ]
    .concat();
    let mut decoder = Decoder::default();
    let mut head = HeadText::default();
    let (mut out, mut encoder, mut room) = (Vec::new(), Encoder::default(), None);
    for round in 0..50 {
        head.begin(Part::Request, &HeadLimits::default());
        let block = block(0x40, &fields);
        decoder.decode(&block, &mut head).expect("a field block");
        out.clear();
        encode_request(&mut out, &mut encoder, &head.request(false, None).expect("a request"), "https");
        let buffers =
            [&head.text, &head.cookie, &out].map(|buffer| (buffer.capacity(), buffer.as_ptr() as usize));
        let now = (buffers, head.fields.capacity(), head.fields.as_ptr() as usize, decoder.heap_bytes());
        // By then the table is full.
        if round >= 15 {
            assert_eq!(*room.get_or_insert(now), now);
        }
    }
}
