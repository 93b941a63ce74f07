//! Adding up: the cells of all threads, and what the control thread knows, become one [`Snapshot`].
//!
//! In: blocks of cells, which their threads go on writing. Out: plain values.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::configured::{Configured, ConfiguredBackend, ConfiguredService};
use super::handshakes::{HandshakeKey, HandshakeTimes};
use super::histogram::Distribution;
use super::service::{BackendMetrics, HeaderOutcome, Limit, ServiceMetrics};
use super::snapshot::{
    AcceptErrors, BackendSnapshot, BackendState, End, HandshakeSnapshot, ProcessSnapshot, ReloadSnapshot,
    ServiceSnapshot, Snapshot, ThreadSnapshot,
};
use super::thread::ThreadMetrics;
use handfast_tls::session::CertificateFault;

/// Adds up the cells of all threads, and what is configured; the rest is left empty, and nothing is [put in order](put_in_order).
pub(super) fn sum(threads: &[Arc<ThreadMetrics>], configured: &Configured) -> Snapshot {
    let mut services: BTreeMap<String, ServiceSnapshot> = BTreeMap::new();
    let mut handshakes: BTreeMap<HandshakeKey, HandshakeSnapshot> = BTreeMap::new();
    let mut backend_handshakes: BTreeMap<HandshakeKey, HandshakeSnapshot> = BTreeMap::new();
    for thread in threads {
        let blocks = thread.services.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, block) in blocks {
            add_service(services.entry(name).or_default(), &block);
        }
        for (key, times) in thread.handshakes.entries() {
            let key = key.unwrap_or(("other", "other", "other", false));
            add_handshakes(handshakes.entry(key).or_default(), times);
        }
        for (key, times) in thread.backend_handshakes.entries() {
            let key = key.unwrap_or(("other", "other", "other", false));
            add_handshakes(backend_handshakes.entry(key).or_default(), times);
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
        threads: threads.iter().map(|thread| thread_snapshot(thread)).collect(),
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
        service.ends.sort_by(|a, b| {
            b.count.cmp(&a.count).then((a.step, a.side, a.cause).cmp(&(b.step, b.side, b.cause)))
        });
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

fn add_service(sum: &mut ServiceSnapshot, block: &ServiceMetrics) {
    // Ends before beginnings: what comes meanwhile then shows as one connection more, never as one too few.
    sum.closed += block.closed.value();
    sum.accepted += block.accepted.value();
    for (key, cell) in block.ends.entries() {
        let (step, side, cause) =
            key.map_or(("other", "other", "other"), |(step, side, cause)| (step.name(), side.name(), cause));
        let count = cell.value();
        match sum.ends.iter_mut().find(|end| (end.step, end.side, end.cause) == (step, side, cause)) {
            Some(end) => end.count += count,
            None => sum.ends.push(End { step, side, cause, count }),
        }
    }
    for limit in Limit::ALL {
        *sum.refused.entry(limit.name()).or_default() += block.refused[limit as usize].value();
    }
    for limit in Limit::WAITED_FOR {
        *sum.waiting.entry(limit.name()).or_default() += block.waiting[limit as usize].value();
    }
    for outcome in HeaderOutcome::ALL {
        *sum.proxy_headers.entry(outcome.name()).or_default() +=
            block.proxy_headers[outcome as usize].value();
    }
    sum.bytes_to_backend += block.bytes_to_backend.value();
    sum.bytes_to_client += block.bytes_to_client.value();
    sum.handshakes_full += block.handshakes_full.value();
    sum.handshakes_resumed += block.handshakes_resumed.value();
    sum.backend_handshakes_full += block.backend_handshakes_full.value();
    sum.backend_handshakes_resumed += block.backend_handshakes_resumed.value();
    sum.hello_retries += block.hello_retries.value();
    sum.tickets_offered += block.tickets_offered.value();
    for fault in CertificateFault::ALL {
        *sum.certificate_faults.entry(fault.name()).or_default() +=
            block.certificate_faults[fault as usize].value();
    }
    block.duration.add_to(&mut sum.duration);
    let backends = block.backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (name, backend) in backends {
        let place = sum.backends.iter().position(|known| known.name == name).unwrap_or_else(|| {
            sum.backends.push(BackendSnapshot { name, ..BackendSnapshot::default() });
            sum.backends.len() - 1
        });
        add_backend(&mut sum.backends[place], &backend);
    }
}

fn add_backend(sum: &mut BackendSnapshot, block: &BackendMetrics) {
    sum.source_ports |= block.source_ports;
    sum.disconnected += block.disconnected.value();
    sum.connected += block.connected.value();
    for (cause, cell) in block.failures.entries() {
        *sum.failures.entry(cause.unwrap_or("other")).or_default() += cell.value();
    }
    block.connect.add_to(&mut sum.connect);
    block.answer.add_to(&mut sum.answer);
}

fn add_handshakes(sum: &mut HandshakeSnapshot, times: &HandshakeTimes) {
    times.total.add_to(&mut sum.total);
    for (sum, histogram) in sum.phases.iter_mut().zip(&times.phases) {
        histogram.add_to(sum);
    }
}

fn thread_snapshot(thread: &ThreadMetrics) -> ThreadSnapshot {
    let mut loop_lag = Distribution::default();
    thread.loop_lag.add_to(&mut loop_lag);
    let mut accept_errors = AcceptErrors::new();
    for (cause, cell) in thread.accept_errors.entries() {
        *accept_errors.entry(cause.unwrap_or("other")).or_default() += cell.value();
    }
    ThreadSnapshot {
        name: thread.name().to_owned(),
        turns: thread.turns.value(),
        spurious_turns: thread.spurious_turns.value(),
        loop_lag,
        tasks: thread.tasks.value(),
        panics: thread.panics.value(),
        signed_elsewhere: thread.signed_elsewhere.value(),
        accept_errors,
        backing_off: thread.backing_off.value() != 0,
    }
}

/// Adds what is configured of one service to its numbers.
fn add_configured(to: &mut ServiceSnapshot, service: &ConfiguredService) {
    to.connections_limit = service.connections_limit;
    to.address_limit = service.address_limit;
    to.sources = service.sources;
    to.asks_for_certificates = service.asks_for_certificates;
    for ConfiguredBackend { name, weight, backup, status } in &service.backends {
        let place = to.backends.iter().position(|known| known.name == *name).unwrap_or_else(|| {
            to.backends.push(BackendSnapshot { name: name.clone(), ..BackendSnapshot::default() });
            to.backends.len() - 1
        });
        let to = &mut to.backends[place];
        (to.weight, to.backup) = (Some(*weight), *backup);
        match status {
            Some(status) => status.add_to(to),
            None => to.state = BackendState::NoAddress,
        }
    }
}
