//! What the admin listener asks of the running program; `run.rs` answers, a fake does in tests.

use std::pin::Pin;

use serde::Serialize;

use crate::metrics::Snapshot;

/// The outcome of a reload, when it is known: what is served now, or every problem found, as text for a person.
pub type ReloadOutcome = Pin<Box<dyn Future<Output = Result<String, String>>>>;

/// The running program, as the admin listener sees it.
pub trait Control {
    /// Whether new connections should be sent here; if not, why, in a few words (`draining: 12 connections left`).
    fn ready(&self) -> Result<(), String>;

    /// Whether the admin listener may be asked under this name, which is in lower case and without a port.
    fn has_host(&self, name: &str) -> bool;

    /// Whether this program is about to end, so that its successor, which has so many threads, may have the admin address; if
    /// not, why.
    fn hand_over(&self, threads: u32) -> Result<(), String>;

    /// Reads the configuration and its files again, and serves it if it is right.
    ///
    /// **Cancel:** the future may be dropped when the client goes away; the reload must then end by itself, one way or the other.
    fn reload(&self) -> ReloadOutcome;

    /// Stops accepting and lets connections end; the program then stops. May be called again.
    fn drain(&self);

    /// What listens and where it goes.
    fn overview(&self) -> Overview;

    /// The numbers of this moment: [`crate::metrics::Registry::snapshot`].
    fn snapshot(&self) -> Snapshot;
}

/// What listens and where it goes, in words.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// Where the configuration comes from: a file's path, or `embedded defaults`.
    pub configuration: String,
    /// The services, in the order of the configuration.
    pub services: Vec<ServiceOverview>,
}

/// One service in words.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ServiceOverview {
    /// Its name.
    pub name: String,
    /// Addresses it listens on.
    pub listen: Vec<String>,
    /// Its TLS policy in a few words: `modern-2026: TLS 1.2, 1.3`.
    pub policy: String,
    /// Whether client certificates are `off`, `request`ed or `require`d.
    pub client_certificates: String,
    /// Its backends, named as in the metrics.
    pub backends: Vec<String>,
    /// How one is picked: `round-robin`, `least-connections`.
    pub balance: String,
    /// Exceptions for names, one sentence each.
    pub exceptions: Vec<String>,
}
