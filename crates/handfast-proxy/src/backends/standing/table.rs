//! The standings of one service's backends by name, and the states that an operator requested, also for names without a backend now.

#![expect(clippy::disallowed_types, reason = "locked when threads take over a state, never on the path")]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Standing, TransferredStanding};
use handfast_observe::operator_state::OperatorState;

/// The standings of one service's backends, shared by the states of the process that have the service.
#[derive(Debug)]
pub(crate) struct Standings {
    service: Box<str>,
    table: Mutex<StandingTable>,
}

#[derive(Debug, Default)]
struct StandingTable {
    /// Weak, so that unused addresses take no room.
    by_name: HashMap<Box<str>, Weak<Standing>>,
    /// With this number, unused ones are removed.
    full: usize,
    /// By a backend's name, or by the name in the configuration that resolves to several.
    requested_states: BTreeMap<Box<str>, OperatorState>,
}

impl StandingTable {
    /// By the backend's own name, or else by the one that it was resolved from.
    fn operator_state(&self, name: &str) -> Option<OperatorState> {
        let by_source = || self.requested_states.get(&*resolved_from(name)?);
        self.requested_states.get(name).or_else(by_source).copied()
    }
}

/// `db.example:5432` of `db.example=10.0.0.9:5432`: as written in the configuration.
fn resolved_from(name: &str) -> Option<Box<str>> {
    let (source, address) = name.split_once('=')?;
    let (_, port) = address.rsplit_once(':')?;
    Some(format!("{source}:{port}").into())
}

impl Standings {
    pub(crate) fn new(service: &str) -> Arc<Self> {
        Arc::new(Self { service: service.into(), table: Mutex::default() })
    }

    /// The standing of a backend, made when there is none yet.
    ///
    /// For when a state is taken over or a name resolves to something else: it takes a lock.
    pub(crate) fn of(&self, name: &str) -> Arc<Standing> {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = known.by_name.get(name).and_then(Weak::upgrade) {
            return standing;
        }
        if known.by_name.len() >= known.full {
            known.by_name.retain(|_, standing| standing.strong_count() > 0);
            known.full = known.by_name.len() * 2 + 16;
        }
        let standing = Arc::new(Standing::new(&self.service, name));
        standing.set_operator_state(known.operator_state(name));
        known.by_name.insert(name.into(), Arc::downgrade(&standing));
        standing
    }

    /// Sets the state that an operator requests for a backend, or for all that a name of the configuration resolves to, now and later.
    pub(crate) fn set_operator_state(&self, name: &str, requested: OperatorState) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        // A request for all of them replaces those for each.
        known
            .requested_states
            .retain(|requested_name, _| resolved_from(requested_name).as_deref() != Some(name));
        known.requested_states.remove(name);
        // The default is stored only where it contradicts a request for all of them.
        if requested != OperatorState::Up || known.operator_state(name).is_some() {
            known.requested_states.insert(name.into(), requested);
        }
        for (name, standing) in &known.by_name {
            if let Some(standing) = standing.upgrade() {
                standing.set_operator_state(known.operator_state(name));
            }
        }
    }

    /// Forgets requests for backends that are not configured any more; those that are left.
    pub(crate) fn retain_operator_states(
        &self,
        is_configured: impl Fn(&str) -> bool,
    ) -> Vec<(String, OperatorState)> {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        known.requested_states.retain(|name, _| {
            is_configured(name) || resolved_from(name).is_some_and(|source| is_configured(&source))
        });
        known.requested_states.iter().map(|(name, requested)| (name.to_string(), *requested)).collect()
    }

    /// The states that an operator requested, by name and word; and the backends that are not up.
    pub(crate) fn transferred(&self) -> (Vec<(String, String)>, Vec<TransferredStanding>) {
        let known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let states = known.requested_states.iter();
        let states = states.map(|(name, requested)| (name.to_string(), requested.name().to_owned()));
        let standings = known.by_name.values().filter_map(Weak::upgrade);
        (states.collect(), standings.filter_map(|standing| standing.transferred()).collect())
    }

    /// Restores a standing of the previous process, for as long as the returned value is held or a thread uses it.
    #[must_use = "an unused standing is forgotten"]
    pub(crate) fn restore(&self, transferred: &TransferredStanding) -> Arc<Standing> {
        let standing = self.of(&transferred.name);
        standing.restore(transferred);
        standing
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).by_name.len()
    }
}
