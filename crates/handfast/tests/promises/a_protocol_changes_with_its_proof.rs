//! HTTP mode: a request may ask for another protocol behind its content (`docker exec`); a WebSocket that came by HTTP/2 has a key of the
//! proxy's, which its backend must prove to have read; and what authenticates a connection goes on over HTTP/1.1.

use std::sync::mpsc::{Receiver, sync_channel};

use super::support::http2::*;
use super::support::*;

/// The error code of RST_STREAM by which a client tries HTTP/1.1 (RFC 9113 §7).
const HTTP_1_1_REQUIRED: u32 = 0xd;

/// A proxy whose backend hands on each head, and answers with what `answer` makes of it.
fn stage(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Stage, Receiver<String>) {
    let (sender, heads) = sync_channel(16);
    let backend = Backend::start(move |peer| {
        while let Some(head) = peer.head() {
            if head.contains("Content-Length: 4") {
                assert_eq!(peer.read_exactly(4), b"{..}", "the content comes before the new protocol");
            }
            let answer = answer(&head);
            let _ = sender.send(head);
            peer.send(answer.as_bytes());
            if answer.contains(" 101 ") {
                return peer.echo();
            }
        }
    });
    (Stage::with(backend, |config, _| config.text("service", "mode", "http")), heads)
}

fn over_http2(stage: &Stage, fields: &[(&str, &str)], flags: u8) -> Client {
    let mut client = stage.client(&Trust::version(Version::Tls13).protocol("h2").config());
    client.send(&preface(&[]));
    let block: Vec<u8> =
        fields.iter().flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect();
    client.send(&frame(HEADERS, END_HEADERS | flags, 1, &block));
    client
}

#[test]
fn behind_the_content_of_its_request() {
    let upgraded = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
    let (stage, heads) = stage(move |_| upgraded.to_owned());
    let mut client = stage.any_client();
    client.send(
        b"POST /exec/1/start HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 4\r\n\r\n{..}",
    );
    let answer = client.read_exactly(upgraded.len());
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", answer.escape_ascii());
    let head = heads.recv_timeout(DEADLINE).expect("the backend receives it");
    assert!(head.contains("Upgrade: tcp\r\n") && head.contains("Content-Length: 4\r\n"), "{head}");
    client.echo(b"bytes of the new protocol");
    client.finish();
    stage.is_quiet();
}

/// The fields of a WebSocket by HTTP/2 (RFC 8441 §5), with a key that none needs.
const WEBSOCKET: [(&str, &str); 6] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":authority", "localhost"),
    (":path", "/socket"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

fn key(head: &str) -> String {
    let keys: Vec<_> =
        head.lines().filter(|line| line.to_lowercase().starts_with("sec-websocket-key:")).collect();
    assert_eq!(keys.len(), 1, "one key, which is the proxy's: {head}");
    keys[0].split_once(": ").expect("a value").1.trim().to_owned()
}

#[test]
fn with_a_key_that_the_backend_has_read() {
    let answer = |head: &str| {
        // The proof of another key: of a cache, or of a server that does not speak WebSocket.
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert_ne!(key(head), WEBSOCKET[5].1, "it is not the client's");
        format!(
            "HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        )
    };
    let (stage, heads) = stage(answer);
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut client = over_http2(&stage, &WEBSOCKET, 0);
        let answer = receive_one_of(&mut client, &[HEADERS, RST_STREAM]);
        assert_eq!(answer.kind, HEADERS);
        let status_502 =
            answer.payload.windows(3).any(|part| part == b"502") || answer.payload.contains(&0x48);
        assert!(status_502, "{:x?}", answer.payload);
        keys.push(key(&heads.recv_timeout(DEADLINE).expect("the backend receives it")));
    }
    assert_ne!(keys[0][..6], keys[1][..6], "each key is random");
    let record = stage.proxy.record("a refused proof", |record| record.text("path") == "/socket");
    assert!(format!("{record:?}").contains("Sec-WebSocket-Accept is not that of the key"), "{record:?}");
}

#[test]
fn of_a_connection_that_http2_shares() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (stage, heads) = stage(move |_| ok.to_owned());
    for value in ["NTLM TlRMTVNTUAABAAAA", "Negotiate YIIB"] {
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/"),
            ("authorization", value),
        ];
        let mut client = over_http2(&stage, &fields, END_STREAM);
        let reset = receive_one_of(&mut client, &[HEADERS, RST_STREAM]);
        assert_eq!(
            (reset.kind, reset.payload),
            (RST_STREAM, HTTP_1_1_REQUIRED.to_be_bytes().to_vec()),
            "{value}"
        );
    }
    assert!(heads.try_recv().is_err(), "no backend receives it");
    let record =
        stage.proxy.record("a reset request", |record| format!("{record:?}").contains("HTTP_1_1_REQUIRED"));
    assert_eq!(record.text("path"), "/", "{record:?}");
}
