//! Heads written for the other side.

use super::*;

fn request(received: &[u8], drops: impl FnMut(&Field) -> bool) -> String {
    with_request(received, |head| {
        let mut out = Vec::new();
        write_request_line(&mut out, head);
        write_fields(&mut out, head.text, head.fields, drops);
        end_head(&mut out, &HeadEnd::for_backend(head));
        String::from_utf8(out).expect("UTF-8")
    })
}

#[test]
fn case_and_order_of_what_stays_are_kept() {
    let received = get(
        "x-b: 1\r\nConnection: keep-alive, x-gone\r\nX-A:  2\t\r\nX-Empty:\r\nX-Gone: 3\r\nX-Tab:\t4\r\ncontent-length: 7\r\nX-B: 5\r\n",
    );
    let expected = "GET / HTTP/1.1\r\nHost: a.example\r\nx-b: 1\r\nX-A: 2\r\nX-Empty: \r\nX-Tab: 4\r\nX-B: 5\r\nContent-Length: 7\r\n\r\n";
    assert_eq!(request(&received, |_| false), expected);
    let without_forwarding =
        request(&get("X-Forwarded-For: a\r\nX-A: b\r\n"), |field| field.kind() == Kind::Forwarding);
    assert_eq!(without_forwarding, "GET / HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\n\r\n");
}

#[test]
fn a_target_is_written_in_origin_form() {
    for (line, expected) in [
        ("GET http://a HTTP/1.0", "GET / HTTP/1.1"),
        ("GET http://a/b?c HTTP/1.1", "GET /b?c HTTP/1.1"),
        ("GET http://a?c HTTP/1.1", "GET /?c HTTP/1.1"),
        ("OPTIONS http://a HTTP/1.1", "OPTIONS * HTTP/1.1"),
        ("OPTIONS http://a/ HTTP/1.1", "OPTIONS / HTTP/1.1"),
        ("OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1"),
        ("PURGE //a/../b HTTP/1.1", "PURGE //a/../b HTTP/1.1"),
    ] {
        let written = request(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), |_| false);
        assert_eq!(written, format!("{expected}\r\nHost: a\r\n\r\n"));
    }
}

#[test]
fn an_upgrade_is_written_again() {
    let received = get("connection: upgrade\r\nupgrade: websocket\r\nSec-WebSocket-Key: a\r\n");
    let expected = "GET / HTTP/1.1\r\nHost: a.example\r\nSec-WebSocket-Key: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    assert_eq!(request(&received, |_| false), expected);
    assert_eq!(
        request(&get("Connection: Upgrade\r\nUpgrade: h2c\r\n"), |_| false),
        "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
    );
}

#[test]
fn a_head_ends_with_our_fields() {
    let written = |end: HeadEnd<'_>| {
        let mut out = Vec::new();
        end_head(&mut out, &end);
        String::from_utf8(out).expect("ASCII")
    };
    let none = HeadEnd::new(Framing::None);
    assert_eq!(written(none), "\r\n");
    assert_eq!(written(HeadEnd::new(Framing::UntilClose)), "\r\n");
    assert_eq!(
        written(HeadEnd::new(Framing::Length(u64::MAX))),
        "Content-Length: 18446744073709551615\r\n\r\n"
    );
    assert_eq!(written(HeadEnd::new(Framing::Length(0))), "Content-Length: 0\r\n\r\n");
    assert_eq!(written(HeadEnd::new(Framing::Chunked)), "Transfer-Encoding: chunked\r\n\r\n");
    assert_eq!(written(HeadEnd { announced_length: Some(5), ..none }), "Content-Length: 5\r\n\r\n");
    assert_eq!(written(HeadEnd { close: true, keep_alive: true, ..none }), "Connection: close\r\n\r\n");
    assert_eq!(written(HeadEnd { keep_alive: true, ..none }), "Connection: keep-alive\r\n\r\n");
    assert_eq!(
        written(HeadEnd { accepts_trailers: true, close: true, ..none }),
        "TE: trailers\r\nConnection: close, TE\r\n\r\n"
    );
}

#[test]
fn a_response_is_written_in_http_1_1() {
    let received =
        b"HTTP/1.0 200 All right\r\nServer: a\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n";
    let received = &[&b"HTTP/1.1"[..], &received[8..]].concat();
    with_response(received, |head| {
        let mut out = Vec::new();
        write_status_line(&mut out, head);
        write_fields(&mut out, head.text, head.fields, |_| false);
        end_head(&mut out, &HeadEnd::new(head.framing(Method::GET)));
        let expected = "HTTP/1.1 200 All right\r\nServer: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(String::from_utf8(out).expect("ASCII"), expected);
    });
}

#[test]
fn fields_of_the_proxy_cannot_end_a_line() {
    let mut out = Vec::new();
    assert!(push_field(&mut out, "X-Forwarded-For", b"192.0.2.1"));
    assert!(!push_field(&mut out, "X-Name", b"a\r\nb: c"));
    assert!(!push_field(&mut out, "X-Name", b"a\0"));
    assert!(!push_field(&mut out, "X Name", b"a"));
    assert!(!push_field(&mut out, "", b"a"));
    assert_eq!(out, b"X-Forwarded-For: 192.0.2.1\r\n");
}

#[test]
fn nothing_is_allocated_once_there_is_room() {
    let received = get(&"X-A: b\r\n".repeat(20));
    let (mut fields, mut out, mut room) = (Vec::new(), Vec::new(), None);
    for _ in 0..3 {
        out.clear();
        let head =
            parse_request(&received, &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
        let head = head.expect("well-formed").expect("whole");
        write_request_line(&mut out, &head);
        write_fields(&mut out, head.text, head.fields, |_| false);
        end_head(&mut out, &HeadEnd::new(head.framing));
        // The two buffers of the caller are all that is ever extended.
        let now = (fields.capacity(), fields.as_ptr() as usize, out.capacity(), out.as_ptr() as usize);
        assert_eq!(*room.get_or_insert(now), now);
    }
}

#[test]
fn the_end_of_a_response_depends_on_the_client() {
    let written = |received: &str, method, version, keeps_open| {
        with_response(received.as_bytes(), |head| {
            let mut out = Vec::new();
            end_head(&mut out, &HeadEnd::for_client(head, method, version, keeps_open));
            String::from_utf8(out).expect("ASCII")
        })
    };
    let (new, old, get) = (Version::Http11, Version::Http10, Method::GET);
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(written(length, get, new, true), "Content-Length: 5\r\n\r\n");
    assert_eq!(written(length, get, new, false), "Content-Length: 5\r\nConnection: close\r\n\r\n");
    assert_eq!(written(length, get, old, true), "Content-Length: 5\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(written(length, Method::HEAD, new, true), "Content-Length: 5\r\n\r\n");
    let until_close = "HTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(written(until_close, get, new, true), "Transfer-Encoding: chunked\r\n\r\n");
    assert_eq!(written(until_close, get, old, true), "Connection: close\r\n\r\n");
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n";
    assert_eq!(written(interim, get, new, false), "\r\n", "the last response says it");
    let switches = "HTTP/1.1 101 a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    assert_eq!(written(switches, get, new, false), "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
}

#[test]
fn trailers_are_announced_to_the_backend() {
    let expected = "GET / HTTP/1.1\r\nHost: a.example\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
    assert_eq!(request(&get("TE: trailers\r\nConnection: TE\r\n"), |_| false), expected);
}

#[test]
fn methods_that_may_be_repeated_are_known() {
    let is_idempotent = |method: &str| {
        let received = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        with_request(received.as_bytes(), |head| head.method.is_idempotent())
    };
    assert!(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].into_iter().all(is_idempotent));
    assert!(["QUERY", "PROPFIND", "REPORT", "SEARCH"].into_iter().all(is_idempotent));
    assert_eq!(Method::new(b"HEAD"), Some(Method::HEAD));
    assert!(["", "G T", "GET\r\n", "G/T"].iter().all(|text| Method::new(text.as_bytes()).is_none()));
    assert!(!["POST", "PATCH", "get", "LOCK"].into_iter().any(is_idempotent));
}
