//! `:scheme` is that of the connection to the backend, whatever the client's was: servers refuse another one (RFC 9113 §8.3.1).

use std::sync::mpsc::sync_channel;

use super::support::folder::Folder;
use super::support::http2::{HEADERS, SETTINGS, frame};
use super::support::*;

/// The static entries `:scheme: http` and `:scheme: https` as fields (RFC 7541, appendix A).
const HTTP: u8 = 0x86;

#[test]
fn without_tls() {
    let (sender, heads) = sync_channel(1);
    let backend = Backend::start(move |peer| {
        assert!(peer.read_exactly(24).starts_with(b"PRI * HTTP/2.0"), "the preface");
        peer.send(&frame(SETTINGS, 0, 0, &[]));
        loop {
            let header = peer.read_exactly(9);
            let [_, high, low, kind, ..] = header[..] else { return };
            let payload = peer.read_exactly(usize::from(high) << 8 | usize::from(low));
            if kind == HEADERS {
                return sender.send(payload).expect("the test waits");
            }
        }
    });
    let folder = Folder::new();
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let proxy = Proxy::start(config.text("service.http", "backend-version", "h2"));
    let mut client = Client::connect(proxy.address(), &Trust::version(Version::Tls13).config());
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = heads.recv_timeout(DEADLINE).expect("the backend receives a request");
    assert!(head[..4].contains(&HTTP), "method, scheme, path and host begin it: {head:x?}");
}
