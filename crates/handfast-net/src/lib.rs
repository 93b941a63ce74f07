//! Handfast's foundation: the event engine, sockets, deadlines and the causes of failure.
//!
//! The only crate that may hold unsafe code.

pub mod fault;
