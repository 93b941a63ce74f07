//! Adding up: the cells of all threads, and what the control thread knows, become one [`Snapshot`].
//!
//! In: blocks of cells, which their threads go on writing. Out: plain values.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::backend::{BackendSnapshot, BackendState};
use super::configured::{Configured, ConfiguredBackend, ConfiguredService};
use super::counters::AddTo;
use super::ends::OTHER;
use super::handshakes::{HandshakeKey, HandshakeSnapshot};
use super::service::ServiceSnapshot;
use super::snapshot::{ProcessSnapshot, ReloadSnapshot, Snapshot};
use super::thread::ThreadMetrics;

/// Adds up the cells of all threads, and what is configured; the rest is left empty, and nothing is [put in order](put_in_order).
pub(super) fn sum(threads: &[Arc<ThreadMetrics>], configured: &Configured) -> Snapshot {
    let mut services: BTreeMap<String, ServiceSnapshot> = BTreeMap::new();
    let mut handshakes: BTreeMap<HandshakeKey, HandshakeSnapshot> = BTreeMap::new();
    let mut backend_handshakes: BTreeMap<HandshakeKey, HandshakeSnapshot> = BTreeMap::new();
    for thread in threads {
        let blocks = thread.services.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, block) in blocks {
            block.cells.add_to(services.entry(name).or_default());
        }
        for (table, sums) in
            [(&thread.handshakes, &mut handshakes), (&thread.backend_handshakes, &mut backend_handshakes)]
        {
            for (key, times) in table.entries() {
                times.add_to(sums.entry(key.unwrap_or((OTHER, OTHER, OTHER, false))).or_default());
            }
        }
    }
    for service in &configured.services {
        add_configured(services.entry(service.name.clone()).or_default(), service);
    }
    Snapshot {
        services: services.into_iter().map(|(name, service)| ServiceSnapshot { name, ..service }).collect(),
        handshakes: by_their_words(handshakes),
        backend_handshakes: by_their_words(backend_handshakes),
        connections_limit: configured.connections_limit,
        connections_draining: 0,
        names: configured.names.clone(),
        threads: threads.iter().map(|thread| thread.snapshot()).collect(),
        reload: ReloadSnapshot::default(),
        certificates: Vec::new(),
        revocation_lists: Vec::new(),
        file_problems: Vec::new(),
        key_process: None,
        access_log_written: 0,
        access_log_dropped: 0,
        process: ProcessSnapshot::default(),
    }
}

/// What is frequent comes first, and backends in the order of their names.
pub(super) fn put_in_order(sum: &mut Snapshot) {
    for service in &mut sum.services {
        service.ends.sort_by(|a, b| b.count.cmp(&a.count).then(a.words().cmp(&b.words())));
        service.backends.sort_by(|a, b| a.name.cmp(&b.name));
    }
    for handshakes in [&mut sum.handshakes, &mut sum.backend_handshakes] {
        // Stable: equally frequent ones stay in the order of their words.
        handshakes.sort_by_key(|seen| std::cmp::Reverse(seen.total.count()));
    }
}

fn by_their_words(handshakes: BTreeMap<HandshakeKey, HandshakeSnapshot>) -> Vec<HandshakeSnapshot> {
    handshakes
        .into_iter()
        .map(|((version, group, signature, resumed), seen)| HandshakeSnapshot {
            version,
            group,
            signature,
            resumed,
            ..seen
        })
        .collect()
}

/// Adds what is configured of one service to its numbers.
fn add_configured(to: &mut ServiceSnapshot, service: &ConfiguredService) {
    to.connections_limit = service.connections_limit;
    to.address_limit = service.address_limit;
    to.sources = service.sources;
    to.asks_for_certificates = service.asks_for_certificates;
    for ConfiguredBackend { name, weight, backup, status } in &service.backends {
        let to = BackendSnapshot::of(&mut to.backends, name);
        (to.weight, to.backup) = (Some(*weight), *backup);
        match status {
            Some(status) => status.add_to(to),
            None => to.state = BackendState::NoAddress,
        }
    }
}
