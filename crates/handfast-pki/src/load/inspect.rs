//! Inspects keys and certificates without serving them: weak keys, expiry, chains in the wrong order.
//!
//! In: files and folders, chains that servers presented, the time. Out: findings. Unlike `load.rs` it takes certificates without a
//! key, keys without a certificate, and bundles of many, and goes into folders of folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::inspect_files::{inspect_file, inspect_files};
use super::inspected_file::InspectedFile;
use crate::certificate;
use crate::finding::{Finding, Reason, Severity};
use crate::key_kind::KeyKind;
use crate::parsed::Parsed;
use crate::read::{Failure, failed};
use crate::shared_keys::{KeyOwner, shared_factors_of, shared_keys_of};
use crate::signed;
use crate::unix_time::{date, unix_seconds};
use crate::weak::{self, Lists, PublicKey};

/// Maximum depth of folders, and maximum number of files.
const DEPTH: usize = 12;
const FILES: usize = 100_000;
/// Seconds of a day.
const DAY: i64 = 86_400;

/// Settings of an inspection.
#[derive(Clone, Copy, Debug)]
pub struct Inspection<'a> {
    /// Lists of compromised keys.
    pub known_keys: &'a Lists,
    /// The time.
    pub now: SystemTime,
    /// A certificate that has this many days left, or a third of its life if that is less, is reported.
    pub days: u32,
}

/// The result.
#[derive(Debug, Default)]
pub struct Inspected {
    /// The findings, in the order of the files.
    pub findings: Vec<Finding>,
    /// Files that could not be read: path and reason.
    pub unseen: Vec<(PathBuf, String)>,
    /// Certificates, each counted once however many files hold it.
    pub certificates: usize,
    /// Private keys.
    pub keys: usize,
    /// Files that were looked at.
    pub files: usize,
    /// The certificate that runs out first: its names, and seconds of Unix time.
    pub first_to_expire: Option<(String, i64)>,
    /// Certificates whose keys are compared over all files.
    seen: Vec<Seen>,
}

/// A certificate of which the key is compared with those of others.
#[derive(Debug)]
struct Seen {
    file: PathBuf,
    parsed: Parsed,
}

impl Inspection<'_> {
    /// Looks at a file, or at all below a folder.
    ///
    /// **Cost**: as [`load`]; folders within folders to a depth of 12, 100,000 files in all.
    pub fn path(&self, path: &Path, into: &mut Inspected) {
        if !fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            return self.looked(inspect_file(None, path), true, into);
        }
        let mut files = Vec::new();
        below(path, DEPTH, &mut files, into);
        files.sort();
        for looked in inspect_files(&files, None) {
            self.looked(looked, false, into);
        }
    }

    /// Looks at the chain that a server presented, its own certificate first; `name` is what it is called in findings.
    pub fn presented(&self, name: &str, chain: &[Vec<u8>], into: &mut Inspected) {
        let name = PathBuf::from(name);
        let mut parsed = Vec::new();
        for der in chain {
            match Parsed::from_der(der) {
                Ok(one) => parsed.push(one),
                Err(what) => {
                    let message = format!("a certificate that it sends cannot be read: {what}");
                    into.findings.push(Finding::error(Reason::BadCertificate, &name, message));
                }
            }
        }
        signed::check_all(&mut parsed);
        into.findings.extend(certificate::lacks_issuer(&parsed, &name));
        self.certificates(&name, parsed, into);
    }

    /// Says what only shows over all that was looked at: one key for unrelated names, factors that two keys share.
    pub fn compare(&self, into: &mut Inspected) {
        // A bundle of CAs has one key under two names when a CA was renamed, which is as it should be.
        let servers: Vec<&Seen> = into.seen.iter().filter(|seen| !is_authority(&seen.parsed)).collect();
        let owners: Vec<_> = servers.iter().map(|seen| KeyOwner::of(&seen.parsed, &seen.file)).collect();
        let mut findings = shared_keys_of(&owners);
        let owners: Vec<_> = into.seen.iter().map(|seen| KeyOwner::of(&seen.parsed, &seen.file)).collect();
        match shared_factors_of(&owners) {
            Ok(shared) => findings.extend(shared),
            Err(count) => into.unseen.push((
                PathBuf::from("factors that keys share"),
                format!("{count} different RSA keys are more than are compared"),
            )),
        }
        into.findings.extend(findings);
    }

    fn looked(&self, looked: InspectedFile, was_named: bool, into: &mut Inspected) {
        let path = looked.path.clone();
        into.files += 1;
        let permissions = looked.permissions();
        let contents = match looked.contents {
            Ok(contents) => contents,
            Err(failure) if was_named => return into.findings.push(failed(&path, &failure)),
            Err(Failure::Refused(error)) => return into.unseen.push((path, error.to_string())),
            // A file of a folder need not be a certificate.
            Err(_) => return,
        };
        if let Some(not_pem) = contents.not_pem {
            if was_named {
                into.findings.push(not_pem.finding(&path));
            }
            return;
        }
        let (encrypted, others): (Vec<_>, Vec<_>) =
            contents.findings.into_iter().partition(|finding| finding.reason == Reason::EncryptedKey);
        into.unseen.extend(encrypted.into_iter().map(|finding| (path.clone(), finding.message)));
        let is_meant = |finding: &Finding| was_named || finding.reason != Reason::Empty;
        into.findings.extend(
            others.into_iter().filter(|finding| finding.severity != Severity::Note && is_meant(finding)),
        );
        into.findings.extend(permissions);
        into.keys += contents.keys.len();
        for key in &contents.keys {
            let numbers = PublicKey::from_info(&key.public_key);
            if let Some((key, weakness)) = numbers.and_then(|key| Some((key.kind(), self.weakness(&key)?))) {
                let message = format!("the private {key} {weakness}: {}", weakness.why());
                into.findings.push(weak(&path, message));
            }
        }
        let is_of = |parsed: &Parsed| contents.keys.iter().any(|key| key.public_key == parsed.public_key);
        if let (Some(first), Some(_)) = (contents.certificates.first(), contents.keys.first())
            && !contents.certificates.iter().any(is_of)
        {
            let message = format!("the key does not fit the certificate of {}", named(first));
            let hint = "each renewal makes a new pair: check that both are of the same one";
            into.findings.push(Finding::error(Reason::KeyDoesNotFit, &path, message).hint(hint));
        }
        self.certificates(&path, contents.certificates, into);
    }

    fn weakness(&self, key: &PublicKey<'_>) -> Option<weak::Weakness> {
        key.thorough_weaknesses().into_iter().next().or_else(|| self.known_keys.find(key))
    }

    /// Certificates that lie together.
    fn certificates(&self, file: &Path, parsed: Vec<Parsed>, into: &mut Inspected) {
        into.findings.extend(order(file, &parsed));
        for one in parsed {
            // The same one in several files is reported where it was first seen.
            if into.seen.iter().any(|seen| seen.parsed.der == one.der) {
                continue;
            }
            into.certificates += 1;
            self.one(file, &one, into);
            into.seen.push(Seen { file: file.to_path_buf(), parsed: one });
        }
    }

    fn one(&self, file: &Path, one: &Parsed, into: &mut Inspected) {
        let numbers = PublicKey::from_info(&one.public_key);
        if let Some((key, weakness)) = numbers.and_then(|key| Some((key.kind(), self.weakness(&key)?))) {
            let message = format!("the {key} of {} {weakness}: {}", named(one), weakness.why());
            into.findings.push(weak(file, message));
        }
        if let KeyKind::Unusable(what) = one.kind
            && !is_authority(one)
        {
            let message =
                format!("the key of {} is {}, which TLS clients do not take", named(one), what.name());
            into.findings.push(Finding::warning(Reason::BadKey, file, message).hint(REISSUE));
        }
        into.findings.extend(self.dates(file, one));
        into.findings.extend(certificate::wrongly_signed(one, file));
        into.findings.extend(hash(file, one));
        into.findings.extend(life(file, one));
        let sooner = into.first_to_expire.as_ref().is_none_or(|(_, first)| one.not_after < *first);
        if sooner && !is_authority(one) {
            into.first_to_expire = Some((named(one), one.not_after));
        }
        let has_names = !one.dns_names.is_empty() || !one.ip_names.is_empty();
        if !is_authority(one) && !has_names && one.common_name.is_some() {
            let message = format!(
                "the certificate of {} names no host but in its subject, where clients no longer look",
                named(one)
            );
            let hint = "reissue it with subject alternative names";
            into.findings.push(Finding::warning(Reason::NoNames, file, message).hint(hint));
        }
    }

    fn dates(&self, file: &Path, one: &Parsed) -> Option<Finding> {
        let now = unix_seconds(self.now);
        let what = format!("the certificate of {}", named(one));
        let until = date(one.not_after);
        let left = one.not_after.saturating_sub(now);
        if left < 0 {
            let message = format!("{what} expired {} ago, on {until}", days(-left));
            let finding = match is_authority(one) {
                true => Finding::warning(Reason::Expired, file, message),
                false => Finding::error(Reason::Expired, file, message),
            };
            return Some(
                finding
                    .hint("renew it, and see why nothing did: certbot renew --dry-run, or your CA's client"),
            );
        }
        if now < one.not_before {
            let message = format!("{what} is valid only from {}", date(one.not_before));
            let hint = format!("it is {} here; check the clock", date(now));
            return Some(Finding::warning(Reason::NotYetValid, file, message).hint(hint));
        }
        // One that lives for six days is renewed in its last two.
        let life = one.not_after.saturating_sub(one.not_before);
        let soon = (i64::from(self.days) * DAY).min(life / 3);
        (left < soon).then(|| {
            let message = format!("{what} expires in {}, on {until}", days(left));
            let finding = Finding::warning(Reason::Expired, file, message);
            finding
                .hint("renew it now, and see why nothing did: renewal is due with a third of its life left")
        })
    }
}

const REISSUE: &str = "reissue it with an ECDSA P-256 or an RSA-2048 key";

fn weak(file: &Path, message: String) -> Finding {
    let hint = "make a new key, ECDSA P-256 or RSA-2048, have the certificate reissued for it and the old one revoked";
    Finding::error(Reason::WeakKey, file, message).hint(hint)
}

/// A signature with a hash that can be forged; a root's own is looked at by no client.
///
/// **Source**: CA/Browser Forum baseline requirements 7.1.3.2; OpenSSL refuses SHA-1 from security level 1 on.
fn hash(file: &Path, one: &Parsed) -> Option<Finding> {
    let hash = one.broken_hash.filter(|_| !one.is_self_issued())?;
    let message = format!("the certificate of {} is signed with {hash}, which can be forged", named(one));
    let hint = "have it reissued with a signature that uses SHA-256";
    Some(Finding::error(Reason::BrokenHash, file, message).hint(hint))
}

/// Days for which a publicly trusted certificate may be valid if it was issued from this moment on (seconds of Unix time), newest
/// first.
///
/// **Source**: CA/Browser Forum baseline requirements 6.3.2, as of 2026.
const PUBLIC_DAYS: [(i64, i64); 3] = [
    (1_773_532_800, 200), // 2026-03-15
    (1_598_918_400, 398), // 2020-09-01
    (1_519_862_400, 825), // 2018-03-01
];
/// The same for every server's certificate, by a public or a private CA: Apple's systems refuse one that is valid for longer, by "Requirements
/// for trusted certificates in iOS 13 and macOS 10.15" (HT210176).
const OTHER_DAYS: [(i64, i64); 1] = [(1_561_939_200, 825)]; // 2019-07-01

/// A server's certificate that is valid for longer than clients accept.
fn life(file: &Path, one: &Parsed) -> Option<Finding> {
    if is_authority(one) {
        return None;
    }
    let limits = if one.is_public { &PUBLIC_DAYS[..] } else { &OTHER_DAYS[..] };
    let (_, most) = limits.iter().find(|(since, _)| one.not_before >= *since)?;
    // Both the first and the last second count.
    let life = one.not_after.saturating_sub(one.not_before).saturating_add(1);
    if life <= most * DAY {
        return None;
    }
    let message = format!(
        "the certificate of {} is valid for {}, and clients accept {most} days at most",
        named(one),
        days(life)
    );
    let hint = "have it reissued for a shorter time, and renew it automatically";
    Some(Finding::warning(Reason::LongValidity, file, message).hint(hint))
}

fn days(seconds: i64) -> String {
    match seconds / DAY {
        0 => format!("{} hours", seconds / 3_600),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

/// A CA's certificate that is not meant to be served: what `openssl req -x509` makes is marked as a CA and names a host.
fn is_authority(parsed: &Parsed) -> bool {
    parsed.is_authority && parsed.dns_names.is_empty() && parsed.ip_names.is_empty()
}

/// Returns a display name of the certificate.
fn named(parsed: &Parsed) -> String {
    match (&parsed.dns_names[..], &parsed.ip_names[..]) {
        ([first], _) => first.to_string(),
        ([first, others @ ..], _) => format!("{first} and {} more", others.len()),
        ([], [first, ..]) => first.to_string(),
        ([], []) => format!("{:?}", parsed.subject.as_ref()),
    }
}

/// Checks that a chain begins with the server's certificate, followed by its issuers. TLS 1.2 requires each certificate to
/// certify the one before it (RFC 5246 §7.4.2). A file with two servers' certificates, or with CAs alone, is no chain.
fn order(file: &Path, chain: &[Parsed]) -> Option<Finding> {
    let mut servers = chain.iter().enumerate().filter(|(_, parsed)| !parsed.is_authority);
    let (place, server) = servers.next()?;
    if chain.len() < 2 || servers.next().is_some() {
        return None;
    }
    let hint = "put the server's certificate first, then the one that signed it, and so on";
    if place > 0 {
        let message = format!(
            "the server's certificate, {}, is number {} in the chain instead of the first",
            named(server),
            place + 1
        );
        return Some(Finding::warning(Reason::ChainOrder, file, message).hint(hint));
    }
    let breaks = chain.windows(2).find(|two| two[0].issuer_der != two[1].subject_der)?;
    let message = format!(
        "the chain is out of order: {} was signed by {:?}, and the next certificate is that of {:?}",
        named(&breaks[0]),
        breaks[0].issuer(),
        breaks[1].subject.as_ref()
    );
    Some(Finding::warning(Reason::ChainOrder, file, message).hint(hint))
}

/// Files below a folder; links to folders are not followed, so that there is no circle.
fn below(folder: &Path, depth: usize, files: &mut Vec<PathBuf>, into: &mut Inspected) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return into.unseen.push((folder.to_path_buf(), error.to_string())),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            match depth {
                0 => into.unseen.push((path, "too deep within folders".to_owned())),
                depth => below(&path, depth - 1, files, into),
            }
        } else if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            if files.len() == FILES {
                return into.unseen.push((folder.to_path_buf(), format!("more than {FILES} files")));
            }
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests;
