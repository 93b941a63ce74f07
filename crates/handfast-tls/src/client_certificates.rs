//! Whose client certificates are good.
//!
//! In: a PEM file of CA certificates, and whether a client may come without. Out: a verifier for rustls, a fingerprint
//! for tickets, and a second look at clients that resume. Revocation lists are not read.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Context, SHA256, digest};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::finding::{Finding, Reason, Severity};
use crate::load::{failed, unix_seconds, watch};
use crate::parsed::{Parsed, date};
use crate::read::{self, FileStamp};
use crate::sections::Contents;

/// Whether a client may come without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Demand {
    /// Asked for; a client without one is served, one with a bad one is not.
    Request,
    /// Asked for; a client without a good one is refused.
    Require,
}

/// A rule about client certificates, ready for rustls.
#[derive(Clone)]
pub struct ClientCertificates {
    verifier: Arc<dyn ClientCertVerifier>,
    fingerprint: [u8; 32],
    demand: Demand,
}

/// What [`load`] found.
#[derive(Debug)]
pub struct LoadedAuthorities {
    /// The rule; `None` when a finding is an error.
    pub rule: Option<ClientCertificates>,
    /// What was noticed.
    pub findings: Vec<Finding>,
    /// The files read, for [`crate::load::changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: Vec<PathBuf>,
}

/// Reads the CA certificates in the PEM file `authorities` and makes the rule.
pub fn load(authorities: &Path, demand: Demand, now: SystemTime) -> LoadedAuthorities {
    let mut findings = Vec::new();
    let mut folders = BTreeSet::new();
    watch(authorities, &mut folders);
    let (stamp, certificates) = match read::whole(authorities) {
        Ok(content) => (content.stamp, certificates_in(&content.bytes, authorities, &mut findings)),
        Err(failure) => {
            findings.push(failed(authorities, &failure));
            (FileStamp::of(authorities), Vec::new())
        }
    };
    say_doubts(&certificates, authorities, unix_seconds(now), &mut findings);
    let rule = rule(&certificates, demand, authorities, &mut findings);
    let is_usable = !findings.iter().any(|finding| finding.severity == Severity::Error);
    LoadedAuthorities {
        rule: rule.filter(|_| is_usable),
        findings,
        files_read: vec![(authorities.to_path_buf(), stamp)],
        folders: folders.into_iter().collect(),
    }
}

fn certificates_in(bytes: &[u8], file: &Path, findings: &mut Vec<Finding>) -> Vec<Parsed> {
    let contents = Contents::of(bytes, file);
    findings.extend(contents.findings);
    if let Some(not_pem) = contents.not_pem {
        let (words, hint) = not_pem.words(file);
        let mut finding = Finding::error(Reason::NotPem, file, words);
        finding.hint = hint;
        findings.push(finding);
    } else if contents.certificates.is_empty()
        && !findings.iter().any(|finding| finding.severity == Severity::Error)
    {
        let message = "holds no certificate, expected those of the CAs that sign clients' certificates";
        findings.push(Finding::error(Reason::NoCertificate, file, message));
    }
    if !contents.keys.is_empty() {
        let finding =
            Finding::warning(Reason::UnusedSection, file, "holds a private key, which is not used here");
        findings.push(finding.hint("a CA's key has no business on a server: take it away"));
    }
    contents.certificates
}

fn say_doubts(certificates: &[Parsed], file: &Path, now: i64, findings: &mut Vec<Finding>) {
    for parsed in certificates {
        let subject = &parsed.subject;
        if !parsed.is_authority {
            let message = format!("{subject:?} is no CA certificate: it can vouch for nobody");
            findings.push(Finding::warning(Reason::UnusedAuthority, file, message));
        }
        // webpki does not look at the dates of what it is told to trust (RFC 5280 §6.1.1 (d) leaves it open).
        if now > parsed.not_after {
            let message = format!(
                "the CA {subject:?} expired on {}; clients' certificates it signed are accepted nevertheless",
                date(parsed.not_after)
            );
            findings
                .push(Finding::warning(Reason::Expired, file, message).hint("take it out to refuse them"));
        }
    }
}

fn rule(
    certificates: &[Parsed],
    demand: Demand,
    file: &Path,
    findings: &mut Vec<Finding>,
) -> Option<ClientCertificates> {
    let mut roots = RootCertStore::empty();
    for parsed in certificates {
        if let Err(error) = roots.add(parsed.der.clone()) {
            let message = format!("the CA certificate of {:?} cannot be used: {error}", parsed.subject);
            findings.push(Finding::error(Reason::BadCertificate, file, message));
        }
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let builder = match demand {
        Demand::Request => builder.allow_unauthenticated(),
        Demand::Require => builder,
    };
    // It fails only without a root, and then a finding has said so.
    let verifier = builder.build().ok()?;
    Some(ClientCertificates { verifier, fingerprint: fingerprint(certificates, demand), demand })
}

/// The same for the same set of CAs, in whatever order and however often they are written.
fn fingerprint(certificates: &[Parsed], demand: Demand) -> [u8; 32] {
    let hashes: BTreeSet<Vec<u8>> =
        certificates.iter().map(|parsed| digest(&SHA256, &parsed.der).as_ref().to_vec()).collect();
    let mut context = Context::new(&SHA256);
    context.update(match demand {
        Demand::Request => b"request",
        Demand::Require => b"require",
    });
    hashes.iter().for_each(|hash| context.update(hash));
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(context.finish().as_ref());
    fingerprint
}

impl ClientCertificates {
    /// The verifier for rustls.
    pub fn verifier(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.verifier
    }

    /// A hash over the demand and the CAs: part of a ticket's policy.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// What is demanded.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Checks again the chain that a resumed session carries, the client's own certificate first; empty when the client
    /// had none.
    ///
    /// rustls takes a resumed client's certificate from the ticket as it was, and gives out a new ticket each time: without
    /// this a certificate that expired would go on being good for as long as its owner comes back in time.
    ///
    /// **Errors**: as at a full handshake; the client caused them.
    ///
    /// **Cost**: one signature verification for each certificate up to the CA; with P-256 about 0.1 ms each.
    pub fn check_again(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), rustls::Error> {
        let Some((own, intermediates)) = chain.split_first() else {
            return match self.demand {
                Demand::Request => Ok(()),
                Demand::Require => Err(rustls::Error::NoCertificatesPresented),
            };
        };
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now = UnixTime::since_unix_epoch(since);
        self.verifier.verify_client_cert(own, intermediates, now).map(|_| ())
    }
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificates").field("demand", &self.demand).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
