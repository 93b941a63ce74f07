//! One folder of certificates: its files are read and paired by public key, and findings name the rest.
//!
//! In: a path. Out: certificates and findings, added to what is loaded already.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::inspect_files::inspect_files;
use super::inspected_file::InspectedFile;
use super::loaded::Loaded;
use super::staples;
use crate::certificate;
use crate::finding::{Finding, Reason, Severity, has_error};
use crate::key::Key;
use crate::parsed::Parsed;
use crate::read::{self, Failure, failed};
use crate::sections::{Contents, NotPem};
use crate::weak::Lists;

/// Loads every certificate in the folder at `path`.
pub(super) fn load(path: &Path, by: (&Lists, i64), loaded: &mut Loaded) {
    let before = loaded.certificates.len();
    let Some(mut files) = list(path, loaded) else { return };
    let staples = take_staples(&mut files, loaded);
    let mut holdings = Vec::new();
    for looked in inspect_files(&files, loaded.holder.clone().as_ref()) {
        loaded.files_read.push((looked.path.clone(), looked.stamp));
        loaded.findings.extend(looked.permissions());
        holdings.extend(Holding::of(looked, loaded));
    }
    pair(holdings, staples, by, loaded);
    let explains = |finding: &Finding| {
        (finding.severity == Severity::Error || finding.reason == Reason::Duplicate)
            && finding.file.starts_with(path)
    };
    if loaded.certificates.len() == before && !loaded.findings.iter().any(explains) {
        let finding = Finding::error(Reason::NoCertificate, path, "holds no certificate with its key");
        loaded.findings.push(finding.hint("put the chain and the key there, in PEM, in one file or two"));
    }
}

/// The files to look at, by name.
fn list(path: &Path, loaded: &mut Loaded) -> Option<Vec<PathBuf>> {
    let entries = match read::entries(path, &mut loaded.files_read) {
        Ok(entries) => entries,
        Err(error) => {
            let finding = match error.kind() {
                std::io::ErrorKind::NotFound => Finding::error(Reason::Missing, path, "is not there"),
                std::io::ErrorKind::NotADirectory => {
                    Finding::error(Reason::NotAFile, path, "is a file, expected a folder")
                }
                _ => Finding::error(Reason::Unreadable, path, format!("cannot be listed: {error}")),
            };
            loaded.findings.push(finding);
            return None;
        }
    };
    let mut files = Vec::with_capacity(entries.len());
    for entry in entries {
        let file = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            loaded.findings.push(Finding::note(Reason::Hidden, file, "is hidden, and not looked at"));
        } else if fs::metadata(&file).is_ok_and(|metadata| metadata.is_dir()) {
            let message = "is a folder inside the folder, and not looked at";
            loaded.findings.push(Finding::note(Reason::SubFolder, file, message));
        } else {
            files.push(file);
        }
    }
    files.sort();
    Some(files)
}

/// Takes OCSP responses out of `files`: those beside a file of certificates; the others are named.
fn take_staples(files: &mut Vec<PathBuf>, loaded: &mut Loaded) -> BTreeSet<PathBuf> {
    let of = |file: &Path| file.to_str()?.strip_suffix(staples::SUFFIX).map(PathBuf::from);
    let (staples, others): (Vec<_>, Vec<_>) =
        std::mem::take(files).into_iter().partition(|file| of(file).is_some());
    *files = others;
    let is_beside = |staple: &PathBuf| of(staple).is_some_and(|file| files.binary_search(&file).is_ok());
    let (used, alone): (Vec<_>, Vec<_>) = staples.into_iter().partition(is_beside);
    for staple in alone {
        let message = "not used: an OCSP response without the certificate's file that its name begins with";
        loaded.findings.push(Finding::warning(Reason::BadStaple, staple, message));
    }
    used.into_iter().collect()
}

/// Certificates and keys of one file of the folder.
struct Holding {
    path: PathBuf,
    certificates: Vec<Parsed>,
    keys: Vec<Key>,
    is_used: bool,
}

impl Holding {
    fn of(looked: InspectedFile, loaded: &mut Loaded) -> Option<Self> {
        let path = looked.path;
        let contents = match looked.contents {
            Ok(contents) => contents,
            Err(failure) => {
                let mut finding = failed(&path, &failure);
                // Lying in a folder of certificates is not yet a claim to be one.
                if matches!(failure, Failure::NotAFile(_) | Failure::TooLarge(_)) {
                    finding.severity = Severity::Warning;
                }
                loaded.findings.push(finding);
                return None;
            }
        };
        if let Some(not_pem) = contents.not_pem {
            let severity = if not_pem == NotPem::Other { Severity::Note } else { Severity::Warning };
            loaded.findings.push(unused(not_pem.finding(&path), severity));
            return None;
        }
        let is_broken = has_error(&contents.findings);
        loaded.findings.extend(contents.findings.into_iter().map(not_used));
        if is_broken || (contents.certificates.is_empty() && contents.keys.is_empty()) {
            return None;
        }
        let Contents { certificates, keys, .. } = contents;
        Some(Self { path, certificates, keys, is_used: false })
    }

    /// Place of the first certificate that has a key, and whose.
    fn find_key(&self, keys: &HashMap<Box<[u8]>, (usize, Key)>) -> Option<(usize, usize, Key)> {
        self.certificates.iter().enumerate().find_map(|(place, parsed)| {
            let (owner, key) = keys.get(&parsed.public_key)?;
            Some((place, *owner, key.clone()))
        })
    }
}

/// PKCS#12 with a password is often beside the PEM files that were made of it: in a folder it is no error.
fn not_used(finding: Finding) -> Finding {
    match finding.reason {
        Reason::BadPkcs12 => unused(finding, Severity::Warning),
        _ => finding,
    }
}

fn unused(finding: Finding, severity: Severity) -> Finding {
    Finding { severity, message: format!("not used: it {}", finding.message), ..finding }
}

fn pair(
    mut holdings: Vec<Holding>,
    mut staples: BTreeSet<PathBuf>,
    (known_keys, now): (&Lists, i64),
    loaded: &mut Loaded,
) {
    let mut keys: HashMap<Box<[u8]>, (usize, Key)> = HashMap::new();
    for (owner, holding) in holdings.iter().enumerate() {
        for key in &holding.keys {
            keys.entry(key.public_key.clone()).or_insert_with(|| (owner, key.clone()));
        }
    }
    let pairs: Vec<_> = holdings.iter().map(|holding| holding.find_key(&keys)).collect();
    let winners = longest_chains(&holdings, &pairs);

    let mut incomplete = Vec::new();
    for (index, pair) in pairs.into_iter().enumerate() {
        let Some((place, owner, key)) = pair else { continue };
        holdings[owner].is_used = true;
        holdings[index].is_used = true;
        let path = holdings[index].path.clone();
        if winners[index] != index {
            let winner = holdings[winners[index]].path.display();
            let message = format!(
                "the same certificate as in {winner}, where the chain is as long or longer; that one is used"
            );
            loaded.findings.push(Finding::note(Reason::Duplicate, path, message));
            continue;
        }
        let chain = std::mem::take(&mut holdings[index].certificates);
        if certificate::refuse_unusable(&chain[place], &chain, known_keys, &path, &mut loaded.findings) {
            continue;
        }
        if let [only] = chain.as_slice()
            && !only.is_self_issued()
        {
            incomplete.push((path.clone(), only.issuer_der.clone()));
        }
        let key_file = (owner != index).then(|| holdings[owner].path.clone());
        let mut made =
            certificate::assemble(chain, key, &path, key_file.as_deref(), now, &mut loaded.findings);
        let staple = staples::beside(&path);
        if staples.remove(&staple) {
            staples::attach(&mut made, &staple, false, now, loaded);
        }
        loaded.add(made);
    }
    for staple in staples {
        let message = "not used: the certificate in the file that its name begins with is not";
        loaded.findings.push(Finding::note(Reason::BadStaple, staple, message));
    }
    report_same_keys(&mut holdings, &keys, loaded);
    let left: Vec<Holding> = holdings.into_iter().filter(|holding| !holding.is_used).collect();
    report_incomplete(&incomplete, &left, loaded);
    report_unpaired(&left, known_keys, loaded);
}

/// Names files that hold only keys which another file, a used one, holds too.
fn report_same_keys(holdings: &mut [Holding], keys: &HashMap<Box<[u8]>, (usize, Key)>, loaded: &mut Loaded) {
    for index in 0..holdings.len() {
        let holding = &holdings[index];
        let [key] = holding.keys.as_slice() else { continue };
        let Some((owner, _)) = keys.get(&key.public_key) else { continue };
        if *owner == index || holding.is_used || !holding.certificates.is_empty() || !holdings[*owner].is_used
        {
            continue;
        }
        let message = format!("not used: the same key as in {}", holdings[*owner].path.display());
        loaded.findings.push(Finding::note(Reason::Duplicate, &holding.path, message));
        holdings[index].is_used = true;
    }
}

/// For each file, the one with the longest chain of the same server certificate; the first by name if several are as
/// long. certbot's `cert.pem` and `fullchain.pem` are the case.
fn longest_chains(holdings: &[Holding], pairs: &[Option<(usize, usize, Key)>]) -> Vec<usize> {
    let leaf = |index: usize| {
        let (place, _, _) = pairs[index].as_ref()?;
        Some(holdings[index].certificates[*place].der.as_ref())
    };
    let mut best: HashMap<&[u8], usize> = HashMap::new();
    for index in 0..holdings.len() {
        let Some(leaf) = leaf(index) else { continue };
        let known = best.entry(leaf).or_insert(index);
        if holdings[index].certificates.len() > holdings[*known].certificates.len() {
            *known = index;
        }
    }
    (0..holdings.len()).map(|index| leaf(index).map_or(index, |leaf| best[leaf])).collect()
}

/// A chain of one whose issuer lies beside it unused: browsers fetch or know it, programs do not, and the cause is hard to find.
fn report_incomplete(incomplete: &[(PathBuf, Box<[u8]>)], left: &[Holding], loaded: &mut Loaded) {
    for (path, issuer) in incomplete {
        let is_issuer = |parsed: &Parsed| parsed.subject_der == *issuer && !parsed.is_self_issued();
        let Some(holder) = left.iter().find(|holding| holding.certificates.iter().any(is_issuer)) else {
            continue;
        };
        let message = format!(
            "its issuer's certificate is in {} and is not sent: clients that do not have it cannot verify this one",
            holder.path.display()
        );
        let hint = format!("append it: cat {} >> {}", holder.path.display(), path.display());
        // Said once, with the file.
        loaded.findings.retain(|finding| finding.reason != Reason::ChainIncomplete || finding.file != *path);
        loaded.findings.push(Finding::warning(Reason::ChainIncomplete, path, message).hint(hint));
    }
}

/// Names what no pair was found for.
fn report_unpaired(left: &[Holding], known_keys: &Lists, loaded: &mut Loaded) {
    let is_alone = |holding: &&Holding| holding.certificates.first().is_some_and(is_for_a_server);
    let alone: Vec<_> = left.iter().filter(is_alone).collect();
    let keys: Vec<_> = left.iter().filter(|holding| !holding.keys.is_empty()).collect();
    // The only two strangers in a folder, or two of the same name, are a pair that is being replaced.
    let only_two = alone.len() == 1 && keys.len() == 1;
    let belong = |one: &Holding, other: &Holding| {
        only_two || (stem(&one.path).is_some() && stem(&one.path) == stem(&other.path))
    };
    for holding in left {
        let path = &holding.path;
        if let [first, ..] = holding.certificates.as_slice() {
            if !is_for_a_server(first) && holding.keys.is_empty() {
                let message =
                    format!("not used: a CA's certificate, {:?}, that no chain here needs", first.subject);
                loaded.findings.push(Finding::note(Reason::UnusedAuthority, path, message));
                continue;
            }
            let chain = &holding.certificates;
            if !certificate::refuse_unusable(first, chain, known_keys, path, &mut loaded.findings) {
                let key = keys.iter().find(|key| belong(holding, key));
                loaded.findings.push(unpaired(holding, first, key.copied()));
            }
        } else if !alone.iter().any(|certificate| belong(holding, certificate)) {
            let message = "not used: a key without its certificate".to_owned();
            loaded.findings.push(Finding::warning(Reason::KeyAlone, path, message));
        }
    }
}

/// Returns true if it was meant to be served: `openssl req -x509` marks its certificates as CAs, and they name a host.
fn is_for_a_server(parsed: &Parsed) -> bool {
    let names_a_host =
        !parsed.dns_names.is_empty() || !parsed.ip_names.is_empty() || parsed.common_name.is_some();
    !parsed.is_authority || names_a_host
}

/// A certificate for which there is no key that fits; `key` is the file whose key should.
fn unpaired(holding: &Holding, first: &Parsed, key: Option<&Holding>) -> Finding {
    match key {
        Some(key) => certificate::key_does_not_fit(first, &holding.path, &key.path),
        None => {
            let message =
                format!("not used: the certificate of {:?} has no key in this folder", first.subject);
            Finding::warning(Reason::NoKey, &holding.path, message)
        }
    }
}

/// Returns the part of a file name that the files of a pair have in common: `www` for `www.crt`, `www.key`,
/// `www-privkey.pem`; empty for names that describe only the content, such as certbot's.
fn stem(path: &Path) -> Option<String> {
    const WORDS: &str = "pem crt cer cert key chain fullchain privkey bundle certificate private";
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let mut parts: Vec<&str> = name.split(['.', '-', '_']).collect();
    while parts.last().is_some_and(|part| WORDS.split(' ').any(|word| word == *part)) {
        parts.pop();
    }
    Some(parts.join("."))
}
