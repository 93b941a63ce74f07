//! The URL of a site as a backend means HTTP, TLS for its name, and requests with its name as their host; with a cache, five lines are a mirror.

use super::support::certificates::KeyKind;
use super::support::folder::Folder;
use super::support::tunnel::Tunnel;
use super::support::*;

/// A name that no server resolves: the proxy on the way receives it as it is.
const SITE: &str = "repo.test";
const CONNECT: &str = "CONNECT repo.test:443 HTTP/1.1\r\nHost: repo.test:443\r\n\r\n";
const TURNS: &[(usize, &[u8])] = &[(CONNECT.len(), b"HTTP/1.1 200 Connection established\r\n\r\n")];

/// Answers each request with its head as the content, which may be kept.
fn origin() -> Backend {
    Backend::start(|peer| {
        while let Some(head) = peer.head() {
            let fields = format!("Cache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n", head.len());
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}{head}").as_bytes());
        }
    })
}

/// A server that has TLS for the name of the site, and the origin behind it.
fn site(folder: &Folder, origin: &Backend) -> Proxy {
    let identity = authority().identity(&[SITE], KeyKind::Ecdsa);
    let file = folder.write("site.pem", identity.combined());
    Proxy::start(Config::empty().service("site", origin.address).certificate(&file))
}

/// The five lines, and what a test needs beside them.
fn mirror(folder: &Folder, tunnel: &Tunnel) -> Proxy {
    let certificate = folder.write("mirror.pem", certificates::localhost().combined());
    let lines = format!(
        "[[service]]\nlisten = \"127.0.0.1:0\"\ncertificate = \"{}\"\nbackend = \"https://{SITE}\"\n\
         cache = {{ folder = \"{}\", size = \"64MiB\", immutable = [\"/maven2/**\"] }}\n",
        certificate.display(),
        folder.file("cache").display()
    );
    assert_eq!(lines.lines().count(), 5);
    // The kernel chooses the port, so it is no name.
    let ca = folder.write("ca.pem", &authority().pem);
    let through = format!("{{ type = \"http\", address = \"{}\" }}", tunnel.backend.address);
    let beside = format!("backend-tls = {{ ca = \"{}\" }}\nconnect-through = {through}", ca.display());
    cached::start(&format!("{lines}name = \"mirror\"\n{beside}\n\n{}", Config::empty()))
}

fn get(proxy: &Proxy, path: &str) -> http::Response {
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    let fields = "Host: localhost\r\nX-Forwarded-Host: claimed\r\nConnection: close\r\n\r\n";
    client.send(format!("GET {path} HTTP/1.1\r\n{fields}").as_bytes());
    let read = client.read_to_end().bytes;
    http::parse(&String::from_utf8(read).expect("the origin sends text")).expect("an answer")
}

#[test]
fn five_lines_are_a_mirror_with_tls_on_both_sides() {
    let (folder, origin) = (Folder::new(), origin());
    let site = site(&folder, &origin);
    let tunnel = Tunnel::new(site.address(), TURNS);
    let proxy = mirror(&folder, &tunnel);
    let first = get(&proxy, "/maven2/a.jar");
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(String::from_utf8_lossy(&tunnel.requests()), CONNECT);
    let received: Vec<&str> = first.body.lines().collect();
    assert_eq!(received[..2], ["GET /maven2/a.jar HTTP/1.1", "Host: repo.test"], "{first:?}");
    let named = |start: &str| received.iter().filter(|line| line.to_lowercase().starts_with(start)).count();
    assert_eq!((named("host:"), named("x-forwarded-host: localhost")), (1, 1), "{first:?}");

    drop(origin);
    let again = get(&proxy, "/maven2/a.jar");
    assert_eq!((again.status, &again.body), (200, &first.body), "from the disk");
    assert!(again.head.contains("cache-status: handfast; hit"), "{again:?}");
    // Its connection to the site is kept for further requests until then.
    drop(proxy);
    let record = site.record("the connection to the site", |record| record.text("service") == "site");
    assert_eq!(record.text("sni"), SITE, "{record:?}");
}

#[test]
fn a_site_must_have_a_certificate_for_its_name() {
    let (folder, origin) = (Folder::new(), origin());
    let other = Proxy::start(Config::to(&folder, origin.address));
    let tunnel = Tunnel::new(other.address(), TURNS);
    let proxy = mirror(&folder, &tunnel);
    let answer = get(&proxy, "/maven2/a.jar");
    assert_eq!((answer.status, origin.accepted()), (502, 0), "{answer:?}");
    let record = proxy.record("the request", |record| record.text("host") == "localhost");
    assert!(record.reason().starts_with("connect/backend/"), "{record:?}");
}
