//! The content of a stored response in a coding, such as `gzip`: coded for one client, and kept for the others.
//!
//! In: a hit, and a name for everything that the coded bytes depend on. Out: those bytes, or a place for them.
//!
//! Coded content is an object whose key has the number of the object that it is made of. Head, freshness and selection are always those of that
//! object. When it is replaced or removed, nothing finds what was made of it, and the order of eviction removes that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use crate::rules::stored::Stored;
use crate::rules::vary::Selection;

use super::fill::{Fill, Head, StoredHead};
use super::filler::Filler;
use super::hit::Hit;
use super::lock::locked;
use super::reader::{Reader, Source};

/// Content of a hit in a coding.
pub enum Coded {
    /// It is there: its reader, and its bytes.
    Stored(Reader, u64),
    /// It is not: the request that codes it puts it here.
    Missing(CodedFiller),
    /// It is not, and this time it is not kept: another request codes it, or the object itself is not stored yet.
    NotKept,
}

/// Place for coded content. It is kept after [`CodedFiller::end`] alone.
pub struct CodedFiller(Filler);

impl Hit {
    /// Looks for all of its content in a coding. `coding`: a name for coding, level and whatever else the bytes depend on, without blanks;
    /// `now_ms`: milliseconds since 1970.
    ///
    /// **Cost**: two locks at most; never the disk.
    pub fn coded(&self, coding: &str, now_ms: u64) -> Coded {
        let Source::Object(object) = &self.source else { return Coded::NotKept };
        let shared = &self.shared;
        let key = object.key.coded(coding, object.files.id.0);
        if let Some(coded) = shared.index.newest(&key) {
            coded.files.used_ms.fetch_max(now_ms, Ordering::Relaxed);
            coded.files.hits.fetch_add(1, Ordering::Relaxed);
            let size = coded.files.size;
            return Coded::Stored(Reader::new(Arc::clone(shared), Source::Object(coded), 0..size), size);
        }
        if shared.is_released.load(Ordering::Relaxed) || shared.error.is_paused() {
            return Coded::NotKept;
        }
        let new = || Fill::new(key.clone(), shared.new_id(), shared.settings.pending);
        let Some(fill) = shared.index.begin_alone(&key, new) else { return Coded::NotKept };
        locked(&shared.fills).push(Arc::downgrade(&fill));
        let stored = Stored { selection: Selection::default(), tags: Vec::new(), ..(*object.stored).clone() };
        let known = StoredHead { stored: Arc::new(stored), length: None, is_shareable: false };
        fill.set_head(Head::Known(Arc::new(known)), shared.settings.size);
        // Its client is not fed from it.
        fill.moved(0, None);
        Coded::Missing(CodedFiller(Filler::new(Arc::clone(shared), fill)))
    }
}

impl CodedFiller {
    /// Takes a piece; `false`: it is not kept after all, also because the disk is behind.
    pub fn put(&mut self, piece: &[u8]) -> bool {
        matches!(self.0.poll_put(piece, Waker::noop()), Poll::Ready(true))
    }

    /// The content is complete.
    pub fn end(self) {
        self.0.end();
    }
}
