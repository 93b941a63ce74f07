//! The check of a peer's certificate, as rustls takes its result.
//!
//! In: a [`Refusal`], or the signature of a handshake. Out: an error for rustls. rustls derives the alert from its error, and all
//! errors with our text mean `certificate_unknown`. So it receives the error with the right alert, and `side_channels.rs` keeps the
//! message until the failed step returns.

use handfast_pki::algorithms;
use handfast_pki::presented::{Refusal, Rewritten, StapleError};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, Error};
use rustls_pki_types::CertificateDer;

use crate::side_channels;

/// Checks that a handshake of TLS 1.2 or 1.3 was signed with the certificate's key.
pub(crate) fn check_signature(
    is_tls13: bool,
    message: &[u8],
    own: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<(), Error> {
    let verify = if is_tls13 { verify_tls13_signature } else { verify_tls12_signature };
    // The key alone counts here, and rustls reads no other version.
    let rewritten = Rewritten::of(own);
    let own = rewritten.as_ref().map_or(own, |rewritten| &rewritten.certificate);
    match verify(message, own, signed, &algorithms()) {
        Ok(_) => Ok(()),
        Err(Error::InvalidCertificate(_)) => Err(refuse(Refusal::NotItsKey)),
        Err(error) => Err(error),
    }
}

/// Notes why a peer's certificate is refused, and returns the error that makes rustls send the right alert.
pub(crate) fn refuse(refusal: Refusal) -> Error {
    let error = error_of(&refusal);
    side_channels::set_refusal(refusal);
    error.into()
}

/// Returns the error of rustls that makes the alert: by RFC 9846 §6.2, and where that leaves it open, as OpenSSL has it.
fn error_of(refusal: &Refusal) -> CertificateError {
    use Refusal as R;
    match refusal {
        // bad_certificate. For weak hashes RFC 9846 §4.5.2.4 requires it.
        R::TooMany { .. }
        | R::TooLong { .. }
        | R::TooMuchWork
        | R::TooManyNames { .. }
        | R::Unreadable
        | R::WeakKey { .. }
        | R::WeakSignature(_)
        | R::BadSignature
        | R::Overreached(_)
        | R::WrongName { .. }
        | R::NotPinned { .. }
        | R::Other(_) => CertificateError::BadEncoding,
        // unsupported_certificate
        R::Version(_)
        | R::UnknownKey(_)
        | R::UnknownSignature
        | R::MayNotSign
        | R::Authority
        | R::WrongPurpose(_) => CertificateError::InvalidPurpose,
        // certificate_expired, which is that of one that is not valid yet too
        R::Expired { .. } | R::NotYet { .. } => CertificateError::Expired,
        // unknown_ca
        R::UnknownIssuer(_) | R::SelfSigned(_) => CertificateError::UnknownIssuer,
        // certificate_revoked
        R::Revoked { .. } | R::Staple(StapleError::Revoked(_)) => CertificateError::Revoked,
        // bad_certificate_status_response
        R::Staple(_) | R::NoStaple => CertificateError::InvalidOcspResponse,
        // certificate_expired, and unknown_ca
        R::ListExpired { .. } => CertificateError::Expired,
        R::NoList { .. } => CertificateError::UnknownRevocationStatus,
        // access_denied: "a valid certificate … was received, but when access control was applied, the sender decided
        // not to proceed"
        R::ByRule(_) | R::NotAllowed(_) => CertificateError::ApplicationVerificationFailure,
        // decrypt_error
        R::NotItsKey => CertificateError::BadSignature,
    }
}
