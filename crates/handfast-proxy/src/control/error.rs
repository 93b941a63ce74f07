//! Failures of the proxy outside of a single connection: while starting, reloading, or keeping its workers.
//!
//! Its text is *act, object, what happened*, with its cure as a `hint:` line where there is one. The end of a connection is a cause in
//! `record.rs`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use handfast_config::ReadError;
use handfast_config::model::{Address, Target};
use handfast_net::listen::Unfit;
use handfast_process::error::Error as ProcessError;
use handfast_tls::session::Failure;
use tokio::task::JoinError;

use super::fleet::FleetSecretError;
use super::upgrade::protocol::{PROTOCOL_VERSION, describe};
use crate::state::ThrowawayError;

/// Outcome of the program; the exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Good,
    /// It failed while starting or running: a port in use, a thread that ended.
    Failed,
    /// The configuration or the flags are wrong.
    WrongUse,
}

/// A failure of the control thread.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The configuration cannot be read, or is wrong.
    #[error(transparent)]
    Configuration(#[from] ReadError),
    /// The configuration is right in itself, and its files cannot be served: all problems.
    #[error("{}", .0.join("\nerror: "))]
    NotServable(Vec<String>),
    /// Addresses, the user or limits of the process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// An error of the system, which needs no object but that of `act` to be understood.
    #[error("{act}: {source}")]
    System { act: String, source: io::Error },
    #[error(transparent)]
    Throwaway(#[from] ThrowawayError),
    /// A worker cannot install a state.
    #[error(transparent)]
    Install(Failure),
    #[error("a worker thread has ended")]
    WorkerEnded,
    #[error("a worker thread did not answer within {0:?}")]
    WorkerSilent(Duration),
    #[error("{worker} is unresponsive: {waiting} orders wait for it")]
    MailboxFull { worker: String, waiting: usize },
    #[error(
        "listen on {address} (admin): {source}\n  hint: what listens there is no Handfast, or was too busy to answer (`ss -ltnp` names it); \
         choose another address with [admin] listen, or \"off\""
    )]
    AdminTaken { address: Address, source: io::Error },
    /// The fleet's secret cannot be used after a reload.
    #[error(transparent)]
    FleetSecret(#[from] FleetSecretError),
    #[error(
        "service {service}: the {target} is new, and only a start can add programs\n  hint: restart, or `handfast upgrade`"
    )]
    NewProgram { service: String, target: Target },
    /// The thread that reads for a reload has panicked.
    #[error("reading failed: it panicked; see the log")]
    ReadingPanicked,
    /// The task of a reload did not end.
    #[error("reading failed: {0}")]
    Reading(#[from] JoinError),
    #[error("take over from the process at {}: {source}", .path.display())]
    TakeOver { path: PathBuf, source: TakeOverError },
}

/// Reason why a process does not take over from another one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeOverError {
    /// The connection failed, or the other process did not answer.
    #[error("{}", describe(.0))]
    Connection(#[source] io::Error),
    #[error("it speaks protocol {theirs}, expected {PROTOCOL_VERSION}")]
    OtherProtocol { theirs: u32 },
    /// The reason of the other process.
    #[error("{why}")]
    Refused { why: String },
    #[error("its answer is for another request")]
    OutOfOrder,
    #[error("it handed over a socket that is {0}")]
    UnfitSocket(#[source] Unfit),
    #[error("it handed over a socket that listens on {bound} as another one")]
    OtherSocket { bound: Address },
}

impl Error {
    /// The configuration is right in itself, and its files cannot be served.
    pub(crate) fn not_servable(problems: &[impl ToString]) -> Self {
        Self::NotServable(problems.iter().map(ToString::to_string).collect())
    }

    /// An error of the system, which needs no object but that of `act` to be understood.
    pub(crate) fn system(act: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let act = act.into();
        move |source| Self::System { act, source }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Configuration(_) | Self::NotServable(_) => Outcome::WrongUse,
            Self::Process(error) if error.is_configuration() => Outcome::WrongUse,
            _ => Outcome::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_config::accounts::find_user;

    #[test]
    fn wrong_input_is_distinguished_from_a_failure() {
        let unknown = find_user("nobdoy").expect_err("there is none");
        let wrong = Error::from(ProcessError::from(unknown));
        assert_eq!(wrong.to_string(), "process.user: there is no user nobdoy on this machine");
        assert_eq!(wrong.outcome(), Outcome::WrongUse);
        let failed = Error::system("listen for signals")(io::ErrorKind::OutOfMemory.into());
        assert_eq!(failed.outcome(), Outcome::Failed);
    }
}
