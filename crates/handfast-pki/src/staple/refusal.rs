//! Reasons why an OCSP response is not stapled: the finding for the operator.

use std::fmt;
use std::path::Path;

use crate::finding::{Finding, Reason, Severity};
use crate::unix_time::date;

/// Bytes that a response may have: one by a responder with an ML-DSA-87 key and its certificate has 15 KiB, and every
/// handshake of a client that asks carries it.
pub(super) const MAX_RESPONSE_BYTES: usize = 32 << 10;

/// Reason why a response is not stapled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StapleError {
    /// It is no OCSP response.
    Malformed,
    /// It has this number of bytes.
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
    /// Neither the issuer nor a responder that came with it signed it.
    Signature,
    /// The certificate that signed it lacks the permission.
    Responder(&'static str),
}

impl fmt::Display for StapleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("is not an OCSP response, expected one in DER or PEM"),
            Self::TooLarge(bytes) => {
                write!(f, "has {bytes} bytes, expected an OCSP response of at most {MAX_RESPONSE_BYTES}")
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
            Self::Signature => {
                f.write_str("is signed neither by the certificate's issuer nor by its responder")
            }
            Self::Responder(what) => write!(f, "is signed by a responder that must not: {what}"),
        }
    }
}

impl StapleError {
    /// Returns the instruction for an operator.
    fn hint(self) -> &'static str {
        match self {
            Self::Malformed | Self::TooLarge(_) => {
                "openssl ocsp -issuer issuer.pem -cert web.pem -url … -respout web.pem.ocsp writes one"
            }
            Self::Revoked(_) => "replace the certificate and its key: clients that check refuse it",
            Self::Unknown => "ask the CA; a certificate that was just issued may be known in a few minutes",
            Self::OtherCertificate => "after each renewal of the certificate fetch its response too",
            Self::NotYet(_) => "check the clock",
            Self::Signature | Self::Responder(_) => "fetch it from the CA's own responder",
            Self::Expired(_) | Self::Unsuccessful(_) => "fetch it again, and see why it was not renewed",
        }
    }

    /// Returns the severity at a start. Problems that time alone brings about, or a renewal that replaced the certificate
    /// and not yet its response, must not keep a machine from starting at night.
    pub(super) fn severity(self) -> Severity {
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
