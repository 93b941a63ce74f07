//! Messages of machines: JSON, sealed.
//!
//! | subject | who publishes | what |
//! |---|---|---|
//! | `hf.F.m.all` | every machine | [`FleetMessage`] |
//!
//! A word that is not understood is of a later version, and ignored.

use std::collections::BTreeMap;
use std::fmt;

use handfast_bus::printable;
use serde::{Deserialize, Serialize};

/// A message, with its sender and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FleetMessage {
    /// The process: a new one after each start.
    pub(crate) from: String,
    /// Of this message; each of the process has a higher one.
    pub(crate) number: u64,
    /// The machine's name, for people.
    #[serde(deserialize_with = "printable")]
    pub(crate) machine: String,
    /// Its program's version.
    #[serde(deserialize_with = "printable")]
    pub(crate) version: String,
    /// True if it orders certificates.
    pub(crate) orders: bool,
    /// By its clock. **Units**: milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) word: Word,
}

/// Content of a message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(crate) enum Word {
    /// Request of a machine that has started, or was away, for the state of the others.
    Ask,
    /// I am there.
    Here,
    /// I am no more.
    Leaving,
    /// Keys of tickets, in the form of their file.
    Keys {
        /// Of the services whose keys have this life. **Units**: seconds.
        rotate: u64,
        /// **Units**: seconds.
        lifetime: u64,
        text: String,
    },
    /// This machine orders the certificate of a name for this number of seconds, unless another one objects.
    Claim { name: String, seconds: u64, confirmed: bool },
    /// No machine needs to wait for me any more.
    Released { name: String },
    /// Answers to all challenges of mine that are open; they replace those that I gave before.
    Answers {
        number: u64,
        /// The content of each file of HTTP-01.
        files: BTreeMap<String, String>,
        /// The certificate and key for each server name of TLS-ALPN-01, in PEM.
        certificates: BTreeMap<String, String>,
    },
    /// I give the answers of that machine with that number too.
    Answering { of: String, number: u64 },
    /// The certificate of a name, with its key, in PEM.
    Certificate { name: String, pem: String },
}

impl fmt::Debug for Word {
    /// Leaves out what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask => f.write_str("Ask"),
            Self::Here => f.write_str("Here"),
            Self::Leaving => f.write_str("Leaving"),
            Self::Keys { rotate, lifetime, .. } => write!(f, "Keys({rotate}, {lifetime})"),
            Self::Claim { name, seconds, confirmed } => write!(f, "Claim({name}, {seconds}, {confirmed})"),
            Self::Released { name } => write!(f, "Released({name})"),
            Self::Answers { number, .. } => write!(f, "Answers({number})"),
            Self::Answering { of, number } => write!(f, "Answering({of}, {number})"),
            Self::Certificate { name, .. } => write!(f, "Certificate({name})"),
        }
    }
}

/// The subject of a fleet.
pub(crate) fn subject(fleet: &str) -> String {
    format!("hf.{fleet}.m.all")
}
