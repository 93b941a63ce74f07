//! Requested measurements of one target, and the raw results of its connections.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use handfast_report::both_ends::Seen;
use handfast_tls::client::ClientSettings;

use crate::attempt::Attempt;
use crate::error::ProbeError;
use crate::keep_alive::KeepAlive;
use crate::limit::Limit;
use crate::page::Page;
use crate::target::{Family, Target};

/// Requested measurements.
#[derive(Clone, Debug)]
pub struct ProbeSettings {
    /// The target.
    pub target: Target,
    /// Family of the addresses to use.
    pub family: Family,
    /// Number of connections of each kind; at least one.
    pub runs: usize,
    /// Timeout of one step of a connection.
    pub timeout: Duration,
    /// Settings of the handshake, and of the verification of the certificate. SNI and the name to verify are the target's where
    /// `server_name` is `None` and `sni` is true.
    pub settings: ClientSettings,
    /// True to send a name at all.
    pub sni: bool,
    /// Requests on one connection, where the target is a URL.
    pub requests: u32,
    /// True to try early data too, where the target is a URL.
    pub early_data: bool,
    /// The longest time to keep a connection open, where the target is a URL.
    pub keep_alive: Option<Duration>,
    /// The page to compute times for.
    pub page: Option<Page>,
    /// Bounds.
    pub limits: Vec<Limit>,
    /// Name and version of the program.
    pub program: String,
}

/// Everything that was measured of one target.
pub(crate) struct Measured {
    pub(crate) options: ProbeSettings,
    pub(crate) started: SystemTime,
    pub(crate) server_name: Option<String>,
    pub(crate) lookups: Vec<f64>,
    pub(crate) address: SocketAddr,
    pub(crate) others: Vec<Other>,
    pub(crate) first: Attempt,
    pub(crate) full: Vec<Attempt>,
    pub(crate) resumed: Vec<Attempt>,
    pub(crate) early: Vec<Attempt>,
    pub(crate) failed: Vec<ProbeError>,
    /// Reason why the certificate was refused; `None`: it was not verified, or is good.
    pub(crate) distrust: Option<String>,
    pub(crate) ticket: Option<handfast_tls::client::observed::Ticket>,
    pub(crate) staple: usize,
    pub(crate) kept: Option<KeepAlive>,
    /// All connections together.
    pub(crate) seen: Seen,
}

/// Another address of the name.
pub(crate) struct Other {
    pub(crate) address: SocketAddr,
    pub(crate) made: Vec<Attempt>,
    pub(crate) takes_tickets: Option<bool>,
    pub(crate) error: Option<ProbeError>,
}
