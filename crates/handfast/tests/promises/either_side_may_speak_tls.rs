//! Either side may speak TLS: in front of a backend that has it, the bytes are the same, an abort stays an abort, and who the
//! backend is, is verified before anything is said to it.
//!
//! The backend with TLS is another Handfast in front of a scripted peer, so every end goes through two proxies and must leave
//! the second as it entered the first. `path/tests` of the proxy plays orders of events that are rare by chance.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::support::backend::Peer;
use super::support::certificates::{Authority, Identity, KeyKind, authority, localhost};
use super::support::folder::Folder;
use super::support::{Backend, Client, Config, Event, Proxy, Stage, Trust, Version, client, pattern};

/// The way of a client to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// TLS ends at the first proxy, and begins again.
    Reencrypts,
    /// The client speaks plain text.
    Originates,
    /// The client's own TLS goes through the first proxy.
    PassesThrough,
}

/// Two proxies, one behind the other.
struct Chain {
    inner: Stage,
    outer: Proxy,
    _folder: Folder,
}

impl Chain {
    fn new(mode: Mode, script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        Self::with(mode, script, &authority().pem, |config| {
            config.text("service.backend-tls", "name", "localhost")
        })
    }

    fn with(
        mode: Mode,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
        ca: &str,
        more: impl FnOnce(Config) -> Config,
    ) -> Self {
        let inner = Stage::new(script);
        let folder = Folder::new();
        let ca = folder.write("ca.pem", ca);
        let one = Config::empty().set("process", "threads", 1).service("web", inner.proxy.address());
        let config = match mode {
            Mode::Reencrypts => one.certificate(&folder.write("web.pem", localhost().combined())),
            Mode::Originates => one.set("service", "client-tls", false),
            Mode::PassesThrough => one.set("service", "pass-through", true),
        };
        let config = match mode {
            Mode::PassesThrough => config,
            _ => more(config.text("service.backend-tls", "ca", ca.display())),
        };
        Self { inner, outer: Proxy::start(config), _folder: folder }
    }

    fn client(&self) -> Client {
        Client::connect(self.outer.address(), &Trust::version(Version::Tls13).config())
    }

    fn plain(&self) -> TcpStream {
        client::dial(self.outer.address()).expect("it listens")
    }
}

/// Bytes that a client without TLS reads, and whether a reset ends the connection, possibly before the client has read anything.
fn read_from(proxy: &Proxy) -> (Vec<u8>, bool) {
    match client::dial(proxy.address()) {
        Ok(mut stream) => read_to_end(&mut stream),
        Err(error) => (Vec::new(), error.kind() == io::ErrorKind::ConnectionReset),
    }
}

fn echo(peer: &mut Peer) {
    let mut buffer = [0; 65_536];
    while let Ok(count) = peer.stream.read(&mut buffer)
        && count > 0
    {
        peer.send(&buffer[..count]);
    }
    peer.fin();
}

fn hundred_then(end: fn(&mut Peer)) -> impl Fn(&mut Peer) + Send + Sync + 'static {
    move |peer: &mut Peer| {
        peer.send(&[b'h'; 100]);
        end(peer);
    }
}

/// Bytes that a plain client read, and whether a reset ended its connection.
fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let outcome = stream.read_to_end(&mut bytes);
    (bytes, outcome.is_err())
}

#[test]
fn bytes_arrive_as_they_were_in_every_mode() {
    let sent: Vec<u8> = pattern::piece(0, 50_000).iter().copied().cycle().take(2_000_000).collect();
    for mode in [Mode::Reencrypts, Mode::PassesThrough] {
        let chain = Chain::new(mode, echo);
        let mut client = chain.client();
        for chunk in sent.chunks(50_000) {
            client.echo(chunk);
        }
        client.finish();
        let record = chain.outer.record("a clean end", |record| record.reason().ends_with("/finished"));
        assert_eq!(record.flag("passed_through").unwrap_or(false), mode == Mode::PassesThrough, "{record:?}");
        assert_eq!(record.value("backend_tls").is_null(), mode == Mode::PassesThrough, "{record:?}");
        if mode == Mode::Reencrypts {
            assert_eq!(record.number("bytes_to_backend"), sent.len() as u64);
        }
    }
    let chain = Chain::new(Mode::Originates, echo);
    let mut stream = chain.plain();
    let mut writer = stream.try_clone().expect("a second handle");
    let (bytes, is_reset) = std::thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&sent).expect("it is taken");
            writer.shutdown(Shutdown::Write).expect("it is open");
        });
        read_to_end(&mut stream)
    });
    assert!(bytes == sent && !is_reset, "{} bytes, reset: {is_reset}", bytes.len());
}

#[test]
fn an_abort_behind_two_sessions_stays_an_abort() {
    for mode in [Mode::Reencrypts, Mode::PassesThrough] {
        let chain = Chain::new(mode, hundred_then(Peer::reset));
        for _ in 0..20 {
            let ending = chain.client().read_to_end();
            assert_eq!(ending.bytes, [b'h'; 100], "{mode:?}: what came before is delivered");
            assert!(ending.is_abort(), "{mode:?}: {ending:?}");
        }
    }
    let chain = Chain::new(Mode::Originates, hundred_then(Peer::reset));
    for _ in 0..20 {
        let (bytes, is_reset) = read_to_end(&mut chain.plain());
        assert_eq!((bytes.len(), is_reset), (100, true));
    }
}

#[test]
fn an_end_in_order_stays_one() {
    let script = hundred_then(|peer| {
        peer.fin();
        peer.read_to_end();
    });
    let chain = Chain::new(Mode::Originates, script);
    for _ in 0..20 {
        let mut stream = chain.plain();
        let (bytes, is_reset) = read_to_end(&mut stream);
        assert_eq!((bytes.len(), is_reset), (100, false));
    }
}

#[test]
fn a_client_that_is_cut_off_is_an_abort_behind_two_sessions() {
    let chain = Chain::new(Mode::Reencrypts, |peer| {
        peer.send(b"!");
        peer.read_to_end();
    });
    let mut client = chain.client();
    assert_eq!(client.read_exactly(1), b"!");
    client.send(b"part of it");
    client.fin();
    drop(client);
    let seen = chain.inner.backend.seen();
    assert!(matches!(seen.last(), Some(Event::Reset)), "{seen:?}");
}

#[test]
fn sessions_with_the_backend_are_resumed_also_after_a_reload() {
    let chain = Chain::new(Mode::Originates, echo);
    let resumed = || {
        let mut stream = chain.plain();
        stream.write_all(b"x").expect("it is taken");
        stream.read_exact(&mut [0; 1]).expect("it comes back");
        stream.shutdown(Shutdown::Write).expect("it is open");
        read_to_end(&mut stream);
        drop(stream);
        chain.outer.metrics().sum("handfast_backend_handshakes_total", &[("kind", "resumed")])
    };
    assert!(resumed() < 0.5, "there was no ticket yet");
    assert!((resumed() - 1.0).abs() < 0.5, "the ticket is used");
    assert!(chain.outer.reload(), "nothing has changed");
    assert!((resumed() - 2.0).abs() < 0.5, "the reload kept it");
}

/// Reason why a client was not served, as the access log has it.
fn refused(ca: &str, more: impl FnOnce(Config) -> Config) -> (String, String) {
    let chain = Chain::with(Mode::Originates, echo, ca, more);
    let (bytes, is_reset) = read_from(&chain.outer);
    assert!(bytes.is_empty() && is_reset, "{} bytes, reset: {is_reset}", bytes.len());
    assert_eq!(chain.inner.backend.accepted(), 0, "the backend has no connection");
    let record = chain.outer.record("an end at connect", |record| record.reason().starts_with("connect/"));
    (record.reason(), record.detail().to_owned())
}

#[test]
fn a_backend_with_the_wrong_identity_receives_nothing() {
    let named = |name: &'static str| move |config: Config| config.text("service.backend-tls", "name", name);
    let (reason, detail) = refused(&authority().pem, named("other.example"));
    assert_eq!(reason, "connect/backend/backend-certificate");
    assert!(detail.contains("other.example") && detail.contains("localhost"), "{detail}");
    let stranger = Authority::new("an unknown authority");
    let (reason, detail) = refused(&stranger.pem, named("localhost"));
    assert_eq!(reason, "connect/backend/backend-certificate", "{detail}");
    let pin = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let pinned = |config: Config| named("localhost")(config).text("service.backend-tls", "pins", pin);
    let (reason, detail) = refused(&authority().pem, pinned);
    assert!(reason.ends_with("/backend-certificate") && detail.contains("sha256/"), "{reason}: {detail}");
}

/// First attempt of many users, as with curl's `--cacert`.
#[test]
fn a_certificate_may_be_named_as_its_own_authority() {
    let Identity { certificate_pem, .. } = authority().identity(&["localhost"], KeyKind::Ecdsa);
    let (reason, _) =
        refused(&certificate_pem, |config| config.text("service.backend-tls", "name", "localhost"));
    assert!(reason.ends_with("/backend-certificate"), "another one for the same name is not it: {reason}");
    let chain = Chain::with(Mode::Originates, echo, &localhost().certificate_pem, |config| {
        config.text("service.backend-tls", "name", "localhost")
    });
    let mut stream = chain.plain();
    stream.write_all(b"hello").expect("it is taken");
    let mut back = [0; 5];
    stream.read_exact(&mut back).expect("it comes back");
    assert_eq!(&back, b"hello");
}

#[test]
fn a_backend_without_tls_is_named() {
    let backend = Backend::start(|peer| peer.send(b"220 mail.example ESMTP\r\n"));
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &authority().pem);
    let config = Config::empty().service("web", backend.address).set("service", "client-tls", false).text(
        "service.backend-tls",
        "ca",
        ca.display(),
    );
    let proxy = Proxy::start(config);
    assert!(read_from(&proxy).1);
    let record = proxy.record_of("connect/backend/not-tls");
    assert!(record.detail().contains("220 mail.example ESMTP"), "{record:?}");
}

#[test]
fn a_backend_that_never_answers_is_ended_by_the_limit() {
    let backend = Backend::start(Peer::read_to_end);
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &authority().pem);
    let config = Config::empty()
        .service("web", backend.address)
        .set("service", "client-tls", false)
        .text("service.backend-tls", "ca", ca.display())
        .text("service.limits", "connect", "300ms");
    let proxy = Proxy::start(config);
    assert!(read_from(&proxy).1);
    let record = proxy.record_of("connect/backend/connect-timeout");
    assert!(record.detail().contains("TLS handshake"), "{record:?}");
}
