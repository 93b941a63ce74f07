//! `:scheme` is that of the connection to the backend, whatever the client's was: servers refuse another one (RFC 9113 §8.3.1).

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use super::support::client::dial;
use super::support::folder::Folder;
use super::support::http2::{END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame, get, preface};
use super::support::secured::{Secured, server};
use super::support::*;

/// The static entries `:scheme: http` and `:scheme: https` as fields (RFC 7541, appendix A).
const HTTP: u8 = 0x86;
const HTTPS: u8 = 0x87;

/// Receives until the first head; returns its block.
fn first_head(mut read: impl FnMut(usize) -> Vec<u8>) -> Option<Vec<u8>> {
    assert!(read(24).starts_with(b"PRI * HTTP/2.0"), "the preface");
    loop {
        let header = read(9);
        let [_, high, low, kind, ..] = header[..] else { return None };
        let payload = read(usize::from(high) << 8 | usize::from(low));
        if kind == HEADERS {
            return Some(payload);
        }
    }
}

/// A backend that serves HTTP/2; the first block of fields of each connection.
fn backend(has_tls: bool) -> (Backend, Receiver<Vec<u8>>) {
    let (sender, heads) = sync_channel(1);
    let mut settings = Arc::unwrap_or_clone(server(Version::Tls13, false));
    settings.alpn_protocols = vec![b"h2".to_vec()];
    let settings = Arc::new(settings);
    let backend = Backend::start(move |peer| {
        let head = if has_tls {
            let Ok(mut secured) = Secured::accept(peer, &settings) else { return };
            secured.send(&frame(SETTINGS, 0, 0, &[]));
            first_head(|count| secured.read_exactly(count))
        } else {
            peer.send(&frame(SETTINGS, 0, 0, &[]));
            first_head(|count| peer.read_exactly(count))
        };
        if let Some(head) = head {
            let _ = sender.send(head);
        }
    });
    (backend, heads)
}

/// Clients of HTTP/2 name `https`, also those without TLS.
#[test]
fn for_each_kind_of_client_and_backend() {
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &authority().pem);
    for has_tls in [false, true] {
        let (backend, heads) = backend(has_tls);
        for (client_tls, protocol) in [(true, "h2"), (true, "http/1.1"), (false, "h2"), (false, "http/1.1")] {
            let mut config = match client_tls {
                true => Config::to(&folder, backend.address),
                false => Config::empty().service("web", backend.address).set("service", "client-tls", false),
            };
            config = config.text("service", "mode", "http").text("service.http", "backend-version", "h2");
            if has_tls {
                config = config.text("service.backend-tls", "ca", ca.display());
                config = config.text("service.backend-tls", "name", "localhost");
            }
            let proxy = Proxy::start(config);
            let request = if protocol == "h2" {
                [preface(&[]), frame(HEADERS, END_STREAM | END_HEADERS, 1, &get("/"))].concat()
            } else {
                b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()
            };
            let trust = Trust::version(Version::Tls13).protocol(protocol).config();
            let mut with_tls = client_tls.then(|| Client::connect(proxy.address(), &trust));
            let mut plain = (!client_tls).then(|| dial(proxy.address()).expect("it listens"));
            with_tls.iter_mut().for_each(|client| client.send(&request));
            plain.iter_mut().for_each(|client| client.write_all(&request).expect("a fresh socket takes it"));
            let head = heads.recv_timeout(DEADLINE).expect("the backend receives a request");
            // The method comes first, a static entry too.
            let scheme = if has_tls { HTTPS } else { HTTP };
            assert_eq!(
                head[1], scheme,
                "TLS of the client: {client_tls}, {protocol}, of the backend: {has_tls}: {head:x?}"
            );
        }
    }
}
