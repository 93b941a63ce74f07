//! The queue from workers to the writer, and the totals that both count.

#![expect(
    clippy::disallowed_types,
    reason = "held when a worker starts and when totals are read, never to write a line"
)]

use std::sync::{Arc, Mutex, PoisonError};

use crate::cell::Cell;

/// Whole lines on their way to the writer.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

/// A message to the writer.
#[derive(Debug)]
pub(super) enum Message {
    /// Write these lines.
    Block(Block),
    /// Look at the flags.
    Wake,
}

/// What one worker counts of its lines; written by that worker alone.
#[derive(Debug, Default)]
pub(super) struct ThreadTotals {
    pub(super) handed_over: Cell,
    pub(super) lost: Cell,
}

/// How many lines were written and lost, over all workers.
#[derive(Debug, Default)]
pub struct Totals {
    pub(crate) written: Cell,
    pub(crate) failed: Cell,
    threads: Mutex<Vec<Arc<ThreadTotals>>>,
}

impl Totals {
    /// What a further worker counts.
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
        self.failed.value() + self.sum(|thread| thread.lost.value())
    }

    /// Lines that were handed over and are neither written nor lost yet.
    pub fn waiting(&self) -> u64 {
        let done = self.written.value() + self.failed.value();
        self.sum(|thread| thread.handed_over.value()).saturating_sub(done)
    }

    /// Lines for which the queue had no place.
    pub(super) fn overflowed(&self) -> u64 {
        self.sum(|thread| thread.lost.value())
    }

    fn sum(&self, value: impl Fn(&ThreadTotals) -> u64) -> u64 {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().map(|thread| value(thread)).sum()
    }
}
