//! No client can hold a handshake open: from accept to relay there is one absolute deadline, independent of received data.
//!
//! One second here, ten by default. Half a second of grace, and more for a busy machine, is given on the late side only.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::support::client::dial;
use super::support::hello::Hello;
use super::support::*;

const LIMIT: Duration = Duration::from_secs(1);
/// Tolerance for noticing the end after the limit, on a busy machine.
const GRACE: Duration = Duration::from_millis(1500);

fn stage() -> Stage {
    Stage::with(Backend::echo(), |config, _| config.text("service.limits", "handshake", "1s"))
}

/// Plays a client until the proxy ends the connection; checks when that was.
fn cut_at_the_deadline(stage: &Stage, play: impl FnOnce(&mut TcpStream)) {
    let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
    let start = Instant::now();
    play(&mut stream);
    let mut rest = Vec::new();
    // An alert may come before the end; the end may be a reset, since there is unread input.
    let _ = stream.read_to_end(&mut rest);
    let took = start.elapsed();
    assert!(took >= LIMIT - Duration::from_millis(50), "cut after {took:?}, before the limit");
    assert!(took <= LIMIT + GRACE, "cut after {took:?}, long after the limit");
}

/// Sends byte after byte until the proxy hangs up.
fn drip(stream: &mut TcpStream, bytes: &[u8]) {
    stream.set_read_timeout(Some(Duration::from_millis(30))).expect("an open socket takes the option");
    for byte in bytes.chunks(1) {
        if stream.write_all(byte).is_err() {
            break;
        }
        match stream.read(&mut [0; 64]) {
            Ok(0) => break,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
            _ => {}
        }
    }
    stream.set_read_timeout(Some(DEADLINE)).expect("an open socket takes the option");
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn a_silent_client_is_cut() {
        let stage = stage();
        cut_at_the_deadline(&stage, |_| {});
        stage.proxy.record_of("hello/client/handshake-timeout");
        stage.serves_and_is_quiet();
    }

    #[test]
    fn a_dripping_hello_is_cut() {
        let stage = stage();
        let hello = Hello::new(&Trust::version(Version::Tls13).post_quantum().config());
        cut_at_the_deadline(&stage, |stream| drip(stream, &hello.record));
        stage.proxy.record_of("hello/client/handshake-timeout");
        stage.serves_and_is_quiet();
    }

    #[test]
    fn a_client_that_stops_after_its_hello_is_cut() {
        let stage = stage();
        for version in Version::BOTH {
            let hello = Hello::new(&Trust::version(version).config());
            cut_at_the_deadline(&stage, |stream| stream.write_all(&hello.record).expect("the proxy reads"));
        }
        stage.counts("client", "handshake-timeout", 2);
        let record = stage.proxy.record_of("handshake/client/handshake-timeout");
        assert!(record.seconds("handshake") > 0.5, "{record:?}");
        stage.serves_and_is_quiet();
    }

    #[test]
    fn a_client_that_drips_its_last_flight_is_cut() {
        let stage = stage();
        let hello = Hello::new(&Trust::version(Version::Tls13).config());
        cut_at_the_deadline(&stage, |stream| {
            stream.write_all(&hello.record).expect("the proxy reads");
            // A record of handshake data that never becomes whole.
            drip(stream, &[&[0x17, 3, 3, 0x40, 0][..], &[0; 200]].concat());
        });
        stage.proxy.record_of("handshake/client/handshake-timeout");
        stage.serves_and_is_quiet();
    }

    #[test]
    fn dialling_counts_against_the_same_deadline() {
        // A SYN to a listener with a full queue gets no answer: two connections fill a queue of length 0.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        rustix::net::listen(&listener, 0).expect("a listener may listen again");
        let full = listener.local_addr().expect("a bound socket has an address");
        let filling: Vec<_> =
            (0..4).map(|_| TcpStream::connect_timeout(&full, Duration::from_millis(100))).collect();
        assert!(filling.iter().any(Result::is_err), "the queue is full");
        let stage = Stage::with(Backend::echo(), |_, folder| {
            Config::to(folder, full).text("service.limits", "handshake", "1s").text(
                "service.limits",
                "connect",
                "30s",
            )
        });
        let start = Instant::now();
        let outcome =
            Client::try_connect(stage.proxy.address(), &Trust::version(Version::Tls13).config(), "localhost");
        if let Ok(mut client) = outcome {
            let ending = client.read_to_end();
            assert!(!ending.close_notify, "a failure is no clean end: {ending:?}");
        }
        let took = start.elapsed();
        assert!((LIMIT - Duration::from_millis(50)..LIMIT + GRACE).contains(&took), "cut after {took:?}");
        stage.proxy.record("the connection", |record| record.reason().ends_with("/handshake-timeout"));
        stage.is_quiet();
    }
}
