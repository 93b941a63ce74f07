//! Backends: addresses, weights, and how one is picked.

use std::fmt;

use handfast_net::address::Address;

/// A backend as written: an address, or a name that is resolved again and again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An address.
    Address(Address),
    /// A name and a port.
    Name(String, u16),
    /// The built-in backend: answers HTTP requests and echoes anything else.
    BuiltIn,
}

impl fmt::Display for Target {
    /// As it is written in a configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::BuiltIn => f.write_str("built-in"),
        }
    }
}

/// One backend of a service or rule (`backend = …`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Where it is. Each address of a name has the weight for itself.
    pub target: Target,
    /// Its share of the connections, in proportion to the others; 0: none.
    pub weight: u32,
    /// Whether it is used only when no other one is up.
    pub backup: bool,
}

impl From<Target> for Backend {
    /// With what holds when nothing more is written.
    fn from(target: Target) -> Self {
        Self { target, weight: 1, backup: false }
    }
}

/// How a backend is picked (`balance`); always by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest connections of ours.
    LeastConnections,
    /// The one of two random backends that has fewer connections.
    TwoChoices,
    /// The same one for the same client address.
    SourceHash,
}

impl Balance {
    /// The words of the configuration.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("round-robin", Self::RoundRobin),
        ("least-connections", Self::LeastConnections),
        ("two-choices", Self::TwoChoices),
        ("source-hash", Self::SourceHash),
    ];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, balance)| *balance == self).map_or("", |(word, _)| word)
    }
}
