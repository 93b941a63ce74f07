//! Everything measured, added up over threads: plain values that can be printed, compared and made up in tests.
//!
//! In: what `sum.rs` added up. Out: a [`Snapshot`] for `openmetrics.rs` and the status page.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::configured::NameSnapshot;
use super::handshakes::PHASES;
use super::histogram::Distribution;
use super::times::{optional_time, time};
use crate::cause::Cause;
use crate::reason::sentence;

/// All numbers at one moment.
#[derive(Clone, Debug, Serialize)]
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
    /// What is served, since when, and what went wrong with the last attempt to change it.
    pub reload: ReloadSnapshot,
    /// Certificates that are served.
    pub certificates: Vec<CertificateSnapshot>,
    /// Revocation lists that clients' certificates are held against.
    pub revocation_lists: Vec<RevocationListSnapshot>,
    /// Certificate files that are not used as they are, by service.
    pub file_problems: Vec<FileProblemSnapshot>,
    /// How the process is that holds the private keys; `None`: they are in this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_process: Option<KeyProcessSnapshot>,
    /// Access log lines that were written.
    pub access_log_written: u64,
    /// Access log lines that were lost.
    pub access_log_dropped: u64,
    /// The process and its machine.
    pub process: ProcessSnapshot,
}

/// The process that holds the private keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyProcessSnapshot {
    /// Whether it answers.
    pub answers: bool,
    /// How often it was started again.
    pub restarts: u64,
}

/// One service's numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ServiceSnapshot {
    /// Its name.
    pub name: String,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections ended.
    pub closed: u64,
    /// How they ended, the most frequent first.
    pub ends: Vec<End>,
    /// Times a limit was reached, by limit.
    pub refused: BTreeMap<&'static str, u64>,
    /// Clients that wait in the kernel's queue because a limit is reached, by limit.
    pub waiting: BTreeMap<&'static str, u64>,
    /// PROXY headers, by what became of them.
    pub proxy_headers: BTreeMap<&'static str, u64>,
    /// Connections it serves at once; `None`: only the limit of the process.
    pub connections_limit: Option<u64>,
    /// Connections it serves at once for one client address; `None`: no limit.
    pub address_limit: Option<u64>,
    /// Source addresses that its connections to backends come from: `None`: as the kernel chooses; 0: the clients' own.
    pub sources: Option<u64>,
    /// Plaintext bytes from clients to backends.
    pub bytes_to_backend: u64,
    /// Plaintext bytes from backends to clients.
    pub bytes_to_client: u64,
    /// Completed full handshakes.
    pub handshakes_full: u64,
    /// Completed handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Completed full handshakes with backends.
    pub backend_handshakes_full: u64,
    /// Completed handshakes with backends that resumed a session.
    pub backend_handshakes_resumed: u64,
    /// Completed handshakes that cost a round trip more because the client guessed another group.
    pub hello_retries: u64,
    /// Hellos that offered to resume a session.
    pub tickets_offered: u64,
    /// Clients whose certificate failed, by what was wrong.
    pub certificate_faults: BTreeMap<&'static str, u64>,
    /// Whether clients are asked for certificates.
    pub asks_for_certificates: bool,
    /// From accept to the end.
    pub duration: Distribution,
    /// Its backends, in the order of their names.
    pub backends: Vec<BackendSnapshot>,
}

/// A way in which connections ended, and how many did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The step they were in.
    pub step: &'static str,
    /// Who made them end.
    pub side: &'static str,
    /// Why.
    pub cause: &'static str,
    /// How many.
    pub count: u64,
}

/// One backend's numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BackendSnapshot {
    /// Its name as configured.
    pub name: String,
    /// Whether connections to it take source ports.
    pub source_ports: bool,
    /// Connections made.
    pub connected: u64,
    /// Connections closed.
    pub disconnected: u64,
    /// Attempts that failed, by cause.
    pub failures: BTreeMap<&'static str, u64>,
    /// Attempts that failed since the last one that did not.
    pub failures_in_a_row: u32,
    /// Why the last attempt that failed did.
    pub last_failure: Option<&'static str>,
    /// Whether connections try it.
    pub state: BackendState,
    /// When it was marked down; `None` while it is up.
    #[serde(serialize_with = "optional_time")]
    pub down_since: Option<SystemTime>,
    /// Seconds until one connection tries a backend that is down.
    pub pause_left_seconds: Option<f64>,
    /// How long dialling took when it succeeded.
    pub connect: Distribution,
    /// From the client's bytes to its next ones.
    pub answer: Distribution,
    /// Its weight; `None` when it is not configured any more.
    pub weight: Option<u32>,
    /// Whether it is used only while no other one is up.
    pub backup: bool,
    /// What an operator has set it to: `drain`, `down`; `None`: nothing.
    pub operator: Option<&'static str>,
    /// Since when.
    #[serde(serialize_with = "optional_time")]
    pub operator_since: Option<SystemTime>,
    /// What its checks found; `None` when it is not checked.
    pub check: Option<CheckSnapshot>,
}

/// What the checks of a backend found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckSnapshot {
    /// Whether they find it up.
    pub up: bool,
    /// When they found it so; when they began, while nothing has changed since.
    #[serde(serialize_with = "optional_time")]
    pub since: Option<SystemTime>,
    /// When the last one ended.
    #[serde(serialize_with = "optional_time")]
    pub last_at: Option<SystemTime>,
    /// Why the last one failed; `None` when it passed.
    pub last_failure: Option<String>,
    /// The last ones that ended alike.
    pub in_a_row: u32,
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
    /// How long those took that passed.
    pub seconds: Distribution,
}

/// Whether connections try a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendState {
    /// They do.
    Up,
    /// It kept failing; they do not, while there is another one.
    Down,
    /// It was down, and one connection tries it now.
    OnTrial,
    /// Its checks find it down: they do not.
    CheckFailed,
    /// An operator has set it to `drain`: they do not.
    Drained,
    /// An operator has set it to `down`: they do not, and nor is it checked.
    TakenDown,
    /// It is a name that has no address.
    NoAddress,
    /// It is not configured any more, or its name stands for something else now.
    #[default]
    Gone,
}

/// Handshakes that agreed on the same.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HandshakeSnapshot {
    /// `TLSv1.3`, `TLSv1.2`.
    pub version: &'static str,
    /// IANA name of the key exchange group; `none` when there was none.
    pub group: &'static str,
    /// Kind of key that signed; `none` when resumed.
    pub signature: &'static str,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// Accept to the end of the handshake.
    pub total: Distribution,
    /// Its parts, in the order of [`PHASES`].
    pub phases: [Distribution; PHASES.len()],
}

/// One worker thread's numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ThreadSnapshot {
    /// Its name.
    pub name: String,
    /// Turns of its loop.
    pub turns: u64,
    /// Connections that were woken and moved nothing.
    pub spurious_turns: u64,
    /// How long an event had to wait while the thread worked on others.
    pub loop_lag: Distribution,
    /// Tasks it holds now.
    pub tasks: u64,
    /// Tasks that panicked.
    pub panics: u64,
    /// Hellos that its signer answered, because others waited for the thread.
    pub signed_elsewhere: u64,
    /// Failed calls of accept, by cause.
    pub accept_errors: AcceptErrors,
    /// Whether accepting pauses because the machine is out of something.
    pub backing_off: bool,
}

/// Failed calls of accept, by cause.
pub type AcceptErrors = BTreeMap<&'static str, u64>;

/// What is served, and what became of attempts to change it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReloadSnapshot {
    /// Generation of the configuration that is served; `None` before the first.
    pub generation: Option<u64>,
    /// Reloads that took effect.
    pub succeeded: u64,
    /// Reloads that took effect, except for files that cannot be used.
    pub in_part: u64,
    /// Reloads that changed nothing.
    pub failed: u64,
    /// When the last start or reload was.
    #[serde(serialize_with = "optional_time")]
    pub last_at: Option<SystemTime>,
    /// Why the last reload changed nothing, or what it had to leave out; `None` when it took effect as a whole.
    pub last_problem: Option<String>,
    /// Whether the last reload took effect, but for what `last_problem` names.
    pub left_out: bool,
}

/// One certificate that is served.
#[derive(Clone, Debug, Serialize)]
pub struct CertificateSnapshot {
    /// The service that serves it.
    pub service: String,
    /// What to call it: its first name, or its file.
    pub name: String,
    /// Kind of key: `RSA-2048`, `ECDSA-P256`.
    pub kind: String,
    /// When it expires.
    #[serde(serialize_with = "time")]
    pub not_after: SystemTime,
    /// When its OCSP response expires; `None`: none is stapled.
    #[serde(serialize_with = "optional_time")]
    pub staple_until: Option<SystemTime>,
}

/// One revocation list that clients' certificates are held against.
#[derive(Clone, Debug, Serialize)]
pub struct RevocationListSnapshot {
    /// The service.
    pub service: String,
    /// The CA.
    pub issuer: String,
    /// How many certificates it revokes.
    pub entries: u64,
    /// When it expires; `None`: never.
    #[serde(serialize_with = "optional_time")]
    pub next_update: Option<SystemTime>,
    /// When the next one is late.
    #[serde(serialize_with = "optional_time")]
    pub late_at: Option<SystemTime>,
}

/// How many of a service's certificate files are not used as they are.
#[derive(Clone, Debug, Default, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub struct ProcessSnapshot {
    /// When the snapshot was taken.
    #[serde(serialize_with = "time")]
    pub now: SystemTime,
    /// When the process started.
    #[serde(serialize_with = "time")]
    pub started: SystemTime,
    /// Its number.
    pub pid: u32,
    /// This program's version.
    pub version: &'static str,
    /// CPU seconds by thread name; threads of the same name together.
    pub cpu_seconds: BTreeMap<String, f64>,
    /// CPU seconds of the whole process, ended threads included.
    pub process_cpu_seconds: Option<f64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// How many it may open.
    pub max_files: Option<u64>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// First and last source port that the kernel gives to connections.
    pub source_ports: Option<(u16, u16)>,
    /// TCP sockets in TIME_WAIT, on the whole machine: each holds a source port on the side that closed first.
    pub time_wait: Option<u64>,
}

impl End {
    /// Whether these connections failed: [`Cause::is_failure`].
    pub fn is_failure(&self) -> bool {
        Cause::named(self.cause).is_none_or(Cause::is_failure)
    }
}

/// With its sentence.
impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { step, side, cause, count } = self;
        let mut end = serializer.serialize_struct("End", 6)?;
        end.serialize_field("step", step)?;
        end.serialize_field("side", side)?;
        end.serialize_field("cause", cause)?;
        end.serialize_field("count", count)?;
        end.serialize_field("failed", &self.is_failure())?;
        end.serialize_field("sentence", &sentence(step, side, cause))?;
        end.end()
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Summary {
            count: u64,
            sum_seconds: f64,
            p50_seconds: Option<f64>,
            p90_seconds: Option<f64>,
            p99_seconds: Option<f64>,
        }
        let [p50_seconds, p90_seconds, p99_seconds] = [0.5, 0.9, 0.99].map(|q| self.quantile_seconds(q));
        let (count, sum_seconds) = (self.count(), self.sum_seconds());
        Summary { count, sum_seconds, p50_seconds, p90_seconds, p99_seconds }.serialize(serializer)
    }
}

impl ServiceSnapshot {
    /// Open connections.
    pub fn connections(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

impl BackendSnapshot {
    /// Open connections.
    pub fn connections(&self) -> u64 {
        self.connected.saturating_sub(self.disconnected)
    }

    /// Whether connections try it; `None` when it is not configured any more.
    pub fn is_up(&self) -> Option<bool> {
        match self.state {
            BackendState::Up => Some(true),
            BackendState::Down
            | BackendState::OnTrial
            | BackendState::CheckFailed
            | BackendState::Drained
            | BackendState::TakenDown
            | BackendState::NoAddress => Some(false),
            BackendState::Gone => None,
        }
    }

    /// Attempts that failed, whatever the cause.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

impl ProcessSnapshot {
    /// How many source ports there are towards one backend address.
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
            version: env!("CARGO_PKG_VERSION"),
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
