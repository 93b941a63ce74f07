//! Backends: addresses, weights, how one is picked, and how it is reached.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use handfast_net::address::Address;
use handfast_net::dial::SourceAddress;

use super::Program;

/// A backend as written: an address, or a name that is resolved repeatedly.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An address.
    Address(Address),
    /// A name and a port.
    Name(String, u16),
    /// The built-in backend: answers HTTP requests and echoes anything else.
    BuiltIn,
    /// A program that is started for each connection, with the connection as its standard input and output.
    Program(Program),
}

impl Target {
    /// Returns true if the target is a unix socket or a program: it has no port and no family, and a connection to it no source address.
    pub fn is_unix(&self) -> bool {
        matches!(self, Self::Address(Address::Unix(_)) | Self::Program(_))
    }

    /// Returns true if the target is a program that is started for each connection.
    pub fn is_program(&self) -> bool {
        matches!(self, Self::Program(_))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::BuiltIn => f.write_str("built-in"),
            Self::Program(program) => write!(f, "program {program}"),
        }
    }
}

/// One backend of a service or rule (`backend = …`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Target of its connections. Each address of a name has the weight for itself.
    pub target: Target,
    /// Its share of the connections, in proportion to the others; 0: none.
    pub weight: u32,
    /// True if it is used only while no other one is up.
    pub backup: bool,
}

impl From<Target> for Backend {
    /// Returns a backend with the defaults of all other settings.
    fn from(target: Target) -> Self {
        Self { target, weight: 1, backup: false }
    }
}

/// Method of choosing a backend (`balance`); always by weight.
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

/// Source addresses of connections to backends (`source`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// From the address that the kernel chooses by the route.
    #[default]
    Route,
    /// From these addresses of this machine, in turn; at least one.
    Own(Vec<IpAddr>),
    /// From the client's own address.
    Client,
}

impl Source {
    /// Number of source addresses of one family; `None`: the kernel chooses one; 0: the clients' own addresses.
    pub fn addresses(&self) -> Option<u64> {
        match self {
            Self::Route => None,
            Self::Client => Some(0),
            Self::Own(all) => {
                let v4 = all.iter().filter(|own| own.is_ipv4()).count();
                Some(v4.max(all.len() - v4) as u64)
            }
        }
    }

    /// The source address of the next connection; `client`: the address of its client, if known; `turn` counts connections.
    pub fn next<'s>(&'s self, client: Option<IpAddr>, turn: &Cell<usize>) -> SourceAddress<'s> {
        match (self, client) {
            (Self::Route, _) | (Self::Client, None) => SourceAddress::Route,
            (Self::Client, Some(client)) => SourceAddress::Client(client.to_canonical()),
            (Self::Own(all), _) => {
                turn.set(turn.get().wrapping_add(1));
                SourceAddress::Own { all, first: turn.get() }
            }
        }
    }
}

/// The proxy that backends are reached through (`[service.connect-through]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectThrough {
    /// Protocol of the proxy.
    pub kind: TunnelKind,
    /// Address of the proxy.
    pub proxy: Target,
    /// The user to authenticate as, and the file with the password.
    pub login: Option<(String, PathBuf)>,
}

/// Protocol of a proxy on the way to backends (`type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    /// HTTP CONNECT (RFC 9110 §9.3.6).
    Http,
    /// SOCKS version 5 (RFC 1928).
    Socks5,
}
