//! HTTP/1.1 and HTTP/2 on our engine: hyper's client and server over any pipe of plaintext bytes.
//!
//! In: a [`Pipe`], as a TLS session over a socket is one. Out: answers to requests, or requests for a service to answer.
//! HTTP itself is hyper's; what is here is how it goes together with an engine whose sockets wake tasks and not wakers,
//! without another runtime.
//!
//! **How it is polled.** A connection and all that hyper wants run for it belong to one task. When one of the task's sockets
//! has become ready, nobody knows which of the futures waits for it, so all of them are polled; and again for as long as
//! any of them called the waker that it was given, which is the connection's own and sets a flag ([`driver`]). Then the task
//! waits. A wake from elsewhere (another task, another thread, a timer) wakes the task.
//!
//! | question | file |
//! |---|---|
//! | what hyper reads and writes | [`pipe`] |
//! | who polls it, and how often | [`driver`] |
//! | how hyper waits for a moment | [`timer`] |
//! | requests | [`client`] |
//! | answers | [`server`] |
//!
//! **Bounds.** A connection runs at most as many tasks of hyper's as its maker says. What hyper buffers is its own to bound:
//! 400 KiB for each HTTP/1 message and each HTTP/2 stream that its reader does not take, and its windows.
#![forbid(unsafe_code)]

pub mod client;
pub mod driver;
pub mod pipe;
pub mod server;
pub mod timer;

pub use client::Client;
pub use driver::Driver;
pub use pipe::{Pipe, Room};
pub use server::{Ended, Settings, serve};

/// Which HTTP a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 9112: one exchange after the other.
    Http1,
    /// RFC 9113: as many at once as both sides allow.
    Http2,
}

#[cfg(test)]
mod tests;
