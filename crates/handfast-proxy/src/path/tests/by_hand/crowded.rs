//! A handshake that another thread signs, because others wait for this one.

use std::time::Duration;

use super::play::{Play, SECOND};
use crate::path::tests::TERMINATES;
use crate::path::tests::scene::Scene;
use crate::worker::signer::Signer;

/// A client that has sent its hello, and waits.
fn waiting<'a>(scene: &'a Scene, version: &str) -> Play<'a> {
    let mut play = Play::new(scene, version).in_a_crowd();
    let hello = play.hello();
    play.send(&hello);
    play.wake();
    play.wake();
    assert!(play.client.borrow().to_peer.is_empty(), "nothing is answered before it is signed");
    play
}

fn signer(scene: &Scene) -> &Signer {
    scene.thread().signer.as_ref().expect("it has one")
}

#[test]
fn the_session_comes_back_with_its_answer() {
    let scene = Scene::new(TERMINATES);
    for version in ["1.2", "1.3"] {
        let mut play = waiting(&scene, version);
        play.sign();
        for _ in 0..3 {
            play.listen();
            play.wake();
        }
        play.send_plaintext(b"question");
        play.wake();
        assert_eq!(play.backend_receives(), b"question");
        play.backend_sends(b"answer");
        play.listen();
        assert_eq!(play.plaintext, b"answer");
        assert_eq!(play.cut(), Some(("relay", "client", "reset")));
    }
}

#[test]
fn a_client_that_leaves_meanwhile_is_not_signed_for() {
    let scene = Scene::new(TERMINATES);
    let mut play = waiting(&scene, "1.3");
    play.client.borrow_mut().peer_ended = true;
    assert_eq!(play.end(), Some(("handshake", "client", "closed-early")));
    assert!(signer(&scene).work_once(), "it finds the place empty");
    assert!(!signer(&scene).is_busy());
}

/// A signer without a processor gives back what it has not begun; one that works has the client wait for its turn, until the limit.
#[test]
fn a_stalled_signer_is_not_waited_for() {
    let scene = Scene::new(TERMINATES);
    let mut play = waiting(&scene, "1.3");
    play.pass(Duration::from_millis(40));
    assert!(play.client.borrow().to_peer.is_empty(), "it has a moment");
    play.pass(Duration::from_millis(20));
    assert!(!play.client.borrow().to_peer.is_empty(), "then it is signed for here");
    assert!(signer(&scene).work_once(), "the signer finds the place empty");
    assert_eq!(play.cut(), Some(("handshake", "client", "reset")));
}

#[test]
fn the_limit_of_the_handshake_holds_here_too() {
    let scene = Scene::new(TERMINATES);
    let mut play = waiting(&scene, "1.3");
    // No time to look at what the signer does, and to take anything back, before it is over.
    play.pass(60 * SECOND);
    assert_eq!(play.end(), Some(("handshake", "client", "handshake-timeout")));
    assert!(signer(&scene).work_once(), "it finds the place empty");
}

#[test]
fn waiting_for_the_signer_is_not_waiting_for_the_client() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = waiting(&scene, "1.3");
    play.pass(SECOND / 25);
    play.sign();
    for _ in 0..3 {
        play.listen();
        play.wake();
    }
    assert_eq!(play.cut(), Some(("relay", "client", "reset")));
    let line = scene.lines().pop().expect("one line");
    let computing = line["seconds"]["handshake_crypto"].as_f64().expect("seconds");
    assert!((0.039..0.2).contains(&computing), "{line}");
}
