//! Every way in which the lab can fail, in words.

use std::fmt;
use std::io;

/// An error of the lab.
#[derive(Debug)]
pub enum LabError {
    /// This machine does not let us make namespaces.
    Refused {
        /// Action that was refused.
        act: &'static str,
        /// Error of the kernel.
        error: io::Error,
        /// Hint for the user, as far as one is known.
        hint: String,
    },
    /// A change to a network of ours failed.
    Network {
        /// The failed change, with its object: `add address 10.77.0.1/30 to veth0`.
        act: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A command could not be started or waited for.
    Command {
        /// The failed action: `run curl`.
        act: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// A file could not be read or written.
    File {
        /// The failed action: `write report.json`.
        act: String,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The request is impossible; each problem is one line, with a hint.
    Wrong(Vec<String>),
    /// It was stopped.
    Stopped(nix::sys::signal::Signal),
    /// An expected event did not happen in time.
    Late {
        /// The expected event, and the time limit.
        what: String,
        /// Hint for the user.
        hint: String,
    },
}

impl LabError {
    /// A failed change to a network, for `map_err`.
    pub fn network<E: Into<io::Error>>(act: impl Into<String>) -> impl FnOnce(E) -> Self {
        let act = act.into();
        move |error| Self::Network { act, error: error.into() }
    }

    /// A file that failed, for `map_err`.
    pub fn file<E: Into<io::Error>>(act: impl Into<String>) -> impl FnOnce(E) -> Self {
        let act = act.into();
        move |error| Self::File { act, error: error.into() }
    }

    /// A command that failed, for `map_err`.
    pub fn command<E: Into<io::Error>>(act: impl Into<String>) -> impl FnOnce(E) -> Self {
        let act = act.into();
        move |error| Self::Command { act, error: error.into() }
    }

    /// The exit code: 2 for wrong use, 128 and its number for a signal, 126 and 127 as shells have them for a command that cannot be run or
    /// does not exist, 125 for everything else, which is no code of the command.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Wrong(_) => 2,
            Self::Stopped(signal) => 128_u8.saturating_add(*signal as u8),
            Self::Command { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Self::Command { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => 126,
            _ => 125,
        }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { act, error, hint } => write!(f, "{act}: {error}\nhint: {hint}"),
            Self::Network { act, error } | Self::Command { act, error } | Self::File { act, error } => {
                write!(f, "{act}: {error}")
            }
            Self::Wrong(problems) => write!(f, "{}", problems.join("\nerror: ")),
            Self::Stopped(signal) => write!(f, "stopped by {signal}"),
            Self::Late { what, hint } => write!(f, "{what}\nhint: {hint}"),
        }
    }
}

impl std::error::Error for LabError {}
