//! Protocols other than TLS are named: they never reach a backend, the client gets an alert if that can
//! help it, and the access log names the protocol.

use std::io::{Read, Write};

use super::support::client::dial;
use super::support::skip::needs;
use super::support::*;

/// Sends bytes and ends; gives what came back.
fn answer(stage: &Stage, bytes: &[u8]) -> Vec<u8> {
    let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
    stream.write_all(bytes).expect("the proxy reads");
    let mut answer = Vec::new();
    // Only the bytes before the end matter, whether it is a close or a reset.
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// A fatal alert: type 21, version, length 2, level 2.
fn is_fatal_alert(bytes: &[u8]) -> bool {
    bytes.len() == 7 && bytes[0] == 21 && bytes[3..6] == [0, 2, 2]
}

#[test]
fn http_ssh_and_noise_are_distinguished_from_tls() {
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

/// A configured answer is no failure, whatever the mode.
#[test]
fn a_redirect_to_https_is_an_answered_request() {
    for mode in ["tcp", "http"] {
        let stage = Stage::with(Backend::start(|_| {}), |config, _| {
            config.text("service", "mode", mode).text("service", "plain-http", "redirect")
        });
        for (number, version) in ["HTTP/1.0", "HTTP/1.1"].into_iter().enumerate() {
            let request = format!(
                "POST /a/b?c={number} {version}\r\nhost: a.example:81\r\nContent-Length: 2\r\n\r\nok"
            );
            let answer = String::from_utf8(answer(&stage, request.as_bytes())).expect("text");
            assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
            let path = format!("/a/b?c={number}");
            let parse = |line: &str| {
                serde_json::from_str(line).ok().filter(|line: &serde_json::Value| line["path"] == *path)
            };
            let (_, line) = stage.proxy.output.find(0, "the line of the request", parse);
            assert_eq!(
                (&line["status"], &line["host"], &line["method"], &line["protocol"]),
                (&308.into(), &"a.example:81".into(), &"POST".into(), &version.to_ascii_lowercase().into()),
                "{line}"
            );
            assert_eq!(
                (&line["reason"], &line["route"]),
                (&serde_json::Value::Null, &serde_json::Value::Null),
                "{line}"
            );
        }
        stage.counts("operator", "http-closed", 2);
        let metrics = stage.proxy.metrics();
        let count = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels) as u64;
        assert_eq!(count("handfast_requests_total", &[("status", "3xx")]), 2, "{mode}");
        assert_eq!(count("handfast_requests_open", &[]), 0, "{mode}");
        assert_eq!(count("handfast_connections_closed_total", &[("cause", "not-tls")]), 0, "{mode}");
        assert_eq!(stage.proxy.records().len(), 0, "{mode}: their connections have no separate lines");
        // One without a place to go to is a failure as before.
        answer(&stage, b"GET / HTTP/1.1\r\n\r\n");
        stage.counts("client", "not-tls", 1);
        stage.is_quiet();
    }
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
