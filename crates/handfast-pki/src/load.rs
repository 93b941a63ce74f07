//! Finds certificates in files and folders, and reports why a file is not used.
//!
//! In: sources and the time. Out: [`Loaded`]: certificates, findings, and what to watch for a change. Every file is
//! read once, several at a time; only certificates to serve are kept. Next: `store.rs`.
//!
//! # Folders
//! Every regular file is read, also through links; sub-folders are not. Names have no meaning: certificates and keys are
//! paired by their public keys, so `a.pem` + `a.key`, `fullchain.pem` + `privkey.pem`, and everything in one file all
//! work. Names only help to distinguish a mismatched pair from two unrelated files.
//!
//! `NAME.ocsp` is the OCSP response of the certificate in the file `NAME`.
//!
//! # How bad is what
//! An *error* means: do not serve this, and at a reload keep the old state. A requested file cannot
//! be used (unreadable, truncated, encrypted, without its key, a mismatched pair, a weak key). An expired or
//! not yet valid certificate is a *warning*: some clients do not check dates, and one certificate that expired at
//! night must not prevent a start with all other names. In a folder, a key without certificate, or the reverse, is a
//! *warning*, a file that is plainly no certificate a *note*.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::apart::{self, Holder, KeyId};
use crate::certificate::{self, Certificate};
use crate::finding::{Severity, has_error};
pub use crate::read::FileStamp;
use crate::read::{failed, watch};
use crate::sections::Contents;
use crate::unix_time::unix_seconds;
use crate::weak::Lists;

mod certificate_kind;
mod folder;
mod inspect;
mod keep;
mod loaded;
mod inspect_files;
mod inspected_file;
mod trust_file;
mod staples;

pub use certificate_kind::certificate_kind;
pub use inspect::{Inspected, Inspection};
pub(crate) use inspected_file::InspectedFile;
pub use keep::{Before, FileProblem, KeepResult, ProblemKind, keep};
pub(crate) use loaded::key_file_of;
pub use loaded::{Loaded, Source};
pub use staples::keep_staples;
pub use trust_file::TrustFile;

/// Reads every source; keys on the lists `known_keys` are refused.
///
/// **Cost**: CPU time of about 60 µs for each ECDSA pair of files and 260 µs for each RSA-2048 pair (aws-lc checks the
/// key's arithmetic), spread over the CPUs. A signature by an issuer in the same file takes 40 µs. Each file that is being
/// read takes at most 1 MiB of memory.
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
            Source::Awaited { file, keys } => {
                awaited(file, keys.as_deref(), (known_keys, now), &mut loaded);
                watch(file, &mut watched);
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
/// Certificates in use then keep their place in memory, and the memory of the new copies is released in one piece.
/// Without it the old and the new ones share pages that neither can give back alone: after a few reloads of 10,000
/// certificates the process had grown by half.
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

/// Returns true if any of the files has changed since it was read. Where this process cannot see a file, it queries the
/// `holder`, which may have more permissions. A file for which the holder returns nothing counts as unchanged.
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
    // A file with an error has its finding; pairing the rest of it would only repeat that less precisely.
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

/// Loads one certificate that might not exist yet. The next order repairs a problem with its file.
fn awaited(path: &Path, keys: Option<&Path>, by: (&Lists, i64), loaded: &mut Loaded) {
    let stamp = FileStamp::of(path);
    if !stamp.is_there() {
        loaded.files_read.push((path.to_path_buf(), stamp));
        return;
    }
    let before = loaded.findings.len();
    with_key_elsewhere(path, keys, by, loaded);
    for finding in &mut loaded.findings[before..] {
        finding.severity = finding.severity.max(Severity::Warning);
    }
}

/// One file that may hold a chain alone: then the name of the key's own file follows from the certificate.
fn with_key_elsewhere(path: &Path, keys: Option<&Path>, by: (&Lists, i64), loaded: &mut Loaded) {
    let Some(mut chain) = take(path, loaded) else { return };
    let mut found = std::mem::take(&mut chain.keys);
    let mut key_file = None;
    if found.is_empty()
        && let (Some(keys), Some(leaf)) = (keys, chain.certificates.first())
    {
        let named = key_file_of(keys, &KeyId::of(&leaf.public_key).file_part());
        let Some(contents) = take(&named, loaded) else { return };
        found = contents.keys;
        key_file = Some(named);
    }
    let findings = &mut loaded.findings;
    let made = certificate::with_one_of(chain.certificates, found, path, key_file.as_deref(), by, findings);
    if let Some(mut made) = made {
        staples::attach(&mut made, &staples::beside(path), false, by.1, loaded);
        loaded.add(made);
    }
}

/// Reads one named file; `None` when it has an error, which is then among the findings.
fn take(path: &Path, loaded: &mut Loaded) -> Option<Contents> {
    let looked = inspect_files::inspect_file(loaded.holder.as_ref(), path);
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
        loaded.findings.push(not_pem.finding(path));
        return None;
    }
    let findings = std::mem::take(&mut contents.findings);
    let is_broken = has_error(&findings);
    loaded.findings.extend(findings);
    (!is_broken).then_some(contents)
}

#[cfg(test)]
mod tests;
