//! TLS towards clients and backends: certificates, verification, policy, tickets, and what is spoken before TLS.

use std::path::PathBuf;
use std::time::Duration;

use handfast_pki::Pin;
use handfast_pki::source::{self, Files, Ordered};
pub use handfast_tls::store::UnknownName;
use handfast_tls::ticket::KeySource;
use handfast_wire::starttls::Protocol;

use super::client_certificates::ClientCertificates;

/// The TLS side of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// Certificates: files and folders, in the order written.
    pub certificates: Vec<CertificateEntry>,
    /// Action for a name that no certificate covers.
    pub unknown_name: UnknownName,
    /// Versions, suites, groups.
    pub policy: Policy,
    /// Application protocols offered by ALPN, best first; empty: ALPN is not answered.
    pub alpn: Vec<String>,
    /// Policy for client certificates.
    pub client_certificates: ClientCertificates,
    /// Session tickets.
    pub tickets: Tickets,
}

/// A place where certificates are (`certificate = …`, `key = …`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateEntry {
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
    /// Certificates that this process orders, one for each name.
    Acme {
        /// The folder of their files.
        folder: PathBuf,
        /// Folder in which the key process stores their keys; `None`: each key is in the file of its certificate.
        key_folder: Option<PathBuf>,
        /// Names, wildcards and addresses, in lower case.
        names: Vec<String>,
    },
    /// A throwaway certificate for localhost, made at start.
    Throwaway {
        /// File to which the CA's certificate is written, for clients to trust.
        ca_file: PathBuf,
    },
}

impl CertificateEntry {
    /// Files and folders to read; `None`: the certificate is in no file.
    pub fn on_disk(&self) -> Option<Box<dyn source::CertificateSource>> {
        match self.clone() {
            Self::File { certificate, key, ocsp } => Some(Box::new(Files { certificate, key, ocsp })),
            Self::Folder(folder) => Some(Box::new(source::Folder(folder))),
            Self::Acme { folder, key_folder, names } => Some(Box::new(Ordered { folder, names, key_folder })),
            Self::Throwaway { .. } => None,
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
    /// Tickets sent after a full TLS 1.3 handshake, and one after a resumption; 0 turns resumption off, in TLS 1.2 too.
    pub per_handshake: u8,
    /// Source of the keys; a file keeps them over restarts and machines.
    pub key_source: KeySource,
    /// Time for which one key encrypts new tickets.
    pub rotate: Duration,
    /// Lifetime of a ticket.
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

/// Protocol that clients, or backends, speak before TLS is requested on the same connection (`starttls`, `starttls-name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starttls {
    /// The protocol.
    pub protocol: Protocol,
    /// This proxy's name in it, or in XMPP towards a backend the requested domain; `None`: the machine's or the backend's name.
    pub name: Option<String>,
}

/// TLS towards the backends (`[service.backend-tls]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTls {
    /// Checks of a backend's certificate.
    pub verify: BackendVerification,
    /// PEM file of the authorities that may sign it; `None`: those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// The name that the certificate must have; `None`: the name, or else the address, of the backend.
    pub name: Option<String>,
    /// The server name to send (SNI).
    pub server_name: SentName,
    /// Public keys, one of which the certificate must have; empty: any.
    pub pins: Vec<Pin>,
    /// The certificate for a backend that requests one: the chain, and its key if that is in a separate file.
    pub identity: Option<(PathBuf, Option<PathBuf>)>,
    /// Application protocols that are offered.
    pub alpn: BackendAlpn,
    /// Versions, suites, groups.
    pub policy: Policy,
    /// The protocol in which TLS is requested, and this proxy's name in it; `None`: TLS from the first byte.
    pub starttls: Option<Starttls>,
    /// Checks of the revocation of its certificate.
    pub revocation: BackendRevocation,
    /// True if sessions are resumed.
    pub resumption: bool,
    /// Meaning of a backend's FIN without close_notify.
    pub missing_close_notify: MissingCloseNotify,
}

/// Checks of a backend's certificate (`verify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendVerification {
    /// A trusted authority signed it, it is for the name, and its key is pinned if there are pins.
    Full,
    /// Its key is pinned, and nothing else.
    Pins,
    /// As `Full`; where the certificate has no alternative names, its common name counts.
    CommonName,
    /// As `Full`, for any name.
    AnyName,
    /// Nothing.
    Nothing,
}

impl BackendVerification {
    /// Returns true if the certificate must be valid for a name.
    pub fn requires_name(self) -> bool {
        matches!(self, Self::Full | Self::CommonName)
    }
}

/// Checks of the OCSP response that a backend sends with its certificate (`revocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendRevocation {
    /// Nothing.
    Off,
    /// One that says that the certificate is revoked is believed.
    Stapled,
    /// There must be one, and it must be good.
    StapleRequired,
}

/// The server name to send (`server-name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentName {
    /// The name that the certificate must have, unless that is an address.
    Checked,
    /// This one.
    Name(String),
    /// None at all.
    Nothing,
}

/// Application protocols that a backend is offered (`alpn`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendAlpn {
    /// These, best first; empty: ALPN is not sent.
    Own(Vec<String>),
    /// That one which was agreed on with the client.
    Client,
}
