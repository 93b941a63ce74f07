//! OCSP responses: adds them to certificates, and handles unusable ones at a reload.
//!
//! In: a certificate and the path of its response. Out: the certificate, with the response if it is valid; a bad
//! response does not prevent serving the certificate.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::loaded::Loaded;
use crate::apart;
use crate::certificate::Certificate;
use crate::finding::{Finding, Reason};
use crate::read::{self, Failure, FileStamp, failed};
use crate::staple;
use crate::unix_time::{date, unix_seconds};

/// Behind the name of a certificate's file it is the name of its response, as HAProxy has it.
pub(super) const SUFFIX: &str = ".ocsp";

/// The response beside the certificate in `file`.
pub(super) fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

/// Gives `certificate` the response at `path`. One that `must` be there is missed.
pub(super) fn attach(certificate: &mut Certificate, path: &Path, must: bool, now: i64, loaded: &mut Loaded) {
    let content = match read::whole_or_stamp(path, read::SIZE_LIMIT) {
        Ok(content) => content,
        Err((failure, _)) if !must && is_missing(&failure, path, loaded) => {
            // That it comes is noticed.
            loaded.files_read.push((path.to_path_buf(), FileStamp::default()));
            return;
        }
        Err((failure, stamp)) => {
            certificate.staple_file = Some(path.to_path_buf());
            loaded.files_read.push((path.to_path_buf(), stamp));
            let mut finding = failed(path, &failure);
            finding.message.push_str("; no OCSP response is stapled");
            loaded.staples.push(finding);
            return;
        }
    };
    certificate.staple_file = Some(path.to_path_buf());
    loaded.files_read.push((path.to_path_buf(), content.stamp));
    match staple::read(&content.bytes, certificate.chain(), now) {
        Err(refusal) => loaded.staples.push(refusal.finding(path)),
        Ok((response, staple)) => {
            if !staple.is_verified {
                let message = "is stapled, but its signature was not checked: the certificate's issuer is not in the chain";
                let finding = Finding::warning(Reason::StapleUnverified, path, message);
                let hint = format!("append the issuer's certificate to {}", certificate.file().display());
                loaded.findings.push(finding.hint(hint));
            }
            certificate.set_staple(response, staple);
        }
    }
}

/// Returns true if there is no such file, also where only the holder of the keys can see that.
fn is_missing(failure: &Failure, path: &Path, loaded: &Loaded) -> bool {
    let stamp = || apart::stamp(loaded.holder.as_deref()?, path);
    match failure {
        Failure::Missing => true,
        Failure::Refused(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            stamp().is_some_and(|stamp| !stamp.is_there())
        }
        _ => false,
    }
}

/// Puts certificates of `before` in the place of the same ones whose response cannot be read now, as long as the one of
/// before is good: a response that is being written, or that is fetched later than it should be, takes nothing away.
///
/// Not so for a response that does not confirm the certificate as good.
pub fn keep_staples(loaded: &mut Loaded, before: &[Arc<Certificate>], now: SystemTime) {
    if loaded.staples.is_empty() {
        return;
    }
    let now = unix_seconds(now);
    let known: HashMap<_, _> = before.iter().map(|certificate| (certificate.chain(), certificate)).collect();
    let Loaded { certificates, staples, findings, .. } = loaded;
    let places: HashMap<PathBuf, usize> =
        staples.iter().map(|finding| finding.file.clone()).zip(0..).collect();
    for certificate in certificates {
        let place = certificate.staple_file.as_ref().and_then(|file| places.get(file));
        let Some(finding) = place.map(|place| &mut staples[*place]) else { continue };
        let is_same = |known: &&&Arc<Certificate>| {
            known.files() == certificate.files() && known.staple_file == certificate.staple_file
        };
        let Some(known) = known.get(certificate.chain()).filter(is_same) else { continue };
        let Some(until) = known.staple_until().filter(|until| now <= *until) else { continue };
        if finding.reason != Reason::Revoked {
            finding.message.push_str(&format!("; the response of before is stapled until {}", date(until)));
            findings.retain(|finding| {
                finding.reason != Reason::StapleMissing || finding.file != certificate.file()
            });
            *certificate = Arc::clone(known);
        }
    }
}

#[cfg(test)]
mod tests;
