//! What the control thread knows of limits, backends and names: it is not counted by a thread, and belongs to the numbers.
//!
//! In: the state that is served, and what names resolve to. Out: rows of the snapshot, so that a backend is seen before
//! anybody has connected to it, and also when nobody can.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::BackendSnapshot;
use super::times::optional_time;

/// What is served now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configured {
    /// Connections that the process serves at once.
    pub(crate) connections_limit: u64,
    pub(crate) services: Vec<ConfiguredService>,
    /// Names of backends.
    pub(crate) names: Vec<NameSnapshot>,
}

/// One service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfiguredService {
    pub(crate) name: String,
    pub(crate) connections_limit: Option<u64>,
    pub(crate) address_limit: Option<u64>,
    /// Source addresses that its connections to backends come from: `None`: as the kernel chooses; 0: the clients' own.
    pub(crate) sources: Option<u64>,
    /// Whether clients are asked for certificates.
    pub(crate) asks_for_certificates: bool,
    /// Every endpoint by its name, those of rules too.
    pub(crate) backends: Vec<ConfiguredBackend>,
}

/// One backend.
#[derive(Clone, Debug)]
pub(crate) struct ConfiguredBackend {
    pub(crate) name: String,
    /// Where it is written first.
    pub(crate) weight: u32,
    pub(crate) backup: bool,
    /// `None`: a name that has no address.
    pub(crate) status: Option<Arc<dyn BackendStatus>>,
}

/// What is known of a backend beside what workers count: whether it is up, since when not, and the reason.
pub trait BackendStatus: fmt::Debug + Send + Sync {
    /// Adds it to the backend's numbers.
    fn add_to(&self, to: &mut BackendSnapshot);
}

/// A backend's name, and how asking for it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NameSnapshot {
    /// As it is written in the configuration, with the port.
    pub name: String,
    /// The services that dial it.
    pub services: Vec<String>,
    /// What it stands for now; empty when it was never resolved.
    pub addresses: Vec<String>,
    /// Questions that were answered with an address.
    pub answered: u64,
    /// Questions that were not.
    pub failed: u64,
    /// Why the last question was not; `None` when it was.
    pub problem: Option<String>,
    /// Since when none was.
    #[serde(serialize_with = "optional_time")]
    pub failing_since: Option<SystemTime>,
}
