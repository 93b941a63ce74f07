//! Finds certificates in files and folders, and says of every file that is not used why.
//!
//! In: sources and the time. Out: [`Loaded`]: certificates, findings, and what to watch for a change. Every file is
//! read once, several at a time; nothing is kept but what is served. Next: `store.rs`.
//!
//! # Folders
//! Every regular file is looked at, links followed, sub-folders not. Names mean nothing: certificates and keys are
//! paired by their public keys, so `a.pem` + `a.key`, `fullchain.pem` + `privkey.pem`, and everything in one file all
//! work. Names only help to tell a pair that does not fit from two strangers.
//!
//! `NAME.ocsp` is the OCSP response of the certificate in the file `NAME`.
//!
//! # How bad is what
//! An *error* means: do not serve this, and at a reload keep what is served. It is something that was asked for and
//! cannot be (unreadable, cut short, encrypted, without its key, a pair that does not fit, a weak key). An expired or
//! not yet valid certificate is a loud *warning*: it still serves clients that do not look, and one that ran out at
//! night must not keep all other names from starting. In a folder, a key without certificate, or the reverse, is a
//! *warning*, a file that is plainly no certificate a *note*.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::SystemTime;

use aws_lc_rs::digest::{SHA256, digest};

use crate::apart::{self, Holder};
use crate::certificate::{self, Certificate};
pub use crate::finding::{Finding, Reason, Severity};
use crate::parsed::date;
pub use crate::read::FileStamp;
use crate::read::{self, Failure};
use crate::sections::{Contents, NotPem};
use crate::weak::Lists;

mod folder;
mod inspect;
mod keep;
mod trust_file;
mod staples;

pub use inspect::{Inspected, Inspection};
pub use keep::{Before, FileProblem, Kept, Trouble, keep};
pub use staples::keep_staples;
pub(crate) use trust_file::TrustFile;

/// A place to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One PEM file that holds a chain, or a chain and its key; and the key's own file if it is apart.
    File {
        /// The chain.
        certificate: PathBuf,
        /// The key, when it is not in the same file.
        key: Option<PathBuf>,
        /// The OCSP response, which must be there; `None`: the one beside the certificate, if there is one.
        ocsp: Option<PathBuf>,
    },
    /// A folder, each file of which is looked at; not what is in its sub-folders.
    Folder(PathBuf),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Certificates that can be served, in the order of the sources; within a folder by file name.
    pub certificates: Vec<Arc<Certificate>>,
    /// What was noticed, errors first.
    pub findings: Vec<Finding>,
    /// OCSP responses that are not stapled, and why. An error among them is one of the configuration at a start; at a
    /// reload none keeps a certificate from being served.
    pub staples: Vec<Finding>,
    /// Every file and folder looked at, with its stamp then; hand it to [`changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes: those of the files, and those that links lead to. A watch sees a change sooner
    /// than [`changed`] would be asked; it may miss one behind a chain of links, so ask that too.
    pub folders: Vec<PathBuf>,
    /// Place of each certificate by the hash of its content.
    known: HashMap<Box<[u8]>, usize>,
    /// Who reads the files with keys, while they are read; `None`: this process.
    holder: Option<Arc<dyn Holder>>,
}

impl Loaded {
    /// Whether any finding is an error, so that this must not be served.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().chain(&self.staples).any(|finding| finding.severity == Severity::Error)
    }

    /// Whether looking again shortly, 100 ms say, may give a better result: something is wrong that a half-written file
    /// explains.
    pub fn may_be_half_written(&self) -> bool {
        self.findings
            .iter()
            .chain(&self.staples)
            .any(|finding| finding.severity != Severity::Note && finding.may_be_half_written())
    }

    /// Adds a certificate unless the same was found before: compared by content, so that a file named twice, or linked
    /// under two names, is served once.
    fn add(&mut self, certificate: Certificate) {
        let content = digest(&SHA256, &certificate.chain()[0]).as_ref().into();
        if let Some(known) = self.known.get(&content) {
            let known = self.certificates[*known].file().display();
            let message = format!("the same certificate as in {known}; that one is used");
            self.findings.push(Finding::note(Reason::Duplicate, certificate.file(), message));
            return;
        }
        self.known.insert(content, self.certificates.len());
        self.certificates.push(Arc::new(certificate));
    }
}

/// Reads every source; keys on the lists `known_keys` are refused.
///
/// **Cost**: CPU time of about 60 µs for each ECDSA pair of files and 260 µs for each RSA-2048 pair (aws-lc checks the
/// key's arithmetic), and 40 µs for a signature by an issuer that is in the same file, spread over the CPUs; at most 1 MiB of memory for each file being read.
pub fn load(sources: &[Source], known_keys: &Lists, now: SystemTime) -> Loaded {
    load_from(sources, known_keys, now, None)
}

/// As [`load`]; where there is a `holder`, it reads every file of certificates and keys, and no private key comes here.
pub fn load_from(
    sources: &[Source],
    known_keys: &Lists,
    now: SystemTime,
    holder: Option<&Arc<dyn Holder>>,
) -> Loaded {
    let now = unix_seconds(now);
    let mut loaded = Loaded { holder: holder.cloned(), ..Loaded::default() };
    let mut watched = BTreeSet::new();
    for source in sources {
        match source {
            Source::File { certificate, key, ocsp } => {
                file(certificate, key.as_deref(), ocsp.as_deref(), (known_keys, now), &mut loaded);
                watch(certificate, &mut watched);
                key.iter().chain(ocsp).for_each(|file| watch(file, &mut watched));
            }
            Source::Folder(path) => {
                folder::load(path, (known_keys, now), &mut loaded);
                watched.insert(path.clone());
                watched.extend(fs::canonicalize(path));
            }
        }
    }
    loaded.known = HashMap::new();
    loaded.holder = None;
    loaded.folders = watched.into_iter().collect();
    loaded.findings.sort_by_key(|finding| finding.severity);
    loaded
}

/// Puts the certificates of `before` in the place of those of `loaded` that are the same.
///
/// What is served on then stays where it is in memory, and what was read for nothing is given back in one piece. Without
/// it the old and the new ones share pages that neither can give back alone: after a few reloads of 10,000 certificates
/// the process had grown by half.
pub fn keep_known(loaded: &mut [Arc<Certificate>], before: &[Arc<Certificate>]) {
    let known: HashMap<_, _> =
        before.iter().map(|certificate| (&certificate.chain()[0], certificate)).collect();
    for certificate in loaded {
        if let Some(known) = known.get(&certificate.chain()[0]).filter(|known| certificate.is_same_as(known))
        {
            *certificate = Arc::clone(known);
        }
    }
}

/// Whether any of the files is not as it was when it was read. Of one that cannot be seen here the `holder` is asked, who may see
/// more than this process; one of which it says nothing now has not changed as far as is known.
///
/// **Cost**: one `stat` for each; nothing is read.
pub fn changed(files_read: &[(PathBuf, FileStamp)], holder: Option<&dyn Holder>) -> bool {
    files_read.iter().any(|(path, stamp)| {
        let now = FileStamp::of(path);
        let hidden_from = holder.filter(|_| !now.is_there());
        now != *stamp
            && hidden_from
                .is_none_or(|holder| apart::stamp(holder, path).is_some_and(|there| there != *stamp))
    })
}

/// Seconds of Unix time; certificates do not know fractions.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

/// The folder in which `path` would be seen to change, and the one that its link leads to.
pub(crate) fn watch(path: &Path, folders: &mut BTreeSet<PathBuf>) {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_path_buf),
    };
    folders.extend(parent(path));
    folders.extend(fs::canonicalize(path).ok().and_then(|real| parent(&real)));
}

/// A file that was looked at.
pub(crate) struct Looked {
    pub(crate) path: PathBuf,
    pub(crate) stamp: FileStamp,
    pub(crate) mode: u32,
    /// `Err` when it could not be read; the contents' findings may still hold errors.
    pub(crate) contents: Result<Contents, Failure>,
}

impl Looked {
    /// Reads it here, or has the `holder` of the keys read it.
    fn by(holder: Option<&Arc<dyn Holder>>, path: &Path) -> Self {
        let looked = holder.map_or_else(|| Self::at(path), |holder| apart::look(holder, path));
        Self { contents: looked.contents.map(Contents::check_signatures), ..looked }
    }

    pub(crate) fn at(path: &Path) -> Self {
        let path = path.to_path_buf();
        match read::whole_or_stamp(&path, read::SIZE_LIMIT) {
            Ok(content) => {
                let contents = Ok(Contents::of(&content.bytes, &path));
                Self { path, stamp: content.stamp, mode: content.mode, contents }
            }
            Err((failure, stamp)) => Self { path, stamp, mode: 0, contents: Err(failure) },
        }
    }

    /// A warning when the file holds a key and others may read it.
    fn permissions(&self) -> Option<Finding> {
        let holds_key = self.contents.as_ref().is_ok_and(|contents| !contents.keys.is_empty());
        let open = self.mode & 0o066;
        if !holds_key || open == 0 {
            return None;
        }
        let who = if open & 0o006 != 0 { "everybody on this machine" } else { "its group" };
        let message = format!("the key is open to {who} (mode {:04o}), expected 0600", self.mode);
        let hint = format!("chmod 600 {}", self.path.display());
        Some(Finding::warning(Reason::Permissions, &self.path, message).hint(hint))
    }
}

/// What to say of a file that could not be read.
pub(crate) fn failed(path: &Path, failure: &Failure) -> Finding {
    match failure {
        Failure::Missing => Finding::error(Reason::Missing, path, "is not there"),
        Failure::Refused(error) => {
            let finding = Finding::error(Reason::Unreadable, path, format!("cannot be read: {error}"));
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => finding.hint(
                    "let the user this program runs as read it: see ls -l of it and of each folder above",
                ),
                _ => finding,
            }
        }
        Failure::NotAFile(kind) => {
            let finding = Finding::error(Reason::NotAFile, path, format!("is {kind}, expected a file"));
            match *kind {
                "a folder" => finding.hint("name it as a folder of certificates"),
                _ => finding,
            }
        }
        Failure::TooLarge(size) => Finding::error(
            Reason::TooLarge,
            path,
            format!("has {size} bytes, expected at most {}: it is no certificate", read::SIZE_LIMIT),
        ),
        Failure::Changing => Finding::error(Reason::Changing, path, "changed each time while it was read"),
    }
}

/// Reads every path, several at a time, and gives the results in the order of the paths.
fn look_at_all(paths: &[PathBuf], holder: Option<&Arc<dyn Holder>>) -> Vec<Looked> {
    // A thread costs about 50 µs, a pair of files about 100.
    let threads =
        thread::available_parallelism().map_or(1, |count| count.get()).min(16).min(paths.len() / 16 + 1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut looked = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(index) else { return looked };
            looked.push((index, Looked::by(holder, path)));
        }
    };
    let mut looked = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .filter_map(|_| {
                thread::Builder::new().name("certificates".to_owned()).spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut looked = work();
        for helper in helpers {
            match helper.join() {
                Ok(more) => looked.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        looked
    });
    looked.sort_by_key(|(index, _)| *index);
    looked.into_iter().map(|(_, looked)| looked).collect()
}

/// One certificate that the configuration names by its file.
fn file(
    certificate: &Path,
    key: Option<&Path>,
    ocsp: Option<&Path>,
    (known_keys, now): (&Lists, i64),
    loaded: &mut Loaded,
) {
    let mut chain = take(certificate, loaded);
    let keys = match key {
        Some(key) if key != certificate => take(key, loaded).map(|contents| contents.keys),
        _ => chain.as_mut().map(|contents| std::mem::take(&mut contents.keys)),
    };
    // A file with an error has said so; pairing what is left of it would only say it less well.
    let (Some(chain), Some(keys)) = (chain, keys) else { return };
    let Loaded { findings, .. } = loaded;
    let made =
        certificate::with_one_of(chain.certificates, keys, certificate, key, (known_keys, now), findings);
    if let Some(mut made) = made {
        let beside = staples::beside(certificate);
        staples::attach(&mut made, ocsp.unwrap_or(&beside), ocsp.is_some(), now, loaded);
        loaded.add(made);
    }
}

/// Reads one named file; `None` when it has an error, which is then among the findings.
fn take(path: &Path, loaded: &mut Loaded) -> Option<Contents> {
    let looked = Looked::by(loaded.holder.as_ref(), path);
    loaded.files_read.push((looked.path.clone(), looked.stamp));
    loaded.findings.extend(looked.permissions());
    let mut contents = match looked.contents {
        Ok(contents) => contents,
        Err(failure) => {
            loaded.findings.push(failed(path, &failure));
            return None;
        }
    };
    if let Some(not_pem) = contents.not_pem {
        let (words, hint) = not_pem.words(path);
        let finding = Finding::error(Reason::NotPem, path, words);
        loaded.findings.push(match hint {
            Some(hint) => finding.hint(hint),
            None => finding,
        });
        return None;
    }
    let findings = std::mem::take(&mut contents.findings);
    let is_broken = findings.iter().any(|finding| finding.severity == Severity::Error);
    loaded.findings.extend(findings);
    (!is_broken).then_some(contents)
}

#[cfg(test)]
mod tests;
