//! A number that one thread writes and others read. There is exactly one writer for each cell, so adding is a plain load and store: no lock,
//! no locked instruction, no foreign cache line. A reader gets a value that was true a moment ago.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number written by one thread and read by any.
#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    /// Zero.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it; only its owner may.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        // Not fetch_add: with one writer nothing can come between, and this compiles to a plain add in memory.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Replaces it; only its owner may.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns a recent value.
    #[inline]
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
