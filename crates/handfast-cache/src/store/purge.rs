//! Removing objects on demand, and listing them.
//!
//! In: a URL, a prefix of URLs, a tag. Out: the number of removed objects. When a purge returns, no object that was stored or being fetched
//! before is served any more; files are deleted afterwards ([`Statistics::removing`](super::counters::Statistics)), and until then a crash
//! can bring them back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::rules::key::Key;

use super::cache::Cache;
use super::index::Object;
use super::lock::locked;
use super::shared::Meant;

/// Selection of objects to purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge<'a> {
    /// This URL, with all variants and identities.
    Url(&'a str),
    /// All URLs that start so. An empty one is everything.
    Prefix(&'a str),
    /// All objects with this tag in `Cache-Tag`; the case does not matter.
    Tag(&'a str),
}

/// An object, for a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its URL.
    pub url: String,
    /// Its status.
    pub status: u16,
    /// **Units** bytes of content.
    pub size: u64,
    /// **Units** seconds.
    pub age: u64,
    /// Seconds for which it is fresh; negative if it is stale.
    pub ttl: i64,
    /// Number of times that it was served.
    pub hits: u64,
}

/// More purges than this while the folder is read in purge all that was not read in yet.
const MAX_EARLY_PURGES: usize = 4096;

impl Cache {
    /// Removes what is meant: the number of objects.
    ///
    /// **Cost**: a pass over all keys, some tens of nanoseconds each: not for a worker.
    pub fn purge(&self, what: Purge<'_>) -> usize {
        let meant = match what {
            Purge::Url(url) => {
                Meant::Url(Key::of_url(url, None).map_or_else(|| url.into(), |key| key.url().to_vec()))
            }
            Purge::Prefix(prefix) => Meant::Prefix(prefix.into()),
            Purge::Tag(tag) => Meant::Tag(tag.to_ascii_lowercase().into_bytes()),
        };
        self.remember(&meant);
        // Fills first: one that becomes an object now is found by the pass, or finds its mark.
        let fills = self.shared().running_fills();
        fills.iter().filter(|fill| meant.may_mean(fill)).for_each(|fill| fill.purge());
        self.count_and_delete(self.shared().index.remove_where(|object| meant.means(object)))
    }

    /// Removes all variants of a key: the number of objects.
    ///
    /// **Cost**: one key.
    pub fn invalidate(&self, key: &Key) -> usize {
        self.remember(&Meant::Url(key.url().to_vec()));
        self.count_and_delete(self.shared().index.remove_key(key))
    }

    fn remember(&self, meant: &Meant) {
        if self.shared().is_indexing.load(Ordering::SeqCst) {
            let mut early = locked(&self.shared().early_purges);
            if early.len() >= MAX_EARLY_PURGES {
                *early = vec![Meant::Prefix(Vec::new())];
            } else {
                early.push(meant.clone());
            }
        }
    }

    fn count_and_delete(&self, removed: Vec<Arc<Object>>) -> usize {
        let number = removed.len();
        self.shared().counters.purged.add(number as u64);
        self.shared().delete_later(removed);
        number
    }

    /// At most `limit` objects whose URL starts with `prefix`, in no order.
    ///
    /// **Cost**: a pass over keys until there are enough: not for a worker.
    pub fn list(&self, prefix: &str, limit: usize, now_ms: u64) -> Vec<Listed> {
        let objects = self.shared().index.list(|key| key.url().starts_with(prefix.as_bytes()), limit);
        let listed = objects.iter().map(|object| Listed {
            url: String::from_utf8_lossy(object.key.url()).into_owned(),
            status: object.stored.status,
            size: object.files.size,
            age: object.stored.age(now_ms),
            ttl: object.stored.ttl(now_ms),
            hits: object.files.hits.load(Ordering::Relaxed),
        });
        listed.collect()
    }
}
