//! TLS towards the backends (`[service.backend-tls]`).

use std::path::PathBuf;

use handfast_tls::Pin;

use super::starttls::Starttls;
use super::tls::{MissingCloseNotify, Policy};

/// How backends are spoken to in TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTls {
    /// What is asked of a backend's certificate.
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
    /// Whether sessions are resumed.
    pub resumption: bool,
    /// What a backend's FIN without close_notify is taken for.
    pub missing_close_notify: MissingCloseNotify,
}

/// What is asked of a backend's certificate (`verify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendVerification {
    /// A trusted authority signed it, it is for the name, and its key is pinned if there are pins.
    Full,
    /// Its key is pinned, and nothing else.
    Pins,
    /// As `Full`, for any name.
    AnyName,
    /// Nothing.
    Nothing,
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
