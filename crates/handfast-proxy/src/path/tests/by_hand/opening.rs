//! Between dialling and the backend's TLS, or the client's bytes: a proxy on the way, and a backend that is asked for TLS.

use handfast_leg::memory::Closed;
use serde_json::json;

use super::super::RELAYS;
use super::super::scene::{Reason, Scene};
use super::play::{Play, SECOND};

const CONNECT: &[u8] = b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n";

fn through() -> Scene {
    Scene::with(RELAYS, "connect-through = { type = \"http\", address = \"127.0.0.1:9\" }")
}

fn starttls_scene() -> Scene {
    Scene::with(RELAYS, "backend-tls = { starttls = \"smtp\", ca = \"web.pem\", name = \"localhost\" }")
}

/// A backend with TLS behind a proxy.
fn through_to_tls() -> Scene {
    let backend = "backend-tls = { ca = \"web.pem\", name = \"localhost\" }";
    Scene::with(
        RELAYS,
        &format!("connect-through = {{ type = \"http\", address = \"127.0.0.1:9\" }}\n{backend}"),
    )
}

#[test]
fn a_tunnel_is_waited_for_to_its_last_byte() {
    let scene = through();
    let mut play = Play::new(&scene, "1.3");
    play.send(b"early");
    play.wake();
    assert_eq!(play.dialled(), [("127.0.0.1:9".to_owned(), true)], "the proxy is dialled, and spoken to");
    assert_eq!(play.backend_receives(), CONNECT);
    for byte in b"HTTP/1.1 200 OK\r\n\r\n" {
        play.pass(SECOND / 10);
        assert!(!play.carries());
        assert_eq!(play.backend_receives(), b"", "the client's bytes are the backend's");
        play.backend_sends(&[*byte]);
    }
    assert!(play.carries());
    play.wake();
    assert_eq!(play.backend_receives(), b"early");
    play.backend_sends(b"welcome");
    assert_eq!(play.client_receives(), b"welcome");
    assert!(play.cut().is_some());
    let line = &scene.lines()[0];
    assert_eq!(line["backend"], json!("127.0.0.1:1 via 127.0.0.1:9"));
    assert_eq!((&line["bytes_to_backend"], &line["bytes_to_client"]), (&json!(5), &json!(7)));
    assert!(line["seconds"]["connect"].as_f64().is_some_and(|connect| connect > 1.5), "{line}");
}

#[test]
fn what_comes_with_the_proxys_last_word_is_the_clients() {
    let scene = through();
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_sends(b"HTTP/1.1 200 OK\r\n\r\n220 welcome\r\n");
    play.wake();
    assert_eq!(play.client_receives(), b"220 welcome\r\n");
}

/// Each failure on the way, and its reason.
#[test]
fn a_conversation_that_fails_has_its_cause() {
    let tunnel: fn() -> Scene = through;
    for (scene, words, fin, end, detail) in [
        (tunnel, &b"HTTP/1.1 407 Who are you\r\n\r\n"[..], false, "tunnel", "407 Who are you"),
        (tunnel, b"SSH-2.0-x\r\n", false, "tunnel", "a status line"),
        (tunnel, b"HTTP/1.1 2", true, "closed-early", "with the proxy of connect-through"),
        (tunnel, b"HTTP/1.1 2", false, "connect-timeout", "with the proxy of connect-through"),
        (through_to_tls, b"HTTP/1.1 200 OK\r\n\r\n220 mx", false, "not-tls", "it sent data before TLS began"),
        (starttls_scene, b"220 mx\r\n250 STARTTLS\r\n", false, "plaintext-injected", ""),
        (starttls_scene, b"554 go away\r\n", false, "starttls-refused", "554 go away"),
        (starttls_scene, b"220 mx\r\n", false, "connect-timeout", "before TLS"),
    ] {
        let scene = scene();
        let mut play = Play::new(&scene, "1.3");
        play.wake();
        play.backend_sends(words);
        play.backend.borrow_mut().peer_ended = fin;
        play.wake();
        assert!(!play.carries());
        for _ in 0..7 {
            play.pass(SECOND);
        }
        play.client.borrow_mut().peer_ended = true;
        play.pass(SECOND);
        assert_eq!(play.end(), Some(("connect", "backend", end)), "{words:?}");
        assert_eq!(play.client_receives(), b"", "the client receives nothing of it");
        let line = scene.lines().swap_remove(0);
        assert!(line["reason"]["detail"].as_str().unwrap_or_default().contains(detail), "{line}");
    }
}

/// A backend that refuses is not reset: the refusal was valid.
#[test]
fn a_proxy_that_refuses_is_closed_cleanly() {
    let scene = through();
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_sends(b"HTTP/1.1 403 No\r\n\r\n");
    play.wake();
    assert_eq!(play.backend.borrow().leg_closed, Some(Closed::InOrder));
}

#[test]
fn a_client_that_leaves_meanwhile_is_noticed() {
    for scene in [through(), starttls_scene()] {
        let mut play = Play::new(&scene, "1.3");
        play.wake();
        play.reset();
        let end: Option<Reason> = play.end();
        assert_eq!(end, Some(("connect", "client", "reset")));
    }
}

/// A backend that sends bytes without end, and never the expected ones, reaches the limit too.
#[test]
fn talk_does_not_move_the_deadline() {
    let scene = starttls_scene();
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    for _ in 0..50 {
        play.backend_sends(b"220-more\r\n");
        play.pass(SECOND / 5);
    }
    assert_eq!(play.end(), Some(("connect", "backend", "connect-timeout")));
}
