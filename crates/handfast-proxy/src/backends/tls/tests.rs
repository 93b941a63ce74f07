//! Protocols that go together, and the time for which sessions are resumed.

use std::time::SystemTime;

use handfast_wire::{Peek, peek};

use super::*;
use crate::backends::group::Group;
use crate::backends::names::Addresses;
use crate::state::{self, CarriedOver};
use crate::testing::Folder;
use crate::worker::services::Chosen;
use crate::worker::services::ThreadState;
use handfast_observe::metrics::Registry;

/// A dialler as a service with this `backend-tls` has it, and its backends.
fn dialler(backend: &str, backend_tls: &str) -> (Folder, Rc<BackendTlsClient>, Vec<Rc<Endpoint>>) {
    let folder = Folder::new();
    let text = format!(
        "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\n\
         certificate = \"web.pem\"\nalpn = [\"h2\", \"http/1.1\", \"imap\"]\nbackend = {backend}\nbackend-tls = {{ ca = \"web.pem\"{backend_tls} }}\n"
    );
    let source = folder.configure_as(&text, &[("with-tls", &["127.0.0.1:3"])]);
    let (config, _) = source.read(false).expect("it is right");
    let mut carried = CarriedOver::with_threads(1);
    let built = state::build(config, 1, None, &mut carried, SystemTime::now());
    let shared = Arc::new(built.state.expect("it can serve"));
    let metrics = Registry::new().thread("worker-0");
    let state = ThreadState::new(shared, None, &metrics, &Addresses::default(), 0).expect("TLS is set up");
    let service = &state.services[0];
    let dialler = Rc::clone(service.dialler(Chosen::SERVICE).expect("it has one"));
    let endpoints = Group::endpoints(service.group(Chosen::SERVICE));
    (folder, dialler, endpoints)
}

/// The hello that a backend would get.
fn hello(
    dialler: &BackendTlsClient,
    endpoint: &Endpoint,
    agreed: Option<&str>,
) -> handfast_wire::ClientHello {
    let mut session = dialler.session(endpoint, agreed, Moment::now()).expect("it can begin");
    let mut records = handfast_tls::buffer::Buffer::default();
    session.start(&mut records).expect("it can begin");
    match peek(records.filled(), 1 << 16) {
        Peek::Complete(hello) => *hello,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_sides_of_a_connection_speak_the_same_protocol() {
    let (_folder, dialler, _) = dialler("\"127.0.0.1:1\"", ", alpn = \"client\"");
    for (agreed, chosen, fits) in [
        (Some("h2"), Some("h2"), true),
        (Some("h2"), Some("http/1.1"), false),
        (Some("h2"), None, false),
        // Servers of HTTP/1.1 alone often ignore the extension (RFC 7301 §3.2).
        (Some("http/1.1"), None, true),
        (Some("http/1.1"), Some("http/1.1"), true),
        (Some("http/1.1"), Some("h2"), false),
        (None, None, true),
        (None, Some("h2"), true),
    ] {
        assert_eq!(dialler.protocol_mismatch(agreed, chosen).is_none(), fits, "{agreed:?} {chosen:?}");
    }
    let message = dialler.protocol_mismatch(Some("h2"), None).expect("they differ");
    assert_eq!(message, "the client agreed to h2, the backend chose none");
    let (_folder, own, _) = self::dialler("\"127.0.0.1:1\"", ", alpn = [\"h2\"]");
    assert_eq!(
        own.protocol_mismatch(Some("http/1.1"), Some("h2")),
        None,
        "the operator has configured the protocol"
    );
}

#[test]
fn a_backend_is_dialled_by_its_name_with_the_clients_protocol() {
    let (_folder, dialler, endpoints) =
        dialler("\"127.0.0.1:1\"", ", alpn = \"client\", name = \"inner.example\"");
    let with = hello(&dialler, &endpoints[0], Some("imap"));
    assert_eq!(with.server_name.as_deref(), Some("inner.example"));
    assert_eq!(with.alpn.iter().map(|name| &**name).collect::<Vec<_>>(), [b"imap"]);
    assert!(hello(&dialler, &endpoints[0], None).alpn.is_empty());
    // RFC 6066 §3: an address is no name.
    let (_folder, dialler, endpoints) = self::dialler("\"127.0.0.1:1\"", "");
    assert_eq!(hello(&dialler, &endpoints[0], None).server_name, None);
    let (_folder, dialler, endpoints) = self::dialler("\"127.0.0.1:1\"", ", server-name = \"other.example\"");
    assert_eq!(hello(&dialler, &endpoints[0], None).server_name.as_deref(), Some("other.example"));
}

/// A resumed session checks no certificate, and brings a new ticket each time.
#[test]
fn a_backend_shows_its_certificate_again_after_an_hour() {
    let (_folder, dialler, endpoints) = dialler("\"127.0.0.1:1\"", "");
    let made = || dialler.clients.borrow().values().map(|made| made.at).collect::<Vec<_>>();
    let begun = Moment::now();
    for (now, made_at) in [
        (begun, begun),
        (begun + (MAX_SESSION_AGE - Duration::from_nanos(1)), begun),
        (begun + MAX_SESSION_AGE, begun + MAX_SESSION_AGE),
    ] {
        dialler.session(&endpoints[0], None, now).expect("it can begin");
        assert_eq!(made(), [made_at]);
    }
}

#[test]
fn endpoints_that_are_gone_are_forgotten_and_no_others() {
    let (_folder, dialler, endpoints) = dialler("[\"127.0.0.1:1\", \"127.0.0.1:4\"]", "");
    for endpoint in &endpoints {
        dialler.session(endpoint, None, Moment::now()).expect("it can begin");
    }
    assert_eq!(dialler.endpoints(), 2);
    dialler.keep_only(&endpoints[..1]);
    let left: Vec<_> = dialler.clients.borrow().keys().map(|name| name.to_string()).collect();
    assert_eq!(left, ["127.0.0.1:1"]);
}
