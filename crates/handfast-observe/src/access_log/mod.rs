//! The access log: one JSON line for each connection or request, on standard output, in a file, or in the log of the machine (syslog, systemd's journal).
//!
//! A worker formats lines into its buffer and sends whole blocks through a bounded queue to the thread
//! `access-log`, the only one that touches the file. When that thread is stuck (a pipe without a reader) or the file cannot
//! take more (a full disk), lines are lost, counted, and the loss is written into the log when it works again.

mod combined;
mod line;
mod redaction;
mod request_line;
mod syslog;
mod thread_log;
mod writer;

pub use thread_log::{BLOCK_BYTES, LINE_DELAY, ThreadLog, Totals};
pub use writer::{AccessLogHandle, Stopped, start};

#[cfg(test)]
mod tests;
