//! A cache that is open: looking up, fetching, updating.
//!
//! In: requests and responses. Out: [`Lookup`], [`Begin`]. Threads: those of the disk, one that reads the folder in, one that watches fills.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use handfast_http::http1::{Method, RequestHead, ResponseHead};

use crate::rules::cache_status::Forwarded;
use crate::rules::key::Key;
use crate::rules::policy::Policy;
use crate::rules::reuse::{self, Bypass, Verdict};
use crate::rules::stored::{NotStored, Stored, Times};
use crate::rules::validate::invalidated;

use super::counters::Statistics;
use super::fill::Fill;
use super::filler::{Filler, Follower};
use super::folder::{OpenError, Part};
use super::hit::Hit;
use super::index::{Found, Object, Role};
use super::lock::{Lock, locked};
use super::reader::Source;
use super::rebuild::rebuild;
use super::settings::Settings;
use super::shared::Shared;
use super::writer::rewrite_head;

/// Result of a look-up for a request.
pub enum Lookup {
    /// Serve it. If its verdict is [`Verdict::WhileRevalidated`], ask the origin as well.
    Hit(Hit),
    /// Ask the origin first, with the [conditions](Hit::conditions) of what is stored.
    Stale(Hit, Forwarded),
    /// Nothing that fits.
    Miss(Forwarded),
    /// Forward the request as if there were no cache; then [`Cache::observe`] the response.
    Bypass(Bypass),
    /// Answer 504: the request demands a stored response, and there is none.
    OnlyIfCached,
}

/// Role of a forwarded request.
pub enum Begin {
    /// Its response is to be stored: leave out the fields of the client that [`is_condition`](crate::is_condition) names, and add the conditions
    /// of what is stored.
    Fill(Filler),
    /// Another request for the same is on its way: wait for its response.
    Follow(Follower),
    /// Its response is not stored.
    Alone,
}

/// A cache on disk. Dropping it ends its threads, after what they do now, and [gives the folder up](Self::release).
pub struct Cache {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    clock: Arc<Clock>,
}

/// Ends the thread that watches fills, and tries deletions again.
#[derive(Default)]
struct Clock {
    is_ended: Lock<bool>,
    changed: Condvar,
}

impl Cache {
    /// Opens the folder, locks it and starts the threads. Its objects are read in meanwhile.
    ///
    /// **Errors**: the folder is in use or cannot be used, or a thread cannot be started.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let path = settings.folder.display().to_string();
        let threads = settings.threads;
        let shared = Arc::new(Shared::open(settings)?);
        let clock = Arc::new(Clock::default());
        let mut cache = Self { shared, threads: Vec::new(), clock };
        cache.start(threads).map_err(|error| OpenError::Folder(path, error))?;
        Ok(cache)
    }

    fn start(&mut self, threads: usize) -> std::io::Result<()> {
        self.threads = self.shared.pool.start("cache-disk", threads)?;
        let shared = Arc::clone(&self.shared);
        let index = std::thread::Builder::new().name("cache-index".into()).spawn(move || rebuild(&shared))?;
        self.threads.push(index);
        let (shared, clock) = (Arc::clone(&self.shared), Arc::clone(&self.clock));
        let clock =
            std::thread::Builder::new().name("cache-clock".into()).spawn(move || clock.run(&shared))?;
        self.threads.push(clock);
        Ok(())
    }

    /// Looks up the response for a request.
    ///
    /// **Cost**: a lock, and the variants of one key; never the disk.
    pub fn lookup(&self, key: &Key, request: &RequestHead<'_>, policy: &Policy, now_ms: u64) -> Lookup {
        let shared = &self.shared;
        let bypass = |reason: Bypass| {
            shared.counters.bypass(reason.word());
            Lookup::Bypass(reason)
        };
        if let Some(reason) = reuse::bypass(request, policy).or_else(|| self.refuses()) {
            return bypass(reason);
        }
        let only_if_cached = reuse::only_if_cached(request, policy);
        let has_range = request.values("range").next().is_some();
        match shared.index.find(key, request, now_ms) {
            Found::Object(object) => {
                let verdict = object.stored.verdict(request, policy, now_ms);
                object.files.used_ms.fetch_max(now_ms, Ordering::Relaxed);
                if matches!(verdict, Verdict::Fresh | Verdict::WhileRevalidated) {
                    object.files.hits.fetch_add(1, Ordering::Relaxed);
                }
                self.judge(self.hit(&object, verdict), only_if_cached)
            }
            Found::Complete(fill, known, size) => {
                let verdict = known.stored.verdict(request, policy, now_ms);
                let (shared, stored) = (Arc::clone(shared), Arc::clone(&known.stored));
                let hit = Hit {
                    shared,
                    source: Source::Fill(fill),
                    stored,
                    size: Some(size),
                    verdict,
                    own_head: None,
                };
                self.judge(hit, only_if_cached)
            }
            _ if only_if_cached => Lookup::OnlyIfCached,
            Found::NotStorable => bypass(Bypass::NotStorable),
            _ if has_range && !policy.fetches_whole => bypass(Bypass::Range),
            Found::Nothing => {
                shared.counters.misses.add(1);
                Lookup::Miss(Forwarded::UriMiss)
            }
            Found::OtherVariants => {
                shared.counters.misses.add(1);
                Lookup::Miss(Forwarded::VaryMiss)
            }
        }
    }

    /// Returns the reason why the cache serves no request now.
    fn refuses(&self) -> Option<Bypass> {
        if self.shared.is_released.load(Ordering::Relaxed) {
            return Some(Bypass::Released);
        }
        let is_busy = self.shared.pool.waiting_reads() >= self.shared.settings.queue.max(1);
        (is_busy || self.shared.error.is_paused()).then_some(Bypass::Paused)
    }

    fn judge(&self, hit: Hit, only_if_cached: bool) -> Lookup {
        let counters = &self.shared.counters;
        match hit.verdict {
            Verdict::Fresh | Verdict::WhileRevalidated => {
                counters.hits.add(1);
                counters.stale_hits.add(u64::from(hit.verdict == Verdict::WhileRevalidated));
                Lookup::Hit(hit)
            }
            _ if only_if_cached => Lookup::OnlyIfCached,
            Verdict::Stale => {
                counters.stale.add(1);
                Lookup::Stale(hit, Forwarded::Stale)
            }
            Verdict::Refused => {
                counters.stale.add(1);
                Lookup::Stale(hit, Forwarded::Request)
            }
        }
    }

    fn hit(&self, object: &Arc<Object>, verdict: Verdict) -> Hit {
        Hit {
            shared: Arc::clone(&self.shared),
            source: Source::Object(Arc::clone(object)),
            stored: Arc::clone(&object.stored),
            size: Some(object.files.size),
            verdict,
            own_head: None,
        }
    }

    /// Begins to fetch what a lookup did not find or found stale. `can_wait`: the response to an earlier request will do, so this one does
    /// not demand the origin ([`Forwarded::Request`]) and does not follow [`Followed::Repeat`](super::filler::Followed::Repeat). To be
    /// called directly after the lookup: an object that is stored between both is fetched a second time.
    pub fn begin(&self, key: &Key, request: &RequestHead<'_>, can_wait: bool) -> Begin {
        if request.method != Method::GET || self.shared.is_released.load(Ordering::Relaxed) {
            return Begin::Alone;
        }
        let shared = &self.shared;
        let new = || Fill::new(key.clone(), shared.new_id(), shared.settings.pending);
        match shared.index.join(key, request, can_wait, new) {
            Role::Alone => Begin::Alone,
            Role::Follower(fill) => Begin::Follow(Follower::new(Arc::clone(shared), fill)),
            Role::Filler(fill) => {
                locked(&shared.fills).push(Arc::downgrade(&fill));
                Begin::Fill(Filler::new(Arc::clone(shared), fill))
            }
        }
    }

    /// The origin confirmed what is stored (304): it is updated, and the answer is for the client whose request it was. Then end the fill with
    /// [`Filler::restart_followers`].
    pub fn unchanged(
        &self,
        hit: &Hit,
        request: &RequestHead<'_>,
        response: &ResponseHead<'_>,
        policy: &Policy,
        times: Times,
    ) -> Hit {
        self.shared.counters.revalidated.add(1);
        let mut fresh = hit.clone();
        fresh.verdict = Verdict::Fresh;
        fresh.own_head = Some(hit.stored.updated_head(response));
        let object = match &hit.source {
            Source::Object(object) => Arc::clone(object),
            // If it is no object yet, it is validated again.
            Source::Fill(fill) => match self.shared.index.made_of(fill) {
                Some(object) => object,
                None => return fresh,
            },
        };
        match hit.stored.freshened(request, response, policy, times) {
            Ok(stored) => {
                let object = self.update(&object, stored);
                (fresh.stored, fresh.source) = (Arc::clone(&object.stored), Source::Object(object));
            }
            // The response to a request with `Authorization` changes nothing for others.
            Err(NotStored::Authorization) => {}
            Err(_) => {
                // This client may have it; it is not stored any longer.
                let mut stored = (*hit.stored).clone();
                (stored.received_ms, stored.initial_age) = (times.received_ms, 0);
                fresh.stored = Arc::new(stored);
                self.remove(&object);
            }
        }
        fresh
    }

    fn update(&self, object: &Arc<Object>, stored: Stored) -> Arc<Object> {
        let updated =
            Object { key: object.key.clone(), stored: Arc::new(stored), files: Arc::clone(&object.files) };
        let updated = Arc::new(updated);
        if self.shared.index.update(&updated) {
            rewrite_head(&self.shared, Arc::clone(&updated));
        }
        updated
    }

    fn remove(&self, object: &Arc<Object>) {
        if self.shared.index.remove(&object.key, &object.files) {
            self.shared.counters.purged.add(1);
            self.shared.delete_later(vec![Arc::clone(object)]);
        }
    }

    /// A response to a request that was forwarded without a fill: HEAD updates what is stored, and unsafe methods invalidate it. Objects under the
    /// same URL but another identity stay until they are stale.
    pub fn observe(
        &self,
        key: &Key,
        request: &RequestHead<'_>,
        response: &ResponseHead<'_>,
        policy: &Policy,
        times: Times,
    ) {
        if self.shared.is_released.load(Ordering::Relaxed) {
            return;
        }
        for key in invalidated(key, request, response) {
            self.invalidate(&key);
        }
        let is_head = request.method == Method::HEAD && response.status == 200;
        if !is_head || reuse::bypass(request, policy).is_some() {
            return;
        }
        if let Found::Object(object) = self.shared.index.find(key, request, times.received_ms)
            && object.stored.status == 200
        {
            match object.stored.after_head(request, response, object.files.size, policy, times) {
                Some(stored) => drop(self.update(&object, stored)),
                None => self.remove(&object),
            }
        }
    }

    /// Gives the folder to another process: after this nothing is written, no request is answered from the cache, running fills are not stored;
    /// readers go on. May wait for a write that was begun: not for a worker.
    pub fn release(&self) {
        self.shared.is_released.store(true, Ordering::SeqCst);
        let mut is_released = self.shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *is_released, true) {
            return;
        }
        for fill in self.shared.running_fills() {
            fill.give_up();
            if fill.has_file() && self.shared.folder.remove(fill.id, Part::Content).is_err() {
                // The next process deletes what is not complete.
                self.shared.counters.errors.add(1);
            }
            self.shared.index.remove_fill(&fill);
        }
        locked(&self.shared.folder_lock).take();
    }

    /// Returns the counters, and the number and size of the stored objects.
    ///
    /// **Cost**: may wait for a deletion of files: not for a worker.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Returns the reason why the cache does not work, for an operator; `None` if it does.
    pub fn problem(&self) -> Option<String> {
        self.shared.error.problem()
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.shared.is_released.store(true, Ordering::SeqCst);
        self.shared.pool.close();
        *locked(&self.clock.is_ended) = true;
        self.clock.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _outcome = thread.join();
        }
        // Hits and readers may outlive the cache; they do not keep the folder.
        self.release();
    }
}

impl Clock {
    /// Gives up fills that the disk does not take, and has deleted what could not be deleted.
    fn run(&self, shared: &Arc<Shared>) {
        let period =
            (shared.settings.disk_timeout / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
        let mut is_ended = locked(&self.is_ended);
        while !*is_ended {
            is_ended = self.changed.wait_timeout(is_ended, period).unwrap_or_else(PoisonError::into_inner).0;
            if *is_ended {
                return;
            }
            drop(is_ended);
            watch(shared, shared.settings.disk_timeout);
            shared.delete_leftovers_later();
            is_ended = locked(&self.is_ended);
        }
    }
}

/// Gives up fills whose content has waited longer than this.
pub(crate) fn watch(shared: &Shared, timeout: Duration) {
    for fill in shared.running_fills() {
        if fill.is_stuck(timeout) && fill.give_up() {
            shared.counters.given_up.add(1);
            shared.index.remove_fill(&fill);
            let waited = format!("no progress in {} ms", timeout.as_millis());
            shared.failed("write to the cache folder", &std::io::Error::other(waited));
        }
    }
}
