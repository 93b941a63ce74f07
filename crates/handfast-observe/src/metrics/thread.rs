//! Counters of one worker thread for itself: its loop, its accepting, its handshakes.

#![expect(clippy::disallowed_types, reason = "held to make or collect blocks of cells, never to count")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counters::{AddTo, counters, events};
use super::ends::CauseCounts;
use super::failures::{FailureSnapshot, Failures, RequestFailureSnapshot};
use super::handshakes::Handshakes;
use super::histogram::{Distribution, Histogram};
use super::service::ServiceMetrics;
use super::table::Table;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::reason::CloseReason;
use crate::record::Record;
use crate::request_record::RequestRecord;

counters! {
    /// One worker's cells.
    #[derive(Debug, Default)]
    pub(super) cells ThreadCells;

    /// One worker thread's numbers.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(default)]
    values ThreadSnapshot;

    /// Its name.
    name: String;
    /// Turns of its loop.
    turns: u64 = Cell;
    /// Connections that were woken and moved nothing.
    spurious_turns: u64 = Cell;
    /// Time for which an event had to wait while the thread worked on others.
    loop_lag: Distribution = Histogram;
    /// Tasks it holds now.
    tasks: u64 = Cell;
    /// Tasks that panicked.
    panics: u64 = Cell;
    /// Hellos that its signer answered, because others waited for the thread.
    signed_elsewhere: u64 = Cell;
    /// Failed calls of accept, by cause.
    accept_errors: CauseCounts = Table<Cause, Cell, 16>;
    /// True while accepting pauses because the machine is out of a resource.
    backing_off: bool = Cell;
}

/// Counters of one worker; written by that thread alone, read by any.
///
/// Two writers would lose counts, nothing worse.
#[derive(Debug, Default)]
#[repr(align(128))] // two cache lines: the prefetcher fetches pairs, and no other thread writes into ours
pub struct ThreadMetrics {
    name: String,
    pub(super) services: Mutex<Vec<(String, Arc<ServiceMetrics>)>>,
    pub(super) handshakes: Arc<Handshakes>,
    pub(super) backend_handshakes: Arc<Handshakes>,
    cells: ThreadCells,
    pub(super) failures: Failures<FailureSnapshot>,
    pub(super) request_failures: Failures<RequestFailureSnapshot>,
}

impl ThreadMetrics {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn snapshot(&self) -> ThreadSnapshot {
        let mut snapshot = ThreadSnapshot { name: self.name.clone(), ..ThreadSnapshot::default() };
        self.cells.add_to(&mut snapshot);
        snapshot
    }

    /// The thread's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cells for a service, made when they are not there yet; the same ones for the same name, over reloads.
    ///
    /// Called when a state is taken over, not on the path: it takes a lock.
    pub fn service(&self, name: &str) -> Arc<ServiceMetrics> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = services.iter().find(|(known, _)| known == name) {
            return Arc::clone(known);
        }
        let service =
            Arc::new(ServiceMetrics::new(Arc::clone(&self.handshakes), Arc::clone(&self.backend_handshakes)));
        services.push((name.to_owned(), Arc::clone(&service)));
        service
    }

    pub(super) fn ended(&self) -> u64 {
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.iter().map(|(_, service)| service.cells.closed.value()).sum()
    }
}

events! {
    ThreadMetrics as it {
        /// `accept` failed, and why.
        accept_failed(cause: Cause) => it.cells.accept_errors.entry(cause.counted()).add(1);
        /// Sets whether accepting pauses because the machine is out of a resource.
        backing_off(now: bool) => it.cells.backing_off.set(u64::from(now));
        /// A turn of the loop ended: how long the thread worked since it woke, that is, how long an event that came meanwhile had to wait.
        loop_turn(lag: Duration) => {
            it.cells.turns.add(1);
            it.cells.loop_lag.record(lag);
        };
        /// Connections were woken and moved nothing.
        spurious(turns: u64) => it.cells.spurious_turns.add(turns);
        /// Sets the number of tasks in the loop.
        tasks(now: usize) => it.cells.tasks.set(now as u64);
        /// A hello was given to the thread's signer.
        signed_elsewhere() => it.cells.signed_elsewhere.add(1);
        /// A connection failed: its cause is a failure.
        failed(record: &Record, reason: &CloseReason) => it.failures.add(FailureSnapshot::of(record, reason));
        /// A request ended; only one that failed is kept.
        request_ended(record: &RequestRecord) => if let Some(failure) = RequestFailureSnapshot::of(record) {
            it.request_failures.add(failure);
        };
        /// A connection's task panicked; the connection was lost, the thread goes on.
        panicked() => it.cells.panics.add(1);
    }
}
