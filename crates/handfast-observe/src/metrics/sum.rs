//! The cells of all threads, and what the control thread reports, become one [`Snapshot`].

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::backend::{BackendSnapshot, BackendState};
use super::configured::{Configured, ConfiguredBackend, ConfiguredService};
use super::counters::AddTo;
use super::ends::OTHER;
use super::handshakes::HandshakeSnapshot;
use super::requests::RequestCells;
use super::service::ServiceSnapshot;
use super::snapshot::Snapshot;
use super::thread::ThreadMetrics;
use crate::words::Word;

/// Adds the cells of all threads, and what is configured; nothing is [put in order](put_in_order).
pub(super) fn add(to: &mut Snapshot, threads: &[Arc<ThreadMetrics>], configured: &Configured) {
    let mut services: BTreeMap<String, ServiceSnapshot> = BTreeMap::new();
    for thread in threads {
        let blocks = thread.services.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, block) in blocks {
            block.cells.add_to(services.entry(name).or_default());
        }
        for (table, sums) in [
            (&thread.handshakes, &mut to.handshakes),
            (&thread.backend_handshakes, &mut to.backend_handshakes),
        ] {
            for (key, times) in table.entries() {
                let (version, group, signature, resumed) = key.unwrap_or((OTHER, OTHER, OTHER, false));
                let words = [version, group, signature].map(Word::from);
                times.add_to(HandshakeSnapshot::of(sums, words, resumed));
            }
        }
    }
    for service in &configured.services {
        add_configured(services.entry(service.name.clone()).or_default(), service);
    }
    to.services = services.into_iter().map(|(name, service)| ServiceSnapshot { name, ..service }).collect();
    for handshakes in [&mut to.handshakes, &mut to.backend_handshakes] {
        handshakes.sort_by(|one, other| one.key().cmp(&other.key()));
    }
    to.connections_limit = configured.connections_limit;
    to.names = configured.names.clone();
    to.threads = threads.iter().map(|thread| thread.snapshot()).collect();
}

/// Sorts a snapshot: the most frequent first, and backends in the order of their names.
pub(super) fn put_in_order(sum: &mut Snapshot) {
    for service in &mut sum.services {
        let failures = service.requests.iter_mut().map(|requests| &mut requests.failures);
        for ends in failures.chain([&mut service.ends]) {
            ends.sort_by(|a, b| b.count.cmp(&a.count).then(a.words().cmp(&b.words())));
        }
        service.backends.sort_by(|a, b| a.name.cmp(&b.name));
    }
    for handshakes in [&mut sum.handshakes, &mut sum.backend_handshakes] {
        // Stable: equally frequent ones stay in the order of their words.
        handshakes.sort_by_key(|seen| std::cmp::Reverse(seen.total.count()));
    }
}

fn add_configured(to: &mut ServiceSnapshot, service: &ConfiguredService) {
    to.connections_limit = service.connections_limit;
    to.address_limit = service.address_limit;
    to.sources = service.sources;
    to.asks_for_certificates = service.requests_certificates;
    to.maintenance.clone_from(&service.maintenance);
    if service.serves_requests {
        // With zeros: what only appears with its first request shows no growth to a monitoring system.
        RequestCells::default().add_to(to.requests.get_or_insert_default());
    }
    for ConfiguredBackend { name, weight, backup, status } in &service.backends {
        let to = BackendSnapshot::of(&mut to.backends, name);
        (to.weight, to.backup) = (Some(*weight), *backup);
        match status {
            Some(status) => status.add_to(to),
            None => to.state = BackendState::NoAddress,
        }
    }
}
