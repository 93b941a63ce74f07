//! Ticket keys in a file that several processes and machines may share.
//!
//! In: a path. Out: the keys in it, or the line that is wrong. The file is text:
//!
//! ```text
//! handfast-ticket-keys 1
//! # …
//! key <id> made <time> from <time> <secret>
//! ```
//!
//! with ids and secrets in hexadecimal and times in Unix seconds.
//!
//! # Several writers
//! Readers never see half a file: a new one is written beside it, flushed, and renamed over it. Writers take a lock
//! (`flock` on a file beside it, which the system releases when its holder dies), read the keys, and only then add one.
//! So when several processes find a new key due, one adds it and the others find it. If locks do not work (some network
//! file systems), the last rename wins; the loser reads the winner's key at its next refresh, which comes before either
//! key is used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

use super::{KEY_LENGTH, MasterKey, NAME_LENGTH};
use crate::Error;
use handfast_pki::files::open_own;
use handfast_pki::read::{self, Failure, FileStamp};

const FIRST_LINE: &str = "handfast-ticket-keys 1";

const COMMENT: &str = "\
# Keys of session tickets. Who has them can read what resumed sessions sent: keep this file at mode 0600, and share it
# only among machines that serve the same names. Rotated by the program; remove the file to start anew.
";

/// Number of attempts, and time between them, while a start waits for another process that holds the lock: 5 s.
const LOCK_TRIES: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// A file of keys, and what was last seen of it.
#[derive(Debug)]
pub(super) struct KeyFile {
    /// As it is configured.
    given: PathBuf,
    /// Path that it resolves to.
    path: PathBuf,
    seen: FileStamp,
}

/// The lock, until it is dropped.
///
/// Released by name, not by closing: a process that is being forked elsewhere has a copy of the descriptor until it executes
/// its program, and would hold the lock for as long.
#[derive(Debug)]
pub(super) struct Lock(pub(super) File);

impl Drop for Lock {
    fn drop(&mut self) {
        // If it fails, only closing is left.
        let _ = self.0.unlock();
    }
}

impl KeyFile {
    pub(super) fn new(path: &Path) -> Self {
        Self { given: path.to_path_buf(), path: path.to_path_buf(), seen: FileStamp::default() }
    }

    /// Returns true if there was a file at the last check.
    pub(super) fn is_there(&self) -> bool {
        self.seen.is_there()
    }

    /// Replaces `keys` by those in the file, when it is another than last time. A file that is not there changes
    /// nothing.
    pub(super) fn read_if_changed(&mut self, keys: &mut Vec<Arc<MasterKey>>) -> Result<(), Error> {
        // Through links, or the rename would replace the link and leave the file that others read as it was. Each time: a mounted
        // Secret of Kubernetes is changed by another link. In the middle of that there is none, and the path stays as it was.
        if let Ok(path) = fs::canonicalize(&self.given) {
            self.path = path;
        }
        let stamp = FileStamp::of(&self.path);
        if stamp == self.seen {
            return Ok(());
        }
        let content = match read::whole(&self.path) {
            Ok(content) => content,
            Err(Failure::Missing) => {
                self.seen = FileStamp::default();
                return Ok(());
            }
            Err(failure) => return Err(self.failed("read ticket keys", failure.into())),
        };
        if content.mode & 0o077 != 0 {
            return Err(Error::TicketFilePermissions { file: self.path.clone(), mode: content.mode });
        }
        *keys = parse(&content.bytes).map_err(|(line, what)| Error::TicketFileMalformed {
            file: self.path.clone(),
            line,
            what,
        })?;
        self.seen = content.stamp;
        Ok(())
    }

    /// Takes the lock; `None` when another process has it and `can_wait` is false.
    pub(super) fn lock(&self, can_wait: bool) -> Result<Option<Lock>, Error> {
        let path = self.beside(".lock");
        let mut options = OpenOptions::new();
        let file = open_own(&path, options.write(true).create(true).truncate(false).mode(0o600));
        let file = file.map_err(|source| Error::File {
            act: "open lock of ticket keys",
            file: path.clone(),
            source,
        })?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Lock(file))),
                Err(TryLockError::WouldBlock) if !can_wait => return Ok(None),
                Err(TryLockError::WouldBlock) => pause(),
                // The last rename wins, which is good enough: see the head of this file.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Some(Lock(file)));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(Error::File { act: "lock ticket keys", file: path, source: error });
                }
            }
        }
        Err(Error::TicketFileLocked { file: path })
    }

    /// Puts `keys` in the file's place.
    pub(super) fn write(&mut self, keys: &[Arc<MasterKey>]) -> Result<(), Error> {
        let mut random = [0; 8];
        rand::fill(&mut random).map_err(|_| Error::Random)?;
        let aside = self.beside(&format!(".{}.new", HEXLOWER.encode(&random)));
        let written = self.write_aside(&aside, &text(keys));
        if written.is_err() {
            // The leftover file holds keys. If it cannot be removed either, the first error is more useful.
            let _ = fs::remove_file(&aside);
        }
        self.seen = written.map_err(|error| self.failed("write ticket keys", error))?;
        Ok(())
    }

    fn write_aside(&self, aside: &Path, text: &str) -> io::Result<FileStamp> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(aside, &self.path)?;
        // The rename is safe from a power failure only with the folder's own flush.
        File::open(self.folder())?.sync_all()?;
        Ok(FileStamp::of(&self.path))
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        beside(&self.path, ending)
    }

    fn failed(&self, act: &'static str, source: io::Error) -> Error {
        Error::File { act, file: self.path.clone(), source }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file lock has no wait with a deadline; only a start waits, bounded"
)]
fn pause() {
    std::thread::sleep(LOCK_WAIT);
}

pub(super) fn text(keys: &[Arc<MasterKey>]) -> Zeroizing<String> {
    // Room for all of it, because growing would leave copies of secrets behind.
    let mut text =
        Zeroizing::new(String::with_capacity(FIRST_LINE.len() + COMMENT.len() + 200 * keys.len() + 1));
    text.push_str(FIRST_LINE);
    text.push('\n');
    text.push_str(COMMENT);
    for key in keys {
        let (id, secret) = (HEXLOWER.encode(&key.id), Zeroizing::new(HEXLOWER.encode(&key.secret[..])));
        text.push_str(&format!("key {id} made {} from {} ", key.made_at, key.used_from));
        text.push_str(&secret);
        text.push('\n');
    }
    text
}

/// The keys in a file's text, by first use; or the line that is wrong, and how.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Arc<MasterKey>>, (usize, &'static str)> {
    let text = std::str::from_utf8(bytes).map_err(|_| (1, "is not text"))?;
    let mut lines = (1..).zip(text.lines());
    if lines.next().is_none_or(|(_, first)| first != FIRST_LINE) {
        return Err((1, "expected \"handfast-ticket-keys 1\""));
    }
    let mut keys: Vec<Arc<MasterKey>> = Vec::new();
    for (number, line) in lines {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = parse_key(line).map_err(|what| (number, what))?;
        if keys.iter().any(|known| known.id == key.id) {
            return Err((number, "the id of an earlier key, expected each once"));
        }
        keys.push(Arc::new(key));
    }
    if !text.ends_with('\n') {
        return Err((text.lines().count(), "no line end, expected one: the file is cut short"));
    }
    keys.sort_by_key(|key| key.used_from);
    Ok(keys)
}

fn parse_key(line: &str) -> Result<MasterKey, &'static str> {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (key, id, made, made_at, from, used_from, secret) =
        (next(), next(), next(), next(), next(), next(), next());
    if (key, made, from) != ("key", "made", "from") || words.next().is_some() {
        return Err("expected \"key <id> made <time> from <time> <secret>\"");
    }
    let id = unhex(id).ok_or("the id is not 32 hexadecimal digits")?;
    let secret: Zeroizing<[u8; KEY_LENGTH]> =
        Zeroizing::new(unhex(secret).ok_or("the secret is not 64 hexadecimal digits")?);
    if *secret == [0; KEY_LENGTH] {
        return Err("the secret is zero, expected a random one");
    }
    let made_at = time(made_at).ok_or("the time after \"made\" is not Unix seconds")?;
    let used_from = time(used_from).ok_or("the time after \"from\" is not Unix seconds")?;
    let id: [u8; NAME_LENGTH] = id;
    Ok(MasterKey { id, secret, made_at, used_from })
}

/// Seconds up to the year 36812, so that sums of them stay numbers.
fn time(word: &str) -> Option<u64> {
    word.parse().ok().filter(|seconds| *seconds < 1 << 40)
}

/// The bytes that this number of hexadecimal digits stands for, in either case.
fn unhex<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    let is_whole = text.len() == 2 * LENGTH;
    (is_whole && HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut bytes).is_ok()).then_some(bytes)
}
/// A file in the same folder, with a name made of the key file's.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(ending);
    path.parent().unwrap_or(Path::new("")).join(name)
}
