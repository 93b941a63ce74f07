//! Requirements on the OCSP response that came with a peer's certificate.
//!
//! In: the response, and the CA that issued the certificate. Out: why it is refused. `staple.rs` reads the response.

use rustls_pki_types::{CertificateDer, UnixTime};

use super::refusal::Refusal;
use crate::outline::Outline;
use crate::staple::{self, IssuerKey, StapleError};

/// A response, and the handling of a certificate without a good one.
#[derive(Clone, Copy, Debug)]
pub enum Stapled<'a> {
    /// It is not looked at.
    Ignored,
    /// Revoked certificates are refused.
    Checked {
        /// In DER; empty where none came.
        response: &'a [u8],
        /// True if a good response is required.
        required: bool,
    },
}

impl Stapled<'_> {
    /// Returns the reason why a certificate by this issuer is refused.
    pub(super) fn refusal(self, own: &[u8], issuer: Option<IssuerKey<'_>>, now: UnixTime) -> Option<Refusal> {
        let Self::Checked { response, required } = self else { return None };
        if response.is_empty() {
            return required.then_some(Refusal::NoStaple);
        }
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let issuer = issuer.ok_or(StapleError::Signature);
        match issuer.and_then(|issuer| staple::check(response, own, issuer, now)) {
            Ok(()) => None,
            Err(error @ StapleError::Revoked(_)) => Some(Refusal::Staple(error)),
            Err(error) => required.then_some(Refusal::Staple(error)),
        }
    }

    /// [`Self::refusal`] of a certificate that is trusted itself: its issuer is known only if it came with it.
    pub(super) fn refusal_of_pinned(
        self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Option<Refusal> {
        let Self::Checked { .. } = self else { return None };
        let chain: Vec<CertificateDer<'_>> =
            std::iter::once(own).chain(intermediates).map(|der| CertificateDer::from(&**der)).collect();
        let issuer = Outline::read(own).and_then(|leaf| staple::issuer(&leaf, &chain));
        self.refusal(own, issuer, now)
    }
}
