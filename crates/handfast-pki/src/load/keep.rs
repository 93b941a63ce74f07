//! Keeps old certificates at a reload if their files are broken or were removed.
//!
//! In: the loaded state, and the state before. Out: the loaded state with the old certificates of unusable
//! files, and a [`FileProblem`] for each. One bad file does not affect the others. And no name gets
//! another name's certificate while a tool replaces the file by removing it first and writing it then.
//!
//! | the file of a certificate that was served | then |
//! |---|---|
//! | holds another valid one, or has another name now | that one is served |
//! | is there and cannot be used (cut short, without its key, expired, …) | the old one is served until it is fixed |
//! | is named by the configuration itself and gone, or the whole folder is | the same |
//! | was removed from a folder | the old one is served for a limited time |
//! | was removed, and others cover its names with the same kind of key | it is no longer served: it was replaced |
//! | is no longer in the configuration | it is no longer served |
//!
//! A bad file that was not used before is ignored in a folder that was served before; when the configuration
//! names it, it stays an error.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::loaded::{Loaded, Source};
use crate::certificate::Certificate;
use crate::finding::{Finding, Reason, Severity};
use crate::read::FileStamp;
use crate::unix_time::{date, unix_seconds};

/// Problem with a file that a certificate was, or should be, served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// It is configured and unusable: until it is fixed.
    Broken,
    /// It was removed from its folder: after a while its certificate is served no more.
    Removed,
    /// An OCSP response that cannot be used: its certificate is served, and the response of before as long as it is good.
    Staple,
}

/// A file that a reload could not use, while everything else was reloaded.
#[derive(Clone, Debug)]
pub struct FileProblem {
    /// The file.
    pub file: PathBuf,
    /// Kind of problem.
    pub kind: ProblemKind,
    /// Description of the problem, without the file's name in front.
    pub what: String,
    /// The cure, when there is one.
    pub hint: Option<String>,
    /// The old certificate, which stays in use; `None`: there was none.
    pub kept: Option<Arc<Certificate>>,
    /// Time when it was noticed, in Unix seconds.
    pub since: i64,
}

impl FileProblem {
    /// Returns true if it was known before, so that there is nothing new to wait for or to report.
    pub fn is_known(&self, before: &[Self]) -> bool {
        before.iter().any(|known| known.is_same(self))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.file == other.file && self.kind == other.kind && self.what == other.what
    }
}

/// State that was served before.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// Sources of its certificates.
    pub sources: &'a [Source],
    /// Its certificates.
    pub certificates: &'a [Arc<Certificate>],
    /// Problems with their files.
    pub problems: &'a [FileProblem],
}

/// Result of [`keep`].
#[derive(Debug, Default)]
pub struct KeepResult {
    /// Files that are not used as they are.
    pub problems: Vec<FileProblem>,
    /// Certificates whose files were removed long enough ago: no longer served.
    pub dropped: Vec<Arc<Certificate>>,
}

/// Puts certificates of `before` into `loaded` where their files cannot be used now. A removed one is kept for `removed`.
///
/// Findings that become problems are taken out of `loaded`; errors that remain are those of the configuration.
/// **Cost**: some look-ups for each certificate; nothing is read.
pub fn keep(
    loaded: &mut Loaded,
    sources: &[Source],
    before: Before<'_>,
    removed: Duration,
    now: SystemTime,
) -> KeepResult {
    let now = unix_seconds(now);
    let standing: Vec<&Source> = sources.iter().filter(|source| before.sources.contains(source)).collect();
    let known: HashMap<&Path, &FileProblem> =
        before.problems.iter().map(|problem| (problem.file.as_path(), problem)).collect();
    take_newly_invalid(loaded, before.certificates, now);
    let mut kept = missing(loaded, &standing, before.certificates, now);
    take_findings(loaded, sources, &standing, now, &mut kept.problems);
    for problem in &mut kept.problems {
        if let Some(known) = known.get(problem.file.as_path()).filter(|known| known.is_same(problem)) {
            problem.since = known.since;
        }
    }
    let removed = i64::try_from(removed.as_secs()).unwrap_or(i64::MAX);
    kept.problems.retain(|problem| {
        let is_over = problem.kind == ProblemKind::Removed && now.saturating_sub(problem.since) >= removed;
        kept.dropped.extend(problem.kept.iter().filter(|_| is_over).map(Arc::clone));
        !is_over
    });
    loaded.certificates.extend(kept.problems.iter().filter_map(|problem| problem.kept.clone()));
    in_order(&mut loaded.certificates, sources);
    kept
}

/// A problem for each certificate that was served and cannot be served from its file now.
fn missing(loaded: &Loaded, standing: &[&Source], before: &[Arc<Certificate>], now: i64) -> KeepResult {
    let seen = Seen::of(loaded);
    let mut kept = KeepResult::default();
    for certificate in before {
        let Some(file) = certificate.files().first() else { continue };
        if !standing.iter().any(|source| source.is_of(certificate)) || seen.goes_on(certificate) {
            continue;
        }
        let finding = seen.finding_for(certificate);
        let (kind, what) = match finding {
            Some(finding) => (ProblemKind::Broken, finding.message.clone()),
            None if seen.is_there(file) => {
                (ProblemKind::Broken, "holds no certificate with its key any more".to_owned())
            }
            None if seen.covers(certificate) => continue,
            None => (ProblemKind::Removed, "was removed".to_owned()),
        };
        kept.problems.push(FileProblem {
            file: finding.map_or(file, |finding| &finding.file).clone(),
            kind,
            what,
            hint: finding.and_then(|finding| finding.hint.clone()),
            kept: Some(Arc::clone(certificate)),
            since: now,
        });
    }
    kept
}

impl Source {
    /// Returns true if `certificate` was read from this source.
    fn is_of(&self, certificate: &Certificate) -> bool {
        match (self, certificate.files()) {
            (Self::Folder(folder), [file, ..]) => file.parent() == Some(folder),
            (Self::File { certificate, key, .. }, [file, rest @ ..]) => {
                let key = key.as_ref().filter(|key| *key != certificate);
                certificate == file && key == rest.first()
            }
            (Self::Awaited { file: awaited, .. }, [file, ..]) => awaited == file,
            (_, []) => false,
        }
    }

    /// The files that it names.
    fn named(&self) -> Vec<&Path> {
        match self {
            Self::Folder(_) => Vec::new(),
            Self::Awaited { file, .. } => vec![file],
            Self::File { certificate, key, .. } => {
                [Some(certificate), key.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect()
            }
        }
    }

    /// Returns true if `file` is this source, or in it.
    fn holds(&self, file: &Path) -> bool {
        match self {
            Self::Folder(folder) => folder == file || file.parent() == Some(folder),
            Self::Awaited { file: awaited, .. } => awaited == file,
            Self::File { certificate, key, .. } => certificate == file || key.as_deref() == Some(file),
        }
    }
}

/// Index of the loaded files, to look up each earlier certificate.
struct Seen<'a> {
    /// Files that are there, and whether what is in them is served.
    files: HashMap<&'a Path, bool>,
    leaves: HashSet<&'a [u8]>,
    /// Names by kind of key.
    names: HashSet<(&'static str, &'a str)>,
    findings: HashMap<&'a Path, Vec<&'a Finding>>,
}

impl<'a> Seen<'a> {
    fn of(loaded: &'a Loaded) -> Self {
        let is_there = |read: &&'a (PathBuf, FileStamp)| read.1.is_there();
        let read = loaded.files_read.iter().filter(is_there).map(|(path, _)| (path.as_path(), false));
        let mut files: HashMap<_, _> = read.collect();
        let mut findings: HashMap<_, Vec<_>> = HashMap::new();
        for finding in &loaded.findings {
            findings.entry(finding.file.as_path()).or_default().push(finding);
            if finding.reason == Reason::Duplicate {
                // Its content is served, from another file.
                files.insert(finding.file.as_path(), true);
            }
        }
        let (mut leaves, mut names) = (HashSet::new(), HashSet::new());
        for certificate in &loaded.certificates {
            files.extend(certificate.files().first().map(|file| (file.as_path(), true)));
            leaves.insert(certificate.chain()[0].as_ref());
            names.extend(certificate.dns_names().iter().map(|name| (certificate.kind(), &**name)));
        }
        Self { files, leaves, names, findings }
    }

    /// Returns true if it, or the present content of its file, is served.
    fn goes_on(&self, certificate: &Certificate) -> bool {
        let file = certificate.files().first();
        file.is_some_and(|file| self.files.get(file.as_path()) == Some(&true))
            || self.leaves.contains(certificate.chain()[0].as_ref())
    }

    fn is_there(&self, file: &Path) -> bool {
        self.files.contains_key(file)
    }

    /// Returns true if each of its names has a certificate with the same kind of key.
    fn covers(&self, certificate: &Certificate) -> bool {
        let names = certificate.dns_names();
        !names.is_empty() && names.iter().all(|name| self.names.contains(&(certificate.kind(), &**name)))
    }

    /// Returns the finding about its files: first an error with one of them, then one with their folder, then one that
    /// is no error alone (a certificate without its key).
    fn finding_for(&self, certificate: &Certificate) -> Option<&'a Finding> {
        let of = |file: &Path| self.findings.get(file).into_iter().flatten().copied();
        let is_error = |finding: &&Finding| finding.severity == Severity::Error;
        let chain = certificate.files().first()?;
        let files = || certificate.files().iter().map(PathBuf::as_path);
        files()
            .chain(chain.parent())
            .find_map(|file| of(file).find(is_error))
            .or_else(|| of(chain).find(|finding| finding.reason == Reason::NoKey))
    }
}

/// Turns certificates that are not valid now and were not served before into errors: at a start they are a warning,
/// because there is nothing better; a reload replaces no working ones by them. It does replace those that do not work either.
fn take_newly_invalid(loaded: &mut Loaded, before: &[Arc<Certificate>], now: i64) {
    let Loaded { certificates, findings, .. } = loaded;
    certificates.retain(|certificate| {
        let is_known = || before.iter().any(|known| known.chain().first() == certificate.chain().first());
        if certificate.is_valid_at(now) || is_known() || replaces_none_that_is_valid(certificate, before, now)
        {
            return true;
        }
        let (reason, how) = match certificate.not_after() < now {
            true => (Reason::Expired, format!("expired on {}", date(certificate.not_after()))),
            false => (Reason::NotYetValid, format!("is valid only from {}", date(certificate.not_before()))),
        };
        let message = format!(
            "the certificate of {:?} {how}; a reload does not replace what is served by that",
            certificate.subject()
        );
        let file = certificate.file();
        // Said once, as an error.
        findings.retain(|finding| finding.file != file || finding.reason != reason);
        findings.push(Finding::error(reason, file, message));
        false
    });
}

/// Returns true if `before` has certificates of the same file or for the same names, none of which is valid now.
fn replaces_none_that_is_valid(certificate: &Certificate, before: &[Arc<Certificate>], now: i64) -> bool {
    let has_its_names =
        |known: &Certificate| !known.dns_names().is_empty() && known.dns_names() == certificate.dns_names();
    let is_replaced = |known: &&Arc<Certificate>| known.file() == certificate.file() || has_its_names(known);
    let mut replaced = before.iter().filter(is_replaced).peekable();
    replaced.peek().is_some() && replaced.all(|known| !known.is_valid_at(now))
}

/// Takes findings that become problems out of what was loaded. Adds a problem for each bad file that no certificate was
/// served from, in a folder that was served before. A file that the configuration itself names stays an error.
fn take_findings(
    loaded: &mut Loaded,
    sources: &[Source],
    standing: &[&Source],
    now: i64,
    problems: &mut Vec<FileProblem>,
) {
    let named: HashSet<&Path> = sources.iter().flat_map(Source::named).collect();
    let is_in_folder = |file: &Path| {
        let is_folder =
            |source: &&&Source| matches!(source, Source::Folder(folder) if file.parent() == Some(folder));
        !named.contains(file) && standing.iter().any(|source| is_folder(&source))
    };
    let kept = problems.iter().filter_map(|problem| problem.kept.as_ref());
    let covered = kept.flat_map(|kept| kept.files().iter().cloned());
    let covered: HashSet<PathBuf> =
        covered.chain(problems.iter().map(|problem| problem.file.clone())).collect();
    let reported: HashSet<(PathBuf, String)> =
        problems.iter().map(|problem| (problem.file.clone(), problem.what.clone())).collect();
    for finding in std::mem::take(&mut loaded.findings) {
        let is_error = finding.severity == Severity::Error;
        if reported.contains(&(finding.file.clone(), finding.message.clone())) {
            continue;
        }
        if !is_error || !(covered.contains(&finding.file) || is_in_folder(&finding.file)) {
            loaded.findings.push(finding);
        } else if !covered.contains(&finding.file) {
            let Finding { file, message: what, hint, .. } = finding;
            let kind = ProblemKind::Broken;
            problems.push(FileProblem { file, kind, what, hint, kept: None, since: now });
        }
    }
}

/// The order in which `load` gives them: by source, within a folder by name. The first is the default, so one that is kept
/// keeps its place.
fn in_order(certificates: &mut [Arc<Certificate>], sources: &[Source]) {
    let place = |certificate: &Arc<Certificate>| {
        let file = certificate.files().first();
        let source = sources.iter().position(|source| file.is_some_and(|file| source.holds(file)));
        (source, file.cloned())
    };
    certificates.sort_by_cached_key(place);
}

#[cfg(test)]
mod tests;
