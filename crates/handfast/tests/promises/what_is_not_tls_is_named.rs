//! What is not TLS is named: it never reaches a backend, the client gets an alert if that can help it, and the access log
//! says what it was.

use std::io::{Read, Write};

use super::support::client::dial;
use super::support::skip::needs;
use super::support::*;

/// Sends bytes and ends; gives what came back.
fn answer(stage: &Stage, bytes: &[u8]) -> Vec<u8> {
    let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
    stream.write_all(bytes).expect("the proxy reads");
    let mut answer = Vec::new();
    // What matters is what came before the end, of whatever kind that is.
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// A fatal alert: type 21, version, length 2, level 2.
fn is_fatal_alert(bytes: &[u8]) -> bool {
    bytes.len() == 7 && bytes[0] == 21 && bytes[3..6] == [0, 2, 2]
}

#[test]
fn http_ssh_and_noise_are_told_apart_from_tls() {
    let stage = Stage::echo();
    let foreign: [(&str, &[u8]); 4] = [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("SSH", b"SSH-2.0-OpenSSH_9.2p1\r\n"),
        ("SMTP", b"EHLO localhost\r\n"),
        ("noise", &[0xff; 64]),
    ];
    for (number, (_, bytes)) in foreign.iter().enumerate() {
        answer(&stage, bytes);
        stage.counts("client", "not-tls", number + 1);
    }
    for word in ["http", "ssh", "smtp"] {
        stage.proxy.record(&format!("a connection of {word}"), |record| {
            record.reason() == "hello/client/not-tls" && record.detail().to_ascii_lowercase().contains(word)
        });
    }
    assert_eq!(stage.backend.accepted(), 0, "no byte of it reaches the backend");
    stage.serves_and_is_quiet();
}

#[test]
fn curl_asking_in_plain_text_gets_an_end_and_not_a_wait() {
    needs!("curl");
    let stage = Stage::echo();
    let ran =
        tools::run("curl", &["-sS", "--max-time", "10", &format!("http://{}/", stage.proxy.address())], b"");
    assert_eq!(ran.code, Some(0), "28 would be curl's own deadline: {ran:?}");
    assert!(ran.output.contains("https"), "the answer names the cure: {ran:?}");
    let record = stage.proxy.record_of("hello/client/not-tls");
    assert!(record.detail().eq_ignore_ascii_case("http"), "{record:?}");
    stage.serves_and_is_quiet();
}

#[test]
fn broken_records_get_their_alert_even_with_more_behind_them() {
    let stage = Stage::echo();
    let broken: [&[u8]; 4] = [
        // A record longer than any may be (RFC 9846 §5.1).
        &[0x16, 3, 1, 0xff, 0xff, 1],
        // Application data before any handshake.
        &[0x17, 3, 3, 0, 1, 0],
        // A handshake message that is no ClientHello.
        &[0x16, 3, 1, 0, 4, 14, 0, 0, 0],
        // A ClientHello with nothing in it.
        &[0x16, 3, 1, 0, 4, 1, 0, 0, 0],
    ];
    for start in broken {
        // Unread input at a close would make the kernel send a reset, which can overtake the alert.
        let bytes = [start, &vec![0; 65_536]].concat();
        let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(is_fatal_alert(&answer), "{:?} is answered with {answer:?}", &start[..6.min(start.len())]);
    }
    assert_eq!(stage.backend.accepted(), 0);
    stage.serves_and_is_quiet();
}

/// Their bounds are times, so they run alone.
mod timed {
    use super::*;

    #[test]
    fn close_notify_before_a_hello_ends_at_once() {
        let stage = Stage::echo();
        let start = std::time::Instant::now();
        answer(&stage, &[0x15, 3, 3, 0, 2, 1, 0]);
        assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
        stage.serves_and_is_quiet();
    }
}
