//! State that all parts of an open cache share, and the bookkeeping of its objects: their size and the order of
//! eviction.
//!
//! In: objects that come and go. Out: room for the next one. Only the disk's threads take the queue of evictions: they delete files under its lock.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use handfast_http::http1::RequestHead;
use lru::LruCache;

use crate::rules::key::Key;

use super::counters::{Counters, Statistics};
use super::disk_errors::DiskErrors;
use super::file::File;
use super::fill::{Fill, Head};
use super::folder::{FileId, Folder, OpenError, Part, is_out_of_files};
use super::index::{Files, Found, Index, Object};
use super::leftovers::Leftovers;
use super::lock::{Gate, Lock, locked};
use super::pool::{Pool, Work};
use super::settings::Settings;

/// A content file that is open, with the checksums of its blocks.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) size: u64,
    pub(crate) checksums: Vec<u32>,
}

/// Objects in the order of their last use, as far as it was looked at.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    queue: BTreeMap<(u64, FileId), (Key, Arc<Files>)>,
    objects: u64,
    disk_bytes: u64,
    memory: u64,
}

/// Common property of the objects to purge.
#[derive(Clone, Debug)]
pub(crate) enum Meant {
    Url(Vec<u8>),
    Prefix(Vec<u8>),
    Tag(Vec<u8>),
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    /// Ends with the cache, or when it gives the folder up.
    pub(crate) folder_lock: Lock<Option<OwnedFd>>,
    /// `true` when the folder was given up. Held for reading while the folder is written.
    pub(crate) gate: Gate<bool>,
    pub(crate) is_released: AtomicBool,
    pub(crate) index: Index,
    pub(crate) evictions: Lock<Evictions>,
    pub(crate) leftovers: Lock<Leftovers>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) counters: Counters,
    pub(crate) error: DiskErrors,
    pub(crate) open_files: Lock<LruCache<FileId, Arc<OpenFile>>>,
    pub(crate) fills: Lock<Vec<Weak<Fill>>>,
    pub(crate) is_indexing: AtomicBool,
    /// Purges while the folder is read in.
    pub(crate) early_purges: Lock<Vec<Meant>>,
    pub(crate) removing: AtomicU64,
    /// The upper half of the numbers of this process's files.
    pub(crate) session: u64,
    next_file: AtomicU64,
}

/// The files of an object. The head goes first: without it there is no object.
pub(crate) const OBJECT: &[Part] = &[Part::Head, Part::Content];

/// Files that are closed when there is no descriptor for another one.
const CLOSED_AT_ONCE: usize = 32;

/// Returns the disk space of a file of this size, in bytes.
pub(crate) const fn on_disk(size: u64) -> u64 {
    size.div_ceil(4096) * 4096
}

impl Shared {
    pub(crate) fn open(settings: Settings) -> Result<Self, OpenError> {
        let (folder, lock) = Folder::open(&settings.folder, settings.descriptors_below)?;
        let open_files = NonZeroUsize::new(settings.open_files).unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            folder,
            folder_lock: Lock::new(Some(lock)),
            gate: Gate::new(false),
            is_released: AtomicBool::new(false),
            index: Index::default(),
            evictions: Lock::default(),
            leftovers: Lock::default(),
            pool: Arc::default(),
            counters: Counters::default(),
            error: DiskErrors::default(),
            open_files: Lock::new(LruCache::new(open_files)),
            fills: Lock::default(),
            is_indexing: AtomicBool::new(true),
            early_purges: Lock::default(),
            removing: AtomicU64::new(0),
            session: random() & !0xffff_ffff,
            next_file: AtomicU64::new(0),
            settings,
        })
    }

    /// A number for a new file.
    pub(crate) fn new_id(&self) -> FileId {
        FileId(self.session | self.next_file.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff)
    }

    /// Does work that writes to the folder, unless it was given up; `None` then.
    pub(crate) fn writing<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let is_released = self.gate.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *is_released {
            return None;
        }
        let started = Instant::now();
        let result = work();
        self.counters.writes.add(started.elapsed());
        Some(result)
    }

    /// The disk failed, or there is no descriptor for it: then idle files are closed.
    pub(crate) fn failed(&self, what: &str, error: &io::Error) {
        if is_out_of_files(error) {
            return self.close_idle_files();
        }
        self.counters.errors.add(1);
        self.error.failed(what, error);
    }

    /// Closes files that are kept open for the next request, those that were used longest ago.
    pub(crate) fn close_idle_files(&self) {
        let mut open_files = locked(&self.open_files);
        let closed: Vec<_> = (0..CLOSED_AT_ONCE).map_while(|_| open_files.pop_lru()).collect();
        drop(open_files);
        drop(closed);
    }

    /// The disk works.
    pub(crate) fn worked(&self) {
        if self.error.worked() {
            locked(&self.leftovers).hurry();
        }
    }

    /// Makes room and counts an object as stored: `false` if it is larger than the cache, or what is to make room cannot be deleted.
    pub(crate) fn reserve(&self, disk_bytes: u64, memory: u64) -> bool {
        let settings = &self.settings;
        if disk_bytes > settings.size || memory > settings.memory || settings.objects == 0 {
            return false;
        }
        let mut evictions = locked(&self.evictions);
        let fits = |evictions: &Evictions, spare: u64| {
            let limit = |limit: u64| limit - limit / spare;
            evictions.disk_bytes + disk_bytes <= limit(settings.size)
                && evictions.memory + memory <= limit(settings.memory)
                && evictions.objects < limit(settings.objects as u64)
        };
        if !fits(&evictions, u64::MAX) {
            // Some more than necessary, so that not each object waits for a deletion.
            let mut extra = 32;
            while !fits(&evictions, u64::MAX) || (extra > 0 && !fits(&evictions, 50)) {
                extra -= i32::from(extra > 0);
                if !self.evict_oldest(&mut evictions) {
                    break;
                }
            }
            if !fits(&evictions, u64::MAX) {
                return false;
            }
        }
        evictions.disk_bytes += disk_bytes;
        evictions.memory += memory;
        evictions.objects += 1;
        true
    }

    /// Takes back a [reservation](Self::reserve).
    pub(crate) fn unreserve(&self, disk_bytes: u64, memory: u64) {
        let mut evictions = locked(&self.evictions);
        evictions.disk_bytes -= disk_bytes;
        evictions.memory -= memory;
        evictions.objects -= 1;
    }

    /// Adds an object whose place is reserved and whose files are complete.
    pub(crate) fn add(&self, object: Arc<Object>) {
        let (key, files) = (object.key.clone(), Arc::clone(&object.files));
        let replaced = self.index.insert(object, self.settings.variants);
        {
            let mut evictions = locked(&self.evictions);
            // A purge may have removed it already.
            if !files.is_removed.load(Ordering::Relaxed) {
                evictions.queue.insert((files.queued_ms.load(Ordering::Relaxed), files.id), (key, files));
            }
        }
        self.delete(&replaced);
    }

    /// Deletes the files of objects that are not in the index any more. For the disk's threads.
    fn delete(&self, objects: &[Arc<Object>]) {
        for object in objects {
            let files = &object.files;
            let mut evictions = locked(&self.evictions);
            evictions.queue.remove(&(files.queued_ms.load(Ordering::Relaxed), files.id));
            self.delete_files(&mut evictions, files);
        }
    }

    /// The same from any thread: the disk's threads do it.
    pub(crate) fn delete_later(self: &Arc<Self>, objects: Vec<Arc<Object>>) {
        if objects.is_empty() {
            return;
        }
        let number = objects.len() as u64;
        self.removing.fetch_add(number, Ordering::Relaxed);
        let shared = Arc::clone(self);
        self.pool.submit(Work::Write, move || {
            shared.writing(|| shared.delete(&objects));
            shared.removing.fetch_sub(number, Ordering::Relaxed);
        });
    }

    /// Removes the object for a request, after the origin sent another response that is not stored.
    pub(crate) fn remove_for(self: &Arc<Self>, key: &Key, request: &RequestHead<'_>) {
        match self.index.find(key, request, 0) {
            Found::Object(object) if self.index.remove(key, &object.files) => {
                self.counters.purged.add(1);
                self.delete_later(vec![object]);
            }
            Found::Complete(fill, ..) => fill.purge(),
            _ => {}
        }
    }

    /// Removes an object whose files are damaged or gone.
    pub(crate) fn drop_broken(self: &Arc<Self>, object: &Arc<Object>) {
        if self.index.remove(&object.key, &object.files) {
            self.counters.broken.add(1);
            self.delete_later(vec![Arc::clone(object)]);
        }
    }

    /// `false` if there is none, or its files cannot be deleted.
    fn evict_oldest(&self, evictions: &mut Evictions) -> bool {
        while let Some(((queued_ms, id), (key, files))) = evictions.queue.pop_first() {
            let used_ms = files.used_ms.load(Ordering::Relaxed);
            if used_ms > queued_ms {
                files.queued_ms.store(used_ms, Ordering::Relaxed);
                evictions.queue.insert((used_ms, id), (key, files));
                continue;
            }
            if self.index.remove(&key, &files) {
                self.counters.evicted.add(1);
            }
            return self.delete_files(evictions, &files);
        }
        false
    }

    /// Returns true if it made room.
    fn delete_files(&self, evictions: &mut Evictions, files: &Arc<Files>) -> bool {
        if files.is_removed.swap(true, Ordering::Relaxed) {
            return true;
        }
        locked(&self.open_files).pop(&files.id);
        evictions.memory -= files.memory;
        evictions.objects -= 1;
        let is_gone = self.remove(files.id, OBJECT, || files.disk_bytes).is_ok();
        if is_gone {
            evictions.disk_bytes -= files.disk_bytes;
        }
        is_gone
    }

    /// Deletes files whose bytes are not counted.
    pub(crate) fn discard(&self, id: FileId, parts: &'static [Part]) {
        let disk_bytes = || parts.iter().map(|part| on_disk(self.folder.size_of(id, *part))).sum();
        if let Err(disk_bytes) = self.remove(id, parts, disk_bytes) {
            locked(&self.evictions).disk_bytes += disk_bytes;
        }
    }

    /// Deletes files. If that fails, they are tried again, and until then these bytes are to be counted.
    fn remove(
        &self,
        id: FileId,
        parts: &'static [Part],
        disk_bytes: impl FnOnce() -> u64,
    ) -> Result<(), u64> {
        self.folder.remove_all(id, parts).map_err(|error| {
            self.failed("delete a file in the cache folder", &error);
            let disk_bytes = disk_bytes();
            locked(&self.leftovers).add((id, parts), disk_bytes)
        })
    }

    /// Tries to delete again what could not be deleted, if it is time to: the disk's threads do it.
    pub(crate) fn delete_leftovers_later(self: &Arc<Self>) {
        let due = locked(&self.leftovers).due();
        if !due.is_empty() {
            let shared = Arc::clone(self);
            self.pool.submit(Work::Write, move || {
                shared.writing(|| shared.delete_leftovers(due));
            });
        }
    }

    fn delete_leftovers(&self, due: Vec<(FileId, &'static [Part])>) {
        let tried = due.len() as u64;
        let is_gone = |(id, parts): &(FileId, &'static [Part])| self.folder.remove_all(*id, parts).is_ok();
        let deleted: Vec<_> = due.into_iter().filter(is_gone).collect();
        // The operator knows of the first failure, and the cache works without these deletions.
        self.counters.errors.add(tried - deleted.len() as u64);
        let mut evictions = locked(&self.evictions);
        evictions.disk_bytes -= locked(&self.leftovers).tried(&deleted);
    }

    /// The fills that run.
    pub(crate) fn running_fills(&self) -> Vec<Arc<Fill>> {
        let mut fills = locked(&self.fills);
        fills.retain(|fill| fill.strong_count() > 0);
        fills.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = self.counters.read();
        statistics.removing = self.removing.load(Ordering::Relaxed);
        statistics.undeleted = locked(&self.leftovers).count();
        statistics.is_indexing = self.is_indexing.load(Ordering::Relaxed);
        let evictions = locked(&self.evictions);
        statistics.objects = evictions.objects;
        statistics.disk_bytes = evictions.disk_bytes;
        statistics.memory_bytes = evictions.memory;
        statistics
    }
}

impl Meant {
    pub(crate) fn means(&self, object: &Object) -> bool {
        match self {
            Self::Url(url) => object.key.url() == url,
            Self::Prefix(prefix) => object.key.url().starts_with(prefix),
            Self::Tag(tag) => object.stored.has_tag(tag),
        }
    }

    /// Returns true if a running fetch matches, or could match: a response whose head has not come may have the tag.
    pub(crate) fn may_mean(&self, fill: &Fill) -> bool {
        match (self, fill.head()) {
            (Self::Url(url), _) => fill.key.url() == url,
            (Self::Prefix(prefix), _) => fill.key.url().starts_with(prefix),
            (Self::Tag(tag), Head::Known(known)) => known.stored.has_tag(tag),
            (Self::Tag(_), _) => true,
        }
    }
}

/// A number that no other process has; the standard library's hash keys are random.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
