//! Errors between the bare relay and its peers.

use std::fmt;

use handfast_leg::Broken;
use handfast_net::fault::Fault;

/// Bytes each way in a standard transaction.
pub(in crate::speed) const EXCHANGE: usize = 4_096;

/// Failure of a connection to do its work; only the first one of a measurement is reported.
#[derive(Debug)]
pub(super) enum RelayFailure {
    /// A call on a socket failed; what it was for.
    Socket(&'static str, Fault),
    /// The relay's own leg broke.
    Leg(Broken),
    /// A peer ended too early; which one, and when.
    Ended(&'static str),
    /// Only this number of bytes came back before the end.
    TooFew(usize),
    /// More came back than was sent.
    TooMany,
    /// Nothing moved for too long.
    Silent,
}

impl RelayFailure {
    /// For `map_err`: a socket's fault, and what the call was for.
    pub(super) fn socket(act: &'static str) -> impl FnOnce(Fault) -> Self {
        move |fault| Self::Socket(act, fault)
    }
}

impl fmt::Display for RelayFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(act, fault) => write!(f, "{act}: {fault}"),
            Self::Leg(broken) => broken.fmt(f),
            Self::Ended(what) => f.write_str(what),
            Self::TooFew(received) => write!(f, "{received} bytes came back, expected {EXCHANGE}"),
            Self::TooMany => write!(f, "more than {EXCHANGE} bytes came back"),
            Self::Silent => f.write_str("nothing moved for too long"),
        }
    }
}
