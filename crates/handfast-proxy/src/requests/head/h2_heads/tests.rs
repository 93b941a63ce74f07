//! Heads from HTTP/2 to text and back.

use handfast_http::http1::{Rule, parse_response};

use super::*;

const LIMITS: HeadLimits =
    HeadLimits { head: 1000, start_line: 500, fields: 20, underscores: Underscores::Drop };

/// A request as the `h2` crate has it.
fn head(method: &str, uri: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

/// The lines of its text.
fn lines(request: &Request<()>, has_content: bool) -> Vec<String> {
    let text = request_text(request, has_content).unwrap_or_else(|fault| panic!("{fault:?}"));
    let text = String::from_utf8(text).expect("text");
    let lines = text.strip_suffix("\r\n\r\n").expect("an end").split("\r\n");
    lines.map(str::to_owned).collect()
}

#[test]
fn a_request_becomes_text() {
    let length = ("content-length", "5");
    let crumbs = [("cookie", "a=1"), ("x", "1"), ("cookie", "b=2; c=3"), ("x", "2")];
    for (method, uri, fields, has_content, expected) in [
        ("GET", "https://a.example/b?c", &[][..], false, &["GET /b?c HTTP/1.1", "host: a.example"][..]),
        ("GET", "https://a.example:8443", &[], false, &["GET / HTTP/1.1", "host: a.example:8443"]),
        ("OPTIONS", "*", &[("host", "a")], false, &["OPTIONS * HTTP/1.1", "host: a"]),
        ("x-any", "/", &[("host", "A.example")], false, &["x-any / HTTP/1.1", "host: A.example"]),
        (
            "GET",
            "https://a.example/",
            &[("host", "A.Example")],
            false,
            &["GET / HTTP/1.1", "host: a.example"],
        ),
        ("PUT", "/", &[("host", "a"), length], true, &["PUT / HTTP/1.1", "host: a", "content-length: 5"]),
        ("PUT", "/", &[("host", "a")], true, &["PUT / HTTP/1.1", "host: a", "transfer-encoding: chunked"]),
        ("PUT", "/", &[("host", "a")], false, &["PUT / HTTP/1.1", "host: a", "content-length: 0"]),
        ("POST", "/", &[("host", "a")], false, &["POST / HTTP/1.1", "host: a", "content-length: 0"]),
        ("PATCH", "/", &[("host", "a")], false, &["PATCH / HTTP/1.1", "host: a", "content-length: 0"]),
        ("DELETE", "/", &[("host", "a")], false, &["DELETE / HTTP/1.1", "host: a"]),
        (
            "GET",
            "https://a/",
            &crumbs,
            false,
            &["GET / HTTP/1.1", "host: a", "x: 1", "x: 2", "cookie: a=1; b=2; c=3"],
        ),
        // The parser refuses it: it must not become a request for a path.
        (
            "CONNECT",
            "a.example:443",
            &[],
            true,
            &["CONNECT a.example:443 HTTP/1.1", "host: a.example:443", "transfer-encoding: chunked"],
        ),
    ] {
        assert_eq!(lines(&head(method, uri, fields), has_content), expected, "{method} {uri} {fields:?}");
    }
}

#[test]
fn a_protocol_is_a_token() {
    for (protocol, is_good) in [
        ("websocket", true),
        ("connect-udp", true),
        ("websocket\r\nX-User: admin", false),
        ("websocket\nX-User: admin", false),
        ("websocket\0", false),
        ("web socket", false),
        ("websocket, h2c", false),
        ("", false),
    ] {
        let mut request = head("CONNECT", "https://a.example/chat", &[]);
        request.extensions_mut().insert(h2::ext::Protocol::from(protocol));
        assert_eq!(request_text(&request, true).is_ok(), is_good, "{protocol:?}");
    }
}

/// RFC 9113 §8.3.1: both are normalised before they are compared.
#[test]
fn a_host_may_have_another_form_than_the_authority() {
    for (uri, host) in [
        ("https://a.example/", "A.Example"),
        ("https://a.example/", "a.example:443"),
        ("http://a.example:80/", "a.example"),
        ("https://a.example/", "a.example:"),
        ("https://[2001:db8::1]/", "[2001:DB8:0::1]"),
    ] {
        let text = request_text(&head("GET", uri, &[("host", host)]), false).expect("one host");
        let authority = uri.split('/').nth(2).unwrap_or_default();
        assert!(String::from_utf8_lossy(&text).contains(&format!("\r\nhost: {authority}\r\n")), "{host}");
    }
}

#[test]
fn what_http_1_reads_in_two_ways_does_not_become_text() {
    for (uri, fields, expected) in [
        ("/", &[][..], "it names no host"),
        ("https://a.example/", &[("host", "b.example")], ":authority and Host differ"),
        ("https://a.example/", &[("host", "a.example:80")], ":authority and Host differ"),
        ("http://a.example/", &[("host", "a.example:443")], ":authority and Host differ"),
        ("https://a.example/", &[("host", "a.example, b")], ":authority and Host differ"),
        ("/", &[("host", "a"), ("host", "a")], "there is more than one Host field"),
        ("https://a/", &[("x", "1 ")], "the value of a field begins or ends with a blank"),
        ("https://a/", &[("x", "\t1")], "the value of a field begins or ends with a blank"),
        ("https://a/", &[("cookie", " ")], "the value of a field begins or ends with a blank"),
        ("/", &[("host", "a ")], "the value of a field begins or ends with a blank"),
    ] {
        let fault = request_text(&head("GET", uri, fields), false).expect_err("a fault");
        assert_eq!((fault.status, fault.reason.side), (Some(400), Side::Client), "{uri} {fields:?}");
        assert_eq!(fault.reason.detail.as_deref(), Some(expected), "{uri} {fields:?}");
    }
}

#[test]
fn websocket_in_a_stream_becomes_an_upgrade() {
    let mut request = head("CONNECT", "https://a.example/chat?x", &[("sec-websocket-version", "13")]);
    request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    let mut found = lines(&request, true);
    let key = found.pop().expect("a key");
    assert!(key.strip_prefix("sec-websocket-key: ").is_some_and(|key| key.len() == 24), "{key}");
    assert_eq!(
        found,
        [
            "GET /chat?x HTTP/1.1",
            "host: a.example",
            "sec-websocket-version: 13",
            "connection: upgrade",
            "upgrade: websocket",
        ]
    );
}

#[test]
fn a_response_becomes_text() {
    let mut response = Response::builder().status(201).header("x", "1").header("set-cookie", "a");
    response = response.header("set-cookie", "b");
    let response = response.body(()).expect("a response");
    let fields = "HTTP/1.1 201 \r\nx: 1\r\nset-cookie: a\r\nset-cookie: b\r\n";
    for (has_content, end) in [(true, "transfer-encoding: chunked\r\n\r\n"), (false, "\r\n")] {
        assert_eq!(String::from_utf8_lossy(&response_text(&response, has_content)), format!("{fields}{end}"));
    }
    let known = Response::builder().header("content-length", "5").body(()).expect("a response");
    assert_eq!(response_text(&known, true), b"HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\n");
}

/// A request of HTTP/2: its method and target, then its fields.
fn request_fields(text: &str) -> Option<Vec<String>> {
    let request = request_of_text(text.as_bytes(), &LIMITS, "https")?;
    assert_eq!(request.version(), http::Version::HTTP_2);
    let mut found = vec![format!("{} {}", request.method(), request.uri())];
    found.extend(printed(request.headers()));
    Some(found)
}

/// Fields with the same name are next to each other.
fn printed(fields: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
    };
    fields.iter().map(line).collect()
}

#[test]
fn text_becomes_a_request() {
    let many: Vec<_> = (0..100).map(|number| format!("x-{number}: 12345678901234567890")).collect();
    for (line, fields, expected) in [
        ("GET /a?b", "", "GET https://A.example:80/a?b"),
        ("OPTIONS *", "", "OPTIONS https://A.example:80*"),
        (
            "PUT /",
            "X-A: 1\r\nx_b: 2\r\nX-A: 3\r\nContent-Length: 7\r\nTE: trailers\r\n",
            "PUT https://A.example:80/\nx-a: 1\nx-a: 3\nx_b: 2\ncontent-length: 7\nte: trailers",
        ),
        (
            "POST /",
            "Transfer-Encoding: chunked\r\nConnection: x-a, upgrade\r\nX-A: 1\r\nKeep-Alive: 1\r\nUpgrade: x\r\n",
            "POST https://A.example:80/",
        ),
        // The fields of the proxy come on top of what a client may send.
        (
            "GET /",
            &format!("{}\r\n", many.join("\r\n")),
            &format!("GET https://A.example:80/\n{}", many.join("\n")),
        ),
    ] {
        let text = format!("{line} HTTP/1.1\r\nHost: A.example:80\r\n{fields}\r\n");
        let found = request_fields(&text).map(|lines| lines.join("\n"));
        assert_eq!(found.as_deref(), Some(expected), "{text}");
    }
    for text in ["GET /<b> HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"] {
        assert_eq!(request_fields(text), None, "{text}");
    }
}

#[test]
fn text_becomes_a_response() {
    let text =
        b"HTTP/1.1 404 Not Here\r\nSet-Cookie: a\r\nX-A: 1\r\nConnection: x-a, close\r\nset-cookie: b\r\n\
                 Content-Length: 5\r\n\r\n";
    let mut fields = Vec::new();
    let head = parse_response(text, &mut HeadProgress::default(), &mut fields, &LIMITS);
    let head = head.expect("it is right").expect("a whole head");
    let kept = ["set-cookie: a", "set-cookie: b"];
    for (length, announced) in [(Some(5), &["content-length: 5"][..]), (None, &[])] {
        let found = response(&head, length).expect("HTTP/2 carries it");
        assert_eq!((found.status().as_u16(), found.version()), (404, http::Version::HTTP_2));
        assert_eq!(printed(found.headers()), [&kept[..], announced].concat());
    }
}

#[test]
fn trailers_become_text_by_the_rules_of_the_parser() {
    let trailers = |fields: &[(&'static str, &'static str)]| {
        let fields = fields.iter();
        fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    };
    let pass = |map: &HeaderMap, is_response| {
        with_trailers(map, &LIMITS, is_response, |text, found| {
            printed(&fields(text, found, |_| true).expect("HTTP/2 carries them"))
        })
    };
    let sums = trailers(&[("x-sum", "1"), ("grpc-status", "0")]);
    assert_eq!(pass(&sums, true).expect("they are right"), ["x-sum: 1", "grpc-status: 0"]);
    assert_eq!(pass(&HeaderMap::new(), true).expect("there are none"), Vec::<String>::new());
    let framing = trailers(&[("x-sum", "1"), ("content-length", "5")]);
    let fault = pass(&framing, false).expect_err("a fault");
    assert_eq!((fault.status, fault.rule), (Some(400), Some(Rule::Trailer)));
    assert_eq!(pass(&framing, true).expect("it is dropped"), ["x-sum: 1"]);
}
