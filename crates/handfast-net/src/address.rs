//! Address to listen on or to connect to: an IP address and port, or a unix socket's path.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address to listen on or to dial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A unix socket's path.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    /// As it is written in a configuration: `127.0.0.1:8443`, `[::1]:8443`, `unix:/run/x.sock`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
