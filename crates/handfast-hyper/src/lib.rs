//! HTTP/1.1 and HTTP/2 on our engine: hyper's client and h2 over any leg, on any [`handfast_leg::runtime::Runtime`].
//!
//! In: a [`handfast_leg::Pipe`]. Out: answers to requests; or a pipe as the `h2` crate takes one.
//! HTTP itself is theirs; what is here is how it goes together with an engine whose sockets wake tasks and not wakers,
//! without another runtime.
//!
//! **How it is polled.** A connection and all that hyper wants run for it belong to one task. If one of the task's sockets
//! has become ready, it is unknown which of the futures waits for it, so all of them are polled; and again for as long as
//! any of them called the waker that it was given, which is the connection's own and sets a flag ([`driver`]). Then the task
//! waits. A wake from elsewhere (another task, another thread) wakes the task.
//!
//! | question | file |
//! |---|---|
//! | what hyper and h2 read and write | [`pipe`] |
//! | which futures are polled, and how often | [`driver`] |
//! | requests | [`client`] |
//!
//! **Bounds.** A connection runs at most as many tasks of hyper's as its maker says. hyper bounds its own buffers: 400 KiB
//! for each HTTP/1 message and each HTTP/2 stream that its reader does not take, and its windows.
#![forbid(unsafe_code)]

pub mod client;
pub mod driver;
pub mod pipe;

pub use client::Client;
pub use driver::Driver;
pub use pipe::SharedPipe;

/// HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 9112: one exchange after the other.
    Http1,
    /// RFC 9113: as many at once as both sides allow.
    Http2,
}

#[cfg(test)]
mod tests;
