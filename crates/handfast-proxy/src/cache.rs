//! The cache of a service: opened in the background, kept over reloads, given up to the process that follows.
//!
//! In: its settings. Out: a cache as soon as its folder can be used; until then requests bypass it. A folder that another process has is tried again
//! and again: in an upgrade the one that ends gives it up.

#![expect(clippy::disallowed_types, reason = "a thread that opens a folder waits, off the path")]

use std::io;
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use handfast_admin::CacheAct;
use handfast_cache::{Cache, Latency, Listed, OpenError, Purge, Settings, Statistics, check_folder, unix_ms};
use handfast_config::model::{self, Config};
use handfast_observe::metrics::{CacheSnapshot, CacheStatus};
use handfast_text::units::{counted as counted_as, plain};

/// Between two tries to open a folder.
const OPEN_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A cache that is open.
pub(crate) struct OpenCache(Cache);

impl Deref for OpenCache {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        &self.0
    }
}

/// The cache of a service, by its present settings.
#[derive(Debug)]
pub(crate) struct ServiceCache {
    pub(crate) model: model::Cache,
    place: Arc<CacheFolder>,
}

/// A folder, and its cache once it is open.
struct CacheFolder {
    service: Box<str>,
    settings: Settings,
    cache: OnceLock<Arc<OpenCache>>,
    /// Reason why it cannot be opened.
    problem: Mutex<Option<String>>,
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Started,
    /// No service uses it, or the process ends.
    Over,
}

impl std::fmt::Debug for CacheFolder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Place").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl ServiceCache {
    /// `before`: that of the same service, which goes on if folder and size are the same.
    pub(crate) fn new(service: &str, model: &model::Cache, before: Option<&Arc<Self>>) -> Arc<Self> {
        let is_same =
            |before: &&Arc<Self>| (&before.model.folder, before.model.size) == (&model.folder, model.size);
        let place = before.filter(is_same).map(|before| Arc::clone(&before.place));
        let place = place.unwrap_or_else(|| {
            Arc::new(CacheFolder {
                service: service.into(),
                settings: Settings {
                    descriptors_below: handfast_net::limits::file_numbers(),
                    ..Settings::new(&model.folder, model.size)
                },
                cache: OnceLock::new(),
                problem: Mutex::default(),
                phase: Mutex::new(Phase::New),
                changed: Condvar::new(),
            })
        });
        Arc::new(Self { model: model.clone(), place })
    }

    /// `None`: it is not open yet, or cannot be opened. **Cost**: one load.
    pub(crate) fn get(&self) -> Option<Arc<OpenCache>> {
        self.place.cache.get().map(Arc::clone)
    }

    /// Opens it, in a separate thread. Once.
    ///
    /// **Errors**: no thread can be started.
    pub(crate) fn open(&self) -> io::Result<()> {
        let mut phase = self.place.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::New {
            let place = Arc::clone(&self.place);
            std::thread::Builder::new().name("cache-open".into()).spawn(move || place.open())?;
            *phase = Phase::Started;
        }
        Ok(())
    }

    /// Ends the caches of a configuration that the next one does not have: their folders are free at once, and their threads end when the last
    /// request has ended. A worker must not wait for them.
    pub(crate) fn retire(before: Vec<Arc<Self>>, after: &[Arc<Self>]) {
        let goes_on = |cache: &Arc<Self>| after.iter().any(|other| Arc::ptr_eq(&other.place, &cache.place));
        let over: Vec<_> = before.into_iter().filter(|cache| !goes_on(cache)).collect();
        if over.is_empty() {
            return;
        }
        let end = move || {
            over.iter().for_each(|cache| cache.release());
            // Requests that began before have the others.
            while over.iter().any(|cache| Arc::strong_count(cache) > 1) {
                std::thread::park_timeout(OPEN_RETRY_INTERVAL);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("cache-end".into()).spawn(end) {
            tracing::warn!("end a cache: start a thread: {error}");
        }
    }

    /// Gives the folder to the process that follows. Requests bypass it from now on.
    pub(crate) fn release(&self) {
        self.place.set_over();
        if let Some(cache) = self.place.cache.get() {
            cache.release();
        }
    }
}

impl CacheStatus for ServiceCache {
    fn snapshot(&self) -> CacheSnapshot {
        let CacheFolder { service, settings, cache, problem, .. } = &*self.place;
        let empty = CacheSnapshot {
            service: service.to_string(),
            folder: settings.folder.display().to_string(),
            disk_bytes_limit: settings.size,
            ..CacheSnapshot::default()
        };
        match cache.get() {
            None => {
                let problem = problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
                CacheSnapshot {
                    problem: Some(problem.unwrap_or_else(|| "it is being opened".to_owned())),
                    ..empty
                }
            }
            Some(cache) => CacheSnapshot { problem: cache.problem(), ..counted(cache.statistics(), empty) },
        }
    }
}

fn counted(counts: Statistics, empty: CacheSnapshot) -> CacheSnapshot {
    let named =
        |counts: &[(&str, u64)]| counts.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
    let requests = [
        ("hit", counts.hits - counts.stale_hits),
        ("stale", counts.stale_hits),
        ("shared", counts.coalesced),
        ("miss", counts.misses),
        ("expired", counts.stale),
    ];
    let changes = [
        ("stored", counts.stored),
        ("evicted", counts.evicted),
        ("purged", counts.purged),
        ("broken", counts.broken),
        ("given-up", counts.given_up),
    ];
    let time = |latency: Latency| (latency.count, Duration::from_micros(latency.micros).as_secs_f64());
    CacheSnapshot {
        is_indexing: counts.is_indexing,
        objects: counts.objects,
        disk_bytes: counts.disk_bytes,
        undeleted: counts.undeleted,
        memory_bytes: counts.memory_bytes,
        requests: named(&[&requests[..], &counts.bypassed].concat()),
        confirmed: counts.revalidated,
        changes: named(&changes),
        bytes_read: counts.bytes_read,
        bytes_written: counts.bytes_written,
        errors: counts.errors,
        disk: [("read".to_owned(), time(counts.reads)), ("write".to_owned(), time(counts.writes))].into(),
        ..empty
    }
}

/// Reason why objects are neither listed nor purged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoOpenCache {
    #[error("no service of this name has a cache")]
    NotConfigured,
    #[error("no cache is open; the status page says why")]
    NotOpen,
}

/// Reason why the folder of a cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CacheFolderError {
    #[error("{act} the cache folder {}: {source}", .folder.display())]
    Folder { act: &'static str, folder: PathBuf, source: io::Error },
    #[error(transparent)]
    Content(#[from] OpenError),
}

/// Lists or purges objects: the answer for an operator.
///
/// **Errors**: there is no cache that is open. **Cost**: a pass over all keys.
pub(crate) fn list_or_purge(caches: &[Arc<ServiceCache>], act: &CacheAct) -> Result<String, NoOpenCache> {
    let open: Vec<_> = caches.iter().filter_map(|cache| cache.get()).collect();
    if open.is_empty() {
        return Err(match caches {
            [] => NoOpenCache::NotConfigured,
            _ => NoOpenCache::NotOpen,
        });
    }
    let purge = match act {
        CacheAct::List(prefix, limit) => {
            let now = unix_ms(SystemTime::now());
            let mut listed: Vec<_> =
                open.iter().flat_map(|cache| cache.list(prefix, *limit, now)).take(*limit).collect();
            listed.sort_by(|one, other| one.url.cmp(&other.url));
            let line = |object: &Listed| {
                let Listed { url, status, size, age, ttl, hits } = object;
                format!("{status} {size} {age} {ttl} {hits} {}\n", plain(url))
            };
            return Ok(listed.iter().map(line).collect());
        }
        CacheAct::PurgeUrl(url) => Purge::Url(url),
        CacheAct::PurgePrefix(prefix) => Purge::Prefix(prefix),
        CacheAct::PurgeTag(tag) => Purge::Tag(tag),
    };
    let number: usize = open.iter().map(|cache| cache.purge(purge)).sum();
    Ok(format!("{} removed", counted_as(number as u64, "object")))
}

/// Makes the folders of all caches, as the user that serves: none can be made in the sandbox.
///
/// **Errors**: those that cannot be made, or written to.
pub(crate) fn prepare(config: &Config) -> Result<(), Vec<CacheFolderError>> {
    let problems: Vec<_> = folders(config).filter_map(|folder| prepare_folder(folder).err()).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn prepare_folder(folder: &Path) -> Result<(), CacheFolderError> {
    let failed = |act, source| CacheFolderError::Folder { act, folder: folder.to_owned(), source };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| failed("make", error))?;
    check_folder(folder)?;
    let access = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    access.map_err(|error| failed("write to", error.into()))
}

/// The folders of all caches.
pub(crate) fn folders(config: &Config) -> impl Iterator<Item = &Path> {
    let caches = config.services.iter().filter_map(|service| service.http.as_ref()?.cache.as_ref());
    caches.map(|cache| cache.folder.as_path())
}

impl CacheFolder {
    fn open(&self) {
        loop {
            match Cache::open(self.settings.clone()) {
                Ok(cache) => {
                    *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    let cache = self.cache.get_or_init(|| Arc::new(OpenCache(cache)));
                    if *self.phase.lock().unwrap_or_else(PoisonError::into_inner) == Phase::Over {
                        cache.release();
                    }
                    return;
                }
                Err(error) => self.cannot_open(&error),
            }
            let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            let is_waiting = |phase: &mut Phase| *phase != Phase::Over;
            let waited = self.changed.wait_timeout_while(phase, OPEN_RETRY_INTERVAL, is_waiting);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 == Phase::Over {
                return;
            }
        }
    }

    /// Logs each reason once.
    fn cannot_open(&self, error: &OpenError) {
        let text = error.to_string();
        let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if problem.as_ref() != Some(&text) {
            let service = &self.service;
            tracing::warn!(
                "service {service}: cache: {text}; requests go to backends, and it is tried again"
            );
            *problem = Some(text);
        }
    }

    fn set_over(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Over;
        self.changed.notify_all();
    }
}

/// The thread that opens it gives up.
impl Drop for CacheFolder {
    fn drop(&mut self) {
        self.set_over();
    }
}
