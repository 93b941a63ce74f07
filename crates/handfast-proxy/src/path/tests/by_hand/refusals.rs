//! hello and handshake: which clients are refused, the alerts that they get, and the record of the others.

use std::time::Duration;

use serde_json::json;

use super::super::TERMINATES;
use super::super::scene::{Mode, Scene};
use super::super::world::world;
use super::play::{Play, SECOND};
use crate::testing::on_engine;
use crate::worker::context::WorkerPhase;

const DEADLINE: &str = "[service.limits]\nhandshake = \"3s\"";

#[test]
fn a_client_that_sends_no_hello_is_called_what_it_is() {
    for (sent, fin, cause, detail) in [
        (&b""[..], true, "closed-early", "without a byte"),
        (&[22, 3, 1], true, "closed-early", "in the middle of it"),
        (&[22, 3, 1], false, "handshake-timeout", "3 bytes of a ClientHello came"),
        (b"", false, "handshake-timeout", "0 bytes of a ClientHello came"),
    ] {
        let scene = Scene::with(TERMINATES, DEADLINE);
        let mut play = Play::new(&scene, "1.3");
        play.send(sent);
        play.pass(2 * SECOND);
        assert_eq!(play.end(), None);
        play.client.borrow_mut().peer_ended = fin;
        play.pass(if fin { SECOND / 2 } else { SECOND });
        assert_eq!(play.end(), Some(("hello", "client", cause)));
        let line = &scene.lines()[0];
        let seconds = if fin { 2.5 } else { 3.0 };
        assert_eq!((&line["reason"]["detail"], &line["seconds"]["hello"]), (&json!(detail), &json!(seconds)));
    }
}

/// Split wherever it may be, it is the same hello, and one deadline holds for all of it.
#[test]
fn a_hello_may_come_in_pieces() {
    let scene = Scene::with(TERMINATES, DEADLINE);
    let mut play = Play::new(&scene, "1.3");
    let hello = play.hello();
    let pieces = hello.chunks(10);
    let seconds = pieces.len() as f64 / 20.0;
    for piece in pieces {
        play.send(piece);
        play.pass(Duration::from_millis(50));
    }
    play.listen();
    play.wake();
    assert!(play.carries());
    assert!(play.cut().is_some());
    let line = &scene.lines()[0];
    assert_eq!((&line["sni"], &line["version"]), (&json!("localhost"), &json!("TLSv1.3")));
    assert_eq!(line["seconds"]["hello"], json!(seconds));

    let scene = Scene::with(TERMINATES, DEADLINE);
    let mut play = Play::new(&scene, "1.3");
    let hello = play.hello();
    for byte in &hello[..31] {
        play.send(&[*byte]);
        play.pass(SECOND / 10);
    }
    assert_eq!(play.end(), Some(("hello", "client", "handshake-timeout")));
}

#[test]
fn a_client_that_does_not_finish_its_handshake_is_called_what_it_is() {
    type Breaks = fn(&mut Play<'_>);
    let cases: [(Breaks, &str, Option<&str>); 5] = [
        (|play| play.pass(3 * SECOND), "handshake-timeout", None),
        // It always has something to send: change_cipher_spec, as often as it likes.
        (
            |play| {
                for _ in 0..4 {
                    play.send(&[20, 3, 3, 0, 1, 1]);
                    play.pass(SECOND);
                }
            },
            "handshake-timeout",
            None,
        ),
        (|play| play.client.borrow_mut().peer_ended = true, "closed-early", Some("before its last flight")),
        (|play| play.reset(), "reset", None),
        // A record that is none of this session.
        (
            |play| {
                play.send(&[
                    23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                ])
            },
            "tls",
            None,
        ),
    ];
    for (breaks, cause, detail) in cases {
        let scene = Scene::with(TERMINATES, DEADLINE);
        let mut play = Play::new(&scene, "1.3");
        let hello = play.hello();
        play.send(&hello);
        play.wake();
        breaks(&mut play);
        play.wake();
        play.client.borrow_mut().peer_ended = true;
        assert_eq!(play.end(), Some(("handshake", "client", cause)));
        assert!(!play.carries());
        let line = &scene.lines()[0];
        if let Some(detail) = detail {
            assert_eq!(line["reason"]["detail"], detail);
        }
        let seconds = &line["seconds"];
        assert_eq!(seconds["handshake"], seconds["handshake_wait"], "the clock stands while we compute");
        assert_eq!(seconds["handshake"].as_f64() >= Some(3.0), cause == "handshake-timeout");
        assert_eq!(line["version"], "TLSv1.3", "as far as it came");
    }
    assert!(Scene::new(TERMINATES).snapshot().handshakes.is_empty(), "none is counted");
}

#[test]
fn a_program_that_ends_waits_for_no_client() {
    for sent in [0, 100, 10_000] {
        on_engine(move || async move {
            let scene = Scene::new(TERMINATES);
            let mut play = Play::new(&scene, "1.3");
            let hello = play.hello();
            play.send(&hello[..sent.min(hello.len())]);
            play.wake();
            scene.thread().enter(WorkerPhase::Ending);
            let step = if sent > hello.len() { "handshake" } else { "hello" };
            assert_eq!(play.end(), Some((step, "operator", "stopped")));
        });
    }
}

/// rustls might read it as some name and serve it by rules that were not chosen for that.
#[test]
fn a_name_that_is_none_is_refused() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::new(&scene, "1.3");
    let mut hello = play.hello();
    let name = hello.windows(9).position(|bytes| bytes == b"localhost").expect("it asks for a name");
    hello[name + 4] = b' ';
    play.send(&hello);
    play.wake();
    assert_eq!(play.alert(), Some(47), "illegal_parameter");
    play.client.borrow_mut().peer_ended = true;
    assert_eq!(play.end(), Some(("handshake", "client", "tls")));
    assert_eq!(
        scene.lines()[0]["reason"]["detail"],
        "server name has a blank, expected letters, digits, '-', '_' and '.'"
    );
}

/// RFC 6066 §3 allows none there, and clients send them nevertheless.
#[test]
fn an_address_in_place_of_a_name_is_passed_over() {
    let scene = Scene::new(TERMINATES);
    let mut play = Play::new(&scene, "1.3");
    let mut hello = play.hello();
    let name = hello.windows(9).position(|bytes| bytes == b"localhost").expect("it asks for a name");
    hello[name..name + 9].copy_from_slice(b"127.0.0.1");
    play.send(&hello);
    play.wake();
    assert_eq!(play.client_receives()[0], 22, "the server's flight, and no alert");
}

/// On a clock that goes on at each look, so that computing takes time.
#[test]
fn our_own_computing_is_distinguished_from_waiting() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::new(&scene, "1.3");
    let hello = play.hello();
    play.send(&hello);
    world(|world| world.tick = SECOND / 1_000);
    play.wake();
    play.listen();
    play.pass(SECOND);
    assert!(play.carries());
    assert!(play.cut().is_some());
    let seconds = &scene.lines()[0]["seconds"];
    let read = |name: &str| seconds[name].as_f64().expect("a number");
    assert_eq!(read("handshake_crypto"), 0.002, "once for each flight of the client's");
    assert!(read("handshake_wait") >= 1.0, "{seconds}");
    let parts = read("handshake_crypto") + read("handshake_wait");
    assert!((parts - read("handshake")).abs() < 1e-9, "{seconds}");
}

#[test]
fn what_is_passed_through_is_passed_on_as_it_came() {
    let mode = Mode { client_tls: false, backend_tls: false };
    let text = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\nbackend = \"127.0.0.1:1\"\npass-through = true\n";
    let scene = Scene::of(mode, text);
    let mut play = Play::new(&scene, "1.3");
    let hello = play.hello();
    play.send(&hello);
    play.wake();
    play.wake();
    assert_eq!(play.backend_receives(), hello, "to the last byte, and once");
    assert_eq!(play.dialled(), [("127.0.0.1:1".to_owned(), true)]);
    play.backend_sends(b"whatever it says");
    assert_eq!(play.client_receives(), b"whatever it says");
    assert!(play.cut().is_some());
    let line = &scene.lines()[0];
    assert_eq!((&line["sni"], &line["passed_through"]), (&json!("localhost"), &json!(true)));
    assert_eq!((&line["encrypted_hello"], &line["version"]), (&json!(null), &json!(null)));
}

#[test]
fn a_client_that_comes_back_is_counted_as_one() {
    let scene = Scene::new(TERMINATES);
    let client = super::super::scene::client("1.3");
    for (offered, full, resumed) in [(0, 1, 0), (1, 1, 1)] {
        let mut play = Play::with_session(&scene, client.connect(true).expect("a session"), None);
        play.shake_hands();
        play.wake();
        // Its ticket comes with the first data.
        play.backend_sends(b"hello");
        play.listen();
        drop(play);
        let service = &scene.snapshot().services[0];
        let counted = (service.tickets_offered, service.handshakes_full, service.handshakes_resumed);
        assert_eq!(counted, (offered, full, resumed));
    }
}
