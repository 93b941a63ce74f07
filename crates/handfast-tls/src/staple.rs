//! OCSP responses that go with certificates, so that clients need not ask anybody (RFC 6066 §8, RFC 9846 §4.4.2.1).
//!
//! In: what a file holds, DER or PEM, and the chain that is served. Out: the response in DER and until when it may be
//! stapled, or a [`Refusal`]. Nothing is fetched: whoever renews the file does, and it is read again when it changes.

use std::fmt;
use std::path::Path;

use rustls_pki_types::CertificateDer;

use crate::finding::{Finding, Reason, Severity};
use crate::pem;
use crate::unix_time::date;

mod response;
mod verify;

/// Bytes that a response may have: one by a responder with an ML-DSA-87 key and its certificate has 15 KiB, and every
/// handshake of a client that asks carries it.
const LARGEST: usize = 32 << 10;

/// What is known of a response that is stapled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staple {
    /// Last second in which it may be stapled, Unix time.
    pub(crate) next_update: i64,
    /// Whether its signature was checked: the issuer's certificate is in the chain.
    pub(crate) is_verified: bool,
}

/// Why a response is not stapled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is no OCSP response.
    Malformed,
    TooLarge(usize),
    /// The responder refused to answer, by this number.
    Unsuccessful(u8),
    /// It is about another certificate.
    OtherCertificate,
    /// The certificate is revoked since then.
    Revoked(i64),
    /// The responder does not know the certificate.
    Unknown,
    /// It was good until then.
    Expired(i64),
    /// It is good from then on.
    NotYet(i64),
    /// It does not say until when it is good.
    WithoutEnd,
    /// Neither the issuer nor a responder that came with it signed it.
    Signature,
    /// Who signed it may not.
    Responder(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("is not an OCSP response, expected one in DER or PEM"),
            Self::TooLarge(bytes) => {
                write!(f, "has {bytes} bytes, expected an OCSP response of at most {LARGEST}")
            }
            Self::Unsuccessful(status) => {
                let word = match status {
                    1 => "malformedRequest",
                    2 => "internalError",
                    3 => "tryLater",
                    5 => "sigRequired",
                    6 => "unauthorized",
                    _ => "a number that is not known",
                };
                write!(f, "is the responder's refusal to answer ({status}, {word}), expected a response")
            }
            Self::OtherCertificate => f.write_str("is about another certificate than the one that is served"),
            Self::Revoked(since) => {
                write!(f, "says that the certificate was revoked on {}", date(*since))
            }
            Self::Unknown => {
                f.write_str("says that the responder does not know the certificate (status unknown)")
            }
            Self::Expired(since) => write!(f, "expired on {}", date(*since)),
            Self::NotYet(from) => write!(f, "is valid only from {}", date(*from)),
            Self::WithoutEnd => {
                f.write_str("does not say until when it is good (no nextUpdate), so it would never expire")
            }
            Self::Signature => {
                f.write_str("is signed neither by the certificate's issuer nor by its responder")
            }
            Self::Responder(what) => write!(f, "is signed by a responder that may not: {what}"),
        }
    }
}

impl Refusal {
    /// What an operator does about it.
    fn hint(self) -> &'static str {
        match self {
            Self::Malformed | Self::TooLarge(_) => {
                "openssl ocsp -issuer issuer.pem -cert web.pem -url … -respout web.pem.ocsp writes one"
            }
            Self::Revoked(_) => "replace the certificate and its key: clients that check refuse it",
            Self::Unknown => "ask the CA; a certificate that was just issued may be known in a few minutes",
            Self::OtherCertificate => "after each renewal of the certificate fetch its response too",
            Self::NotYet(_) => "check the clock",
            Self::WithoutEnd | Self::Signature | Self::Responder(_) => "fetch it from the CA's own responder",
            Self::Expired(_) | Self::Unsuccessful(_) => "fetch it again, and see why it was not renewed",
        }
    }

    /// What a start makes of it. What time alone brings about, or a renewal that replaced the certificate and not yet its
    /// response, must not keep a machine from starting at night.
    fn severity(self) -> Severity {
        match self {
            Self::OtherCertificate | Self::Expired(_) | Self::NotYet(_) => Severity::Warning,
            _ => Severity::Error,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Malformed
            | Self::TooLarge(_)
            | Self::Unsuccessful(_)
            | Self::WithoutEnd
            | Self::Signature
            | Self::Responder(_) => Reason::BadStaple,
            Self::OtherCertificate => Reason::StapleOfOther,
            Self::Revoked(_) | Self::Unknown => Reason::Revoked,
            Self::Expired(_) => Reason::StapleExpired,
            Self::NotYet(_) => Reason::StapleNotYetValid,
        }
    }

    /// The finding for a file.
    pub(crate) fn finding(self, file: &Path) -> Finding {
        let message = format!("{self}; it is not stapled");
        Finding::new(self.severity(), self.reason(), file, message).hint(self.hint())
    }
}

/// Takes the response out of a file's content, and holds it against `chain`. `now` is in Unix seconds.
///
/// **Cost**: two or three signatures verified.
pub(crate) fn read(
    content: &[u8],
    chain: &[CertificateDer<'_>],
    now: i64,
) -> Result<(Vec<u8>, Staple), Refusal> {
    let der = der(content).ok_or(Refusal::Malformed)?;
    if der.len() > LARGEST {
        return Err(Refusal::TooLarge(der.len()));
    }
    let staple = verify::verify(&der, chain, now)?;
    Ok((der, staple))
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
