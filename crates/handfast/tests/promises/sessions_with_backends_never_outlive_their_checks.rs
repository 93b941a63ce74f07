//! Sessions with backends never outlive what was checked: after a reload that changes the trusted authorities, which name, which key, what
//! we show or which policy, a ticket of before is worth nothing, and a check that fails now fails.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, sync_channel};

use rustls::HandshakeKind;

use super::support::certificates::{Authority, KeyKind};
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::secured::{Secured, server};
use super::support::*;

const SECTION: &str = "service.backend-tls";
/// A key that no peer has.
const ANOTHER_PIN: &str = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

struct Scene {
    folder: Folder,
    target: Backend,
    kinds: Receiver<HandshakeKind>,
    proxy: Proxy,
}

/// One thread: which thread gets a connection makes no difference.
fn unchecked(target: &Backend) -> Config {
    Config::empty().set("process", "threads", 1).service("web", target.address).set(
        "service",
        "client-tls",
        false,
    )
}

fn config(folder: &Folder, target: &Backend) -> Config {
    unchecked(target).text(SECTION, "ca", folder.file("ca.pem").display()).text(SECTION, "name", "localhost")
}

impl Scene {
    fn new(version: Version) -> Self {
        let folder = Folder::new();
        folder.write("ca.pem", &authority().pem);
        let (sender, kinds) = sync_channel(64);
        let settings = server(version, false);
        let target = Backend::start(move |peer| {
            if let Ok(mut secured) = Secured::accept(peer, &settings) {
                let _ = sender.try_send(secured.kind());
                secured.echo();
            }
        });
        let proxy = Proxy::start(config(&folder, &target));
        Self { folder, target, kinds, proxy }
    }

    fn config(&self) -> Config {
        config(&self.folder, &self.target)
    }

    /// Kind of a connection's handshake with the backend, as the backend has it; or the reason why there was none, as the log has it.
    fn kind(&self, service: &str) -> Result<HandshakeKind, String> {
        let before = self.proxy.records().len();
        // The reset may come before it has looked around.
        let answered = dial(self.proxy.address_of(service)).and_then(|mut stream| {
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0; 1])?;
            stream.shutdown(Shutdown::Write)?;
            stream.read_to_end(&mut Vec::new())
        });
        let record = wait_until("its line", || self.proxy.records().get(before).cloned());
        if answered.is_err() {
            return Err(record.reason());
        }
        Ok(self.kinds.recv_timeout(DEADLINE).expect("it shook hands"))
    }

    /// There is a ticket now, and it is taken.
    fn resumes(&self) {
        let mut kinds = (0..3).map(|_| self.kind("web"));
        assert!(kinds.any(|kind| kind == Ok(HandshakeKind::Resumed)), "a ticket is taken");
    }

    fn reload(&self, config: &Config) {
        self.proxy.rewrite(config);
        assert!(self.proxy.reload(), "{:?}", self.proxy.talk.so_far());
    }
}

fn refused() -> Result<HandshakeKind, String> {
    Err("connect/backend/backend-certificate".to_owned())
}

fn is_full(kind: &Result<HandshakeKind, String>) -> bool {
    matches!(kind, Ok(HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest))
}

#[test]
fn a_check_that_fails_now_fails_whatever_ticket_there_is() {
    for version in Version::BOTH {
        let scene = Scene::new(version);
        let stranger = scene.folder.write("stranger.pem", &Authority::new("an unknown authority").pem);
        assert!(is_full(&scene.kind("web")), "there was no ticket yet");
        let changes: [(&str, Config); 5] = [
            ("a staple", scene.config().text(SECTION, "revocation", "staple-required")),
            ("another key", scene.config().text(SECTION, "pins", ANOTHER_PIN)),
            ("another name", scene.config().text(SECTION, "name", "other.example")),
            ("another authority", scene.config().text(SECTION, "ca", stranger.display())),
            (
                "another key and no authority",
                unchecked(&scene.target).text(SECTION, "verify", "pins").text(SECTION, "pins", ANOTHER_PIN),
            ),
        ];
        for (what, change) in changes {
            scene.resumes();
            scene.reload(&change);
            for _ in 0..2 {
                assert_eq!(scene.kind("web"), refused(), "{what}, {version:?}");
            }
            scene.reload(&scene.config());
            assert!(is_full(&scene.kind("web")), "back from {what}: what was kept before is gone");
        }
    }
}

/// The same name of a file, and another content.
#[test]
fn an_authority_that_was_replaced_in_its_file_counts_at_once() {
    let scene = Scene::new(Version::Tls13);
    scene.resumes();
    scene.folder.replace("ca.pem", &Authority::new("an unknown authority").pem);
    assert!(scene.proxy.reload());
    assert_eq!(scene.kind("web"), refused());
    // With its old place taken again, in another order of the file.
    scene.folder.replace("ca.pem", format!("{}{}", Authority::new("another").pem, authority().pem));
    assert!(scene.proxy.reload());
    assert!(is_full(&scene.kind("web")), "who is trusted has changed");
    scene.resumes();
}

#[test]
fn what_we_show_and_offer_belongs_to_a_session() {
    let scene = Scene::new(Version::Tls13);
    let identity = authority().identity(&["client.example"], KeyKind::Ecdsa);
    let own = scene.folder.write("own.pem", identity.combined());
    let changes = [
        ("a certificate of ours", scene.config().text(SECTION, "certificate", own.display())),
        ("a policy", scene.config().text(SECTION, "policy", "2026-11-modern")),
        ("a name that is sent", scene.config().text(SECTION, "server-name", "other.example")),
    ];
    for (what, change) in changes {
        scene.resumes();
        scene.reload(&change);
        assert!(is_full(&scene.kind("web")), "{what}");
        scene.resumes();
        scene.reload(&scene.config());
        assert!(is_full(&scene.kind("web")), "back from {what}");
    }
    scene.resumes();
    scene.reload(&scene.config());
    assert_eq!(scene.kind("web"), Ok(HandshakeKind::Resumed), "nothing has changed");
}

/// The same backend, asked by two services with different checks.
#[test]
fn a_ticket_of_one_service_is_none_of_another() {
    let scene = Scene::new(Version::Tls13);
    let both = scene
        .config()
        .service("strict", scene.target.address)
        .set("service", "client-tls", false)
        .text(SECTION, "ca", scene.folder.file("ca.pem").display())
        .text(SECTION, "name", "localhost")
        .text(SECTION, "pins", ANOTHER_PIN);
    scene.reload(&both);
    for _ in 0..3 {
        scene.resumes();
        assert_eq!(scene.kind("strict"), refused());
    }
}

/// Counted by the backend: of many connections on two threads the first one alone is a full handshake. The kernel shares them out by
/// their ports: that all twenty come to one thread happens once in half a million runs.
#[test]
fn the_second_connection_resumes_whichever_thread_it_comes_to() {
    for version in Version::BOTH {
        let folder = Folder::new();
        folder.write("ca.pem", &authority().pem);
        let (sender, kinds) = sync_channel(64);
        let settings = server(version, false);
        let target = Backend::start(move |peer| {
            if let Ok(mut secured) = Secured::accept(peer, &settings) {
                let _ = sender.try_send(secured.kind());
                secured.echo();
            }
        });
        let proxy = Proxy::start(config(&folder, &target).set("process", "threads", 2));
        let scene = Scene { folder, target, kinds, proxy };
        let kinds: Vec<_> = (0..20).map(|_| scene.kind("web").expect("it is served")).collect();
        let full = kinds.iter().filter(|kind| **kind != HandshakeKind::Resumed).count();
        assert_eq!(full, 1, "{version:?}: {kinds:?}");
    }
}
