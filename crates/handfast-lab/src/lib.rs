//! A network on one machine: namespaces of the lab's own, emulated paths between hosts in them, and what sockets do there.
//!
//! In: what the network should be like, and commands to run in it. Out: what really happened, as data and as text.
//! Nothing outside the lab's own namespaces is ever changed; code that changes one has to pass an
//! [`Inside`](namespace::Inside), which only [`namespace::enter`] gives.
//!
//! | what | file |
//! |---|---|
//! | a place where networks can be made without permission, and that ends with this process | [`namespace`] |
//! | a network with nothing in it, for one command | [`namespace::alone`] |
//! | one host: a network namespace to run things in | [`host`] |
//! | interfaces, addresses, routes | [`netlink`] |
//! | what sockets say when a connection breaks, measured | [`sockets`] |
//! | what a network should be like | [`plan`] |
//! | one direction of a link, as arithmetic: loss, queue, rate, delay | [`emulate`] |
//! | a plan made real | [`network`], [`port`], [`names`] |
//! | the thread that is the network | [`forwarder`] |
//! | servers, the command, and how they end | [`run`] |
//! | what really happened | [`report`], [`capture`]; packets are read by `handfast_wire::packet` |
//! | what each kind of handshake costs on such a path | [`handshake`] |
//! | jobs that are worked off several at a time | [`crew`] |
//! | every way in which it can fail | [`error`] |
#![forbid(unsafe_code)]

pub mod capture;
pub mod crew;
pub mod emulate;
pub mod error;
pub mod forwarder;
pub mod handshake;
pub mod host;
pub mod names;
pub mod namespace;
pub mod netlink;
pub mod network;
pub mod plan;
pub mod port;
pub mod report;
pub mod run;
pub mod sockets;
#[cfg(test)]
pub(crate) mod testing;
