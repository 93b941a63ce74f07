//! Checks that an OCSP response is about a certificate of ours and from the right responder.
//!
//! In: a response, the chain that is served, the time. Out: between which moments it may be stapled, or why not.
//!
//! | checked against | how |
//! |---|---|
//! | the certificate | serial number, hashes of the issuer's name and key (RFC 6960 §4.1.1) |
//! | its issuer | the issuer's own signature, or that of a responder: a certificate that the issuer itself signed, within its time, for OCSP signing (RFC 6960 §4.2.2.2) |
//! | the time | thisUpdate and nextUpdate (RFC 6960 §4.2.2.1); one without an end is good for a day |
//!
//! Not looked at: whether the responder's certificate is revoked itself, extensions, nonces, and producedAt. Clients hold
//! the response against their own rules.

use aws_lc_rs::digest::{self, digest};
use rustls_pki_types::CertificateDer;

use super::response::{self, Response, Single, Status};
use super::{Staple, StapleError};
use crate::asn1::key_parts;
use crate::der::{SEQUENCE, value};
use crate::outline::Outline;

/// id-kp-OCSPSigning, 1.3.6.1.5.5.7.3.9.
const OCSP_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 9];
/// Maximum lead of the responder's clock over ours, in seconds: the value that OpenSSL's users write (`-validity_period
/// 300`).
const CLOCK_SLACK: i64 = 300;
/// Seconds from thisUpdate for which a response without nextUpdate is good, as Firefox has it (mozilla::pkix): it would never expire, and a
/// revoked backend could show it for ever.
const LIFE_WITHOUT_END: i64 = 86_400;

/// Holds `der` against `chain`, whose first certificate it must be about.
pub(super) fn verify(der: &[u8], chain: &[CertificateDer<'_>], now: i64) -> Result<Staple, StapleError> {
    let response = response::read(der)?;
    let leaf = chain.first().and_then(|own| Outline::read(own)).ok_or(StapleError::OtherCertificate)?;
    judge(&response, &leaf, issuer(&leaf, chain), now)
}

/// Evaluates a response about a certificate and its issuer's signature; without an issuer no signature is checked.
pub(super) fn judge(
    response: &Response<'_>,
    leaf: &Outline<'_>,
    issuer: Option<IssuerKey<'_>>,
    now: i64,
) -> Result<Staple, StapleError> {
    let single = response
        .singles
        .iter()
        .find(|single| is_about(single, leaf, issuer))
        .ok_or(StapleError::OtherCertificate)?;
    if let Some(issuer) = issuer {
        signed_by(response, issuer, now)?;
    }
    // Only now is it the issuer's word.
    match single.status {
        Status::Good => {}
        Status::Revoked(since) => return Err(StapleError::Revoked(since)),
        Status::Unknown => return Err(StapleError::Unknown),
    }
    let next_update = single.next_update.unwrap_or(single.this_update.saturating_add(LIFE_WITHOUT_END));
    if next_update < now {
        return Err(StapleError::Expired(next_update));
    }
    if single.this_update > now.saturating_add(CLOCK_SLACK) {
        return Err(StapleError::NotYet(single.this_update));
    }
    Ok(Staple { next_update, is_verified: issuer.is_some() })
}

/// The CA that issued a certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IssuerKey<'a> {
    /// Its name and its SubjectPublicKeyInfo in DER, both without the header.
    pub(crate) name: &'a [u8],
    pub(crate) key: &'a [u8],
}

/// Certificates of the issuer's name whose keys are tried. A CA that changes its key has two.
const NAMESAKES: usize = 4;

/// The certificate of the chain that issued the first; `None` when it is not sent, and no signature can be checked.
pub(crate) fn issuer<'a>(leaf: &Outline<'_>, chain: &'a [CertificateDer<'_>]) -> Option<IssuerKey<'a>> {
    // One that signed itself is its own issuer.
    let outlines = chain.iter().filter_map(|certificate| Outline::read(certificate));
    let mut namesakes = outlines.filter(|outline| outline.subject == leaf.issuer).take(NAMESAKES);
    let issuer = namesakes.find(|namesake| leaf.parts.is_by(namesake.key))?;
    Some(IssuerKey { name: issuer.subject, key: issuer.key })
}

fn is_about(single: &Single<'_>, leaf: &Outline<'_>, issuer: Option<IssuerKey<'_>>) -> bool {
    let Some(hash) = hash(single.hash) else { return false };
    let is_hash = |of: &[u8], expected: &[u8]| digest(hash, of).as_ref() == expected;
    // The name is hashed with its header, which the outline has left out.
    let name_fits = is_hash(&value(SEQUENCE, leaf.issuer), single.issuer_name);
    let key_fits = issuer
        .is_none_or(|issuer| key_parts(issuer.key).is_some_and(|(_, key)| is_hash(key, single.issuer_key)));
    single.serial == leaf.serial && name_fits && key_fits
}

/// SHA-1 is what certificates are named by in practice (RFC 5019 §2.1.1); nothing rests on it, since the name and the
/// key behind the hashes are our own.
fn hash(identifier: &[u8]) -> Option<&'static digest::Algorithm> {
    Some(match identifier {
        [0x2b, 14, 3, 2, 26] => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1] => &digest::SHA256,
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2] => &digest::SHA384,
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3] => &digest::SHA512,
        _ => return None,
    })
}

/// Checks that the issuer signed it, or a responder that the issuer certified.
fn signed_by(response: &Response<'_>, issuer: IssuerKey<'_>, now: i64) -> Result<(), StapleError> {
    if response.parts.is_by(issuer.key) {
        return Ok(());
    }
    let mut outlines = response.certificates.iter().filter_map(|der| Outline::read(der));
    let made_it = |outline: &Outline<'_>| response.parts.is_by(outline.key);
    let Some(responder) = outlines.find(made_it) else { return Err(StapleError::Signature) };
    let is_made_by_issuer = responder.issuer == issuer.name && responder.parts.is_by(issuer.key);
    if !is_made_by_issuer {
        return Err(StapleError::Responder("its certificate is not signed by the issuer of ours"));
    }
    if !responder.names_purpose(OCSP_SIGNING) {
        return Err(StapleError::Responder("its certificate is not for OCSP signing"));
    }
    let is_in_time = |(from, to): (i64, i64)| (from..=to).contains(&now);
    if !responder.validity().is_some_and(is_in_time) {
        return Err(StapleError::Responder("its certificate is not valid now"));
    }
    Ok(())
}
