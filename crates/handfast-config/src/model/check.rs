//! Active checks of backends (`[service.check]`).

use std::ops::RangeInclusive;
use std::time::Duration;

/// Health checks of a service's backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Request of a check.
    pub kind: CheckKind,
    /// From the beginning of one check to that of the next.
    pub interval: Duration,
    /// From the beginning of a check to its answer.
    pub timeout: Duration,
    /// Checks in a row that pass, after which a backend that is down is up.
    pub rise: u32,
    /// Checks in a row that fail, after which one that is up is down.
    pub fall: u32,
    /// Asked at this port in place of the backend's own.
    pub port: Option<u16>,
    /// Asked in the clear also where connections to the backend use TLS.
    pub plain: bool,
}

/// The request of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// That a connection can be opened.
    Tcp,
    /// That a TLS handshake succeeds.
    Tls,
    /// An HTTP/1.1 request and the status of its answer.
    Http {
        /// Path that is requested.
        path: String,
        /// The `Host`; `None`: the backend as it is written.
        host: Option<String>,
        /// Statuses that are good.
        status: Vec<RangeInclusive<u16>>,
    },
    /// Bytes that are sent, and bytes that the answer must contain.
    SendExpect {
        /// Sent first; may be empty.
        send: Vec<u8>,
        /// Must come.
        expect: Vec<u8>,
    },
}
