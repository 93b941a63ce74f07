//! Over loopback: why a connection failed, in which step, and that plain text passes.

use std::net::TcpListener;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use handfast_testkit::ending::SocketEnd;
use handfast_testkit::{certificates, connection, secured, trust};
use handfast_tls::client::{ClientSettings, Verification};

use super::*;

fn soon() -> Moment {
    Moment::now() + Duration::from_secs(20)
}

/// A client's line to a server that is played.
fn with_server<T: Send + 'static>(play: impl FnOnce(Line) -> T + Send + 'static) -> (Line, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let serve = move || play(Line::over(listener.accept().expect("a client").0));
    let server = Builder::new().name("server".into()).spawn(serve).expect("a thread");
    (Line::connect(address, soon()).expect("it listens"), server)
}

/// Returns the reason why a handshake with this server fails.
fn failure<T: Send + 'static>(until: Moment, play: impl FnOnce(Line) -> T + Send + 'static) -> String {
    let settings = ClientSettings { verification: Verification::Off, ..ClientSettings::default() };
    let client = Client::new(&settings, "localhost").expect("it offers something");
    let hello = Hello::new(&client, false, b"never sent without a ticket").expect("a hello");
    assert!(hello.early == 0 && hello.length == hello.bytes.len());
    let (mut line, server) = with_server(play);
    line.send(hello.bytes.filled(), soon()).expect("it fits the socket's buffer");
    let mut connection = Connection::new(line, Some(hello.session));
    let failed = connection.shake(until).expect_err("it is no TLS server");
    assert_eq!((failed.step, connection.is_established()), (Step::Handshake, false));
    // Only now: a server that is late holds its end.
    drop(connection);
    drop(server.join().expect("the server"));
    failed.to_string()
}

fn hello(line: &mut Line) {
    assert!(line.must_receive(&mut [0; 4096], soon()).is_ok_and(|bytes| bytes > 5));
}

#[test]
fn a_server_that_does_not_speak_tls_is_reported_for_what_it_does() {
    let answers = |answer: &'static [u8]| {
        move |mut line: Line| {
            hello(&mut line);
            line.send(answer, soon()).expect("the client reads");
            line
        }
    };
    let http = failure(soon(), answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    assert_eq!(http, "handshake: the target answered in plain HTTP");
    let other = failure(soon(), answers(b"220 mail.example ESMTP\r\n"));
    assert!(other.starts_with("handshake: ") && !other.contains("HTTP"), "{other}");
    let alert = failure(soon(), answers(&[21, 3, 3, 0, 2, 2, 40]));
    assert!(alert.contains("handshake_failure"), "{alert}");
    let ended = failure(soon(), |mut line: Line| hello(&mut line));
    assert_eq!(ended, "handshake: the target ended the connection");
    let reset = failure(soon(), |line: Line| {
        // The hello is not read: closing answers it with a reset.
        line.stream.peek(&mut [0; 1]).expect("a hello");
    });
    assert_eq!(reset, "handshake: read: reset");
    let late = failure(Moment::now() + Duration::from_millis(20), |line: Line| line);
    assert_eq!(late, "handshake: the timeout passed");
}

#[test]
fn a_port_without_a_listener_is_refused() {
    // Tcpmux, which no program serves; a port that was free a moment ago may be another test's now.
    let failed = Line::connect(([127, 0, 0, 1], 1).into(), soon()).expect_err("nothing listens");
    assert_eq!((failed.step, failed.to_string().as_str()), (Step::Connect, "connect: refused"));
}

#[test]
fn plain_text_passes_and_what_was_sent_and_received_is_noted() {
    let (line, server) = with_server(|mut line| {
        line.must_receive(&mut [0; 4], soon()).expect("four bytes");
        line.send(b"answer", soon()).expect("the client reads");
        line.end();
        line.seen.len()
    });
    let mut connection: Connection = Connection::new(line, None);
    connection.send(b"word", soon()).expect("it is read");
    assert_eq!(connection.receive(2, soon()), Ok(Got::Bytes(2)), "as much as was asked for");
    assert_eq!(connection.must_receive(100, soon()), Ok(4));
    assert_eq!(connection.plaintext.filled(), b"answer");
    assert_eq!(connection.receive(100, soon()), Ok(Got::End));
    connection.line.take_notes();
    let seen = &connection.line.seen;
    let [
        Seen::Sent { bytes: 4, at_ms, .. },
        Seen::Received { bytes: 2, .. },
        Seen::Received { bytes: 4, at_ms: last },
    ] = seen[..]
    else {
        panic!("{seen:?}")
    };
    assert!(at_ms <= last && connection.line.last_received().total_cmp(&last).is_eq(), "{seen:?}");
    assert_eq!(server.join().expect("the server"), 0, "a line that was not dialled notes nothing");
}

#[test]
fn the_last_flight_is_sent_with_the_first_bytes_and_nothing_before_it() {
    let roots = certificates::authority().pem.clone().into_bytes();
    let settings = ClientSettings { verification: Verification::Roots(roots), ..ClientSettings::default() };
    let client = Client::new(&settings, "localhost").expect("it offers something");
    let (mut line, server) = with_server(|line| {
        let config = secured::server(trust::Version::Tls13, false);
        let mut peer = connection::Connection::accept(line.stream, &config).expect("a client");
        peer.try_echo().expect("it ends with close_notify");
        peer.close();
        peer.ends().socket
    });
    let hello = Hello::new(&client, false, &[]).expect("a hello");
    line.send(hello.bytes.filled(), soon()).expect("it fits the socket's buffer");
    let mut connection = Connection::new(line, Some(hello.session));
    connection.shake(soon()).expect("a handshake");
    let sent = |line: &Line| line.seen.iter().filter(|seen| matches!(seen, Seen::Sent { .. })).count();
    assert_eq!(sent(&connection.line), 1, "the hello, and ChangeCipherSpec waits");
    let long = vec![b'x'; 100_000];
    connection.send(&long, soon()).expect("the server reads");
    assert_eq!(sent(&connection.line), 2, "the flight goes with what is sent first");
    while connection.plaintext.len() < long.len() {
        connection.must_receive(1 << 15, soon()).expect("it is sent back");
    }
    assert!(connection.plaintext.filled() == long && connection.own_ms > 0.0);
    connection.close(soon()).expect("the server reads");
    while connection.receive(1 << 15, soon()).expect("it ends cleanly") != Got::End {}
    assert!(connection.is_closed, "the echo ends with close_notify");
    drop(connection);
    assert_eq!(server.join().expect("the server"), SocketEnd::Fin);
}
