//! Counters and timers: of each worker thread separately, added up for each snapshot.
//!
//! A thread's cells are its own: counting takes no lock and no locked instruction, and touches no other core's memory. Only making a new
//! block of cells (at start, at reload, for a new backend) takes a lock.
//!
//! ```text
//! Registry ──┬── ThreadMetrics "worker-0" ──┬── ServiceMetrics "web" ──┬── BackendMetrics "10.0.0.7:8080"
//!            │   (loop, accept errors,      │   (connections, bytes,   └── BackendMetrics "10.0.0.8:8080"
//!            │    handshakes)               │    ends by cause)
//!            │                              └── ServiceMetrics "mail" ── …
//!            └── ThreadMetrics "worker-1" ── …
//! ```
//!
//! A service or backend that keeps its name over a reload keeps its cells, so counters never go back.

mod backend;
mod configured;
mod counters;
mod ends;
mod failures;
mod handshakes;
mod histogram;
mod machine;
mod maintenance;
mod openmetrics;
mod previous_processes;
mod registry;
mod requests;
mod routes;
mod service;
mod status_class;
mod snapshot;
mod sum;
mod table;
mod thread;
mod times;
mod transfer;

pub use crate::words::Word;
pub use backend::{BackendMetrics, BackendSnapshot, BackendState, CheckSnapshot};
pub use configured::{
    BackendStatus, CacheStatus, Configured, ConfiguredBackend, ConfiguredService, NameSnapshot,
};
pub use ends::{CauseCounts, End};
pub use failures::{FailureSnapshot, RequestFailureSnapshot};
pub use handshakes::{HandshakeSnapshot, PHASES};
pub use histogram::{Distribution, Histogram};
pub use machine::resident;
pub use maintenance::MaintenanceSnapshot;
pub use openmetrics::{Format, openmetrics, source_ports};
pub use previous_processes::ProcessCounts;
pub use registry::Registry;
pub use requests::{CopyEnd, Phase, RequestSnapshot};
pub use routes::RouteEnd;
pub use service::{HeaderOutcome, Limit, ServiceMetrics, ServiceSnapshot};
pub use snapshot::{
    CacheSnapshot, CertificateSnapshot, FileProblemSnapshot, FleetSnapshot, KeyProcessSnapshot,
    MachineSnapshot, OrderedCertificate, ProcessSnapshot, ReloadSnapshot, RevocationListSnapshot, Snapshot,
};
pub use status_class::StatusClass;
pub use thread::{ThreadMetrics, ThreadSnapshot};

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;
