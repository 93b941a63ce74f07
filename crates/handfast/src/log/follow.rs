//! Follows a growing file across its rotation: renamed and replaced, or copied and truncated.
//!
//! In: its path. Out: its lines as they come. It polls several times a second, as tail(1) does, because a network file system sends
//! no notification of a change. After a rename, both files are read until the next rotation: a proxy writes to the old one
//! until it receives the request to reopen its log.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lines::{Lines, Take};

/// The polling interval.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;
/// Bytes that identify a truncated file: more than the ends of two lines can have in common.
const LAST: usize = 256;

/// The file at a path, and the one that was there before.
#[derive(Debug)]
pub(super) struct Follow {
    path: PathBuf,
    now: Option<Tail>,
    before: Option<Tail>,
    piece: Vec<u8>,
}

impl Follow {
    /// Begins with the existing file, at its start or at its end. A missing file may be created later.
    ///
    /// **Errors**: the file exists and cannot be opened.
    pub(super) fn begin(path: &Path, at_end: bool) -> io::Result<Self> {
        let mut now = Tail::open(path)?;
        if let Some(tail) = now.as_mut().filter(|_| at_end) {
            tail.skip_all()?;
        }
        Ok(Self { path: path.into(), now, before: None, piece: vec![0; PIECE] })
    }

    /// Reads new data since the last call.
    ///
    /// **Errors**: a file cannot be read; or those of `take`.
    pub(super) fn read_new(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        if self.now.as_ref().is_none_or(|tail| !tail.is_at(&self.path))
            && let Some(new) = Tail::open(&self.path)?
        {
            let old = self.now.replace(new);
            // No process writes to the file before the renamed one any more.
            if let Some(mut last) = std::mem::replace(&mut self.before, old) {
                last.take(&mut self.piece, take)?;
                last.lines.end(take)?;
            }
        }
        for tail in self.before.iter_mut().chain(&mut self.now) {
            tail.take(&mut self.piece, take)?;
        }
        Ok(())
    }
}

/// One file.
#[derive(Debug)]
struct Tail {
    file: File,
    /// Device and number.
    identity: (u64, u64),
    read: u64,
    /// The last bytes that were read.
    last: Vec<u8>,
    lines: Lines,
}

impl Tail {
    /// `None` when it is not there.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        Ok(Some(Self {
            identity: (metadata.dev(), metadata.ino()),
            file,
            read: 0,
            last: Vec::new(),
            lines: Lines::default(),
        }))
    }

    fn skip_all(&mut self) -> io::Result<()> {
        self.read = self.file.seek(SeekFrom::End(0))?;
        Ok(())
    }

    /// Returns true if the path leads to this file; a path that leads nowhere at the moment is no other file.
    fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).map_or(true, |metadata| (metadata.dev(), metadata.ino()) == self.identity)
    }

    /// Returns true if it was truncated (copytruncate): it is shorter, or has grown again with other bytes at the last position.
    fn was_cut(&self) -> io::Result<bool> {
        let length = self.file.metadata()?.len();
        if length <= self.read {
            return Ok(length < self.read);
        }
        let mut there = vec![0; self.last.len()];
        self.file.read_exact_at(&mut there, self.read - self.last.len() as u64)?;
        Ok(there != self.last)
    }

    fn remember(&mut self, piece: &[u8]) {
        let kept = LAST.saturating_sub(piece.len()).min(self.last.len());
        self.last.drain(..self.last.len() - kept);
        self.last.extend_from_slice(&piece[piece.len().saturating_sub(LAST)..]);
    }

    fn take(&mut self, piece: &mut [u8], take: &mut Take<'_>) -> io::Result<()> {
        if self.was_cut()? {
            self.file.seek(SeekFrom::Start(0))?;
            self.read = 0;
            self.last.clear();
            self.lines.restart();
        }
        loop {
            match self.file.read(piece) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    self.read += count as u64;
                    self.remember(&piece[..count]);
                    self.lines.feed(&piece[..count], take)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    struct Log {
        folder: tempfile::TempDir,
        follow: Follow,
    }

    impl Log {
        fn new(at_end: bool) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            append(&folder.path().join("log"), "old\n");
            let follow = Follow::begin(&folder.path().join("log"), at_end).expect("it is there");
            Self { folder, follow }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn seen(&mut self) -> Vec<String> {
            let mut seen = Vec::new();
            let mut take = |_, line: Option<&[u8]>| {
                seen.push(String::from_utf8_lossy(line.unwrap_or(b"?")).into_owned());
                Ok(())
            };
            self.follow.read_new(&mut take).expect("it can be read");
            seen
        }
    }

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).expect("the folder is ours");
        file.write_all(text.as_bytes()).expect("there is room");
    }

    #[test]
    fn a_line_is_taken_once_and_when_it_is_whole() {
        let mut log = Log::new(true);
        assert!(log.seen().is_empty(), "what was there before is not shown");
        append(&log.path("log"), "on");
        assert!(log.seen().is_empty());
        append(&log.path("log"), "e\ntwo\n");
        assert_eq!(log.seen(), ["one", "two"]);
        assert!(log.seen().is_empty());
        assert_eq!(Log::new(false).seen(), ["old"]);
    }

    #[test]
    fn a_renamed_file_is_read_to_its_end_beside_the_new_one() {
        let mut log = Log::new(true);
        append(&log.path("log"), "one\n");
        std::fs::rename(log.path("log"), log.path("log.1")).expect("the folder is ours");
        // The proxy does not know of it yet, and nothing is at the path.
        append(&log.path("log.1"), "two\n");
        assert_eq!(log.seen(), ["one", "two"]);
        append(&log.path("log"), "four\n");
        append(&log.path("log.1"), "three\n");
        assert_eq!(log.seen(), ["three", "four"]);
        append(&log.path("log.1"), "late\n");
        assert_eq!(log.seen(), ["late"]);
        std::fs::rename(log.path("log.1"), log.path("log.2")).expect("the folder is ours");
        std::fs::rename(log.path("log"), log.path("log.1")).expect("the folder is ours");
        append(&log.path("log.2"), "very late\n");
        append(&log.path("log"), "five\n");
        assert_eq!(log.seen(), ["very late", "five"]);
    }

    #[test]
    fn a_file_that_was_cut_begins_anew() {
        let mut log = Log::new(true);
        append(&log.path("log"), "one\nhalf");
        assert_eq!(log.seen(), ["one"]);
        OpenOptions::new()
            .write(true)
            .open(log.path("log"))
            .and_then(|file| file.set_len(0))
            .expect("it is ours");
        append(&log.path("log"), "two\n");
        assert_eq!(log.seen(), ["two"]);
        // And is longer than before when it is looked at again.
        OpenOptions::new()
            .write(true)
            .open(log.path("log"))
            .and_then(|file| file.set_len(0))
            .expect("it is ours");
        append(&log.path("log"), "three is longer\n");
        assert_eq!(log.seen(), ["three is longer"]);
        append(&log.path("log"), "four\n");
        assert_eq!(log.seen(), ["four"]);
    }

    #[test]
    fn a_file_may_come_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let follow = Follow::begin(&folder.path().join("log"), true).expect("nothing is no error");
        let mut log = Log { folder, follow };
        assert!(log.seen().is_empty());
        append(&log.path("log"), "one\n");
        assert_eq!(log.seen(), ["one"], "a new file is read from its start");
    }
}
