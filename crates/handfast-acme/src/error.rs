//! Errors on the way to a certificate: one variant for each way.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use handfast_pki::Finding;
use handfast_text::foreign::excerpt;

use crate::name::Name;

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
        source: UnusableError,
    },
    /// The program that sets records in DNS has failed.
    Record {
        /// The name of the record.
        host: String,
        /// Reason of the failure.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The library that asks the issuer has panicked.
    Panic,
    /// A key or a request could not be made.
    Key {
        /// Error of the library, or of the key process.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Keys are in a key process, and this process only looks at the store.
    NoKeyProcess,
    /// A step of an order that was not begun.
    NoOrder,
    /// A certificate that was made here, or comes from another machine, cannot be used.
    Certificate {
        /// The first finding; empty if there is none.
        finding: String,
    },
    /// The certificate of another machine has other names.
    OtherName {
        /// The name that it should have.
        name: Name,
    },
    /// The key of an account in the store cannot be used.
    AccountKey {
        /// The directory of the issuer.
        directory: String,
        /// Error of the decoder or the library.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Reason why a certificate is not put into the store.
#[derive(Debug, thiserror::Error)]
pub enum UnusableError {
    /// It has no certificate, and no finding gives the reason.
    #[error("it cannot be read")]
    Unreadable,
    /// The first finding.
    #[error("{0}")]
    Finding(String),
    /// It has other names.
    #[error("it is not for {0}")]
    OtherName(Name),
    /// It is not valid yet, or not any more.
    #[error("by this machine's clock ({now}) it is not valid: it is from {from} until {until} (Unix time)")]
    NotValid {
        /// This machine's clock.
        now: i64,
        /// Its first second.
        from: i64,
        /// Its last second.
        until: i64,
    },
}

impl UnusableError {
    /// From the findings about a text in which there is no certificate.
    pub(crate) fn of(findings: &[Finding]) -> Self {
        findings.first().map_or(Self::Unreadable, |finding| Self::Finding(finding.message.clone()))
    }
}

impl Error {
    pub(crate) fn store(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Store { act, path, source }
    }

    pub(crate) fn key(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Key { source: source.into() }
    }

    /// From the findings about a text in which there is no certificate.
    pub(crate) fn certificate(findings: &[Finding]) -> Self {
        let finding = findings.first().map_or_else(String::new, |finding| finding.message.clone());
        Self::Certificate { finding }
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
            Self::Unusable { source } => {
                write!(f, "the certificate that was received is not used: {}", excerpt(&source.to_string()))
            }
            Self::Record { host, source } => {
                write!(f, "set the record {} by dns-command: {}", excerpt(host), excerpt(&source.to_string()))
            }
            Self::Key { source } => write!(f, "make a key: {}", excerpt(&source.to_string())),
            Self::NoKeyProcess => f.write_str("make a key: there is no key process here"),
            Self::NoOrder => f.write_str("make a key: no order was begun"),
            Self::Certificate { finding } => write!(f, "make a key: {}", excerpt(finding)),
            Self::OtherName { name } => write!(f, "make a key: it is not for {name}"),
            Self::AccountKey { directory, source } => {
                let what = format!("read the key of the account at {directory}: {source}");
                write!(f, "make a key: {}", excerpt(&what))
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Store { source, .. } => Some(source),
            Self::Unusable { source } => Some(source),
            Self::Record { source, .. } | Self::Key { source } | Self::AccountKey { source, .. } => {
                Some(&**source)
            }
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
            Error::Unusable { source: UnusableError::Finding(text()) },
            Error::Record { host: text(), source: text().into() },
            Error::key(text()),
            Error::Certificate { finding: text() },
            Error::AccountKey { directory: text(), source: text().into() },
        ] {
            let shown = error.to_string();
            assert!(shown.len() < 2_500, "{}", shown.len());
            assert!(!shown.chars().any(|sign| sign.is_control() || sign == '\u{202e}'), "{shown:?}");
        }
    }
}
