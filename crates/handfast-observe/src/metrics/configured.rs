//! Limits, backends and names that the control thread reports, so that a backend is visible before the
//! first connection to it, and also when it is unreachable.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::backend::BackendSnapshot;
use super::maintenance::MaintenanceSnapshot;
use super::snapshot::CacheSnapshot;
use super::times;
use super::transfer::{Counts, Transfer, transferred};

/// Configuration that is served now: limits, services and names of backends.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// Connections that the process serves at once.
    pub connections_limit: u64,
    /// Every service.
    pub services: Vec<ConfiguredService>,
    /// Names of backends.
    pub names: Vec<NameSnapshot>,
}

/// One service.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredService {
    /// Its name in the configuration.
    pub name: String,
    /// Connections that it serves at once (`max-connections`).
    pub connections_limit: Option<u64>,
    /// Connections of one client address (`max-connections-per-address`).
    pub address_limit: Option<u64>,
    /// Source addresses that its connections to backends come from: `None`: as the kernel chooses; 0: the clients' own.
    pub sources: Option<u64>,
    /// True if certificates are requested from clients.
    pub requests_certificates: bool,
    /// True if it serves HTTP requests.
    pub serves_requests: bool,
    /// Its cache, if it has one.
    pub cache: Option<Arc<dyn CacheStatus>>,
    /// Its maintenance; `None`: it serves.
    pub maintenance: Option<MaintenanceSnapshot>,
    /// Every endpoint by its name, those of rules too.
    pub backends: Vec<ConfiguredBackend>,
}

/// One backend.
#[derive(Clone, Debug)]
pub struct ConfiguredBackend {
    /// Its name in metrics: the address, or the name and what it resolved to.
    pub name: String,
    /// Weight where it is written first.
    pub weight: u32,
    /// True if it is used only when no other backend is up.
    pub backup: bool,
    /// `None`: a name that has no address.
    pub status: Option<Arc<dyn BackendStatus>>,
}

/// Status of a backend beside the counters of workers: whether it is up, since when not, and the reason.
pub trait BackendStatus: fmt::Debug + Send + Sync {
    /// Adds it to the backend's numbers.
    fn add_to(&self, to: &mut BackendSnapshot);
}

/// Counters of the cache of a service.
pub trait CacheStatus: fmt::Debug + Send + Sync {
    /// Returns its counters. **Cost**: may wait for the disk.
    fn snapshot(&self) -> CacheSnapshot;
}

/// A backend's name, and the state of its lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameSnapshot {
    /// As it is written in the configuration, with the port.
    pub name: String,
    /// The services that dial it.
    pub services: Vec<String>,
    /// Addresses that it resolves to now; empty when it was never resolved.
    pub addresses: Vec<String>,
    /// Lookups that were answered with an address.
    pub answered: u64,
    /// Lookups that failed.
    pub failed: u64,
    /// Reason why the last lookup failed; `None` when it was answered.
    pub problem: Option<String>,
    /// Start of the time in which every lookup has failed.
    #[serde(default, with = "times::optional")]
    pub failing_since: Option<SystemTime>,
}

transferred! { NameSnapshot { answered: u64 => ["answered"]; failed: u64 => ["failed"]; } derived {} }

impl Transfer for Vec<NameSnapshot> {
    fn write(&self, words: &[&str], to: &mut Counts) {
        self.iter().for_each(|name| name.write(&[words, &[&name.name]].concat(), to));
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let (name, rest) = words.split_first()?;
        self.iter_mut().find(|known| known.name == *name)?.place(rest)
    }
}
