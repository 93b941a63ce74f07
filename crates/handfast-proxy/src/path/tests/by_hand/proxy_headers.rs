//! Between accept and hello: the client that a proxy in front names, and the header that the backend gets.

use std::net::SocketAddr;

use handfast_wire::proxy_header::{Peek, Version, Writer, peek, tlv};
use serde_json::json;

use super::super::TERMINATES;
use super::super::scene::Scene;
use super::counts;
use super::play::{Play, SECOND};

/// From proxies at 10.0.0.0/8, and on to a backend.
const BOTH: &str = "[service.proxy-protocol]\naccept-from = [\"10.0.0.0/8\", \"unix\"]\nsend = \"v2\"";

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n";

fn proxy() -> Option<SocketAddr> {
    Some(([10, 0, 0, 1], 4_000).into())
}

fn client() -> SocketAddr {
    ([192, 0, 2, 7], 50_000).into()
}

fn destination() -> SocketAddr {
    ([198, 51, 100, 1], 443).into()
}

fn counted(scene: &Scene) -> Vec<(&'static str, u64)> {
    counts(scene.snapshot().services[0].proxy_headers.clone())
}

#[test]
fn a_proxy_in_front_names_the_client_and_the_backend_receives_it() {
    let mut v2 = Writer::proxy(Some((client(), destination())));
    assert!(v2.add(tlv::UNIQUE_ID, b"the-name-of-it") && v2.add(tlv::AUTHORITY, b"front.example"));
    assert!(v2.add(tlv::ALPN, b"imap"));
    for (header, by, version, id) in [
        (V1.to_vec(), proxy(), Version::V1, None),
        (v2.finish(true), proxy(), Version::V2, Some("the-name-of-it")),
        (V1.to_vec(), None, Version::V1, None),
    ] {
        let scene = Scene::with(TERMINATES, BOTH);
        let mut play = Play::from(&scene, "1.3", by);
        // In pieces, and the hello close behind it.
        let (begin, end) = header.split_at(9);
        play.send(begin);
        play.pass(SECOND);
        play.send(end);
        play.shake_hands();
        play.wake();
        let received = play.backend_receives();
        let Peek::Complete(hello) = peek(&received, 4_096) else { panic!("{received:?}") };
        assert_eq!((hello.version, hello.tcp()), (Version::V2, Some((client(), destination()))));
        assert_eq!(hello.authority(), Some("localhost"), "the request of this client");
        assert_eq!(
            hello.alpn(),
            id.map(|_| &b"imap"[..]),
            "it asked us for none, and the proxy has told one"
        );
        assert!(hello.tls().is_some_and(|tls| tls.verify == 1), "it has shown no certificate");
        assert_eq!(counted(&scene), [("proxied", 1)]);
        play.reset();
        assert_eq!(play.end(), Some(("relay", "client", "reset")));
        let line = &scene.lines()[0];
        assert_eq!(line["client"], client().to_string(), "{version:?}");
        assert_eq!(line["proxied_by"], by.map_or("unix".to_owned(), |by| by.to_string()));
        assert_eq!(line["unique_id"].as_str().map(str::as_bytes), hello.unique_id());
        match id {
            Some(id) => assert_eq!(line["unique_id"], id, "the name that it has already"),
            None => assert_eq!(line["unique_id"].as_str().map(str::len), Some(32), "one of ours"),
        }
        assert_eq!(line["proxied_authority"].as_str(), id.map(|_| "front.example"));
        assert_eq!(line["seconds"]["hello"], json!(1.0));
    }
}

#[test]
fn two_connections_never_have_the_same_name() {
    let scene = Scene::with(TERMINATES, BOTH);
    for _ in 0..2 {
        let mut play = Play::from(&scene, "1.3", proxy());
        play.send(V1);
        play.shake_hands();
        play.wake();
        assert!(play.cut().is_some());
    }
    let lines = scene.lines();
    assert_ne!(lines[0]["unique_id"], lines[1]["unique_id"]);
}

/// Health checks of proxies, and clients whose address they do not know.
#[test]
fn a_header_without_a_client_leaves_the_sockets_address() {
    for (header, outcome) in [
        (b"PROXY UNKNOWN\r\n".to_vec(), "unknown"),
        (Writer::local().finish(false), "local"),
        (Writer::proxy(None).finish(false), "unknown"),
    ] {
        let scene = Scene::with(TERMINATES, BOTH);
        let mut play = Play::from(&scene, "1.3", proxy());
        play.send(&header);
        play.shake_hands();
        play.wake();
        assert!(play.carries());
        assert_eq!(counted(&scene), [(outcome, 1)]);
        assert!(play.cut().is_some());
        assert_eq!(scene.lines()[0]["client"], proxy().expect("one").to_string());
    }
}

#[test]
fn a_peer_that_must_send_a_header_and_does_not_is_refused() {
    for (sent, fin, end, detail, outcome) in [
        (&b"\x16\x03\x01\x00\x05"[..], false, "proxy-header-missing", "it sent TLS", Some("missing")),
        (b"GET / HTTP/1.1\r\n", false, "proxy-header-missing", "it sent an HTTP request", Some("missing")),
        (b"PROXY TCP9 x\r\n", false, "proxy-header-invalid", "", Some("invalid")),
        (b"", true, "closed-early", "without a byte", None),
        (b"PROXY TC", true, "closed-early", "in the middle of a PROXY header", None),
        (b"PROXY TC", false, "handshake-timeout", "8 bytes of a PROXY header came", None),
        (b"P", false, "handshake-timeout", "1 byte of a PROXY header came", None),
    ] {
        let scene = Scene::with(TERMINATES, BOTH);
        let mut play = Play::from(&scene, "1.3", proxy());
        play.send(sent);
        play.client.borrow_mut().peer_ended = fin;
        play.wake();
        play.pass(3_600 * SECOND);
        play.client.borrow_mut().peer_ended = true;
        assert_eq!(play.end(), Some(("hello", "client", end)), "{sent:?}");
        assert_eq!(counted(&scene), outcome.map(|outcome| (outcome, 1)).into_iter().collect::<Vec<_>>());
        let line = &scene.lines()[0];
        let reported = line["reason"]["detail"].as_str().unwrap_or_default();
        assert!(reported.starts_with(detail), "{reported}");
        assert_eq!(line["proxied_by"], json!(null), "nobody has named anybody");
    }
    let scene = Scene::with(TERMINATES, BOTH);
    let mut play = Play::from(&scene, "1.3", proxy());
    play.wake();
    play.reset();
    assert_eq!(play.end(), Some(("hello", "client", "reset")));
}

/// A proxy that is trusted to send a header can claim any address.
#[test]
fn a_peer_that_must_not_send_a_header_and_does_is_refused() {
    let scene = Scene::with(TERMINATES, BOTH);
    let mut play = Play::from(&scene, "1.3", Some(client()));
    play.send(V1);
    play.wake();
    assert_eq!(play.alert(), Some(10), "unexpected_message");
    play.client.borrow_mut().peer_ended = true;
    assert_eq!(play.end(), Some(("hello", "client", "proxy-header-unexpected")));
    assert_eq!(counted(&scene), [("unexpected", 1)]);
}

#[test]
fn a_client_behind_a_proxy_is_let_in_or_refused_by_its_own_address() {
    let more = format!(
        "refuse-clients = [\"192.0.2.0/24\", \"10.0.0.0/8\"]\nmax-connections-per-address = 1\n{BOTH}"
    );
    let scene = Scene::with(TERMINATES, &more);
    let mut play = Play::from(&scene, "1.3", proxy());
    play.send(V1);
    assert_eq!(play.end(), Some(("accept", "operator", "client-refused")));
    assert_eq!(scene.snapshot().services[0].refused["client-prefix"], 1);
    assert_eq!(scene.lines()[0]["reason"]["detail"], "refuse-clients has 192.0.2.0/24");

    let scene = Scene::with(TERMINATES, &format!("max-connections-per-address = 1\n{BOTH}"));
    let state = scene.thread().state();
    let limit = state.services[0].address_limit.as_ref().expect("there is one");
    let mut play = Play::from(&scene, "1.3", proxy());
    play.send(V1);
    play.wake();
    assert!(limit.take(client().ip()).is_none(), "its place is taken");
    play.task = None;
    let other = limit.take(client().ip()).expect("it was given back");
    let mut play = Play::from(&scene, "1.3", proxy());
    play.send(V1);
    assert_eq!(play.end(), Some(("accept", "operator", "address-limit")));
    assert_eq!(scene.snapshot().services[0].refused["address"], 1);
    drop(other);
}
