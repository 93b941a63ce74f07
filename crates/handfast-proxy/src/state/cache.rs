//! The cache of a service: opened in the background, kept over reloads, given up to the process that follows.
//!
//! In: its settings. Out: a cache as soon as its folder can be used; until then requests go past it. A folder that another process has is tried again
//! and again: in an upgrade the one that ends gives it up.

#![expect(clippy::disallowed_types, reason = "a thread that opens a folder waits, off the path")]

use std::io;
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use handfast_cache::{Cache, OpenError, Settings};
use handfast_config::model::{self, Config};

/// Between two tries to open a folder.
const AGAIN: Duration = Duration::from_secs(1);

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
    place: Arc<Place>,
}

/// A folder, and its cache once it is open.
struct Place {
    service: Box<str>,
    settings: Settings,
    cache: OnceLock<Arc<OpenCache>>,
    /// Why it cannot be opened.
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

impl std::fmt::Debug for Place {
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
            Arc::new(Place {
                service: service.into(),
                settings: Settings::new(&model.folder, model.size),
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

    /// Why it does not work, for an operator.
    pub(crate) fn problem(&self) -> Option<String> {
        match self.place.cache.get() {
            Some(cache) => cache.problem(),
            None => self.place.problem.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Opens it, in a thread of its own. Once.
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

    /// Gives the folder to the process that follows. Requests go past it from now on.
    pub(crate) fn release(&self) {
        self.place.is_over();
        if let Some(cache) = self.place.cache.get() {
            cache.release();
        }
    }
}

/// Makes the folders of all caches, as the user that serves: none can be made in the sandbox.
///
/// **Errors**: those that cannot be made, or written to.
pub(crate) fn prepare(config: &Config) -> Result<(), Vec<String>> {
    let problems: Vec<String> = folders(config).filter_map(|folder| prepare_folder(folder).err()).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn prepare_folder(folder: &Path) -> Result<(), String> {
    let failed =
        |act: &str, error: io::Error| format!("{act} the cache folder {}: {error}", folder.display());
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| failed("make", error))?;
    let access = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    access.map_err(|error| failed("write to", error.into()))
}

/// The folders of all caches.
pub(crate) fn folders(config: &Config) -> impl Iterator<Item = &Path> {
    let caches = config.services.iter().filter_map(|service| service.http.as_ref()?.cache.as_ref());
    caches.map(|cache| cache.folder.as_path())
}

impl Place {
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
            let waited = self.changed.wait_timeout_while(phase, AGAIN, is_waiting);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 == Phase::Over {
                return;
            }
        }
    }

    /// Says so once for each reason.
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

    fn is_over(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Over;
        self.changed.notify_all();
    }
}

/// No service uses it any longer. Its threads are waited for, which a worker must not do.
impl Drop for Place {
    fn drop(&mut self) {
        self.is_over();
        if let Some(cache) = self.cache.take() {
            let end = move || drop(cache);
            // Where no thread can be started its threads end with the process.
            let _ = std::thread::Builder::new().name("cache-end".into()).spawn(end);
        }
    }
}
