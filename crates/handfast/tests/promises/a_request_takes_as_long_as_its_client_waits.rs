//! HTTP mode: whatever ends a request, its log line has the time that its client waited and the bytes that moved, in both versions; and the
//! metrics have the same. One row for each cause that takes a client's time.

use std::time::{Duration, Instant};

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::http2::*;
use super::support::record::Record;
use super::support::*;

/// Time that each backend lets pass, and the timeout of those that let pass more.
const WAIT: Duration = Duration::from_millis(400);
const LIMIT: Duration = Duration::from_millis(1_200);
/// Time until the thread that has sent the last bytes runs again and notes the end.
const BUSY: Duration = Duration::from_secs(5);
/// Content that a client sends, and that a backend sends before it breaks off.
const CONTENT: [u8; 4_000] = [b'c'; 4_000];

/// The part of its content that a client sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Nothing,
    All,
    Half,
}

struct Case {
    cause: &'static str,
    status: Option<u64>,
    sends: Sends,
    /// The backend's behaviour once it has the head.
    backend: fn(&mut Peer),
    /// Bytes of content that the client receives; `None`: those of a message of the proxy's own.
    received: Option<usize>,
}

fn partly(peer: &mut Peer) {
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n");
    peer.send(&CONTENT);
}

fn silent(peer: &mut Peer) {
    peer.read_to_end();
}

fn cases() -> Vec<Case> {
    let case = |cause, status, sends, backend: fn(&mut Peer), received| Case {
        cause,
        status,
        sends,
        backend,
        received,
    };
    vec![
        case("relay/backend/answer-deadline", Some(504), Sends::Nothing, silent, None),
        case("relay/backend/answer-deadline", Some(504), Sends::All, silent, None),
        case("relay/client/request-deadline", Some(408), Sends::Half, silent, None),
        case("relay/backend/closed-early", Some(502), Sends::Nothing, |_| pause(WAIT), None),
        case(
            "relay/backend/reset",
            Some(502),
            Sends::Nothing,
            |peer| {
                pause(WAIT);
                peer.reset();
            },
            None,
        ),
        case(
            "relay/backend/http-response",
            Some(502),
            Sends::All,
            |peer| {
                pause(WAIT);
                peer.send(b"no HTTP\r\n\r\n");
            },
            None,
        ),
        case(
            "relay/backend/content-deadline",
            Some(200),
            Sends::Nothing,
            |peer| {
                partly(peer);
                peer.read_to_end();
            },
            Some(CONTENT.len()),
        ),
        case(
            "relay/backend/closed-early",
            Some(200),
            Sends::Nothing,
            |peer| {
                partly(peer);
                pause(WAIT);
            },
            Some(CONTENT.len()),
        ),
    ]
}

/// Sends a request, reads to its end, and returns the time that this took.
fn wait_for(proxy: &Proxy, protocol: &str, case: &Case) -> Duration {
    let mut client =
        Client::connect(proxy.address(), &Trust::version(Version::Tls13).protocol(protocol).config());
    let content = match case.sends {
        Sends::Nothing => &CONTENT[..0],
        Sends::All => &CONTENT,
        Sends::Half => &CONTENT[..CONTENT.len() / 2],
    };
    let began = Instant::now();
    if protocol == "h2" {
        let length = field(b"content-length", CONTENT.len().to_string().as_bytes());
        let head = if content.is_empty() { get("/timed") } else { [get("/timed"), length].concat() };
        let end = |is_last: bool| if is_last { END_STREAM } else { 0 };
        client.send(&preface(&[]));
        client.send(&frame(HEADERS, END_HEADERS | end(content.is_empty()), 1, &head));
        if !content.is_empty() {
            client.send(&frame(DATA, end(case.sends == Sends::All), 1, content));
        }
        loop {
            let frame = receive_one_of(&mut client, &[HEADERS, DATA, RST_STREAM, GOAWAY]);
            if frame.kind == RST_STREAM || frame.kind == GOAWAY || frame.flags & END_STREAM != 0 {
                return began.elapsed();
            }
        }
    }
    let length =
        if content.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", CONTENT.len()) };
    client.send(
        format!("GET /timed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}\r\n").as_bytes(),
    );
    client.send(content);
    let _ = client.read_to_end();
    began.elapsed()
}

/// All of a request's time: its steps follow each other.
fn total(record: &Record) -> f64 {
    let Some(steps) = record.value("seconds").as_object() else { return 0.0 };
    steps.values().filter_map(serde_json::Value::as_f64).sum()
}

fn sum(proxy: &Proxy, name: &str) -> f64 {
    proxy.metrics().sum(name, &[])
}

#[test]
fn in_both_versions_and_for_each_cause() {
    let mut wrong = Vec::new();
    for case in cases() {
        let serve = case.backend;
        let backend = Backend::start(move |peer| {
            if peer.head().is_some() {
                serve(peer);
            }
        });
        let folder = Folder::new();
        let limit = format!("{}ms", LIMIT.as_millis());
        let config = Config::to(&folder, backend.address)
            .text("service", "mode", "http")
            .text("service.http", "content-timeout", &limit)
            .text("service.http", "answer-timeout", &limit)
            .set("service.http", "retries", 0);
        let proxy = Proxy::start(config);
        let mut records = Vec::new();
        for protocol in ["http/1.1", "h2"] {
            let what = format!("{} with {protocol}", case.cause);
            let waited = wait_for(&proxy, protocol, &case);
            let record = wait_until(&format!("the line of {what}"), || {
                let mut lines = proxy.records().into_iter().filter(|line| line.text("path") == "/timed");
                lines.nth(records.len())
            });
            // Never less than the time that passed for certain, and not more than the client saw and a turn of a busy machine.
            let seconds = total(&record);
            if seconds < WAIT.as_secs_f64() || seconds > (waited + BUSY).as_secs_f64() {
                wrong.push(format!("{what}: {seconds} s for {waited:?}: {record:?}"));
            }
            if (record.reason().as_str(), record.value("status").as_u64()) != (case.cause, case.status) {
                wrong.push(format!("{what}: {record:?}"));
            }
            let sent = match case.sends {
                Sends::Nothing => 0,
                Sends::All => CONTENT.len(),
                Sends::Half => CONTENT.len() / 2,
            };
            let to_client = record.number("bytes_to_client");
            let received = case.received.map_or(to_client, |bytes| bytes as u64);
            if (record.number("bytes_from_client"), to_client) != (sent as u64, received) {
                wrong.push(format!("{what}: bytes of {record:?}"));
            }
            records.push(record);
        }
        let bytes: u64 = records
            .iter()
            .map(|record| record.number("bytes_to_client") + record.number("bytes_from_client"))
            .sum();
        let counted = sum(&proxy, "handfast_request_content_bytes_total");
        if (counted - bytes as f64).abs() > 0.5 {
            wrong.push(format!("{}: {counted} bytes counted, {bytes} logged", case.cause));
        }
        let (seconds, timed) =
            (records.iter().map(total).sum::<f64>(), sum(&proxy, "handfast_request_phase_seconds_sum"));
        if (timed - seconds).abs() > 0.01 {
            wrong.push(format!("{}: {timed} s in the metrics, {seconds} s in the log", case.cause));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Bytes are counted while they move: of a download that goes on, and of an upload.
#[test]
fn and_its_bytes_are_counted_while_they_move() {
    let backend = Backend::start(|peer| {
        if peer.head().is_some() {
            peer.read_exactly(CONTENT.len());
            partly(peer);
            peer.read_to_end();
        }
    });
    let folder = Folder::new();
    let proxy = Proxy::start(Config::to(&folder, backend.address).text("service", "mode", "http"));
    for (number, protocol) in (1_u32..).zip(["http/1.1", "h2"]) {
        let mut client =
            Client::connect(proxy.address(), &Trust::version(Version::Tls13).protocol(protocol).config());
        let length = 2 * CONTENT.len();
        if protocol == "h2" {
            let head = [get("/open"), field(b"content-length", length.to_string().as_bytes())].concat();
            client.send(&preface(&[]));
            client.send(&frame(HEADERS, END_HEADERS, 1, &head));
            client.send(&frame(DATA, 0, 1, &CONTENT));
        } else {
            client.send(
                format!("POST /open HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n")
                    .as_bytes(),
            );
            client.send(&CONTENT);
        }
        let moved = f64::from(number) * CONTENT.len() as f64;
        wait_until("the bytes of an open request", || {
            let metrics = proxy.metrics();
            let of = |direction| metrics.sum("handfast_relayed_bytes_total", &[("direction", direction)]);
            // What a client with HTTP/1 receives is counted with its heads.
            (of("to_backend") >= moved && of("to_client") >= moved).then_some(())
        });
        assert!(sum(&proxy, "handfast_requests_open") > 0.5, "it is still open");
        drop(client);
    }
}
