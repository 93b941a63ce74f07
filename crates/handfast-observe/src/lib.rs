//! Reports of the proxy: the reason for the end of a connection, counters, and a line for each connection.
//!
//! The words of step, side and cause are the same in metrics, the access log and the status.
#![forbid(unsafe_code)]

pub mod access_log;
pub mod cause;
mod cell;
pub mod metrics;
pub mod open;
pub mod operator_state;
pub mod proxied;
pub mod reason;
pub mod record;
pub mod request_record;
pub mod steps;
mod words;
