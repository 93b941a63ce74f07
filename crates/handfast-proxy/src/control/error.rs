//! What the proxy could not do, outside of a single connection: while starting, reloading, or keeping its workers.
//!
//! In: a failed act and its object. Out: one line, *act, object, what happened*, with its cure as a `hint:` line where there
//! is one; and how the program ends if it cannot go on. What ends a connection is a cause in `record.rs` and not here.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use handfast_net::address::Address;
use handfast_tls::session::Failure;

use handfast_config::ReadError;
use handfast_process::error::Error as ProcessError;

/// How the program ended; the exit codes of every verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Good,
    /// It failed while starting or running: a port in use, a thread that ended.
    Failed,
    /// The configuration or the flags are wrong.
    WrongUse,
}

#[derive(Debug)]
pub(crate) enum Error {
    /// The configuration is wrong; every problem of it, rendered with its place.
    Configuration {
        problems: String,
    },
    /// The configuration is right in itself, and its files cannot be served: every problem, in words.
    NotServable {
        problems: Vec<String>,
    },
    /// The process could not be set up: its user, its limits, an address.
    Process(ProcessError),
    /// The running process's sockets could not be had, or it does not let go.
    TakeOver {
        path: PathBuf,
        why: String,
    },
    AdminInUse {
        address: Address,
        source: io::Error,
    },
    Throwaway(String),
    /// The access log could not be opened; `object` is a space and its path and place, or empty.
    AccessLog {
        object: String,
        source: io::Error,
    },
    /// Something that needs nothing but the system failed: `act` in the infinitive, with its object.
    System {
        act: &'static str,
        source: io::Error,
    },
    Worker {
        name: String,
        source: io::Error,
    },
    /// A worker thread cannot serve by a state. It was tried out before, so this is a fault of ours.
    Install(Failure),
    WorkerEnded,
    WorkerSilent(Duration),
    WorkerTakesNoOrders {
        name: String,
        waiting: usize,
    },
    ReadingPanicked,
    ReadingLost(tokio::task::JoinError),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Configuration { problems: error.problems }
    }
}

impl From<ProcessError> for Error {
    fn from(error: ProcessError) -> Self {
        Self::Process(error)
    }
}

impl Error {
    /// What becomes of an error of the system, which needs no object to be understood.
    pub(crate) fn system(act: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { act, source }
    }

    /// How the program ends that cannot start because of it.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Configuration { .. } | Self::NotServable { .. } => Outcome::WrongUse,
            Self::Process(error) if error.is_configuration() => Outcome::WrongUse,
            _ => Outcome::Failed,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration { problems } | Self::Throwaway(problems) => f.write_str(problems),
            Self::NotServable { problems } => f.write_str(&problems.join("\nerror: ")),
            Self::Process(error) => error.fmt(f),
            Self::TakeOver { path, why } => {
                write!(f, "take over from the process at {}: {why}", path.display())
            }
            Self::AdminInUse { address, source } => write!(
                f,
                "listen on {address} (admin): {source}\n  hint: what listens there is not a serving Handfast (`ss -ltnp` \
                 names it); choose another address with [admin] listen, or \"off\""
            ),
            Self::AccessLog { object, source } => write!(f, "open the access log{object}: {source}"),
            Self::System { act, source } => write!(f, "{act}: {source}"),
            Self::Worker { name, source } => write!(f, "{name}: {source}"),
            Self::Install(failure) => write!(f, "{failure}"),
            Self::WorkerEnded => f.write_str("a worker thread has ended"),
            Self::WorkerSilent(time) => write!(f, "a worker thread did not answer within {time:?}"),
            Self::WorkerTakesNoOrders { name, waiting } => {
                write!(f, "{name} takes no orders: {waiting} wait there, and it does not look at them")
            }
            Self::ReadingPanicked => f.write_str("reading failed: it panicked; see the log"),
            Self::ReadingLost(error) => write!(f, "reading failed: {error}"),
        }
    }
}

// Sources are printed where they belong in the line, so they are not offered a second time.
impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_config::accounts::AccountError;

    #[test]
    fn who_wrote_it_wrong_is_told_apart_from_what_failed() {
        let unknown = AccountError::Unknown { key: "process.user", what: "user", name: "nobdoy".into() };
        let wrong = Error::from(ProcessError::from(unknown));
        assert_eq!(wrong.to_string(), "process.user: there is no user nobdoy on this machine");
        assert_eq!(wrong.outcome(), Outcome::WrongUse);
        let failed = Error::System { act: "listen for signals", source: io::ErrorKind::OutOfMemory.into() };
        assert_eq!(failed.outcome(), Outcome::Failed);
    }
}
