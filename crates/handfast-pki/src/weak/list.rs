//! Lists of known keys, which the operator provides: they are too large for a program, and others publish them.
//!
//! In: files. Out: [`Lists`], to look up a key; or the fault in a file, with its line.
//!
//! | form | an entry |
//! |---|---|
//! | CSV, as the lists of CVE-2008-0166 are published | SHA-256 of the modulus or x coordinate, 64 hexadecimal digits, in the column that the first line names, or the first that has one |
//! | Debian's `openssl-blacklist` | the last 20 hexadecimal digits of SHA-1 over `Modulus=…` and a line feed |
//! | what [`pack`] makes | both, sorted, 10 bytes each: see `list/packed.rs` |
//!
//! # Reason for memory
//! A list is read whole, and asked by a binary search in memory of our own: 18 MB for six sizes of key with 294,912 keys each.
//! Mapped files would be shared and could be dropped by the kernel. But truncating a mapped file kills the process (SIGBUS),
//! and a disk that hangs would block the thread that serves other connections. The content stays as it was read until a
//! reload, as with every other file.
//!
//! # Why ten bytes
//! It is what `openssl-blacklist` has always had. Among two million entries a key that is on no list is taken for one of them
//! with a probability of 2·10⁻¹⁸.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};

use super::entries::{Broken, Entries, Entry};
use super::{PublicKey, Weakness};
use crate::finding::{Finding, Reason};
use crate::read::{self, FileStamp, failed, watch};

mod packed;
mod text;

/// Bytes of one file.
const SIZE_LIMIT: u64 = 4 << 30;
/// Lists of known keys; the default is none.
#[derive(Default)]
pub struct Lists {
    lists: Vec<Arc<List>>,
    fingerprint: [u8; 32],
}

/// One list.
struct List {
    file: Arc<Path>,
    stamp: FileStamp,
    entries: Entries,
}

/// Result of [`load`].
#[derive(Debug, Default)]
pub struct LoadedLists {
    /// The lists; those that cannot be used now as they were before.
    pub lists: Arc<Lists>,
    /// Findings about files that have no earlier version.
    pub findings: Vec<Finding>,
    /// Findings about files whose earlier version is used.
    pub kept: Vec<Finding>,
    /// The files read, for [`crate::load::changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: Vec<PathBuf>,
}

/// Reads lists; `before` lends those that have not changed, and those whose files cannot be used now.
///
/// **Cost**: a packed list of 300,000 entries takes about 10 ms, the same as text 100 ms.
pub fn load(files: &[PathBuf], before: Option<&Arc<Lists>>) -> LoadedLists {
    let mut loaded = LoadedLists::default();
    let mut folders = BTreeSet::new();
    let mut lists = Vec::new();
    for file in files {
        watch(file, &mut folders);
        let known = before.and_then(|before| before.lists.iter().find(|list| *list.file == **file));
        let stamp = FileStamp::of(file);
        loaded.files_read.push((file.clone(), stamp));
        match known {
            Some(known) if known.stamp == stamp => lists.push(Arc::clone(known)),
            _ => match read(file) {
                Ok((entries, stamp)) => {
                    lists.push(Arc::new(List { file: file.as_path().into(), stamp, entries }))
                }
                Err(finding) => {
                    let target = if known.is_some() { &mut loaded.kept } else { &mut loaded.findings };
                    target.push(finding);
                    lists.extend(known.cloned());
                }
            },
        }
    }
    loaded.folders = folders.into_iter().collect();
    loaded.lists = Arc::new(Lists::new(lists));
    // An unchanged list keeps its address, which callers compare.
    if let Some(before) = before.filter(|before| before.is_same_as(&loaded.lists)) {
        loaded.lists = Arc::clone(before);
    }
    loaded
}

impl Lists {
    fn new(lists: Vec<Arc<List>>) -> Self {
        let mut fingerprint = [0; 32];
        if !lists.is_empty() {
            let mut context = Context::new(&SHA256);
            // In whatever order they are named.
            let hashes: BTreeSet<_> = lists.iter().map(|list| list.entries.hash()).collect();
            hashes.iter().for_each(|hash| context.update(hash));
            fingerprint.copy_from_slice(context.finish().as_ref());
        }
        Self { lists, fingerprint }
    }

    fn is_same_as(&self, other: &Self) -> bool {
        self.lists.iter().map(Arc::as_ptr).eq(other.lists.iter().map(Arc::as_ptr))
    }

    /// Returns true if there is no list.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Each list's file, and how many entries it has.
    pub fn counts(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.lists.iter().map(|list| (&*list.file, list.entries.count()))
    }

    /// The same for the same entries: part of a ticket's policy.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Returns the weakness of a key that is on one of the lists.
    ///
    /// **Cost**: one or two hashes of the key, and a binary search in each list: some microseconds.
    pub fn find(&self, key: &PublicKey<'_>) -> Option<Weakness> {
        if self.is_empty() {
            return None;
        }
        let (sha256, blacklist) = (key.sha256(), key.openssl_blacklist());
        let has = |entries: &[Entry], entry: &Option<Entry>| {
            entry.as_ref().is_some_and(|entry| entries.binary_search(entry).is_ok())
        };
        let found = self
            .lists
            .iter()
            .find(|list| has(&list.entries.sha256, &sha256) || has(&list.entries.blacklist, &blacklist));
        found.map(|list| Weakness::Listed { list: Arc::clone(&list.file) })
    }
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.counts()).finish()
    }
}

/// Reads one list, in whichever form it is.
fn read(path: &Path) -> Result<(Entries, FileStamp), Finding> {
    let (file, stamp) = read::open(path, SIZE_LIMIT).map_err(|failure| failed(path, &failure))?;
    let unreadable = |error: io::Error| {
        Finding::error(Reason::Unreadable, path, format!("cannot be read to its end: {error}"))
    };
    let mut reader = io::BufReader::with_capacity(1 << 16, file);
    let beginning = io::BufRead::fill_buf(&mut reader).map_err(unreadable)?;
    let entries = if beginning.is_empty() {
        return Err(Finding::error(Reason::Empty, path, "is empty, expected a list of known keys"));
    } else if beginning.starts_with(packed::MAGIC) {
        packed::read(&mut reader)
    } else {
        text::read(&mut reader)
    };
    let entries = entries.map_err(|broken| match broken {
        Broken::Io(error) => unreadable(error),
        Broken::Problem { what, hint } => {
            let finding = Finding::error(Reason::BadList, path, what);
            if hint.is_empty() { finding } else { finding.hint(hint) }
        }
    })?;
    if FileStamp::of(path) != stamp {
        return Err(Finding::error(Reason::Changing, path, "changed while it was read"));
    }
    if entries.count() == 0 {
        return Err(Finding::error(Reason::BadList, path, "holds no entry, expected known keys"));
    }
    Ok((entries, stamp))
}

/// Result of [`pack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Entries by SHA-256.
    pub sha256: usize,
    /// Entries of `openssl-blacklist`.
    pub blacklist: usize,
}

/// Reason why nothing was packed.
#[derive(Debug)]
pub enum PackError {
    /// Files that are no lists.
    Lists(Vec<Finding>),
    /// The result cannot be written.
    Write {
        /// Target file.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lists(findings) => {
                for (place, finding) in findings.iter().enumerate() {
                    let hint =
                        finding.hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
                    let line = if place == 0 { "" } else { "\nerror: " };
                    write!(f, "{line}{finding}{hint}")?;
                }
                Ok(())
            }
            Self::Write { file, source } => write!(f, "write {}: {source}", file.display()),
        }
    }
}

impl std::error::Error for PackError {}

/// Makes one packed list of others, in whatever form they are. The file is written aside and takes its place whole.
///
/// **Errors**: an input that is no list, or the output cannot be written; nothing is written then.
pub fn pack(inputs: &[PathBuf], output: &Path) -> Result<Packed, PackError> {
    let mut all = Entries::default();
    let mut findings = Vec::new();
    for input in inputs {
        match read(input) {
            Ok((entries, _)) => {
                all.sha256.extend(entries.sha256);
                all.blacklist.extend(entries.blacklist);
            }
            Err(finding) => findings.push(finding),
        }
    }
    if !findings.is_empty() {
        return Err(PackError::Lists(findings));
    }
    all.sort();
    let mut aside = output.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    let write = || {
        let mut file = BufWriter::new(fs::File::create(&aside)?);
        packed::write(&all, &mut file)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        fs::rename(&aside, output)
    };
    write().map_err(|source| {
        // Nothing is left of it; that it was not there is no second error.
        let _ = fs::remove_file(&aside);
        PackError::Write { file: output.to_path_buf(), source }
    })?;
    Ok(Packed { sha256: all.sha256.len(), blacklist: all.blacklist.len() })
}

#[cfg(test)]
mod tests;
