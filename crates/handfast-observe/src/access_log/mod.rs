//! The access log: one JSON line for each connection, written without delaying a connection.
//!
//! In: a [`Record`](crate::record::Record) and a [`CloseReason`](crate::record::CloseReason) from `close.rs`, on the worker's thread. Out: lines on standard output, in a file, or in the log of the machine (syslog, systemd's journal).
//!
//! A worker formats lines into its buffer and sends whole blocks through a bounded queue to the thread
//! `access-log`, the only one that touches the file. When that thread is stuck (a pipe without a reader) or the file cannot
//! take more (a full disk), lines are lost, counted, and the loss is written into the log when it works again.

mod line;
mod queue;
mod syslog;
mod thread_log;
mod writer;

pub use queue::Totals;
pub use thread_log::{BLOCK_BYTES, LINE_DELAY, ThreadLog};
pub use writer::{AccessLogHandle, Stopped};

use std::io;

use handfast_config::model;

/// Opens the log and starts its thread.
///
/// **Errors:** the file cannot be opened or created, no daemon listens at the socket, or the thread cannot be started.
pub fn start(log: &model::AccessLog) -> io::Result<AccessLogHandle> {
    writer::start(log)
}

#[cfg(test)]
mod tests;
