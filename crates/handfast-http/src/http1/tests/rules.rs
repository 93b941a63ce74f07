//! The rules of heads: what is refused, with which status, and what is read.

use super::*;

#[test]
fn a_request_has_its_parts() {
    let received = b"\r\nPOST /a/../b?c=%2F HTTP/1.1\r\nhost: A.example:8443\r\nX-A: \t1, 2 \r\nX-B:\r\nX-C: \xff\r\nContent-Length: 5\r\n\r\nhello";
    with_request(received, |head| {
        assert_eq!(head.method.as_bytes(), b"POST");
        assert_eq!(head.target, Target::Origin(b"/a/../b?c=%2F"), "never normalised");
        assert_eq!(head.version, Version::Http11);
        assert_eq!(head.host, Host { text: b"A.example:8443", name: b"A.example", port: Some(8443) });
        assert_eq!(head.framing, Framing::Length(5));
        assert_eq!(head.values("x-a").collect::<Vec<_>>(), [b"1, 2"]);
        assert_eq!(head.values("x-b").collect::<Vec<_>>(), [b""]);
        assert_eq!(head.values("x-c").collect::<Vec<_>>(), [b"\xff"]);
        assert_eq!(&received[head.length..], b"hello");
        assert!(head.keeps_open);
    });
}

#[test]
fn a_line_ends_with_crlf() {
    refuses("GET / HTTP/1.1\nHost: a\r\n\r\n", Rule::LineEnd, 400);
    refuses("GET / HTTP/1.1\r\nHost: a\n\r\n", Rule::LineEnd, 400);
    refuses("GET / HTTP/1.1\r\nHost: a\r\n\n", Rule::LineEnd, 400);
    refuses("GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n", Rule::LineEnd, 400);
    refuses("GET / HTTP/1.1\r\nHost: a\rX-A: b\r\n\r\n", Rule::LineEnd, 400);
    refuses("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", Rule::LineEnd, 400);
    refuses(get("X-A\r\n"), Rule::LineEnd, 400);
    refuses(get("X\r-A: b\r\n"), Rule::LineEnd, 400);
}

#[test]
fn one_empty_line_may_come_before_a_request() {
    with_request(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", |head| assert_eq!(head.length, 29));
    refuses("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Method, 400);
    refuses("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::FirstByte, 400);
    refuses("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Method, 400);
    waits("");
    waits("\r");
    waits("\r\n");
}

#[test]
fn another_protocol_is_known_by_its_first_byte() {
    refuses([0x16, 3, 1], Rule::FirstByte, 400);
    refuses(" GET / HTTP/1.1", Rule::FirstByte, 400);
    refuses([0], Rule::FirstByte, 400);
    // … also when nothing was there at first.
    let (mut progress, mut fields) = (HeadProgress::default(), Vec::new());
    let mut rule = |received: &[u8]| {
        let head = parse_request(received, &mut progress, &mut fields, &HeadLimits::default());
        head.err().map(|error| error.rule)
    };
    assert_eq!(rule(b""), None);
    assert_eq!(rule(&[0x16]), Some(Rule::FirstByte));
    refuses("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Rule::Version, 505);
}

#[test]
fn a_method_is_a_token_and_one_space() {
    for method in ["G(ET", "GET\t", "GET ", "GÉT", "G\0T"] {
        let rule = if method == "GET " { Rule::Target } else { Rule::Method };
        refuses(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"), rule, 400);
    }
    refuses("GET\r\n", Rule::Method, 400);
    with_request(b"M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n", |head| {
        assert_eq!(head.method.as_bytes(), b"M-SEARCH");
    });
    with_request(b"get / HTTP/1.1\r\nHost: a\r\n\r\n", |head| {
        assert_eq!(head.method.as_bytes(), b"get", "methods are case-sensitive");
    });
}

#[test]
fn a_target_is_visible_ascii_without_fragment() {
    for target in ["/a#b", "/a\tb", "/\u{e9}", "/a\x7f", "/a\0", "/a b", "/a\x01HTTP/1.1", "/a\\b\r"] {
        let rule = if target == "/a b" { Rule::VersionSyntax } else { Rule::Target };
        refuses(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), rule, 400);
    }
    refuses("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Target, 400);
    let all: String = (0x21..0x7F).map(char::from).filter(|c| *c != '#').collect();
    with_request(format!("GET /{all} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), |head| {
        assert_eq!(head.target, Target::Origin(format!("/{all}").as_bytes()));
    });
}

#[test]
fn a_target_has_one_of_three_forms() {
    for target in ["a", "a/b", "*", "?a", "ftp://a/", "http:/a/", "a:443", "//a@", "htt"] {
        let received = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        match target {
            "//a@" => with_request(received.as_bytes(), |head| {
                assert_eq!(head.target, Target::Origin(b"//a@"));
            }),
            _ => refuses(received, Rule::TargetForm, 400),
        }
    }
    with_request(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", |head| {
        assert_eq!(head.target, Target::Asterisk);
    });
    refuses("OPTIONS ** HTTP/1.1\r\nHost: a\r\n\r\n", Rule::TargetForm, 400);
}

#[test]
fn hosts_have_one_canonical_form() {
    for (host, canonical) in [
        ("A.Example", Some("a.example")),
        ("a.example.", Some("a.example")),
        ("[2001:DB8:0::1]", Some("[2001:db8::1]")),
        ("192.0.2.1", Some("192.0.2.1")),
        (&"a".repeat(253), Some(&*"a".repeat(253))),
        (&"a".repeat(254), None),
    ] {
        assert_eq!(CanonicalHost::new(host.as_bytes()).as_deref(), canonical, "{host}");
    }
}

#[test]
fn an_absolute_target_has_the_authority_of_host() {
    for (url, host, authority, path) in [
        ("http://a.example/b?c", "a.example", "a.example", "/b?c"),
        ("HTTPS://A.example:8/", "a.example:8", "A.example:8", "/"),
        ("http://a", "a", "a", ""),
        ("http://a?b/c", "a", "a", "?b/c"),
        ("http://[::1]:80/", "[::1]:80", "[::1]:80", "/"),
    ] {
        with_request(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), |head| {
            let (authority, path) = (authority.as_bytes(), path.as_bytes());
            assert_eq!(
                head.target,
                Target::Absolute {
                    is_secure: url.to_ascii_lowercase().starts_with("https"),
                    authority,
                    path
                }
            );
        });
    }
    // RFC 9110 §4.2.3: the same host, written in another way.
    for (url, host) in [
        ("http://a:80/", "a"),
        ("http://a/", "a:80"),
        ("https://a:443/", "a"),
        ("http://a:/", "a:80"),
        ("http://a./", "A"),
        ("http://[0::1]/", "[::1]:80"),
    ] {
        with_request(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), |head| {
            assert_eq!(head.host.text, host.as_bytes());
        });
    }
    for url in [
        "http://b/",
        "http://a:81/",
        "https://a:80/",
        "http:///",
        "http://u@a/",
        "http://a@b/",
        "http://a\\@b/",
    ] {
        refuses(format!("GET {url} HTTP/1.1\r\nHost: a\r\n\r\n"), Rule::HostMismatch, 400);
    }
}

#[test]
fn connect_is_refused() {
    refuses("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", Rule::Connect, 405);
    refuses("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::Connect, 405);
}

#[test]
fn a_higher_minor_version_is_read_as_1_1() {
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/9.9"] {
        refuses(format!("GET / {version}\r\nHost: a\r\n\r\n"), Rule::Version, 505);
    }
    for version in [
        "",
        "HTTP/1",
        "HTTP/1.1 ",
        " HTTP/1.1",
        "http/1.1",
        "HTTP/1.1\t",
        "HTTP/01.1",
        "HTTP/1.11",
        "HTTP/1,1",
    ] {
        refuses(format!("GET / {version}\r\nHost: a\r\n\r\n"), Rule::VersionSyntax, 400);
    }
    refuses("GET /\r\nHost: a\r\n\r\n", Rule::Target, 400);
    for (version, read) in [("1.0", Version::Http10), ("1.2", Version::Http11), ("1.9", Version::Http11)] {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
        with_request(text.as_bytes(), |head| assert_eq!(head.version, read));
    }
}

#[test]
fn a_name_is_a_token_with_a_colon_behind_it() {
    for line in [
        "X A: b",
        "X-A : b",
        "X-A\t: b",
        ": b",
        "X(A: b",
        "X\u{e9}: b",
        "X\0: b",
        "X-A",
        "\x01X: b",
        "[X]: b",
    ] {
        let rule = if line == "X-A" { Rule::LineEnd } else { Rule::FieldName };
        refuses(get(&format!("{line}\r\n")), rule, 400);
    }
    let all = "!#$%&'*+-.^`|~0aZ";
    with_request(&get(&format!("{all}: b\r\n")), |head| assert_eq!(head.values(all).count(), 1));
}

#[test]
fn a_value_has_no_control_byte_but_the_tab() {
    for byte in (0..0x20).chain([0x7F]).filter(|byte| !b"\t\r\n".contains(byte)) {
        for padding in 0..20 {
            let value = format!("{}{}b", "a".repeat(padding), char::from(byte));
            refuses(get(&format!("X-A: {value}\r\n")), Rule::FieldValue, 400);
        }
    }
    for byte in (0x20..=0xFF_u8).filter(|byte| *byte != 0x7F) {
        let mut received = b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\t".to_vec();
        received.extend([byte, b'c']);
        received.extend(b"\r\n\r\n");
        with_request(&received, |head| {
            assert_eq!(head.values("X-A").next(), Some(&[b'b', b'\t', byte, b'c'][..]));
        });
    }
}

#[test]
fn lines_are_not_folded() {
    refuses(get(" X-A: b\r\n"), Rule::Folded, 400);
    refuses(get("X-A: b\r\n c\r\n"), Rule::Folded, 400);
    refuses(get("X-A: b\r\n\t\r\n"), Rule::Folded, 400);
    refuses("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Rule::Folded, 400);
}

#[test]
fn there_is_exactly_one_host() {
    refuses("GET / HTTP/1.1\r\n\r\n", Rule::HostMissing, 400);
    refuses("GET http://a/ HTTP/1.1\r\n\r\n", Rule::HostMissing, 400);
    refuses("GET / HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n", Rule::HostRepeated, 400);
    refuses("GET / HTTP/1.1\r\nHost: a\r\nHost:\r\n\r\n", Rule::HostRepeated, 400);
}

/// As health checks send it (RFC 9112 §3.2 requires the field of HTTP/1.1 alone).
#[test]
fn the_old_version_need_not_name_a_host() {
    for (target, host) in [("/", ""), ("*", ""), ("http://a:8/", "a:8")] {
        with_request(format!("OPTIONS {target} HTTP/1.0\r\n\r\n").as_bytes(), |head| {
            assert_eq!((head.host.text, head.host.is_none()), (host.as_bytes(), host.is_empty()));
        });
    }
    refuses("GET / HTTP/1.0\r\nHost:\r\n\r\n", Rule::HostSyntax, 400);
}

#[test]
fn a_host_is_a_name_or_address_with_an_optional_port() {
    for host in [
        "",
        ":80",
        "a:b",
        "a:65536",
        "a:-1",
        "a:80:80",
        "u@a",
        "a/b@c",
        "a/b",
        "a b",
        "a,b",
        "a?b",
        "a%41",
        "[::1",
        "::1",
        "[::1]a",
        "[v1.a]",
        "[1.2.3.4]",
        "[::1%25eth0]",
        "http://a",
        "a\u{e9}",
        "*",
        ".",
        ".a",
        "a..",
        "a..b",
    ] {
        refuses(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), Rule::HostSyntax, 400);
    }
    for (host, name, port) in [
        ("a", "a", None),
        ("a_b.Example.:0", "a_b.Example.", Some(0)),
        ("192.0.2.1:65535", "192.0.2.1", Some(65_535)),
        ("[2001:db8::1]", "[2001:db8::1]", None),
        ("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.1]", Some(1)),
    ] {
        with_request(format!("GET / HTTP/1.1\r\nHost:{host} \r\n\r\n").as_bytes(), |head| {
            let expected = Host { text: host.as_bytes(), name: name.as_bytes(), port };
            assert_eq!(head.host, expected);
        });
    }
}

#[test]
fn an_expectation_is_100_continue_and_others_are_ignored() {
    with_request(&get("Expect: 100-Continue\r\n"), |head| assert!(head.expects_continue));
    with_request(&get(""), |head| assert!(!head.expects_continue));
    with_request(b"GET / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", |head| {
        assert!(!head.expects_continue);
        assert!(!head.fields[1].kind().is_forwarded());
    });
    for value in ["", "100-continue, a", "200-ok", "100", "100-continue;a=b", "a 100-continue"] {
        with_request(
            &get(&format!("Expect: {value}\r\nExpect: 100-continue\r\nExpect: {value}\r\n")),
            |head| {
                assert!(head.expects_continue);
                let forwarded = head.fields[1..].iter().map(|field| field.kind().is_forwarded());
                assert_eq!(forwarded.collect::<Vec<_>>(), [false, true, false], "{value}");
            },
        );
        with_request(&get(&format!("Expect: {value}\r\n")), |head| {
            assert!(!head.expects_continue, "{value}")
        });
    }
    with_request(&get("Expect: 100-continue\r\nExpect: 100-continue\r\n"), |head| {
        assert!(head.fields[1].kind().is_forwarded() && !head.fields[2].kind().is_forwarded());
    });
    // RFC 9112 §5.2: 400 for a folded line, whatever its field is.
    refuses(get("Expect:\r\n 100-continue\r\n"), Rule::Folded, 400);
    refuses(get("Expect: a\r\nHost: b\r\n"), Rule::HostRepeated, 400);
}

#[test]
fn underscores_are_dropped_refused_or_forwarded() {
    let received = get("X_Real_IP: b\r\nX_1: c\r\n");
    let kinds = |underscores| {
        let (limits, mut fields) = (HeadLimits { underscores, ..HeadLimits::default() }, Vec::new());
        let head = parse_request(&received, &mut HeadProgress::default(), &mut fields, &limits);
        head.map(|head| head.map(|head| [head.fields[1].kind(), head.fields[2].kind()]))
            .map_err(|error| error.rule)
    };
    assert_eq!(kinds(Underscores::Drop), Ok(Some([Kind::Underscore; 2])));
    assert_eq!(kinds(Underscores::Refuse), Err(Rule::Underscore));
    assert_eq!(kinds(Underscores::Forward), Ok(Some([Kind::Other; 2])));
    assert_eq!(HeadLimits::default().underscores, Underscores::Drop);
    assert!(!Kind::Underscore.is_forwarded());
}

#[test]
fn limits_are_kept_to_the_byte() {
    let limits = HeadLimits { head: 100, start_line: 40, fields: 2, ..HeadLimits::default() };
    let rule = |received: &str| {
        request_error_with(received.as_bytes(), &limits).map(|error| (error.rule, error.status()))
    };
    let line = |length: usize| format!("GET /{} HTTP/1.1\r\n", "a".repeat(length - 16));
    assert_eq!(rule(&format!("{}Host: a\r\n\r\n", line(40))), None);
    assert_eq!(rule(&format!("{}Host: a\r\n\r\n", line(41))), Some((Rule::StartLineTooLong, 414)));
    assert_eq!(rule(&line(50)[..39]), None, "it might end yet");
    assert_eq!(rule(&line(50)[..40]), Some((Rule::StartLineTooLong, 414)), "it cannot end any more");
    let head = |length: usize| format!("{}Host: a\r\nX-A: {}\r\n\r\n", line(20), "b".repeat(length - 38));
    assert_eq!(head(100).len(), 100);
    assert_eq!(rule(&head(100)), None);
    assert_eq!(rule(&head(101)), Some((Rule::HeadTooLarge, 431)));
    assert_eq!(rule(&head(200)), Some((Rule::HeadTooLarge, 431)));
    assert_eq!(rule(&head(200)[..99]), None);
    assert_eq!(rule(&head(200)[..100]), Some((Rule::HeadTooLarge, 431)));
    let fields = "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n";
    assert_eq!(rule(&format!("{fields}\r\n")), None);
    assert_eq!(rule(&format!("{fields}X: c\r\n\r\n")), Some((Rule::TooManyFields, 431)));
    let default = HeadLimits::default();
    assert_eq!((default.head, default.start_line, default.fields), (32_768, 16_384, 128));
    // Wrong and too long is too long, however it arrives.
    assert_eq!(rule(&format!("G(T {}", "a".repeat(50))), Some((Rule::StartLineTooLong, 414)));
}

#[test]
fn connection_fields_are_read() {
    let open = |version: &str, connection: &str| {
        let received = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
        with_request(received.as_bytes(), |head| head.keeps_open)
    };
    assert!(open("1.1", "") && open("1.1", "Connection: keep-alive\r\n"));
    assert!(!open("1.1", "Connection: close\r\n") && !open("1.1", "Connection: keep-alive , CLOSE\r\n"));
    assert!(!open("1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
    assert!(!open("1.0", "") && open("1.0", "Connection: Keep-Alive\r\n"));
    assert!(!open("1.0", "Connection: keep-alive, close\r\n"));
}

#[test]
fn fields_that_connection_lists_are_not_forwarded() {
    let received = get(
        "X-A: 1\r\nConnection: x-a, ,close\r\nX-Forwarded-For: b\r\nconnection: X-FORWARDED-FOR, Host\r\nx-A: 2\r\n",
    );
    with_request(&received, |head| {
        let forwarded = head.fields.iter().filter(|field| field.kind().is_forwarded());
        let names: Vec<_> = forwarded.map(|field| field.name(head.text)).collect();
        assert_eq!(names, [b"Host"], "Host is forwarded whatever Connection says");
    });
    let many: Vec<String> = (0..33).map(|number| format!("X-{number}")).collect();
    refuses(get(&format!("Connection: {}\r\n", many.join(","))), Rule::ConnectionOptions, 400);
    with_request(&get(&format!("Connection: {}\r\n", many[..32].join(","))), |_| ());
}

#[test]
fn hop_by_hop_fields_are_not_forwarded() {
    let names = [
        "Connection",
        "Keep-Alive",
        "Proxy",
        "PROXY",
        "Proxy-Connection",
        "Proxy-Authorization",
        "Proxy-Authenticate",
        "TE",
        "Upgrade",
        "HTTP2-Settings",
        "Transfer-Encoding",
        "Content-Length",
        "X_Y",
    ];
    for name in names {
        let value = if name == "Transfer-Encoding" { "chunked" } else { "1" };
        with_request(&get(&format!("{name}: {value}\r\n")), |head| {
            assert!(!head.fields[1].kind().is_forwarded(), "{name}");
        });
    }
    for name in
        ["Prox", "Proxys", "TEE", "Accept", "Trailer", "Cookie", "X-Upgrade", "Expec", "Connections", "Via"]
    {
        with_request(&get(&format!("{name}: 1\r\n")), |head| {
            assert_eq!(head.fields[1].kind(), Kind::Other, "{name}");
        });
    }
    for name in ["Forwarded", "x-forwarded-for", "X-FORWARDED-ANYTHING", "X-Real-IP"] {
        with_request(&get(&format!("{name}: 1\r\n")), |head| {
            assert_eq!(head.fields[1].kind(), Kind::Forwarding, "{name}");
        });
    }
}

#[test]
fn an_upgrade_needs_both_fields_and_is_never_h2c() {
    let upgrade = |received: &[u8]| with_request(received, |head| head.upgrade.map(<[u8]>::to_vec));
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(upgrade(&get(fields)).as_deref(), Some(&b"websocket"[..]));
    for fields in [
        "Upgrade: websocket\r\n",
        "Connection: Upgrade\r\n",
        "Connection: Upgrade\r\nUpgrade:\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket, H2C\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: a\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: a\r\nUpgrade: a\r\n",
    ] {
        assert_eq!(upgrade(&get(fields)), None, "{fields}");
    }
    for framing in ["Content-Length: 1\r\n", "Transfer-Encoding: chunked\r\n"] {
        assert!(upgrade(&get(&format!("{fields}{framing}"))).is_some(), "RFC 9110 §7.8 allows content");
    }
    assert_eq!(upgrade(format!("GET / HTTP/1.0\r\nHost: a\r\n{fields}\r\n").as_bytes()), None);
}

#[test]
fn trailers_are_accepted_by_te() {
    let accepts = |fields: &str| with_request(&get(fields), |head| head.accepts_trailers);
    assert!(accepts("TE: trailers\r\n") && accepts("Te: gzip;q=0.5, Trailers\r\n"));
    assert!(!accepts("") && !accepts("TE: gzip\r\n") && !accepts("TE: trailers;q=0\r\n"));
}

#[test]
fn a_status_line_has_its_parts() {
    for (line, version, status, reason) in [
        ("HTTP/1.1 200 OK", Version::Http11, 200, "OK"),
        ("HTTP/1.0 404 Not\tFound \u{e9}", Version::Http10, 404, "Not\tFound \u{e9}"),
        ("HTTP/1.1 204 ", Version::Http11, 204, ""),
        ("HTTP/1.1 999", Version::Http11, 999, ""),
        ("HTTP/1.1 101  a", Version::Http11, 101, " a"),
        // As nginx and HAProxy read them too.
        ("HTTP/1.2 200 OK", Version::Http11, 200, "OK"),
        ("HTTP/2.0 200 OK", Version::Http11, 200, "OK"),
        ("HTTP/1.1  200 OK", Version::Http11, 200, "OK"),
        ("HTTP/1.1\t200 OK", Version::Http11, 200, "OK"),
        ("HTTP/1.1 200 a\x01b", Version::Http11, 200, "a\x01b"),
    ] {
        with_response(format!("{line}\r\n\r\n").as_bytes(), |head| {
            assert_eq!((head.version, head.status, head.reason), (version, status, reason.as_bytes()));
        });
    }
    for line in [
        "HTTP/0.9 200 OK",
        "HTTP/2 200",
        "HTTP/1.1 20",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 a",
        "HTTP/1.1 200OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "Http/1.1 200 OK",
    ] {
        refuses_response(format!("{line}\r\n\r\n"), Rule::StatusLine);
    }
    refuses_response("HTTP/1.1 200 a\0b\r\n\r\n", Rule::LineEnd);
    refuses_response("\r\nHTTP/1.1 200 OK\r\n\r\n", Rule::FirstByte);
    refuses_response("SSH-2.0", Rule::FirstByte);
}

#[test]
fn fields_of_a_response_have_the_same_rules() {
    refuses_response("HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", Rule::LineEnd);
    refuses_response("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Rule::Folded);
    refuses_response("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", Rule::FieldName);
    refuses_response("HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", Rule::FieldValue);
    refuses_response(format!("HTTP/1.1 200 {}", "a".repeat(16_384)), Rule::StartLineTooLong);
    refuses_response(format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(32_768)), Rule::HeadTooLarge);
    refuses_response(format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(129)), Rule::TooManyFields);
    let received = b"HTTP/1.1 200 OK\r\nHost: a\r\nHost: b\r\nExpect: c\r\n\r\n";
    with_response(received, |head| assert_eq!(head.fields.len(), 3, "these mean nothing in a response"));
}

/// RFC 9112 §2.2; RFC 9110 §5.5. Programs that print their own head send such a one, and nginx and HAProxy take it.
#[test]
fn a_backend_may_end_lines_with_lf_alone() {
    let received = b"HTTP/1.1 200 OK\nA: b\nC:d\x01\r\nE:\n\nbody";
    with_response(received, |head| {
        let fields = head.fields.iter().map(|field| (field.name(head.text), field.value(head.text)));
        assert!(fields.eq([(&b"A"[..], &b"b"[..]), (b"C", b"d\x01"), (b"E", b"")]));
        assert_eq!((head.reason, &received[head.length..]), (&b"OK"[..], &b"body"[..]));
        // The forwarded head has separate line ends.
        let mut out = Vec::new();
        write_fields(&mut out, head.text, head.fields, |_| false);
        assert_eq!(out, b"A: b\r\nC: d\x01\r\nE: \r\n");
    });
    refuses("GET / HTTP/1.1\r\nHost: a\nB: c\r\n\r\n", Rule::LineEnd, 400);
    refuses("GET / HTTP/1.1\nHost: a\n\n", Rule::LineEnd, 400);
}

#[test]
fn every_rule_has_a_status_and_a_sentence() {
    for rule in Rule::ALL {
        assert!((400..=505).contains(&rule.status()), "{rule:?}");
        assert!(!rule.sentence().ends_with('.'), "{rule:?}");
    }
}

#[test]
fn an_excerpt_is_short_and_escaped() {
    let error = request_error_with(&get("X-Control: a\x1b[31mb\r\n"), &HeadLimits::default());
    let error = error.expect("refused");
    let expected =
        "a field value has a control byte, at byte 45: \"le\\r\\nX-Control: a\\x1b[31mb\\r\\n\\r\\n\"";
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.excerpt().len(), 26);
}
