//! Common parts of the store's tests: a cache in a temporary folder, an origin, and clients that wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use handfast_http::http1::RequestHead;

use crate::rules::key::Key;
use crate::rules::policy::Policy;
use crate::rules::stored::Times;
use crate::rules::tests::{request, response};
use crate::store::cache::{Begin, Cache, Lookup};
use crate::store::filler::Filler;
use crate::store::hit::Hit;
use crate::store::reader::{ReadError, Reader};
use crate::store::settings::Settings;

pub(crate) const NOW_MS: u64 = 1_800_000_000_000;
pub(crate) const FRESH: &str = "Cache-Control: max-age=60";

/// A wait that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits until it is ready.
pub(crate) fn wait<T>(mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let started = Instant::now();
    loop {
        if let Poll::Ready(value) = poll(&waker) {
            return value;
        }
        assert!(started.elapsed() < TIMEOUT, "no waker was called");
        std::thread::park_timeout(TIMEOUT);
    }
}

/// Waits until it is true, where no waker is called.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < TIMEOUT, "not seen: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

impl Drop for Bench {
    /// A failing test must not wait for a disk that hangs.
    fn drop(&mut self) {
        self.cache.shared().folder.faults.end_hang();
    }
}

/// A cache in a folder.
pub(crate) struct Bench {
    pub(crate) cache: Cache,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl Fn(&mut Settings)) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        Self::over(folder, change)
    }

    /// A cache over a folder that was used before, when it is read in.
    pub(crate) fn over(folder: Arc<tempfile::TempDir>, change: impl Fn(&mut Settings)) -> Self {
        let mut settings = Settings::new(folder.path().join("cache"), 1 << 30);
        settings.threads = 2;
        change(&mut settings);
        let cache = Cache::open(settings).expect("the folder is free");
        until("the folder is read in", || !cache.statistics().is_indexing);
        Self { cache, folder }
    }

    /// The same folder after this process.
    pub(crate) fn reopened(self) -> Self {
        let folder = Arc::clone(&self.folder);
        drop(self);
        Self::over(folder, |_| {})
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// The files of objects, by their letter.
    pub(crate) fn files(&self, letter: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).expect("the folder can be listed");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == letter)).collect()
    }

    pub(crate) fn lookup(&self, head: &RequestHead<'_>) -> Lookup {
        self.cache.lookup(&key(head), head, &Policy::default(), NOW_MS)
    }

    pub(crate) fn begin(&self, head: &RequestHead<'_>) -> Filler {
        match self.cache.begin(&key(head), head, true) {
            Begin::Fill(filler) => filler,
            Begin::Follow(_) | Begin::Alone => panic!("another fill runs"),
        }
    }

    /// Fetches and stores; waits until it is found.
    pub(crate) fn store(&self, head: &RequestHead<'_>, fields: &str, content: &[u8]) {
        let before = self.cache.statistics().stored;
        assert!(self.fill(head, fields, content), "it is stored");
        until("the object is stored", || self.cache.statistics().stored > before);
    }

    /// Fetches; whether it will be stored.
    pub(crate) fn fill(&self, head: &RequestHead<'_>, fields: &str, content: &[u8]) -> bool {
        let mut filler = self.begin(head);
        let stored = filler.head(head, &response(fields), &Policy::default(), times());
        if stored.is_err() {
            return false;
        }
        for piece in content.chunks(50_000) {
            if !wait(|waker| filler.poll_put(piece, waker)) {
                return false;
            }
        }
        filler.end()
    }

    /// Returns the response that a client receives now; `None` if the request would be forwarded.
    pub(crate) fn get(&self, head: &RequestHead<'_>) -> Option<Result<Vec<u8>, ReadError>> {
        match self.lookup(head) {
            Lookup::Hit(hit) => Some(read(&hit, head)),
            _ => None,
        }
    }

    pub(crate) fn idle(&self) {
        until("files are deleted", || self.cache.shared().removing.load(Ordering::Relaxed) == 0);
    }
}

pub(crate) fn times() -> Times {
    Times { requested_ms: NOW_MS, received_ms: NOW_MS }
}

pub(crate) fn key(head: &RequestHead<'_>) -> Key {
    Key::of("https", head, None).expect("the request has a key")
}

pub(crate) fn get(path: &str) -> RequestHead<'static> {
    request(&format!("GET {path}\n"))
}

/// Reads an answer in pieces of an odd size.
pub(crate) fn read(hit: &Hit, head: &RequestHead<'_>) -> Result<Vec<u8>, ReadError> {
    let answer = hit.answer(head, NOW_MS);
    let mut reader = hit.reader(answer.content);
    wait(|waker| reader.poll_ready(waker))?;
    let mut content = Vec::new();
    let mut buffer = [0; 7777];
    loop {
        match wait(|waker| poll_read(&mut reader, &mut buffer, waker))? {
            0 => return Ok(content),
            length => content.extend_from_slice(&buffer[..length]),
        }
    }
}

/// Reads into the buffer: the number of bytes, 0 at the end.
pub(crate) fn poll_read(
    reader: &mut Reader,
    buffer: &mut [u8],
    waker: &Waker,
) -> Poll<Result<usize, ReadError>> {
    let most = buffer.len();
    let copy = |bytes: &[u8]| {
        buffer[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    };
    reader.poll_piece(most, waker, copy).map_ok(Option::unwrap_or_default)
}

/// Content in which each block differs.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at ^ at >> 7 ^ at >> 15).to_le_bytes()[0]).collect()
}
