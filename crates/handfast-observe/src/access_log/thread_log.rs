//! One worker's end of the access log, the queue to the writer, and the totals that both count.

#![expect(
    clippy::disallowed_types,
    reason = "held when a worker starts and when totals are read, never to write a line"
)]

use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use handfast_config::model::LogFormat;

use super::redaction::Redaction;
use super::{combined, line, request_line};
use crate::cell::Cell;
use crate::reason::CloseReason;
use crate::record::Record;
use crate::request_record::RequestRecord;

/// A block this large should be handed over without waiting for the loop to sleep.
pub const BLOCK_BYTES: usize = 16 * 1024;

/// Maximum time that a line waits in a worker's buffer when the loop has nothing else to do.
///
/// Handing over wakes a thread, which is a system call: not for each connection, but often enough for a person who watches.
pub const LINE_DELAY: Duration = Duration::from_millis(100);

/// Whole lines on their way to the writer.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

#[derive(Debug)]
pub(super) enum Message {
    Block(Block),
    /// Look at the flags.
    Wake,
}

/// Counters of one worker's lines; written by that worker alone.
#[derive(Debug, Default)]
pub(super) struct ThreadTotals {
    pub(super) handed_over: Cell,
    pub(super) lost: Cell,
}

/// Number of lines that were written and lost, over all workers.
#[derive(Debug, Default)]
pub struct Totals {
    pub(crate) written: Cell,
    pub(crate) failed: Cell,
    threads: Mutex<Vec<Arc<ThreadTotals>>>,
}

impl Totals {
    /// Adds the counters of another worker.
    pub(super) fn for_thread(&self) -> Arc<ThreadTotals> {
        let totals = Arc::new(ThreadTotals::default());
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&totals));
        totals
    }

    /// Lines that the sink took.
    pub fn written(&self) -> u64 {
        self.written.value()
    }

    /// Lines that were lost: for which the queue had no place, or which the sink refused.
    pub fn dropped(&self) -> u64 {
        self.failed.value() + self.sum(|thread| &thread.lost)
    }

    /// Lines that were handed over and are neither written nor lost yet.
    pub fn waiting(&self) -> u64 {
        let done = self.written.value() + self.failed.value();
        self.sum(|thread| &thread.handed_over).saturating_sub(done)
    }

    fn sum(&self, cell: impl Fn(&ThreadTotals) -> &Cell) -> u64 {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().map(|thread| cell(thread).value()).sum()
    }
}

/// One worker's end of the log. Not shared: each worker asks for its own with [`AccessLogHandle::for_thread`].
#[derive(Debug)]
pub struct ThreadLog {
    queue: Option<SyncSender<Message>>,
    format: LogFormat,
    redaction: Redaction,
    totals: Arc<ThreadTotals>,
    pub(super) block: Block,
    oldest: Option<Instant>,
}

impl ThreadLog {
    pub(super) fn new(
        queue: Option<SyncSender<Message>>,
        format: LogFormat,
        redaction: Redaction,
        totals: Arc<ThreadTotals>,
    ) -> Self {
        Self { queue, format, redaction, totals, block: Block::default(), oldest: None }
    }

    /// Adds a connection's line to the buffer, and hands the buffer over when it has grown to [`BLOCK_BYTES`]. A connection that ended
    /// cleanly after requests has none: their lines say everything.
    ///
    /// Never waits. **Cost:** one or two microseconds; no system call but when it hands over to a sleeping writer.
    pub fn write(&mut self, record: &Record, reason: &CloseReason) {
        if record.requests == 0 || reason.cause.is_failure() {
            self.add(|bytes| line::append(bytes, record, reason));
        }
    }

    /// The same for a request, in the form that is configured.
    pub fn write_request(&mut self, record: &RequestRecord) {
        let append = match self.format {
            LogFormat::Json => request_line::append,
            LogFormat::Combined => combined::append,
        };
        let redaction = self.redaction.clone();
        self.add(|bytes| append(bytes, record, &redaction));
    }

    /// Returns true if lines have the client's `Referer` and `User-Agent`, so that a [`RequestRecord`] should have them.
    pub fn has_client_fields(&self) -> bool {
        self.queue.is_some() && self.format == LogFormat::Combined
    }

    fn add(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        if self.queue.is_none() {
            return;
        }
        append(&mut self.block.bytes);
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

    /// Latest time at which the buffer should be flushed; `None` when it is empty.
    pub fn due(&self) -> Option<Instant> {
        self.oldest.map(|oldest| oldest + LINE_DELAY)
    }
}

impl Drop for ThreadLog {
    fn drop(&mut self) {
        self.flush();
    }
}
