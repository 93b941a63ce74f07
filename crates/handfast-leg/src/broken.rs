//! Reason why a leg broke, and its side of the connection.
//!
//! In: a socket's fault or a session's failure. Out: a [`Broken`] with the side. The product decides the consequences
//! for a connection, and the texts for people.

use std::fmt;

use handfast_net::fault::Fault;
use handfast_tls::session::Failure;

/// Side of a connection that a leg serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Towards the peer that connected to us.
    Client,
    /// Towards the peer that we connected to.
    Backend,
}

impl Side {
    /// The word in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Backend => "backend",
        }
    }
}

/// A leg that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Side of the broken leg.
    pub side: Side,
    /// Cause of the failure.
    pub why: Why,
}

/// Cause of a leg's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its socket failed.
    Socket(Fault),
    /// Its TLS session failed: an alert came, or one of ours is on its way.
    Session(Failure),
    /// Its stream ended without close_notify: an attacker may have cut off bytes (RFC 9846 §6.1).
    Truncated,
    /// Its peer sent close_notify before the handshake was done.
    Ended,
    /// Its peer sends a handshake message that does not end.
    Endless,
}

impl Broken {
    pub(crate) fn socket(side: Side, fault: Fault) -> Self {
        Self { side, why: Why::Socket(fault) }
    }

    pub(crate) fn session(side: Side, failure: Failure) -> Self {
        Self { side, why: Why::Session(failure) }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.side.name())?;
        match &self.why {
            Why::Socket(fault) => fault.fmt(f),
            Why::Session(failure) => failure.fmt(f),
            Why::Truncated => f.write_str("FIN without close_notify"),
            Why::Ended => f.write_str("close_notify in the middle of the handshake"),
            Why::Endless => f.write_str("a handshake message without an end"),
        }
    }
}

impl std::error::Error for Broken {}
