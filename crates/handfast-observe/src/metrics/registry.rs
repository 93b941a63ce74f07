//! The registry: blocks of cells of all threads, and what only the control thread knows, added up to a [`Snapshot`] at each look.

#![expect(clippy::disallowed_types, reason = "held to make or collect blocks of cells, never to count")]

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::configured::Configured;
use super::failures::{self, FailureSnapshot, RequestFailureSnapshot};
use super::previous_processes::{self, PreviousProcesses, ProcessCounts};
use super::snapshot::{
    CertificateSnapshot, FileProblemSnapshot, FleetSnapshot, KeyProcessSnapshot, OrderedCertificate,
    ReloadSnapshot, RevocationListSnapshot, Snapshot,
};
use super::thread::ThreadMetrics;
use super::{machine, sum};
use crate::access_log::Totals;

/// Everything that is measured, and what only the control thread knows: reloads, certificates, what is configured.
#[derive(Debug)]
pub struct Registry {
    started: SystemTime,
    inner: Mutex<Inner>,
    previous: Mutex<PreviousProcesses>,
}

#[derive(Debug, Default)]
struct Inner {
    threads: Vec<Arc<ThreadMetrics>>,
    configured: Arc<Configured>,
    /// Only reloads, certificates, their files and revocation lists.
    reported: Snapshot,
    access_log: Option<Arc<Totals>>,
    key_process: Option<KeyProcessReader>,
}

/// Reads the state of the key process whenever a snapshot is made.
#[derive(Clone)]
struct KeyProcessReader(Arc<dyn Fn() -> KeyProcessSnapshot + Send + Sync>);

impl fmt::Debug for KeyProcessReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyProcessReader")
    }
}

impl Registry {
    /// An empty one; made once, at start.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started: SystemTime::now(), inner: Mutex::default(), previous: Mutex::default() })
    }

    /// The cells of the thread with this name (`worker-0`), made when they are not there yet.
    ///
    /// Called by the thread at its start, not on the path: it takes a lock.
    pub fn thread(&self, name: &str) -> Arc<ThreadMetrics> {
        let mut inner = self.lock();
        if let Some(known) = inner.threads.iter().find(|thread| thread.name() == name) {
            return Arc::clone(known);
        }
        let thread = Arc::new(ThreadMetrics::new(name));
        inner.threads.push(Arc::clone(&thread));
        thread
    }

    /// A configuration is served: the first one, or after a reload.
    pub fn reload_succeeded(&self, generation: u64) {
        self.reloaded(None, |reload| {
            // The first generation is the start, not a reload.
            reload.succeeded += u64::from(reload.generation.is_some());
            reload.generation = Some(generation);
        });
    }

    /// A configuration is served without certificate files that cannot be used.
    pub fn reload_left_out(&self, generation: u64, problem: &str) {
        self.reloaded(Some(problem), |reload| {
            reload.in_part += 1;
            reload.left_out = true;
            reload.generation = Some(generation);
        });
    }

    /// A reload changed nothing, and why.
    pub fn reload_failed(&self, problem: &str) {
        self.reloaded(Some(problem), |reload| reload.failed += 1);
    }

    fn reloaded(&self, problem: Option<&str>, change: impl FnOnce(&mut ReloadSnapshot)) {
        let reload = &mut self.lock().reported.reload;
        (reload.last_at, reload.left_out) = (Some(SystemTime::now()), false);
        reload.last_problem = problem.map(str::to_owned);
        change(reload);
    }

    /// Problem of the last reload; `None` when there was none.
    pub fn reload_problem(&self) -> Option<String> {
        self.lock().reported.reload.last_problem.clone()
    }

    /// Number of connections of this process that have ended since its start.
    pub fn ended(&self) -> u64 {
        let threads = self.lock().threads.clone();
        threads.iter().map(|thread| thread.ended()).sum()
    }

    /// Replaces what is known of the certificates that are served.
    pub fn set_certificates(&self, certificates: Vec<CertificateSnapshot>) {
        self.lock().reported.certificates = certificates;
    }

    /// Replaces what is known of certificates that are ordered.
    pub fn set_ordered_certificates(&self, ordered: Vec<OrderedCertificate>) {
        self.lock().reported.ordered = ordered;
    }

    /// Replaces what is known of the fleet.
    pub fn set_fleet(&self, fleet: Option<FleetSnapshot>) {
        self.lock().reported.fleet = fleet;
    }

    /// Replaces what is known of revocation lists.
    pub fn set_revocation_lists(&self, lists: Vec<RevocationListSnapshot>) {
        self.lock().reported.revocation_lists = lists;
    }

    /// Replaces what is known of limits, backends and their names.
    pub fn set_configured(&self, configured: Configured) {
        self.lock().configured = Arc::new(configured);
    }

    /// Replaces what is known of certificate files that cannot be used.
    pub fn set_file_problems(&self, problems: Vec<FileProblemSnapshot>) {
        self.lock().reported.file_problems = problems;
    }

    /// Sets where the access log counts its lines.
    pub fn set_access_log(&self, totals: Arc<Totals>) {
        self.lock().access_log = Some(totals);
    }

    /// Replaces the counts that were received on a connection to a previous process: its own come first, then those of processes before
    /// it. They are added to what this one counts.
    pub fn receive_counts(&self, connection: u64, counts: Vec<ProcessCounts>) {
        self.previous().received(connection, counts);
    }

    /// The process at the other end of that connection has ended, with all its connections.
    pub fn process_ended(&self, connection: u64) {
        self.previous().ended(connection);
    }

    /// Everything that this process has counted, and those before it, for the process that takes over.
    pub fn counts(&self) -> Vec<ProcessCounts> {
        let previous = self.previous();
        let own = self.own(&previous);
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}-{}", std::process::id(), started.as_nanos());
        [(name, previous_processes::counts(&own))].into_iter().chain(previous.running()).collect()
    }

    /// Adds everything up.
    ///
    /// **Cost:** some microseconds for each service and thread, and a dozen small files of `/proc`.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = {
            // Held from first to last: a process that ends meanwhile must not be missing in both places.
            let previous = self.previous();
            let mut snapshot = self.own(&previous);
            previous.add_running(&mut snapshot);
            snapshot
        };
        sum::put_in_order(&mut snapshot);
        snapshot.process = machine::process(self.started);
        snapshot
    }

    /// Counters of this process, with those before it that have ended; in no order.
    fn own(&self, previous: &PreviousProcesses) -> Snapshot {
        // Blocks are collected under the lock and added up after it, so a worker that reloads waits for nothing.
        let (threads, configured, mut snapshot, access_log, key_process) = {
            let inner = self.lock();
            let (threads, access_log) = (inner.threads.clone(), inner.access_log.clone());
            let (configured, reported) = (Arc::clone(&inner.configured), inner.reported.clone());
            (threads, configured, reported, access_log, inner.key_process.clone())
        };
        sum::add(&mut snapshot, &threads, &configured);
        let caches = configured.services.iter().filter_map(|service| service.cache.as_ref());
        snapshot.caches = caches.map(|cache| cache.snapshot()).collect();
        snapshot.key_process = key_process.map(|KeyProcessReader(read)| read());
        if let Some(totals) = access_log {
            snapshot.access_log_written = totals.written();
            snapshot.access_log_dropped = totals.dropped();
        }
        previous.add_ended(&mut snapshot);
        snapshot
    }

    /// Sets how the state of the key process is read; without it there is none, the keys are in this process.
    pub fn set_key_process(&self, read: impl Fn() -> KeyProcessSnapshot + Send + Sync + 'static) {
        self.lock().key_process = Some(KeyProcessReader(Arc::new(read)));
    }

    /// The last connections that failed, the newest first; a few dozen.
    ///
    /// **Cost:** some microseconds for each thread, for which its worker does not wait.
    pub fn failures(&self) -> Vec<FailureSnapshot> {
        let threads = self.lock().threads.clone();
        failures::latest(threads.iter().map(|thread| &thread.failures))
    }

    /// The last requests that failed, the newest first; a few dozen.
    ///
    /// **Cost:** as [`failures`](Self::failures).
    pub fn request_failures(&self) -> Vec<RequestFailureSnapshot> {
        let threads = self.lock().threads.clone();
        failures::latest(threads.iter().map(|thread| &thread.request_failures))
    }

    fn previous(&self) -> MutexGuard<'_, PreviousProcesses> {
        self.previous.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while it was held leaves numbers that are at worst a moment old.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
