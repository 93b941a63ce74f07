//! HTTP mode: whatever ends a request, its log line has the time that its client waited and the bytes that moved, in both versions; and the
//! metrics have the same. One row for each cause that takes a client's time, and for each that ends a request at once.

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
        case("relay/backend/response-timeout", Some(504), Sends::Nothing, silent, None),
        case("relay/backend/response-timeout", Some(504), Sends::All, silent, None),
        case("relay/client/request-timeout", Some(408), Sends::Half, silent, None),
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
            "relay/backend/body-timeout",
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
            .text("service.http", "body-timeout", &limit)
            .text("service.http", "response-timeout", &limit)
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

/// A request that ends at once: the cause (none: an answer as it should be), the status, the path, more fields, and the host.
struct AtOnce {
    cause: &'static str,
    status: u64,
    path: &'static str,
    fields: Vec<(&'static str, String)>,
    host: &'static str,
}

fn at_once() -> Vec<AtOnce> {
    let case = |cause, status, path| AtOnce { cause, status, path, fields: Vec::new(), host: "localhost" };
    let many = (0..200).map(|_| ("x-a", "1".to_owned())).collect();
    vec![
        case("", 200, "/timed"),
        case("connect/backend/refused", 502, "/refused"),
        case("connect/operator/no-backend", 503, "/none"),
        case("route/operator/forbidden", 403, "/forbidden"),
        case("route/operator/request-rate", 429, "/rate"),
        AtOnce {
            fields: vec![("content-length", "4000".into())],
            ..case("hello/client/body-too-large", 413, "/large")
        },
        AtOnce { fields: vec![("x-a", " 1\u{1}".into())], ..case("hello/client/http-request", 400, "/400") },
        AtOnce { fields: many, ..case("hello/client/http-request", 431, "/431") },
        AtOnce { host: "shop", ..case("route/client/misdirected", 421, "/421") },
        case("", 404, "/404"),
        case("", 308, "/redirect"),
        case("", 200, "/own"),
    ]
}

/// Sends a request without content; returns the content of the response, and the time until its end.
fn send_at_once(proxy: &Proxy, protocol: &str, case: &AtOnce) -> (u64, Duration) {
    let mut client =
        Client::connect(proxy.address(), &Trust::version(Version::Tls13).protocol(protocol).config());
    let began = Instant::now();
    if protocol == "http/1.1" {
        let mut head = format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", case.path, case.host);
        case.fields.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        client.send(format!("{head}\r\n").as_bytes());
        let bytes = client.read_to_end().bytes;
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        return ((bytes.len() - head) as u64, began.elapsed());
    }
    // A control byte would end the connection (RFC 9113 §8.2.1 has a blank at the start as malformed too).
    let fields = case.fields.iter().map(|(name, value)| (*name, value.trim_end_matches('\u{1}')));
    let pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", case.host), (":path", case.path)];
    let block = pseudo.into_iter().chain(fields);
    let block: Vec<u8> = block.flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect();
    let has_content = case.fields.iter().any(|(name, _)| *name == "content-length");
    let end = if has_content { 0 } else { END_STREAM };
    client.send(&preface(&[]));
    client.send(&frame(HEADERS, END_HEADERS | end, 1, &block));
    let mut content = 0;
    loop {
        let frame = receive_one_of(&mut client, &[HEADERS, DATA, RST_STREAM, GOAWAY]);
        assert!(frame.kind == HEADERS || frame.kind == DATA, "{} {:x?}", frame.kind, frame.payload);
        content += if frame.kind == DATA { frame.payload.len() as u64 } else { 0 };
        if frame.flags & END_STREAM != 0 {
            return (content, began.elapsed());
        }
    }
}

/// Routes for [`at_once`]. `unused`: a backend that is taken out of use.
fn routes(unused: std::net::SocketAddr) -> String {
    let route = |path: &str, line: &str| format!("[[service.route]]\npath = \"{path}\"\n{line}\n");
    [
        route("/refused", &format!("backend = \"{}\"", Backend::refusing())),
        route("/none", &format!("backend = \"{unused}\"")),
        route("/forbidden", "refuse-clients = \"127.0.0.1\""),
        route("/rate", "rate-limit = { requests = 1, per = \"1h\" }"),
        route("/large", "max-body = \"10B\""),
        route("/404", "respond = 404"),
        route("/redirect", "redirect = { to = \"https://localhost/new\" }"),
        route("/own", "respond = { status = 200, content = \"own\" }"),
    ]
    .concat()
}

/// The lines of requests in the access log, those of requests that did not fail too.
fn request_lines(proxy: &Proxy) -> Vec<serde_json::Value> {
    let lines = proxy.output.so_far();
    let lines = lines.iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["status"].is_u64()).collect()
}

/// The counters of requests with this cause and class of status: failures, requests, bytes and seconds.
fn counts(proxy: &Proxy, case: &AtOnce) -> [f64; 4] {
    let metrics = proxy.metrics();
    let word = case.cause.rsplit('/').next().unwrap_or_default();
    let class = format!("{}xx", case.status / 100);
    [
        metrics.sum("handfast_requests_failed_total", &[("cause", word)]),
        metrics.sum("handfast_requests_total", &[("status", &class)]),
        metrics.sum("handfast_request_content_bytes_total", &[]),
        metrics.sum("handfast_request_phase_seconds_sum", &[]),
    ]
}

/// Sends a request; what is wrong with its line in the log or in the metrics.
fn check_at_once(proxy: &Proxy, protocol: &str, case: &AtOnce) -> Vec<String> {
    let (before, counted) = (request_lines(proxy).len(), counts(proxy, case));
    let (content, waited) = send_at_once(proxy, protocol, case);
    let what = format!("{} with {protocol}", case.path);
    let line = wait_until(&format!("the line of {what}"), || request_lines(proxy).into_iter().nth(before));
    let steps = line["seconds"].as_object().expect("steps");
    let seconds: f64 = steps.values().filter_map(serde_json::Value::as_f64).sum();
    let reason = &line["reason"];
    let cause = match reason.is_object() {
        true => ["step", "side", "cause"].map(|word| reason[word].as_str().unwrap_or("?")).join("/"),
        false => String::new(),
    };
    let mut wrong = Vec::new();
    if seconds < 0.0 || seconds > (waited + BUSY).as_secs_f64() {
        wrong.push(format!("{what}: {seconds} s for {waited:?}: {line}"));
    }
    if (cause.as_str(), &line["status"]) != (case.cause, &case.status.into()) {
        wrong.push(format!("{what}: {line}"));
    }
    if (&line["bytes_from_client"], &line["bytes_to_client"]) != (&0.into(), &content.into()) {
        wrong.push(format!("{what}: {content} bytes came: {line}"));
    }
    let failures = if case.cause.is_empty() { 0.0 } else { 1.0 };
    let more =
        counts(proxy, case).iter().zip(counted).map(|(after, before)| after - before).collect::<Vec<_>>();
    let expected = [failures, 1.0, content as f64, seconds];
    if more.iter().zip(expected).any(|(more, expected)| (more - expected).abs() > 0.01) {
        wrong.push(format!("{what}: counted {more:?}, expected {expected:?}"));
    }
    wrong
}

#[test]
fn and_for_causes_that_end_a_request_at_once() {
    let serve = |peer: &mut Peer| {
        while peer.head().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    };
    let (backend, unused) = (Backend::start(serve), Backend::start(serve));
    let folder = Folder::new();
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let proxy = Proxy::start(format!("{config}{}", routes(unused.address)));
    http::post(proxy.admin(), &format!("/backends/web/{}?state=down", unused.address), "");
    // It takes what the limit of the route has.
    let first = AtOnce { cause: "", status: 200, path: "/rate", fields: Vec::new(), host: "localhost" };
    let mut wrong = check_at_once(&proxy, "http/1.1", &first);
    for case in at_once() {
        for protocol in ["http/1.1", "h2"] {
            wrong.extend(check_at_once(&proxy, protocol, &case));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The client of HTTP/1 that does not finish its head waits for its 408.
#[test]
fn and_for_a_head_that_does_not_end() {
    let folder = Folder::new();
    let config = Config::to(&folder, Backend::refusing()).text("service", "mode", "http");
    let limit = format!("{}ms", LIMIT.as_millis());
    let proxy = Proxy::start(config.text("service.http", "header-timeout", limit));
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    let began = Instant::now();
    client.send(b"GET / HTTP/1.1\r\n");
    let answer = String::from_utf8(client.read_to_end().bytes).expect("text");
    let waited = began.elapsed();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let line = wait_until("its line", || request_lines(&proxy).pop());
    let hello = line["seconds"]["hello"].as_f64().expect("a number");
    assert!((WAIT.as_secs_f64()..(waited + BUSY).as_secs_f64()).contains(&hello), "{waited:?}: {line}");
    let content = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    assert_eq!(line["bytes_to_client"], content.len(), "{line}");
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
            // Bytes to a client with HTTP/1 are counted including the heads.
            (of("to_backend") >= moved && of("to_client") >= moved).then_some(())
        });
        assert!(sum(&proxy, "handfast_requests_open") > 0.5, "it is still open");
        drop(client);
    }
}
