//! PROXY headers that a service accepts, and those that it sends (`[service.proxy-protocol]`).

use std::fmt;

use handfast_net::prefix::Prefix;
use handfast_wire::proxy_header::Version;

/// PROXY headers of a service, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Clients that must send a header before anything else; others must not send one.
    pub accept_from: Vec<ProxySender>,
    /// Version of the header that is sent to backends before anything else; `None`: no header.
    pub send: Option<Version>,
    /// Parts of the client's certificate that are sent to a backend.
    pub client_certificate: SentCertificate,
}

/// A sender of clients' addresses (`accept-from`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxySender {
    /// Clients with these addresses.
    Prefix(Prefix),
    /// Clients of a unix socket of the service.
    Unix,
}

impl fmt::Display for ProxySender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// The part of the client's certificate in a header of version 2 (`client-certificate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SentCertificate {
    /// Only the fact that there was one, or not.
    #[default]
    Off,
    /// Its subject's Common Name.
    CommonName,
    /// The Common Name, and the whole certificate.
    Der,
}
