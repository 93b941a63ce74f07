//! Step 5: which backend is dialled, in which order, with which timeout, and which failures count against it.

use std::rc::Rc;
use std::time::Duration;

use handfast_net::fault::Cause as SocketCause;
use serde_json::json;

use super::super::backend::{Backend, Dial};
use super::super::scene::{Mode, Scene};
use super::super::world::world;
use super::counts;
use super::play::{Play, SECOND};
use super::secured::Secured;
use crate::backends::endpoint::Endpoint;
use crate::backends::standing::{Availability, FailurePolicy, Trial};
use crate::testing::on_engine;
use crate::worker::context::WorkerPhase;
use crate::worker::services::Chosen;
use handfast_observe::cause::Cause;

/// Plain text on both sides: nothing but the dialling.
const PLAIN: Mode = Mode { client_tls: false, backend_tls: false };
const SECURED: Mode = Mode { client_tls: false, backend_tls: true };

const REFUSED: Dial = Dial::Refused { after: Duration::ZERO };

fn plain(backends: &str, more: &str) -> Scene {
    let text = format!(
        "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\nclient-tls = false\nbackend = {backends}\n{more}"
    );
    Scene::of(PLAIN, &text)
}

const ONE: &str = "\"127.0.0.1:1\"";
const THREE: &str = "[\"127.0.0.1:11\", \"127.0.0.1:12\", \"127.0.0.1:13\"]";

fn endpoint(scene: &Scene) -> Rc<Endpoint> {
    scene.thread().state().services[0].group(Chosen::SERVICE).endpoints().swap_remove(0)
}

/// Returns the number of failed dials of a backend, by cause.
fn failures(scene: &Scene, place: usize) -> Vec<(&'static str, u64)> {
    counts(scene.snapshot().services[0].backends[place].failures.0.clone())
}

#[test]
fn a_backend_that_refuses_is_written_down_and_the_next_one_tried() {
    let scene = plain(THREE, "");
    let slow = Dial::Connects { after: SECOND / 4 };
    let mut play = Play::new(&scene, "1.3").dials(&[REFUSED, Dial::RefusedAtOnce, slow]);
    play.wake();
    assert!(!play.carries());
    play.pass(SECOND / 4);
    assert!(play.carries());
    let dialled: Vec<_> = play.dialled().into_iter().map(|(address, _)| address).collect();
    assert_eq!(dialled, ["127.0.0.1:11", "127.0.0.1:12", "127.0.0.1:13"]);
    assert_eq!(failures(&scene, 0), [("refused", 1)]);
    assert_eq!(failures(&scene, 1), [("network-unreachable", 1)]);
    let third = &scene.snapshot().services[0].backends[2];
    assert_eq!((third.connected, third.disconnected, third.failures.values().sum::<u64>()), (1, 0, 0));
    assert!((third.connect.sum_seconds() - 0.25).abs() < 1e-6);
    play.reset();
    play.wake();
    assert_eq!(play.end(), Some(("relay", "client", "reset")));
    assert_eq!(scene.snapshot().services[0].backends[2].disconnected, 1);
    let line = &scene.lines()[0];
    assert_eq!(line["backend"], "127.0.0.1:13");
    let failed = json!([
        { "backend": "127.0.0.1:11", "cause": "refused" },
        { "backend": "127.0.0.1:12", "cause": "network-unreachable" },
    ]);
    assert_eq!((&line["backend_failures"], &line["backends_failed"]), (&failed, &json!(2)));
    assert_eq!(line["seconds"]["connect"], json!(0.25));
}

#[test]
fn each_backend_is_tried_once_and_the_last_failure_is_the_reason() {
    let scene = plain(THREE, "");
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::RefusedAtOnce, Dial::RefusedAtOnce, REFUSED]);
    assert_eq!(play.end(), Some(("connect", "backend", "refused")));
    assert_eq!(play.dialled().len(), 3);
}

#[test]
fn a_backend_is_marked_down_after_as_many_failures_as_configured() {
    let scene = plain(ONE, "[service.limits]\nbackend-failures = 2\nbackend-retry = \"7s\"");
    for state in [Availability::Up, Availability::Up] {
        assert_eq!(endpoint(&scene).standing.availability(), state);
        let mut play = Play::new(&scene, "1.3").dials(&[REFUSED]);
        assert_eq!(play.end(), Some(("connect", "backend", "refused")));
    }
    assert!(matches!(endpoint(&scene).standing.availability(), Availability::Down(_)));
}

#[test]
fn a_backend_that_never_answers_has_a_limit_of_its_own() {
    let scene = plain(THREE, "[service.limits]\nconnect = \"2s\"\nhandshake = \"10s\"");
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::Never, Dial::Connects { after: 2 * SECOND }]);
    play.wake();
    play.pass(2 * SECOND - Duration::from_millis(1));
    assert_eq!(play.dialled().len(), 1);
    play.pass(Duration::from_millis(1));
    assert_eq!(play.dialled().len(), 2, "the next one is tried");
    assert_eq!(failures(&scene, 0), [("connect-timeout", 1)]);
    // Its answer came at the very moment of the deadline: it is read nevertheless.
    play.pass(2 * SECOND);
    assert!(play.carries());
}

/// Else a backend that drops packets is never found out where the client's policy is the shorter one.
#[test]
fn a_backend_is_blamed_for_a_clients_deadline_if_it_had_a_second() {
    for (deadline, blamed) in [("900ms", false), ("1s", true), ("4s", true)] {
        let scene = plain(ONE, &format!("[service.limits]\nconnect = \"9s\"\nhandshake = \"{deadline}\""));
        let mut play = Play::new(&scene, "1.3").dials(&[Dial::Never]);
        play.wake();
        play.pass(4 * SECOND);
        assert_eq!(play.end(), Some(("connect", "backend", "handshake-timeout")));
        // The deadline came late to this thread; the time that the backend had is what counts.
        assert_eq!(failures(&scene, 0), [("connect-timeout", 1)], "{deadline}");
        let mut play = Play::new(&scene, "1.3").dials(&[Dial::Never]);
        play.wake();
        play.pass(Duration::from_millis(if blamed { 1_000 } else { 900 }));
        if blamed && deadline == "4s" {
            assert_eq!(play.end(), None);
            continue;
        }
        assert_eq!(play.end(), Some(("connect", "backend", "handshake-timeout")));
        let counted = failures(&scene, 0)[0].1;
        assert_eq!(counted, 1 + u64::from(blamed), "{deadline}");
    }
}

#[test]
fn a_client_that_leaves_while_a_backend_is_dialled_is_not_waited_for() {
    let early = SECOND - Duration::from_millis(1);
    for (dial, after, counted) in [
        (Dial::Never, early, None),
        (Dial::Never, SECOND, Some(("connect-timeout", 1))),
        (Dial::Refused { after: SECOND }, SECOND, Some(("refused", 1))),
        // It had answered by then.
        (Dial::Connects { after: SECOND }, SECOND, None),
    ] {
        let scene = plain(THREE, "");
        let mut play = Play::new(&scene, "1.3").dials(&[dial]);
        play.wake();
        play.reset();
        play.pass(after);
        assert_eq!(play.end(), Some(("connect", "client", "reset")), "{dial:?}");
        assert_eq!(play.dialled().len(), 1, "no other one is tried for it");
        assert_eq!(failures(&scene, 0), counted.into_iter().collect::<Vec<_>>(), "{dial:?} {after:?}");
    }
    let scene = plain(ONE, "");
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::Never]);
    play.wake();
    play.client.borrow_mut().peer_gone = true;
    assert_eq!(play.end(), Some(("connect", "client", "closed-early")));
}

/// The engine wakes no task for a socket that was not read from yet.
#[test]
fn a_plain_client_is_watched_while_its_backend_is_dialled() {
    let scene = plain(ONE, "");
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::Never]);
    assert!(!play.client.borrow().watched);
    play.wake();
    assert!(play.client.borrow().watched);
}

#[test]
fn a_program_that_ends_waits_for_no_backend() {
    on_engine(|| async {
        let scene = plain(ONE, "");
        let mut play = Play::new(&scene, "1.3").dials(&[Dial::Never]);
        play.wake();
        assert_eq!(play.end(), None);
        scene.thread().enter(WorkerPhase::Ending);
        assert_eq!(play.end(), Some(("connect", "operator", "stopped")));
        assert!(failures(&scene, 0).is_empty());
    });
}

/// A backend that is down, and that another connection tries out.
fn on_trial(scene: &Scene) -> (Rc<Endpoint>, Trial) {
    let endpoint = endpoint(scene);
    let policy = FailurePolicy { failures: 1, pause: SECOND };
    let refused = Cause::Socket(SocketCause::Refused);
    assert!(endpoint.standing.failed(refused, None, policy).is_some(), "it is marked down");
    let trial = endpoint.standing.try_out().expect("no connection tries it");
    (endpoint, trial)
}

#[test]
fn the_outcome_of_anothers_trial_is_waited_for_and_believed() {
    let policy = FailurePolicy { failures: 1, pause: SECOND };
    let reset = Cause::Socket(SocketCause::Reset);
    let scene = plain(ONE, "");
    let (endpoint, trial) = on_trial(&scene);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    // It looks soon at first, and then ever more seldom.
    for millisecond in [1, 2, 4, 8, 16, 32, 64, 100, 100] {
        let until = world(|world| world.deadline.since(world.now));
        assert_eq!(until, Duration::from_millis(millisecond));
        play.pass(until);
        assert!(play.dialled().is_empty() && !play.carries());
    }
    assert!(endpoint.standing.failed(reset, Some(trial), policy).is_none(), "it is down already");
    assert_eq!(play.end(), Some(("connect", "backend", "reset")));
    let line = &scene.lines()[0];
    assert_eq!(line["backend_failures"], json!([{ "backend": "127.0.0.1:1", "cause": "reset" }]));
    assert_eq!(line["backend"], "127.0.0.1:1");
    let detail = line["reason"]["detail"].as_str().expect("a detail");
    assert!(detail.starts_with("another connection that tried it"), "{detail}");

    let scene = plain(ONE, "");
    let (endpoint, _) = on_trial(&scene);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    endpoint.standing.connected();
    play.wake();
    assert!(play.carries(), "it is up again");

    let scene = plain(ONE, "");
    let (endpoint, trial) = on_trial(&scene);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    endpoint.standing.give_back(trial);
    play.wake();
    assert!(play.carries(), "there was no outcome, so this one tries");

    // Between two looks one trial has failed and another begun: the first one's outcome counts.
    let scene = plain(ONE, "");
    let (endpoint, trial) = on_trial(&scene);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    let _ = endpoint.standing.failed(reset, Some(trial), policy);
    let _another = endpoint.standing.try_out().expect("its pause is no reason");
    assert_eq!(play.end(), Some(("connect", "backend", "reset")));
}

#[test]
fn no_connection_waits_for_anothers_trial_forever() {
    let scene = plain(ONE, "[service.limits]\nhandshake = \"3s\"");
    let _trial = on_trial(&scene);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.pass(Duration::from_millis(1));
    assert_eq!(play.end(), None);
    play.pass(3 * SECOND);
    // A look that was due, and then the deadline.
    let end = play.end().or_else(|| {
        play.pass(SECOND);
        play.end()
    });
    assert_eq!(end, Some(("connect", "backend", "handshake-timeout")));

    let scene = plain(ONE, "");
    let _trial = on_trial(&scene);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.reset();
    assert_eq!(play.end(), Some(("connect", "client", "reset")));
}

/// The kernel is informed, because it holds back the last packet of TCP's handshake for it.
#[test]
fn a_dial_with_bytes_to_send_announces_them_before_it_connects() {
    let header = "[service.proxy-protocol]\nsend = \"v1\"";
    for (mode, more, speaks) in [(PLAIN, "", false), (PLAIN, header, true), (SECURED, "", true)] {
        let scene = Scene::with(mode, more);
        let mut play = Play::new(&scene, "1.3");
        play.wake();
        assert_eq!(play.dialled(), [("127.0.0.1:1".to_owned(), speaks)], "{mode:?} {more}");
    }
}

/// A backend that speaks TLS, and is willing.
fn secured<'a>(scene: &'a Scene, play: &Play<'a>) -> Backend {
    Backend::cooperative(Rc::clone(&play.backend), scene.server())
}

/// Until the handshake is over and all of the backend's tickets have come.
fn converse(play: &mut Play<'_>, backend: &mut Backend) {
    while !play.carries() || !backend.wire.outgoing.is_empty() {
        play.wake();
        backend.listen(true);
        backend.act(false);
    }
    play.wake();
}

#[test]
fn a_handshake_with_a_backend_is_written_down() {
    let scene = Scene::with(SECURED, "");
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::Connects { after: SECOND }]);
    let mut backend = secured(&scene, &play);
    play.wake();
    play.pass(SECOND);
    play.pass(SECOND);
    converse(&mut play, &mut backend);
    assert!(play.carries());
    let snapshot = scene.snapshot();
    let known = &snapshot.backend_handshakes[0];
    assert_eq!((&*known.version, known.resumed, known.total.count()), ("TLSv1.3", false, 1));
    let service = &snapshot.services[0];
    assert_eq!((service.backend_handshakes_full, service.backend_handshakes_resumed), (1, 0));
    play.reset();
    assert_eq!(play.end(), Some(("relay", "client", "reset")));
    let line = &scene.lines()[0];
    assert_eq!(line["backend_tls"]["version"], "TLSv1.3");
    assert_eq!(line["seconds"]["connect"], json!(2.0));
    // One second after it was connected.
    assert_eq!(line["backend_tls"]["handshake"], json!(1.0), "{line}");
}

/// On a clock that goes on at each look, so that computing takes time.
#[test]
fn computing_for_a_backends_handshake_is_counted_once() {
    let scene = Scene::with(SECURED, "");
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::Connects { after: SECOND }]);
    let mut backend = Secured::new(&scene);
    // A second for the hello, and one for the answer to it; waiting between them.
    world(|world| world.tick = SECOND);
    play.wake();
    world(|world| world.tick = Duration::ZERO);
    play.pass(SECOND);
    let hello = play.backend_receives();
    play.pass(SECOND / 2);
    world(|world| world.tick = SECOND);
    backend.take(&mut play, &hello);
    world(|world| world.tick = Duration::ZERO);
    backend.listen(&mut play);
    assert!(play.carries());
    assert!(play.cut().is_some());
    let tls = &scene.lines()[0]["backend_tls"];
    assert_eq!(tls["crypto"], json!(2.0), "{tls}");
    // The hello's second, half a second of waiting, and four looks at the clock since.
    assert_eq!(tls["handshake"], json!(5.5), "{tls}");
}

#[test]
fn a_backend_without_tls_is_found_out_by_its_first_byte() {
    for (reply, detail) in [
        (&b"SSH-2.0-OpenSSH_9.9\r\nand more"[..], "it answered the ClientHello with \"SSH-2.0-OpenSSH_9.9\""),
        (b"220 mail.example ESMTP\n", "it answered the ClientHello with \"220 mail.example ESMTP\""),
        (&[b'x'; 100], &*format!("it answered the ClientHello with \"{}\"", "x".repeat(60))),
        (&[0, 1, 2, 3], "it answered the ClientHello with something that is no TLS record"),
        (b"x", "it answered the ClientHello with something that is no TLS record"),
    ] {
        let scene = Scene::with(SECURED, "");
        let mut play = Play::new(&scene, "1.3");
        play.wake();
        play.backend_sends(reply);
        assert_eq!(play.end(), Some(("connect", "backend", "not-tls")));
        assert_eq!(failures(&scene, 0), [("not-tls", 1)]);
        assert_eq!(scene.lines()[0]["reason"]["detail"], detail);
    }
}

#[test]
fn a_handshake_with_a_backend_has_its_limits() {
    const LIMITS: &str = "[service.limits]\nconnect = \"2s\"\nhandshake = \"9s\"";
    let scene = Scene::with(SECURED, LIMITS);
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::Connects { after: SECOND }]);
    play.wake();
    play.pass(SECOND);
    play.pass(SECOND);
    assert_eq!(play.end(), Some(("connect", "backend", "connect-timeout")), "one limit for both");
    let line = &scene.lines()[0];
    assert_eq!(line["reason"]["detail"], "during the TLS handshake with it");
    assert_eq!(line["backend_tls"]["handshake"], json!(1.0));

    // One that always has something to send has the same limit: a record at a time, of a message that never ends.
    let scene = Scene::with(SECURED, LIMITS);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_sends(&[22, 3, 3, 0, 5, 2, 0, 64, 0, 0]);
    for _ in 0..3 {
        world(|world| world.now = world.now + SECOND);
        play.backend_sends(&[22, 3, 3, 0, 1, 0]);
    }
    assert_eq!(play.end(), Some(("connect", "backend", "connect-timeout")));

    // The whole connection's deadline.
    let scene = Scene::with(SECURED, "[service.limits]\nconnect = \"9s\"\nhandshake = \"2s\"");
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.pass(2 * SECOND);
    assert_eq!(play.end(), Some(("connect", "backend", "handshake-timeout")));
    assert_eq!(failures(&scene, 0), [("connect-timeout", 1)], "it had time enough");
}

#[test]
fn what_breaks_off_a_handshake_with_a_backend_is_called_by_its_name() {
    type Breaks = fn(&mut Play<'_>);
    let cases: [(Breaks, _, &[(&str, u64)]); 4] = [
        (
            |play| play.backend.borrow_mut().peer_ended = true,
            ("connect", "backend", "closed-early"),
            &[("closed-early", 1)],
        ),
        (
            |play| play.backend.borrow_mut().peer_reset = true,
            ("connect", "backend", "reset"),
            &[("reset", 1)],
        ),
        (|play| play.reset(), ("connect", "client", "reset"), &[]),
        // Its alert: handshake_failure.
        (
            |play| play.backend_sends(&[21, 3, 3, 0, 2, 2, 40]),
            ("connect", "backend", "alert"),
            &[("alert", 1)],
        ),
    ];
    for (breaks, end, counted) in cases {
        let scene = Scene::with(SECURED, "");
        let mut play = Play::new(&scene, "1.3");
        play.wake();
        breaks(&mut play);
        assert_eq!(play.end(), Some(end));
        assert_eq!(failures(&scene, 0), counted);
    }
    // The client leaves when the backend had time enough.
    let scene = Scene::with(SECURED, "");
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.pass(SECOND);
    play.reset();
    assert_eq!(play.end(), Some(("connect", "client", "reset")));
    assert_eq!(failures(&scene, 0), [("connect-timeout", 1)]);
}

/// Else the backend's log reports a reset without the reason.
#[test]
fn a_backend_whose_tls_is_wrong_receives_an_alert() {
    let scene = Scene::with(SECURED, "");
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_receives();
    // A ServerHello of one byte.
    play.backend_sends(&[22, 3, 3, 0, 5, 2, 0, 0, 1, 0]);
    assert_eq!(play.end(), Some(("connect", "backend", "tls")));
    assert!(matches!(*play.backend_receives(), [21, 3, 3, 0, 2, 2, _]), "a fatal alert");
}

#[test]
fn a_header_goes_in_front_of_everything_and_is_not_counted() {
    const HEADER: &str = "[service.proxy-protocol]\nsend = \"v1\"";
    // An address of the client's, and none of ours: the header can say no more than that it is one.
    let client = Some(([192, 0, 2, 7], 50_000).into());
    let scene = Scene::with(PLAIN, HEADER);
    let mut play = Play::from(&scene, "1.3", client);
    play.send(b"first");
    play.wake();
    play.wake();
    assert_eq!(play.backend_receives(), b"PROXY UNKNOWN\r\nfirst");
    assert_eq!(scene.snapshot().services[0].bytes_to_backend, 5);

    let scene = Scene::with(SECURED, HEADER);
    let mut play = Play::from(&scene, "1.3", client);
    play.wake();
    let received = play.backend_receives();
    assert_eq!(received[..15], *b"PROXY UNKNOWN\r\n");
    assert_eq!(received[15], 22, "TLS begins behind it");
}

#[test]
fn a_silent_end_of_a_backend_is_one_where_it_is_configured() {
    let text = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\nclient-tls = false\nbackend = \"127.0.0.1:1\"\n\
                backend-tls = { ca = \"web.pem\", name = \"localhost\", missing-close-notify = \"end\" }";
    for (scene, end) in [
        (Scene::of(SECURED, text), ("relay", "backend", "finished")),
        (Scene::with(SECURED, ""), ("relay", "backend", "truncated")),
    ] {
        let mut play = Play::new(&scene, "1.3");
        let mut backend = secured(&scene, &play);
        converse(&mut play, &mut backend);
        assert!(play.carries());
        play.backend.borrow_mut().peer_ended = true;
        play.wake();
        play.client.borrow_mut().peer_ended = true;
        let ended = (0..4).find_map(|_| {
            backend.listen(true);
            play.pass(SECOND);
            play.end()
        });
        assert_eq!(ended, Some(end), "{:?}", scene.lines());
    }
}
