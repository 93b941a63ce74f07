//! Whose client certificates are good.
//!
//! In: a PEM file of CA certificates, and whether a client may come without. Out: a verifier for rustls, a fingerprint
//! for tickets, and a second look at clients that resume. What is good is decided in `presented.rs`. Revocation lists
//! are not read.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{Context, SHA256, digest};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::finding::{Finding, Reason};
use crate::key_kind::KeyKind;
use crate::load::{TrustFile, unix_seconds};
use crate::parsed::{Parsed, date};
use crate::presented::{Authorities, Keys, Peer, Refusal, Standing, standing};
use crate::read::FileStamp;
use crate::weak::{Lists, Weakness};

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
    verifier: Arc<Verifier>,
    fingerprint: [u8; 32],
    demand: Demand,
}

/// Which weaknesses of keys are looked for: another text when there are more, so that older tickets are good no longer.
const KEYS_LOOKED_INTO: &[u8] = b"weak keys 1";

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
///
/// Keys on the lists `known_keys` are refused, of the CAs and of clients.
pub fn load(
    authorities: &Path,
    demand: Demand,
    known_keys: &Arc<Lists>,
    now: SystemTime,
) -> LoadedAuthorities {
    let mut file = TrustFile::read(authorities, "the CAs that sign clients' certificates");
    if file.has_key {
        let message = "holds a private key, which is not used here";
        let finding = Finding::warning(Reason::UnusedSection, authorities, message);
        file.findings.push(finding.hint("a CA's key has no business on a server: take it away"));
    }
    let certificates: Vec<_> = std::mem::take(&mut file.certificates)
        .into_iter()
        .map(|parsed| Named::new(parsed, known_keys))
        .collect();
    say_doubts(&certificates, authorities, unix_seconds(now), &mut file.findings);
    let rule = rule(&certificates, demand, known_keys, authorities, &mut file.findings);
    LoadedAuthorities {
        rule: rule.filter(|_| file.is_usable()),
        findings: file.findings,
        files_read: file.files_read,
        folders: file.folders,
    }
}

/// A certificate of the file, and what is known of its key.
struct Named {
    parsed: Parsed,
    weakness: Option<Weakness>,
}

impl Named {
    fn new(parsed: Parsed, known_keys: &Lists) -> Self {
        let weakness = parsed.weakness(known_keys);
        Self { parsed, weakness }
    }

    /// What it is good for; `Leaf` for what is good for nothing.
    fn good_for(&self) -> Standing {
        // No signature by such a key is accepted, nor one by a key of a kind that is not known here.
        if self.weakness.is_some() || matches!(self.parsed.kind, KeyKind::Unusable(_)) {
            return Standing::Leaf;
        }
        standing(&self.parsed.der).unwrap_or(Standing::Leaf)
    }

    /// Why it is good for nothing.
    fn unusable(&self) -> String {
        match (&self.weakness, self.parsed.kind) {
            (Some(weakness), _) => format!("has a key that {weakness} ({})", weakness.why()),
            (None, KeyKind::Unusable(kind)) => format!("has a key that cannot be used here, {kind}"),
            _ => "is no CA certificate".to_owned(),
        }
    }
}

fn say_doubts(certificates: &[Named], file: &Path, now: i64, findings: &mut Vec<Finding>) {
    let nobody_else = !certificates.iter().any(|named| named.good_for() != Standing::Leaf);
    for named in certificates {
        let parsed = &named.parsed;
        let subject = &parsed.subject;
        match named.good_for() {
            Standing::Authority => {
                // webpki does not look at the dates of what it is told to trust (RFC 5280 §6.1.1 (d) leaves it open).
                if now > parsed.not_after {
                    let message = format!(
                        "the CA {subject:?} expired on {}; clients' certificates it signed are accepted nevertheless",
                        date(parsed.not_after)
                    );
                    let finding = Finding::warning(Reason::Expired, file, message);
                    findings.push(finding.hint("take it out to refuse them"));
                }
            }
            Standing::Itself => {
                let message = format!(
                    "{subject:?} is no CA certificate: a client with exactly this certificate is let in, and nobody it signs"
                );
                findings.push(Finding::warning(Reason::UnusedAuthority, file, message));
                if now > parsed.not_after {
                    let message = format!(
                        "the client certificate {subject:?} expired on {}, and is refused",
                        date(parsed.not_after)
                    );
                    findings.push(Finding::warning(Reason::Expired, file, message));
                }
            }
            Standing::Leaf => {
                let message = format!("{subject:?} {}: no client is let in by it", named.unusable());
                let finding = if nobody_else {
                    Finding::error(Reason::UnusedAuthority, file, message)
                } else {
                    Finding::warning(Reason::UnusedAuthority, file, message)
                };
                findings
                    .push(finding.hint("name the certificate of the CA that signs clients' certificates"));
            }
        }
    }
}

fn rule(
    certificates: &[Named],
    demand: Demand,
    known_keys: &Arc<Lists>,
    file: &Path,
    findings: &mut Vec<Finding>,
) -> Option<ClientCertificates> {
    let algorithms = default_provider().signature_verification_algorithms;
    let mut trusted = Authorities::new(algorithms).refusing(Arc::clone(known_keys));
    let mut subjects = Vec::new();
    for named in certificates {
        let (parsed, standing) = (&named.parsed, named.good_for());
        if standing == Standing::Leaf {
            continue;
        }
        // Who presents a certificate of the file itself has its key, and needs nobody to vouch for that.
        if parsed.is_self_issued() {
            trusted.pin(&parsed.der);
        }
        if standing == Standing::Authority
            && let Err(error) = trusted.add(&parsed.der)
        {
            let message = format!("the CA certificate of {:?} cannot be used: {error}", parsed.subject);
            findings.push(Finding::error(Reason::BadCertificate, file, message));
        }
        let subject = DistinguishedName::from(parsed.subject_der.to_vec());
        if !subjects.iter().any(|known: &DistinguishedName| known.as_ref() == subject.as_ref()) {
            subjects.push(subject);
        }
    }
    if trusted.is_empty() {
        // A finding has said so.
        return None;
    }
    let verifier = Arc::new(Verifier { trusted, subjects, demand, algorithms });
    Some(ClientCertificates { verifier, fingerprint: fingerprint(certificates, known_keys, demand), demand })
}

/// What rustls asks about clients.
#[derive(Debug)]
struct Verifier {
    trusted: Authorities,
    /// Told to clients, who choose among their certificates by them.
    subjects: Vec<DistinguishedName>,
    demand: Demand,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn check(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        keys: Keys,
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.trusted.check(Peer::Client, own, intermediates, keys, now).map_err(Refusal::noted)?;
        Ok(ClientCertVerified::assertion())
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.demand == Demand::Require
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates, Keys::New, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.check_signature(false, message, certificate, signed)?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.check_signature(true, message, certificate, signed)?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The same for the same set of CAs, in whatever order and however often they are written.
fn fingerprint(certificates: &[Named], known_keys: &Lists, demand: Demand) -> [u8; 32] {
    let hashes: BTreeSet<Vec<u8>> =
        certificates.iter().map(|named| digest(&SHA256, &named.parsed.der).as_ref().to_vec()).collect();
    let mut context = Context::new(&SHA256);
    context.update(match demand {
        Demand::Request => b"request",
        Demand::Require => b"require",
    });
    // Keys are looked into once, in the handshake that a ticket goes back to: the ticket says against what.
    context.update(KEYS_LOOKED_INTO);
    context.update(known_keys.fingerprint());
    hashes.iter().for_each(|hash| context.update(hash));
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(context.finish().as_ref());
    fingerprint
}

impl ClientCertificates {
    /// The verifier for rustls.
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::<Verifier>::clone(&self.verifier)
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
    /// **Cost**: one signature verification for each certificate up to the CA, with P-256 0.03 ms each; below 5 ms
    /// whatever the chain. Keys are not looked into again: the ticket is only good where the same would be looked for.
    pub fn check_again(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), Error> {
        let Some((own, intermediates)) = chain.split_first() else {
            return match self.demand {
                Demand::Request => Ok(()),
                Demand::Require => Err(Error::NoCertificatesPresented),
            };
        };
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now = UnixTime::since_unix_epoch(since);
        self.verifier.check(own, intermediates, Keys::Known, now).map(|_| ())
    }
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificates").field("demand", &self.demand).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
