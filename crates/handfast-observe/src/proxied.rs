//! What the PROXY header of a proxy in front says beside the client's address.

use std::fmt;
use std::net::SocketAddr;

use handfast_wire::proxy_header::Version;

/// What a proxy in front said, beside the client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxied {
    /// The proxy: who connected to us.
    pub by: ProxiedBy,
    /// The form of its header.
    pub version: Version,
    /// It speaks for itself (LOCAL), as it does to check whether we listen.
    pub is_local: bool,
    /// Where the client connected to; `None` where the socket's addresses count.
    pub destination: Option<SocketAddr>,
    /// The host name that the client asked for there, UTF-8 and otherwise unchecked.
    pub authority: Option<Box<str>>,
    /// The application protocol that was agreed on there.
    pub alpn: Option<Box<[u8]>>,
    /// The connection's name there.
    pub unique_id: Option<Box<[u8]>>,
}

/// Who sent a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxiedBy {
    /// The socket's address.
    Address(SocketAddr),
    /// Somebody on a unix socket.
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
