//! Clients may ask for TLS in their own protocol (STARTTLS): they are served as if they had begun with it, what they or anybody else
//! said before it reaches nobody, and the backend's own greeting is not taken for an answer.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

use super::support::backend::Peer;
use super::support::certificates::localhost;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::skip::{needs, skipped};
use super::support::*;

/// A protocol: our word, OpenSSL's, what a server greets with, and what a client says to begin.
struct Protocol {
    word: &'static str,
    of_openssl: &'static str,
    greeting: &'static [u8],
    /// What we say first, and what the client says then.
    greets: &'static [u8],
    request: &'static [u8],
    yes: &'static [u8],
}

const LDAP: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
const XMPP: &[u8] = b"<stream:stream to='localhost' xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' version='1.0'><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
const PROCEED: &[u8] = b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

const PROTOCOLS: [Protocol; 9] = [
    Protocol {
        word: "smtp",
        of_openssl: "smtp",
        greeting: b"220-backend\r\n220 ready\r\n",
        greets: b"220 mail.example ESMTP\r\n",
        request: b"STARTTLS\r\n",
        yes: b"220 2.0.0 Ready to start TLS\r\n",
    },
    Protocol {
        word: "lmtp",
        of_openssl: "lmtp",
        greeting: b"220 backend\r\n",
        greets: b"220 mail.example LMTP\r\n",
        request: b"STARTTLS\r\n",
        yes: b"220 2.0.0 Ready to start TLS\r\n",
    },
    Protocol {
        word: "imap",
        of_openssl: "imap",
        greeting: b"* OK [CAPABILITY IMAP4rev1] backend\r\n",
        greets: b"* OK [CAPABILITY IMAP4rev1 STARTTLS LOGINDISABLED] mail.example ready\r\n",
        request: b"1 STARTTLS\r\n",
        yes: b"1 OK Begin TLS negotiation now\r\n",
    },
    Protocol {
        word: "pop3",
        of_openssl: "pop3",
        greeting: b"+OK backend <1.2@backend>\r\n",
        greets: b"+OK mail.example ready\r\n",
        request: b"STLS\r\n",
        yes: b"+OK Begin TLS negotiation\r\n",
    },
    Protocol {
        word: "nntp",
        of_openssl: "nntp",
        greeting: b"200 backend\r\n",
        greets: b"200 mail.example ready\r\n",
        request: b"STARTTLS\r\n",
        yes: b"382 Continue with TLS negotiation\r\n",
    },
    Protocol {
        word: "ldap",
        of_openssl: "ldap",
        greeting: b"",
        greets: b"",
        request: LDAP,
        yes: b"\x30\x24\x02\x01\x01\x78\x1f\x0a\x01\0\x04\0\x04\0\x8a\x161.3.6.1.4.1.1466.20037",
    },
    Protocol {
        word: "postgresql",
        of_openssl: "postgres",
        greeting: b"",
        greets: b"",
        request: &[0, 0, 0, 8, 4, 210, 22, 47],
        yes: b"S",
    },
    Protocol { word: "xmpp", of_openssl: "xmpp", greeting: b"", greets: b"", request: XMPP, yes: PROCEED },
    Protocol {
        word: "xmpp-server",
        of_openssl: "xmpp-server",
        greeting: b"",
        greets: b"",
        request: XMPP,
        yes: PROCEED,
    },
];

/// Greets, if it does, and echoes.
fn greeting_echo(greeting: &'static [u8]) -> Backend {
    Backend::start(move |peer: &mut Peer| {
        let _ = peer.stream.write_all(greeting);
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = peer.stream.read(&mut buffer) {
            if peer.stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// One proxy with a service for each protocol.
struct Scene {
    folder: Folder,
    backends: Vec<Backend>,
    proxy: Proxy,
}

fn service(config: Config, folder: &Folder, word: &str, backend: &Backend) -> Config {
    let certificate = folder.write("web.pem", localhost().combined());
    config.service(word, backend.address).certificate(&certificate).text("service", "starttls", word).text(
        "service",
        "starttls-name",
        "mail.example",
    )
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

fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut came = vec![0; expected.len()];
    stream.read_exact(&mut came).expect("it speaks");
    assert_eq!(String::from_utf8_lossy(&came), String::from_utf8_lossy(expected));
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
fn the_first_thing_a_client_hears_is_its_answer() {
    let scene = Scene::new();
    for protocol in &PROTOCOLS {
        let mut client = tls(scene.upgraded(protocol));
        client.echo(b"behind TLS, and alone");
        client.finish();
    }
}

/// CVE-2011-0411, CVE-2021-23214: what stands behind the request is nobody's, or a stranger's.
#[test]
fn plain_text_behind_the_request_reaches_nobody() {
    let scene = Scene::new();
    for (protocol, backend) in PROTOCOLS.iter().zip(&scene.backends) {
        let mut stream = dial(scene.proxy.address_of(protocol.word)).expect("the proxy listens");
        expect(&mut stream, protocol.greets);
        stream.write_all(&[protocol.request, b"RCPT TO:<somebody>\r\n"].concat()).expect("it reads");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.ends_with(protocol.yes), "{}: it is not told to begin", protocol.word);
        let record = scene.proxy.record(protocol.word, |record| record.text("service") == protocol.word);
        assert_eq!(record.reason(), "hello/client/plaintext-injected", "{record:?}");
        assert_eq!(backend.accepted(), 0, "{}", protocol.word);
        // And plain text that comes later, in place of a hello.
        let mut late = scene.upgraded(protocol);
        late.write_all(b"RCPT TO:<somebody>\r\n").expect("it reads");
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
fn a_backend_that_refuses_is_heard_and_one_of_another_kind_is_named() {
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
    stream.read_to_end(&mut talk).expect("it ends in order");
    assert!(talk.ends_with(b"250 2.0.0 Ok\r\n"), "{}", String::from_utf8_lossy(&talk));
    let record = proxy.record_of("hello/client/handshake-deadline");
    assert!(record.detail().contains("did not ask for TLS"), "{record:?}");
    assert_eq!(backend.accepted(), 0);
}

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    [&u32::try_from(payload.len()).expect("short").to_le_bytes()[..3], &[number], payload].concat()
}

/// MySQL's server speaks first, and counts packets: one of them, the request for TLS, it never sees.
#[test]
fn mysqls_login_is_renumbered() {
    const GREETING: &[u8] =
        b"\x0a11.8.3\0\x07\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0";
    let login =
        |number, ssl: u32| packet(number, &[&(0x0200 | ssl).to_le_bytes()[..], &[0; 28], b"root\0"].concat());
    let backend = Backend::start(move |peer: &mut Peer| {
        peer.stream.write_all(&packet(0, GREETING)).expect("it is heard");
        expect(&mut peer.stream, &login(1, 0));
        peer.stream.write_all(&packet(2, b"\xfemysql_native_password\0")).expect("it is heard");
        expect(&mut peer.stream, &packet(3, b"scrambled"));
        peer.stream.write_all(&packet(4, b"\0\0\0\x02\0\0\0")).expect("it is heard");
        expect(&mut peer.stream, &packet(0, b"\x03SELECT 1"));
        peer.stream.write_all(&packet(1, b"\x01")).expect("it is heard");
    });
    let folder = Folder::new();
    let proxy = Proxy::start(service(Config::empty(), &folder, "mysql", &backend));
    let greeted = || {
        let mut stream = dial(proxy.address()).expect("the proxy listens");
        let mut offered = packet(0, GREETING);
        offered[4 + 1 + 7 + 4 + 8 + 1 + 1] |= 8;
        expect(&mut stream, &offered);
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
    client.send(&login(2, 0x800));
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
    stream.write_all(&login(1, 0)).expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).contains("insecure transport are prohibited"), "{answer:?}");
    proxy.record_of("hello/client/starttls");
}

#[test]
fn what_cannot_be_done_is_said() {
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
