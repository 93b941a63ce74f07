//! Cures for a target with which not even one transaction works.
//!
//! In: what was asked for, and how it failed. Out: which option would help. Pure.

use crate::cause::Cause;
use crate::plan::Plan;
use crate::trouble::Trouble;

/// The cure for a target that wants to know who we are. It says so by an alert: TLS 1.3 has one of its own
/// (certificate_required, RFC 9846 §6.2), TLS 1.2 has handshake_failure among others; or after the handshake, by HTTP's 400
/// or nginx's own 495 and 496, and by 403.
pub(crate) fn client_certificate(plan: &Plan, trouble: &Trouble) -> Option<&'static str> {
    const SHOW: &str = "the target wants a client certificate: --client-certificate FILE shows one, and --client-key FILE has its key";
    const OTHER: &str = "the target does not accept the certificate that --client-certificate shows: check which authorities it accepts, and whether the certificate is of one of them, valid, and for clients";
    const PERHAPS: &str =
        "some servers answer so when they want a client certificate: --client-certificate FILE shows one";
    let shown = plan.tls.client_certificate.is_some();
    let says = |word: &str| trouble.detail.contains(word);
    if trouble.cause == Cause::Alert {
        const ABOUT_OURS: [&str; 6] = [
            "certificate_required",
            "bad_certificate",
            "unsupported_certificate",
            "certificate_revoked",
            "certificate_expired",
            "unknown_ca",
        ];
        return match shown {
            true => ABOUT_OURS.iter().any(|word| says(word)).then_some(OTHER),
            false => says("certificate_required").then_some(SHOW),
        };
    }
    let refused =
        ["answered 400", "answered 403", "answered 495", "answered 496"].iter().any(|word| says(word));
    (trouble.cause == Cause::HttpStatus && refused && !shown).then_some(PERHAPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::Step;

    #[test]
    fn a_target_that_wants_a_client_certificate_is_told_by_its_option() {
        let hint = |cause, detail: &str, shown: bool| {
            let mut plan = Plan::default();
            plan.tls.client_certificate = shown.then(|| ("me.pem".into(), "me.key".into()));
            let trouble = Trouble::new(Step::Exchange, cause, detail);
            client_certificate(&plan, &trouble).unwrap_or_default()
        };
        let required = "alert certificate_required (116)";
        assert!(hint(Cause::Alert, required, false).contains("--client-certificate FILE shows one"));
        assert!(hint(Cause::Alert, required, true).contains("does not accept the certificate"));
        assert!(
            hint(Cause::Alert, "alert unknown_ca (48)", true).contains("does not accept the certificate")
        );
        assert_eq!(hint(Cause::Alert, "alert unknown_ca (48)", false), "");
        let page = "the target answered 400 Bad Request";
        assert!(hint(Cause::HttpStatus, page, false).contains("--client-certificate FILE"));
        assert_eq!(hint(Cause::HttpStatus, page, true), "");
        assert_eq!(hint(Cause::HttpStatus, "the target answered 404 Not Found", false), "");
    }
}
