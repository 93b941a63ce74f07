//! Counters of one worker thread for one service.

#![expect(clippy::disallowed_types, reason = "held to make or collect blocks of cells, never to count")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use handfast_pki::presented::CertificateFault;
use handfast_tls::session::Agreed;
use serde::{Deserialize, Serialize};

use super::backend::{BackendMetrics, BackendSnapshot};
use super::counters::{ByLabel, counters, events, labels};
use super::ends::{End, EndKey};
use super::handshakes::{Handshakes, handshake_key};
use super::histogram::{Distribution, Histogram};
use super::maintenance::MaintenanceSnapshot;
use super::requests::{RequestCells, RequestSnapshot};
use super::table::Table;
use super::transfer::{Counts, Transfer};
use crate::cell::Cell;
use crate::reason::CloseReason;
use crate::record::{Record, StepTimes};
use crate::words::{Word, words};

/// Backends of one service that are counted apart on one thread; further ones are counted as `other`.
///
/// Configurations are far below; a name that resolves to ever new addresses would not be.
const BACKENDS: usize = 256;

words! {
    /// A limit of the configuration that keeps a client out. Clients wait at the first two; at the others they are turned away.
    Limit {
        /// Connections of the whole process.
        Process = "process";
        /// Connections of one service.
        Service = "service";
        /// Connections of one client address.
        Address = "address";
        /// New handshakes of one prefix of client addresses.
        Rate = "handshake-rate";
        /// Addresses that are let in.
        Prefix = "client-prefix";
    }
}

words! {
    /// The outcome of a PROXY header, or of a connection that should have begun with one.
    HeaderOutcome {
        /// It named a client.
        Proxied = "proxied";
        /// The proxy in front sent it for itself (LOCAL).
        Local = "local";
        /// It named no client with an internet address: the proxy's own counts.
        Unknown = "unknown";
        /// None came, where one is required.
        Missing = "missing";
        /// It was broken.
        Invalid = "invalid";
        /// It came from an address that must not send one.
        Unexpected = "unexpected";
    }
}

labels!(Limit HeaderOutcome CertificateFault);

counters! {
    /// One worker's cells for one service.
    #[derive(Debug, Default)]
    pub(super) cells ServiceCells;

    /// One service's numbers.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(default)]
    values ServiceSnapshot;

    /// Its name.
    name: String;
    /// Connections accepted.
    accepted: u64 = Cell => ["accepted"];
    /// Connections ended.
    closed: u64 = Cell, as ["closed"];
    /// Ends of the connections, the most frequent first.
    ends: Vec<End> = Table<EndKey, Cell, 256> => ["end"];
    /// Times a limit was reached, by limit.
    refused: BTreeMap<Word, u64> = ByLabel<Limit, { Limit::ALL.len() }> => ["refused"];
    /// Clients that wait in the kernel's queue because a limit is reached, by limit.
    waiting: BTreeMap<Word, u64> = ByLabel<Limit, 2>;
    /// PROXY headers, by what became of them.
    proxy_headers: BTreeMap<Word, u64> = ByLabel<HeaderOutcome, { HeaderOutcome::ALL.len() }> => ["proxy-header"];
    /// Connections it serves at once; `None`: only the limit of the process.
    connections_limit: Option<u64>;
    /// Connections it serves at once for one client address; `None`: no limit.
    address_limit: Option<u64>;
    /// Source addresses that its connections to backends come from: `None`: as the kernel chooses; 0: the clients' own.
    sources: Option<u64>;
    /// Plaintext bytes from clients to backends.
    bytes_to_backend: u64 = Cell => ["bytes-to-backend"];
    /// Plaintext bytes from backends to clients.
    bytes_to_client: u64 = Cell => ["bytes-to-client"];
    /// Completed full handshakes.
    handshakes_full: u64 = Cell => ["handshakes-full"];
    /// Completed handshakes that resumed a session.
    handshakes_resumed: u64 = Cell => ["handshakes-resumed"];
    /// Completed full handshakes with backends.
    backend_handshakes_full: u64 = Cell => ["backend-handshakes-full"];
    /// Completed handshakes with backends that resumed a session.
    backend_handshakes_resumed: u64 = Cell => ["backend-handshakes-resumed"];
    /// Completed handshakes that cost a round trip more because the client guessed another group.
    hello_retries: u64 = Cell => ["hello-retries"];
    /// Hellos that offered to resume a session.
    tickets_offered: u64 = Cell => ["tickets-offered"];
    /// Clients whose certificate failed, by what was wrong.
    certificate_faults: BTreeMap<Word, u64> = ByLabel<CertificateFault, { CertificateFault::ALL.len() }> => ["certificate-fault"];
    /// True if certificates are requested from clients.
    asks_for_certificates: bool;
    /// Its maintenance; `None`: it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    maintenance: Option<MaintenanceSnapshot>;
    /// From accept to the end.
    duration: Distribution = Histogram => ["duration"];
    /// Its requests; `None`: it does not serve HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<RequestSnapshot> = OnceLock<Box<RequestCells>> => ["request"];
    /// Its backends, in the order of their names.
    backends: Vec<BackendSnapshot> = Mutex<Vec<(String, Arc<BackendMetrics>)>> => ["backend"];
}

/// Counters of one worker for one service; written by that thread alone, read by any.
#[derive(Debug)]
#[repr(align(128))]
pub struct ServiceMetrics {
    pub(super) cells: ServiceCells,
    handshakes: Arc<Handshakes>,
    backend_handshakes: Arc<Handshakes>,
}

impl ServiceMetrics {
    /// With the thread's handshakes, clients' and backends'.
    pub(super) fn new(handshakes: Arc<Handshakes>, backend_handshakes: Arc<Handshakes>) -> Self {
        Self { cells: ServiceCells::default(), handshakes, backend_handshakes }
    }

    /// A connection ended.
    #[inline]
    pub fn closed(&self, record: &Record, reason: &CloseReason) {
        self.cells.closed.add(1);
        self.cells.ends.entry((reason.step, reason.side, reason.cause.counted())).add(1);
        let seconds = &record.seconds;
        self.cells
            .duration
            .record(seconds.hello + seconds.handshake + seconds.connect + seconds.relay + seconds.close);
    }

    /// A handshake was completed.
    #[inline]
    pub fn handshake(&self, facts: &Agreed, times: &StepTimes) {
        let cells = &self.cells;
        let [full, resumed] = [&cells.handshakes_full, &cells.handshakes_resumed];
        (if facts.resumed == Some(true) { resumed } else { full }).add(1);
        cells.hello_retries.add(u64::from(facts.hello_retry));
        self.handshakes.entry(handshake_key(facts)).record(times);
    }

    /// A handshake with a backend was completed: its whole time, and our own computing.
    #[inline]
    pub fn backend_handshake(&self, facts: &Agreed, whole: Duration, crypto: Duration) {
        let cells = &self.cells;
        let [full, resumed] = [&cells.backend_handshakes_full, &cells.backend_handshakes_resumed];
        (if facts.resumed == Some(true) { resumed } else { full }).add(1);
        self.backend_handshakes.entry(handshake_key(facts)).record_backend(whole, crypto);
    }

    /// The cells for a backend, made when they are not there yet; the same ones for the same name, over reloads.
    ///
    /// `source_ports` says whether each connection to it takes a source port (TCP: yes; unix sockets: no). Called when a state
    /// is taken over or a name resolves to a new address, not for each connection: it takes a lock.
    pub fn backend(&self, name: &str, source_ports: bool) -> Arc<BackendMetrics> {
        let mut backends = self.cells.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            |name: &str| backends.iter().find(|(known, _)| known == name).map(|(_, block)| Arc::clone(block));
        let name = if known(name).is_some() || backends.len() < BACKENDS { name } else { "other" };
        if let Some(block) = known(name) {
            return block;
        }
        let backend = Arc::new(BackendMetrics::new(source_ports));
        backends.push((name.to_owned(), Arc::clone(&backend)));
        backend
    }
}

events! {
    ServiceMetrics as it {
        /// A connection was accepted; exactly one [`closed`](Self::closed) follows.
        accepted() => it.cells.accepted.add(1);
        /// A limit was reached: the first time clients have to wait for it, or for each client that it turns away.
        refused(limit: Limit) => it.cells.refused.add(limit, 1);
        /// The number of clients that wait for a limit was `before` and is `now`; each listener of a thread reports its own.
        // A cell's sum wraps around, so a decrease is added too.
        waiting(limit: Limit, before: u64, now: u64) => it.cells.waiting.add(limit, now.wrapping_sub(before));
        /// A PROXY header came, or did not, where one is required.
        proxy_header(outcome: HeaderOutcome) => it.cells.proxy_headers.add(outcome, 1);
        /// A client's hello offered to resume a session (a ticket or a pre-shared key).
        ticket_offered() => it.cells.tickets_offered.add(1);
        /// A client's certificate failed, and it was refused or is served as one that failed.
        certificate_failed(fault: CertificateFault) => it.cells.certificate_faults.add(fault, 1);
        /// A backend's socket took plaintext bytes.
        bytes_to_backend(amount: u64) => it.cells.bytes_to_backend.add(amount);
        /// A client's socket took the records of plaintext bytes.
        bytes_to_client(amount: u64) => it.cells.bytes_to_client.add(amount);
    }
}

impl ServiceSnapshot {
    /// Open connections.
    pub fn connections(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

impl Transfer for Vec<ServiceSnapshot> {
    fn write(&self, words: &[&str], to: &mut Counts) {
        self.iter().for_each(|service| service.write(&[words, &[&service.name]].concat(), to));
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let (name, rest) = words.split_first()?;
        let place = self.binary_search_by(|service| service.name.as_str().cmp(name)).ok()?;
        self[place].place(rest)
    }
}
