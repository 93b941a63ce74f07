//! HTTP mode: a client that leaves while a backend is silent ends its request at once, in the log, in the metrics and at the backend, and the
//! log has how long it waited.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::support::config::Config;
use super::support::folder::Folder;
use super::support::http2::{END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, get, preface};
use super::support::*;

/// Time that a client waits before it leaves.
const WAIT: Duration = Duration::from_millis(300);

/// A backend that takes requests and never answers, and news of each head.
fn silent() -> (Backend, Receiver<()>) {
    let (sender, heads) = sync_channel(16);
    let backend = Backend::start(move |peer| {
        if peer.head().is_some() {
            sender.send(()).expect("the test waits");
            peer.read_to_end();
        }
    });
    (backend, heads)
}

fn config(folder: &Folder, backend: &Backend) -> Config {
    Config::to(folder, backend.address).text("service", "mode", "http").text(
        "service.http",
        "response-timeout",
        "none",
    )
}

/// Ways in which a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    Reset,
    Fin,
    Cleanly,
    /// Its stream alone.
    Stream,
}

fn request(proxy: &Proxy, protocol: &str) -> Client {
    let config = Trust::version(Version::Tls13).protocol(protocol).config();
    let mut client = Client::connect(proxy.address(), &config);
    match protocol {
        "h2" => {
            client.send(&[preface(&[]), frame(HEADERS, END_STREAM | END_HEADERS, 1, &get("/a"))].concat())
        }
        _ => client.send(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    }
    client
}

#[test]
fn whatever_way_it_leaves() {
    let (backend, heads) = silent();
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, &backend));
    let ways = [Leaves::Reset, Leaves::Fin, Leaves::Cleanly, Leaves::Stream];
    let cases = ways.map(|way| ("h2", way)).into_iter().chain(ways[..3].iter().map(|way| ("http/1.1", *way)));
    for (number, (protocol, way)) in cases.enumerate() {
        let mut client = request(&proxy, protocol);
        heads.recv_timeout(DEADLINE).expect("the backend receives a request");
        pause(WAIT);
        let mut kept = None;
        match way {
            Leaves::Reset => client.reset(),
            Leaves::Fin => {
                client.fin();
                kept = Some(client);
            }
            Leaves::Cleanly => {
                client.close();
                kept = Some(client);
            }
            Leaves::Stream => {
                client.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
                kept = Some(client);
            }
        }
        let seen = backend.seen();
        assert!(matches!(seen.last(), Some(Event::Fin | Event::Reset)), "{protocol} {way:?}: {seen:?}");
        let open = || proxy.metrics().sum("handfast_requests_open", &[]);
        wait_until("no request to be open", || (open() < 0.5).then_some(()));
        let ended = wait_until("a line for each request", || {
            let lines = proxy.records().into_iter().filter(|line| line.text("path") == "/a");
            let lines: Vec<_> = lines.collect();
            (lines.len() > number).then(|| lines[number].clone())
        });
        assert_eq!(ended.value("reason")["side"], "client", "{protocol} {way:?}: {ended:?}");
        assert!(ended.seconds("response") >= WAIT.as_secs_f64() * 0.9, "{protocol} {way:?}: {ended:?}");
        drop(kept);
    }
}

/// `half-close = "answer"`: a client that has ended its direction still reads.
#[test]
fn one_that_only_half_closes_is_answered_where_that_is_configured() {
    let backend = Backend::start(|peer| {
        if peer.head().is_some() {
            pause(WAIT);
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let folder = Folder::new();
    let proxy = Proxy::start(config(&folder, &backend).text("service.http", "half-close", "answer"));
    let mut client = request(&proxy, "http/1.1");
    client.fin();
    let ending = client.read_to_end();
    assert!(ending.bytes.ends_with(b"\r\n\r\nok"), "{ending:?}");
}
