//! HTTP/2 on the wire: frames, compressed heads, and their rules.
//!
//! In: bytes of a connection. Out: frame heads, and heads as the types of [`http1`](super::http1), so that everything behind them is the same
//! for both versions; and the bytes of frames and heads that are sent. No text is parsed in between.
//!
//! | I want to … | open |
//! |---|---|
//! | read and write frames, settings and error codes | [`frame`] |
//! | decode and encode field blocks (HPACK) | [`hpack`] |
//! | know the rules for heads, what is malformed and what is refused | [`head`] |
//! | carry streams on a connection, in either role | [`connection`] |
//! | know what a peer may do for nothing | `guard.rs` |
//!
//! **Source**: RFC 9113, RFC 7541, RFC 8441, RFC 9218.

pub mod connection;
pub mod frame;
mod guard;
pub mod head;
pub mod hpack;
mod name;
pub mod priority;
mod streams;

pub use connection::{Connection, ConnectionError, NewStream, Role};
pub use head::{HeadFault, HeadText, Part};
pub use streams::{End, StreamEnd, StreamKey, Trailers};
