//! relay: an end without close_notify, or a reset, is called what it may have cut off. What both sides receive does not depend on it.

use handfast_leg::memory::Closed;
use handfast_tls::client::{Client, ClientSettings, Verification};

use super::super::TERMINATES;
use super::super::scene::{Mode, Reason, Scene};
use super::play::{Play, SECOND};
use super::secured::Secured;
use super::starttls::packet;

const SECURED: Mode = Mode { client_tls: true, backend_tls: true };

/// Lets both sides take the bytes on their way; returns how it ended.
fn ended(play: &mut Play<'_>) -> Option<Reason> {
    (0..20).find_map(|_| {
        play.listen();
        let _ = play.backend_receives();
        play.pass(SECOND / 10);
        play.end()
    })
}

/// A client and a backend with TLS, after a question that the backend has.
fn play_after_question(scene: &Scene) -> (Play<'_>, Secured) {
    let mut play = Play::established(scene, "1.3");
    let mut backend = Secured::new(scene);
    backend.listen(&mut play);
    play.wake();
    play.send_plaintext(b"question");
    play.wake();
    backend.listen(&mut play);
    assert_eq!(backend.plaintext, b"question");
    (play, backend)
}

/// nginx closes like this when its client has ended.
#[test]
fn a_backend_without_close_notify_lost_nothing_when_its_client_had_ended_with_its_answer() {
    let scene = Scene::with(SECURED, "");
    type Does = fn(&mut Play<'_>, &mut Secured);
    let cases: [(Does, Reason); 6] = [
        (
            |play, backend| {
                backend.send_plaintext(play, b"answer");
                play.listen();
                play.close();
                play.wake();
                backend.listen(play);
                play.backend.borrow_mut().peer_ended = true;
            },
            ("relay", "backend", "no-close-notify"),
        ),
        (
            |play, backend| {
                backend.send_plaintext(play, b"answer");
                play.listen();
                play.close();
                play.wake();
                backend.listen(play);
                play.backend.borrow_mut().peer_reset = true;
            },
            ("relay", "backend", "reset-at-end"),
        ),
        // Its client waits for the answer.
        (
            |play, backend| {
                play.close();
                play.wake();
                backend.listen(play);
                play.backend.borrow_mut().peer_ended = true;
            },
            ("relay", "backend", "truncated"),
        ),
        // Its answer goes on behind the client's end, and has no known length.
        (
            |play, backend| {
                backend.send_plaintext(play, b"ans");
                play.listen();
                play.close();
                play.wake();
                backend.send_plaintext(play, b"wer");
                play.listen();
                backend.listen(play);
                play.backend.borrow_mut().peer_ended = true;
            },
            ("relay", "backend", "truncated"),
        ),
        // Its client has not ended.
        (
            |play, backend| {
                backend.send_plaintext(play, b"answer");
                play.listen();
                play.backend.borrow_mut().peer_ended = true;
            },
            ("relay", "backend", "truncated"),
        ),
        (
            |play, backend| {
                backend.send_plaintext(play, b"answer");
                play.listen();
                play.backend.borrow_mut().peer_reset = true;
            },
            ("relay", "backend", "reset"),
        ),
    ];
    for (does, end) in cases {
        let (mut play, mut backend) = play_after_question(&scene);
        does(&mut play, &mut backend);
        assert_eq!(ended(&mut play), Some(end));
        assert!(!play.saw_close_notify, "an abort stays an abort, whatever it is called");
        assert_eq!(play.client.borrow().leg_closed, Some(Closed::Reset), "{end:?}");
    }
}

/// A client whose program closes before it has read our close_notify is reset by its kernel (Python's urllib).
#[test]
fn a_reset_by_a_client_behind_the_end_is_none_of_what_was_delivered() {
    let scene = Scene::with(TERMINATES, "");
    for (takes, end) in [(true, "reset-at-end"), (false, "reset")] {
        let mut play = Play::established(&scene, "1.3");
        play.send_plaintext(b"question");
        play.wake();
        let _ = play.backend_receives();
        play.backend_sends(b"answer");
        play.backend.borrow_mut().peer_ended = true;
        play.wake();
        if takes {
            play.listen();
        }
        play.reset();
        play.wake();
        assert_eq!(ended(&mut play), Some(("relay", "client", end)));
        assert_eq!(play.backend.borrow().leg_closed, Some(Closed::Reset), "the backend sees the abort");
    }
    // It has announced its end, and leaves before its answer has come, which is written behind its reset.
    let mut play = Play::established(&scene, "1.3");
    play.send_plaintext(b"question");
    play.close();
    play.wake();
    let _ = play.backend_receives();
    play.client.borrow_mut().peer_gone = true;
    play.backend_sends(b"ans");
    play.backend_sends(b"wer");
    let end = ended(&mut play);
    assert!(matches!(end, Some(("relay", "client", "reset" | "closed-early"))), "{end:?}");
    // In the middle of it all.
    let mut play = Play::established(&scene, "1.3");
    play.backend_sends(b"answer");
    play.listen();
    play.reset();
    assert_eq!(ended(&mut play), Some(("relay", "client", "reset")));
}

/// The last frames of HTTP/2 have no answer.
#[test]
fn the_last_word_of_a_protocol_without_an_answer_is_not_waited_for() {
    let scene = Scene::with(TERMINATES, "alpn = [\"h2\", \"http/1.1\"]");
    for (protocol, end) in [("h2", "no-close-notify"), ("http/1.1", "truncated")] {
        let settings = ClientSettings {
            groups: vec!["X25519".to_owned()],
            server_name: Some("localhost".to_owned()),
            verification: Verification::Off,
            alpn: vec![protocol.to_owned()],
            ..ClientSettings::default()
        };
        let client = Client::new(&settings, "localhost").expect("these settings work");
        let mut play = Play::with_session(&scene, client.connect(false).expect("a session"), None);
        play.shake_hands();
        play.wake();
        play.send_plaintext(b"question");
        play.wake();
        let _ = play.backend_receives();
        play.backend_sends(b"answer");
        play.listen();
        play.send_plaintext(b"GOAWAY");
        play.client.borrow_mut().peer_ended = true;
        play.wake();
        assert_eq!(ended(&mut play), Some(("relay", "client", end)), "{protocol}");
    }
}

/// COM_QUIT has no answer, and its client is gone when the server ends.
#[test]
fn a_mysql_client_that_takes_its_leave_and_is_gone_lost_nothing() {
    let scene = Scene::with(TERMINATES, "starttls = \"mysql\"");
    let mut play = super::starttls::mysql_logged_in(&scene);
    play.send_plaintext(&packet(0, b"\x01"));
    play.close();
    play.wake();
    assert_eq!(play.backend_receives(), packet(0, b"\x01"));
    play.client.borrow_mut().peer_gone = true;
    play.backend.borrow_mut().peer_ended = true;
    play.wake();
    let end = ended(&mut play);
    assert!(
        matches!(end, Some(("relay", "client", "finished" | "reset-at-end"))),
        "it is no failure: {end:?}"
    );
}

const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

#[test]
fn a_proxy_in_front_that_sends_nothing_behind_its_own_header_has_checked_us() {
    let more = "[service.proxy-protocol]\naccept-from = \"10.0.0.0/8\"";
    let (tls, plain) = (Scene::with(TERMINATES, more), Scene::with(super::super::RELAYS, more));
    type Does = fn(&Play<'_>);
    let ends: Does = |play| play.client.borrow_mut().peer_ended = true;
    let resets: Does = |play| play.reset();
    for (scene, header, behind, does, end) in [
        (&tls, LOCAL, &b""[..], ends, Some(("hello", "client", "health-check"))),
        (&tls, LOCAL, b"", resets, Some(("hello", "client", "health-check"))),
        (&tls, LOCAL, b"\x16\x03", ends, Some(("hello", "client", "closed-early"))),
        (&tls, b"PROXY UNKNOWN\r\n", b"", ends, Some(("hello", "client", "closed-early"))),
        (&plain, LOCAL, b"", resets, Some(("relay", "client", "health-check"))),
    ] {
        let mut play = Play::from(scene, "1.3", Some(([10, 0, 0, 1], 9).into()));
        play.send(header);
        play.wake();
        play.send(behind);
        does(&play);
        play.wake();
        assert_eq!(end_without_session(&mut play), end, "{header:?} and {behind:?}");
    }
    // One that checks TLS too, and leaves when its own part of the handshake is done.
    for (header, end) in [(LOCAL, "health-check"), (b"PROXY UNKNOWN\r\n", "reset")] {
        let mut play = Play::from(&tls, "1.3", Some(([10, 0, 0, 1], 9).into()));
        play.send(header);
        let hello = play.hello();
        play.send(&hello);
        play.wake();
        play.reset();
        assert_eq!(end_without_session(&mut play), Some(("handshake", "client", end)));
    }
}

/// The same for clients that have no session yet.
fn end_without_session(play: &mut Play<'_>) -> Option<Reason> {
    (0..20).find_map(|_| {
        let _ = (play.client_receives(), play.backend_receives());
        play.pass(SECOND / 10);
        play.end()
    })
}

/// curl closes behind QUIT and LOGOUT before their answers come, and its kernel resets them. Dovecot ends without close_notify then.
#[test]
fn the_answer_to_a_last_message_is_not_missed_by_a_client_that_has_ended() {
    let plain = Scene::with(TERMINATES, "");
    let secured = Scene::with(SECURED, "");
    for (last, is_last) in [(&b"a LOGOUT\r\n"[..], true), (b".\r\nQUIT\r\n", true), (b"a NOOP\r\n", false)] {
        let mut play = Play::established(&plain, "1.3");
        play.send_plaintext(last);
        play.close();
        play.wake();
        let _ = play.backend_receives();
        play.client.borrow_mut().peer_gone = true;
        play.backend_sends(b"b");
        play.backend_sends(b"ye");
        let end = ended(&mut play);
        let expected = if is_last { "reset-at-end" } else { "reset" };
        assert_eq!(end, Some(("relay", "client", expected)), "{last:?}");

        for resets in [false, true] {
            let (mut play, mut backend) = play_after_question(&secured);
            play.send_plaintext(last);
            play.close();
            play.wake();
            backend.listen(&mut play);
            backend.send_plaintext(&mut play, b"bye");
            play.listen();
            backend.listen(&mut play);
            play.backend.borrow_mut().peer_ended = !resets;
            play.backend.borrow_mut().peer_reset = resets;
            let expected = match (is_last, resets) {
                (true, false) => "no-close-notify",
                (true, true) => "reset-at-end",
                (false, false) => "truncated",
                (false, true) => "reset",
            };
            assert_eq!(ended(&mut play), Some(("relay", "backend", expected)), "{last:?}");
        }
    }
}

/// A client that waits for the answer to its last message has it when the backend ends without close_notify. Some messages have none:
/// MariaDB's server ends before its client.
#[test]
fn a_backend_that_ends_behind_the_last_message_lost_nothing() {
    let secured = Scene::with(SECURED, "");
    for (last, answers, takes, expected) in [
        (&b"QUIT\r\n"[..], true, true, "no-close-notify"),
        (b"QUIT\r\n", true, false, "truncated"),
        (b"QUIT\r\n", false, true, "truncated"),
        (b"NOOP\r\n", true, true, "truncated"),
        (b"\x01\0\0\0\x01", false, true, "no-close-notify"),
        (b"X\0\0\0\x04", false, true, "no-close-notify"),
    ] {
        let (mut play, mut backend) = play_after_question(&secured);
        play.send_plaintext(last);
        play.wake();
        backend.listen(&mut play);
        if answers {
            backend.send_plaintext(&mut play, b"221 bye\r\n");
        }
        if takes {
            play.listen();
        } else {
            play.wake();
        }
        play.backend.borrow_mut().peer_ended = true;
        play.wake();
        assert_eq!(
            play.end().or_else(|| ended(&mut play)),
            Some(("relay", "backend", expected)),
            "{last:?} {answers} {takes}"
        );
    }
}
