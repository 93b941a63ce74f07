//! HTTP mode with `[service.cache]`: a stored response is used only for clients that would have received it from the backend, and it is
//! refreshed from the backend that it came from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use handfast_wire::proxy_header::tlv;
use rustls::ClientConfig;

use super::support::backend::Peer;
use super::support::cached::{self, start};
use super::support::folder::Folder;
use super::support::proxy_headers;
use super::support::*;

/// A backend whose responses are its name and the number of requests before; and how many it has received.
fn named(name: &'static str, fields: &'static str) -> (Backend, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let backend = cached::origin(move |peer, _| {
        let content = format!("{name} {}", counted.fetch_add(1, Ordering::SeqCst));
        let length = content.len();
        peer.send(
            format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {fields}\r\nContent-Length: {length}\r\n\r\n{content}"
            )
            .as_bytes(),
        );
    });
    (backend, requests)
}

/// A request for this path from a proxy that is trusted, in the name of this client.
fn request(line: &str, client: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: www.example\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n")
}

fn exchange(proxy: &Proxy, line: &str, client: &str) -> http::Response {
    http::parse(&http::exchange(proxy.address(), &request(line, client))).expect("an answer")
}

fn is_hit(answer: &http::Response) -> bool {
    answer.head.contains("\r\ncache-status: handfast; hit;")
}

/// Without the route's backend another one answers for all clients.
#[test]
fn and_refreshed_where_they_came_from() {
    let folder = Folder::new();
    let (of_service, requests) = named("service", "max-age=1, stale-while-revalidate=600");
    let (of_route, _) = named("route", "max-age=1, stale-while-revalidate=600");
    let route = format!("[[service.route]]\npath = \"/b\"\nbackend = \"{}\"\n", of_route.address);
    let proxy = start(&(cached::config(&folder, &of_service) + &route));
    assert_eq!(exchange(&proxy, "GET /b", "10.0.0.1").body, "route 0");
    wait_until("it to be refreshed", || {
        let content = exchange(&proxy, "GET /b", "10.0.0.1").body;
        assert!(content.starts_with("route "), "{content}");
        (content != "route 0").then_some(())
    });
    assert_eq!(requests.load(Ordering::SeqCst), 0, "the service's backend received a request of the route");
}

#[test]
fn whatever_the_method_is() {
    let folder = Folder::new();
    let (guarded, _) = named("guarded", "max-age=600");
    let (open, requests) = named("open", "max-age=600");
    let text = cached::config(&folder, &guarded)
        + "[service.http]\ntrust-forwarded-from = \"127.0.0.0/8\"\n"
        + "[[service.route]]\npath = \"/g\"\nmethods = \"GET\"\nallow-clients = \"10.0.0.0/8\"\n"
        + &format!(
            "[[service.route]]\nmethods = [\"HEAD\", \"POST\", \"OPTIONS\"]\nbackend = \"{}\"\n",
            open.address
        );
    let proxy = start(&text);
    let (inside, outside) = ("10.0.0.1", "192.0.2.1");
    assert_eq!(exchange(&proxy, "GET /g", inside).body, "guarded 0");
    assert_eq!(exchange(&proxy, "GET /g", outside).status, 403);
    for (number, method) in ["HEAD", "OPTIONS", "POST", "HEAD"].into_iter().enumerate() {
        let answer = exchange(&proxy, &format!("{method} /g"), outside);
        assert!(!is_hit(&answer), "{method}: {}", answer.head);
        assert_eq!(requests.load(Ordering::SeqCst), number + 1, "{method}: its own backend answers");
        let kept = exchange(&proxy, "GET /g", inside);
        assert!(is_hit(&kept) && kept.body == "guarded 0", "{method} ends what is guarded: {}", kept.head);
    }
    // If any client may send the GET, an unsafe request by any route invalidates its response (RFC 9111 §4.4).
    assert_eq!(exchange(&proxy, "GET /a", outside).body, "guarded 1");
    assert!(is_hit(&exchange(&proxy, "GET /a", outside)));
    exchange(&proxy, "POST /a", outside);
    assert_eq!(exchange(&proxy, "GET /a", outside).body, "guarded 2");
}

/// The content that a client with this certificate, or none, receives.
fn fetch(proxy: &Proxy, config: &Arc<ClientConfig>, path: &str) -> String {
    let mut client = Client::connect(proxy.address(), config);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.send(request.as_bytes());
    let answer = String::from_utf8(client.read_to_end().bytes).expect("text");
    http::parse(&answer).expect("an answer").body
}

#[test]
fn whatever_certificate_they_have() {
    let folder = Folder::new();
    let (real, _) = named("real", "max-age=600");
    let (of_route, _) = named("route", "max-age=600");
    let (decoy, _) = named("decoy", "max-age=600");
    let ca = folder.write("ca.pem", &authority().pem);
    let config = Config::empty()
        .service("web", real.address)
        .certificate(&folder.write("web.pem", certificates::localhost().combined()))
        .text("service", "mode", "http")
        .text("service.client-certificates", "mode", "require")
        .text("service.client-certificates", "ca", ca.display())
        .text("service.client-certificates", "fallback-backend", decoy.address);
    let text = format!(
        "{config}[service.cache]\nfolder = \"{}\"\nsize = \"64MiB\"\n[[service.route]]\npath = \"/r\"\nbackend = \"{}\"\n",
        folder.file("cache").display(),
        of_route.address
    );
    let proxy = start(&text);
    let alice = authority().identity_called("alice", None);
    let known = Trust::version(Version::Tls13).showing(&alice).config();
    let unknown = Trust::version(Version::Tls13).config();
    for (path, backend) in [("/r/1", "route"), ("/1", "real")] {
        assert!(fetch(&proxy, &known, path).starts_with(backend), "{path}");
        assert!(fetch(&proxy, &unknown, path).starts_with("decoy"), "{path}: it has no certificate");
    }
    for (path, backend) in [("/r/2", "route"), ("/2", "real")] {
        assert!(fetch(&proxy, &unknown, path).starts_with("decoy"), "{path}: it has no certificate");
        assert!(fetch(&proxy, &known, path).starts_with(backend), "{path}: what others were answered with");
    }
}

/// The name in the certificate that the PROXY header of a connection tells of.
fn certificate_name(peer: &mut Peer) -> Option<String> {
    let mut bytes = peer.read_exactly(16);
    let length = u16::from_be_bytes([*bytes.get(14)?, bytes[15]]);
    bytes.extend(peer.read_exactly(length.into()));
    let tls = proxy_headers::header(&bytes).tls()?;
    let name = tls.values().find(|value| value.number == tlv::SSL_CN)?;
    Some(String::from_utf8_lossy(name.value).into_owned())
}

/// A backend may answer by the header, which no field of the request shows.
#[test]
fn whatever_a_proxy_header_says_of_them() {
    for form in ["cn", "der"] {
        let folder = Folder::new();
        let backend = Backend::start(|peer| {
            let name = certificate_name(peer).unwrap_or_else(|| "no one".to_owned());
            while peer.head().is_some() {
                let length = name.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}");
                peer.send(format!("{head}\r\n\r\n{name}").as_bytes());
            }
        });
        let ca = folder.write("ca.pem", &authority().pem);
        let config = Config::empty()
            .service("web", backend.address)
            .certificate(&folder.write("web.pem", certificates::localhost().combined()))
            .text("service", "mode", "http")
            // A connection with such a header is of one client.
            .set("service.http", "pool", 0)
            .text("service.proxy-protocol", "send", "v2")
            .text("service.proxy-protocol", "client-certificate", form)
            .text("service.client-certificates", "mode", "request")
            .text("service.client-certificates", "ca", ca.display());
        let cache = folder.file("cache");
        let proxy =
            start(&format!("{config}[service.cache]\nfolder = \"{}\"\nsize = \"64MiB\"\n", cache.display()));
        let [alice, bob] = ["alice", "bob"].map(|name| authority().identity_called(name, None));
        let known = |identity| Trust::version(Version::Tls13).showing(identity).config();
        for (config, name) in [
            (known(&alice), "alice"),
            (known(&bob), "bob"),
            (Trust::version(Version::Tls13).config(), "no one"),
            (known(&alice), "alice"),
        ] {
            assert_eq!(fetch(&proxy, &config, "/a"), name, "{form}");
        }
    }
}
