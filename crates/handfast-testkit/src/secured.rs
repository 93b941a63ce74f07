//! A scripted backend's end of a TLS session, with every end under its control: close_notify without a FIN, a FIN without
//! close_notify, a flight that stops in the middle. In: a [`Peer`]. Out: plaintext; and what it saw, among the peer's events.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::backend::{Event, Peer};
use crate::certificates::{authority, localhost};
use crate::ending::{self, SocketEnd};
use crate::trust::Version;

/// Server configuration of a backend: one version, the certificate for `localhost`, tickets.
pub fn server(version: Version, asks_for_certificate: bool) -> Arc<ServerConfig> {
    Arc::new(settings(aws_lc_rs::default_provider(), &[version], asks_for_certificate))
}

/// A server of the tests' own with the certificate for `localhost`, which may ask for one of the tests' authority.
#[expect(
    clippy::disallowed_methods,
    reason = "this server is the tests' own, and shares no policy with the program"
)]
pub fn settings(provider: CryptoProvider, versions: &[Version], asks_for_certificate: bool) -> ServerConfig {
    let provider = Arc::new(provider);
    let versions: Vec<_> = versions.iter().map(|version| version.supported()).collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .expect("the provider has suites for both versions");
    let builder = if asks_for_certificate {
        let mut roots = RootCertStore::empty();
        roots.add(authority().certificate.clone()).expect("the authority is well-formed");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.expect("there is an authority"))
    } else {
        builder.with_no_client_auth()
    };
    let identity = localhost();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.clone()));
    let chain = vec![identity.certificate.clone()];
    builder.with_single_cert(chain, key).expect("the key fits its certificate")
}

/// The first flight of a backend, which answers the hello that has come.
pub fn first_flight(peer: &mut Peer, config: &Arc<ServerConfig>) -> Vec<u8> {
    let mut tls = ServerConnection::new(Arc::clone(config)).expect("good settings");
    while !tls.wants_write() {
        if tls.read_tls(&mut peer.stream).expect("a hello comes") == 0 {
            return Vec::new();
        }
        tls.process_new_packets().expect("the hello is good");
    }
    let mut flight = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut flight).expect("memory takes it");
    }
    flight
}

/// A session of a backend, after its handshake.
pub struct Secured<'p> {
    tls: ServerConnection,
    /// The connection that carries it.
    pub peer: &'p mut Peer,
}

impl<'p> Secured<'p> {
    /// Shakes hands.
    pub fn accept(peer: &'p mut Peer, config: &Arc<ServerConfig>) -> io::Result<Self> {
        let mut tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            if tls.read_tls(&mut peer.stream)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let outcome = tls.process_new_packets();
            while tls.wants_write() {
                tls.write_tls(&mut peer.stream)?;
            }
            outcome.map_err(io::Error::other)?;
        }
        Ok(Self { tls, peer })
    }

    /// Kind of the handshake.
    pub fn kind(&self) -> HandshakeKind {
        self.tls.handshake_kind().expect("it is over")
    }

    /// The certificate that the other side has shown, in DER; nothing where there is none.
    pub fn shown(&self) -> Vec<u8> {
        let chain = self.tls.peer_certificates().unwrap_or_default();
        chain.first().map(|certificate| certificate.to_vec()).unwrap_or_default()
    }

    /// Sends all of `bytes`; a peer that is gone is for the reader to notice.
    pub fn send(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(32_768) {
            let _ = self.tls.writer().write_all(chunk);
            self.flush();
        }
    }

    /// Says that this was all, and leaves the socket open.
    pub fn close_notify(&mut self) {
        self.tls.send_close_notify();
        self.flush();
    }

    /// Reads what there is, waiting for at least one byte; 0 when the other side has said that this was all.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.tls.read_tls(&mut self.peer.stream)?;
            self.tls.process_new_packets().map_err(io::Error::other)?;
            // Answers of the library's own.
            self.flush();
        }
    }

    /// Reads this number of bytes; fewer at the end.
    pub fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        let mut read = vec![0; count];
        let mut filled = 0;
        while filled < count {
            match self.read(&mut read[filled..]) {
                Ok(more @ 1..) => filled += more,
                _ => break,
            }
        }
        read.truncate(filled);
        read
    }

    /// Reads everything up to close_notify, and notes it; or how the socket ended instead.
    pub fn read_to_close_notify(&mut self) {
        let mut buffer = vec![0; 65_536];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => return self.peer.saw(Event::CloseNotify),
                Ok(count) => self.peer.saw(Event::Data(buffer[..count].to_vec())),
                // The library reports it when the socket ends first.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return self.peer.end(SocketEnd::Fin);
                }
                Err(error) => {
                    return self.peer.end(ending::end_of(&error).expect("the other side ends in time"));
                }
            }
        }
    }

    /// Sends everything back up to close_notify, which it notes, then closes cleanly.
    pub fn echo(&mut self) {
        let mut buffer = vec![0; 65_536];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => {
                    self.peer.saw(Event::CloseNotify);
                    return self.finish();
                }
                Ok(count) => self.send(&buffer[..count]),
                Err(_) => return,
            }
        }
    }

    /// Closes cleanly.
    pub fn finish(&mut self) {
        self.close_notify();
        self.peer.fin();
    }

    fn flush(&mut self) {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.peer.stream).is_ok() {}
    }
}
