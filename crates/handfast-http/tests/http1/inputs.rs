//! Requests and responses that are nearly right: parts that parsers are known to read differently, and random changes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Bytes that end something, or that some parser takes for such.
const DELIMITERS: &[u8] = b"\r\n\t\0 :;,=\"\\#%/?@_-\x01\x0b\x0c\x7f\x80\xa0\xff0aA";

const LINES: &[&str] = &[
    "Host: a.example",
    "host:b",
    "Host: a.example:80",
    "Content-Length: 5",
    "content-length:\t05 ",
    "Content-Length: 5, 5",
    "Transfer-Encoding: chunked",
    "transfer-encoding: Chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding : chunked",
    "Transfer_Encoding: chunked",
    "Connection: close",
    "Connection: keep-alive, x-a",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Upgrade: h2c",
    "Expect: 100-continue",
    "TE: trailers",
    "X-A: one",
    "x-a:two",
    "X-Empty:",
    "X-Tabs:\t a\tb \t",
    "X_A: under",
    "X.!#$%&'*+^`|~9: odd",
    "X-Long: 0123456789012345678901234567890123456789012345678901234567890123456789",
    "Cookie: \u{e9}=1; b=2",
    "X-Forwarded-For: 192.0.2.1",
    " folded: a",
    "nothing",
];

const BODIES: &[&str] = &[
    "",
    "hello",
    "5\r\nhello\r\n0\r\n\r\n",
    "2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nX-Trailer: 1\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    "5\nhello\n0\n\n",
    "0\r\nContent-Length: 5\r\n\r\n",
];

/// Second request, which shows a wrong end of the first one.
pub(crate) const SECOND: &str = "GET /second HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A request with its body and a second one; often well-formed.
pub(crate) fn requests() -> impl Strategy<Value = Vec<u8>> {
    let methods =
        select(vec!["GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "M-SEARCH", "CONNECT", "get"]);
    let targets = select(vec![
        "/",
        "/a?b=c",
        "/a/../b",
        "*",
        "http://a.example/b",
        "http://a.example",
        "a",
        "/\u{e9}",
        "//a",
    ]);
    let versions = select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.1 "]);
    let lines = vec(select(LINES), 0..6);
    let framing = select(vec!["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"]);
    let parts = (methods, targets, versions, any::<bool>(), lines, framing, select(BODIES));
    parts.prop_map(|(method, target, version, has_host, lines, framing, body)| {
        let host = if has_host { "Host: a.example\r\n" } else { "" };
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        format!("{method} {target} {version}\r\n{host}{framing}{lines}\r\n{body}{SECOND}").into_bytes()
    })
}

/// A well-formed request whose body has the announced framing, and a second one.
pub(crate) fn sound_requests() -> impl Strategy<Value = Vec<u8>> {
    let methods = select(vec!["GET", "POST", "HEAD", "PUT", "DELETE", "M-SEARCH"]);
    let targets = select(vec!["/", "/a?b=c", "/a/../b", "http://a.example/b", "http://a.example?c"]);
    let chunk = (1..40_usize, select(vec!["", ";a", ";a=\"b;c\""]));
    let bodies = prop_oneof![
        Just(String::from("\r\n")),
        (0..100_usize).prop_map(|length| format!("Content-Length: {length}\r\n\r\n{}", "b".repeat(length))),
        (vec(chunk, 0..4), any::<bool>()).prop_map(|(chunks, has_trailer)| {
            let mut body = String::from("Transfer-Encoding: chunked\r\n\r\n");
            for (length, extension) in chunks {
                body += &format!("{length:X}{extension}\r\n{}\r\n", "c".repeat(length));
            }
            body + "0\r\n" + if has_trailer { "X-Trailer: d\r\n\r\n" } else { "\r\n" }
        }),
    ];
    let lines = vec(select(&LINES[18..27]), 0..6);
    (methods, targets, lines, bodies).prop_map(|(method, target, lines, body)| {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{lines}{body}{SECOND}").into_bytes()
    })
}

/// A response; often well-formed.
pub(crate) fn responses() -> impl Strategy<Value = Vec<u8>> {
    let first = select(vec![
        "HTTP/1.1 200 OK",
        "HTTP/1.0 404 Not Found",
        "HTTP/1.1 204",
        "HTTP/1.1 304 ",
        "HTTP/1.1 999 \u{e9}",
        "HTTP/1.1  200 OK",
        "HTTP/2 200 OK",
        "HTTP/1.1 20 OK",
    ]);
    (first, vec(select(LINES), 0..6)).prop_map(|(first, lines)| {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        format!("{first}\r\n{lines}\r\nhello").into_bytes()
    })
}

/// The same with up to three bytes replaced, put in or taken out.
pub(crate) fn changed(inputs: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), 0..3_u8, select(DELIMITERS));
    (inputs, vec(change, 0..4)).prop_map(|(mut input, changes)| {
        for (index, how, byte) in changes {
            let at = index.index(input.len());
            match how {
                0 => input[at] = byte,
                1 => input.insert(at, byte),
                _ => {
                    input.remove(at);
                }
            }
        }
        input
    })
}
