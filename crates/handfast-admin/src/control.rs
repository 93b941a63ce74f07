//! Interface of the running program to the admin listener; `control.rs` answers, a fake does in tests.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::authorization::RequiredToken;
use handfast_config::model::Maintenance;
use handfast_observe::metrics::{FailureSnapshot, RequestFailureSnapshot, Snapshot};
use handfast_observe::open::OpenSnapshot;
use handfast_observe::operator_state::OperatorState;
use handfast_text::suggest::{did_you_mean, one_of};
use handfast_text::units::counted;

/// The outcome of a reload, when it is known: what is served now, as text for a person, or why the request failed.
pub type ReloadOutcome = Pin<Box<dyn Future<Output = Result<String, ReloadRefusal>>>>;

/// Reason why a reload request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadRefusal {
    /// The program is ending, or has too many requests that wait.
    Busy,
    /// The program has begun to stop.
    Stopping,
    /// Nothing has changed: every problem found.
    Refused {
        /// Rendered, a line for each.
        problems: String,
    },
    /// The new configuration is served without some of its files, or of its keys.
    InPart {
        /// Description of the configuration that is served now.
        served: String,
        /// Files and keys that did not take effect, a line for each.
        left_out: String,
    },
}

impl fmt::Display for ReloadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the program is ending, or busy with earlier requests"),
            Self::Stopping => f.write_str("the program is stopping"),
            Self::Refused { problems } => f.write_str(problems),
            Self::InPart { served, left_out } => write!(f, "{served}:\n{left_out}"),
        }
    }
}

impl std::error::Error for ReloadRefusal {}

/// Request for objects of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheAct {
    /// Those whose URL begins so are listed, this number at most.
    List(String, usize),
    /// That of this URL is removed.
    PurgeUrl(String),
    /// Those whose URL begins so are removed.
    PurgePrefix(String),
    /// Those with this tag are removed (`Cache-Tag`).
    PurgeTag(String),
}

/// The outcome of a request to change a backend: its state now, as text for a person, or why nothing changed.
pub type BackendOutcome = Pin<Box<dyn Future<Output = Result<String, BackendRefusal>>>>;

/// Reason why a request to change a backend failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendRefusal {
    /// The program is ending, or has too many requests that wait.
    Busy,
    /// There is no service of this name.
    NoService {
        /// The existing services.
        known: Vec<String>,
    },
    /// The service has no backend of this name.
    NoBackend {
        /// The names of its backends.
        known: Vec<String>,
    },
}

impl fmt::Display for BackendRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the program is ending, or busy with earlier requests"),
            Self::NoService { known } => {
                write!(f, "there is no such service; there is: {}", known.join(", "))
            }
            Self::NoBackend { known } => {
                write!(f, "the service has no such backend; it has:\n{}", known.join("\n"))
            }
        }
    }
}

impl std::error::Error for BackendRefusal {}

/// The outcome of a request about the maintenance of a service: its state now, as text for a person, or why it is not as requested.
pub type MaintenanceOutcome = Pin<Box<dyn Future<Output = Result<String, MaintenanceRefusal>>>>;

/// Reason why a request about the maintenance of a service failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaintenanceRefusal {
    /// The program is ending, or has too many requests that wait.
    Busy,
    /// Another process is about to take over, and would not receive the change.
    Upgrading,
    /// There is no service of this name.
    NoService {
        /// The name.
        service: String,
        /// The services in HTTP mode.
        known: Vec<String>,
    },
    /// The service relays bytes.
    NoHttp {
        /// Its name.
        service: String,
    },
    /// No command put the service in maintenance, or none does any more; its key does.
    ByKey {
        /// Its name.
        service: String,
        /// The configuration that has the key.
        configuration: String,
    },
    /// The change is in effect, and a restart undoes it.
    NotStored {
        /// Description of the state now.
        state: String,
        /// The file that could not be written, and why.
        problem: String,
    },
}

impl fmt::Display for MaintenanceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the program is ending, or busy with earlier requests"),
            Self::Upgrading => f.write_str("another process is taking over at this moment; try again"),
            Self::NoService { service, known } => {
                write!(f, "there is no service {service}, expected ")?;
                match known.is_empty() {
                    true => f.write_str("one with `mode = \"http\"`, and there is none")?,
                    false => f.write_str(&one_of(known.iter().map(String::as_str)))?,
                }
                match did_you_mean(service, known.iter().map(String::as_str)) {
                    Some(hint) => write!(f, "\n  hint: {hint}"),
                    None => Ok(()),
                }
            }
            Self::NoHttp { service } => write!(
                f,
                "service {service} relays bytes, expected one with `mode = \"http\"`: only requests can be answered with 503\n  hint: \
                 take its backends out of use: POST /backends/{service}/BACKEND?state=drain"
            ),
            Self::ByKey { service, configuration } => write!(
                f,
                "service {service} is in maintenance by its key, not by command: `maintenance` in [service.http] of {configuration}\n  \
                 hint: remove the key, and reload"
            ),
            Self::NotStored { state, problem } => write!(
                f,
                "{state}\nA restart undoes this: {problem}\n  hint: free the disk, or give the folder to the user that serves, and repeat \
                 the command"
            ),
        }
    }
}

impl std::error::Error for MaintenanceRefusal {}

/// The outcome of a request about a certificate that is ordered, or about a cache: what is done, as text for a person, or why it is not.
pub type OrderOutcome = Pin<Box<dyn Future<Output = Result<String, OrderRefusal>>>>;

/// Reason why a request about a certificate or a cache failed.
#[derive(Debug, thiserror::Error)]
pub enum OrderRefusal {
    /// The program is ending, or has too many requests that wait.
    #[error("the program is ending, or busy with earlier requests")]
    Busy,
    /// The part of the program that has certificates or caches refused.
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
}

/// Requests and clients that are open at this moment, once the workers have described them.
pub type OpenOutcome = Pin<Box<dyn Future<Output = OpenSnapshot>>>;

/// Reason why new connections should not be sent here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// Nothing is accepted yet.
    Starting,
    /// These names of backends have had no address since the start, and are needed.
    NamesUnanswered(Vec<String>),
    /// The process that holds the private keys is unresponsive: no handshake can be signed.
    KeyProcess {
        /// Time for which it has not answered.
        silence: Duration,
    },
    /// A stop has begun, and connections are still accepted for a while.
    Leaving,
    /// None are accepted; this number is still open.
    Draining {
        /// Connections of all services.
        connections: u64,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::NamesUnanswered(names) => {
                write!(f, "no address yet for the backends' names {}", names.join(", "))
            }
            Self::KeyProcess { silence } => write!(
                f,
                "the key process has not answered for {} s: handshakes that need a signature fail until it does",
                silence.as_secs()
            ),
            Self::Leaving => f.write_str("stopping: new connections are still served for a while"),
            Self::Draining { connections } => {
                write!(f, "draining: {} left", counted(*connections, "connection"))
            }
        }
    }
}

impl std::error::Error for NotReady {}

/// The admin address is not given up by a program that has not begun to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillServing;

impl fmt::Display for StillServing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this process serves; stop it first (TERM)")
    }
}

impl std::error::Error for StillServing {}

/// The running program, as the admin listener sees it.
pub trait Control {
    /// Returns `Ok` if new connections should be sent here; otherwise the reason.
    fn ready(&self) -> Result<(), NotReady>;

    /// Returns true if the admin listener may be requested under this name, which is in lower case and without a port.
    fn has_host(&self, name: &str) -> bool;

    /// Returns the token that a request needs to change something.
    fn required_token(&self) -> RequiredToken;

    /// Gives the admin address up if this program is about to end. The caller is its successor, with this number of threads.
    fn hand_over(&self, threads: u32) -> Result<(), StillServing>;

    /// Reads the configuration and its files again, and serves it if it is right.
    ///
    /// **Cancel:** the future may be dropped when the client goes away; the reload must then end by itself, one way or the other.
    fn reload(&self) -> ReloadOutcome;

    /// Sets a backend to the state that an operator requests.
    ///
    /// **Cancel:** the future may be dropped when the client goes away; the request is carried out nevertheless.
    fn set_backend(&self, service: String, backend: String, requested: OperatorState) -> BackendOutcome;

    /// Puts a service in maintenance by command; `None`: ends that.
    ///
    /// **Cancel:** the future may be dropped when the client goes away; the request is carried out nevertheless.
    fn set_maintenance(&self, service: String, requested: Option<Maintenance>) -> MaintenanceOutcome;

    /// Orders the certificate of a name now, within the limits, or has it revoked and orders a new one.
    ///
    /// **Cancel:** the future may be dropped when the client goes away; the request is carried out nevertheless.
    fn order(&self, name: String, revokes: bool) -> OrderOutcome;

    /// Lists or purges objects of the cache of a service; `None`: of all services.
    fn cache(&self, service: Option<String>, act: CacheAct) -> OrderOutcome;

    /// Opens the access log again by its name, after a rotation.
    fn reopen(&self);

    /// Stops accepting and lets connections end; the program then stops. May be called again.
    fn drain(&self);

    /// Describes the listeners and their backends.
    fn overview(&self) -> Overview;

    /// The numbers of this moment: [`handfast_observe::metrics::Registry::snapshot`].
    fn snapshot(&self) -> Snapshot;

    /// The last connections that failed: [`handfast_observe::metrics::Registry::failures`].
    fn failures(&self) -> Vec<FailureSnapshot>;

    /// The last requests that failed: [`handfast_observe::metrics::Registry::request_failures`].
    fn request_failures(&self) -> Vec<RequestFailureSnapshot>;

    /// Describes open requests and connected clients; takes at most a second.
    fn open(&self) -> OpenOutcome;
}

/// Description of the listeners and their backends, in words.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overview {
    /// Source of the configuration: a file's path, or `embedded defaults`.
    pub configuration: String,
    /// The services, in the order of the configuration.
    pub services: Vec<ServiceOverview>,
}

/// One service in words.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceOverview {
    /// Its name.
    pub name: String,
    /// Addresses it listens on.
    pub listen: Vec<String>,
    /// Its TLS policy in a few words: `modern-2026: TLS 1.2, 1.3`.
    pub policy: String,
    /// Policy for client certificates: `off`, `request` or `require`.
    pub client_certificates: String,
    /// Its backends, named as in the metrics.
    pub backends: Vec<String>,
    /// Method of choosing one: `round-robin`, `least-connections`.
    pub balance: String,
    /// Exceptions for names, one sentence each.
    pub exceptions: Vec<String>,
}
