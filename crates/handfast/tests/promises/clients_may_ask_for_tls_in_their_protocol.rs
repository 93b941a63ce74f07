//! Clients may ask for TLS in their own protocol (STARTTLS): they are served as if they had begun with it, plain text
//! before it, from either sender, reaches no side, and the backend's greeting does not count as an answer.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

use super::support::backend::Peer;
use super::support::certificates::localhost;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::starttls::{
    PROTOCOLS, Protocol, expect, greeting_echo, mysql_greeting, mysql_login, mysql_server, packet, service,
};
use super::support::*;

/// One proxy with a service for each protocol.
struct Scene {
    folder: Folder,
    backends: Vec<Backend>,
    proxy: Proxy,
}

impl Scene {
    fn new() -> Self {
        let (folder, mut config) = (Folder::new(), Config::empty());
        let mut backends = Vec::new();
        for protocol in &PROTOCOLS {
            let backend = greeting_echo(protocol.greeting);
            config = service(config, &folder, protocol.word, &backend);
            backends.push(backend);
        }
        Self { folder, backends, proxy: Proxy::start(config) }
    }

    /// Connects and speaks up to the yes; the socket is about to begin TLS.
    fn upgraded(&self, protocol: &Protocol) -> TcpStream {
        let mut stream = dial(self.proxy.address_of(protocol.word)).expect("the proxy listens");
        expect(&mut stream, protocol.greets);
        stream.write_all(protocol.request).expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(protocol.yes) {
            let mut byte = [0];
            let count = stream.read(&mut byte).expect("it answers");
            assert_eq!(count, 1, "{}: it ended behind {:?}", protocol.word, String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&byte);
        }
        stream
    }
}

fn session() -> ClientConnection {
    let config = Trust::version(Version::Tls13).config();
    ClientConnection::new(config, "localhost".try_into().expect("a name")).expect("a session")
}

fn tls(stream: TcpStream) -> Client {
    Client::handshake(stream, session()).unwrap_or_else(|refusal| panic!("handshake: {refusal:?}"))
}

#[test]
fn openssl_asks_in_every_protocol() {
    needs!("openssl");
    let scene = Scene::new();
    let ca = scene.folder.write("ca.pem", &authority().pem).display().to_string();
    for protocol in &PROTOCOLS {
        let address = scene.proxy.address_of(protocol.word).to_string();
        let arguments = [
            "s_client",
            "-quiet",
            "-no_ign_eof",
            "-starttls",
            protocol.of_openssl,
            "-name",
            "localhost",
            "-connect",
            &address,
            "-servername",
            "localhost",
            "-CAfile",
            &ca,
            "-verify_return_error",
            "-verify_hostname",
            "localhost",
        ];
        let mut client = tools::Tool::start("openssl", &arguments);
        client.send(b"sent by openssl\n");
        client.output.containing("sent by openssl");
        let ran = client.ended();
        assert_eq!(ran.code, Some(0), "{}: {ran:?}", protocol.word);
        assert!(!ran.output.contains("backend"), "{}: no greeting of the backend's: {ran:?}", protocol.word);
        let record = scene.proxy.record(protocol.word, |record| record.text("service") == protocol.word);
        assert_eq!(record.text("starttls"), protocol.word, "{record:?}");
    }
}

#[test]
fn the_first_thing_a_client_receives_is_its_answer() {
    let scene = Scene::new();
    for protocol in &PROTOCOLS {
        let mut client = tls(scene.upgraded(protocol));
        client.echo(b"behind TLS, and alone");
        client.finish();
    }
}

/// CVE-2011-0411, CVE-2021-23214: data behind the request has no known sender, or an attacker sent it.
#[test]
fn plain_text_behind_the_request_reaches_nobody() {
    let scene = Scene::new();
    for (protocol, backend) in PROTOCOLS.iter().zip(&scene.backends) {
        let mut stream = dial(scene.proxy.address_of(protocol.word)).expect("the proxy listens");
        expect(&mut stream, protocol.greets);
        stream.write_all(&[protocol.request, b"RCPT TO:<user>\r\n"].concat()).expect("it reads");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.ends_with(protocol.yes), "{}: it is not told to begin", protocol.word);
        let record = scene.proxy.record(protocol.word, |record| record.text("service") == protocol.word);
        assert_eq!(record.reason(), "hello/client/plaintext-injected", "{record:?}");
        assert_eq!(backend.accepted(), 0, "{}", protocol.word);
        // And plain text that comes later, in place of a hello.
        let mut late = scene.upgraded(protocol);
        late.write_all(b"RCPT TO:<user>\r\n").expect("it reads");
        let _ = late.read_to_end(&mut Vec::new());
        scene.proxy.record("a late injection", |record| {
            record.text("service") == protocol.word && record.reason() == "hello/client/not-tls"
        });
        assert_eq!(backend.accepted(), 0, "{}", protocol.word);
    }
}

#[test]
fn who_need_not_be_greeted_may_begin_at_once() {
    let scene = Scene::new();
    for protocol in &PROTOCOLS {
        let address = scene.proxy.address_of(protocol.word);
        let client = Client::try_connect(address, &Trust::version(Version::Tls13).config(), "localhost");
        if protocol.greets.is_empty() {
            let mut client = client.unwrap_or_else(|refusal| panic!("{}: {refusal:?}", protocol.word));
            client.echo(b"at once");
            client.finish();
        } else {
            assert!(client.is_err(), "{}", protocol.word);
            let record = scene.proxy.record(protocol.word, |record| record.text("service") == protocol.word);
            assert_eq!(record.reason(), "hello/client/starttls", "{record:?}");
        }
    }
}

#[test]
fn the_reason_of_a_backend_that_refuses_is_read_and_one_of_another_kind_is_named() {
    let refusing = Backend::start(|peer| {
        let _ = peer.stream.write_all(b"554 not now\r\n");
    });
    let other = greeting_echo(b"+OK this is POP3\r\n");
    let folder = Folder::new();
    let config = service(Config::empty(), &folder, "smtp", &refusing);
    let config = service(config, &folder, "imap", &other);
    let scene = Scene { folder, backends: Vec::new(), proxy: Proxy::start(config) };
    let mut client = tls(scene.upgraded(&PROTOCOLS[0]));
    assert_eq!(client.read_exactly(13), b"554 not now\r\n");
    drop(tls(scene.upgraded(&PROTOCOLS[2])));
    let record = scene.proxy.record_of("connect/backend/starttls");
    assert!(record.detail().contains("+OK this is POP3"), "{record:?}");
}

/// Talk before TLS does not move the one deadline.
#[test]
fn who_does_not_ask_is_not_waited_for() {
    let backend = greeting_echo(b"");
    let folder = Folder::new();
    let config =
        service(Config::empty(), &folder, "smtp", &backend).text("service.limits", "handshake", "1s");
    let proxy = Proxy::start(config);
    let mut stream = dial(proxy.address()).expect("the proxy listens");
    stream.write_all(b"EHLO a\r\nNOOP\r\n").expect("it reads");
    let mut talk = Vec::new();
    stream.read_to_end(&mut talk).expect("it closes cleanly");
    assert!(talk.ends_with(b"250 2.0.0 Ok\r\n"), "{}", String::from_utf8_lossy(&talk));
    let record = proxy.record_of("hello/client/handshake-timeout");
    assert!(record.detail().contains("did not ask for TLS"), "{record:?}");
    assert_eq!(backend.accepted(), 0);
}

/// MySQL's server speaks first, and counts packets: one of them, the request for TLS, it never sees.
#[test]
fn mysqls_login_is_renumbered() {
    let backend = mysql_server();
    let folder = Folder::new();
    let proxy = Proxy::start(service(Config::empty(), &folder, "mysql", &backend));
    let greeted = || {
        let mut stream = dial(proxy.address()).expect("the proxy listens");
        expect(&mut stream, &mysql_greeting(true));
        stream
    };
    let request = packet(1, &[&0x0a00_u32.to_le_bytes()[..], &[0; 28]].concat());
    let mut stream = greeted();
    // Request and hello at once, as MariaDB's client does: no answer comes between them.
    let mut session = session();
    let mut words = request.clone();
    session.write_tls(&mut words).expect("memory takes it");
    stream.write_all(&words).expect("it reads");
    let mut client =
        Client::handshake(stream, session).unwrap_or_else(|refusal| panic!("handshake: {refusal:?}"));
    client.send(&mysql_login(2, 0x800));
    assert_eq!(client.read_exactly(27), packet(3, b"\xfemysql_native_password\0"));
    client.send(&packet(4, b"scrambled"));
    assert_eq!(client.read_exactly(11), packet(5, b"\0\0\0\x02\0\0\0"));
    client.send(&packet(0, b"\x03SELECT 1"));
    assert_eq!(client.read_exactly(5), packet(1, b"\x01"));
    drop(client);
    // The same with something behind the request, and a login that does not ask.
    let mut stream = greeted();
    stream.write_all(&[&request[..], b"x"].concat()).expect("it reads");
    let _ = stream.read_to_end(&mut Vec::new());
    proxy.record_of("hello/client/plaintext-injected");
    let mut stream = greeted();
    stream.write_all(&mysql_login(1, 0)).expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).contains("insecure transport are prohibited"), "{answer:?}");
    proxy.record_of("hello/client/starttls");
}

/// MySQL's server speaks first: nothing has been given to the client yet when it does not.
#[test]
fn a_mysql_server_that_does_not_greet_is_counted_and_another_one_is_used() {
    let closes = || Backend::start(Peer::fin);
    let garbage = || greeting_echo(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    for (bad, cause) in
        [(greeting_echo(b""), "connect-timeout"), (closes(), "closed-early"), (garbage(), "starttls")]
    {
        let (good, folder) = (mysql_server(), Folder::new());
        let config = service(Config::empty(), &folder, "mysql", &bad)
            .backend(good.address)
            .set("process", "threads", 1)
            .text("service.limits", "connect", "300ms");
        let proxy = Proxy::start(config);
        for _ in 0..2 {
            let mut stream = dial(proxy.address()).expect("the proxy listens");
            expect(&mut stream, &mysql_greeting(true));
        }
        let record = proxy.record(cause, |record| record.number("backends_failed") == 1);
        assert_eq!(record.value("backend_failures")[0]["cause"], cause, "{record:?}");
        let counted = proxy.metrics().sum("handfast_backend_failures_total", &[("cause", cause)]);
        assert!(counted > 0.5, "{}", proxy.metrics().text());
    }
}

/// Ctrl-C in psql before version 17: without TLS, on a separate connection, with the key of the session that it is about.
#[test]
fn a_request_to_cancel_a_query_reaches_every_backend() {
    // Room for what each backend gets: none of them waits.
    let (sender, received) = std::sync::mpsc::sync_channel(2);
    let backend = || {
        let sender = sender.clone();
        Backend::start(move |peer: &mut Peer| {
            let request = peer.read_exactly(16);
            // It acts on it and closes, without an answer.
            peer.fin();
            sender.send(request).expect("the test waits for it");
        })
    };
    let (one, other, folder) = (backend(), backend(), Folder::new());
    let config = service(Config::empty(), &folder, "postgresql", &one).backend(other.address);
    let proxy = Proxy::start(config);
    let request = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\x12\x34key!";
    let mut client = dial(proxy.address()).expect("the proxy listens");
    client.write_all(request).expect("it reads");
    assert_eq!(client.read(&mut [0; 1]).expect("a clean end"), 0, "it has no answer");
    for _ in 0..2 {
        assert_eq!(received.recv_timeout(DEADLINE).expect("each backend gets it"), request);
    }
    let record = proxy.record_of("relay/client/finished");
    assert_eq!(record.detail(), "a request to cancel a query, passed on to 2 of 2", "{record:?}");
}

#[test]
fn what_cannot_be_done_is_reported() {
    let folder = Folder::new();
    let certificate = folder.write("web.pem", localhost().combined());
    let config = |word: &str| {
        Config::empty()
            .service("web", "127.0.0.1:1")
            .certificate(&certificate)
            .text("service", "starttls", word)
    };
    let check = |config: Config| {
        let file = folder.write("handfast.toml", config.to_string()).display().to_string();
        tools::handfast(&["check", "-c", &file, "--explain"])
    };
    let ran = check(config("ftp"));
    assert!(ran.code == Some(2) && ran.all().contains("FTP cannot be served"), "{ran:?}");
    let ran = check(config("pgsql"));
    assert!(ran.code == Some(2) && ran.all().contains("write `\"postgresql\"`"), "{ran:?}");
    let ran = check(config("mysql").rule("localhost").set("service.rule", "backend", "\"127.0.0.1:2\""));
    assert!(
        ran.code == Some(2) && ran.all().contains("a rule cannot choose the backend of MySQL"),
        "{ran:?}"
    );
    let ran = check(config("postgresql"));
    assert!(
        ran.code == Some(0)
            && ran.output.contains("ask for TLS in PostgreSQL (STARTTLS), or begin TLS at once"),
        "{ran:?}"
    );
    assert!(ran.output.contains("application protocols postgresql"), "{ran:?}");
}
