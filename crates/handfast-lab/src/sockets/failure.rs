//! Reasons why an experiment, or the whole laboratory, could not be run.

use std::fmt;
use std::io;

use nix::sys::signal::Signal;
use rustix::io::Errno;

use crate::error::LabError;

/// Reason why an experiment or the laboratory failed.
#[derive(Debug)]
pub enum Failure {
    /// A step of the laboratory failed.
    Step {
        /// The failed action.
        act: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// Neither engine can make a link between two hosts.
    NoLink {
        /// Error of /dev/net/tun.
        tun: String,
        /// Error of veth and packet sockets.
        veth: String,
    },
    /// The network of the experiment could not be made or changed.
    Lab(LabError),
    /// This machine cannot make the event happen.
    Skipped(String),
    /// The event was made, and did not happen.
    DidNotHappen(&'static str),
    /// It was stopped.
    Stopped(Signal),
    /// There is no row of that name.
    NoSuchRow(String),
}

impl Failure {
    pub(crate) fn io(act: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Step { act, error }
    }

    pub(super) fn errno(act: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Step { act, error: errno.into() }
    }

    /// The exit code for it: 2 for wrong use, 128 and its number for a signal, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoSuchRow(_) => 2,
            Self::Stopped(signal) => 128_u8.saturating_add(*signal as u8),
            Self::Step { .. }
            | Self::NoLink { .. }
            | Self::Lab(_)
            | Self::Skipped(_)
            | Self::DidNotHappen(_) => 1,
        }
    }

    /// Hint for the user, where there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoLink { .. } => Some(
                "the kernel needs TUN (modprobe tun; in a container, `--device /dev/net/tun`) or veth (modprobe veth)",
            ),
            Self::NoSuchRow(_) => Some("`handfast lab sockets --list` names all rows"),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { act, error } => write!(f, "{act}: {error}"),
            Self::Lab(error) => error.fmt(f),
            Self::NoLink { tun, veth } => write!(f, "make a link: {tun}; {veth}"),
            Self::Skipped(reason) => f.write_str(reason),
            Self::DidNotHappen(what) => write!(f, "it did not happen: {what}"),
            Self::Stopped(signal) => write!(f, "stopped by {signal}"),
            Self::NoSuchRow(name) => write!(f, "row {name:?}: there is no such row"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Stopped(signal) => Self::Stopped(signal),
            other => Self::Lab(other),
        }
    }
}
