//! HTTP/2 through the front door: heads by HTTP/2 are those that HTTP/1 would have, and properties for all bytes.
//!
//! In: field blocks made here. Out: nothing but the verdicts.

#![forbid(unsafe_code)]

mod any_bytes;
mod same_as_http1;
