//! Single connections, driven step by step: cases that the schedules meet only by chance, or cannot tell from others.

mod connecting;
mod crowded;
mod ends;
mod opening;
mod play;
mod preludes;
mod proxy_headers;
mod refusals;
mod relaying;
mod secured;
mod starttls;
mod starttls_to_backends;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use handfast_observe::metrics::Word;
use play::{Play, SECOND};

use super::TERMINATES;
use super::scene::{Reason, Scene};

/// Returns the counters that are not zero, by their names.
fn counts(all: BTreeMap<Word, u64>) -> Vec<(&'static str, u64)> {
    let known = all.into_iter().filter(|(_, count)| *count > 0);
    known
        .map(|(word, count)| (if let Cow::Borrowed(word) = word { word } else { "unknown" }, count))
        .collect()
}

#[test]
fn a_task_that_is_dropped_has_ended_too() {
    let scene = Scene::new(TERMINATES);
    let mut play = Play::established(&scene, "1.3");
    play.task = None;
    assert_eq!(play.end(), Some(("relay", "local", "internal")));
    assert_eq!(scene.thread().connections(), 0);
    // Its permit is back: it was the only one.
    drop(Play::established(&scene, "1.3"));
}

#[test]
fn tickets_ride_on_the_first_data_and_a_flight_never_waits() {
    let scene = Scene::new(TERMINATES);
    let mut play = Play::established(&scene, "1.3");
    play.listen();
    assert_eq!(play.tickets(), 0, "they wait for company");
    play.backend_sends(b"welcome");
    play.listen();
    assert_eq!((play.plaintext.as_slice(), play.tickets() > 0), (&b"welcome"[..], true));
    drop(play);
    // In TLS 1.2 they are in front of the server's Finished, without which the client cannot go on.
    let play = Play::established(&scene, "1.2");
    assert_eq!(play.tickets(), 1);
}

#[test]
fn what_comes_with_the_last_flight_reaches_the_backend_once() {
    let scene = Scene::new(TERMINATES);
    let mut play = Play::new(&scene, "1.3");
    play.shake_hands();
    play.send_plaintext(b"with the last flight");
    play.wake();
    play.wake();
    assert_eq!(play.backend_receives(), b"with the last flight");
    play.send_plaintext(b", and after it");
    play.wake();
    assert_eq!(play.backend_receives(), b", and after it");
}

/// RFC 9846 §6.1. The close reason depends on whether data can have been cut off.
#[test]
fn a_fin_without_close_notify_is_called_what_it_may_have_cut() {
    const NOTHING: Option<Reason> = Some(("relay", "client", "no-close-notify"));
    const SOMETHING: Option<Reason> = Some(("relay", "client", "truncated"));
    let scene = Scene::new(TERMINATES);
    let fin = |mut play: Play<'_>, expected, why: &str| {
        play.client.borrow_mut().peer_ended = true;
        let ended = (0..4).find_map(|_| {
            play.pass(10 * SECOND);
            play.end()
        });
        assert_eq!(ended, expected, "{why}");
    };
    let answered = || {
        let mut play = Play::established(&scene, "1.3");
        play.send_plaintext(b"question");
        play.wake();
        assert_eq!(play.backend_receives(), b"question");
        play.backend_sends(b"answer");
        play
    };

    let mut play = answered();
    play.listen();
    fin(play, NOTHING, "answered, and the answer was taken");

    fin(answered(), SOMETHING, "the answer was not taken");

    let mut play = Play::established(&scene, "1.3");
    play.client.borrow_mut().room = 0;
    play.backend_sends(b"answer");
    fin(play, SOMETHING, "the answer has not even been sent");

    let mut play = answered();
    play.listen();
    play.send_plaintext(b"another");
    play.wake();
    assert_eq!(play.backend_receives(), b"another");
    fin(play, SOMETHING, "the second question has no answer");

    let mut play = Play::new(&scene, "1.3");
    play.shake_hands();
    play.send_plaintext(b"question");
    play.wake();
    play.wake();
    play.listen();
    assert_eq!(play.backend_receives(), b"question");
    fin(play, SOMETHING, "a question that came with the last flight has none either");

    let mut play = Play::established(&scene, "1.3");
    play.send_plaintext(b"question");
    play.wake();
    play.backend_sends(b"answer");
    play.listen();
    fin(play, SOMETHING, "the backend has not acknowledged the question");

    let mut play = Play::established(&scene, "1.3");
    play.wake();
    play.listen();
    fin(play, NOTHING, "no side has sent: tickets that wait are no data");

    let mut play = answered();
    play.listen();
    play.send(&[23, 3, 3, 0, 100, 1]);
    play.wake();
    fin(play, SOMETHING, "in the middle of a record");
}

#[test]
fn a_fin_is_an_end_where_it_is_configured() {
    let scene = Scene::with(TERMINATES, "missing-close-notify = \"end\"");
    let mut play = Play::established(&scene, "1.3");
    play.client.borrow_mut().peer_ended = true;
    play.wake();
    assert!(play.backend.borrow().leg_ended, "it is passed on");
    play.backend_sends(b"still");
    play.backend.borrow_mut().peer_ended = true;
    assert_eq!(play.end(), Some(("relay", "client", "finished")));
    play.listen();
    assert_eq!((play.plaintext.as_slice(), play.saw_close_notify), (&b"still"[..], true));
}

/// Every refusal before a session has its alert (RFC 9846 §6.2) and its cause.
#[test]
fn a_hello_that_is_none_gets_its_alert() {
    let scene = Scene::with(TERMINATES, "[service.limits]\nhello = \"4KiB\"");
    for (bytes, cause, alert) in [
        // 8 KiB announced; illegal_parameter.
        (&[22, 3, 1, 16, 0, 1, 0, 32, 0, 3, 3][..], "hello-too-large", Some(47)),
        // unexpected_message
        (b"SSH-2.0-OpenSSH_9.9\r\n", "not-tls", Some(10)),
        // Cut in the middle of its random; decode_error.
        (&[22, 3, 1, 0, 8, 1, 0, 0, 4, 3, 3, 0, 0], "tls", Some(50)),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "not-tls", None),
    ] {
        let mut play = Play::new(&scene, "1.3");
        play.send(bytes);
        play.wake();
        assert_eq!(play.alert(), alert, "{cause}");
        let is_http = play.client.borrow().to_peer.iter().take(12).copied().eq(*b"HTTP/1.1 400");
        assert_eq!(is_http, alert.is_none(), "{cause}");
        play.client.borrow_mut().peer_ended = true;
        assert_eq!(play.end(), Some(("hello", "client", cause)));
    }
}

#[test]
fn nothing_is_signed_for_a_client_that_cannot_be_served() {
    let scene = Scene::with(TERMINATES, "unknown-name = \"refuse\"");
    let mut play = Play::new(&scene, "1.3");
    let hello = play.hello();
    play.send(&hello);
    play.client.borrow_mut().peer_ended = true;
    assert_eq!(play.end(), Some(("handshake", "client", "closed-early")));
    assert!(play.client.borrow().to_peer.is_empty(), "it has left: nothing is computed for it");

    let mut play = Play::new(&scene, "1.3");
    let mut hello = play.hello();
    let name = hello.windows(9).position(|bytes| bytes == b"localhost").expect("it asks for a name");
    hello[name] = b'r';
    play.send(&hello);
    play.wake();
    assert_eq!(play.alert(), Some(112), "unrecognized_name");
    play.client.borrow_mut().peer_ended = true;
    assert_eq!(play.end(), Some(("handshake", "client", "unknown-name")));
}

#[test]
fn a_handshake_is_counted_with_what_was_agreed() {
    let scene = Scene::new(TERMINATES);
    for (version, name) in [("1.3", "TLSv1.3"), ("1.2", "TLSv1.2")] {
        drop(Play::established(&scene, version));
        let snapshot = scene.snapshot();
        let known = snapshot.handshakes.iter().find(|known| known.version == name);
        let known = known.unwrap_or_else(|| panic!("no handshake of {name}"));
        assert_eq!((&*known.group, known.resumed), ("X25519", false));
    }
}

const LIMITS: &str = "[service.limits]\nidle = \"20s\"\nhalf-closed = \"5s\"\nhalf-closed-client = \"3s\"\nlifetime = \"100s\"";

#[test]
fn silence_counts_from_the_last_byte_of_either_side() {
    let scene = Scene::with(TERMINATES, LIMITS);
    for client_speaks in [true, false] {
        let mut play = Play::established(&scene, "1.3");
        for _ in 0..3 {
            play.pass(19 * SECOND);
            assert_eq!(play.end(), None);
            if client_speaks {
                play.send_plaintext(b"x")
            } else {
                play.backend_sends(b"x")
            }
            play.wake();
            let _ = (play.listen(), play.backend_receives());
        }
        play.pass(20 * SECOND);
        assert_eq!(play.end(), Some(("relay", "operator", "idle")), "client speaks: {client_speaks}");
    }
}

#[test]
fn a_connection_has_a_greatest_age_however_busy_it_is() {
    let scene = Scene::with(TERMINATES, LIMITS);
    let mut play = Play::established(&scene, "1.3");
    for second in 1..100 {
        play.pass(SECOND);
        assert_eq!(play.end(), None, "after {second} seconds");
        play.backend_sends(b"x");
        play.listen();
    }
    play.pass(SECOND);
    assert_eq!(play.end(), Some(("relay", "operator", "lifetime")));
}

#[test]
fn a_half_closed_connection_has_a_limit_of_its_own() {
    let scene = Scene::with(TERMINATES, LIMITS);
    // The client has ended, and the backend is silent. The tickets that went alone before count as progress.
    let mut play = Play::established(&scene, "1.3");
    play.pass(Duration::from_millis(10));
    play.close();
    play.wake();
    assert!(play.backend.borrow().leg_ended);
    play.pass(4 * SECOND);
    assert_eq!(play.end(), None);
    play.pass(SECOND);
    assert_eq!(play.end(), Some(("relay", "operator", "half-closed-idle")));
    // The backend has ended, and the client is in the middle of a record: it is waited for longer than a silent one.
    let mut play = Play::established(&scene, "1.3");
    play.pass(Duration::from_millis(10));
    play.backend.borrow_mut().peer_ended = true;
    play.send(&[23, 3, 3, 0, 100, 1]);
    play.wake();
    play.listen();
    play.pass(4 * SECOND);
    assert_eq!(play.end(), None);
    play.pass(SECOND);
    assert_eq!(play.end(), Some(("relay", "operator", "half-closed-idle")));
}
