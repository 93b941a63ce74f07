//! HTTP mode reads what nginx and HAProxy read, where no reader can take it for something else: requests of HTTP/1.0 without a host,
//! other forms of the same host, higher minor versions, and what backends write.

use std::sync::mpsc::{Receiver, sync_channel};

use super::support::folder::Folder;
use super::support::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A proxy in HTTP mode with a backend that answers each head with `answer`.
struct QueriedProxy {
    proxy: Proxy,
    /// Heads that the backend received.
    heads: Receiver<String>,
    _backend: Backend,
    _folder: Folder,
}

fn stage(answer: &'static str, routes: &str) -> QueriedProxy {
    let (sender, heads) = sync_channel(16);
    let backend = Backend::start(move |peer| {
        while let Some(head) = peer.head() {
            let _ = sender.send(head);
            peer.send(answer.as_bytes());
        }
    });
    let folder = Folder::new();
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    QueriedProxy {
        proxy: Proxy::start(format!("{config}{routes}")),
        heads,
        _backend: backend,
        _folder: folder,
    }
}

/// The status of the response, and all of it.
fn query(stage: &QueriedProxy, request: &str) -> (String, String) {
    let last = "GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = query_once(stage, &format!("{request}{last}"));
    (answer.get(9..12).unwrap_or("none").to_owned(), answer)
}

fn query_once(stage: &QueriedProxy, request: &str) -> String {
    let mut client = Client::connect(stage.proxy.address(), &Trust::version(Version::Tls13).config());
    client.send(request.as_bytes());
    String::from_utf8_lossy(&client.read_to_end().bytes).into_owned()
}

#[test]
fn requests_with_another_form_of_the_host_or_version() {
    let stage = stage(OK, "");
    for (target, version, host) in [
        ("/", "1.1", "localhost:"),
        ("http://localhost:80/", "1.1", "localhost"),
        ("http://localhost/", "1.1", "localhost:80"),
        ("https://localhost:443/", "1.1", "localhost"),
        ("/", "1.2", "localhost"),
        ("/", "1.9", "localhost"),
    ] {
        let (status, answer) = query(&stage, &format!("GET {target} HTTP/{version}\r\nHost: {host}\r\n\r\n"));
        assert_eq!(status, "200", "{target} {version} {host}: {answer}");
        let head = stage.heads.recv_timeout(DEADLINE).expect("the backend receives it");
        assert!(head.starts_with("GET / HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("Host: {host}\r\n")), "what was compared is forwarded: {head}");
        assert!(stage.heads.recv_timeout(DEADLINE).expect("the next request").starts_with("GET /last "));
    }
    // Two hosts: a server may read either.
    for target in ["http://other/", "http://localhost:81/", "https://localhost:80/", "http://u@localhost/"] {
        let (status, _) = query(&stage, &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(status, "400", "{target}");
    }
}

/// HAProxy's health check, for one. It matches no route for a host, and its backend receives no host that was not compared.
#[test]
fn requests_in_the_old_version_without_a_host() {
    let routes = "[[service.route]]\nhosts = \"localhost\"\nrespond = 403\n\
                  [[service.route]]\npath = \"/moved\"\nredirect = { to = \"https://{host}/new\" }\n";
    let stage = stage(OK, routes);
    let answer = query_once(&stage, "OPTIONS / HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let head = stage.heads.recv_timeout(DEADLINE).expect("the backend receives it");
    assert!(head.starts_with("OPTIONS / HTTP/1.0\r\n"), "{head}");
    assert!(!head.to_lowercase().contains("host"), "no field names one: {head}");
    for (request, status) in [
        ("GET /moved HTTP/1.0\r\n\r\n", "400"),
        // The host of an absolute target is one, and belongs to a route; TLS was for another one.
        ("GET http://localhost/ HTTP/1.0\r\n\r\n", "403"),
        ("GET http://shop/ HTTP/1.0\r\n\r\n", "421"),
    ] {
        let answer = query_once(&stage, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    assert_eq!(query(&stage, "GET / HTTP/1.1\r\n\r\n").0, "400", "HTTP/1.1 has no such request");
}

#[test]
fn responses_of_backends() {
    for answer in [
        "HTTP/1.1 200 OK\nContent-Length: 2\nX: y\n\nok",
        "HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\u{1}b\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0 \r\n\r\n",
    ] {
        let stage = stage(answer, "");
        let (status, all) = query(&stage, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((status.as_str(), all.matches("ok").count()), ("200", 2), "{answer:?}: {all}");
        let lines = all.replace("\r\n", "");
        assert!(!lines.contains('\n'), "line ends of our own: {all:?}");
    }
}
