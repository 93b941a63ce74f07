//! Where a service's connections to its backends come from (`source`).

use std::cell::Cell;
use std::net::IpAddr;

use handfast_net::dial::SourceAddress;

/// Where connections to backends come from.
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
    /// How many addresses of one family there are to dial from: `None`: as the kernel chooses; 0: the clients' own.
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
