//! Errors on the way to a certificate: one variant for each way.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use handfast_text::foreign::excerpt;

/// Challenges of an issuer that a message names.
const MAX_OFFERED: usize = 8;

/// Reason why a try failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file of the store cannot be read or written.
    Store {
        /// Operation that failed: `read`, `write`, `make`.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of the store has content that this program did not write.
    Malformed {
        /// The file.
        path: PathBuf,
        /// Problem with its content.
        what: String,
    },
    /// The issuer cannot be reached, or has refused.
    Issuer {
        /// Operation at the issuer: `order`, `finalize the order`.
        act: &'static str,
        /// Its answer.
        what: String,
        /// Seconds for which it accepts no further request.
        pause: Option<i64>,
    },
    /// The issuer offers no challenge that is allowed for this name.
    NoChallenge {
        /// Challenges that it offers.
        offered: Vec<String>,
    },
    /// The order was not done in time.
    Late {
        /// Seconds that were waited.
        seconds: u64,
    },
    /// The received certificate is not one for the name, with our key.
    Unusable {
        /// Problem with the certificate.
        what: String,
    },
    /// The program that sets records in DNS has failed.
    Record {
        /// The name of the record.
        host: String,
        /// Reason of the failure.
        what: String,
    },
    /// The library that asks the issuer has panicked.
    Panic,
    /// A key or a request could not be made.
    Key {
        /// Error of the library.
        what: String,
    },
}

impl Error {
    pub(crate) fn store(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Store { act, path, source }
    }

    /// Seconds for which the issuer accepts no further request.
    pub fn pause(&self) -> Option<i64> {
        match self {
            Self::Issuer { pause, .. } => *pause,
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    /// Texts of others, such as the issuer's, are escaped and cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { act, path, source } => write!(f, "{act} {}: {source}", path.display()),
            Self::Malformed { path, what } => write!(f, "read {}: {}", path.display(), excerpt(what)),
            Self::Issuer { act, what, .. } => write!(f, "{act}: {}", excerpt(what)),
            Self::NoChallenge { offered } => write!(
                f,
                "the issuer offers {} for this name, and none of them is in acme.challenges and fits it",
                match &offered[..] {
                    [] => "no challenge".to_owned(),
                    offered => excerpt(&offered[..offered.len().min(MAX_OFFERED)].join(", ")),
                }
            ),
            Self::Late { seconds } => write!(f, "the order was not done within {seconds} s"),
            Self::Panic => f.write_str(
                "the issuer sent something that the program could not handle (a bug: please report it)",
            ),
            Self::Unusable { what } => {
                write!(f, "the certificate that was received is not used: {}", excerpt(what))
            }
            Self::Record { host, what } => {
                write!(f, "set the record {} by dns-command: {}", excerpt(host), excerpt(what))
            }
            Self::Key { what } => write!(f, "make a key: {}", excerpt(what)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each error with a text that another program chooses.
    #[test]
    fn a_text_of_others_is_escaped_and_cut() {
        let hostile = format!("no\r\nhandfast: error: forged\u{1b}[2J\u{202e}{}", "x".repeat(100_000));
        let text = || hostile.clone();
        let path = || PathBuf::from("store/a.json");
        for error in [
            Error::Malformed { path: path(), what: text() },
            Error::Issuer { act: "order", what: text(), pause: None },
            Error::NoChallenge { offered: vec![text(); 1_000] },
            Error::Unusable { what: text() },
            Error::Record { host: text(), what: text() },
            Error::Key { what: text() },
        ] {
            let shown = error.to_string();
            assert!(shown.len() < 2_500, "{}", shown.len());
            assert!(!shown.chars().any(|sign| sign.is_control() || sign == '\u{202e}'), "{shown:?}");
        }
    }
}
