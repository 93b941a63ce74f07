//! Behind connect: backends that are asked for TLS in their own protocol, beside clients that asked for it, have it, or have none.

use serde_json::json;

use super::super::scene::{Mode, Scene};
use super::play::{Play, SECOND};
use super::secured::Secured;
use super::starttls::{greeting, login, packet, request};
use crate::backends::standing::Availability;
use crate::worker::services::Chosen;

/// `clients`: how they are served.
fn scene(clients: &str, protocol: &str) -> Scene {
    let mode = Mode { client_tls: !clients.contains("client-tls = false"), backend_tls: true };
    let text = format!(
        "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\nbackend = \"127.0.0.1:1\"\n{clients}\n\
         backend-tls = {{ starttls = \"{protocol}\", ca = \"web.pem\", name = \"localhost\" }}\n\
         [service.limits]\nhandshake = \"5s\"\nbackend-failures = 2\n"
    );
    Scene::of(mode, &text)
}

const MYSQL_CLIENTS: &str = "certificate = \"web.pem\"\nstarttls = \"mysql\"";
const PLAIN: &str = "client-tls = false";

/// Greeting of a MySQL server that offers TLS.
fn greeting_with_tls() -> Vec<u8> {
    let mut greeting = greeting();
    let capabilities = greeting.len() - 9;
    greeting[capabilities + 1] |= 0x08;
    greeting
}

/// A client that has asked for TLS by its server's greeting, and shaken hands.
fn play_after_request<'a>(scene: &'a Scene) -> Play<'a> {
    let mut play = Play::new(scene, "1.3");
    play.wake();
    play.backend_sends(&greeting_with_tls());
    assert_eq!(play.client_receives(), greeting_with_tls());
    play.send(&request());
    play.shake_hands();
    play.wake();
    play
}

/// The server reads a request for TLS, and shakes hands.
fn secure(scene: &Scene, play: &mut Play<'_>) -> Secured {
    let received = play.backend_receives();
    let (tls_request, hello) = received.split_at(request().len());
    assert_eq!(
        (tls_request[3], tls_request[5] & 0x08),
        (1, 0x08),
        "a request for TLS, and the hello behind it"
    );
    let mut backend = Secured::new(scene);
    backend.take(play, hello);
    backend.listen(play);
    backend
}

#[test]
fn a_mysql_login_between_two_sessions_keeps_its_numbers() {
    let scene = scene(MYSQL_CLIENTS, "mysql");
    let mut play = play_after_request(&scene);
    assert_eq!(play.dialled().len(), 1, "the server that has greeted is the one");
    let mut backend = secure(&scene, &mut play);
    assert!(play.carries());
    play.send_plaintext(&login());
    play.wake();
    backend.listen(&mut play);
    assert_eq!(backend.plaintext, login());
    backend.send_plaintext(&mut play, &packet(3, b"\0\0\0"));
    play.listen();
    assert_eq!(play.plaintext, packet(3, b"\0\0\0"));
    assert!(play.cut().is_some());
    let line = &scene.lines()[0];
    assert_eq!((&line["starttls"], &line["backend_tls"]["version"]), (&json!("mysql"), &json!("TLSv1.3")));
    assert_eq!(line["bytes_to_backend"], json!(login().len()), "what the client said, and not what we did");
}

/// Before the client has asked: it is not led to believe that it speaks to a server with TLS.
#[test]
fn a_mysql_server_that_offers_no_tls_is_not_passed_on() {
    let scene = scene(MYSQL_CLIENTS, "mysql");
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_sends(&greeting());
    assert_eq!(play.client_receives(), b"");
    assert_eq!(play.end(), Some(("connect", "backend", "starttls-refused")));
}

/// One that greets each time, and fails right behind that, is found out.
#[test]
fn a_mysql_server_is_good_only_when_its_tls_is_established() {
    let scene = scene(MYSQL_CLIENTS, "mysql");
    let standing = || {
        let endpoint = scene.thread().state().services[0].group(Chosen::SERVICE).endpoints().swap_remove(0);
        (endpoint.standing.availability(), endpoint.standing.failures())
    };
    let fail = || {
        let mut play = play_after_request(&scene);
        play.backend_sends(b"no TLS record");
        let _ = play.client_receives();
        assert_eq!(play.end(), Some(("connect", "backend", "not-tls")));
    };
    fail();
    assert_eq!(standing(), (Availability::Up, 1));
    let mut play = play_after_request(&scene);
    secure(&scene, &mut play);
    assert_eq!(standing(), (Availability::Up, 0), "its failures are forgotten");
    drop(play);
    fail();
    fail();
    assert!(matches!(standing().0, Availability::Down(_)), "it never came to TLS again");
    let line = &scene.lines()[0];
    assert_eq!(line["backend_failures"], json!([{ "backend": "127.0.0.1:1", "cause": "not-tls" }]));
}

/// The same for one that speaks TLS at once: a success ends a row of failures.
#[test]
fn a_backend_is_good_as_soon_as_its_tls_is_established() {
    let mode = Mode { client_tls: false, backend_tls: true };
    let scene = Scene::with(mode, "");
    let endpoint = scene.thread().state().services[0].group(Chosen::SERVICE).endpoints().swap_remove(0);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_sends(b"no TLS record");
    assert_eq!(play.end(), Some(("connect", "backend", "not-tls")));
    assert_eq!(endpoint.standing.failures(), 1);
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    Secured::new(&scene).listen(&mut play);
    assert!(play.carries());
    assert_eq!(endpoint.standing.failures(), 0);
}

#[test]
fn a_client_without_tls_logs_in_to_a_mysql_server_with_it() {
    let scene = scene(PLAIN, "mysql");
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_sends(&greeting_with_tls());
    assert_eq!(play.client_receives(), greeting(), "it is offered no TLS");
    let mut login = login();
    login[3] = 1;
    let (begin, end) = login.split_at(10);
    play.send(begin);
    play.wake();
    assert_eq!(play.backend_receives(), b"", "the request depends on the login");
    play.pass(SECOND);
    play.send(end);
    play.wake();
    let mut backend = secure(&scene, &mut play);
    backend.listen(&mut play);
    assert_eq!(backend.plaintext[3], 2, "the request was number one");
    assert_eq!(backend.plaintext.len(), login.len());
    backend.send_plaintext(&mut play, &packet(3, b"\0\0\0"));
    assert_eq!(play.client_receives(), packet(2, b"\0\0\0"));
    assert!(play.carries());
    play.send(&packet(0, b"\x03select 1"));
    play.wake();
    backend.listen(&mut play);
    assert!(backend.plaintext.ends_with(&packet(0, b"\x03select 1")), "bytes are bytes from here on");
    assert!(play.cut().is_some());
    assert_eq!(scene.lines()[0]["seconds"]["connect"], json!(1.0), "waiting for the login is connecting");
}

#[test]
fn a_mysql_server_that_does_not_secure_the_login_gets_none() {
    let refusal = packet(0, b"\xff\x10\x04Too many connections");
    for (sent, expected) in [(greeting(), vec![]), (refusal.clone(), refusal)] {
        let scene = scene(PLAIN, "mysql");
        let mut play = Play::new(&scene, "1.3");
        play.wake();
        play.backend_sends(&sent);
        assert_eq!(play.client_receives(), expected);
        assert_eq!(play.backend_receives(), b"");
        play.client.borrow_mut().peer_ended = true;
        let ended = (0..4).find_map(|_| {
            play.pass(SECOND);
            play.end()
        });
        assert_eq!(ended, Some(("connect", "backend", "starttls-refused")));
    }
}

/// The backend's own greeting came before its TLS, and is not sent twice.
#[test]
fn a_client_without_tls_is_greeted_by_a_mail_server_with_requested_tls() {
    let scene = scene(PLAIN, "smtp");
    let mut play = Play::new(&scene, "1.3");
    play.wake();
    play.backend_sends(b"220 mx.example ESMTP\r\n");
    assert!(play.backend_receives().starts_with(b"EHLO "));
    play.backend_sends(b"250-mx.example\r\n250 STARTTLS\r\n");
    assert_eq!(play.backend_receives(), b"STARTTLS\r\n");
    play.backend_sends(b"220 go ahead\r\n");
    let mut backend = Secured::new(&scene);
    backend.listen(&mut play);
    assert!(play.carries());
    play.wake();
    let received = String::from_utf8(play.client_receives()).expect("text");
    assert!(received.starts_with("220 ") && received.ends_with(" ESMTP\r\n"), "{received}");
    play.send(b"EHLO me\r\n");
    play.wake();
    backend.listen(&mut play);
    assert_eq!(backend.plaintext, b"EHLO me\r\n");
    backend.send_plaintext(&mut play, b"250 mx.example\r\n");
    assert_eq!(play.client_receives(), b"250 mx.example\r\n");
}
