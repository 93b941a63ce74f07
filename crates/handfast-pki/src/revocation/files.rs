//! The files and folders that revocation lists are in.
//!
//! In: paths, the CAs, and what was read before. Out: the lists that are in force, with a finding for everything that an
//! operator needs. A file that has not changed is not read again; the earlier lists of a broken or missing file stay in
//! force.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls_pki_types::pem::SectionKind;

use super::list::{Fault, List, Signer};
use crate::finding::{Finding, Reason, Severity, has_error};
use crate::outline::Outline;
use crate::parsed::Parsed;
use crate::pem;
use crate::read::{self, Failure, FileStamp, failed, watch};
use crate::unix_time::date;

/// Bytes of one file: a list of five million entries has about this many in DER. It is in memory while it is read.
const SIZE_LIMIT: u64 = 256 << 20;
/// Files of one folder.
const FILES: usize = 10_000;
/// Point from which the next list is late: a quarter of the interval is left, and at most a week.
const LATE: (i64, i64) = (4, 7 * 86_400);

/// Contents of one file.
#[derive(Debug)]
struct OfFile {
    file: PathBuf,
    stamp: FileStamp,
    /// A hash over the CAs that its lists were checked against.
    authorities: [u8; 32],
    lists: Vec<Arc<List>>,
    findings: Vec<Finding>,
}

/// Lists that were read before: by the state before, or for another service of this one.
#[derive(Clone, Debug, Default)]
pub struct KnownLists(Vec<Arc<OfFile>>);

impl KnownLists {
    /// Adds what a rule was made of.
    pub fn add(&mut self, others: &Self) {
        // The last one that was read of a file is found first.
        self.0.splice(0..0, others.0.iter().cloned());
    }

    /// Returns true if both share the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

/// Result of [`read`].
#[derive(Debug, Default)]
pub struct Read {
    /// The lists in force: of each CA the newest.
    pub lists: Vec<Arc<List>>,
    /// Findings about files that are used.
    pub findings: Vec<Finding>,
    /// Findings about files that are not used and whose old lists stay in force.
    pub left_out: Vec<Finding>,
    /// To be lent to the next reading.
    pub known: KnownLists,
    /// The files read, for [`crate::load::changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: BTreeSet<PathBuf>,
    /// Next time when the reports change, in seconds of Unix time: a list becomes late or expires.
    pub attention_at: Option<i64>,
}

/// CAs that may sign.
struct Checks<'a> {
    signers: Vec<Signer<'a>>,
    authorities: [u8; 32],
}

/// Reads the lists in `sources`, files and folders, by `authorities`.
pub fn read(sources: &[PathBuf], authorities: &[&Parsed], known: &KnownLists, now: i64) -> Read {
    let checks = Checks::new(authorities);
    let mut found = Read::default();
    for source in sources {
        watch(source, &mut found.folders);
        match fs::metadata(source).is_ok_and(|metadata| metadata.is_dir()) {
            true => found.folder(source, &checks, known),
            false => found.file(source, true, &checks, known),
        }
    }
    found.keep_newest();
    found.report_times(now);
    found
}

impl<'a> Checks<'a> {
    fn new(authorities: &[&'a Parsed]) -> Self {
        let mut context = Context::new(&SHA256);
        let mut signers = Vec::with_capacity(authorities.len());
        for authority in authorities {
            context.update(&authority.der);
            if let Some(outline) = Outline::read(&authority.der) {
                let may_revoke = outline.may_revoke.unwrap_or(true);
                signers.push(Signer { subject: outline.subject, key: outline.key, may_revoke });
            }
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        Self { signers, authorities: hash }
    }

    /// Returns true if a list that was read before may stay in force.
    fn is_by_one(&self, list: &List) -> bool {
        let has_name = |signer: &&Signer<'_>| *signer.subject == *list.issuer;
        let mut signers = self.signers.iter().filter(has_name).peekable();
        match list.is_unverified() {
            // Its CA is trusted by now: the file has to be read again.
            true => signers.peek().is_none(),
            false => signers.any(|signer| *signer.key == *list.key),
        }
    }
}

impl Read {
    fn folder(&mut self, folder: &Path, checks: &Checks<'_>, known: &KnownLists) {
        self.folders.insert(folder.to_path_buf());
        let mut files: Vec<PathBuf> = match read::entries(folder, &mut self.files_read) {
            Ok(entries) => entries
                .iter()
                .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
                .map(fs::DirEntry::path)
                .filter(|file| !file.is_dir())
                .collect(),
            Err(error) => {
                let message = format!("cannot be listed: {error}");
                self.findings.push(Finding::error(Reason::Unreadable, folder, message));
                return;
            }
        };
        if files.len() > FILES {
            let message = format!("has {} files, expected {FILES} revocation lists at most", files.len());
            self.findings.push(Finding::error(Reason::TooLarge, folder, message));
            return;
        }
        files.sort();
        for file in &files {
            self.file(file, false, checks, known);
        }
        self.keep_removed(folder, &files, checks, known);
        if self.known.0.is_empty() && !self.findings.iter().any(|finding| finding.file.starts_with(folder)) {
            let finding = Finding::warning(Reason::NoRevocationList, folder, "holds no revocation list");
            self.findings.push(finding.hint("put the CAs' lists there, in PEM or DER"));
        }
    }

    /// The lists of a file that was in the folder and no longer is go on: it is being replaced, or was lost; and without
    /// them revoked clients would be let in, or all of them refused.
    fn keep_removed(&mut self, folder: &Path, files: &[PathBuf], checks: &Checks<'_>, known: &KnownLists) {
        for before in &known.0 {
            let is_known = |file: &Path| self.known.0.iter().any(|known| known.file == file);
            if before.file.parent() != Some(folder) || files.contains(&before.file) || is_known(&before.file)
            {
                continue;
            }
            let is_replaced = |list: &Arc<List>| {
                let mut others = self.known.0.iter().flat_map(|known| &known.lists);
                others.any(|other| other.is_alike(list) && other.this_update >= list.this_update)
            };
            let kept: Vec<_> = before
                .lists
                .iter()
                .filter(|list| checks.is_by_one(list) && !is_replaced(list))
                .cloned()
                .collect();
            if !kept.is_empty() {
                let finding = Finding::error(Reason::Missing, &before.file, "was removed");
                self.left_out.push(finding.hint(
                    "put the CA's current list there; to do without it, take the CA out of `ca` or `crl` out of the configuration",
                ));
                self.keep(before, kept);
            }
        }
    }

    fn keep(&mut self, before: &OfFile, lists: Vec<Arc<List>>) {
        let OfFile { file, stamp, authorities, .. } = before;
        let (file, stamp, authorities) = (file.clone(), *stamp, *authorities);
        self.known.0.push(Arc::new(OfFile { file, stamp, authorities, lists, findings: Vec::new() }));
    }

    /// One file; `is_named`: in the configuration itself.
    fn file(&mut self, file: &Path, is_named: bool, checks: &Checks<'_>, known: &KnownLists) {
        let stamp = FileStamp::of(file);
        let same = known.0.iter().find(|known| {
            known.file == file && known.stamp == stamp && known.authorities == checks.authorities
        });
        // Lists that were kept of a file that cannot be used have the stamp of the file that they were read from.
        if let Some(same) = same.filter(|same| !same.lists.is_empty()) {
            self.files_read.push((file.to_path_buf(), stamp));
            self.findings.extend(same.findings.iter().cloned());
            self.known.0.push(Arc::clone(same));
            return;
        }
        let of_file = OfFile::read(file, is_named, checks);
        self.files_read.push((file.to_path_buf(), of_file.stamp));
        let before = known.0.iter().find(|known| known.file == file);
        let kept: Vec<_> = before
            .map_or(&[][..], |before| &before.lists)
            .iter()
            .filter(|list| checks.is_by_one(list))
            .cloned()
            .collect();
        // A file that had a list of a trusted CA and has none now, or another CA's, is broken too.
        let has_verified = |lists: &[Arc<List>]| lists.iter().any(|list| !list.is_unverified());
        let is_broken = of_file.lists.is_empty()
            || (has_verified(&kept) && !has_verified(&of_file.lists))
            || has_error(&of_file.findings);
        let older = of_file.lists.iter().find_map(|list| {
            let newer =
                kept.iter().find(|kept| kept.is_alike(list) && kept.this_update > list.this_update)?;
            Some(older(file, list, newer))
        });
        match before.filter(|_| (is_broken && !kept.is_empty()) || older.is_some()) {
            Some(before) => {
                self.left_out.extend(of_file.findings);
                self.left_out.extend(older);
                self.keep(before, kept);
            }
            None => {
                self.findings.extend(of_file.findings.iter().cloned());
                self.known.0.push(Arc::new(of_file));
            }
        }
    }

    /// Of several lists of one CA about the same certificates the newest is in force.
    fn keep_newest(&mut self) {
        for known in &self.known.0 {
            for list in &known.lists {
                match self.lists.iter_mut().find(|other| other.is_alike(list)) {
                    Some(other) => {
                        if other.this_update < list.this_update {
                            *other = Arc::clone(list);
                        }
                    }
                    None => self.lists.push(Arc::clone(list)),
                }
            }
        }
        for known in &self.known.0 {
            for list in &known.lists {
                let is_older =
                    |other: &Arc<List>| other.is_alike(list) && other.this_update > list.this_update;
                if self.lists.iter().any(is_older) {
                    let message = format!(
                        "the revocation list of {:?} of {} is not used: there is a newer one",
                        list.name,
                        date(list.this_update)
                    );
                    self.findings.push(Finding::note(Reason::Shadowed, &known.file, message));
                }
            }
        }
    }

    /// Reports problems with dates.
    fn report_times(&mut self, now: i64) {
        for list in &self.lists {
            let holds = |known: &&Arc<OfFile>| known.lists.iter().any(|one| Arc::ptr_eq(one, list));
            let Some(file) = self.known.0.iter().find(holds).map(|known| known.file.clone()) else {
                continue;
            };
            let name = &list.name;
            if list.this_update > now {
                let message = format!(
                    "the revocation list of {name:?} is of {}, which is to come; it is used nevertheless",
                    date(list.this_update)
                );
                let finding = Finding::warning(Reason::NotYetValid, &file, message);
                self.findings.push(finding.hint("look at this machine's clock, and at the CA's"));
            }
            let Some(next) = list.next_update else {
                let message = format!(
                    "the revocation list of {name:?} does not say when the next one is due: its age cannot be noticed"
                );
                self.findings.push(Finding::warning(Reason::Expired, &file, message));
                continue;
            };
            let late = late_at(list.this_update, next);
            let due = [late, next].into_iter().filter(|at| *at >= now).min();
            self.attention_at = [self.attention_at, due.map(|at| at + 1)].into_iter().flatten().min();
            if now > next {
                let message = format!("the revocation list of {name:?} expired on {}", date(next));
                self.findings.push(Finding::warning(Reason::Expired, &file, message).hint(EXPIRED));
            } else if now > late {
                let message = format!(
                    "the revocation list of {name:?} expires on {}, and the next one is not there",
                    date(next)
                );
                self.findings.push(Finding::warning(Reason::Expired, &file, message).hint(EXPIRED));
            }
        }
    }
}

/// A list that would take the place of a newer one: certificates that were revoked in between would be good again.
fn older(file: &Path, list: &List, newer: &List) -> Finding {
    let message = format!(
        "the revocation list of {:?} is of {}, which is older than the one in use, of {}",
        list.name,
        date(list.this_update),
        date(newer.this_update)
    );
    let hint = "put the CA's current list there; if the older one is meant, restart the proxy";
    Finding::error(Reason::BadRevocationList, file, message).hint(hint)
}

const EXPIRED: &str = "fetch the CA's current list; once it has expired, clients of this CA are refused unless `crl-expired` \
                       is \"accept\"";

/// Returns the time from which the list after one of `from` that is good until `to` is late.
pub fn late_at(from: i64, to: i64) -> i64 {
    let (part, most) = LATE;
    to - (to.saturating_sub(from) / part).clamp(0, most)
}

impl OfFile {
    fn read(file: &Path, is_named: bool, checks: &Checks<'_>) -> Self {
        let of = |stamp| Self {
            file: file.to_path_buf(),
            stamp,
            authorities: checks.authorities,
            lists: Vec::new(),
            findings: Vec::new(),
        };
        match read::whole_or_stamp(file, SIZE_LIMIT) {
            Ok(content) => {
                let mut of_file = of(content.stamp);
                of_file.take(&content.bytes, is_named, checks);
                of_file
            }
            Err((failure, stamp)) => {
                let mut of_file = of(stamp);
                of_file.findings.push(match failure {
                    Failure::TooLarge(size) => {
                        let message = format!("has {size} bytes, expected at most {SIZE_LIMIT}");
                        Finding::error(Reason::TooLarge, file, message)
                    }
                    failure => failed(file, &failure),
                });
                of_file
            }
        }
    }

    fn take(&mut self, bytes: &[u8], is_named: bool, checks: &Checks<'_>) {
        let severity = if is_named { Severity::Error } else { Severity::Note };
        if bytes.is_empty() {
            self.findings.push(Finding::error(
                Reason::Empty,
                &self.file,
                "is empty, expected a revocation list",
            ));
            return;
        }
        if bytes[0] == crate::der::SEQUENCE {
            self.list(bytes, "", is_named, checks);
            return;
        }
        let sections = match pem::sections(bytes) {
            Ok(sections) => sections,
            Err(broken) => {
                let reason = match broken {
                    pem::Broken::NoEnd { .. } => Reason::Truncated,
                    _ => Reason::BadPem,
                };
                self.findings.push(Finding::error(reason, &self.file, broken.to_string()));
                return;
            }
        };
        let mut is_list = false;
        for section in &sections {
            if section.label != "X509 CRL" {
                let message = format!(
                    "line {}: {} is no revocation list, and is not used",
                    section.line,
                    section.name()
                );
                self.findings.push(Finding::note(Reason::UnusedSection, &self.file, message));
                continue;
            }
            is_list = true;
            let place = format!("line {}: ", section.line);
            match section.der() {
                Some((SectionKind::Crl, der)) => self.list(&der, &place, is_named, checks),
                _ => {
                    let message = format!("{place}the text of this revocation list is not base64");
                    self.findings.push(Finding::error(Reason::BadPem, &self.file, message));
                }
            }
        }
        if !is_list {
            let message = "holds no revocation list (X509 CRL), in PEM or DER";
            self.findings.push(Finding::new(severity, Reason::NoRevocationList, &self.file, message));
        }
    }

    fn list(&mut self, der: &[u8], place: &str, is_named: bool, checks: &Checks<'_>) {
        match List::read(der, &checks.signers) {
            Ok(list) => {
                if list.is_unverified() {
                    let message = format!(
                        "{place}the revocation list is by {:?}, which is not among the CAs for client certificates: it is used for \
                         clients that send this CA's certificate, and verified then",
                        list.name
                    );
                    let finding = Finding::warning(Reason::BadRevocationList, &self.file, message);
                    self.findings.push(finding.hint(
                        "if it is the list of an intermediate CA, that is all; else take it away, or add its CA to `ca`",
                    ));
                }
                self.lists.push(Arc::new(list));
            }
            Err(fault) => {
                // A folder may hold those of other CAs too.
                let is_foreign = matches!(fault, Fault::Stranger(_)) && !is_named;
                let severity = if is_foreign { Severity::Warning } else { Severity::Error };
                let message = format!("{place}{fault}");
                let mut finding = Finding::new(severity, Reason::BadRevocationList, &self.file, message);
                finding.hint = fault.hint().map(str::to_owned);
                self.findings.push(finding);
            }
        }
    }
}
