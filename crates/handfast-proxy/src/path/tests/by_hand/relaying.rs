//! relay and close: what is counted, whose turn it is, when silence is an end, and how a connection is cut.

use std::time::Duration;

use handfast_leg::memory::Closed;
use serde_json::json;

use super::super::TERMINATES;
use super::super::scene::{Mode, Scene};
use super::super::world::world;
use super::play::{Play, SECOND};
use crate::testing::on_engine;
use crate::worker::context::WorkerPhase;

const PLAIN: Mode = Mode { client_tls: false, backend_tls: false };

#[test]
fn bytes_are_counted_while_they_move_and_once() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::established(&scene, "1.3");
    let counted = || {
        let service = scene.snapshot().services.swap_remove(0);
        (service.bytes_to_backend, service.bytes_to_client)
    };
    for (question, answer, sum) in [("who", "I", (3, 1)), ("what else", "nothing", (12, 8))] {
        play.send_plaintext(question.as_bytes());
        play.wake();
        play.backend_sends(answer.as_bytes());
        assert_eq!(counted(), sum, "while it goes on");
    }
    assert!(play.cut().is_some());
    assert_eq!(counted(), (12, 8));
    let line = &scene.lines()[0];
    assert_eq!((&line["bytes_to_backend"], &line["bytes_to_client"]), (&json!(12), &json!(8)));
}

#[test]
fn each_step_has_its_seconds() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::established(&scene, "1.3");
    play.pass(7 * SECOND);
    // A byte that the peer does not take is waited for before a reset overtakes it.
    play.backend_sends(b"x");
    play.reset();
    play.wake();
    play.backend.borrow_mut().to_peer.push_back(0);
    play.pass(SECOND);
    assert!(play.cut().is_some());
    let seconds = &scene.lines()[0]["seconds"];
    assert_eq!(seconds["relay"], json!(7.0), "{seconds}");
}

/// One connection with bulk does not keep a thread from its others.
#[test]
fn a_connection_with_much_to_carry_gives_way_to_others() {
    let scene = Scene::with(PLAIN, "");
    let mut play = Play::new(&scene, "1.3");
    for link in [&play.client, &play.backend] {
        link.borrow_mut().room = 1 << 30;
    }
    play.send(&vec![0; 3 << 20]);
    let mut carried = 0;
    for turn in 1..=3 {
        play.wake();
        let now = play.backend.borrow().to_peer.len();
        assert!(now - carried <= 1 << 20, "{} bytes in one turn", now - carried);
        carried = now;
        assert_eq!(now, turn << 20);
        assert!(world(|world| std::mem::take(&mut world.yields)), "it wants to go on");
    }
    play.wake();
    assert!(!world(|world| world.yields), "there is nothing more");
}

#[test]
fn a_wake_that_moves_nothing_is_counted() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::established(&scene, "1.3");
    play.wake();
    let spurious = || scene.snapshot().threads[0].spurious_turns;
    let before = spurious();
    play.wake();
    assert_eq!(spurious(), before + 1);
    play.backend_sends(b"x");
    assert_eq!(spurious(), before + 1, "that one moved something");
    play.pass(2 * SECOND);
    assert_eq!(spurious(), before + 1, "that one was a deadline");
}

#[test]
fn a_settled_connection_gets_its_socket_options() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::established(&scene, "1.3");
    play.wake();
    play.pass(SECOND - Duration::from_millis(1));
    assert!(!play.backend.borrow().patient);
    play.pass(Duration::from_millis(1));
    assert!(play.backend.borrow().patient);
    let until = world(|world| world.deadline.since(world.now));
    assert!(until > 10 * SECOND, "once is enough: {until:?}");
}

/// Nothing reads from a client that has ended, so its loss would not be noticed.
#[test]
fn a_peer_that_is_gone_is_noticed_without_a_read() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::established(&scene, "1.3");
    play.close();
    play.wake();
    play.reset();
    play.wake();
    let _ = play.backend_receives();
    play.pass(SECOND);
    assert_eq!(
        play.end(),
        Some(("relay", "client", "reset-at-end")),
        "it had ended before, and lost nothing"
    );

    let mut play = Play::established(&scene, "1.3");
    play.backend.borrow_mut().peer_ended = true;
    play.wake();
    play.backend.borrow_mut().peer_reset = true;
    play.wake();
    let _ = play.client_receives();
    play.pass(SECOND);
    assert_eq!(play.end(), Some(("relay", "backend", "reset")));
}

const LIMITS: &str = "[service.limits]\nidle = \"100s\"\nhalf-closed = \"20s\"\nhalf-closed-client = \"3s\"";

/// The backend has ended behind an answer; the client has been notified.
fn ended_by_the_backend<'a>(scene: &'a Scene) -> Play<'a> {
    let mut play = Play::established(scene, "1.3");
    play.pass(Duration::from_millis(10));
    play.listen();
    play.backend_sends(&[7; 9_000]);
    play.backend.borrow_mut().peer_ended = true;
    play.wake();
    play
}

#[test]
fn a_client_that_still_receives_is_waited_for() {
    let scene = Scene::with(TERMINATES, LIMITS);
    // It has everything, and sends nothing.
    let mut play = ended_by_the_backend(&scene);
    play.listen();
    play.pass(3 * SECOND - Duration::from_millis(1));
    assert_eq!(play.end(), None);
    play.pass(Duration::from_millis(1));
    // It is notified, and may still send for a moment.
    play.pass(SECOND);
    assert_eq!(play.end(), Some(("relay", "backend", "backend-closed")));
    assert!(play.saw_close_notify);
    assert_eq!(play.client.borrow().leg_closed, Some(Closed::InOrder));

    // It takes nothing: the longer limit.
    let mut play = ended_by_the_backend(&scene);
    for _ in 0..19 {
        play.pass(SECOND);
        assert_eq!(play.end(), None);
    }
    play.pass(SECOND);
    let _ = play.client_receives();
    assert_eq!(play.end(), Some(("relay", "operator", "half-closed-idle")));

    // It takes a little now and then: that is no silence.
    let mut play = ended_by_the_backend(&scene);
    for _ in 0..20 {
        play.pass(2 * SECOND);
        assert_eq!(play.end(), None, "it still receives");
        play.client.borrow_mut().to_peer.drain(..100);
    }
    let _ = play.client_receives();
    for _ in 0..4 {
        play.pass(3 * SECOND);
    }
    assert_eq!(play.end(), Some(("relay", "backend", "backend-closed")));
}

/// Bytes of the client that are still on their way to the backend are no silence of the client.
#[test]
fn a_backend_that_ended_may_still_be_sent_to() {
    let scene = Scene::with(TERMINATES, LIMITS);
    let mut play = ended_by_the_backend(&scene);
    play.listen();
    play.backend.borrow_mut().room = 2;
    play.send_plaintext(b"more");
    play.pass(SECOND);
    play.pass(4 * SECOND);
    assert_eq!(play.end(), None, "half of it has not been taken");
    play.backend.borrow_mut().room = 100;
    play.wake();
    assert_eq!(play.backend_receives(), b"more");
}

#[test]
fn tickets_that_went_alone_are_nobodys_data() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::established(&scene, "1.3");
    play.pass(Duration::from_millis(10));
    assert!(!play.client.borrow().to_peer.is_empty(), "they are on their way");
    play.client.borrow_mut().peer_ended = true;
    play.wake();
    let _ = (play.client_receives(), play.backend_receives());
    play.pass(SECOND);
    assert_eq!(play.end(), Some(("relay", "client", "no-close-notify")));
}

#[test]
fn a_program_that_ends_cuts_connections_without_waiting() {
    on_engine(|| async {
        let scene = Scene::with(TERMINATES, "");
        let mut play = Play::established(&scene, "1.3");
        play.wake();
        play.backend_sends(b"on its way");
        scene.thread().enter(WorkerPhase::Ending);
        assert_eq!(play.end(), Some(("relay", "operator", "stopped")), "at once");
        assert_eq!(play.client.borrow().leg_closed, Some(Closed::Reset));
        assert_eq!(play.backend.borrow().leg_closed, Some(Closed::Reset));
        // One that is being cut, and waits for its last bytes to arrive.
        scene.thread().enter(WorkerPhase::Serving);
        let mut play = Play::established(&scene, "1.3");
        play.wake();
        play.backend_sends(b"on its way");
        play.backend.borrow_mut().peer_reset = true;
        assert_eq!(play.end(), None, "the client is to have it");
        scene.thread().enter(WorkerPhase::Ending);
        assert_eq!(play.end(), Some(("relay", "backend", "reset")));
    });
}

/// Neither waits for the other: the one that is done first is closed at once.
#[test]
fn a_slow_reader_does_not_keep_the_other_side_open() {
    let scene = Scene::with(TERMINATES, "");
    let mut play = Play::established(&scene, "1.3");
    play.wake();
    play.backend_sends(b"the last words");
    play.backend.borrow_mut().peer_reset = true;
    play.wake();
    play.wake();
    assert_eq!(play.backend.borrow().leg_closed, Some(Closed::Reset));
    assert_eq!(play.client.borrow().leg_closed, None, "every byte that was on its way arrives first");
    assert_eq!(play.end(), None);
    play.listen();
    play.pass(SECOND);
    assert_eq!((play.end(), &*play.plaintext), (Some(("relay", "backend", "reset")), &b"the last words"[..]));
    assert_eq!(play.client.borrow().leg_closed, Some(Closed::Reset));
    assert!(!play.saw_close_notify, "an abort stays an abort");
}
