//! Before hello, and behind connect: clients that ask for TLS in another protocol, and the backend's own greeting.

use handfast_leg::memory::Closed;
use serde_json::json;

use super::super::TERMINATES;
use super::super::backend::Dial;
use super::super::scene::{Reason, Scene};
use super::super::world::world;
use super::play::{Play, SECOND};

fn scene(protocol: &str) -> Scene {
    let more = format!(
        "starttls = \"{protocol}\"\nstarttls-name = \"mail.example\"\n[service.limits]\nhandshake = \"5s\""
    );
    Scene::with(TERMINATES, &more)
}

/// Says something in the clear, and gives the answer.
fn query_server(play: &mut Play<'_>, words: &[u8]) -> String {
    play.send(words);
    play.wake();
    String::from_utf8_lossy(&play.client_receives()).into_owned()
}

/// A mail client that has asked for TLS, and shaken hands.
fn upgraded<'a>(scene: &'a Scene) -> Play<'a> {
    let mut play = Play::new(scene, "1.3");
    assert_eq!(query_server(&mut play, b""), "220 mail.example ESMTP\r\n");
    assert!(query_server(&mut play, b"EHLO me\r\n").contains("250 STARTTLS\r\n"));
    assert!(query_server(&mut play, b"STARTTLS\r\n").starts_with("220 "));
    play.shake_hands();
    play.wake();
    play
}

fn detail(scene: &Scene) -> String {
    scene.lines()[0]["reason"]["detail"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_mail_client_gets_to_tls_and_the_backends_greeting_is_ours() {
    let scene = scene("smtp");
    let mut play = upgraded(&scene);
    assert_eq!(play.dialled(), [("127.0.0.1:1".to_owned(), false)], "the backend speaks first");
    // It may come in pieces, and the client may speak before.
    play.send_plaintext(b"EHLO again\r\n");
    play.wake();
    assert_eq!(play.backend_receives(), b"", "not before it has greeted");
    play.backend_sends(b"220-back");
    play.pass(SECOND);
    assert!(!play.carries());
    play.backend_sends(b"end\r\n220 ready\r\n250 early");
    assert!(play.carries());
    play.wake();
    assert_eq!(play.backend_receives(), b"EHLO again\r\n");
    play.listen();
    assert_eq!(play.plaintext, b"250 early", "bytes behind the greeting are the client's");
    assert!(play.cut().is_some());
    let line = &scene.lines()[0];
    assert_eq!((&line["starttls"], &line["sni"]), (&json!("smtp"), &json!("localhost")));
    assert_eq!(line["seconds"]["connect"], json!(1.0), "waiting for the greeting is connecting");
}

#[test]
fn a_backend_that_does_not_serve_reports_it_to_the_client() {
    let scene = scene("smtp");
    let mut play = upgraded(&scene);
    play.backend_sends(b"554 go away\r\n");
    play.wake();
    play.listen();
    assert_eq!(play.plaintext, b"554 go away\r\n");
}

#[test]
fn what_a_client_does_before_tls_has_its_cause() {
    const STARTTLS: &[u8] = b"EHLO me\r\nSTARTTLS\r\n";
    for (words, fin, end, expected) in [
        (&[STARTTLS, b"RCPT TO:<x>\r\n"].concat()[..], false, "plaintext-injected", ""),
        (b"\x16\x03\x01\x00\x05", false, "starttls", ""),
        (b"QUIT\r\n", false, "closed-early", ""),
        (b"EHLO me\r\n", true, "closed-early", "before it asked for TLS"),
        (b"EHLO me\r\n", false, "handshake-timeout", "it did not ask for TLS"),
    ] {
        let scene = scene("smtp");
        let mut play = Play::new(&scene, "1.3");
        query_server(&mut play, b"");
        play.pass(SECOND);
        play.send(words);
        play.client.borrow_mut().peer_ended = fin;
        play.wake();
        play.pass(4 * SECOND);
        play.client.borrow_mut().peer_ended = true;
        let _ = play.client_receives();
        play.pass(SECOND);
        assert_eq!(play.end(), Some(("hello", "client", end)), "{words:?}");
        let line = scene.lines().swap_remove(0);
        assert!(line["reason"]["detail"].as_str().unwrap_or_default().contains(expected), "{line}");
        assert_eq!(line["starttls"], json!(null), "it did not come to TLS");
        let spent = if end == "handshake-timeout" { 5.0 } else { 1.0 };
        assert_eq!(line["seconds"]["hello"], json!(spent), "{words:?}");
    }
    let scene = scene("smtp");
    let mut play = Play::new(&scene, "1.3");
    query_server(&mut play, b"");
    play.reset();
    assert_eq!(play.end(), Some(("hello", "client", "reset")));
}

/// A refused client can read the answer: no reset discards it.
#[test]
fn the_last_words_before_tls_arrive() {
    let scene = scene("smtp");
    let mut play = Play::new(&scene, "1.3");
    query_server(&mut play, b"");
    let reply = query_server(&mut play, b"QUIT\r\n");
    assert!(reply.starts_with("221 "), "{reply}");
    play.client.borrow_mut().peer_ended = true;
    assert!(play.end().is_some());
    assert_eq!(play.client.borrow().leg_closed, Some(Closed::InOrder));
}

/// A client that does not read delays the end by no more than the one deadline.
#[test]
fn a_client_that_does_not_take_the_answer_is_not_waited_for() {
    let scene = scene("smtp");
    let mut play = Play::new(&scene, "1.3");
    query_server(&mut play, b"");
    query_server(&mut play, b"EHLO me\r\n");
    play.client.borrow_mut().room = 0;
    query_server(&mut play, b"STARTTLS\r\n");
    play.pass(5 * SECOND);
    play.client.borrow_mut().room = 100_000;
    play.client.borrow_mut().peer_ended = true;
    assert_eq!(play.end(), Some(("hello", "client", "handshake-timeout")));
    assert_eq!(detail(&scene), "it did not receive the answer");
}

#[test]
fn what_a_backend_does_in_place_of_a_greeting_has_its_cause() {
    type Does = fn(&mut Play<'_>);
    let cases: [(Does, Reason, &str); 6] = [
        (|play| play.pass(5 * SECOND), ("connect", "backend", "handshake-timeout"), "it did not greet"),
        (
            |play| play.backend.borrow_mut().peer_ended = true,
            ("connect", "backend", "closed-early"),
            "before it was ready",
        ),
        (|play| play.backend.borrow_mut().peer_reset = true, ("connect", "backend", "reset"), ""),
        (|play| play.backend_sends(b"HTTP/1.1 400 Bad Request\r\n"), ("connect", "backend", "starttls"), ""),
        (|play| play.client.borrow_mut().peer_gone = true, ("connect", "client", "closed-early"), ""),
        // One that always has something to send has the same deadline.
        (
            |play| {
                for _ in 0..6 {
                    world(|world| world.now = world.now + SECOND);
                    play.backend_sends(b"220-and\r\n");
                }
            },
            ("connect", "backend", "handshake-timeout"),
            "it did not greet",
        ),
    ];
    for (does, end, expected) in cases {
        let scene = scene("smtp");
        let mut play = upgraded(&scene);
        does(&mut play);
        play.wake();
        let _ = (play.client_receives(), play.backend_receives());
        play.pass(SECOND / 100);
        assert_eq!(play.end(), Some(end));
        let detail = detail(&scene);
        assert!(detail.contains(expected), "{detail}");
    }
}

#[test]
fn where_the_protocol_allows_it_tls_may_begin_at_once() {
    let scene = scene("postgresql");
    let mut play = Play::new(&scene, "1.3");
    play.shake_hands();
    play.send_plaintext(b"startup");
    play.wake();
    play.wake();
    assert_eq!(play.backend_receives(), b"startup");
    assert!(play.cut().is_some());
    assert_eq!(scene.lines()[0]["starttls"], json!(null), "it did not ask in the clear");

    let scene = self::scene("postgresql");
    let mut play = Play::new(&scene, "1.3");
    assert_eq!(
        query_server(&mut play, &[0, 0, 0, 8, 4, 210, 22, 47]),
        "S",
        "a request for TLS, and its answer"
    );
    play.shake_hands();
    play.wake();
    assert!(play.carries());
}

/// One packet of MySQL.
pub(super) fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    [&[payload.len() as u8, 0, 0, number], payload].concat()
}

/// CLIENT_PROTOCOL_41 and CLIENT_SSL.
const CAPABILITIES: u16 = 0x0a00;

pub(super) fn greeting() -> Vec<u8> {
    let mut payload = b"\x0a8.4.0\0\x01\0\0\0challeng\0".to_vec();
    payload.extend_from_slice(&(CAPABILITIES & !0x0800).to_le_bytes());
    payload.extend_from_slice(&[45, 0, 0, 0, 0, 0, 0]);
    packet(0, &payload)
}

pub(super) fn request() -> Vec<u8> {
    let mut payload = CAPABILITIES.to_le_bytes().to_vec();
    payload.resize(32, 0);
    packet(1, &payload)
}

/// A client that has asked for TLS with its server's own greeting, and shaken hands.
fn mysql_upgraded<'a>(scene: &'a Scene) -> Play<'a> {
    let mut play = Play::new(scene, "1.3");
    play.wake();
    let (begin, end) = (greeting()[..7].to_vec(), greeting()[7..].to_vec());
    play.backend_sends(&begin);
    assert_eq!(play.client_receives(), b"", "it is not whole");
    play.backend_sends(&end);
    let received = play.client_receives();
    assert_eq!(received.len(), greeting().len());
    assert_ne!(received, greeting(), "it offers TLS");
    let request = request();
    play.send(&request[..20]);
    play.wake();
    play.send(&request[20..]);
    play.shake_hands();
    play.wake();
    play
}

pub(super) fn login() -> Vec<u8> {
    let mut payload = CAPABILITIES.to_le_bytes().to_vec();
    payload.resize(40, b'u');
    packet(2, &payload)
}

/// PostgreSQL before version 17 of its clients sends it without TLS; it carries its own key.
#[test]
fn a_request_to_cancel_a_query_reaches_every_backend() {
    let more = "starttls = \"postgresql\"\n[service.limits]\nconnect = \"2s\"\nhandshake = \"9s\"";
    let text = format!(
        "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\ncertificate = \"web.pem\"\n\
         backend = [\"127.0.0.1:11\", \"127.0.0.1:12\", \"127.0.0.1:13\"]\n{more}"
    );
    let scene = Scene::of(TERMINATES, &text);
    let request = [&[0, 0, 0, 16, 4, 210, 22, 46][..], b"\0\0\x12\x34key!"].concat();
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::Connects { after: SECOND }, Dial::RefusedAtOnce]);
    play.send(&request[..9]);
    play.wake();
    assert!(play.dialled().is_empty(), "it is not whole");
    play.send(&request[9..]);
    play.wake();
    play.pass(SECOND);
    assert_eq!(play.backend_receives(), request, "these bytes and no other ones");
    assert_eq!((play.dialled().len(), play.end()), (1, None), "the server acts on it, and closes then");
    play.backend.borrow_mut().peer_ended = true;
    play.wake();
    let addresses: Vec<_> = play.dialled().into_iter().map(|(address, _)| address).collect();
    assert_eq!(addresses, ["127.0.0.1:11", "127.0.0.1:12", "127.0.0.1:13"]);
    assert_eq!(play.end(), Some(("relay", "client", "finished")));
    assert_eq!(play.client_receives(), b"", "it has no answer");
    assert_eq!(play.client.borrow().leg_closed, Some(Closed::InOrder));
    let line = scene.lines().swap_remove(0);
    assert_eq!(line["reason"]["detail"], "a request to cancel a query, passed on to 2 of 3");
    assert_eq!(line["backend_failures"][0]["backend"], "127.0.0.1:12");
}

#[test]
fn a_mysql_login_is_numbered_for_both_sides() {
    let scene = scene("mysql");
    let mut play = mysql_upgraded(&scene);
    assert_eq!(play.dialled(), [("127.0.0.1:1".to_owned(), false)]);
    play.send_plaintext(&login()[..10]);
    play.wake();
    assert_eq!(play.backend_receives(), b"", "half a packet has no number yet");
    play.send_plaintext(&login()[10..]);
    play.wake();
    let received = play.backend_receives();
    assert_eq!(
        (received.len(), received[3], received[5] & 0x08),
        (login().len(), 1, 0),
        "without the mark of TLS"
    );
    // The server asks for more, and then lets it in.
    play.backend_sends(&packet(2, b"\xfeplugin"));
    play.listen();
    assert_eq!(play.plaintext, packet(3, b"\xfeplugin"));
    play.pass(SECOND);
    play.send_plaintext(&packet(4, b"proof"));
    play.wake();
    assert_eq!(play.backend_receives(), packet(3, b"proof"));
    assert!(!play.carries());
    play.plaintext.clear();
    play.backend_sends(&packet(4, b"\0\0\0"));
    assert!(play.carries());
    play.listen();
    assert_eq!(play.plaintext, packet(5, b"\0\0\0"));
    // From here on every command begins at zero, and bytes are bytes.
    play.send_plaintext(&packet(0, b"\x03select 1"));
    play.wake();
    assert_eq!(play.backend_receives(), packet(0, b"\x03select 1"));
    assert!(play.cut().is_some());
    let line = &scene.lines()[0];
    assert_eq!((&line["starttls"], &line["seconds"]["connect"]), (&json!("mysql"), &json!(1.0)));
}

#[test]
fn what_goes_wrong_with_mysql_before_tls_has_its_cause() {
    type Does = fn(&mut Play<'_>);
    let cases: [(Does, Reason); 7] = [
        (
            |play| play.backend_sends(&packet(0, b"\xff\x10\x04Too many connections")),
            ("connect", "backend", "starttls-refused"),
        ),
        (|play| play.backend_sends(&packet(0, b"\x09old")), ("connect", "backend", "starttls")),
        (|play| play.pass(5 * SECOND), ("connect", "backend", "handshake-timeout")),
        (
            |play| {
                play.backend_sends(&greeting());
                play.send(&login());
            },
            ("hello", "client", "starttls"),
        ),
        (
            |play| {
                play.backend_sends(&greeting());
                play.send(&[&request()[..], b"more"].concat());
            },
            ("hello", "client", "plaintext-injected"),
        ),
        (
            |play| {
                play.backend_sends(&greeting());
                play.pass(5 * SECOND);
            },
            ("hello", "client", "handshake-timeout"),
        ),
        (
            |play| {
                play.backend_sends(&greeting());
                play.client.borrow_mut().peer_ended = true;
            },
            ("hello", "client", "closed-early"),
        ),
    ];
    for (does, end) in cases {
        let scene = scene("mysql");
        let mut play = Play::new(&scene, "1.3");
        play.wake();
        does(&mut play);
        play.wake();
        let received = play.client_receives();
        if end.2 == "starttls-refused" {
            assert_eq!(
                received,
                packet(0, b"\xff\x10\x04Too many connections"),
                "they are the client's words"
            );
        }
        assert_eq!(ended_by_its_client(&mut play), Some(end));
    }
}

/// The client ends, and both take the bytes on their way; returns how it ended.
fn ended_by_its_client(play: &mut Play<'_>) -> Option<Reason> {
    play.client.borrow_mut().peer_ended = true;
    (0..4).find_map(|_| {
        let _ = (play.client_receives(), play.backend_receives());
        play.pass(SECOND / 10);
        play.end()
    })
}

#[test]
fn what_goes_wrong_in_a_mysql_login_has_its_cause() {
    type Does = fn(&mut Play<'_>);
    let cases: [(Does, Reason); 7] = [
        (|play| play.pass(5 * SECOND), ("connect", "client", "handshake-timeout")),
        (
            |play| {
                play.send_plaintext(&login());
                play.wake();
                play.pass(5 * SECOND);
            },
            ("connect", "backend", "handshake-timeout"),
        ),
        (|play| play.close(), ("connect", "client", "closed-early")),
        (|play| play.send_plaintext(&packet(2, b"x")), ("connect", "client", "starttls")),
        (|play| play.backend.borrow_mut().peer_ended = true, ("connect", "backend", "closed-early")),
        (|play| play.backend_sends(&[255, 255, 255, 2]), ("connect", "backend", "starttls")),
        (|play| play.send(&[23, 3, 3, 0, 1, 0]), ("connect", "client", "tls")),
    ];
    for (does, end) in cases {
        let scene = scene("mysql");
        let mut play = mysql_upgraded(&scene);
        does(&mut play);
        play.wake();
        assert_eq!(ended_by_its_client(&mut play), Some(end));
    }
}

/// Its client sends nothing before it was greeted.
#[test]
fn no_backend_is_dialled_for_a_mysql_client_that_sends_first() {
    let more = "starttls = \"mysql\"\n[service.proxy-protocol]\naccept-from = \"10.0.0.0/8\"";
    let scene = Scene::with(TERMINATES, more);
    let mut play = Play::from(&scene, "1.3", Some(([10, 0, 0, 1], 9).into()));
    play.send(b"PROXY UNKNOWN\r\nwords");
    assert_eq!(play.end(), Some(("hello", "client", "starttls")));
    assert!(play.dialled().is_empty());
}

#[test]
fn a_mysql_backend_that_is_not_connected_is_no_clients_fault() {
    let scene = scene("mysql");
    let mut play = Play::new(&scene, "1.3").dials(&[Dial::RefusedAtOnce]);
    assert_eq!(play.end(), Some(("connect", "backend", "network-unreachable")));
    assert_eq!(play.client_receives(), b"");
}

/// One that its server has let in.
pub(super) fn mysql_logged_in<'a>(scene: &'a Scene) -> Play<'a> {
    let mut play = mysql_upgraded(scene);
    play.send_plaintext(&login());
    play.wake();
    let _ = play.backend_receives();
    play.backend_sends(&packet(2, b"\0\0\0"));
    assert!(play.carries());
    play.listen();
    play
}

/// White space has no meaning in XML, and may come behind `<starttls/>` in a separate read. It has a bound, and no other protocol has it.
#[test]
fn white_space_of_xml_may_come_before_the_hello() {
    const OPEN: &[u8] = b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
    const STARTTLS: &[u8] = b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
    let scene = scene("xmpp");
    let limited = "\n".repeat(4_096);
    for blanks in [&["\n"][..], &[" \t\r", "\n"], &[&limited]] {
        let mut play = Play::new(&scene, "1.3");
        query_server(&mut play, OPEN);
        assert!(query_server(&mut play, STARTTLS).starts_with("<proceed "));
        for blank in blanks {
            assert_eq!(query_server(&mut play, blank.as_bytes()), "");
        }
        play.shake_hands();
        play.wake();
        assert!(play.carries(), "{}", blanks.len());
        assert!(play.cut().is_some());
    }
    let over = "\n".repeat(4_097);
    for (protocol, request_text, blanks) in
        [("xmpp", STARTTLS, &over[..]), ("xmpp", STARTTLS, "\x0c"), ("smtp", b"STARTTLS\r\n", "\n")]
    {
        let scene = self::scene(protocol);
        let mut play = Play::new(&scene, "1.3");
        query_server(&mut play, if protocol == "xmpp" { OPEN } else { b"EHLO me\r\n" });
        query_server(&mut play, request_text);
        query_server(&mut play, blanks.as_bytes());
        play.client.borrow_mut().peer_ended = true;
        assert_eq!(play.end(), Some(("hello", "client", "not-tls")), "{protocol} {}", blanks.len());
    }
}
