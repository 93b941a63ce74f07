//! Notes for the operator about a file of CAs: certificates in it that admit no client, or admit one unexpectedly.
//!
//! In: the certificates of the file, and the revocation lists. Out: findings.

use std::path::Path;
use std::sync::Arc;

use super::Named;
use handfast_pki::finding::{Finding, Reason};
use handfast_pki::parsed::Parsed;
use handfast_pki::presented::Standing;
use handfast_pki::revocation::List;
use handfast_pki::unix_time::date;

/// Oddities of certificates in the file.
pub(super) fn report_oddities(certificates: &[Named], file: &Path, now: i64, findings: &mut Vec<Finding>) {
    let has_only_leaves = !certificates.iter().any(|named| named.good_for() != Standing::Leaf);
    for named in certificates {
        let parsed = &named.parsed;
        let subject = &parsed.subject;
        match named.good_for() {
            Standing::Authority => {
                // webpki does not look at the dates of trusted certificates (RFC 5280 §6.1.1 (d) leaves it open).
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
                if !named.exact {
                    let message = format!(
                        "{subject:?} is no CA certificate: a client with exactly this certificate is let in, and none that it signed"
                    );
                    findings.push(Finding::warning(Reason::UnusedAuthority, file, message));
                }
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
                let finding = if has_only_leaves {
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

/// Names the CAs that have no revocation list, where others have one. Not those that signed another CA of the file: they
/// sign clients themselves seldom, and if they do, the refusal gives the reason.
pub(super) fn report_missing_lists(
    authorities: &[&Parsed],
    lists: &[Arc<List>],
    file: &Path,
    findings: &mut Vec<Finding>,
) {
    for parsed in authorities {
        let has_list = lists.iter().any(|list| list.is_of(&parsed.der));
        let signs_another = authorities
            .iter()
            .any(|other| other.issuer_der == parsed.subject_der && other.subject_der != parsed.subject_der);
        if !has_list && !signs_another {
            let message = format!(
                "the CA {:?} has no revocation list: clients that it signed are refused",
                parsed.subject
            );
            let finding = Finding::warning(Reason::NoRevocationList, file, message);
            findings.push(finding.hint(
                "name its list in `crl`; or write `crl-missing = \"accept\"`, and they cannot be revoked",
            ));
        }
    }
}
