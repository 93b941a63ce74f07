//! HTTP/1 on the wire: strict heads, message framing, chunked bodies, and heads written for the other side.
//!
//! In: bytes from a client or a backend, however they were split. Out: a [`RequestHead`] or [`ResponseHead`] that refers to these bytes, the
//! [`Framing`] of the body, or a [`HeadError`] with the rule that was broken and the status to answer. Nothing here waits, panics on what
//! a peer sent, or allocates, except to extend the list of fields and the output buffer of the caller.
//!
//! A proxy is safe only if the server behind it reads the same messages. So this parser refuses what servers read differently, and a
//! head is always written again from its parts: framing and connection fields are never copied.
//!
//! | I want to … | open |
//! |---|---|
//! | see every way in which a message can be wrong, and its status | `http1/error.rs` |
//! | know the limits, or how an incomplete head is waited for | `http1/limits.rs`, `http1/head.rs` |
//! | read a head | `http1/lines.rs`, `http1/request.rs`, `http1/response.rs` |
//! | keep a head longer than its buffer | `http1/owned.rs` |
//! | know where a body ends | `http1/framing.rs` |
//! | read a body, write chunks | `http1/body.rs`, `http1/chunked.rs` |
//! | know which fields are forwarded | `http1/field.rs` |
//! | write a head | `http1/write.rs` |
//!
//! **Source**: RFC 9110 and RFC 9112, with less tolerance than they permit.

mod body;
mod chunked;
mod error;
mod field;
mod framing;
mod head;
mod host;
mod limits;
mod lines;
mod owned;
mod request;
mod response;
mod scan;
mod write;

pub use body::{BodyReader, Piece};
pub use chunked::{CHUNK_HEAD_LIMIT, ChunkedReader, LAST_CHUNK, chunk_head, write_last_chunk};
pub use error::{HeadError, Rule};
pub use field::{Field, Kind, tokens};
pub use framing::Framing;
pub use head::HeadProgress;
pub use host::{CanonicalHost, Host};
pub use limits::{HeadLimits, Underscores};
pub use owned::OwnedRequest;
pub use request::{Method, RequestHead, Target, parse_request};
pub use response::{ResponseHead, parse_response};
pub use scan::is_token;
pub use write::{
    HeadEnd, HeadOutput, WrittenHead, end_head, push_field, write_fields, write_request_line,
    write_status_line,
};

pub(crate) use field::{is_never_trailer, trim};
pub(crate) use framing::{Facts, number};
pub(crate) use owned::Span;
pub(crate) use scan::{
    end_words, has_control, is_blank, is_lower_token, is_text, next_control, push_lower, target_end,
};
pub(crate) use write::digits;

/// The two versions that are spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

#[cfg(test)]
mod tests;
