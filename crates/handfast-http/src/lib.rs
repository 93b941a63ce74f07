//! HTTP messages and connections as values: bytes in, bytes out, without I/O, clocks or wakers.
//!
//! In: bytes from a peer, however they were split. Out: heads, content and the end of a message; and the bytes of messages that are sent.
//! What waits, reads sockets or decides about requests is in the crates that use this one.
//!
//! | I want to … | open |
//! |---|---|
//! | read and write heads and bodies of HTTP/1 | [`http1`] |
//! | read and write frames and heads of HTTP/2 | [`http2`] |
//! | know which content coding a client accepts | [`content_coding`] |

#![forbid(unsafe_code)]

pub mod content_coding;
pub mod http1;
pub mod http2;
