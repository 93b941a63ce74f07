//! HTTP/2: a request that is malformed (RFC 9113 §8.1.1) reaches no backend. What it ends is in this table: its
//! stream alone.

use super::support::http2::*;
use super::support::*;

/// The result of a malformed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// The proxy answers with this status.
    Answered(&'static [u8; 3]),
    Stream,
}

fn with(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    [get("/malformed"), fields.iter().flat_map(|(name, value)| field(name, value)).collect()].concat()
}

/// The pseudo-fields of a request with one of them changed or, where its value is empty, removed.
fn changed(name: &str, value: &[u8]) -> Vec<u8> {
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/malformed")];
    let value_of = |(this, usual): &(&'static str, &'static str)| {
        (*this, if *this == name { value.to_vec() } else { usual.as_bytes().to_vec() })
    };
    let fields = fields.iter().map(value_of).filter(|(_, value)| !value.is_empty());
    fields.flat_map(|(name, value)| field(name.as_bytes(), &value)).collect()
}

fn table() -> Vec<(&'static str, Vec<u8>, Ends)> {
    use Ends::{Answered, Stream};
    vec![
        ("upper-case name", with(&[(b"X-A", b"1")]), Stream),
        ("blank in a name", with(&[(b"x a", b"1")]), Stream),
        ("colon in a name", with(&[(b"x:a", b"1")]), Stream),
        ("empty name", with(&[(b"", b"1")]), Stream),
        ("CR in a value", with(&[(b"x-a", b"1\r2")]), Stream),
        ("LF in a value", with(&[(b"x-a", b"1\n2")]), Stream),
        ("NUL in a value", with(&[(b"x-a", b"1\x002")]), Stream),
        ("blank around a value", with(&[(b"x-a", b" 1 ")]), Answered(b"400")),
        ("method with a blank", changed(":method", b"GE T"), Stream),
        ("no method", changed(":method", b""), Stream),
        ("two methods", [field(b":method", b"GET"), get("/malformed")].concat(), Stream),
        ("path with a control byte", changed(":path", b"/a\x7fb"), Stream),
        ("path with a blank", changed(":path", b"/a b"), Stream),
        ("path that is none", changed(":path", b"a"), Stream),
        ("no path", changed(":path", b""), Stream),
        ("scheme with a blank", changed(":scheme", b"ht tp"), Stream),
        ("no scheme", changed(":scheme", b""), Stream),
        ("authority with a blank", changed(":authority", b"local host"), Stream),
        ("pseudo-field behind others", [field(b"x-a", b"1"), get("/malformed")].concat(), Stream),
        ("unknown pseudo-field", with(&[(b":unknown", b"1")]), Stream),
        ("status in a request", with(&[(b":status", b"200")]), Stream),
        ("connection", with(&[(b"connection", b"close")]), Stream),
        ("transfer-encoding", with(&[(b"transfer-encoding", b"chunked")]), Stream),
        ("te", with(&[(b"te", b"gzip")]), Stream),
        ("two lengths", with(&[(b"content-length", b"0"), (b"content-length", b"1")]), Stream),
        ("another host", with(&[(b"host", b"other.example")]), Answered(b"400")),
    ]
}

#[test]
fn and_ends_what_the_table_says() {
    let stage = Stage::with(
        Backend::start(|peer| {
            while let Some(head) = peer.head() {
                assert!(!head.contains("malformed"), "{head}");
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }),
        |config, _| config.text("service", "mode", "http"),
    );
    let trust = Trust::version(Version::Tls13).protocol("h2").config();
    let flags = END_STREAM | END_HEADERS;
    let mut wrong = Vec::new();
    for (what, block, expected) in table() {
        let mut client = stage.client(&trust);
        client.send(&preface(&[]));
        client.send(&frame(HEADERS, flags, 1, &block));
        let seen = match receive_one_of(&mut client, &[HEADERS, RST_STREAM, GOAWAY]) {
            Frame { kind: HEADERS, payload, .. } => Seen::Answered(payload),
            Frame { kind: RST_STREAM, .. } => Seen::Stream,
            _ => Seen::Connection,
        };
        // The connection serves others still.
        if !matches!(seen, Seen::Connection) {
            client.send(&frame(HEADERS, flags, 3, &get("/")));
            let next = receive_one_of(&mut client, &[HEADERS, RST_STREAM, GOAWAY]);
            assert_eq!((next.kind, next.stream, next.payload[0]), (HEADERS, 3, 0x88), "{what}");
        }
        let as_expected = match (&seen, expected) {
            (Seen::Answered(payload), Ends::Answered(status)) => {
                payload[0] == 0x8c || payload.windows(3).any(|window| window == status)
            }
            (Seen::Stream, Ends::Stream) => true,
            _ => false,
        };
        if !as_expected {
            wrong.push(format!("{what}: {seen:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[derive(Debug)]
enum Seen {
    Answered(Vec<u8>),
    Stream,
    Connection,
}
