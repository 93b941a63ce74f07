//! What can go wrong on the way to a certificate: one variant for each way.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a try failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file of the store cannot be read or written.
    Store {
        /// What was being done: `read`, `write`, `make`.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// A file of the store has content that this program did not write.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The issuer cannot be reached, or has refused.
    Issuer {
        /// What was asked of it: `order`, `finalize the order`.
        act: &'static str,
        /// Its answer.
        what: String,
        /// For this number of seconds it wants no further request.
        pause: Option<i64>,
    },
    /// The issuer offers no challenge that is allowed for this name.
    NoChallenge {
        /// What it offers.
        offered: Vec<String>,
    },
    /// The order was not done in time.
    Late {
        /// Seconds that were waited.
        seconds: u64,
    },
    /// What was received is no certificate for the name, with our key.
    Unusable {
        /// What is wrong with it.
        what: String,
    },
    /// The program that sets records in DNS has failed.
    Record {
        /// The name of the record.
        host: String,
        /// Why.
        what: String,
    },
    /// A key or a request could not be made.
    Key {
        /// What the library reports.
        what: String,
    },
}

impl Error {
    pub(crate) fn store(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Store { act, path, source }
    }

    /// For this number of seconds the issuer wants no further request.
    pub fn pause(&self) -> Option<i64> {
        match self {
            Self::Issuer { pause, .. } => *pause,
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { act, path, source } => write!(f, "{act} {}: {source}", path.display()),
            Self::Malformed { path, what } => write!(f, "read {}: {what}", path.display()),
            Self::Issuer { act, what, .. } => write!(f, "{act}: {what}"),
            Self::NoChallenge { offered } => write!(
                f,
                "the issuer offers {} for this name, and none of them is in acme.challenges and fits it",
                if offered.is_empty() { "no challenge".to_owned() } else { offered.join(", ") }
            ),
            Self::Late { seconds } => write!(f, "the order was not done within {seconds} s"),
            Self::Unusable { what } => write!(f, "the certificate that was received is not used: {what}"),
            Self::Record { host, what } => write!(f, "set the record {host} by dns-command: {what}"),
            Self::Key { what } => write!(f, "make a key: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store { source, .. } => Some(source),
            _ => None,
        }
    }
}
