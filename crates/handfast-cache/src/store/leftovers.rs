//! Files that could not be deleted.
//!
//! In: the files, when their deletion failed. Out: the same, when it is time to try again. Their bytes count as used until they are gone: a folder
//! never grows past its size because the disk deletes nothing. And what was purged must be gone before another process reads the folder.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use super::folder::{FileId, Part};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The number that they have, and which.
pub(crate) type Files = (FileId, &'static [Part]);

/// All of them.
#[derive(Debug)]
pub(crate) struct Leftovers {
    files: HashMap<Files, u64>,
    /// Time of the next attempt. `None`: there are none, or an attempt is running: a disk that hangs receives no further attempts.
    next: Option<Instant>,
    /// The pause before that.
    pause: Duration,
}

impl Default for Leftovers {
    fn default() -> Self {
        Self { files: HashMap::new(), next: None, pause: FIRST_PAUSE }
    }
}

impl Leftovers {
    /// Adds some, which take `disk_bytes` on the disk. Returns these bytes, or 0 if they were counted here before.
    pub(crate) fn add(&mut self, files: Files, disk_bytes: u64) -> u64 {
        self.next.get_or_insert_with(|| Instant::now() + FIRST_PAUSE);
        match self.files.entry(files) {
            Entry::Occupied(_) => 0,
            Entry::Vacant(place) => *place.insert(disk_bytes),
        }
    }

    /// The number of objects, whole or in part, that have files here.
    pub(crate) fn count(&self) -> u64 {
        self.files.len() as u64
    }

    /// The disk works again: they are tried at once.
    pub(crate) fn hurry(&mut self) {
        if !self.files.is_empty() {
            (self.next, self.pause) = (Some(Instant::now()), FIRST_PAUSE);
        }
    }

    /// Those that are to be tried now.
    pub(crate) fn due(&mut self) -> Vec<Files> {
        match self.next.take_if(|at| Instant::now() >= *at) {
            Some(_) => self.files.keys().copied().collect(),
            None => Vec::new(),
        }
    }

    /// They were tried, and these are deleted: the bytes that they took. The next pause is twice as long.
    pub(crate) fn tried(&mut self, deleted: &[Files]) -> u64 {
        let freed = deleted.iter().filter_map(|files| self.files.remove(files)).sum();
        self.pause = if self.files.is_empty() { FIRST_PAUSE } else { (self.pause * 2).min(MAX_PAUSE) };
        self.next = (!self.files.is_empty()).then(|| Instant::now() + self.pause);
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_tried_after_a_pause_or_when_the_disk_works_again() {
        let (first, second): (Files, Files) =
            ((FileId(1), &[Part::Head, Part::Content]), (FileId(1), &[Part::Head]));
        let mut leftovers = Leftovers::default();
        leftovers.hurry();
        assert_eq!((leftovers.add(first, 10), leftovers.add(first, 10)), (10, 0));
        assert_eq!(leftovers.due(), [], "the pause has just begun");
        leftovers.add(second, 0);
        leftovers.hurry();
        assert_eq!(leftovers.due().len(), 2);
        assert_eq!(leftovers.due(), [], "they are being tried");
        assert!(leftovers.next.is_none());
        assert_eq!((leftovers.tried(&[first]), leftovers.count()), (10, 1));
        assert!(leftovers.next.is_some() && leftovers.pause > FIRST_PAUSE);
        assert_eq!(leftovers.tried(&[first, second]), 0, "each is counted once");
        assert!(leftovers.next.is_none() && leftovers.pause == FIRST_PAUSE);
    }
}
