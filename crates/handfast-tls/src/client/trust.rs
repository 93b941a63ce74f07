//! Trust settings of a client: certificate authorities, single certificates, and pinned public keys.
//!
//! In: a PEM file, the machine's own list, or pins. Out: a [`Trust`], made once and shared by all threads and sessions, or
//! findings about the file. `presented.rs` decides which certificates are accepted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::digest::{Context, SHA256};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::session::{Failure, FailureKind};
use handfast_pki::finding::{Finding, Reason};
use handfast_pki::load::TrustFile;
use handfast_pki::pem;
use handfast_pki::presented::Pin;
use handfast_pki::presented::{Authorities, Keys, Peer, Refusal, Standing, Stapled, standing};
use handfast_pki::read::FileStamp;
use handfast_pki::unix_time::date;
use handfast_pki::unix_time::unix_seconds;
use handfast_pki::weak::Lists;

/// Verification of a server's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// No verification, not even of its signature: for measuring servers, and never for anything secret.
    Off,
    /// Against the CAs that this machine trusts, which are read from where it keeps them (or `SSL_CERT_FILE` names).
    #[default]
    System,
    /// Against these CAs, in PEM.
    Roots(Vec<u8>),
    /// The trusted certificates, read once for all clients.
    Trust(Trust),
}

/// The requested settings are not possible.
pub(super) fn wrong(detail: impl Into<Box<str>>) -> Failure {
    Failure::new(FailureKind::Ourselves, detail)
}

/// Revocation check of a server's certificate, by the OCSP response that it sends. None is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revocation {
    /// Nothing.
    #[default]
    Unchecked,
    /// A good response that reports it as revoked is believed.
    Stapled,
    /// There must be a good response that reports it as not revoked.
    StapleRequired,
}

/// Trusted certificates, and further requirements on a server's certificate.
#[derive(Clone, Debug)]
pub struct Trust {
    authorities: Arc<Authorities>,
    pins: Arc<[Pin]>,
    /// True if the certificate must be for the dialled name.
    name: bool,
    /// True if the common name counts where there are no alternative names.
    common_name: bool,
    /// True if a trusted CA must have signed it: false where the pins alone decide.
    chain: bool,
    revocation: Revocation,
    id: [u8; 32],
}

impl PartialEq for Trust {
    fn eq(&self, other: &Self) -> bool {
        let parts = |trust: &Self| (trust.id, trust.name, trust.common_name, trust.chain, trust.revocation);
        parts(self) == parts(other) && self.pins == other.pins
    }
}

impl Eq for Trust {}

impl Trust {
    fn new(authorities: Authorities, id: Context) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(id.finish().as_ref());
        let (authorities, pins) = (Arc::new(authorities), Arc::default());
        let revocation = Revocation::Unchecked;
        Self { authorities, pins, name: true, common_name: false, chain: true, revocation, id: bytes }
    }

    /// Trusts servers with one of these keys, whatever the certificate contains; its dates and names are not looked at.
    pub fn only_pins(pins: &[Pin]) -> Self {
        let nobodys = Self::new(Authorities::default(), Context::new(&SHA256));
        Self { chain: false, ..nobodys }.asking(pins, false)
    }

    /// Trusts the same authorities, and requires only this of the certificates that they signed: one of these keys (none: any
    /// will do), and with `name` that it is for the name that was dialled. These requirements replace earlier ones.
    pub fn asking(self, pins: &[Pin], name: bool) -> Self {
        Self { pins: pins.into(), name, ..self }
    }

    /// Trusts a certificate that has no alternative names by its common name too, as OpenSSL does. CAs do not check common
    /// names as they check alternative names (RFC 9525 §2).
    pub fn or_common_name(self) -> Self {
        Self { common_name: true, ..self }
    }

    /// Requires this of the CA's statement about revocation; not where the pins alone decide.
    pub fn revocation(self, revocation: Revocation) -> Self {
        Self { revocation, ..self }
    }

    pub(super) fn requires_name(&self) -> bool {
        self.name
    }

    /// Checks a server's certificate.
    ///
    /// **Errors**: why it is refused. **Cost**: as [`Authorities::check`].
    pub(super) fn check(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<(), Refusal> {
        if self.chain {
            let stapled = match self.revocation {
                Revocation::Unchecked => Stapled::Ignored,
                Revocation::Stapled => Stapled::Checked { response: staple, required: false },
                Revocation::StapleRequired => Stapled::Checked { response: staple, required: true },
            };
            self.authorities.check_stapled(Peer::Server, own, intermediates, Keys::New, now, stapled)?;
        } else {
            self.authorities.check_key_of(own)?;
        }
        if self.name {
            Authorities::check_name(own, name, self.common_name)?;
        }
        if !self.pins.is_empty() {
            let pin = Pin::of(own).ok_or(Refusal::Unreadable)?;
            if !self.pins.contains(&pin) {
                return Err(Refusal::NotPinned { key: pin });
            }
        }
        Ok(())
    }
}

/// The CAs that this machine trusts, read from where it keeps them (or `SSL_CERT_FILE` names); keys on the lists `known_keys`
/// are refused.
///
/// **Errors**: there are none. **Cost**: a hundred files may be read.
pub fn system(known_keys: &Arc<Lists>) -> Result<Trust, Failure> {
    let (mut trusted, mut id) =
        (Authorities::default().refusing(Arc::clone(known_keys)), Context::new(&SHA256));
    id.update(known_keys.fingerprint());
    let found = rustls_native_certs::load_native_certs();
    for certificate in &found.certs {
        id.update(certificate);
        // One unreadable certificate among many, or one with a compromised key, is omitted.
        if trusted.check_key_of(certificate).is_ok() {
            drop(trusted.add(certificate));
        }
    }
    if !trusted.is_empty() {
        return Ok(Trust::new(trusted, id));
    }
    let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
    Err(wrong(format!(
        "read the CAs that this machine trusts: {why}; hint: install ca-certificates, or name a file"
    )))
}

/// Takes a certificate that is named as trusted: a server's own may be named too, and is good then whatever CA signed it, as
/// curl has it. Only a CA's makes others good.
fn take(trusted: &mut Authorities, certificate: &CertificateDer<'_>) -> Result<(), Refusal> {
    let standing = standing(certificate).ok_or(Refusal::Unreadable)?;
    trusted.check_key_of(certificate)?;
    trusted.pin(certificate);
    if standing == Standing::Authority { trusted.add(certificate) } else { Ok(()) }
}

pub(super) fn of_pem(pem: &[u8]) -> Result<Trust, Failure> {
    let (mut trusted, mut id) = (Authorities::default(), Context::new(&SHA256));
    let certificates = pem::certificates(pem).map_err(|what| wrong(format!("trusted CAs: {what}")))?;
    for (certificate, number) in certificates.into_iter().zip(1..) {
        id.update(&certificate);
        take(&mut trusted, &certificate).map_err(|error| wrong(format!("trusted CA {number}: {error}")))?;
    }
    Ok(Trust::new(trusted, id))
}

/// Result of [`load`].
#[derive(Debug)]
pub struct LoadedTrust {
    /// The certificates that the file makes trusted; `None` when a finding is an error.
    pub trust: Option<Trust>,
    /// Findings about the files.
    pub findings: Vec<Finding>,
    /// The files read, for [`handfast_pki::load::changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: Vec<PathBuf>,
}

/// Reads the CA certificates, or servers' own, in the PEM file `ca`; keys on the lists `known_keys` are refused.
pub fn load(ca: &Path, known_keys: &Arc<Lists>, now: SystemTime) -> LoadedTrust {
    let mut file = TrustFile::read(ca, "the CAs that sign the backends' certificates");
    let (mut trusted, mut id) =
        (Authorities::default().refusing(Arc::clone(known_keys)), Context::new(&SHA256));
    id.update(known_keys.fingerprint());
    for parsed in &file.certificates {
        id.update(&parsed.der);
        if let Err(refusal) = take(&mut trusted, &parsed.der) {
            let message = format!("the certificate of {:?} cannot be used: {refusal}", parsed.subject);
            file.findings.push(Finding::error(Reason::BadCertificate, ca, message));
        }
        if unix_seconds(now) > parsed.not_after {
            let message =
                format!("the certificate of {:?} expired on {}", parsed.subject, date(parsed.not_after));
            file.findings.push(Finding::warning(Reason::Expired, ca, message));
        }
    }
    LoadedTrust {
        trust: file.is_usable().then(|| Trust::new(trusted, id)),
        findings: file.findings,
        files_read: file.files_read,
        folders: file.folders,
    }
}

#[cfg(test)]
mod tests;
