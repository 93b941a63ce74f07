//! The access log: one JSON line for each connection, written without ever holding up a connection.
//!
//! In: a [`Record`] and a [`CloseReason`] from `close.rs`, on the worker's thread. Out: lines on standard output or in a file.
//!
//! A worker formats lines into a buffer of its own and hands over whole blocks through a bounded queue to the thread
//! `access-log`, the only one that touches the file. When that thread is stuck (a pipe that nobody reads) or the file cannot
//! take more (a full disk), lines are lost, counted, and the loss is written into the log when it works again.

mod line;
mod writer;

pub use writer::{AccessLogHandle, Stopped, Totals};

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use crate::config::model;
use crate::reason::CloseReason;
use crate::record::Record;
use writer::{Block, Message, ThreadTotals};

/// A block this large should be handed over without waiting for the loop to sleep.
pub const BLOCK_BYTES: usize = 16 * 1024;

/// How long a line may wait in a worker's buffer when the loop has nothing else to do.
///
/// Handing over wakes a thread, which is a system call: not for each connection, but often enough for a person who watches.
pub const LINE_DELAY: Duration = Duration::from_millis(100);

/// Opens the log and starts its thread.
///
/// **Errors:** the file cannot be opened or created, or the thread cannot be started.
pub fn start(log: &model::AccessLog) -> io::Result<AccessLogHandle> {
    writer::start(log)
}

/// One worker's end of the log. Not shared: each worker asks for its own with [`AccessLogHandle::for_thread`].
#[derive(Debug)]
pub struct ThreadLog {
    queue: Option<SyncSender<Message>>,
    totals: Arc<ThreadTotals>,
    block: Block,
    oldest: Option<Instant>,
}

impl ThreadLog {
    /// Adds a connection's line to the buffer, and hands the buffer over when it has grown to [`BLOCK_BYTES`].
    ///
    /// Never waits. **Cost:** one or two microseconds; no system call but when it hands over to a sleeping writer.
    pub fn write(&mut self, record: &Record, reason: &CloseReason) {
        if self.queue.is_none() {
            return;
        }
        line::append(&mut self.block.bytes, record, reason);
        self.block.lines += 1;
        self.oldest.get_or_insert_with(Instant::now);
        if self.block.bytes.len() >= BLOCK_BYTES {
            self.flush();
        }
    }

    /// Hands over what is in the buffer; never waits. Lines for which the queue has no place are lost and counted.
    pub fn flush(&mut self) {
        self.oldest = None;
        let Some(queue) = self.queue.as_ref().filter(|_| self.block.lines > 0) else { return };
        let lines = self.block.lines;
        let lost = match queue.try_send(Message::Block(std::mem::take(&mut self.block))) {
            Ok(()) => return self.totals.handed_over.add(lines),
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => message,
        };
        self.totals.lost.add(lines);
        if let Message::Block(mut block) = lost {
            // Its memory is used again.
            block.bytes.clear();
            self.block.bytes = block.bytes;
        }
    }

    /// When the buffer should be flushed at the latest; `None` when it is empty.
    pub fn due(&self) -> Option<Instant> {
        self.oldest.map(|oldest| oldest + LINE_DELAY)
    }
}

impl Drop for ThreadLog {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
