//! What is asked of clients' certificates, in sentences.

use handfast_tls::client_certificates::{Demand, Rule};

use super::phrases::{backend, list};
use crate::model::{ClientCertificates, ClientChecks};

/// Which clients a service admits: a sentence for each requirement.
pub(super) fn sentences(rule: &ClientCertificates) -> Vec<String> {
    let Some((demand, checks)) = rule.checks() else { return vec!["lets every client in".to_owned()] };
    let ca = checks.ca.display();
    let whom = match demand {
        Demand::Request => {
            format!("lets in clients without a certificate, and those with one signed by {ca}")
        }
        Demand::Require => format!("lets in only clients with a certificate signed by {ca}"),
    };
    let mut sentences = vec![whom];
    sentences.extend(revocation(checks));
    if !checks.rules.refuse.is_empty() {
        sentences.push(format!("refuses clients with {}", rules(&checks.rules.refuse)));
    }
    if !checks.rules.allow.is_empty() {
        sentences.push(format!(
            "lets in, of clients with a certificate, only those with {}",
            rules(&checks.rules.allow)
        ));
    }
    if let Some(backends) = &checks.failed_to {
        let backends = list(backends.iter().map(backend));
        sentences.push(format!(
            "serves clients whose certificate fails from {backends}, instead of refusing them"
        ));
    }
    sentences
}

fn revocation(checks: &ClientChecks) -> Option<String> {
    if checks.crl.is_empty() {
        return None;
    }
    let places = list(checks.crl.iter().map(|path| path.display().to_string()));
    let lenience = match (checks.lenience.accept_expired, checks.lenience.accept_missing) {
        (false, false) => "those whose CA has no list, or an expired one",
        (false, true) => "those whose CA has an expired list",
        (true, false) => "those whose CA has no list",
        (true, true) => {
            return Some(format!("refuses certificates that the revocation lists of {places} name"));
        }
    };
    Some(format!("refuses certificates that the revocation lists of {places} name, and {lenience}"))
}

fn rules(rules: &[Rule]) -> String {
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    match rules.as_slice() {
        [only] => only.clone(),
        rules => rules.join(" or "),
    }
}
