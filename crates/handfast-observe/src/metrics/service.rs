//! What one worker thread counts for one service and its backends.
//!
//! In: calls from that thread alone, from accept to close. Out: cells that `snapshot.rs` reads.

#![expect(clippy::disallowed_types, reason = "held to make or collect blocks of cells, never to count")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handfast_net::fault::Cause as SocketCause;

use super::handshakes::{Handshakes, handshake_key};
use super::histogram::Histogram;
use super::table::Table;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::reason::{CloseReason, Side, Step};
use crate::record::{Record, StepTimes};
use handfast_tls::session::{Agreed, CertificateFault};

/// Backends of one service that are counted apart on one thread; further ones are counted as `other`.
///
/// Configurations are far below; a name that resolves to ever new addresses would not be.
const BACKENDS: usize = 256;

/// What ended: the step, the side, and the cause's word.
pub(super) type EndKey = (Step, Side, &'static str);

/// A limit of the configuration that keeps a client out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Connections of the whole process.
    Process,
    /// Connections of one service.
    Service,
    /// Connections of one client address.
    Address,
    /// New handshakes of one prefix of client addresses.
    Rate,
    /// Addresses that are let in.
    Prefix,
}

impl Limit {
    pub(super) const ALL: [Self; 5] = [Self::Process, Self::Service, Self::Address, Self::Rate, Self::Prefix];
    /// Those at which clients wait; at the others they are turned away.
    pub(super) const WAITED_FOR: [Self; 2] = [Self::Process, Self::Service];

    /// The word used in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Service => "service",
            Self::Address => "address",
            Self::Rate => "handshake-rate",
            Self::Prefix => "client-prefix",
        }
    }
}

/// What became of a PROXY header, or of a connection that should have begun with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderOutcome {
    /// It named a client.
    Proxied,
    /// The proxy in front spoke for itself.
    Local,
    /// It named no client with an internet address: the proxy's own counts.
    Unknown,
    /// None came, where one must.
    Missing,
    /// It was broken.
    Invalid,
    /// It came from somebody from whom none is taken.
    Unexpected,
}

impl HeaderOutcome {
    pub(super) const ALL: [Self; 6] =
        [Self::Proxied, Self::Local, Self::Unknown, Self::Missing, Self::Invalid, Self::Unexpected];

    /// The word used in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proxied => "proxied",
            Self::Local => "local",
            Self::Unknown => "unknown",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Unexpected => "unexpected",
        }
    }
}

/// One worker's cells for one service; written by that thread alone, read by any.
#[derive(Debug)]
#[repr(align(128))]
pub struct ServiceMetrics {
    pub(super) accepted: Cell,
    pub(super) closed: Cell,
    pub(super) ends: Table<EndKey, Cell, 256>,
    pub(super) refused: [Cell; Limit::ALL.len()],
    pub(super) waiting: [Cell; Limit::ALL.len()],
    pub(super) proxy_headers: [Cell; HeaderOutcome::ALL.len()],
    pub(super) bytes_to_backend: Cell,
    pub(super) bytes_to_client: Cell,
    pub(super) handshakes_full: Cell,
    pub(super) handshakes_resumed: Cell,
    pub(super) backend_handshakes_full: Cell,
    pub(super) backend_handshakes_resumed: Cell,
    pub(super) hello_retries: Cell,
    pub(super) tickets_offered: Cell,
    /// By number of the fault.
    pub(super) certificate_faults: [Cell; CertificateFault::ALL.len()],
    pub(super) duration: Histogram,
    pub(super) backends: Mutex<Vec<(String, Arc<BackendMetrics>)>>,
    handshakes: Arc<Handshakes>,
    backend_handshakes: Arc<Handshakes>,
}

impl ServiceMetrics {
    /// With the thread's handshakes, clients' and backends'.
    pub(super) fn new((handshakes, backend_handshakes): (Arc<Handshakes>, Arc<Handshakes>)) -> Self {
        Self {
            accepted: Cell::default(),
            closed: Cell::default(),
            ends: Table::default(),
            refused: Default::default(),
            waiting: Default::default(),
            proxy_headers: Default::default(),
            bytes_to_backend: Cell::default(),
            bytes_to_client: Cell::default(),
            handshakes_full: Cell::default(),
            handshakes_resumed: Cell::default(),
            backend_handshakes_full: Cell::default(),
            backend_handshakes_resumed: Cell::default(),
            hello_retries: Cell::default(),
            tickets_offered: Cell::default(),
            certificate_faults: Default::default(),
            duration: Histogram::default(),
            backends: Mutex::default(),
            handshakes,
            backend_handshakes,
        }
    }

    /// A connection was accepted; exactly one [`closed`](Self::closed) follows.
    pub fn accepted(&self) {
        self.accepted.add(1);
    }

    /// A limit was reached: the first time clients have to wait for it, or for each client that it turns away.
    pub fn refused(&self, limit: Limit) {
        self.refused[limit as usize].add(1);
    }

    /// Where so many clients waited for a limit, so many do now; each listener of a thread says so for itself.
    pub fn waiting(&self, limit: Limit, before: u64, now: u64) {
        // A cell's sum wraps around, so a decrease is added too.
        self.waiting[limit as usize].add(now.wrapping_sub(before));
    }

    /// A PROXY header came, or did not where one must.
    pub fn proxy_header(&self, outcome: HeaderOutcome) {
        self.proxy_headers[outcome as usize].add(1);
    }

    /// A connection ended.
    pub fn closed(&self, record: &Record, reason: &CloseReason) {
        self.closed.add(1);
        self.ends.entry((reason.step, reason.side, reason.cause.name())).add(1);
        let seconds = &record.seconds;
        self.duration
            .record(seconds.hello + seconds.handshake + seconds.connect + seconds.relay + seconds.close);
    }

    /// A client's hello offered to resume a session (a ticket or a pre-shared key).
    pub fn ticket_offered(&self) {
        self.tickets_offered.add(1);
    }

    /// A client's certificate failed, and it was refused or is served as one that failed.
    pub fn certificate_failed(&self, fault: CertificateFault) {
        self.certificate_faults[fault as usize].add(1);
    }

    /// A handshake was completed.
    pub fn handshake(&self, facts: &Agreed, times: &StepTimes) {
        let counter =
            if facts.resumed == Some(true) { &self.handshakes_resumed } else { &self.handshakes_full };
        counter.add(1);
        self.hello_retries.add(u64::from(facts.hello_retry));
        self.handshakes.entry(handshake_key(facts)).record(times);
    }

    /// A handshake with a backend was completed: its whole time, and our own computing.
    pub fn backend_handshake(&self, facts: &Agreed, whole: Duration, crypto: Duration) {
        let resumed = facts.resumed == Some(true);
        let counter = if resumed { &self.backend_handshakes_resumed } else { &self.backend_handshakes_full };
        counter.add(1);
        self.backend_handshakes.entry(handshake_key(facts)).record_backend(whole, crypto);
    }

    /// A backend's socket took plaintext bytes.
    pub fn bytes_to_backend(&self, amount: u64) {
        self.bytes_to_backend.add(amount);
    }

    /// A client's socket took the records of plaintext bytes.
    pub fn bytes_to_client(&self, amount: u64) {
        self.bytes_to_client.add(amount);
    }

    /// The cells for a backend, made when they are not there yet; the same ones for the same name, over reloads.
    ///
    /// `source_ports` says whether each connection to it takes a source port (TCP: yes; unix sockets: no). Called when a state
    /// is taken over or a name resolves to a new address, not for each connection: it takes a lock.
    pub fn backend(&self, name: &str, source_ports: bool) -> Arc<BackendMetrics> {
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            |name: &str| backends.iter().find(|(known, _)| known == name).map(|(_, block)| Arc::clone(block));
        let name = if known(name).is_some() || backends.len() < BACKENDS { name } else { "other" };
        if let Some(block) = known(name) {
            return block;
        }
        let backend = Arc::new(BackendMetrics { source_ports, ..BackendMetrics::default() });
        // There from the start: what only appears with its first failure shows no growth to a monitoring system.
        backend.failures.entry(Cause::Socket(SocketCause::Refused).name());
        backend.failures.entry(Cause::Socket(SocketCause::ConnectDeadline).name());
        backends.push((name.to_owned(), Arc::clone(&backend)));
        backend
    }
}

/// One worker's cells for one backend of one service; written by that thread alone, read by any.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct BackendMetrics {
    pub(super) source_ports: bool,
    pub(super) connected: Cell,
    pub(super) disconnected: Cell,
    /// By the cause's word.
    pub(super) failures: Table<&'static str, Cell, 16>,
    pub(super) connect: Histogram,
    pub(super) answer: Histogram,
}

impl BackendMetrics {
    /// A connection to it stands, after so long; exactly one [`disconnected`](Self::disconnected) follows.
    pub fn connected(&self, after: Duration) {
        self.connected.add(1);
        self.connect.record(after);
    }

    /// It spoke so long after the client's bytes had come.
    pub fn answered(&self, after: Duration) {
        self.answer.record(after);
    }

    /// A connection to it was closed.
    pub fn disconnected(&self) {
        self.disconnected.add(1);
    }

    /// Connecting to it failed.
    pub fn failed(&self, cause: Cause) {
        self.failures.entry(cause.name()).add(1);
    }
}
