//! HTTP mode: connections that authenticate serve one client, others serve all; and what ends is ended at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::support::record::Record;
use super::support::*;

/// Serves requests without content on each of its connections, and names the connection as the content. `fields` go with each response.
fn numbering(fields: &'static str) -> Backend {
    let accepted = AtomicUsize::new(0);
    Backend::start(move |peer| {
        let number = accepted.fetch_add(1, Ordering::Relaxed) + 1;
        while peer.head().is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\n{number:02}").as_bytes());
        }
    })
}

fn in_http_mode(backend: Backend) -> Stage {
    Stage::with(backend, |config, _| config.set("process", "threads", 1).text("service", "mode", "http"))
}

/// The head of the response, and its content of two bytes.
fn request(client: &mut Client, fields: &str) -> (String, String) {
    request_of(client, &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

fn request_of(client: &mut Client, request: &str) -> (String, String) {
    client.send(request.as_bytes());
    (head(client), text(client.read_exactly(2)))
}

/// The head of the next response.
fn head(client: &mut Client) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.read_exactly(1));
    }
    text(head)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("the backend sends text")
}

/// Number of the backend connection that served the request.
fn number(client: &mut Client, fields: &str) -> String {
    request(client, fields).1
}

/// RFC 4559 §6: the authentication is the connection's, and each of its requests has it.
#[test]
fn a_connection_that_authenticates_serves_its_client_alone() {
    for fields in ["Authorization: Negotiate YII=\r\n", "Authorization: NTLM TlRMTVNTUAAB\r\n"] {
        let stage = in_http_mode(numbering(""));
        let (mut one, mut other) = (stage.any_client(), stage.any_client());
        assert_eq!(number(&mut one, fields), "01");
        assert_eq!(number(&mut other, ""), "02", "{fields}");
        assert_eq!(number(&mut one, ""), "01", "its next request has what it has agreed: {fields}");
        one.finish();
        assert_eq!(number(&mut other, ""), "02");
        assert_eq!(number(&mut stage.any_client(), ""), "02", "no other client receives it: {fields}");
    }
}

#[test]
fn other_connections_serve_every_client() {
    let stage = in_http_mode(numbering(""));
    let (mut one, mut other) = (stage.any_client(), stage.any_client());
    for _ in 0..3 {
        assert_eq!([number(&mut one, "Authorization: Basic YTpi\r\n"), number(&mut other, "")], ["01", "01"]);
    }
}

#[test]
fn interim_responses_have_a_bound() {
    let stage = in_http_mode(Backend::start(|peer| {
        if peer.head().is_some() {
            peer.send(&b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(65));
            peer.read_to_end();
        }
    }));
    let mut client = stage.any_client();
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // Those that came before the last one may have been passed on.
    let heads = std::iter::repeat_with(|| head(&mut client));
    let head = heads.take(66).find(|head| !head.starts_with("HTTP/1.1 103 ")).expect("a final response");
    assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{head}");
    let record = stage.proxy.record("the line of the request", |record| record.text("path") == "/");
    assert_eq!(record.detail(), "more than 64 interim responses", "{record:?}");
}

/// One that is busy says that its response is the last one.
#[test]
fn the_request_under_way_of_a_removed_service_is_the_last_one() {
    let (requested, continues) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (has_request, waits) = (Arc::clone(&requested), Arc::clone(&continues));
    let stage = in_http_mode(Backend::start(move |peer| {
        if peer.head().is_some() {
            has_request.store(true, Ordering::SeqCst);
            wait_until("the reload", || waits.load(Ordering::SeqCst).then_some(()));
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            peer.read_to_end();
        }
    }));
    let mut busy = stage.any_client();
    busy.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_until("the request at the backend", || requested.load(Ordering::SeqCst).then_some(()));
    let other = Backend::echo();
    let without = Config::empty().set("process", "threads", 1).service("other", other.address);
    stage.proxy.rewrite(without.certificate(&stage.folder.file("web.pem")));
    assert!(stage.proxy.reload(), "{:?}", stage.proxy.talk.so_far());
    continues.store(true, Ordering::SeqCst);
    let ending = busy.read_to_end();
    let text = String::from_utf8(ending.bytes.clone()).expect("text");
    assert!(text.contains("\r\nConnection: close\r\n") && text.ends_with("ok"), "{text}");
    assert!(ending.is_clean(), "{ending:?}");
}

/// Those of clients at the end of the drain, and those that are kept to backends at once.
#[test]
fn idle_connections_of_a_removed_service_are_closed() {
    let stage = Stage::with(numbering(""), |config, _| {
        let config = config.set("process", "threads", 1).text("process", "drain", "2s");
        // Longer than the test waits.
        let config = config.text("service", "mode", "http").text("service.http", "pool-idle", "1h");
        config.text("service.http", "idle", "1h")
    });
    let mut idle = stage.any_client();
    number(&mut idle, "");
    let other = Backend::echo();
    let without = Config::empty().set("process", "threads", 1).text("process", "drain", "2s");
    let without = without.service("other", other.address);
    stage.proxy.rewrite(without.certificate(&stage.folder.file("web.pem")));
    assert!(stage.proxy.reload(), "{:?}", stage.proxy.talk.so_far());
    wait_until("the backend's connection to end", || {
        (stage.backend.seen().last() == Some(&Event::Fin)).then_some(())
    });
    assert!(idle.read_to_end().is_clean());
}

/// Many clients read nothing before their whole request is written. A reset would take the response from them.
#[test]
fn an_early_response_reaches_a_client_that_still_writes() {
    let stage = in_http_mode(Backend::start(|peer| {
        if peer.head().is_some() {
            peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
            peer.fin();
        }
    }));
    let mut client = stage.any_client();
    client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000001\r\n\r\n");
    client.send(&vec![b'x'; 1_000_000]);
    let ending = client.read_to_end();
    let text = text(ending.bytes.clone());
    assert!(text.starts_with("HTTP/1.1 401 ") && text.ends_with("no"), "{text}");
    assert!(ending.is_clean(), "{ending:?}");
}

/// `curl --http1.0` offers nothing else by ALPN.
#[test]
fn a_client_that_offers_http10_alone_is_served() {
    let stage = in_http_mode(numbering(""));
    let mut client = stage.client(&Trust::version(Version::Tls13).protocol("http/1.0").config());
    let (head, content) = request_of(&mut client, "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(content, "01");
}

#[test]
fn the_line_of_a_tunnel_names_its_backend() {
    let stage = in_http_mode(Backend::start(|peer| {
        if peer.head().is_some() {
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhi");
            peer.read_to_end();
        }
    }));
    let mut client = stage.any_client();
    let (head, first) = request(&mut client, "Connection: upgrade\r\nUpgrade: echo\r\n");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(first, "hi");
    client.finish();
    let is_connection = |record: &Record| record.text("path").is_empty();
    let record = stage.proxy.record("the line of the connection", is_connection);
    assert_eq!(record.text("backend"), stage.backend.address.to_string(), "{record:?}");
}
