//! One side of a connection, and what happens between two of them.
//!
//! In: a connected stream, and perhaps a TLS session on it. Out: plaintext in both directions, a clean close or a
//! broken leg with its true cause. All TLS over sockets goes through a [`Leg`]: both sides of the proxy's
//! relay, the load tester, and what comes after them.
//!
//! Nothing in here but [`blocking`] waits or reads a clock. Each step does what can be done now and returns whether anything moved; the
//! caller waits, and passes the time in. So a leg over memory instead of a socket runs through thousands of orders of events in
//! a second, from a seed (`tests/`).
//!
//! | question | file |
//! |---|---|
//! | what a leg needs of a socket | [`socket`] |
//! | reading, writing, ending one side | [`leg`] |
//! | why a leg broke | [`broken`] |
//! | one direction, and both | [`relay`] |
//! | how a leg ends | [`ending`] |
//! | a leg as a stream of plaintext, for HTTP | [`pipe`] |
//! | one connection that its thread waits for, measured | [`blocking`] |
//! | the clock, waiting and dialling, and what tests put in their place | [`runtime`] |
//! | sockets, a session and tasks for tests | [`memory`] |
#![forbid(unsafe_code)]

pub mod blocking;
pub mod socket;
pub mod broken;
pub mod leg;
pub mod relay;
pub mod ending;
pub mod pipe;
pub mod memory;
pub mod runtime;
#[cfg(test)]
mod testing;

pub use broken::{Broken, Side, Why};
pub use ending::{Ending, Way};
pub use leg::{Got, Leg, READ};
pub use pipe::Pipe;
pub use relay::Progress;
pub use socket::Socket;
