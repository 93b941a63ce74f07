//! A client may vanish at any step, in order or with a reset: the connection ends at once, the backend learns of it as what it
//! was, nothing is left behind, and the record says where it was.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::support::client::dial;
use super::support::hello::Hello;
use super::support::*;

/// The way in which a client leaves.
#[derive(Clone, Copy, Debug)]
enum Way {
    Fin,
    Reset,
}

const WAYS: [Way; 2] = [Way::Fin, Way::Reset];

fn vanish(stream: TcpStream, way: Way) {
    match way {
        Way::Fin => drop(stream),
        Way::Reset => ending::reset(stream),
    }
}

#[test]
fn before_it_sent_a_byte() {
    let stage = Stage::echo();
    for way in WAYS {
        vanish(dial(stage.proxy.address()).expect("the proxy listens"), way);
    }
    stage.serves_and_is_quiet();
    assert_eq!(stage.backend.accepted(), 1, "only the fresh client was passed on");
}

#[test]
fn within_its_hello() {
    let stage = Stage::echo();
    let hello = Hello::new(&Trust::version(Version::Tls13).config());
    for way in WAYS {
        for length in [1, 5, 6, 100] {
            let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
            stream.write_all(&hello.record[..length]).expect("the proxy reads");
            vanish(stream, way);
        }
    }
    let record = stage.proxy.record_of("hello/client/closed-early");
    assert_eq!(record.number("bytes_to_backend"), 0);
    stage.counts("client", "closed-early", 4);
    stage.serves_and_is_quiet();
}

#[test]
fn right_after_its_hello() {
    let stage = Stage::echo();
    for version in Version::BOTH {
        for way in WAYS {
            let hello = Hello::new(&Trust::version(version).config());
            let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
            stream.write_all(&hello.record).expect("the proxy reads");
            vanish(stream, way);
        }
    }
    stage.serves_and_is_quiet();
    assert_eq!(stage.backend.accepted(), 1, "only the fresh client was passed on");
}

#[test]
fn after_the_first_flight_of_the_proxy() {
    let stage = Stage::echo();
    for version in Version::BOTH {
        for way in WAYS {
            let hello = Hello::new(&Trust::version(version).config());
            let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
            stream.write_all(&hello.record).expect("the proxy reads");
            let answered = stream.read(&mut [0; 16_384]).expect("the proxy answers");
            assert!(answered > 0);
            vanish(stream, way);
        }
    }
    stage.proxy.record_of("handshake/client/closed-early");
    stage.serves_and_is_quiet();
    assert_eq!(stage.backend.accepted(), 1, "only the fresh client was passed on");
}

#[test]
fn with_an_alert_in_the_handshake() {
    let stage = Stage::echo();
    let stranger = certificates::Authority::new("nobody's");
    for version in Version::BOTH {
        // A client that trusts another authority sends an alert, and leaves.
        let config = Trust::version(version).trusting(&stranger).config();
        let refusal = Client::try_connect(stage.proxy.address(), &config, "localhost").err();
        assert!(matches!(refusal, Some(Refusal::Ours(_))), "{refusal:?}");
    }
    let record = stage.proxy.record_of("handshake/client/alert");
    assert_eq!(record.detail(), "alert unknown_ca (48)", "the alert's name is in the log: {record:?}");
    stage.counts("client", "alert", 2);
    stage.serves_and_is_quiet();
}

#[test]
fn in_the_tunnel() {
    let stage = Stage::new(|peer| {
        peer.send(b"!");
        peer.read_to_end();
    });
    for version in Version::BOTH {
        for way in WAYS {
            let mut client = stage.client(&Trust::version(version).config());
            client.read_exactly(1);
            client.send(b"half a sentence");
            vanish(client.into_stream(), way);
            let seen = stage.backend.seen();
            assert_eq!(
                seen.last(),
                Some(&Event::Reset),
                "{version:?} {way:?}: the backend sees a reset: {seen:?}"
            );
        }
    }
    stage.is_quiet();
}

#[test]
fn while_a_stream_pours_over_it() {
    let stage = Stage::new(backend::Peer::read_to_end_while_writing);
    for version in Version::BOTH {
        for way in WAYS {
            let mut client = stage.client(&Trust::version(version).config());
            client.read_exactly(100_000);
            vanish(client.into_stream(), way);
            let seen = stage.backend.seen();
            assert_eq!(seen.last(), Some(&Event::Reset), "{version:?} {way:?}: {seen:?}");
        }
    }
    stage.is_quiet();
}
