//! Step 5 with a dialogue before it: a backend that fails before the client's bytes failed to connect.
//!
//! One table over every protocol: whichever side side for TLS, a backend that is silent, closes, sends garbage or has no TLS is counted,
//! marked down after `limits.connect` at the latest, and the other backend is tried, as nothing has been given to the client yet.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use handfast_leg::memory::Link;
use handfast_wire::starttls::Protocol;

use super::super::scene::{Mode, Scene};
use super::super::world::world;
use super::play::{Play, SECOND};
use super::starttls::greeting;
use crate::backends::standing::Availability;
use crate::worker::services::Chosen;

/// Behaviour of a backend before the client's bytes can pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Silent,
    Closes,
    Resets,
    Garbage,
    NoTls,
}

/// Side with a dialogue before TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StarttlsSide {
    Client,
    Proxy,
    Both,
}

fn scene(protocol: Protocol, side: StarttlsSide) -> Scene {
    let clients = match side {
        StarttlsSide::Proxy => "client-tls = false".to_owned(),
        _ => format!("certificate = \"web.pem\"\nstarttls = \"{}\"", protocol.name()),
    };
    let backends = match side {
        StarttlsSide::Client => String::new(),
        _ => format!(
            "backend-tls = {{ starttls = \"{}\", ca = \"web.pem\", name = \"localhost\" }}",
            protocol.name()
        ),
    };
    let mode = Mode { client_tls: side != StarttlsSide::Proxy, backend_tls: side != StarttlsSide::Client };
    let text = format!(
        "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\nbackend = [\"127.0.0.1:11\", \"127.0.0.1:12\"]\n\
         {clients}\n{backends}\n[service.limits]\nconnect = \"2s\"\nhandshake = \"10s\"\nbackend-failures = 1\n"
    );
    Scene::of(mode, &text)
}

/// Lines of a client before TLS, each answered before the next one is sent.
fn request(protocol: Protocol) -> &'static [&'static [u8]] {
    match protocol {
        Protocol::Smtp => &[b"EHLO me\r\n", b"STARTTLS\r\n"],
        Protocol::Lmtp => &[b"LHLO me\r\n", b"STARTTLS\r\n"],
        Protocol::Imap => &[b"a STARTTLS\r\n"],
        Protocol::Pop3 => &[b"STLS\r\n"],
        Protocol::Nntp => &[b"STARTTLS\r\n"],
        _ => &[],
    }
}

/// Parts of the dialogue of a backend without TLS, each answered before the next one is sent.
fn without_tls(protocol: Protocol) -> Vec<Vec<u8>> {
    let turns: &[&[u8]] = match protocol {
        Protocol::Smtp | Protocol::Lmtp => &[b"220 mx\r\n", b"250-mx\r\n250 8BITMIME\r\n"],
        Protocol::Imap => &[b"* OK hi\r\n", b"a1 BAD what\r\n"],
        Protocol::Pop3 => &[b"+OK hi\r\n", b"-ERR what\r\n"],
        Protocol::Nntp => &[b"200 hi\r\n", b"580 what\r\n"],
        // An extended response of protocolError.
        Protocol::Ldap => &[&[0x30, 12, 2, 1, 1, 0x78, 7, 10, 1, 2, 4, 0, 4, 0]],
        Protocol::PostgreSql => &[b"N"],
        Protocol::MySql => return vec![greeting()],
        Protocol::Xmpp | Protocol::XmppServer => &[
            b"<stream:stream xmlns:stream='http://etherx.jabber.org/streams' xmlns='jabber:client' version='1.0'>\
              <stream:features><bind/></stream:features>",
        ],
    };
    turns.iter().map(|turn| turn.to_vec()).collect()
}

/// Brings a client so far that its backend is dialled.
fn dialled<'a>(scene: &'a Scene, protocol: Protocol, side: StarttlsSide) -> Play<'a> {
    let mut play = Play::new(scene, "1.3");
    play.wake();
    if side != StarttlsSide::Proxy && protocol != Protocol::MySql {
        let _ = play.client_receives();
        for line in request(protocol) {
            play.send(line);
            play.wake();
            let _ = play.client_receives();
        }
        play.shake_hands();
        play.wake();
        play.listen();
    }
    assert_eq!(play.dialled().len(), 1, "{protocol} {side:?}: its backend is dialled");
    play
}

/// The next dial reaches another backend; returns the one before.
fn next_backend(play: &mut Play<'_>) -> Rc<RefCell<Link>> {
    let next = Rc::new(RefCell::new(Link { room: 100_000, ..Link::default() }));
    world(|world| world.backend = Rc::clone(&next));
    std::mem::replace(&mut play.backend, next)
}

fn fail(play: &mut Play<'_>, protocol: Protocol, fault: Fault) {
    let words = match fault {
        Fault::NoTls => without_tls(protocol),
        Fault::Garbage => vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()],
        _ => Vec::new(),
    };
    let backend = next_backend(play);
    for turn in words {
        backend.borrow_mut().to_peer.clear();
        backend.borrow_mut().to_leg.extend(turn);
        play.wake();
    }
    match fault {
        Fault::Closes => backend.borrow_mut().peer_ended = true,
        Fault::Resets => backend.borrow_mut().peer_reset = true,
        Fault::Silent => {
            play.pass(2 * SECOND - Duration::from_millis(1));
            assert_eq!(play.dialled().len(), 1, "{protocol}: it has the time of `limits.connect`");
            play.pass(Duration::from_millis(1));
        }
        Fault::Garbage | Fault::NoTls => {}
    }
    play.wake();
}

/// Returns true if a backend sends anything before the client's bytes, so that it can fail there.
fn converses(protocol: Protocol, side: StarttlsSide, fault: Fault) -> bool {
    match side {
        StarttlsSide::Proxy => true,
        StarttlsSide::Both => protocol == Protocol::MySql || fault != Fault::NoTls,
        StarttlsSide::Client => protocol.server_speaks_first() && fault != Fault::NoTls,
    }
}

#[test]
fn a_backend_that_fails_before_tls_is_counted_and_the_other_one_is_tried() {
    for protocol in Protocol::ALL {
        for side in [StarttlsSide::Client, StarttlsSide::Proxy, StarttlsSide::Both] {
            for fault in [Fault::Silent, Fault::Closes, Fault::Resets, Fault::Garbage, Fault::NoTls] {
                if !converses(protocol, side, fault)
                    || (side == StarttlsSide::Both
                        && request(protocol).is_empty()
                        && protocol != Protocol::MySql)
                {
                    continue;
                }
                let case = format!("{protocol}, {side:?} asks, {fault:?}");
                let scene = scene(protocol, side);
                let mut play = dialled(&scene, protocol, side);
                fail(&mut play, protocol, fault);
                let known = &scene.snapshot().services[0].backends;
                assert_eq!(known[0].failed(), 1, "{case}: it is counted");
                let endpoints = scene.thread().state().services[0].group(Chosen::SERVICE).endpoints();
                assert!(
                    matches!(endpoints[0].standing.availability(), Availability::Down(_)),
                    "{case}: it is marked down"
                );
                let addresses: Vec<_> = play.dialled().into_iter().map(|(address, _)| address).collect();
                assert_eq!(addresses, ["127.0.0.1:11", "127.0.0.1:12"], "{case}: the other one is tried");
                assert_eq!(endpoints[1].standing.availability(), Availability::Up, "{case}");
                assert_eq!(play.client_receives(), b"", "{case}: nothing of it was given to the client");
                assert_eq!(play.end(), None, "{case}");
            }
        }
    }
}
