//! TLS towards clients: certificates, policy, tickets, and what a service takes from clients that do not keep to it.

use std::path::PathBuf;
use std::time::Duration;

use handfast_tls::source::{self, Files};
use handfast_tls::ticket::KeySource;

use super::client_certificates::ClientCertificates;

/// The TLS side of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// Certificates: files and folders, in the order written.
    pub certificates: Vec<CertificateSource>,
    /// What to do for a name that no certificate covers.
    pub unknown_name: UnknownName,
    /// Versions, suites, groups.
    pub policy: Policy,
    /// Application protocols offered by ALPN, best first; empty: ALPN is not answered.
    pub alpn: Vec<String>,
    /// How client certificates are checked.
    pub client_certificates: ClientCertificates,
    /// Session tickets.
    pub tickets: Tickets,
}

/// A place where certificates are (`certificate = …`, `key = …`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// One PEM file that holds a chain, or a chain and its key; and the key's own file, if it is apart.
    File {
        /// The chain.
        certificate: PathBuf,
        /// The key, when it is not in the same file.
        key: Option<PathBuf>,
        /// The OCSP response to staple; `None`: the one beside the certificate, if there is one.
        ocsp: Option<PathBuf>,
    },
    /// A folder, each file of which is looked at.
    Folder(PathBuf),
    /// A throwaway certificate for localhost, made at start.
    Throwaway {
        /// Where the CA's certificate is written for clients to trust.
        ca_file: PathBuf,
    },
}

impl CertificateSource {
    /// What is to be read; `None`: it is in no file.
    pub fn on_disk(&self) -> Option<Box<dyn source::CertificateSource>> {
        match self.clone() {
            Self::File { certificate, key, ocsp } => Some(Box::new(Files { certificate, key, ocsp })),
            Self::Folder(folder) => Some(Box::new(source::Folder(folder))),
            Self::Throwaway { .. } => None,
        }
    }
}

/// What to do for a name that no certificate covers (`unknown-name`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// Serve the first certificate.
    First,
    /// Refuse with the alert `unrecognized_name`.
    Refuse,
}

impl From<UnknownName> for handfast_tls::store::UnknownName {
    fn from(written: UnknownName) -> Self {
        match written {
            UnknownName::First => Self::First,
            UnknownName::Refuse => Self::Refuse,
        }
    }
}

/// Versions, suites and groups: a dated named policy, and what overrides it (`policy`, `versions`, …).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Name of the policy, as `handfast-tls` knows it.
    pub base: String,
    /// Versions, when they are overridden: `1.2`, `1.3`.
    pub versions: Option<Vec<String>>,
    /// Suites by IANA name, best first, when they are overridden.
    pub suites: Option<Vec<String>>,
    /// Groups by IANA name, best first, when they are overridden.
    pub groups: Option<Vec<String>>,
}

/// Session tickets (`[service.tickets]` has the same keys as `[tickets]`, which is for all services).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tickets {
    /// Tickets sent after a TLS 1.3 handshake; 0 turns resumption off, in TLS 1.2 too.
    pub per_handshake: u8,
    /// Where the keys are kept; a file keeps them over restarts and machines.
    pub key_source: KeySource,
    /// How long one key encrypts new tickets.
    pub rotate: Duration,
    /// How long a ticket is accepted.
    pub lifetime: Duration,
}

/// The answer to plain HTTP on a port for TLS (`plain-http`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// 400, and a sentence with the reason.
    Refuse,
    /// 308 to the same place by https.
    Redirect,
}

/// The meaning of a FIN without close_notify (`missing-close-notify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCloseNotify {
    /// A stream that was cut: the backend is reset.
    Abort,
    /// A clean end: the backend gets a FIN, and its answer is delivered.
    End,
}
