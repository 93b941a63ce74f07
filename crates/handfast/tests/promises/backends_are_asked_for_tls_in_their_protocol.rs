//! Backends that have TLS only in the middle of their protocol are asked for it there, and backends behind a proxy are reached through
//! it: what they said before TLS is neither believed nor passed on, and no connection is made in plain text where TLS was wanted.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::support::backend::Peer;
use super::support::certificates::localhost;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::starttls::{
    PROTOCOLS, Protocol, expect, greeting_echo, mysql_greeting, mysql_login, mysql_server, packet, service,
};
use super::support::tunnel::Tunnel;
use super::support::*;

/// A service whose backend is asked for TLS in this protocol.
fn asking(config: Config, folder: &Folder, word: &str) -> Config {
    let ca = folder.write("ca.pem", &authority().pem);
    config.text("service.backend-tls", "starttls", word).text("service.backend-tls", "ca", ca.display()).text(
        "service.backend-tls",
        "name",
        "localhost",
    )
}

/// Two proxies in a row: the outer one requests TLS from the inner one; its own clients are plain, or request TLS too.
struct Scene {
    _folder: Folder,
    _backends: Vec<Backend>,
    inner: Proxy,
    outer: Proxy,
}

impl Scene {
    fn new() -> Self {
        let folder = Folder::new();
        let backends: Vec<_> = PROTOCOLS.iter().map(|protocol| greeting_echo(protocol.greeting)).collect();
        let mut config = Config::empty();
        for (protocol, backend) in PROTOCOLS.iter().zip(&backends) {
            config = service(config, &folder, protocol.word, backend);
        }
        let inner = Proxy::start(config);
        let mut config = Config::empty();
        for protocol in &PROTOCOLS {
            let backend = inner.address_of(protocol.word);
            config = config.service(&format!("plain-{}", protocol.word), backend).set(
                "service",
                "client-tls",
                false,
            );
            config = asking(config, &folder, protocol.word);
            config = config
                .service(&format!("both-{}", protocol.word), backend)
                .certificate(&folder.write("web.pem", localhost().combined()))
                .text("service", "starttls", protocol.word)
                .text("service", "starttls-name", "mail.example");
            config = asking(config, &folder, protocol.word);
        }
        Self { _folder: folder, _backends: backends, inner, outer: Proxy::start(config) }
    }

    /// The connection had TLS with its backend, which received the request for it.
    fn was_asked(&self, service: &str, protocol: &Protocol) {
        let record = self.outer.record(service, |record| record.text("service") == service);
        assert_eq!(record.value("backend_tls")["version"], "TLSv1.3", "{record:?}");
        let inside = self.inner.record(service, |record| record.text("service") == protocol.word);
        assert_eq!(inside.text("starttls"), protocol.word, "{inside:?}");
    }
}

/// Up to the end of a line.
fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).expect("it speaks"), 1, "it ended behind {line:?}");
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).into_owned()
}

fn echoes(stream: &mut TcpStream, words: &[u8]) {
    stream.write_all(words).expect("it reads");
    expect(stream, words);
}

#[test]
fn clients_in_plain_text_reach_them() {
    let scene = Scene::new();
    for protocol in &PROTOCOLS {
        let name = format!("plain-{}", protocol.word);
        let mut client = dial(scene.outer.address_of(&name)).expect("the proxy listens");
        if !protocol.greets.is_empty() {
            // By us: nothing of what the backend said before TLS, its name least of all.
            let greeting = line(&mut client);
            let is_one = ["220 ", "* OK ", "+OK ", "200 "].iter().any(|start| greeting.starts_with(start));
            assert!(is_one && !greeting.contains("mail.example"), "{}: {greeting}", protocol.word);
        }
        echoes(&mut client, b"in the clear on this side");
        drop(client);
        scene.was_asked(&name, protocol);
    }
}

#[test]
fn clients_that_ask_too_reach_them() {
    let scene = Scene::new();
    for protocol in &PROTOCOLS {
        let name = format!("both-{}", protocol.word);
        let mut stream = dial(scene.outer.address_of(&name)).expect("the proxy listens");
        expect(&mut stream, protocol.greets);
        stream.write_all(protocol.request).expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(protocol.yes) {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).expect("it answers"), 1, "{}", protocol.word);
            answer.push(byte[0]);
        }
        let session = rustls::ClientConnection::new(
            Trust::version(Version::Tls13).config(),
            "localhost".try_into().expect("a name"),
        );
        let mut client = Client::handshake(stream, session.expect("a session"))
            .unwrap_or_else(|refusal| panic!("handshake: {refusal:?}"));
        // The first thing that it receives is its answer: it gets no second greeting.
        client.echo(b"behind TLS, on both sides");
        client.finish();
        scene.was_asked(&name, protocol);
    }
}

/// A mail server that says these words, one after each line of its client.
fn scripted(words: &'static [&'static [u8]]) -> Backend {
    Backend::start(move |peer: &mut Peer| {
        for word in words {
            if peer.stream.write_all(word).is_err() {
                return;
            }
            let mut buffer = [0; 4_096];
            if !matches!(peer.stream.read(&mut buffer), Ok(1..)) {
                return;
            }
        }
        peer.read_to_end();
    })
}

/// Attacks that are possible on the path: remove the offer, answer no, or append data to the yes.
#[test]
fn who_does_not_offer_it_or_speaks_behind_its_yes_is_not_used() {
    let yes: &[u8] = b"220 go ahead\r\n";
    let offers: &[u8] = b"250-mx\r\n250 STARTTLS\r\n";
    for (words, cause) in [
        (&[b"220 mx\r\n".as_slice(), b"250-mx\r\n250 SIZE\r\n"] as &[&[u8]], "starttls-refused"),
        (&[b"220 mx\r\n", offers, b"454 later\r\n"], "starttls-refused"),
        (&[b"220 mx\r\n", offers, b"220 go ahead\r\n250 ok\r\n"], "plaintext-injected"),
        (&[b"220 mx\r\n250 STARTTLS\r\n", offers, yes], "plaintext-injected"),
        (&[b"+OK mx\r\n", offers, yes], "starttls"),
        (&[b"220 mx\r\n", offers, yes, b"250 still in plain text\r\n"], "not-tls"),
    ] {
        let words: &'static [&'static [u8]] = Box::leak(Box::new(words.to_vec()));
        let (backend, folder) = (scripted(words), Folder::new());
        let config = Config::empty().service("mail", backend.address).set("service", "client-tls", false);
        let proxy = Proxy::start(asking(config, &folder, "smtp"));
        let mut client = dial(proxy.address()).expect("the proxy listens");
        let mut received = Vec::new();
        let _ = client.read_to_end(&mut received);
        assert_eq!(received, b"", "{cause}: the client receives nothing of it");
        proxy.record_of(&format!("connect/backend/{cause}"));
    }
}

#[test]
fn the_next_backend_is_used_and_a_silent_one_has_its_limit() {
    let (silent, folder) = (scripted(&[b""]), Folder::new());
    let good = greeting_echo(b"220 backend\r\n");
    let inner = Proxy::start(service(Config::empty(), &folder, "smtp", &good));
    let config = Config::empty()
        .set("process", "threads", 1)
        .service("mail", silent.address)
        .backend(inner.address())
        .set("service", "client-tls", false)
        .text("service.limits", "connect", "300ms");
    let proxy = Proxy::start(asking(config, &folder, "smtp"));
    for _ in 0..2 {
        let mut client = dial(proxy.address()).expect("the proxy listens");
        assert!(line(&mut client).starts_with("220 "));
        echoes(&mut client, b"EHLO client\r\n");
    }
    let record = proxy.record("one that was tried in vain", |record| record.number("backends_failed") == 1);
    assert_eq!(record.value("backend_failures")[0]["cause"], "connect-timeout", "{record:?}");
}

// ── MySQL: the server greets with what the client needs to log in ──

/// The login passes two proxies, one that asks for TLS and one that is asked: each number is right on each side.
#[test]
fn a_mysql_login_in_plain_text_is_carried_into_tls() {
    let backend = mysql_server();
    let folder = Folder::new();
    let inner = Proxy::start(service(Config::empty(), &folder, "mysql", &backend));
    let config = Config::empty().service("db", inner.address()).set("service", "client-tls", false);
    let outer = Proxy::start(asking(config, &folder, "mysql"));
    let mut client = dial(outer.address()).expect("the proxy listens");
    // No TLS is offered to a client that is to have none.
    expect(&mut client, &mysql_greeting(false));
    client.write_all(&mysql_login(1, 0)).expect("it reads");
    expect(&mut client, &packet(2, b"\xfemysql_native_password\0"));
    client.write_all(&packet(3, b"scrambled")).expect("it reads");
    expect(&mut client, &packet(4, b"\0\0\0\x02\0\0\0"));
    client.write_all(&packet(0, b"\x03SELECT 1")).expect("it reads");
    expect(&mut client, &packet(1, b"\x01"));
    drop(client);
    let record = outer.record("the login", |record| record.text("service") == "db");
    assert_eq!(record.value("backend_tls")["version"], "TLSv1.3", "{record:?}");
}

/// A server without TLS, or an attacker on the path that pretends to be one, gets no login.
#[test]
fn a_mysql_server_that_does_not_offer_it_gets_no_login() {
    let backend = Backend::start(move |peer: &mut Peer| {
        let _ = peer.stream.write_all(&mysql_greeting(false));
        peer.read_to_end();
    });
    let folder = Folder::new();
    let config = Config::empty().service("db", backend.address).set("service", "client-tls", false);
    let proxy = Proxy::start(asking(config, &folder, "mysql"));
    let mut client = dial(proxy.address()).expect("the proxy listens");
    let mut received = Vec::new();
    let _ = client.read_to_end(&mut received);
    assert_eq!(received, b"");
    proxy.record_of("connect/backend/starttls-refused");
}

/// It greets each time, and its TLS never comes about: that it could be reached is no success.
#[test]
fn a_mysql_server_whose_tls_always_fails_is_marked_down() {
    let backend = Backend::start(move |peer: &mut Peer| {
        let _ = peer.stream.write_all(&mysql_greeting(true));
        let mut buffer = [0; 4_096];
        let _ = peer.stream.read(&mut buffer);
        let _ = peer.stream.write_all(b"no TLS here\r\n");
        peer.read_to_end();
    });
    let folder = Folder::new();
    let config = Config::empty()
        .set("process", "threads", 1)
        .service("db", backend.address)
        .set("service", "client-tls", false)
        .set("service.limits", "backend-failures", 2);
    let proxy = Proxy::start(asking(config, &folder, "mysql"));
    for _ in 0..2 {
        let mut client = dial(proxy.address()).expect("the proxy listens");
        expect(&mut client, &mysql_greeting(false));
        client.write_all(&mysql_login(1, 0)).expect("it reads");
        let _ = client.read_to_end(&mut Vec::new());
    }
    proxy.record_of("connect/backend/not-tls");
    let state = proxy.status()["services"][0]["backends"][0]["state"].clone();
    assert_eq!(state, "down", "{:#}", proxy.status());
}

// ── a proxy on the way ──

/// `db.test` is a name that no server resolves: the proxy receives it as it is.
const NAMED: &str = "db.test:5432";

fn through(kind: &str, tunnel: &Tunnel, folder: &Folder, login: bool) -> Config {
    let section = "service.connect-through";
    let config = Config::empty()
        .set("process", "threads", 1)
        .service("db", NAMED)
        .set("service", "client-tls", false)
        .text(section, "type", kind)
        .text(section, "address", tunnel.backend.address);
    if !login {
        return config;
    }
    let file = folder.write("password", "s3cret\n");
    config.text(section, "user", "bob").text(section, "password-file", file.display())
}

#[test]
fn a_name_behind_an_http_proxy_is_reached() {
    const HEAD: &str = "CONNECT db.test:5432 HTTP/1.1\r\nHost: db.test:5432\r\n\
                        Proxy-Authorization: Basic Ym9iOnMzY3JldA==\r\n\r\n";
    const TURNS: &[(usize, &[u8])] =
        &[(HEAD.len(), b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n")];
    let (echo, folder) = (Backend::echo(), Folder::new());
    let tunnel = Tunnel::new(echo.address, TURNS);
    let config = through("http", &tunnel, &folder, true).text("service.proxy-protocol", "send", "v1");
    let proxy = Proxy::start(config);
    let mut client = dial(proxy.address()).expect("the proxy listens");
    // The header is for the backend, which echoes it here: the proxy on the way has not had it.
    assert!(line(&mut client).starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "));
    echoes(&mut client, b"through a proxy");
    drop(client);
    assert_eq!(String::from_utf8_lossy(&tunnel.requests()), HEAD);
    let record = proxy.record("the connection", |record| record.text("service") == "db");
    assert_eq!(record.text("backend"), format!("{NAMED} via {}", tunnel.backend.address), "{record:?}");
    // Only what the two sides had to say to each other counts.
    assert_eq!(record.number("bytes_to_backend"), 15, "{record:?}");
}

/// And behind the tunnel TLS, asked for in the backend's protocol, with its own name checked.
#[test]
fn tls_behind_a_socks_proxy_is_with_the_backend() {
    const TURNS: &[(usize, &[u8])] = &[
        (4, b"\x05\x02"),
        (3 + 3 + 6, b"\x01\x00"),
        (4 + 1 + 7 + 2, b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00"),
    ];
    let (echo, folder) = (greeting_echo(b"220 backend\r\n"), Folder::new());
    let inner = Proxy::start(service(Config::empty(), &folder, "smtp", &echo));
    let tunnel = Tunnel::new(inner.address(), TURNS);
    let proxy = Proxy::start(asking(through("socks5", &tunnel, &folder, true), &folder, "smtp"));
    let mut client = dial(proxy.address()).expect("the proxy listens");
    assert!(line(&mut client).starts_with("220 "));
    echoes(&mut client, b"through a proxy and TLS");
    drop(client);
    let expected =
        [b"\x05\x02\x00\x02".as_slice(), b"\x01\x03bob\x06s3cret", b"\x05\x01\x00\x03\x07db.test\x15\x38"];
    assert_eq!(tunnel.requests(), expected.concat());
    let record = proxy.record("the connection", |record| record.text("service") == "db");
    assert_eq!(record.value("backend_tls")["version"], "TLSv1.3", "{record:?}");
}

#[test]
fn a_proxy_that_refuses_is_distinguished_from_the_backend() {
    const HEAD: &str = "CONNECT db.test:5432 HTTP/1.1\r\nHost: db.test:5432\r\n\r\n";
    const NO: &[(usize, &[u8])] = &[(HEAD.len(), b"HTTP/1.1 403 Not for you\r\nContent-Length: 0\r\n\r\n")];
    const SOCKS_NO: &[(usize, &[u8])] = &[(3, b"\x05\x00"), (14, b"\x05\x02\x00\x01\0\0\0\0\0\0")];
    let (echo, folder) = (Backend::echo(), Folder::new());
    for (kind, turns, words) in
        [("http", NO, "403 Not for you"), ("socks5", SOCKS_NO, "not allowed by its rules")]
    {
        let tunnel = Tunnel::new(echo.address, turns);
        let proxy = Proxy::start(through(kind, &tunnel, &folder, false));
        let mut client = dial(proxy.address()).expect("the proxy listens");
        let _ = client.read_to_end(&mut Vec::new());
        let record = proxy.record_of("connect/backend/tunnel");
        assert!(record.detail().contains(words), "{record:?}");
    }
    let file = folder.write("empty", "\n");
    let tunnel = Tunnel::new(echo.address, &[]);
    let config = through("http", &tunnel, &folder, true).text(
        "service.connect-through",
        "password-file",
        file.display(),
    );
    let file = folder.write("handfast.toml", config.to_string()).display().to_string();
    let ran = tools::handfast(&["check", "-c", &file]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.all().contains("empty: contains no password"), "{}", ran.all());
}

/// `check --explain HOST` says of one name what the proxy would do.
#[test]
fn what_becomes_of_a_name_is_explained() {
    let folder = Folder::new();
    let config =
        Config::to(&folder, "127.0.0.1:1").rule("localhost").text("service.rule", "backend", "127.0.0.1:2");
    let config = config.rule("*.example").set("service.rule", "client-alpn", "[\"h2\"]").text(
        "service.rule",
        "backend",
        "127.0.0.1:3",
    );
    let file = folder.write("handfast.toml", config.to_string()).display().to_string();
    let explained = |host: &str| {
        let ran = tools::handfast(&["check", "--explain", host, "-c", &file]);
        assert_eq!(ran.code, Some(0), "{}", ran.all());
        ran.output
    };
    let known = explained("LocalHost.");
    for words in ["asks for localhost", "decided by rule 1 (localhost)", "is shown\n", "goes to 127.0.0.1:2"]
    {
        assert!(known.contains(words), "{words}\n{known}");
    }
    let unknown = explained("a.example");
    for words in [
        "no rule is about it",
        "NO CERTIFICATE HAS THIS NAME",
        "goes to 127.0.0.1:1",
        "if the client offers h2 (ALPN):",
        "decided by rule 2 (*.example, h2)",
        "goes to 127.0.0.1:3",
    ] {
        assert!(unknown.contains(words), "{words}\n{unknown}");
    }
    let ran = tools::handfast(&["check", "--explain", "https://a.example/", "-c", &file]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.all().contains("A request for https://a.example/"), "{}", ran.all());
}
