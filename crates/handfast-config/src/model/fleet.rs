//! Machines that serve the same names (`[fleet]`).

use std::path::PathBuf;

/// Settings for this machine as a member of its fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// The fleet's name.
    pub name: String,
    /// The URL of the NATS server.
    pub bus: String,
    /// File of the authorities for that server; `None`: those that the machine trusts.
    pub ca: Option<PathBuf>,
    /// TLS begins before the server's greeting.
    pub tls_first: bool,
    /// File with user and password.
    pub credentials: Option<PathBuf>,
    /// File with the secret of the fleet.
    pub secret: PathBuf,
    /// This machine's name; `None`: its host name.
    pub machine: Option<String>,
}
