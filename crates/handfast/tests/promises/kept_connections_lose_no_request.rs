//! HTTP mode: a client that sends requests on a kept connection loses none when the proxy ends it, for whatever reason: the last response
//! announces the end (HTTP/1), or a GOAWAY names the last stream that was served (HTTP/2).

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::support::crowd::Crowd;
use super::support::folder::Folder;
use super::support::http2::*;
use super::support::upgrade::{Successor, config, upgrade};
use super::support::*;

const POST: &[u8] = b"POST /orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";

/// Serves requests with a content of five bytes, on kept connections.
fn counting() -> Backend {
    Backend::start(|peer| {
        while peer.head().is_some() && peer.read_exactly(5).len() == 5 {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    })
}

fn in_http_mode(folder: &Folder, backend: &Backend) -> Config {
    config(folder, backend).text("service", "mode", "http").text("service.http", "idle", "1h")
}

/// Sends a POST and reads its response; returns true if the response announces the end of the connection.
fn post(client: &mut Client) -> bool {
    client.send(POST);
    announces_the_end(client)
}

/// Reads a response.
fn announces_the_end(client: &mut Client) -> bool {
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\nok") {
        response.extend(client.read_exactly(1));
    }
    let response = String::from_utf8(response).expect("text");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    response.contains("\r\nConnection: close\r\n")
}

/// Reads a response, and sends more requests until one announces the end: a worker may serve some before it receives the order to end connections.
fn ends_after_responses(client: &mut Client) {
    let mut left = 1_000;
    while !announces_the_end(client) {
        left -= 1;
        assert!(left > 0, "1,000 responses, and none announces the end");
        client.send(POST);
    }
    assert!(client.read_to_end().is_clean());
}

/// Something that ends kept connections.
enum Change {
    Upgrade,
    Stop,
    RemovedService,
    Lifetime,
}

impl Change {
    fn happen(&self, proxy: &Proxy, folder: &Folder, began: Instant) -> Option<Successor> {
        match self {
            Self::Upgrade => return Some(upgrade(proxy, &[]).expect("it can be replaced")),
            Self::Stop => {
                proxy.signal(Signal::TERM);
                proxy.talk.containing("stopping: ");
            }
            Self::RemovedService => {
                let other = Config::empty().service("other", Backend::echo().address);
                proxy.rewrite(other.certificate(&folder.file("web.pem")));
                // In part: the file has no upgrade-socket, which takes effect at a restart.
                assert!(!proxy.reload(), "{:?}", proxy.talk.so_far());
                proxy.talk.containing("reloaded in part: ");
            }
            Self::Lifetime => wait_until("the connection's lifetime", || {
                (began.elapsed() > Duration::from_secs(1)).then_some(())
            }),
        }
        None
    }
}

#[test]
fn whatever_ends_it() {
    for change in [Change::Upgrade, Change::Stop, Change::RemovedService, Change::Lifetime] {
        let (folder, backend) = (Folder::new(), counting());
        let mut config = in_http_mode(&folder, &backend);
        if let Change::Lifetime = change {
            config = config.text("service.limits", "lifetime", "1s");
        }
        let proxy = Proxy::start(config);
        let connect = |_| Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
        let mut used: Vec<Client> = (0..4).map(connect).collect();
        assert!(used.iter_mut().all(|client| !post(client)), "they are kept");
        // One that has not sent a request yet.
        let mut new = connect(0);
        let handshakes = || proxy.metrics().sum("handfast_handshakes_total", &[]);
        wait_until("all handshakes to have ended at the proxy", || (handshakes() > 4.5).then_some(()));
        let began = Instant::now();
        let _successor = change.happen(&proxy, &folder, began);
        // A request that has begun to arrive is answered too.
        let mut halved = used.pop().expect("there are four");
        halved.send(&POST[..30]);
        for client in used.iter_mut().chain([&mut new]) {
            client.send(POST);
            ends_after_responses(client);
        }
        halved.send(&POST[30..]);
        ends_after_responses(&mut halved);
    }
}

#[test]
fn posts_during_upgrades_are_all_answered() {
    let (folder, backend) = (Folder::new(), counting());
    let proxy = Proxy::start(in_http_mode(&folder, &backend));
    let (address, trust) = (proxy.address(), Trust::version(Version::Tls13).config());
    // Several requests on each connection, with pauses in which it is idle.
    let crowd = Crowd::start(6, move |number| {
        let mut client = Client::try_connect(address, &Arc::clone(&trust), "localhost")
            .map_err(|refusal| format!("a new connection failed: {refusal:?}"))?;
        for request in 0..20 {
            if post(&mut client) {
                return Ok(());
            }
            pause(Duration::from_millis((number as u64 * 7 + request * 5) % 23));
        }
        client.finish();
        Ok(())
    });
    let mut processes = Vec::new();
    for _ in 0..5 {
        let before = crowd.done();
        processes.push(upgrade(&proxy, &[]).expect("it can be replaced"));
        wait_until("connections of the new process", || (crowd.done() > before + 6).then_some(()));
    }
    crowd.finish();
}

/// No process waits for its idle connections longer than it has to drain, and none of them is cut.
#[test]
fn idle_connections_end_cleanly_before_the_drain_is_over() {
    let (folder, backend) = (Folder::new(), counting());
    let config = in_http_mode(&folder, &backend).text("process", "drain", "2s");
    let mut proxy = Proxy::start(config);
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    assert!(!post(&mut client), "it is kept");
    let _successor = upgrade(&proxy, &[]).expect("it can be replaced");
    assert!(client.read_to_end().is_clean());
    drop(client);
    assert_eq!(proxy.ended().code(), Some(0));
    proxy.talk.containing("stopped: every connection had ended");
}

/// HTTP/2 (RFC 9113 §6.8): frames by hand, since libraries open no stream after a GOAWAY.
mod http2 {
    use super::super::support::http2::*;
    use super::*;

    fn post(client: &mut Client, stream: u32) {
        let fields = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
        let fields = fields.iter().chain(&[("content-length", "5")]);
        let head: Vec<_> =
            fields.flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect();
        client.send(&frame(HEADERS, END_HEADERS, stream, &head));
        client.send(&frame(DATA, END_STREAM, stream, b"hello"));
    }

    /// The proxy, and a client whose first stream was served.
    fn served() -> (Folder, Backend, Proxy, Client) {
        let (folder, backend) = (Folder::new(), counting());
        let proxy = Proxy::start(in_http_mode(&folder, &backend));
        let trust = Trust::version(Version::Tls13).protocol("h2").config();
        let mut client = Client::connect(proxy.address(), &trust);
        client.send(&preface(&[]));
        post(&mut client, 1);
        assert_eq!(receive_one_of(&mut client, &[HEADERS]).stream, 1);
        (folder, backend, proxy, client)
    }

    #[test]
    fn a_stream_between_the_two_goaways_is_served() {
        let (_folder, _backend, proxy, mut client) = served();
        let _successor = upgrade(&proxy, &[]).expect("it can be replaced");
        assert_eq!(receive_one_of(&mut client, &[GOAWAY]).last_stream(), u32::MAX >> 1);
        let ping = receive_one_of(&mut client, &[PING]);
        assert_eq!(ping.flags & ACK, 0);
        post(&mut client, 3);
        let response = receive_one_of(&mut client, &[HEADERS]);
        assert_eq!((response.stream, response.payload[0]), (3, 0x88), "status 200");
        client.send(&frame(PING, ACK, 0, &ping.payload));
        assert_eq!(receive_one_of(&mut client, &[GOAWAY]).last_stream(), 3);
        assert!(client.read_to_end().is_clean());
    }

    /// Without it a client could not know that a stream which it has sent meanwhile was not served.
    #[test]
    fn a_client_that_answers_no_ping_receives_the_last_stream_before_the_end() {
        let (_folder, _backend, proxy, mut client) = served();
        let _successor = upgrade(&proxy, &[]).expect("it can be replaced");
        assert_eq!(receive_one_of(&mut client, &[GOAWAY]).last_stream(), u32::MAX >> 1);
        assert_eq!(receive_one_of(&mut client, &[GOAWAY]).last_stream(), 1);
        assert!(client.read_to_end().is_clean());
    }
}

/// The backend ends its kept connection when it has the head. Content that waits for a 100 is still with the client, whatever the method is.
#[test]
fn content_that_was_not_read_goes_to_the_next_connection() {
    for (protocol, method, expected) in [
        ("http/1.1", "QUERY", "200"),
        ("http/1.1", "PUT", "200"),
        ("http/1.1", "POST", "502"),
        ("h2", "QUERY", "200"),
    ] {
        let backend = Backend::start(|peer| {
            let mut is_kept = false;
            while let Some(head) = peer.head() {
                if head.starts_with("GET ") {
                    is_kept = true;
                } else if is_kept {
                    return;
                } else {
                    peer.send(b"HTTP/1.1 100 Continue\r\n\r\n");
                    assert_eq!(peer.read_exactly(5), b"hello");
                }
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let folder = Folder::new();
        let proxy = Proxy::start(Config::to(&folder, backend.address).text("service", "mode", "http"));
        let trust = Trust::version(Version::Tls13).protocol(protocol).config();
        let mut client = Client::connect(proxy.address(), &trust);
        let status = if protocol == "h2" {
            query_by_http2(&mut client, method)
        } else {
            client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(!announces_the_end(&mut client));
            let fields = "Host: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close";
            client.send(format!("{method} / HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes());
            let first = String::from_utf8(client.read_exactly(12)).expect("text");
            if first.ends_with("100") {
                client.send(b"hello");
                let all = String::from_utf8(client.read_to_end().bytes).expect("text");
                all.rsplit("HTTP/1.1 ").next().unwrap_or_default()[..3].to_owned()
            } else {
                first[9..].to_owned()
            }
        };
        assert_eq!(status, expected, "{protocol} {method}: {:?}", proxy.talk.so_far());
    }
}

/// The same by HTTP/2; the status of the request with content.
fn query_by_http2(client: &mut Client, method: &str) -> String {
    let head = |method: &str| {
        let fields = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
        fields.iter().flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect::<Vec<_>>()
    };
    client.send(&preface(&[]));
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head("GET")));
    while receive_one_of(client, &[DATA]).flags & END_STREAM == 0 {}
    let fields = [field(b"content-length", b"5"), field(b"expect", b"100-continue")].concat();
    client.send(&frame(HEADERS, END_HEADERS, 3, &[head(method), fields].concat()));
    // 100 is a literal; 200 is a static entry.
    let first = receive_one_of(client, &[HEADERS]);
    if first.payload.windows(3).any(|bytes| bytes == b"100") {
        client.send(&frame(DATA, END_STREAM, 3, b"hello"));
        let last = receive_one_of(client, &[HEADERS]);
        return if last.payload[0] == 0x88 { "200" } else { "another" }.to_owned();
    }
    "no 100".to_owned()
}
