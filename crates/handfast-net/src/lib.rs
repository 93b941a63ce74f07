//! Handfast's foundation: the event engine, sockets, deadlines and the causes of failure.
//!
//! In: addresses to listen on and to dial. Out: streams that report their true faults. It knows nothing of TLS or of
//! configurations, and is the only crate that may hold unsafe code, all of it in `sys.rs` and below.

pub mod address;
pub mod clock;
pub mod descriptors;
pub mod dial;
pub mod engine;
pub mod fault;
pub mod file_id;
pub mod host_name;
pub mod limits;
pub mod listen;
pub mod ports;
pub mod prefix;
pub mod stream;
pub mod sys;
