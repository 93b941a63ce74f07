//! Limits of a service in time and size, and which clients it admits by address.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use handfast_net::prefix::Prefix;
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
    /// Interval after which a backend's name is resolved again; zero: when its TTL ends.
    pub resolve: Duration,
    /// Failures in a row after which a backend is marked down.
    pub backend_failures: u32,
    /// Time for which a backend that is marked down is not used, before one connection tries it.
    pub backend_retry: Duration,
}

impl Limits {
    /// Timeouts for unresponsive peers, for the sockets of both sides.
    pub fn socket_timeouts(&self) -> SocketTimeouts {
        SocketTimeouts { unacknowledged: self.unacknowledged, keepalive: self.keepalive }
    }
}

/// Admission of clients to a service by address alone (`allow-clients`, `refuse-clients`, `[service.handshake-rate]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Only these; empty, without files: all.
    pub allow: Vec<Prefix>,
    /// Files with more of them.
    pub allow_files: Vec<PathBuf>,
    /// None of these, even where `allow` has them.
    pub refuse: Vec<Prefix>,
    /// Files with more of them.
    pub refuse_files: Vec<PathBuf>,
    /// Limit on the rate of handshakes that clients of one prefix begin; `None`: no limit.
    pub rate: Option<HandshakeRate>,
}

impl Admission {
    /// Returns true if every client is admitted.
    pub fn lets_everybody_in(&self) -> bool {
        let Self { allow, allow_files, refuse, refuse_files, rate } = self;
        let has_files = !allow_files.is_empty() || !refuse_files.is_empty();
        allow.is_empty() && refuse.is_empty() && !has_files && rate.is_none()
    }
}

/// A limit on new handshakes for each prefix of client addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeRate {
    /// Handshakes a second that a prefix may begin in the long run; not zero.
    pub per_second: u32,
    /// Handshakes that it may begin at once after a pause; not zero.
    pub burst: u32,
    /// IPv4 clients with this number of equal leading bits are counted together; at most 32.
    pub prefix_v4: u8,
    /// The same for IPv6; at most 128.
    pub prefix_v6: u8,
}

impl HandshakeRate {
    /// The prefix that a client is counted in.
    pub fn prefix_of(&self, address: IpAddr) -> Prefix {
        Prefix::within(address, self.prefix_v4, self.prefix_v6)
    }
}
