//! Index in memory of stored objects and of running fetches.
//!
//! In: keys and requests. Out: objects and fills. 256 parts with a lock each; what is done under a lock is bounded by the variants of one key,
//! except for passes over all keys, which take one part after the other.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use handfast_http::http1::RequestHead;

use crate::rules::key::Key;
use crate::rules::stored::Stored;
use crate::rules::vary::Selection;

use super::fill::{Fill, Head, StoredHead};
use super::folder::FileId;
use super::lock::{Lock, locked};

/// The files of an object; they stay the same when its head is updated.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) id: FileId,
    /// Bytes of content.
    pub(crate) size: u64,
    /// Disk space of these files, in bytes.
    pub(crate) disk_bytes: u64,
    /// Memory of the object, in bytes.
    pub(crate) memory: u64,
    /// Milliseconds since 1970.
    pub(crate) used_ms: AtomicU64,
    /// The `used_ms` under which the queue for eviction has it.
    pub(crate) queued_ms: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) is_removed: AtomicBool,
}

/// A stored response.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: Key,
    pub(crate) stored: Arc<Stored>,
    pub(crate) files: Arc<Files>,
}

#[derive(Debug, Default)]
struct Entry {
    /// The newest first.
    objects: Vec<Arc<Object>>,
    fills: Vec<Arc<Fill>>,
    /// Until this time responses are expected not to be storable. Milliseconds since 1970.
    alone_until_ms: u64,
}

impl Entry {
    fn is_empty(&self, now_ms: u64) -> bool {
        self.objects.is_empty() && self.fills.is_empty() && self.alone_until_ms <= now_ms
    }
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Keys whose `alone_until_ms` is set, oldest first; at most [`MAX_UNSTORABLE`].
    alone: std::collections::VecDeque<Key>,
}

/// Maximum number of URLs of a part that are remembered as not storable.
const MAX_UNSTORABLE: usize = 256;
const SHARDS: usize = 256;

/// Entry found for a key.
#[derive(Debug)]
pub(crate) enum Found {
    Object(Arc<Object>),
    /// An object that is not on the disk yet: all of it was received. Its size comes last.
    Complete(Arc<Fill>, Arc<StoredHead>, u64),
    /// Only for other requests.
    OtherVariants,
    Nothing,
    NotStorable,
}

/// Role of a request in a fetch.
#[derive(Debug)]
pub(crate) enum Role {
    Filler(Arc<Fill>),
    Follower(Arc<Fill>),
    Alone,
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Lock<Shard>]>,
    hasher: RandomState,
}

impl Default for Index {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Lock::default()).collect(), hasher: RandomState::new() }
    }
}

impl Index {
    fn shard(&self, key: &Key) -> &Lock<Shard> {
        let number = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        &self.shards[number]
    }

    /// The object for a request.
    pub(crate) fn find(&self, key: &Key, request: &RequestHead<'_>, now_ms: u64) -> Found {
        let (objects, fills, alone_until_ms) = {
            let shard = locked(self.shard(key));
            let Some(entry) = shard.entries.get(key) else { return Found::Nothing };
            (entry.objects.clone(), entry.fills.clone(), entry.alone_until_ms)
        };
        // Without the lock: a request can have long fields.
        let complete: Vec<_> = fills.iter().rev().filter_map(|fill| Some((fill, fill.complete()?))).collect();
        for fits in [Selection::matches, Selection::is_preferred] {
            if let Some((fill, (known, size))) =
                complete.iter().find(|(_, (known, _))| fits(&known.stored.selection, request))
            {
                return Found::Complete(Arc::clone(fill), Arc::clone(known), *size);
            }
            if let Some(object) = objects.iter().find(|object| fits(&object.stored.selection, request)) {
                return Found::Object(Arc::clone(object));
            }
        }
        if alone_until_ms > now_ms {
            return Found::NotStorable;
        }
        if objects.is_empty() { Found::Nothing } else { Found::OtherVariants }
    }

    /// Joins a fill of the key that may be for this request, or begins one.
    pub(crate) fn join(
        &self,
        key: &Key,
        request: &RequestHead<'_>,
        can_wait: bool,
        new: impl FnOnce() -> Fill,
    ) -> Role {
        let mut shard = locked(self.shard(key));
        let entry = shard.entries.entry(key.clone()).or_default();
        for fill in &entry.fills {
            match fill.head() {
                _ if fill.is_purged() => {}
                Head::Unknown if can_wait => return Role::Follower(Arc::clone(fill)),
                Head::Unknown => return Role::Alone,
                Head::Known(known)
                    if can_wait && known.is_shareable && known.stored.selection.fits(request) =>
                {
                    return Role::Follower(Arc::clone(fill));
                }
                _ => {}
            }
        }
        let fill = Arc::new(new());
        entry.fills.push(Arc::clone(&fill));
        Role::Filler(fill)
    }

    /// Begins a fill of a key that needs no request; `None`: another one runs.
    pub(crate) fn begin_alone(&self, key: &Key, new: impl FnOnce() -> Fill) -> Option<Arc<Fill>> {
        let mut shard = locked(self.shard(key));
        let entry = shard.entries.entry(key.clone()).or_default();
        if !entry.fills.is_empty() {
            return None;
        }
        let fill = Arc::new(new());
        entry.fills.push(Arc::clone(&fill));
        Some(fill)
    }

    /// The newest object of a key, whatever it was selected for.
    pub(crate) fn newest(&self, key: &Key) -> Option<Arc<Object>> {
        locked(self.shard(key)).entries.get(key)?.objects.first().cloned()
    }

    /// Takes a fill out; new requests do not join it any more.
    pub(crate) fn remove_fill(&self, fill: &Arc<Fill>) {
        let mut shard = locked(self.shard(&fill.key));
        if let Some(entry) = shard.entries.get_mut(&fill.key) {
            entry.fills.retain(|other| !Arc::ptr_eq(other, fill));
            if entry.is_empty(0) {
                shard.entries.remove(&fill.key);
            }
        }
    }

    /// Remembers that responses to this key are not storable.
    pub(crate) fn set_alone(&self, key: &Key, until_ms: u64) {
        let mut shard = locked(self.shard(key));
        let is_new = {
            let entry = shard.entries.entry(key.clone()).or_default();
            std::mem::replace(&mut entry.alone_until_ms, until_ms) == 0
        };
        if is_new {
            shard.alone.push_back(key.clone());
        }
        while shard.alone.len() > MAX_UNSTORABLE {
            let Some(oldest) = shard.alone.pop_front() else { break };
            if let Some(entry) = shard.entries.get_mut(&oldest) {
                entry.alone_until_ms = 0;
                if entry.is_empty(0) {
                    shard.entries.remove(&oldest);
                }
            }
        }
    }

    /// Adds an object; what it replaces is the answer: the object itself if there is a newer one.
    pub(crate) fn insert(&self, object: Arc<Object>, variants: usize) -> Vec<Arc<Object>> {
        let mut shard = locked(self.shard(&object.key));
        let entry = shard.entries.entry(object.key.clone()).or_default();
        let selection = &object.stored.selection;
        let received_ms = object.stored.received_ms;
        let is_same = |other: &Arc<Object>| other.stored.selection == *selection;
        // The folder is still being read in, or another request was faster.
        if entry.objects.iter().any(|other| is_same(other) && other.stored.received_ms > received_ms) {
            return vec![object];
        }
        let mut removed: Vec<Arc<Object>> =
            entry.objects.extract_if(.., |other| other.stored.selection == *selection).collect();
        let at = entry.objects.partition_point(|other| other.stored.received_ms > received_ms);
        entry.objects.insert(at, object);
        let most = variants.max(1).min(entry.objects.len());
        removed.extend(entry.objects.drain(most..));
        removed
    }

    /// Puts an object with the same files in the place of one that is still there.
    pub(crate) fn update(&self, object: &Arc<Object>) -> bool {
        let mut shard = locked(self.shard(&object.key));
        let entry = shard.entries.get_mut(&object.key);
        let mut objects = entry.into_iter().flat_map(|entry| &mut entry.objects);
        let known = objects.find(|known| Arc::ptr_eq(&known.files, &object.files));
        known.map(|known| *known = Arc::clone(object)).is_some()
    }

    /// The object that a fill has become.
    pub(crate) fn made_of(&self, fill: &Fill) -> Option<Arc<Object>> {
        let shard = locked(self.shard(&fill.key));
        shard.entries.get(&fill.key)?.objects.iter().find(|object| object.files.id == fill.id).cloned()
    }

    /// Removes the object with these files: whether it was there.
    pub(crate) fn remove(&self, key: &Key, files: &Arc<Files>) -> bool {
        let mut shard = locked(self.shard(key));
        let Some(entry) = shard.entries.get_mut(key) else { return false };
        let before = entry.objects.len();
        entry.objects.retain(|object| !Arc::ptr_eq(&object.files, files));
        let is_removed = entry.objects.len() < before;
        if entry.is_empty(0) {
            shard.entries.remove(key);
        }
        is_removed
    }

    /// Removes all objects of a key.
    pub(crate) fn remove_key(&self, key: &Key) -> Vec<Arc<Object>> {
        let mut shard = locked(self.shard(key));
        let Some(entry) = shard.entries.get_mut(key) else { return Vec::new() };
        entry.fills.iter().for_each(|fill| fill.purge());
        let objects = std::mem::take(&mut entry.objects);
        if entry.is_empty(0) {
            shard.entries.remove(key);
        }
        objects
    }

    /// Removes all objects for which `is_meant` returns true.
    ///
    /// **Cost**: a pass over all keys, one part under its lock after the other.
    pub(crate) fn remove_where(&self, is_meant: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        let mut removed = Vec::new();
        for shard in &self.shards {
            let mut shard = locked(shard);
            shard.entries.retain(|_, entry| {
                removed.extend(entry.objects.extract_if(.., |object| is_meant(object)));
                !entry.is_empty(0)
            });
        }
        removed
    }

    /// At most `limit` objects for which `is_meant` returns true.
    pub(crate) fn list(&self, is_meant: impl Fn(&Key) -> bool, limit: usize) -> Vec<Arc<Object>> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = locked(shard);
            let objects =
                shard.entries.iter().filter(|(key, _)| is_meant(key)).flat_map(|(_, entry)| &entry.objects);
            found.extend(objects.take(limit - found.len()).cloned());
            if found.len() >= limit {
                break;
            }
        }
        found
    }
}
