//! Facts that the PROXY header of a proxy in front reports besides the client's address.

use std::fmt;
use std::net::SocketAddr;

use handfast_wire::proxy_header::Version;

/// Facts that a proxy in front reported, besides the client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxied {
    /// The proxy that connected to us.
    pub by: ProxiedBy,
    /// The form of its header.
    pub version: Version,
    /// It connects for itself (LOCAL), for example for a health check.
    pub is_local: bool,
    /// Address that the client connected to; `None` where the socket's addresses count.
    pub destination: Option<SocketAddr>,
    /// The host name that the client requested there, UTF-8 and otherwise unchecked.
    pub authority: Option<Box<str>>,
    /// The application protocol that was agreed on there.
    pub alpn: Option<Box<[u8]>>,
    /// The connection's name there.
    pub unique_id: Option<Box<[u8]>>,
}

/// The sender of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxiedBy {
    /// The socket's address.
    Address(SocketAddr),
    /// A process on a unix socket.
    Unix,
}

impl fmt::Display for ProxiedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}
