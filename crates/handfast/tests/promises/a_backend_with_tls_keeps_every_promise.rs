//! A backend with TLS keeps every promise that a plain one does: a half-close through both sessions, an end without
//! close_notify, a handshake that stalls, an alert, a client that leaves meanwhile, no descriptors left, a reload under load.
//!
//! Each for clients with TLS and for plain ones. The backends are scripted, so each end is the one that is meant.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;

use super::support::backend::Peer;
use super::support::certificates::localhost;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::record::Record;
use super::support::secured::{Secured, first_flight, server};
use super::support::*;

/// Protocol of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// TLS, which ends at the proxy and begins again there.
    Reencrypts,
    /// Plain text.
    Originates,
}

const MODES: [Mode; 2] = [Mode::Reencrypts, Mode::Originates];

/// A proxy in front of a backend with TLS.
struct Front {
    mode: Mode,
    proxy: Proxy,
    folder: Folder,
    backend: SocketAddr,
    descriptors: usize,
}

impl Front {
    fn new(mode: Mode, backend: SocketAddr, more: impl FnOnce(Config) -> Config) -> Self {
        let folder = Folder::new();
        let proxy = Proxy::start(more(config(mode, &folder, backend)));
        let _ = proxy.metrics();
        let descriptors = proxy.process().descriptors();
        Self { mode, proxy, folder, backend, descriptors }
    }

    fn client(&self) -> Caller {
        self.try_client().expect("a client with TLS gets its handshake before the backend is asked")
    }

    fn try_client(&self) -> Result<Caller, Refusal> {
        let address = self.proxy.address();
        match self.mode {
            // The reset may come before it has looked around.
            Mode::Originates => dial(address)
                .map(Caller::Plain)
                .map_err(|error| Refusal::Ended(ending::end_of(&error).expect("it listens"))),
            Mode::Reencrypts => {
                let config = Trust::version(Version::Tls13).forgetful().config();
                Client::try_connect(address, &config, "localhost").map(Caller::Tls)
            }
        }
    }

    /// The log record of a client.
    fn record_of(&self, own: SocketAddr) -> Record {
        let own = own.to_string();
        self.proxy.record(&own, |record| record.text("client") == own)
    }

    /// The log record of a client that receives only an abort.
    fn refused(&self) -> Record {
        if let Ok(mut client) = self.try_client() {
            let (bytes, end) = client.read_to_end();
            assert_eq!((bytes.len(), end), (0, End::Abort), "{:?}", self.mode);
        }
        self.proxy.record("an end at connect", |record| record.reason().starts_with("connect/"))
    }

    fn failures(&self) -> f64 {
        self.proxy.metrics().sum("handfast_backend_failures_total", &[])
    }

    fn is_quiet(&self) {
        let standing = || self.proxy.metrics().sum("handfast_connections", &[]);
        wait_until("no connection to stand", || (standing() < 0.5).then_some(()));
        self.proxy.settles_at(self.descriptors);
    }
}

fn config(mode: Mode, folder: &Folder, backend: SocketAddr) -> Config {
    let ca = folder.write("ca.pem", &authority().pem);
    let config = Config::empty().set("process", "threads", 1).service("web", backend);
    let config = match mode {
        Mode::Reencrypts => config.certificate(&folder.write("web.pem", localhost().combined())),
        Mode::Originates => config.set("service", "client-tls", false),
    };
    config.text("service.backend-tls", "ca", ca.display()).text("service.backend-tls", "name", "localhost")
}

/// Says that it is over when it goes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A client of either kind.
#[expect(clippy::large_enum_variant, reason = "a handful of them, on the stack of a test")]
enum Caller {
    Tls(Client),
    Plain(TcpStream),
}

/// The end of a client's stream.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Order,
    Abort,
}

impl Caller {
    fn address(&self) -> SocketAddr {
        let stream = match self {
            Self::Tls(client) => &client.stream,
            Self::Plain(stream) => stream,
        };
        stream.local_addr().expect("it is bound")
    }

    fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Tls(client) => client.send(bytes),
            Self::Plain(stream) => stream.write_all(bytes).expect("it is taken"),
        }
    }

    fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        match self {
            Self::Tls(client) => client.read_exactly(count),
            Self::Plain(stream) => {
                let mut bytes = vec![0; count];
                stream.read_exact(&mut bytes).expect("they come");
                bytes
            }
        }
    }

    fn echo(&mut self, bytes: &[u8]) {
        self.send(bytes);
        assert_eq!(self.read_exactly(bytes.len()), bytes);
    }

    /// It has said everything, and can still be answered.
    fn end(&mut self) {
        match self {
            Self::Tls(client) => {
                client.close_notify();
                client.fin();
            }
            Self::Plain(stream) => stream.shutdown(Shutdown::Write).expect("it is open"),
        }
    }

    /// Waits for the end of what the other side says, and leaves its own direction open.
    fn is_told_the_end(&mut self) {
        let count = match self {
            Self::Tls(client) => client.read(&mut [0; 1]),
            Self::Plain(stream) => stream.read(&mut [0; 1]),
        };
        assert_eq!(count.expect("the end is in order"), 0);
    }

    fn read_to_end(&mut self) -> (Vec<u8>, End) {
        match self {
            Self::Tls(client) => {
                let ending = client.read_to_end();
                assert!(ending.is_clean() || ending.is_abort(), "{ending:?}");
                let end = if ending.is_clean() { End::Order } else { End::Abort };
                (ending.bytes, end)
            }
            Self::Plain(stream) => {
                let mut bytes = Vec::new();
                let outcome = stream.read_to_end(&mut bytes);
                (bytes, if outcome.is_ok() { End::Order } else { End::Abort })
            }
        }
    }

    fn finish(&mut self) {
        self.end();
        assert_eq!(self.read_to_end(), (Vec::new(), End::Order));
    }

    fn reset(self) {
        match self {
            Self::Tls(client) => client.reset(),
            Self::Plain(stream) => ending::reset(stream),
        }
    }
}

/// A backend that shakes hands first.
fn speaking(version: Version, script: impl Fn(&mut Secured<'_>) + Send + Sync + 'static) -> Backend {
    let config = server(version, false);
    Backend::start(move |peer| {
        if let Ok(mut secured) = Secured::accept(peer, &config) {
            script(&mut secured);
        }
    })
}

fn both(mut play: impl FnMut(Mode, Version)) {
    for mode in MODES {
        Version::BOTH.into_iter().for_each(|version| play(mode, version));
    }
}

#[test]
fn the_client_ends_and_a_long_answer_follows() {
    both(|mode, version| {
        let backend = speaking(version, |secured| {
            secured.read_to_close_notify();
            for offset in (0..1_000_000).step_by(50_000) {
                secured.send(pattern::piece(offset, 50_000));
                pause(Duration::from_millis(5));
            }
            secured.finish();
            secured.peer.read_to_end();
        });
        let front = Front::new(mode, backend.address, |config| config);
        let mut client = front.client();
        client.send(b"question");
        client.end();
        let (bytes, end) = client.read_to_end();
        let mut checker = pattern::Checker::default();
        checker.take(&bytes);
        assert_eq!((checker.arrived, end), (1_000_000, End::Order), "{mode:?} {version:?}");
        let seen = backend.seen();
        assert_eq!(seen, [Event::Data(b"question".to_vec()), Event::CloseNotify, Event::Fin], "{mode:?}");
        let record = front.record_of(client.address());
        assert!(record.reason().ends_with("/finished"), "{record:?}");
        assert_eq!(
            (record.number("bytes_to_backend"), record.number("bytes_to_client")),
            (8, 1_000_000),
            "{record:?}"
        );
        front.is_quiet();
    });
}

#[test]
fn the_backend_ends_and_the_client_goes_on() {
    both(|mode, version| {
        let backend = speaking(version, |secured| {
            secured.send(b"all I have");
            secured.close_notify();
            secured.read_to_close_notify();
        });
        let front = Front::new(mode, backend.address, |config| config);
        let mut client = front.client();
        assert_eq!(client.read_exactly(10), b"all I have");
        client.is_told_the_end();
        let mut sent = Vec::new();
        for offset in (0..500_000).step_by(50_000) {
            client.send(pattern::piece(offset, 50_000));
            sent.extend_from_slice(pattern::piece(offset, 50_000));
            pause(Duration::from_millis(10));
        }
        client.finish();
        assert_eq!(backend.seen(), [Event::Data(sent), Event::CloseNotify], "{mode:?} {version:?}");
        front.is_quiet();
    });
}

#[test]
fn a_backend_that_ends_without_close_notify_has_cut_off_its_client() {
    both(|mode, version| {
        let backend = speaking(version, |secured| {
            secured.send(&[b'h'; 100]);
            secured.peer.fin();
            secured.read_to_close_notify();
        });
        let front = Front::new(mode, backend.address, |config| config);
        let mut client = front.client();
        assert_eq!(client.read_to_end(), ([b'h'; 100].to_vec(), End::Abort), "{mode:?} {version:?}");
        let record = front.record_of(client.address());
        assert!(record.reason().starts_with("relay/backend/"), "{record:?}");
        assert!(record.detail().contains("FIN without close_notify"), "{record:?}");
        front.is_quiet();
        drop(front);
        // Here the protocol itself marks the end of a message.
        let front = Front::new(mode, backend.address, |config| {
            config.text("service.backend-tls", "missing-close-notify", "end")
        });
        let mut client = front.client();
        client.end();
        assert_eq!(client.read_to_end(), ([b'h'; 100].to_vec(), End::Order), "{mode:?} {version:?}");
        let record = front.record_of(client.address());
        assert!(record.reason().ends_with("/finished"), "{record:?}");
        front.is_quiet();
    });
}

/// Stalls a backend's handshake: sends half of its flight, or all of it slowly, byte by byte (`drips`).
fn stalling(config: &Arc<ServerConfig>, peer: &mut Peer, drips: bool) {
    let flight = first_flight(peer, config);
    if !drips {
        peer.send(&flight[..flight.len() / 2]);
        return peer.read_to_end();
    }
    for byte in flight {
        if peer.stream.write_all(&[byte]).is_err() {
            return;
        }
        pause(Duration::from_millis(5));
    }
}

#[test]
fn a_handshake_that_stalls_is_ended_by_the_limit_and_another_backend_is_tried() {
    for (mode, drips) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let config = server(Version::Tls13, false);
        let stuck = Backend::start(move |peer| stalling(&config, peer, drips));
        let other = speaking(Version::Tls13, |secured| secured.echo());
        let front = Front::new(mode, stuck.address, |config| {
            config.backend(other.address).text("service.limits", "connect", "300ms")
        });
        let all: Vec<Record> = (0..2)
            .map(|_| {
                let mut client = front.client();
                client.echo(b"served");
                client.finish();
                front.record_of(client.address())
            })
            .collect();
        let failed = all.iter().find(|record| record.number("backends_failed") == 1);
        let failed = failed.unwrap_or_else(|| panic!("{mode:?}: one of two begins with it: {all:?}"));
        let cause = serde_json::json!([{ "backend": stuck.address.to_string(), "cause": "connect-timeout" }]);
        assert_eq!(failed.value("backend_failures"), &cause, "{mode:?}, drips: {drips}");
        front.is_quiet();
    }
}

#[test]
fn a_backends_alert_is_reported_with_its_side() {
    let alert = Backend::start(|peer| {
        peer.read_exactly(1);
        // Fatal: handshake_failure (RFC 9846 §6.2).
        peer.send(&[21, 3, 3, 0, 2, 2, 40]);
        peer.read_to_end();
    });
    for mode in MODES {
        let front = Front::new(mode, alert.address, |config| config);
        let record = front.refused();
        assert_eq!(record.reason(), "connect/backend/alert", "{mode:?}: {record:?}");
        assert!(record.detail().to_lowercase().contains("handshake"), "{record:?}");
        front.is_quiet();
        // A client without a certificate gets an alert within the handshake, and in TLS 1.3 after it.
        for (version, reason) in
            [(Version::Tls12, "connect/backend/alert"), (Version::Tls13, "relay/backend/alert")]
        {
            let strict = server(version, true);
            let backend = Backend::start(move |peer| drop(Secured::accept(peer, &strict)));
            let front = Front::new(mode, backend.address, |config| config);
            if let Ok(mut client) = front.try_client() {
                assert_eq!(client.read_to_end(), (Vec::new(), End::Abort), "{mode:?} {version:?}");
            }
            let record = front.proxy.record("a connection", |_| true);
            assert_eq!(record.reason(), reason, "{mode:?} {version:?}: {record:?}");
            assert!(record.detail().to_lowercase().contains("certificate"), "{record:?}");
            front.is_quiet();
        }
    }
}

#[test]
fn a_client_that_leaves_during_the_handshake_is_no_failure_of_the_backend() {
    for mode in MODES {
        let backend = Backend::start(Peer::read_to_end);
        let front = Front::new(mode, backend.address, |config| config);
        let client = front.client();
        wait_until("the backend to be dialled", || (backend.accepted() == 1).then_some(()));
        let own = client.address();
        client.reset();
        let record = front.record_of(own);
        assert_eq!(record.reason(), "connect/client/reset", "{mode:?}: {record:?}");
        let seen = backend.seen();
        assert!(
            matches!(&seen[..], [Event::Data(hello), Event::Reset] if hello[0] == 22),
            "{mode:?}: {seen:?}"
        );
        // A backend that has not answered for a second has failed, whichever side gives up.
        if record.seconds("connect") < 1.0 {
            assert!(front.failures() < 0.5, "{mode:?}: {record:?}");
        }
        front.is_quiet();
    }
}

#[test]
fn without_a_descriptor_nothing_is_lost_and_the_backend_is_not_blamed() {
    for mode in MODES {
        let backend = speaking(Version::Tls13, |secured| secured.echo());
        let front = Front::new(mode, backend.address, |config| config);
        let mut standing = front.client();
        standing.echo(b"before");
        front.proxy.settles_at(front.descriptors + 2);
        let process = front.proxy.process();
        // Room for the client, none for its backend.
        process.limit_files(process.limit_with_room_for(1));
        // More often than a backend may fail in a row.
        for _ in 0..4 {
            if let Ok(mut client) = front.try_client() {
                assert_eq!(client.read_to_end(), (Vec::new(), End::Abort), "{mode:?}");
            }
            front.proxy.settles_at(front.descriptors + 2);
        }
        let record = front.proxy.record_of("connect/local/out-of-files");
        assert_eq!(record.text("backend"), backend.address.to_string(), "{record:?}");
        standing.echo(b"what stands goes on");
        // A queue without room: clients wait in the kernel.
        process.limit_files(process.limit_with_room_for(0));
        let mut waiting = dial(front.proxy.address()).expect("the kernel takes it");
        if mode == Mode::Originates {
            waiting.write_all(b"early").expect("the kernel takes it");
        }
        wait_until("the proxy to notice", || {
            let output = front.proxy.talk.so_far();
            output.iter().any(|line| line.contains("out-of-files")).then_some(())
        });
        standing.echo(b"and on");
        process.limit_files(1024);
        let mut served = match mode {
            Mode::Originates => Caller::Plain(waiting),
            Mode::Reencrypts => {
                let config = Trust::version(Version::Tls13).config();
                let tls = rustls::ClientConnection::new(config, client::server_name("localhost"));
                let client = Client::handshake(waiting, tls.expect("good settings"));
                let mut caller = Caller::Tls(client.expect("it was only late"));
                caller.send(b"early");
                caller
            }
        };
        assert_eq!(served.read_exactly(5), b"early", "{mode:?}");
        served.finish();
        standing.finish();
        let output = front.proxy.talk.so_far().join("\n");
        assert!(!output.contains("is marked down"), "{mode:?}: {output}");
        assert!(front.proxy.metrics().sum("handfast_backend_up", &[]) > 0.5, "{mode:?}");
        front.is_quiet();
    }
}

#[test]
fn a_reload_under_load_loses_nothing_and_new_connections_get_the_new_settings() {
    for mode in MODES {
        let mut settings = Arc::unwrap_or_clone(server(Version::Tls13, false));
        settings.alpn_protocols = vec![b"one".to_vec(), b"two".to_vec()];
        let settings = Arc::new(settings);
        let backend = Backend::start(move |peer| {
            if let Ok(mut secured) = Secured::accept(peer, &settings) {
                secured.echo();
            }
        });
        let front = Front::new(mode, backend.address, |config| config);
        let mut standing = [front.client(), front.client()];
        standing.iter_mut().for_each(|client| client.echo(&[b'0'; 64]));
        let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Acquire) {
                        let mut client = front.client();
                        client.echo(&[b'x'; 64]);
                        client.echo(&[b'y'; 64]);
                        client.finish();
                        served.fetch_add(1, Ordering::AcqRel);
                    }
                });
            }
            // Also when something fails here: the others would go on forever, and the cause would not be reported.
            let _over = Over(&over);
            for protocol in ["one", "two", "one", "two"] {
                let config = config(mode, &front.folder, front.backend);
                front.proxy.rewrite(config.set("service.backend-tls", "alpn", format!("[\"{protocol}\"]")));
                assert!(front.proxy.reload(), "{:?}", front.proxy.talk.so_far());
                let before = served.load(Ordering::Acquire);
                let mut client = front.client();
                client.echo(&[b'n'; 64]);
                client.finish();
                let record = front.record_of(client.address());
                assert_eq!(record.value("backend_tls")["alpn"], protocol, "{mode:?}: {record:?}");
                standing.iter_mut().for_each(|client| client.echo(&[b's'; 64]));
                wait_until("the others to go on", || {
                    (served.load(Ordering::Acquire) > before + 3).then_some(())
                });
            }
        });
        standing.iter_mut().for_each(Caller::finish);
        let all = served.into_inner() + standing.len() + 4;
        for _ in 0..all {
            assert_eq!(backend.seen(), [Event::CloseNotify], "{mode:?}: each closed cleanly");
        }
        assert_eq!(backend.accepted(), all, "{mode:?}: and came once");
        front.is_quiet();
    }
}
