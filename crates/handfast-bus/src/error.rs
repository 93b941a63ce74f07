//! Reasons why a bus cannot be joined, checked or set up: act, object, problem, and the hint of each.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use crate::bus::Fault;
use crate::purpose::Purpose;

/// Reason why a bus cannot be joined, checked or set up. Its text has the hint in a second line.
#[derive(Debug)]
pub struct BusError(Box<Problem>);

impl BusError {
    /// The text without the hint.
    pub fn what(&self) -> String {
        self.0.to_string()
    }

    /// The instruction that may help, if there is one.
    pub fn hint(&self) -> Option<String> {
        self.0.hint()
    }

    /// Returns true if the request is wrong, and not the machine or the server.
    pub fn is_wrong_use(&self) -> bool {
        self.0.is_wrong_use()
    }

    /// A bus that was joined does not accept a subscription.
    pub fn not_listening(fault: Fault) -> Self {
        Problem::Listen(fault).into()
    }
}

impl From<Problem> for BusError {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        match self.0.hint() {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BusError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Causes of a [`BusError`].
#[derive(Debug, Error)]
pub(crate) enum Problem {
    #[error("fleet {0:?}: expected up to 64 letters, digits, `-` and `_`")]
    FleetName(String),
    #[error("draw {purpose}: the system has no random numbers")]
    Random { purpose: &'static str },
    #[error("the bus's URL: it cannot be read")]
    Url,
    #[error("the bus's URL: expected nats:// or tls://, and a host")]
    Scheme,
    #[error("user and password are both in the URL and in a file")]
    TwoLogins,
    #[error("read user and password from {}: {source}", .file.display())]
    ReadLogin { file: PathBuf, source: io::Error },
    #[error("read user and password from {}: expected one line, user:password", .0.display())]
    LoginForm(PathBuf),
    #[error("read the authorities in {}: {source}", .file.display())]
    ReadAuthorities { file: PathBuf, source: io::Error },
    #[error("read the authorities in {}: {source}", .file.display())]
    Authorities { file: PathBuf, source: handfast_tls::session::Failure },
    #[error("reach the bus {place}: {source}")]
    Unreachable { place: String, purpose: Purpose, source: Unreachable },
    #[error("connect to the bus {place}: no answer in time")]
    ConnectTimeout { place: String },
    #[error("connect to the bus {place}: the server rejected this user and password")]
    LoginRejected { place: String, purpose: Purpose },
    /// The library's error with its source, escaped and cut. `tls_first`: the setting that may be wrong.
    #[error("connect to the bus {place}: {what}")]
    Connect { place: String, what: String, tls_first: Option<&'static str> },
    #[error(
        "join the bus {place}: {reach}it can be reached from other machines and {lacks}; an attacker that reaches it could {}",
        .purpose.danger()
    )]
    Exposed { place: String, reach: Reach, lacks: &'static str, purpose: Purpose },
    #[error(
        "join the bus {place}: it can be reached from other machines, and this user may {} subjects that are not the fleet's",
        .allowed.join(" and ")
    )]
    WidePermissions { place: String, allowed: Vec<&'static str>, purpose: Purpose },
    #[error("ask the bus {place} what is allowed: {source}")]
    AskPermissions { place: String, source: Fault },
    #[error("listen on the bus: {0}")]
    Listen(#[source] Fault),
    #[error("set up a bus in {}: make the folder: {source}", .folder.display())]
    MakeFolder { folder: PathBuf, source: io::Error },
    #[error("set up a bus in {}: {source}", .folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("set up a bus in {}: {file} is there already, and is not overwritten", .folder.display())]
    NotOverwritten { folder: PathBuf, file: String },
    #[error("set up a bus in {}: write {file}: {source}", .folder.display())]
    Write { folder: PathBuf, file: String, source: io::Error },
    #[error("make a certificate for host {host:?}: {source}")]
    Certificate { host: String, source: rcgen::Error },
    #[error("folder {0:?}: nats-server cannot read such a path")]
    FolderName(String),
}

/// Reason why a server is not reached, or is none.
#[derive(Debug, Error)]
pub(crate) enum Unreachable {
    #[error("its name was not resolved in time")]
    ResolveTimeout,
    #[error("its name was not resolved: {0}")]
    Resolve(#[source] io::Error),
    #[error("its name has no address")]
    NoAddress,
    #[error("it sent no greeting in time")]
    NoGreeting,
    /// It cannot be reached, or broke off.
    #[error("{0}: {1}")]
    Io(SocketAddr, #[source] io::Error),
    #[error("{0} ended the connection without a greeting")]
    Silent(SocketAddr),
    #[error("{0} does not greet as a NATS server")]
    NotNats(SocketAddr),
}

/// The way to a server that others can reach, as we know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// We dial another machine ourselves.
    Dialled,
    /// It does not report where it listens.
    Unreported,
    /// It listens on this address.
    ListensOn(String),
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialled => Ok(()),
            Self::Unreported => f.write_str("it does not report where it listens, "),
            Self::ListensOn(host) => write!(f, "it listens on {host}, "),
        }
    }
}

impl Problem {
    fn is_wrong_use(&self) -> bool {
        match self {
            Self::FleetName(_)
            | Self::Url
            | Self::Scheme
            | Self::TwoLogins
            | Self::ReadLogin { .. }
            | Self::LoginForm(_)
            | Self::ReadAuthorities { .. }
            | Self::Authorities { .. }
            | Self::NotOverwritten { .. }
            | Self::Certificate { .. }
            | Self::FolderName(_) => true,
            Self::Random { .. }
            | Self::Unreachable { .. }
            | Self::ConnectTimeout { .. }
            | Self::LoginRejected { .. }
            | Self::Connect { .. }
            | Self::Exposed { .. }
            | Self::WidePermissions { .. }
            | Self::AskPermissions { .. }
            | Self::Listen(_)
            | Self::MakeFolder { .. }
            | Self::Folder { .. }
            | Self::Write { .. } => false,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Url | Self::Scheme => "write nats://HOST:4222 or tls://HOST:4222".to_owned(),
            Self::Unreachable { purpose, source, .. } => source.hint(*purpose)?,
            Self::LoginRejected { purpose, .. } => {
                format!("give the file that `{}` wrote, or the user in the URL", purpose.command())
            }
            Self::Connect { tls_first: Some(setting), .. } => {
                format!("if the server has no `handshake_first: true`, remove {setting}")
            }
            Self::Exposed { reach: Reach::Dialled, purpose, .. } | Self::WidePermissions { purpose, .. } => {
                purpose.set_up()
            }
            Self::Exposed { purpose, .. } => purpose.listen_here(),
            Self::NotOverwritten { .. } => "give an empty folder, or remove the old files".to_owned(),
            _ => return None,
        })
    }
}

impl Unreachable {
    fn hint(&self, purpose: Purpose) -> Option<String> {
        match self {
            Self::ResolveTimeout | Self::Resolve(_) => None,
            Self::NoGreeting | Self::Silent(_) => Some(format!(
                "if the server has `handshake_first: true`, set {}; otherwise check whether nats-server listens on this address and port",
                purpose.tls_first()
            )),
            Self::NoAddress | Self::Io(..) | Self::NotNats(_) => {
                Some("check whether nats-server runs there, and listens on this address and port".to_owned())
            }
        }
    }
}
