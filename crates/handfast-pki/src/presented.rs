//! Verifies the certificates of a peer: of a client at a server, and of a server at a client.
//!
//! In: trusted certificates; then what a peer sent, before it has proved anything. Out: that it is good, or a
//! [`Refusal`].
//!
//! The peer chooses the input, so the work is bounded for every input: see `path.rs` for the
//! bounds, and `a_hostile_chain_costs_little.rs` for the attacks.

use std::collections::HashMap;
use std::sync::Arc;

use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::EndEntityCert;

use crate::key_kind::KeyKind;
use crate::names::is_for;
use crate::outline::{DNS, Outline};
use crate::revocation::Revocations;
pub use crate::staple::StapleError;
use crate::subject;
use crate::weak::{Lists, PublicKey, RSA_BITS, Weakness};
use bounds::{BYTES, INTERMEDIATES};
use path::{Own, Search};
pub use refusal::{CertificateFault, Peer, Refusal};
pub use stapled::Stapled;
pub use version1::Rewritten;

mod bounds;
mod path;
mod pin;
mod refusal;
mod stapled;
mod version1;

pub use pin::{BadPin, Pin};

/// Earlier check of a path's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// They are new.
    New,
    /// They were accepted in the session's original handshake, by the same lists.
    Known,
}

/// Bits of RSA above which aws-lc's algorithms verify nothing.
const MAX_RSA_BITS: usize = 8192;

/// The CAs and certificates that one side trusts; none yet by default.
#[derive(Debug, Default)]
pub struct Authorities {
    /// By subject, as webpki keeps it: in DER, without the outermost header.
    anchors: HashMap<Box<[u8]>, Vec<TrustAnchor<'static>>>,
    /// Certificates that are trusted directly, with any issuer.
    pinned: Vec<CertificateDer<'static>>,
    /// True if every certificate is valid, by any issuer.
    anything: bool,
    /// Revocation lists of the CAs; `None`: revocation is not checked.
    revocations: Option<Revocations>,
    /// Keys that are compromised.
    known_keys: Arc<Lists>,
}

impl Authorities {
    /// Refuses keys on these lists too.
    pub fn refusing(self, known_keys: Arc<Lists>) -> Self {
        Self { known_keys, ..self }
    }

    /// Trusts certificates that this one, or a CA below it, signed.
    ///
    /// **Errors**: it cannot be read.
    pub fn add(&mut self, certificate: &CertificateDer<'_>) -> Result<(), Refusal> {
        let anchor = webpki::anchor_from_trusted_cert(certificate).map_err(|_| Refusal::Unreadable)?;
        let of_that_name = self.anchors.entry(anchor.subject.as_ref().into()).or_default();
        let anchor = anchor.to_owned();
        if !of_that_name.contains(&anchor) {
            of_that_name.push(anchor);
        }
        Ok(())
    }

    /// Trusts a peer that presents exactly this certificate.
    pub fn pin(&mut self, certificate: &CertificateDer<'_>) {
        if !self.pinned.contains(certificate) {
            self.pinned.push(certificate.clone().into_owned());
        }
    }

    /// Trusts every certificate: its key must not be a weak one, and nothing else counts.
    pub fn trust_anything(&mut self) {
        self.anything = true;
    }

    /// Returns true if every certificate is trusted.
    pub fn trusts_anything(&self) -> bool {
        self.anything
    }

    /// Holds every certificate that is good otherwise against these lists.
    pub fn revoke_by(&mut self, revocations: Revocations) {
        self.revocations = Some(revocations);
    }

    /// Returns true if no certificate is trusted.
    pub fn is_empty(&self) -> bool {
        !self.anything && self.anchors.is_empty() && self.pinned.is_empty()
    }

    fn named(&self, subject: &[u8]) -> &[TrustAnchor<'static>] {
        self.anchors.get(subject).map_or(&[], Vec::as_slice)
    }

    /// Checks the certificate that a peer presents as its own, and those that it sent with it. The peer has still to
    /// prove that the key is its own.
    ///
    /// **Errors**: why it is refused; the peer caused them, or the list of trusted CAs.
    ///
    /// **Cost**: a signature for each certificate of the path, 0.03 ms each with P-256, and a look into each key, 0.01 ms with
    /// P-256 and 0.06 ms with RSA-2048. A hostile peer can cause at most 5 ms, and only with the help of a trusted
    /// CA.
    pub fn check(
        &self,
        peer: Peer,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        keys: Keys,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        self.check_stapled(peer, own, intermediates, keys, now, Stapled::Ignored)
    }

    /// [`Self::check`], and holds the certificate against the OCSP response that came with it.
    ///
    /// **Errors**, **cost**: as there, and four more signatures at most.
    pub fn check_stapled(
        &self,
        peer: Peer,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        keys: Keys,
        now: UnixTime,
        stapled: Stapled<'_>,
    ) -> Result<(), Refusal> {
        if intermediates.len() > INTERMEDIATES {
            return Err(Refusal::TooMany { intermediates: intermediates.len() });
        }
        let bytes = own.len() + intermediates.iter().map(|der| der.len()).sum::<usize>();
        if bytes > BYTES {
            return Err(Refusal::TooLong { bytes });
        }
        let outline = Outline::read(own).ok_or(Refusal::Unreadable)?;
        check_key(&outline, peer)?;
        if self.anything {
            return self.check_weakness(&outline, keys, true);
        }
        if self.pinned.iter().any(|pinned| pinned == own) {
            check_pinned(&outline, peer, now)?;
            if let Some(refusal) = stapled.refusal_of_pinned(own, intermediates, now) {
                return Err(refusal);
            }
            return self.check_weakness(&outline, keys, true);
        }
        let rewritten = Rewritten::of(own);
        if outline.version != 3 && rewritten.is_none() {
            return Err(Refusal::Version(outline.version));
        }
        let readable = rewritten.as_ref().map_or(own, |rewritten| &rewritten.certificate);
        let certificate =
            EndEntityCert::try_from(readable).map_err(|error| Refusal::of_webpki(&error, peer, &outline))?;
        let rewritten = rewritten.as_ref();
        let own = Own { der: own, outline: &outline, certificate: &certificate, rewritten, stapled };
        let above = Search::new(self, peer, now, own, intermediates).run()?;
        self.check_weakness(&outline, keys, true)?;
        above.iter().try_for_each(|authority| self.check_weakness(authority, keys, false))
    }

    /// Checks that a certificate's key is not known to be weak.
    pub fn check_key_of(&self, certificate: &CertificateDer<'_>) -> Result<(), Refusal> {
        let outline = Outline::read(certificate).ok_or(Refusal::Unreadable)?;
        self.check_weakness(&outline, Keys::New, true)
    }

    /// Checks that a key is not known to be weak. Runs last, because it costs more than the other checks: a peer without a
    /// trusted CA is refused before.
    fn check_weakness(&self, whose: &Outline<'_>, keys: Keys, is_own: bool) -> Result<(), Refusal> {
        if keys == Keys::Known {
            return Ok(());
        }
        let key = PublicKey::from_content(whose.key).ok_or(Refusal::Unreadable)?;
        let weakness = key.weaknesses().into_iter().next().or_else(|| self.known_keys.find(&key));
        weakness.map_or(Ok(()), |weakness| Err(Refusal::WeakKey { weakness, is_own }))
    }

    /// Checks that a server's certificate is for this name.
    ///
    /// **Errors**: the names in the certificate. **Source**: RFC 9525 §6; the common name does not count, unless `common_name`
    /// is set and the certificate has no DNS names.
    pub fn check_name(
        own: &CertificateDer<'_>,
        name: &ServerName<'_>,
        common_name: bool,
    ) -> Result<(), Refusal> {
        let outline = Outline::read(own).ok_or(Refusal::Unreadable)?;
        let checked = check_alternative_names(own, &outline, name);
        if checked.is_err() && common_name && !outline.has_names(DNS) {
            return check_common_name(&outline, &name.to_str());
        }
        checked
    }
}

/// The use of a certificate that is configured as trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It vouches for others. One of X.509 version 1 that signed itself does so too, as OpenSSL has it: in that version
    /// nothing could show that.
    Authority,
    /// It signed itself and is no CA: it vouches for itself alone.
    Itself,
    /// It can sign no certificate.
    Leaf,
}

/// The standing of a certificate that is named as trusted; `None` when it cannot be read.
pub fn standing(certificate: &CertificateDer<'_>) -> Option<Standing> {
    let outline = Outline::read(certificate)?;
    Some(match (outline.is_authority, outline.is_self_issued(), outline.version) {
        (true, ..) | (false, true, 1) => Standing::Authority,
        (false, true, _) => Standing::Itself,
        (false, false, _) => Standing::Leaf,
    })
}

/// Checks that one of the alternative names is this one.
fn check_alternative_names(
    own: &CertificateDer<'_>,
    outline: &Outline<'_>,
    name: &ServerName<'_>,
) -> Result<(), Refusal> {
    if outline.version != 3 {
        // Without extensions it has no alternative names; webpki does not read it.
        return Err(Refusal::WrongName { expected: name.to_str().into(), others: Vec::new() });
    }
    let refusal = |error: webpki::Error| Refusal::of_webpki(&error, Peer::Server, outline);
    let certificate = EndEntityCert::try_from(own).map_err(refusal)?;
    certificate.verify_is_valid_for_subject_name(name).map_err(refusal)
}

/// Checks that a common name is this host, or a wildcard for it.
///
/// **Source**: as `X509_check_host` of OpenSSL does it.
fn check_common_name(own: &Outline<'_>, host: &str) -> Result<(), Refusal> {
    let parts = subject::parts(own.subject);
    let names = || parts.iter().filter(|(kind, _)| *kind == subject::COMMON_NAME).map(|(_, name)| name);
    // An address is no name that a wildcard could be for.
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if names().any(|name| if is_address { **name == *host } else { is_for(name, host) }) {
        return Ok(());
    }
    Err(Refusal::WrongName {
        expected: host.into(),
        others: names().map(|name| format!("CN={name}")).collect(),
    })
}

/// Requirements for the peer's own certificate, independent of its issuer.
fn check_key(own: &Outline<'_>, peer: Peer) -> Result<(), Refusal> {
    match KeyKind::of_key(own.key) {
        // Checks that cost nothing come first.
        KeyKind::Rsa(bits) if bits < RSA_BITS => {
            return Err(Refusal::WeakKey { weakness: Weakness::TooSmall { bits }, is_own: true });
        }
        KeyKind::Rsa(bits) if bits > MAX_RSA_BITS => {
            return Err(Refusal::UnknownKey("an RSA key of more than 8192 bits"));
        }
        KeyKind::Unusable(kind) => return Err(Refusal::UnknownKey(kind.of_peer())),
        _ => {}
    }
    // RFC 9846 §4.5.2.2 and RFC 9846 §4.5.2.3; servers are left what other clients leave them.
    if peer == Peer::Client && own.may_sign == Some(false) {
        return Err(Refusal::MayNotSign);
    }
    Ok(())
}

/// Checks the validity and purpose, but no signature, of a certificate that is trusted directly.
fn check_pinned(own: &Outline<'_>, peer: Peer, now: UnixTime) -> Result<(), Refusal> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let (from, to) = own.validity().ok_or(Refusal::Unreadable)?;
    if now > to {
        return Err(Refusal::Expired { since: to, is_own: true });
    }
    if now < from {
        return Err(Refusal::NotYet { until: from, is_own: true });
    }
    // 1.3.6.1.5.5.7.3.1 and .2 (RFC 5280 §4.2.1.12)
    let purpose = match peer {
        Peer::Server => [0x2b, 6, 1, 5, 5, 7, 3, 1],
        Peer::Client => [0x2b, 6, 1, 5, 5, 7, 3, 2],
    };
    if own.is_for(&purpose) { Ok(()) } else { Err(Refusal::WrongPurpose(peer)) }
}

#[cfg(test)]
mod tests;
