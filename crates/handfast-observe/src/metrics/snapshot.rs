//! Everything measured, added up over threads: plain values that can be printed, compared and made up in tests.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::configured::NameSnapshot;
use super::handshakes::HandshakeSnapshot;
use super::service::ServiceSnapshot;
use super::thread::ThreadSnapshot;
use super::times;
use crate::words::Word;

/// All numbers at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// By service, in the order of their names.
    pub services: Vec<ServiceSnapshot>,
    /// Completed handshakes by what was agreed on, the most frequent first.
    pub handshakes: Vec<HandshakeSnapshot>,
    /// The same with backends; of the phases, the second is our computing and the third the backend's and the network's.
    pub backend_handshakes: Vec<HandshakeSnapshot>,
    /// Connections that the process serves at once.
    pub connections_limit: u64,
    /// Open connections of processes that this one has replaced in an upgrade.
    pub connections_draining: u64,
    /// Names of backends, in the order of the configuration.
    pub names: Vec<NameSnapshot>,
    /// By worker thread, in the order they were started.
    pub threads: Vec<ThreadSnapshot>,
    /// State of the configuration: the time of the last reload, and the problem of the last attempt to change it.
    pub reload: ReloadSnapshot,
    /// Certificates that are served.
    pub certificates: Vec<CertificateSnapshot>,
    /// Revocation lists that clients' certificates are held against.
    pub revocation_lists: Vec<RevocationListSnapshot>,
    /// Certificate files that are not used as they are, by service.
    pub file_problems: Vec<FileProblemSnapshot>,
    /// Certificates that this process orders (ACME), by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ordered: Vec<OrderedCertificate>,
    /// The machines that serve the same names; `None`: this one belongs to no fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetSnapshot>,
    /// Caches of services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheSnapshot>,
    /// State of the process that holds the private keys; `None`: they are in this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_process: Option<KeyProcessSnapshot>,
    /// Access log lines that were written.
    pub access_log_written: u64,
    /// Access log lines that were lost.
    pub access_log_dropped: u64,
    /// The process and its machine.
    pub process: ProcessSnapshot,
}

/// The cache of a service, counted since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheSnapshot {
    /// The service.
    pub service: String,
    /// Its folder.
    pub folder: String,
    /// Reason why it does not work; `None`: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// True while the content of its folder is still being read.
    pub is_indexing: bool,
    /// Objects that it has.
    pub objects: u64,
    /// Size on the disk of the objects and their maximum size. **Units**: bytes.
    pub disk_bytes: u64,
    /// See `disk_bytes`.
    pub disk_bytes_limit: u64,
    /// Size of their heads in memory. **Units**: bytes.
    pub memory_bytes: u64,
    /// Requests, by what became of them: `hit`, `stale`, `shared`, `miss`, `expired`, and the reasons of those that went past it.
    pub requests: BTreeMap<String, u64>,
    /// Expired objects that their backend confirmed.
    pub confirmed: u64,
    /// Objects by what became of them: `stored`, `evicted`, `purged`, `broken`, `given-up`.
    pub changes: BTreeMap<String, u64>,
    /// Content read from it and written to it. **Units**: bytes.
    pub bytes_read: u64,
    /// See `bytes_read`.
    pub bytes_written: u64,
    /// Errors of the disk.
    pub errors: u64,
    /// Objects whose files could not be deleted; it is tried again.
    pub undeleted: u64,
    /// Operations of the disk's threads, `read` and `write`: how many, and their time. **Units**: seconds.
    pub disk: BTreeMap<String, (u64, f64)>,
}

impl CacheSnapshot {
    /// Requests that were answered from it.
    pub fn served(&self) -> u64 {
        self.with_results(&["hit", "stale", "shared"])
    }

    /// Requests for which a backend was asked, because what they are for was missing or expired.
    pub fn of_backends(&self) -> u64 {
        self.with_results(&["miss", "expired"])
    }

    /// Requests, those included that went past it.
    pub fn all_requests(&self) -> u64 {
        self.requests.values().sum()
    }

    fn with_results(&self, words: &[&str]) -> u64 {
        words.iter().filter_map(|word| self.requests.get(*word)).sum()
    }

    /// Objects that became this: a word of `changes`.
    pub fn changed(&self, word: &str) -> u64 {
        self.changes.get(word).copied().unwrap_or_default()
    }
}

/// The fleet of this machine, as it sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetSnapshot {
    /// Its name.
    pub name: String,
    /// This machine's name.
    pub machine: String,
    /// Address of the bus.
    pub bus: String,
    /// Reason why this machine cannot reach it; `None`: it can.
    pub problem: Option<String>,
    /// The other machines with a recent message, by name.
    pub machines: Vec<MachineSnapshot>,
    /// Time at which another machine last reported the ticket key that is used here; `None`: never.
    #[serde(default, with = "times::optional")]
    pub keys_shared_at: Option<SystemTime>,
    /// Messages that were not sealed with the fleet's secret.
    pub foreign_messages: u64,
}

/// Another machine of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineSnapshot {
    /// Its name.
    pub name: String,
    /// Its program's version.
    pub version: String,
    /// Time of its last message.
    #[serde(with = "times")]
    pub last_seen_at: SystemTime,
    /// Difference of its clock from ours.
    pub clock_offset_seconds: f64,
    /// True if its clock is behind ours, and not ahead.
    pub clock_behind: bool,
}

/// The process that holds the private keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyProcessSnapshot {
    /// True if it answers.
    pub answers: bool,
    /// Number of restarts.
    pub restarts: u64,
}

/// State of the configuration, and the outcome of attempts to change it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReloadSnapshot {
    /// Generation of the configuration that is served; `None` before the first.
    pub generation: Option<u64>,
    /// Reloads that took effect.
    pub succeeded: u64,
    /// Reloads that took effect, except for files that cannot be used.
    pub in_part: u64,
    /// Reloads that changed nothing.
    pub failed: u64,
    /// Time of the last start or reload.
    #[serde(default, with = "times::optional")]
    pub last_at: Option<SystemTime>,
    /// Reason why the last reload changed nothing, or the parts that it had to leave out; `None` when it took effect as a whole.
    pub last_problem: Option<String>,
    /// True if the last reload took effect, except for the parts that `last_problem` names.
    pub left_out: bool,
}

/// One certificate that is served.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CertificateSnapshot {
    /// The service that serves it.
    pub service: String,
    /// Name for people: its first name, or its file.
    pub name: String,
    /// Kind of key: `RSA-2048`, `ECDSA-P256`.
    pub kind: String,
    /// Expiry time.
    #[serde(with = "times")]
    pub not_after: SystemTime,
    /// Expiry time of its OCSP response; `None`: none is stapled.
    #[serde(default, with = "times::optional")]
    pub staple_until: Option<SystemTime>,
}

/// One certificate that this process orders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderedCertificate {
    /// The name that it is for.
    pub name: String,
    /// Expiry time; `None`: there is none that can be used.
    #[serde(default, with = "times::optional")]
    pub not_after: Option<SystemTime>,
    /// Time of the next order, or of the next attempt.
    #[serde(with = "times")]
    pub next_try: SystemTime,
    /// Reason why the last attempt failed; `None`: it did not.
    #[serde(default)]
    pub last_error: Option<String>,
    /// Tries that failed since the last success.
    #[serde(default)]
    pub failures: u64,
}

/// One revocation list that clients' certificates are held against.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevocationListSnapshot {
    /// The service.
    pub service: String,
    /// The CA.
    pub issuer: String,
    /// Number of certificates that it revokes.
    pub entries: u64,
    /// Expiry time; `None`: never.
    #[serde(default, with = "times::optional")]
    pub next_update: Option<SystemTime>,
    /// Time from which the next list is late.
    #[serde(default, with = "times::optional")]
    pub late_at: Option<SystemTime>,
}

/// Number of a service's certificate files that are not used as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileProblemSnapshot {
    /// The service.
    pub service: String,
    /// Files that cannot be used: the old version is served, if there was one, until they are fixed.
    pub broken: u64,
    /// Files that were removed: the certificate is served on for a while.
    pub removed: u64,
    /// OCSP responses that cannot be used: the certificate is served, and the response of before as long as it is good.
    pub not_stapled: u64,
}

/// The process and its machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSnapshot {
    /// Time of the snapshot.
    #[serde(with = "times")]
    pub now: SystemTime,
    /// Start time of the process.
    #[serde(with = "times")]
    pub started: SystemTime,
    /// Its number.
    pub pid: u32,
    /// This program's version.
    pub version: Word,
    /// CPU seconds by thread name; threads of the same name together.
    pub cpu_seconds: BTreeMap<String, f64>,
    /// CPU seconds of the whole process, ended threads included.
    pub process_cpu_seconds: Option<f64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// Maximum number of open file descriptors.
    pub max_files: Option<u64>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// First and last source port that the kernel gives to connections.
    pub source_ports: Option<(u16, u16)>,
    /// TCP sockets in TIME_WAIT, on the whole machine: each holds a source port on the side that closed first.
    pub time_wait: Option<u64>,
}

impl ProcessSnapshot {
    /// Number of source ports towards one backend address.
    pub fn source_port_count(&self) -> Option<u64> {
        self.source_ports.map(|(first, last)| u64::from(last.saturating_sub(first)) + 1)
    }
}

impl Default for ProcessSnapshot {
    fn default() -> Self {
        Self {
            now: SystemTime::UNIX_EPOCH,
            started: SystemTime::UNIX_EPOCH,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            cpu_seconds: BTreeMap::new(),
            process_cpu_seconds: None,
            open_files: None,
            max_files: None,
            resident_bytes: None,
            source_ports: None,
            time_wait: None,
        }
    }
}
