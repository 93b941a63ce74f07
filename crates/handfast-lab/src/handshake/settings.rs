//! Settings of a measurement of handshakes.

use std::time::Duration;

/// The request.
#[derive(Clone, Debug)]
pub struct HandshakeSettings {
    /// There and back.
    pub rtt: Duration,
    /// Number of times that each handshake is made; the one in the middle is shown.
    pub runs: usize,
    /// Names of the servers; empty: all that are installed.
    pub servers: Vec<String>,
}
