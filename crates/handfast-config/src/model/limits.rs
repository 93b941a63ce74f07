//! Limits of a service in time and size.

use std::time::Duration;

use handfast_net::stream::SocketTimeouts;

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
    /// Without a byte from the client when the backend has ended and the client has everything; zero: no separate limit.
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

impl Limits {
    /// Timeouts for unresponsive peers, for the sockets of both sides.
    pub fn socket_timeouts(&self) -> SocketTimeouts {
        SocketTimeouts { unacknowledged: self.unacknowledged, keepalive: self.keepalive }
    }
}
