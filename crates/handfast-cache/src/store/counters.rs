//! Counters of a cache.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Operations on the disk, and how long they took together.
#[derive(Debug, Default)]
pub(crate) struct Timed {
    count: Counter,
    micros: Counter,
}

impl Timed {
    pub(crate) fn add(&self, took: Duration) {
        self.count.add(1);
        self.micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    fn get(&self) -> Latency {
        Latency { count: self.count.get(), micros: self.micros.get() }
    }
}

/// Number of operations, and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of operations.
    pub count: u64,
    /// All of it. **Units** microseconds.
    pub micros: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: Counter,
    pub(crate) stale_hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) stale: Counter,
    pub(crate) revalidated: Counter,
    pub(crate) coalesced: Counter,
    pub(crate) bypassed: [Counter; BYPASSES.len()],
    pub(crate) stored: Counter,
    pub(crate) not_stored: Counter,
    pub(crate) given_up: Counter,
    pub(crate) evicted: Counter,
    pub(crate) purged: Counter,
    pub(crate) broken: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) errors: Counter,
    pub(crate) reads: Timed,
    pub(crate) writes: Timed,
}

/// The reasons of bypasses, in the order of their counters.
const BYPASSES: [&str; 9] = [
    "method",
    "content",
    "unkeyed-field",
    "precondition",
    "no-store",
    "range",
    "paused",
    "released",
    "not-storable",
];

impl Counters {
    pub(crate) fn bypass(&self, word: &str) {
        if let Some(counter) =
            BYPASSES.iter().position(|known| *known == word).and_then(|at| self.bypassed.get(at))
        {
            counter.add(1);
        }
    }
}

/// Activity of a cache since it was opened, and its present contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Answered from the cache.
    pub hits: u64,
    /// Of these: stale, while the origin was asked.
    pub stale_hits: u64,
    /// Nothing was stored that fits.
    pub misses: u64,
    /// Requests whose stored response had to be validated.
    pub stale: u64,
    /// Of these: the origin confirmed it.
    pub revalidated: u64,
    /// Requests that waited for the response to another one.
    pub coalesced: u64,
    /// Requests that went past the cache: the reason in a word, and how many.
    pub bypassed: Vec<(&'static str, u64)>,
    /// Objects that were stored.
    pub stored: u64,
    /// Responses that the rules did not permit to store.
    pub not_stored: u64,
    /// Objects that were not stored after all: broken off, too large, or the disk failed.
    pub given_up: u64,
    /// Objects that made room for others.
    pub evicted: u64,
    /// Objects that were purged or invalidated.
    pub purged: u64,
    /// Objects whose files were damaged.
    pub broken: u64,
    /// Content read for answers. **Units** bytes.
    pub bytes_read: u64,
    /// Content written. **Units** bytes.
    pub bytes_written: u64,
    /// Errors of the disk.
    pub errors: u64,
    /// Reads by the disk's threads.
    pub reads: Latency,
    /// Writes by the disk's threads.
    pub writes: Latency,
    /// Objects stored now.
    pub objects: u64,
    /// Disk space of these objects. **Units** bytes, in blocks of 4 KiB.
    pub disk_bytes: u64,
    /// Memory for their heads and keys. **Units** bytes, estimated.
    pub memory_bytes: u64,
    /// Files of removed objects that are still to be deleted.
    pub removing: u64,
    /// Objects, whole or in part, whose files could not be deleted; it is tried again.
    pub undeleted: u64,
    /// True if the objects of the folder are still being read in.
    pub is_indexing: bool,
}

impl Counters {
    pub(crate) fn read(&self) -> Statistics {
        Statistics {
            hits: self.hits.get(),
            stale_hits: self.stale_hits.get(),
            misses: self.misses.get(),
            stale: self.stale.get(),
            revalidated: self.revalidated.get(),
            coalesced: self.coalesced.get(),
            bypassed: BYPASSES
                .iter()
                .zip(&self.bypassed)
                .map(|(word, counter)| (*word, counter.get()))
                .collect(),
            stored: self.stored.get(),
            not_stored: self.not_stored.get(),
            given_up: self.given_up.get(),
            evicted: self.evicted.get(),
            purged: self.purged.get(),
            broken: self.broken.get(),
            bytes_read: self.bytes_read.get(),
            bytes_written: self.bytes_written.get(),
            errors: self.errors.get(),
            reads: self.reads.get(),
            writes: self.writes.get(),
            ..Statistics::default()
        }
    }
}
