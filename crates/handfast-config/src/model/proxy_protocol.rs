//! PROXY headers that a service accepts, and those that it sends (`[service.proxy-protocol]`).

use std::fmt;
use std::path::PathBuf;

use handfast_net::prefix::Prefix;

/// PROXY headers of a service, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Clients that must send a header before anything else; others must not send one.
    pub accept_from: Vec<ProxySender>,
    /// Files with addresses of more of them.
    pub accept_from_files: Vec<PathBuf>,
    /// Header that is sent to backends before anything else; `None`: no header.
    pub send: Option<SentHeader>,
    /// Parts of the client's certificate that are sent to a backend.
    pub client_certificate: SentCertificate,
}

/// The first bytes that backends receive (`send`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentHeader {
    /// A PROXY header of version 1.
    V1,
    /// A PROXY header of version 2.
    V2,
    /// The client's address in bytes, behind the number of its family (hitch's `write-ip`).
    Address,
}

impl fmt::Display for SentHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "a PROXY header v1",
            Self::V2 => "a PROXY header v2",
            Self::Address => "the client's address in bytes",
        })
    }
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
    /// The Common Name, and the certificate in PEM where hitch's backends look for it.
    Hitch,
}
