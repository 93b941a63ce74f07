//! One worker's end of the access log.
//!
//! In: records of connections that have ended. Out: blocks of whole lines for the writer, or a count of lines that were lost.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use super::line;
use super::queue::{Block, Message, ThreadTotals};
use crate::reason::CloseReason;
use crate::record::Record;

/// A block this large should be handed over without waiting for the loop to sleep.
pub const BLOCK_BYTES: usize = 16 * 1024;

/// How long a line may wait in a worker's buffer when the loop has nothing else to do.
///
/// Handing over wakes a thread, which is a system call: not for each connection, but often enough for a person who watches.
pub const LINE_DELAY: Duration = Duration::from_millis(100);

/// One worker's end of the log. Not shared: each worker asks for its own with [`AccessLogHandle::for_thread`].
#[derive(Debug)]
pub struct ThreadLog {
    queue: Option<SyncSender<Message>>,
    totals: Arc<ThreadTotals>,
    pub(super) block: Block,
    oldest: Option<Instant>,
}

impl ThreadLog {
    pub(super) fn new(queue: Option<SyncSender<Message>>, totals: Arc<ThreadTotals>) -> Self {
        Self { queue, totals, block: Block::default(), oldest: None }
    }

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

    /// Sends the buffer to the writer; never waits. Lines for which the queue has no room are lost and counted.
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
