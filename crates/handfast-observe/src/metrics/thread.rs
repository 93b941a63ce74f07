//! What one worker thread counts for itself: its loop, its accepting, its handshakes.
//!
//! In: calls from that thread alone. Out: cells that `snapshot.rs` reads.

#![expect(clippy::disallowed_types, reason = "held to make or collect blocks of cells, never to count")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::failures::Failures;
use super::handshakes::Handshakes;
use super::histogram::Histogram;
use super::service::ServiceMetrics;
use super::table::Table;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::reason::CloseReason;
use crate::record::Record;

/// One worker's cells; written by that thread alone, read by any.
///
/// Two writers would lose counts, nothing worse.
#[derive(Debug)]
#[repr(align(128))] // two cache lines: the prefetcher fetches pairs, and no other thread writes into ours
pub struct ThreadMetrics {
    name: String,
    pub(super) services: Mutex<Vec<(String, Arc<ServiceMetrics>)>>,
    pub(super) handshakes: Arc<Handshakes>,
    pub(super) backend_handshakes: Arc<Handshakes>,
    pub(super) accept_errors: Table<&'static str, Cell, 16>,
    pub(super) backing_off: Cell,
    pub(super) turns: Cell,
    pub(super) spurious_turns: Cell,
    pub(super) loop_lag: Histogram,
    pub(super) tasks: Cell,
    pub(super) panics: Cell,
    pub(super) signed_elsewhere: Cell,
    pub(super) failures: Failures,
}

impl ThreadMetrics {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            services: Mutex::default(),
            handshakes: Arc::default(),
            backend_handshakes: Arc::default(),
            accept_errors: Table::default(),
            backing_off: Cell::default(),
            turns: Cell::default(),
            spurious_turns: Cell::default(),
            loop_lag: Histogram::default(),
            tasks: Cell::default(),
            panics: Cell::default(),
            signed_elsewhere: Cell::default(),
            failures: Failures::default(),
        }
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
        let service = Arc::new(ServiceMetrics::new((
            Arc::clone(&self.handshakes),
            Arc::clone(&self.backend_handshakes),
        )));
        services.push((name.to_owned(), Arc::clone(&service)));
        service
    }

    /// How many of its connections have ended.
    pub(super) fn ended(&self) -> u64 {
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.iter().map(|(_, service)| service.closed.value()).sum()
    }

    /// `accept` failed, and why.
    pub fn accept_failed(&self, cause: Cause) {
        self.accept_errors.entry(cause.name()).add(1);
    }

    /// Says whether accepting pauses because the machine is out of something.
    pub fn backing_off(&self, now: bool) {
        self.backing_off.set(u64::from(now));
    }

    /// A turn of the loop ended: how long the thread worked since it woke, that is, how long an event that came meanwhile
    /// had to wait.
    pub fn loop_turn(&self, lag: Duration) {
        self.turns.add(1);
        self.loop_lag.record(lag);
    }

    /// Connections were woken and moved nothing.
    pub fn spurious(&self, turns: u64) {
        self.spurious_turns.add(turns);
    }

    /// How many tasks the loop holds now.
    pub fn tasks(&self, now: usize) {
        self.tasks.set(now as u64);
    }

    /// A hello was given to the thread's signer.
    pub fn signed_elsewhere(&self) {
        self.signed_elsewhere.add(1);
    }

    /// A connection failed: its cause is a failure.
    pub fn failed(&self, record: &Record, reason: &CloseReason) {
        self.failures.add(record, reason);
    }

    /// A connection's task panicked; the connection was lost, the thread goes on.
    pub fn panicked(&self) {
        self.panics.add(1);
    }
}
