//! What the control thread knows of limits, backends and names: it is not counted by a thread, and belongs to the numbers.
//!
//! In: the state that is served, and what names resolve to. Out: rows of the snapshot, so that a backend is seen before
//! anybody has connected to it, and also when nobody can.

use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use super::snapshot::{BackendSnapshot, BackendState, ServiceSnapshot, optional_time};
use crate::standing::{Standing, State};

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
    /// Every endpoint by its name, those of rules too; without a standing: a name that has no address.
    pub(crate) backends: Vec<(String, Option<Arc<Standing>>)>,
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

/// Adds what is configured of one service to its numbers.
pub(super) fn add(to: &mut ServiceSnapshot, service: &ConfiguredService) {
    to.connections_limit = service.connections_limit;
    to.address_limit = service.address_limit;
    for (name, standing) in &service.backends {
        let place = to.backends.iter().position(|known| known.name == *name).unwrap_or_else(|| {
            to.backends.push(BackendSnapshot { name: name.clone(), ..BackendSnapshot::default() });
            to.backends.len() - 1
        });
        add_standing(&mut to.backends[place], standing.as_deref());
    }
}

fn add_standing(to: &mut BackendSnapshot, standing: Option<&Standing>) {
    let Some(standing) = standing else {
        to.state = BackendState::NoAddress;
        return;
    };
    to.failures_in_a_row = standing.failures();
    to.last_failure = standing.cause().map(|cause| cause.name());
    let trouble = standing.trouble();
    to.down_since = trouble.map(|trouble| trouble.since);
    to.pause_left_seconds = trouble.and_then(|trouble| trouble.pause_left).map(|left| left.as_secs_f64());
    to.state = match (trouble, standing.state()) {
        (None, _) => BackendState::Up,
        (Some(_), State::OnTrial) => BackendState::OnTrial,
        (Some(_), _) => BackendState::Down,
    };
}
