//! Parts that tests of whole configurations share: a folder with certificates and a configuration file, an engine to run on.

#![expect(clippy::disallowed_methods, reason = "nobody else reads these files")]

use std::cell::Cell;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use handfast_net::engine::{self, Observer, Priority, spawn};
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, span};

use handfast_config::source::ConfigSource;

/// A folder with a configuration.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// With a certificate `web.pem`.
    pub(crate) fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.certificate("web.pem");
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder is ours");
    }

    /// A new certificate for `localhost` and its key.
    pub(crate) fn certificate(&self, name: &str) {
        self.certificate_for(name, &["localhost"]);
    }

    /// The same for these names.
    pub(crate) fn certificate_for(&self, name: &str, names: &[&str]) {
        let key = KeyPair::generate().expect("the library makes keys");
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).expect("good names");
        let certificate = params.self_signed(&key).expect("the library signs");
        self.write(name, &format!("{}{}", certificate.pem(), key.serialize_pem()));
    }

    /// The same with a key whose signatures are all of one length.
    pub(crate) fn ed25519_certificate(&self, name: &str) {
        self.certificate_of(name, &rcgen::PKCS_ED25519);
    }

    /// The same with a key whose signatures are made elsewhere in a crowd.
    pub(crate) fn dear_certificate(&self, name: &str) {
        self.certificate_of(name, &rcgen::PKCS_ECDSA_P384_SHA384);
    }

    fn certificate_of(&self, name: &str, algorithm: &'static rcgen::SignatureAlgorithm) {
        let key = KeyPair::generate_for(algorithm).expect("the library makes keys");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a good name");
        let certificate = params.self_signed(&key).expect("the library signs");
        self.write(name, &format!("{}{}", certificate.pem(), key.serialize_pem()));
    }

    /// A configuration of services, each with its addresses; `more` comes before them.
    pub(crate) fn configure(&self, more: &str, services: &[(&str, &[&str])]) -> ConfigSource {
        self.configure_as(&format!("{more}\n[access-log]\nto = \"off\"\n"), services)
    }

    /// The same, and `more` has the access log too.
    pub(crate) fn configure_as(&self, more: &str, services: &[(&str, &[&str])]) -> ConfigSource {
        let service = |(name, listen): &(&str, &[&str])| {
            format!(
                "[[service]]\nname = {name:?}\nlisten = {listen:?}\nbackend = \"127.0.0.1:1\"\n\
                 certificate = \"web.pem\"\n"
            )
        };
        let services: String = services.iter().map(service).collect();
        self.write("handfast.toml", &format!("{more}\n{services}"));
        ConfigSource::File(self.path("handfast.toml"))
    }
}

/// Runs `test` as a task on an engine in a separate thread and passes a panic on.
pub(crate) fn on_engine<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    struct Panics(Rc<Cell<bool>>);
    impl Observer for Panics {
        fn turn(&mut self, _: Duration, _: usize) {}
        fn before_sleep(&mut self) {}
        fn panicked(&mut self) {
            self.0.set(true);
            engine::stop();
        }
    }
    let body = move || {
        let panicked = Rc::new(Cell::new(false));
        engine::run(Panics(Rc::clone(&panicked)), || {
            spawn(Priority::Flow, async move {
                test().await;
                engine::stop();
            });
        })
        .expect("an epoll instance");
        assert!(!panicked.get(), "a task panicked; see above");
    };
    let thread = std::thread::Builder::new().name("engine-test".into()).spawn(body).expect("a thread");
    thread.join().expect("it passes");
}

/// The lines that this thread logs meanwhile, without their level.
pub(crate) fn logged_lines(action: impl FnOnce()) -> Vec<String> {
    LazyLock::force(&DEAF);
    let (sender, lines) = channel();
    tracing::subscriber::with_default(Lines(Some(sender)), action);
    lines.try_iter().collect()
}

/// Two subscribers that take no lines and stay.
///
/// While there is only one subscriber, tracing asks it on the thread that reaches a line of the log first, and caches the answer for all
/// threads: a test beside this one would decide that no test receives the line. With several, each subscriber decides.
static DEAF: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Lines(None))));

/// Takes lines, as people are shown them; `None`: none.
struct Lines(Option<Sender<String>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.is_some() && *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if self.0.is_some() { LevelFilter::INFO } else { LevelFilter::OFF })
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        // The receiver is gone only when no test reads lines any more.
        let _ = self.0.as_ref().map(|to| to.send(message.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Tests run beside each other: one that reaches a line first, and does not listen, must not silence it for the others.
#[test]
fn a_line_is_received_by_the_test_of_its_thread() {
    let log_line = || tracing::info!("a client came");
    let lines = logged_lines(|| {
        let beside = std::thread::Builder::new().name("beside".into()).spawn(log_line).expect("a thread");
        beside.join().expect("it ends");
        log_line();
    });
    assert_eq!(lines, ["a client came"]);
}
