//! What a configuration means: parsed types without impossible states. Made by `file.rs`, run by `state.rs`.
//!
//! Nothing here opens a file or a socket; a [`Config`] that exists has been checked for everything that can be
//! checked without the machine.

use std::path::PathBuf;
use std::time::Duration;

pub use handfast_net::address::Address;
use handfast_net::stream::Patience;

mod backend;
mod check;

pub use backend::{Backend, Balance, Target};
pub use check::{Check, CheckKind};

pub use super::files::Places;
pub use backend_tls::{BackendAlpn, BackendTls, BackendVerification, SentName};

mod backend_tls;

mod admission;
mod connect_through;
mod proxy_protocol;
mod source;

pub use admission::{Admission, HandshakeRate};
pub use client_certificates::{ClientCertificates, ClientChecks};
pub use connect_through::{ConnectThrough, TunnelKind};
pub use proxy_protocol::{ProxyProtocol, ProxySender, SentCertificate};
pub use source::Source;
mod starttls;

pub use starttls::Starttls;

mod client_certificates;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Settings of the whole process.
    pub process: Process,
    /// The access log.
    pub access_log: AccessLog,
    /// The admin listener; `None` when it is off.
    pub admin: Option<Address>,
    /// Names under which the admin listener may be asked, in lower case; wildcards as `*.example.org`.
    pub admin_hosts: Vec<String>,
    /// The services, in the order written; at least one.
    pub services: Vec<Service>,
    /// Where the files are named, for messages about them.
    pub places: Places,
}

/// What concerns the process as a whole (`[process]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Worker threads; `None`: one for each CPU this process may run on.
    pub threads: Option<usize>,
    /// User to become after binding.
    pub user: Option<String>,
    /// Group to become after binding; `None`: the user's own.
    pub group: Option<String>,
    /// Connections served at once by the whole process; `None`: what the file limit allows.
    pub max_connections: Option<usize>,
    /// How long a stop goes on serving while it says that it is not ready.
    pub drain_delay: Duration,
    /// How long a stop waits for connections to end by themselves.
    pub drain: Duration,
    /// How often changed files are looked for, beside the kernel's notifications.
    pub watch_interval: Duration,
    /// How long a certificate is served on whose file was removed.
    pub keep_removed_certificates: Duration,
    /// Files with lists of keys that are known to others.
    pub weak_keys: Vec<PathBuf>,
    /// Where the process can be asked to be replaced; `None`: nowhere.
    pub upgrade_socket: Option<PathBuf>,
    /// Whether a process of their own holds the private keys.
    pub private_keys_apart: bool,
    /// Whether it goes into a sandbox once it has bound its addresses.
    pub sandbox: bool,
    /// Folders, and files, that reloads may read beside those that the configuration names at the start.
    pub sandbox_folders: Vec<PathBuf>,
}

/// Where the access log goes (`[access-log]`).
#[derive(Clone, Debug, PartialEq)]
pub enum AccessLog {
    /// No access log.
    Off,
    /// One JSON line for each connection, to standard output.
    Stdout,
    /// To a file, reopened on USR1.
    File(PathBuf),
    /// To the syslog daemon at this unix socket, one datagram a line.
    Syslog(PathBuf),
    /// To systemd's journal at this unix socket, one entry a line.
    Journald(PathBuf),
}

/// One service: where it listens, with what it serves TLS, and where it goes (`[[service]]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name in logs and metrics.
    pub name: String,
    /// Where it listens; at least one.
    pub listen: Vec<Address>,
    /// Mode bits of unix listeners.
    pub listen_mode: u32,
    /// Connections served at once; `None`: only the process limit.
    pub max_connections: Option<usize>,
    /// Connections served at once for one client address; `None`: no limit.
    pub max_connections_per_address: Option<usize>,
    /// Whom it lets in by address.
    pub admission: Admission,
    /// TLS towards clients; `None` where they are plain, or all passed through.
    pub tls: Option<Tls>,
    /// What becomes of clients that no rule is about.
    pub clients: Clients,
    /// What plain HTTP on a port for TLS gets.
    pub plain_http: PlainHttp,
    /// Exceptions for certain names; the first that fits is used.
    pub names: Vec<NameRule>,
    /// TLS towards the backends; `None`: they are plain.
    pub backend_tls: Option<BackendTls>,
    /// The proxy that they are reached through; `None`: they are dialled directly.
    pub connect_through: Option<ConnectThrough>,
    /// Its backends; at least one.
    pub backends: Vec<Backend>,
    /// How a backend is picked.
    pub balance: Balance,
    /// Where connections to them come from.
    pub source: Source,
    /// How long the share of a backend that came up grows to its weight; zero: it has all of it at once.
    pub slow_start: Duration,
    /// What its clients speak before TLS; `None`: TLS from the first byte.
    pub starttls: Option<Starttls>,
    /// How they are checked; `None`: not at all.
    pub check: Option<Check>,
    /// What a client's FIN without close_notify is taken for.
    pub missing_close_notify: MissingCloseNotify,
    /// PROXY headers from clients and to backends.
    pub proxy_protocol: ProxyProtocol,
    /// Its limits in time and size.
    pub limits: Limits,
}

/// How clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// By TLS that ends here.
    Tls,
    /// By TLS that is passed on as it is (`pass-through`).
    PassedThrough,
    /// In plain text (`client-tls = false`).
    Plain,
}

/// What plain HTTP on a port for TLS gets (`plain-http`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// 400, and a sentence that says why.
    Refuse,
    /// 308 to the same place by https.
    Redirect,
}

/// What a FIN without close_notify is taken for (`missing-close-notify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCloseNotify {
    /// A stream that was cut: the backend is reset.
    Abort,
    /// An end in order: the backend gets a FIN, and its answer is delivered.
    End,
}

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
    /// Whether, and against whom, client certificates are checked.
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
    /// File that keeps the keys over restarts and machines.
    pub key_file: Option<PathBuf>,
    /// How long one key encrypts new tickets.
    pub rotate: Duration,
    /// How long a ticket is accepted.
    pub lifetime: Duration,
}

/// An exception for certain names (`[[service.rule]]`).
#[derive(Clone, Debug, PartialEq)]
pub struct NameRule {
    /// Exact names and wildcards (`*.example.org`), in lower case; empty: every name, and none.
    pub names: Vec<String>,
    /// Application protocols, one of which a client must offer; empty: whatever it offers.
    pub client_alpn: Vec<String>,
    /// Instead of the service's: whether clients are passed through.
    pub pass_through: Option<bool>,
    /// Instead of the service's policy.
    pub policy: Option<Policy>,
    /// Instead of the service's rule.
    pub client_certificates: Option<ClientCertificates>,
    /// Instead of the service's protocols.
    pub alpn: Option<Vec<String>>,
    /// Instead of the service's backends.
    pub backends: Option<Vec<Backend>>,
    /// Instead of the service's TLS towards them; the inner `None`: plain text.
    pub backend_tls: Option<Option<BackendTls>>,
}

/// Whether `name`, in lower case, is one of `patterns`: names, and wildcards for exactly one label (RFC 9525 §6.3). **Cost**: linear in
/// the patterns.
pub fn name_fits(patterns: &[String], name: &str) -> bool {
    let parent = name.split_once('.').map(|(_, parent)| parent);
    patterns.iter().any(|pattern| match pattern.strip_prefix("*.") {
        Some(fixed) => parent == Some(fixed),
        None => pattern == name,
    })
}

impl Limits {
    /// How long a silent peer is borne with, as the sockets of both sides are told.
    pub fn patience(&self) -> Patience {
        Patience { unacknowledged: self.unacknowledged, keepalive: self.keepalive }
    }
}

/// Limits in time and size (`[service.limits]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From accept to relay; absolute, nothing extends it.
    pub handshake: Duration,
    /// Bytes of ClientHello, headers of its records included.
    pub hello_bytes: usize,
    /// For connecting to one backend.
    pub connect: Duration,
    /// Without a byte in either direction; zero: no limit.
    pub idle: Duration,
    /// Without a byte when one direction has ended; zero: no limit.
    pub half_closed: Duration,
    /// Without a byte from the client when the backend has ended and the client has everything; zero: no limit of its own.
    pub backend_ended: Duration,
    /// Age of a connection; zero: no limit.
    pub lifetime: Duration,
    /// TCP_USER_TIMEOUT on both sides: sent bytes unacknowledged for so long end the connection.
    pub unacknowledged: Duration,
    /// Idle time before the first TCP keep-alive probe, on both sides; zero: no probes.
    pub keepalive: Duration,
    /// How often a backend's name is resolved again; zero: when its TTL ends.
    pub resolve: Duration,
    /// Failures in a row after which a backend is marked down.
    pub backend_failures: u32,
    /// How long a backend that is marked down is not used before one connection tries it.
    pub backend_retry: Duration,
}
