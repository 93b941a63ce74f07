//! Hints for a target with which not even one transaction works.
//!
//! In: the request, and how it failed. Out: which option would help. Pure.

use crate::failure::{Rejection, StepFailure};
use crate::plan::Plan;

/// The hint for a target that requires a client certificate. It sends an alert: TLS 1.3 has a specific one
/// (certificate_required, RFC 9846 §6.2), TLS 1.2 has handshake_failure among others; or after the handshake, by HTTP's 400
/// or nginx's own 495 and 496, and by 403.
pub(crate) fn client_certificate(plan: &Plan, failure: &StepFailure) -> Option<&'static str> {
    const SHOW: &str = "the target requires a client certificate: give one with --client-certificate FILE, and its key with --client-key FILE";
    const OTHER: &str = "the target does not accept the certificate of --client-certificate: check which authorities it accepts, and whether the certificate is from one of them, valid, and for clients";
    const PERHAPS: &str = "some servers answer so when they require a client certificate: give one with --client-certificate FILE";
    /// certificate_required (RFC 9846 §6.2).
    const REQUIRED: u8 = 116;
    /// bad_certificate, unsupported_certificate, certificate_revoked, certificate_expired, unknown_ca, certificate_required.
    const ABOUT_OURS: [u8; 6] = [42, 43, 44, 45, 48, REQUIRED];
    let shown = plan.tls.client_certificate.is_some();
    match (failure.rejection?, shown) {
        (Rejection::Alert(alert), true) => ABOUT_OURS.contains(&alert).then_some(OTHER),
        (Rejection::Alert(alert), false) => (alert == REQUIRED).then_some(SHOW),
        (Rejection::Status(status), false) => [400, 403, 495, 496].contains(&status).then_some(PERHAPS),
        (Rejection::Status(_), true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Step;

    #[test]
    fn a_target_that_wants_a_client_certificate_is_reported_by_its_option() {
        let hint = |rejection, shown: bool| {
            let mut plan = Plan::default();
            plan.tls.client_certificate = shown.then(|| ("me.pem".into(), "me.key".into()));
            let failure = StepFailure { rejection: Some(rejection), ..StepFailure::deadline(Step::Exchange) };
            client_certificate(&plan, &failure).unwrap_or_default()
        };
        assert!(hint(Rejection::Alert(116), false).contains("give one with --client-certificate FILE"));
        assert!(hint(Rejection::Alert(116), true).contains("does not accept the certificate"));
        assert!(hint(Rejection::Alert(48), true).contains("does not accept the certificate"));
        assert_eq!(hint(Rejection::Alert(48), false), "");
        assert_eq!(hint(Rejection::Alert(40), true), "", "handshake_failure is about anything");
        assert!(hint(Rejection::Status(400), false).contains("--client-certificate FILE"));
        assert_eq!(hint(Rejection::Status(400), true), "");
        assert_eq!(hint(Rejection::Status(404), false), "");
        assert_eq!(client_certificate(&Plan::default(), &StepFailure::deadline(Step::Exchange)), None);
    }
}
