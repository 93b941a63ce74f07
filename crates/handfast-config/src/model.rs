//! The meaning of a configuration: parsed types without impossible states. Made by `file.rs`, run by `state.rs`.
//!
//! Nothing here opens a file or a socket; a [`Config`] that exists has been checked for everything that can be
//! checked without the machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use handfast_net::address::Address;

mod access;
pub(crate) mod acme;
mod fleet;
mod backend;
pub(crate) mod cache;
mod check;
mod client_certificates;
pub(crate) mod compression;
mod files;
mod http;
mod limits;
mod maintenance;
mod places;
mod program;
mod proxy_protocol;
mod request_rules;
mod restart;
mod route;
mod tls;

pub use access::{
    BasicAuth, ForwardAuth, Mirror, RateKey, RequestLimits, RequestRate, RouteAccess, RouteLimits, Share,
    Sticky,
};
pub use acme::{Acme, AcmeChallenge, AcmeIssuer};
pub use backend::{Backend, Balance, ConnectThrough, Source, Target, TunnelKind};
pub use cache::{Cache, PathPatterns};
pub use check::{Check, CheckKind};
pub use client_certificates::{ClientCertificates, ClientChecks};
pub use compression::{Compression, MediaRanges, RouteCompression};
pub use files::{ErrorPages, ErrorStatus, Files, RouteErrorPages};
pub use fleet::Fleet;
pub use http::{
    BackendVersion, Concurrency, Forwarded, HalfClose, Http, HttpTimeouts, PoolLimits, RequestRoute,
    RouteAction,
};
pub use limits::{Admission, HandshakeRate, Limits};
pub use maintenance::Maintenance;
pub use places::Places;
pub use program::{OnlyClient, Program};
pub use proxy_protocol::{ProxyProtocol, ProxySender, SentCertificate, SentHeader};
pub use request_rules::{FieldChange, FieldRule, FixedResponse, Piece, RequestRules, Template, Variable};
pub(crate) use restart::RestartSetting;
pub use restart::RestartSettings;
pub use route::{BackendSet, Route, RouteTls, backend_sets, each_once};
pub use tls::{
    BackendAlpn, BackendRevocation, BackendTls, BackendVerification, CertificateEntry, MissingCloseNotify,
    PlainHttp, Policy, SentName, Starttls, Tickets, Tls, UnknownName,
};

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Settings of the whole process.
    pub process: Process,
    /// The access log.
    pub access_log: AccessLog,
    /// The form of its lines.
    pub access_log_format: LogFormat,
    /// Names of query parameters whose values are in no line.
    pub access_log_redact: Vec<String>,
    /// The admin listener; `None` when it is off.
    pub admin: Option<Address>,
    /// Names under which the admin listener may be asked, in lower case; wildcards as `*.example.org`.
    pub admin_hosts: Vec<String>,
    /// The file with the token for everything that changes something; `None`: none is needed.
    pub admin_token_file: Option<PathBuf>,
    /// The issuers that certificates are ordered from; `None`: none are ordered.
    pub acme: Option<Acme>,
    /// The fleet that this machine belongs to; `None`: none.
    pub fleet: Option<Fleet>,
    /// The services, in the order written, those of included files last; at least one.
    pub services: Vec<Service>,
    /// The file of each service, in the same order; empty: all are in one file.
    pub service_files: Vec<String>,
    /// Values of the keys that need a restart.
    pub restart: RestartSettings,
    /// Places where the files are named, for messages about them.
    pub places: Places,
}

/// Settings of the process as a whole (`[process]`).
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
    /// Time for which a stop continues to serve while readiness checks already fail.
    pub drain_delay: Duration,
    /// Time for which a stop waits until connections end.
    pub drain: Duration,
    /// Interval of checks for changed files, in addition to the kernel's notifications.
    pub watch_interval: Duration,
    /// Time for which a certificate is served after its file was removed.
    pub keep_removed_certificates: Duration,
    /// Files with lists of compromised keys.
    pub weak_keys: Vec<PathBuf>,
    /// Socket for requests to replace the process; `None`: there is none.
    pub upgrade_socket: Option<PathBuf>,
    /// True if a separate process holds the private keys.
    pub private_keys_apart: bool,
    /// True if the process enters a sandbox once it has bound its addresses.
    pub sandbox: bool,
    /// Folders, and files, that reloads may read beside those that the configuration names at the start.
    pub sandbox_folders: Vec<PathBuf>,
    /// Most bytes of memory for compression; `None`: a fixed amount for each worker thread.
    pub compression_memory: Option<usize>,
    /// Folder for what operators set by command; `None`: it ends with the process.
    pub state_folder: Option<PathBuf>,
}

/// Destination of the access log (`[access-log]`).
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

/// The form of the access log's lines for HTTP requests (`format`); all others are JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// JSON, with everything that is known.
    #[default]
    Json,
    /// The combined log format of NCSA and Apache httpd.
    Combined,
}

/// One service: where it listens, with what it serves TLS, and where it goes (`[[service]]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name in logs and metrics.
    pub name: String,
    /// Addresses of its listeners; none if it has an [`only_client`](Self::only_client).
    pub listen: Vec<Address>,
    /// The one client that it serves instead of those that connect.
    pub only_client: Option<OnlyClient>,
    /// Mode bits of unix listeners.
    pub listen_mode: u32,
    /// Connections served at once; `None`: only the process limit.
    pub max_connections: Option<usize>,
    /// Connections served at once for one client address; `None`: no limit.
    pub max_connections_per_address: Option<usize>,
    /// Clients that it admits, by address.
    pub admission: Admission,
    /// TLS towards clients; `None` where they are plain, or all passed through.
    pub tls: Option<Tls>,
    /// The way clients that match no rule are served.
    pub clients: Clients,
    /// The answer to plain HTTP on a port for TLS.
    pub plain_http: PlainHttp,
    /// Rules for certain names and protocols, in the order written.
    pub rules: Vec<ServiceRule>,
    /// TLS towards the backends; `None`: they are plain.
    pub backend_tls: Option<BackendTls>,
    /// The proxy that they are reached through; `None`: they are dialled directly.
    pub connect_through: Option<ConnectThrough>,
    /// Its backends; at least one.
    pub backends: Arc<[Backend]>,
    /// Method of choosing a backend.
    pub balance: Balance,
    /// Source addresses of connections to them.
    pub source: Source,
    /// Time in which the share of a backend that came up grows to its weight; zero: it has its whole share at once.
    pub slow_start: Duration,
    /// Protocol that its clients speak before TLS; `None`: TLS from the first byte.
    pub starttls: Option<Starttls>,
    /// Health checks of the backends; `None`: no checks.
    pub check: Option<Check>,
    /// The meaning of a client's FIN without close_notify.
    pub missing_close_notify: MissingCloseNotify,
    /// PROXY headers from clients and to backends.
    pub proxy_protocol: ProxyProtocol,
    /// Its limits in time and size.
    pub limits: Limits,
    /// HTTP mode; `None`: it relays bytes.
    pub http: Option<Http>,
}

/// The way clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// By TLS that ends here.
    Tls,
    /// By TLS that is passed on as it is (`pass-through`).
    PassedThrough,
    /// In plain text (`client-tls = false`).
    Plain,
}

/// An exception for certain names (`[[service.rule]]`).
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceRule {
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
    pub backends: Option<Arc<[Backend]>>,
    /// Instead of the service's TLS towards them; the inner `None`: plain text.
    pub backend_tls: Option<Option<BackendTls>>,
}

/// Returns true if `name`, in lower case, is one of `patterns`: names, and wildcards for exactly one label (RFC 9525 §6.3). **Cost**:
/// linear in the patterns.
pub fn name_fits(patterns: &[String], name: &str) -> bool {
    let parent = name.split_once('.').map(|(_, parent)| parent);
    patterns.iter().any(|pattern| match pattern.strip_prefix("*.") {
        Some(fixed) => parent == Some(fixed),
        None => pattern == name,
    })
}
