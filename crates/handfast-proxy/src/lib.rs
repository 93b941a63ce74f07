//! The TLS proxy: accept → hello → handshake → route → connect → relay → close.
#![forbid(unsafe_code)]

pub mod config;
pub mod record;
pub mod metrics;
pub mod access_log;
pub mod admin;
