//! Lines that a program wrote to one of its outputs, searchable while it runs.

use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::deadline::{DEADLINE, thread};

/// Lines that a thread collects. Copies show the same lines.
#[derive(Clone)]
pub struct Lines {
    name: &'static str,
    shared: Arc<(Mutex<Vec<String>>, Condvar)>,
    /// True once the source has ended.
    ended: Arc<AtomicBool>,
}

impl Lines {
    /// Collects what comes from `source` until it ends.
    pub fn collect(name: &'static str, source: impl Read + Send + 'static) -> Self {
        let lines = Self { name, shared: Arc::default(), ended: Arc::default() };
        let copy = lines.clone();
        thread(name, move || {
            for line in BufReader::new(source).split(b'\n').map_while(Result::ok) {
                copy.lock().push(String::from_utf8_lossy(&line).into_owned());
                copy.shared.1.notify_all();
            }
            let _lines = copy.lock();
            copy.ended.store(true, Ordering::Release);
            copy.shared.1.notify_all();
        });
        lines
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        // A wait that comes to nothing panics while it holds them; they are as good as before.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All lines so far.
    pub fn so_far(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// Returns true if the source has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// All lines, of a source that ends: waits for its end.
    pub fn to_the_end(&self) -> Vec<String> {
        let end = Instant::now() + DEADLINE;
        let mut lines = self.lock();
        while !self.ended.load(Ordering::Acquire) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited {DEADLINE:?} for the end of {}", self.name);
            lines = self.shared.1.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        lines.clone()
    }

    /// Waits for a line that `find` makes something of, from line number `from` on; gives that and the line's number.
    pub fn find<T>(&self, from: usize, what: &str, mut find: impl FnMut(&str) -> Option<T>) -> (usize, T) {
        let end = Instant::now() + DEADLINE;
        let mut lines = self.lock();
        let mut looked = from;
        loop {
            while looked < lines.len() {
                if let Some(found) = find(&lines[looked]) {
                    return (looked, found);
                }
                looked += 1;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "waited {DEADLINE:?} for {what} on {}; seen so far:\n{}",
                self.name,
                lines[from.min(lines.len())..].join("\n")
            );
            lines = self.shared.1.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for a line that contains a text.
    pub fn containing(&self, text: &str) -> String {
        self.find(0, &format!("a line with `{text}`"), |line| line.contains(text).then(|| line.to_owned())).1
    }
}
