//! HTTP mode reads what nginx and HAProxy read, where no reader can take it for something else: requests of HTTP/1.0 without a host,
//! other forms of the same host, higher minor versions, expectations that are unknown, frames of HTTP/2 that may be ignored, and what backends
//! write.

use std::sync::mpsc::{Receiver, sync_channel};

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::http2::*;
use super::support::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A proxy in HTTP mode with a backend that answers each head with `answer`.
struct QueriedProxy {
    proxy: Proxy,
    /// Heads that the backend received.
    heads: Receiver<String>,
    _backend: Backend,
    _folder: Folder,
}

fn stage(answer: &'static str, routes: &str) -> QueriedProxy {
    let (sender, heads) = sync_channel(16);
    let backend = Backend::start(move |peer| {
        while let Some(head) = peer.head() {
            let _ = sender.send(head);
            peer.send(answer.as_bytes());
        }
    });
    let folder = Folder::new();
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    QueriedProxy {
        proxy: Proxy::start(format!("{config}{routes}")),
        heads,
        _backend: backend,
        _folder: folder,
    }
}

/// The status of the response, and all of it.
fn query(stage: &QueriedProxy, request: &str) -> (String, String) {
    let last = "GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = query_once(stage, &format!("{request}{last}"));
    (answer.get(9..12).unwrap_or("none").to_owned(), answer)
}

fn query_once(stage: &QueriedProxy, request: &str) -> String {
    let mut client = Client::connect(stage.proxy.address(), &Trust::version(Version::Tls13).config());
    client.send(request.as_bytes());
    String::from_utf8_lossy(&client.read_to_end().bytes).into_owned()
}

#[test]
fn requests_with_another_form_of_the_host_or_version() {
    let stage = stage(OK, "");
    for (target, version, host) in [
        ("/", "1.1", "localhost:"),
        ("http://localhost:80/", "1.1", "localhost"),
        ("http://localhost/", "1.1", "localhost:80"),
        ("https://localhost:443/", "1.1", "localhost"),
        ("/", "1.2", "localhost"),
        ("/", "1.9", "localhost"),
    ] {
        let (status, answer) = query(&stage, &format!("GET {target} HTTP/{version}\r\nHost: {host}\r\n\r\n"));
        assert_eq!(status, "200", "{target} {version} {host}: {answer}");
        let head = stage.heads.recv_timeout(DEADLINE).expect("the backend receives it");
        assert!(head.starts_with("GET / HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("Host: {host}\r\n")), "what was compared is forwarded: {head}");
        assert!(stage.heads.recv_timeout(DEADLINE).expect("the next request").starts_with("GET /last "));
    }
    // Two hosts: a server may read either.
    for target in ["http://other/", "http://localhost:81/", "https://localhost:80/", "http://u@localhost/"] {
        let (status, _) = query(&stage, &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(status, "400", "{target}");
    }
}

/// HAProxy's health check, for one. It matches no route for a host, and its backend receives no host that was not compared.
#[test]
fn requests_in_the_old_version_without_a_host() {
    let routes = "[[service.route]]\nhosts = \"localhost\"\nrespond = 403\n\
                  [[service.route]]\npath = \"/moved\"\nredirect = { to = \"https://{host}/new\" }\n";
    let stage = stage(OK, routes);
    let answer = query_once(&stage, "OPTIONS / HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let head = stage.heads.recv_timeout(DEADLINE).expect("the backend receives it");
    assert!(head.starts_with("OPTIONS / HTTP/1.0\r\n"), "{head}");
    assert!(!head.to_lowercase().contains("host"), "no field names one: {head}");
    for (request, status) in [
        ("GET /moved HTTP/1.0\r\n\r\n", "400"),
        // The host of an absolute target is one, and belongs to a route; TLS was for another one.
        ("GET http://localhost/ HTTP/1.0\r\n\r\n", "403"),
        ("GET http://shop/ HTTP/1.0\r\n\r\n", "421"),
    ] {
        let answer = query_once(&stage, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    assert_eq!(query(&stage, "GET / HTTP/1.1\r\n\r\n").0, "400", "HTTP/1.1 has no such request");
}

#[test]
fn responses_of_backends() {
    for answer in [
        "HTTP/1.1 200 OK\nContent-Length: 2\nX: y\n\nok",
        "HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\u{1}b\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0 \r\n\r\n",
    ] {
        let stage = stage(answer, "");
        let (status, all) = query(&stage, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((status.as_str(), all.matches("ok").count()), ("200", 2), "{answer:?}: {all}");
        let lines = all.replace("\r\n", "");
        assert!(!lines.contains('\n'), "line ends of our own: {all:?}");
    }
}

/// RFC 9110 §10.1.1: another expectation may be ignored. It is not forwarded: a backend that answers it at once could take the content for the
/// next request.
#[test]
fn requests_with_an_unknown_expectation() {
    let stage = stage(OK, "");
    for expectation in ["other", "100-continue, other", "other 100-continue"] {
        let fields = format!("Host: localhost\r\nExpect: {expectation}");
        let (status, answer) = query(&stage, &format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n"));
        assert_eq!(status, "200", "{expectation}: {answer}");
        let head = stage.heads.recv_timeout(DEADLINE).expect("the backend receives it");
        assert!(!head.to_lowercase().contains("expect"), "{head}");
        assert!(stage.heads.recv_timeout(DEADLINE).expect("the next request").starts_with("GET /last "));
    }
}

/// A POST without its end, as fields.
fn post(more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let fields: [(&[u8], &[u8]); 4] =
        [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/")];
    fields.iter().chain(more).flat_map(|(name, value)| field(name, value)).collect()
}

fn get_with(more: &[(&[u8], &[u8])]) -> Vec<u8> {
    [get("/"), more.iter().flat_map(|(name, value)| field(name, value)).collect()].concat()
}

const WHOLE: u8 = END_STREAM | END_HEADERS;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
const CONTINUATION: u8 = 9;

/// Requests of RFC 9113 that both other proxies answer with 200, on stream 1; and content that the backend receives.
fn frames_of_requests() -> Vec<(&'static str, Vec<u8>)> {
    let head = frame(HEADERS, WHOLE, 1, &get("/"));
    let begin = frame(HEADERS, END_HEADERS, 1, &post(&[]));
    let end = frame(DATA, END_STREAM, 1, b"x");
    let block = get("/");
    let setting = |name: u16, value: u32| {
        frame(SETTINGS, 0, 0, &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
    };
    let with = |fields: &[(&[u8], &[u8])]| frame(HEADERS, WHOLE, 1, &get_with(fields));
    let host = |authority: &[u8], host: &[u8]| {
        let fields: [(&[u8], &[u8]); 5] = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":path", b"/"),
            (b":authority", authority),
            (b"host", host),
        ];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        frame(HEADERS, WHOLE, 1, &fields.flat_map(|(name, value)| field(name, value)).collect::<Vec<_>>())
    };
    vec![
        ("RFC 9113 §4.1 unknown frame type", [frame(0xbe, 0xff, 0, b"abc"), head.clone()].concat()),
        (
            "RFC 9113 §4.1 the same on a stream",
            [begin.clone(), frame(0xbe, 0xff, 1, b"abc"), end.clone()].concat(),
        ),
        ("RFC 9113 §4.1 reserved bit of a stream", frame(HEADERS, WHOLE, 0x8000_0001, &block)),
        ("RFC 9113 §4.1 unknown flags", frame(HEADERS, WHOLE | 0xd2, 1, &block)),
        (
            "RFC 9113 §6.10 CONTINUATION",
            [
                frame(HEADERS, END_STREAM, 1, &block[..7]),
                frame(CONTINUATION, 0, 1, &[]),
                frame(CONTINUATION, END_HEADERS, 1, &block[7..]),
            ]
            .concat(),
        ),
        (
            "RFC 9113 §6.1 padding",
            [begin.clone(), frame(DATA, PADDED | END_STREAM, 1, b"\x02x\0\0")].concat(),
        ),
        (
            "RFC 9113 §6.1 empty DATA and padding alone",
            [begin.clone(), frame(DATA, 0, 1, &[]), frame(DATA, PADDED, 1, b"\x02\0\0"), end.clone()]
                .concat(),
        ),
        (
            "RFC 9113 §6.2 padding and priority",
            frame(
                HEADERS,
                WHOLE | PADDED | PRIORITY,
                1,
                &[b"\x02\x80\0\0\0\x10", &block[..], b"\0\0"].concat(),
            ),
        ),
        (
            "RFC 9113 §6.3 PRIORITY of an idle stream",
            [frame(2, 0, 3, &[0, 0, 0, 0, 16]), head.clone()].concat(),
        ),
        ("RFC 9218 §7.1 PRIORITY_UPDATE", [frame(0x10, 0, 0, b"\0\0\0\x01u=1"), head.clone()].concat()),
        ("RFC 9113 §6.5.2 unknown setting", [setting(0x0a0a, 1), head.clone()].concat()),
        ("RFC 9113 §6.5.2 ENABLE_PUSH", [setting(2, 1), setting(2, 0), head.clone()].concat()),
        ("RFC 9113 §6.5.2 HEADER_TABLE_SIZE", [setting(1, 0), head.clone()].concat()),
        ("RFC 9113 §6.7 PING", [frame(PING, 0, 0, &[7; 8]), head.clone()].concat()),
        ("RFC 9113 §6.9 WINDOW_UPDATE, reserved bit", [frame(8, 0, 0, &[0x80, 0, 0, 1]), head].concat()),
        ("RFC 9113 §8.1 trailers", {
            let trailers = frame(HEADERS, WHOLE, 1, &field(b"x-sum", b"1"));
            [begin.clone(), frame(DATA, 0, 1, b"x"), trailers].concat()
        }),
        ("RFC 9113 §8.2.1 tab and no value", with(&[(b"x-a", b"1\t2"), (b"x-b", b"")])),
        ("RFC 9113 §8.2.2 te: trailers", with(&[(b"te", b"trailers")])),
        ("RFC 9113 §8.2.3 cookies", with(&[(b"cookie", b"a=1"), (b"x", b"1"), (b"cookie", b"b=2")])),
        ("RFC 9113 §8.3.1 host alone", host(b"", b"localhost")),
        ("RFC 9113 §8.3.1 both", host(b"localhost", b"localhost")),
        ("RFC 9113 §8.3.1 both, in other forms", host(b"localhost", b"LOCALHOST.:443")),
        ("RFC 9113 §8.3.1 both, with the port", host(b"localhost:443", b"localhost")),
        ("an unknown expectation", {
            let head = frame(HEADERS, END_HEADERS, 1, &post(&[(b"expect", b"other")]));
            [head, end].concat()
        }),
    ]
}

/// nginx 1.30 and HAProxy 3.2 answer these with 200, except trailers and other forms of a host, which nginx refuses.
#[test]
fn requests_in_http2() {
    let backend = Backend::start(|peer: &mut Peer| {
        while let Some(head) = peer.head() {
            if head.starts_with("POST ") {
                let mut content = Vec::new();
                while !content.ends_with(b"\r\n\r\n") {
                    content.extend(peer.read_exactly(1));
                }
                assert!(content.starts_with(b"1\r\nx\r\n0\r\n"), "{}", content.escape_ascii());
            }
            let is_joined = !head.contains("cookie") || head.contains("cookie: a=1; b=2\r\n");
            peer.send(if is_joined { OK.as_bytes() } else { b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n" });
        }
    });
    let folder = Folder::new();
    let proxy = Proxy::start(Config::to(&folder, backend.address).text("service", "mode", "http"));
    let trust = Trust::version(Version::Tls13).protocol("h2").config();
    let wrong: Vec<_> = frames_of_requests()
        .into_iter()
        .filter_map(|(what, frames)| {
            let mut client = Client::connect(proxy.address(), &trust);
            client.send(&[preface(&[]), frames].concat());
            let first = receive_one_of(&mut client, &[HEADERS, RST_STREAM, GOAWAY]);
            // A change of the table's size comes before the status.
            let is_200 = first.payload.starts_with(&[0x88]) || first.payload.starts_with(&[0x20, 0x88]);
            let is_taken = (first.kind, first.stream) == (HEADERS, 1) && is_200;
            (!is_taken).then(|| format!("{what}: frame {} {:x?}", first.kind, first.payload))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A backend by HTTP/2 without TLS, which answers each request with these frames on its stream.
fn http2_backend(answer: fn(u32) -> Vec<u8>) -> Backend {
    Backend::start(move |peer: &mut Peer| {
        peer.read_exactly(24);
        peer.send(&frame(SETTINGS, 0, 0, &[]));
        loop {
            let head = peer.read_exactly(9);
            let &[_, high, low, kind, flags, ref stream @ ..] = &head[..] else { return };
            peer.read_exactly(usize::from(high) << 8 | usize::from(low));
            match kind {
                SETTINGS if flags & ACK == 0 => peer.send(&frame(SETTINGS, ACK, 0, &[])),
                HEADERS => peer.send(&answer(u32::from_be_bytes(stream.try_into().expect("four bytes")))),
                _ => {}
            }
        }
    })
}

fn response(status: &[u8], more: &[(&[u8], &[u8])]) -> Vec<u8> {
    let fields = more.iter().flat_map(|(name, value)| field(name, value));
    field(b":status", status).into_iter().chain(fields).collect()
}

fn ok(stream: u32) -> Vec<u8> {
    let head = frame(HEADERS, END_HEADERS, stream, &response(b"200", &[]));
    [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
}

/// The name of a row, the method, the frames of the response, and the statuses with the content that the client receives.
type Row = (&'static str, &'static str, fn(u32) -> Vec<u8>, &'static str);

const RESPONSES: [Row; 14] = [
    (
        "RFC 9113 §4.1 unknown frames",
        "GET",
        |stream| [frame(0xbe, 0xff, 0, b"a"), ok(stream)].concat(),
        "200 ok",
    ),
    (
        "RFC 9113 §6.1 empty DATA",
        "GET",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"200", &[]));
            [head, frame(DATA, 0, stream, &[]), frame(DATA, PADDED | END_STREAM, stream, b"\x01ok\0")]
                .concat()
        },
        "200 ok",
    ),
    (
        "RFC 9113 §6.5.2 ENABLE_PUSH",
        "GET",
        |stream| [frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 0]), ok(stream)].concat(),
        "200 ok",
    ),
    (
        "RFC 9113 §8.1 interim",
        "GET",
        |stream| [frame(HEADERS, END_HEADERS, stream, &response(b"103", &[])), ok(stream)].concat(),
        "103 200 ok",
    ),
    (
        "RFC 9113 §8.1 trailers that must not be there",
        "GET",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"200", &[]));
            let trailers = [field(b"set-cookie", b"a=1"), field(b"x-sum", b"1")].concat();
            [head, frame(DATA, 0, stream, b"ok"), frame(HEADERS, WHOLE, stream, &trailers)].concat()
        },
        "200 ok",
    ),
    (
        "RFC 9113 §8.1 RST_STREAM behind it",
        "GET",
        |stream| [ok(stream), frame(RST_STREAM, 0, stream, &[0; 4])].concat(),
        "200 ok",
    ),
    (
        "RFC 9113 §8.2.1 blanks around a value",
        "GET",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"200", &[(b"x-a", b" 1 ")]));
            [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
        },
        "200 ok",
    ),
    (
        "RFC 9113 §8.1.1 length of a HEAD",
        "HEAD",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"200", &[(b"content-length", b"2")]));
            [head, frame(DATA, END_STREAM, stream, &[])].concat()
        },
        "200 ",
    ),
    ("content of a HEAD", "HEAD", ok, "200 "),
    (
        "RFC 9113 §8.1.1 length of a 304",
        "GET",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"304", &[(b"content-length", b"2")]));
            [head, frame(DATA, END_STREAM, stream, &[])].concat()
        },
        "304 ",
    ),
    (
        "content of a 304",
        "GET",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"304", &[(b"content-length", b"2")]));
            [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
        },
        "304 ",
    ),
    (
        "content of a 204",
        "GET",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"204", &[]));
            [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
        },
        "204 ",
    ),
    (
        "a status above 599",
        "GET",
        |stream| {
            let head = frame(HEADERS, END_HEADERS, stream, &response(b"999", &[]));
            [head, frame(DATA, END_STREAM, stream, b"ok")].concat()
        },
        "999 ok",
    ),
    (
        "RFC 9113 §6.8 GOAWAY before it",
        "GET",
        |stream| [frame(GOAWAY, 0, 0, &[stream.to_be_bytes(), [0; 4]].concat()), ok(stream)].concat(),
        "200 ok",
    ),
];

/// nginx 1.30 and HAProxy 3.2 forward these (nginx no trailers). Framing is in no doubt: the stream says where each ends.
#[test]
fn responses_in_http2() {
    let mut wrong = Vec::new();
    for (what, method, answer, expected) in RESPONSES {
        let backend = http2_backend(answer);
        let folder = Folder::new();
        let config = Config::to(&folder, backend.address).text("service", "mode", "http");
        let proxy = Proxy::start(config.text("service.http", "backend-version", "h2"));
        let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
        client
            .send(format!("{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes());
        let end = client.read_to_end();
        let text = String::from_utf8_lossy(&end.bytes).into_owned();
        let statuses: String =
            text.split("HTTP/1.1 ").skip(1).map(|head| format!("{} ", &head[..3])).collect();
        let content = if text.contains("ok") { "ok" } else { "" };
        if format!("{statuses}{content}") != expected || !end.is_clean() || text.contains("set-cookie") {
            wrong.push(format!("{what}: {text:?}, cleanly: {}", end.is_clean()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
