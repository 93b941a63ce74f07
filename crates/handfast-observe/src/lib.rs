//! What the proxy reports: why a connection ended, what was counted, and a line for each connection.
//!
//! In: records of connections and counters of threads. Out: metrics (a snapshot, OpenMetrics), the access log. The words of step, side and cause
//! are the same in all of them.
//!
//! | question | file |
//! |---|---|
//! | where a connection ended, on whose side, why | [`steps`], [`reason`], [`cause`] |
//! | what is known of one connection | [`record`], [`proxied`] |
//! | what is counted, and how it is added up | [`metrics`] |
//! | how lines reach a file, a terminal or syslog without delaying a worker | [`access_log`] |
//! | what an operator has requested for a backend | [`operator_state`] |
#![forbid(unsafe_code)]

pub mod access_log;
pub mod cause;
mod cell;
pub mod metrics;
pub mod operator_state;
pub mod proxied;
pub mod reason;
pub mod record;
pub mod steps;
mod words;
