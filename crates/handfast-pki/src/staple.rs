//! OCSP responses that go with certificates, so that clients need not ask a responder (RFC 6066 §8, RFC 9846 §4.4.2.1): those that
//! we send, and those that backends send.
//!
//! In: what a file holds, DER or PEM, and the chain that is served. Out: the response in DER and until when it may be
//! stapled, or a [`StapleError`]. Nothing is fetched: a tool of the operator renews the file, and it is read again when it changes.

use rustls_pki_types::CertificateDer;

use crate::outline::Outline;
use crate::pem;
pub use refusal::StapleError;

mod refusal;
mod response;
mod verify;

pub(crate) use verify::{IssuerKey, issuer};

/// Expiry and verification state of a stapled response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staple {
    /// Last second in which it may be stapled, Unix time.
    pub(crate) next_update: i64,
    /// True if its signature was checked: the issuer's certificate is in the chain.
    pub(crate) is_verified: bool,
}

/// Takes the response out of a file's content, and holds it against `chain`. `now` is in Unix seconds.
///
/// **Cost**: two or three signatures verified.
pub(crate) fn read(
    content: &[u8],
    chain: &[CertificateDer<'_>],
    now: i64,
) -> Result<(Vec<u8>, Staple), StapleError> {
    let der = der(content).ok_or(StapleError::Malformed)?;
    let staple = verify::verify(&der, chain, now)?;
    Ok((der, staple))
}

/// Certificates that may come with the response of a peer: the responder's, and perhaps its issuer's. For each one a signature
/// may be verified.
const RESPONDERS: usize = 2;

/// Checks that a peer's OCSP response confirms its certificate `own`, which this CA issued, as good.
///
/// **Errors**: why it does not. **Cost**: four signatures verified at most, usually one or two.
pub(crate) fn check(der: &[u8], own: &[u8], issuer: IssuerKey<'_>, now: i64) -> Result<(), StapleError> {
    let mut response = response::read(der)?;
    response.certificates.truncate(RESPONDERS);
    let leaf = Outline::read(own).ok_or(StapleError::OtherCertificate)?;
    verify::judge(&response, &leaf, Some(issuer), now).map(|_| ())
}

/// The content in DER: as it is, or out of the only section of a PEM text.
fn der(content: &[u8]) -> Option<Vec<u8>> {
    if content.first() == Some(&0x30) {
        return Some(content.to_vec());
    }
    match pem::sections(content).ok()?.as_slice() {
        [only] if only.label == "OCSP RESPONSE" => only.base64(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
