//! The steps of a transaction that are timed, by the names they have in reports and limits.

use serde::{Deserialize, Serialize};

/// The steps that are timed, in the order of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// From dialling to an established connection.
    Connect,
    /// From the ClientHello to the end of the handshake as the client sees it.
    Handshake,
    /// The same, of full handshakes only.
    HandshakeFull,
    /// The same, of resumed handshakes only.
    HandshakeResumed,
    /// From the first byte of a request to the first byte of its answer.
    FirstByte,
    /// From the first byte of a request to the last of its answer.
    Exchange,
    /// From the intended start of a transaction to the last byte of its last answer.
    Total,
    /// The same from the true start. In a stalled run it is large too, for those that were in flight.
    Service,
    /// From the intended to the true start: the generator's own delay, and waiting for a free connection.
    Lag,
}

impl Series {
    /// Every series, in the order of the path.
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::Handshake,
        Self::HandshakeFull,
        Self::HandshakeResumed,
        Self::FirstByte,
        Self::Exchange,
        Self::Total,
        Self::Service,
        Self::Lag,
    ];

    /// The word in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::HandshakeFull => "handshake-full",
            Self::HandshakeResumed => "handshake-resumed",
            Self::FirstByte => "first-byte",
            Self::Exchange => "exchange",
            Self::Total => "total",
            Self::Service => "service",
            Self::Lag => "lag",
        }
    }
}
