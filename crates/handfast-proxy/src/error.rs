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

use handfast_text::units::counted;

use crate::config::ReadError;
use crate::config::accounts::AccountError;

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

/// A failure, with the object it concerns.
#[derive(Debug)]
pub(crate) enum Error {
    /// The configuration is wrong; every problem of it, rendered with its place.
    Configuration { problems: String },
    /// The configuration is right in itself, and its files cannot be served: every problem, in words.
    NotServable { problems: Vec<String> },
    /// The user or group to become cannot be used.
    Account(AccountError),
    /// A user's name that no system call takes.
    NameWithNul(std::ffi::NulError),
    /// The groups of a user could not be looked up.
    GroupsOf { user: String, source: nix::errno::Errno },
    /// The kernel did not let us become somebody else.
    Become { act: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// The kernel let us, and let us go back.
    KeptPrivileges { user: String },
    /// A file could not be given to the user that serves.
    HandOver { file: PathBuf, source: io::Error },
    /// The thread that looks at files as the user panicked, or could not be started (then with the reason).
    AsUser(Option<io::Error>),
    /// This process may have too few open files to serve even one connection.
    TooFewFiles { allowed: u64, reserved: u64 },
    /// … or as many as the configuration wants.
    TooManyConnections { wanted: usize, possible: usize, allowed: u64, reserved: u64 },
    /// An address cannot be listened on.
    Listen { address: Address, whose: String, source: io::Error },
    /// Several addresses cannot.
    ListenOnSeveral(Vec<Self>),
    /// The running process's sockets could not be had, or it does not let go.
    TakeOver { path: PathBuf, why: String },
    /// The admin address is in use, and not by another Handfast.
    AdminInUse { address: Address, source: io::Error },
    /// The throwaway certificate could not be made.
    Throwaway(handfast_tls::Error),
    /// Its CA could not be written.
    WriteCa { file: PathBuf, source: io::Error },
    /// The access log could not be opened; `object` is a space and its path and place, or empty.
    AccessLog { object: String, source: io::Error },
    /// Something that needs nothing but the system failed: `act` in the infinitive, with its object.
    System { act: &'static str, source: io::Error },
    /// A worker thread failed.
    Worker { name: String, source: io::Error },
    /// A worker thread cannot serve by a state. It was tried out before, so this is a fault of ours.
    Install(Failure),
    /// A worker thread is gone.
    WorkerEnded,
    /// A worker thread did not answer for so long.
    WorkerSilent(Duration),
    /// A worker thread has not looked for so many orders that it takes no more.
    WorkerTakesNoOrders { name: String, waiting: usize },
    /// The thread that reads files panicked.
    ReadingPanicked,
    /// It could not be waited for.
    ReadingLost(tokio::task::JoinError),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Configuration { problems: error.problems }
    }
}

impl From<AccountError> for Error {
    fn from(error: AccountError) -> Self {
        Self::Account(error)
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
            Self::Configuration { .. }
            | Self::NotServable { .. }
            | Self::Account(_)
            | Self::TooFewFiles { .. }
            | Self::TooManyConnections { .. } => Outcome::WrongUse,
            _ => Outcome::Failed,
        }
    }

    /// What to do about it, when there is something.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Become { .. } => {
                Some("only root may change its user; start as root or remove process.user and group".into())
            }
            Self::TooFewFiles { .. } => Some("raise the limit (ulimit -n, LimitNOFILE= in a unit file)".into()),
            Self::TooManyConnections { possible, .. } => Some(format!(
                "raise the limit (ulimit -n, LimitNOFILE= in a unit file) or set max-connections to {possible} or less"
            )),
            Self::AdminInUse { .. } => Some(
                "what listens there is not a serving Handfast (`ss -ltnp` names it); choose another address with \
                 [admin] listen, or \"off\""
                    .into(),
            ),
            Self::Listen { address, source, .. } => listen_hint(address, source).map(str::to_owned),
            _ => None,
        }
    }
}

/// The cure for an address that cannot be listened on.
fn listen_hint(address: &Address, error: &io::Error) -> Option<&'static str> {
    match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, _) => Some("another program listens there; `ss -ltnp` names it"),
        (io::ErrorKind::PermissionDenied, Address::Ip(address)) if address.port() < 1024 => {
            Some("ports below 1024 need CAP_NET_BIND_SERVICE; start as root and set process.user")
        }
        (io::ErrorKind::AddrNotAvailable, _) => Some("no interface of this machine has that address"),
        (io::ErrorKind::NotFound, Address::Unix(_)) => Some("create the socket's folder"),
        (io::ErrorKind::PermissionDenied, Address::Unix(_)) => {
            Some("whoever starts the program must be allowed to write to the socket's folder")
        }
        _ => None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration { problems } => f.write_str(problems)?,
            Self::NotServable { problems } => f.write_str(&problems.join("\nerror: "))?,
            Self::Account(error) => write!(f, "{error}")?,
            Self::NameWithNul(error) => write!(f, "{error}")?,
            Self::GroupsOf { user, source } => write!(f, "look up the groups of {user}: {source}")?,
            Self::Become { act, source } => write!(f, "{act}: {source}")?,
            Self::KeptPrivileges { user } => {
                write!(f, "become {user}: the kernel let us keep our privileges")?;
            }
            Self::HandOver { file, source } => {
                write!(f, "hand {} over to the user: {source}", file.display())?;
            }
            Self::AsUser(None) => f.write_str("check files as the user: it panicked")?,
            Self::AsUser(Some(error)) => write!(f, "check files as the user: {error}")?,
            Self::TooFewFiles { allowed, reserved } => write!(
                f,
                "this process may have {}, it needs {reserved} and two for each connection",
                counted(*allowed, "open file")
            )?,
            Self::TooManyConnections { wanted, allowed, reserved, .. } => write!(
                f,
                "process.max-connections: {} open files are needed for {}, this process may have {allowed}",
                2 * *wanted as u64 + reserved,
                counted(*wanted as u64, "connection")
            )?,
            Self::Listen { address, whose, source } => write!(f, "listen on {address} ({whose}): {source}")?,
            Self::ListenOnSeveral(errors) => {
                let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))?;
            }
            Self::TakeOver { path, why } => {
                write!(f, "take over from the process at {}: {why}", path.display())?;
            }
            Self::AdminInUse { address, source } => write!(f, "listen on {address} (admin): {source}")?,
            Self::Throwaway(error) => write!(f, "{error}")?,
            Self::WriteCa { file, source } => {
                write!(f, "write the throwaway CA to {}: {source}", file.display())?;
            }
            Self::AccessLog { object, source } => write!(f, "open the access log{object}: {source}")?,
            Self::System { act, source } => write!(f, "{act}: {source}")?,
            Self::Worker { name, source } => write!(f, "{name}: {source}")?,
            Self::Install(failure) => write!(f, "{failure}")?,
            Self::WorkerEnded => f.write_str("a worker thread has ended")?,
            Self::WorkerSilent(time) => write!(f, "a worker thread did not answer within {time:?}")?,
            Self::WorkerTakesNoOrders { name, waiting } => {
                write!(f, "{name} takes no orders: {waiting} wait there, and it does not look at them")?;
            }
            Self::ReadingPanicked => f.write_str("reading failed: it panicked; see the log")?,
            Self::ReadingLost(error) => write!(f, "reading failed: {error}")?,
        }
        self.hint().map_or(Ok(()), |hint| write!(f, "\n  hint: {hint}"))
    }
}

// Sources are printed where they belong in the line, so they are not offered a second time.
impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(address: &str, kind: io::ErrorKind) -> String {
        let address = match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.into()),
            None => Address::Ip(address.parse().expect("a test's address")),
        };
        Error::Listen { address, whose: "service web".into(), source: kind.into() }.to_string()
    }

    #[test]
    fn an_address_has_the_cure_that_fits_it() {
        let in_use = listen("127.0.0.1:443", io::ErrorKind::AddrInUse);
        assert!(in_use.starts_with("listen on 127.0.0.1:443 (service web): "), "{in_use}");
        assert!(in_use.ends_with("\n  hint: another program listens there; `ss -ltnp` names it"), "{in_use}");
        let low = listen("127.0.0.1:443", io::ErrorKind::PermissionDenied);
        assert!(low.contains("\n  hint: ports below 1024 "), "{low}");
        let high = listen("127.0.0.1:8443", io::ErrorKind::PermissionDenied);
        assert!(!high.contains("hint"), "{high}");
        let folder = listen("unix:/none/web.sock", io::ErrorKind::NotFound);
        assert!(folder.ends_with("\n  hint: create the socket's folder"), "{folder}");
    }

    #[test]
    fn who_wrote_it_wrong_is_told_apart_from_what_failed() {
        let unknown = AccountError::Unknown { key: "process.user", what: "user", name: "nobdoy".into() };
        let wrong = Error::from(unknown);
        assert_eq!(wrong.to_string(), "process.user: there is no user nobdoy on this machine");
        assert_eq!(wrong.outcome(), Outcome::WrongUse);
        let failed = Error::System { act: "listen for signals", source: io::ErrorKind::OutOfMemory.into() };
        assert_eq!(failed.outcome(), Outcome::Failed);
        let several = Error::ListenOnSeveral(vec![Error::WorkerEnded, failed]);
        assert_eq!(several.to_string().lines().count(), 2, "all of them are told");
    }
}
