//! Step 4, route: which rules decide about a client. Pure: the same hello gives the same answer.
//!
//! In: the name and the protocols that the hello asks for. Out: the index of the rule whose policy and backends apply, and why
//! it was chosen. It is chosen with the hello alone and before the handshake, since the policy is part of the answer, and
//! whether there is a handshake at all; connect takes the backends from it.

use std::collections::HashMap;
use std::rc::Rc;

use handfast_tls::session::{Agreed, Verdict};
use handfast_wire::ClientHello;

use crate::config::model::NameRule;
use crate::connection::Connection;
use crate::runtime::Runtime;

/// The exceptions of a service.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    exact: HashMap<Box<str>, Vec<Candidate>>,
    /// By what follows the asterisk's dot.
    wildcard: HashMap<Box<str>, Vec<Candidate>>,
    /// Of any name, and of none.
    any: Vec<Candidate>,
}

/// A rule under one of its names.
#[derive(Debug)]
struct Candidate {
    rule: usize,
    /// One of these must be offered, if there are any.
    alpn: Rc<[Box<str>]>,
    because: Rc<str>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Place of the rule among the service's exceptions; `None`: the service's own settings.
    pub(crate) rule: Option<usize>,
    /// Whether the client's certificate failed, and the backends are those of such clients (`failed-to`).
    pub(crate) failed: bool,
}

impl Choice {
    /// Nothing but the service itself decides.
    pub(crate) const SERVICE: Self = Self { rule: None, failed: false };
}

/// Step 4 of a connection: by which rules it goes on. Why is noted for the access log.
pub(crate) fn choose<R: Runtime>(connection: &mut Connection<R>, hello: &ClientHello) -> Choice {
    let account = &mut connection.account;
    let (choice, because) = account.service.rules.choose(hello.server_name.as_deref(), &hello.alpn);
    account.record.rule = because.cloned();
    choice
}

/// What the handshake has changed about it: a client whose certificate failed, and who was not refused for that, is served
/// by the backends for such clients and by no others.
pub(crate) fn after_handshake(choice: Choice, agreed: &Agreed) -> Choice {
    Choice { failed: matches!(agreed.verdict.as_deref(), Some(Verdict::Failed { .. })), ..choice }
}

impl Rules {
    /// Sorts the rules of a service. Where two fit alike, the first one counts.
    pub(crate) fn new(rules: &[NameRule]) -> Self {
        let mut sorted = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            let alpn: Rc<[Box<str>]> =
                rule.client_alpn.iter().map(|protocol| protocol.as_str().into()).collect();
            let candidate = |name: Option<&str>| {
                let fits: Vec<&str> = name.into_iter().chain(alpn.iter().map(|alpn| &**alpn)).collect();
                let because = format!("rule {} ({})", index + 1, fits.join(", ")).into();
                Candidate { rule: index, alpn: Rc::clone(&alpn), because }
            };
            if rule.names.is_empty() {
                sorted.any.push(candidate(None));
            }
            for name in &rule.names {
                let (table, key) = match name.strip_prefix("*.") {
                    Some(suffix) => (&mut sorted.wildcard, suffix),
                    None => (&mut sorted.exact, name.as_str()),
                };
                table.entry(key.into()).or_default().push(candidate(Some(name)));
            }
        }
        sorted
    }

    /// The rule for a client that asks for `name`, which is in lower case, and offers the protocols `alpn`; and why it is
    /// that one. An exact name comes before a wildcard, which stands for one label (RFC 9525 §6.3), and that before
    /// rules without names.
    pub(crate) fn choose(&self, name: Option<&str>, alpn: &[Box<[u8]>]) -> (Choice, Option<&Rc<str>>) {
        let exact = name.and_then(|name| first(self.exact.get(name)?, alpn));
        let covering = || first(self.wildcard.get(name?.split_once('.')?.1)?, alpn);
        match exact.or_else(covering).or_else(|| first(&self.any, alpn)) {
            Some(candidate) => {
                (Choice { rule: Some(candidate.rule), failed: false }, Some(&candidate.because))
            }
            None => (Choice::SERVICE, None),
        }
    }
}

/// The first of some rules that fits a client which offers these protocols.
fn first<'r>(candidates: &'r [Candidate], offered: &[Box<[u8]>]) -> Option<&'r Candidate> {
    let is_offered = |wanted: &str| offered.iter().any(|offered| **offered == *wanted.as_bytes());
    candidates.iter().find(|one| one.alpn.is_empty() || one.alpn.iter().any(|wanted| is_offered(wanted)))
}

#[cfg(test)]
mod tests {
    use handfast_tls::session::CertificateFault;

    use super::*;

    fn rule(names: &[&str], client_alpn: &[&str]) -> NameRule {
        NameRule {
            names: names.iter().map(|name| (*name).into()).collect(),
            client_alpn: client_alpn.iter().map(|protocol| (*protocol).into()).collect(),
            pass_through: None,
            policy: None,
            client_certificates: None,
            alpn: None,
            backends: None,
            backend_tls: None,
        }
    }

    fn chosen(rules: &Rules, name: Option<&str>, alpn: &[&str]) -> (Option<usize>, Option<String>) {
        let alpn: Vec<Box<[u8]>> = alpn.iter().map(|protocol| protocol.as_bytes().into()).collect();
        let (choice, because) = rules.choose(name, &alpn);
        (choice.rule, because.map(ToString::to_string))
    }

    #[test]
    fn names_find_their_rule() {
        let rules = Rules::new(&[
            rule(&["*.example.org", "a.example.net"], &[]),
            rule(&["b.example.org", "a.example.net"], &[]),
        ]);
        for (name, rule) in [
            (None, None),
            (Some("a.example.org"), Some(0)),
            (Some("b.example.org"), Some(1)),
            (Some("a.example.net"), Some(0)),
            (Some("example.org"), None),
            (Some("a.b.example.org"), None),
            (Some("localhost"), None),
        ] {
            assert_eq!(chosen(&rules, name, &[]).0, rule, "{name:?}");
        }
    }

    #[test]
    fn protocols_choose_among_rules_and_the_reason_is_told() {
        let rules = Rules::new(&[
            rule(&["a.example"], &["h2"]),
            rule(&["a.example"], &[]),
            rule(&[], &["acme-tls/1", "imap"]),
            rule(&["*.example"], &["imap"]),
        ]);
        for (name, alpn, found, because) in [
            (Some("a.example"), &["http/1.1", "h2"][..], Some(0), "rule 1 (a.example, h2)"),
            (Some("a.example"), &["http/1.1"], Some(1), "rule 2 (a.example)"),
            (Some("a.example"), &[], Some(1), "rule 2 (a.example)"),
            (Some("b.example"), &["imap"], Some(3), "rule 4 (*.example, imap)"),
            (Some("b.example"), &["acme-tls/1"], Some(2), "rule 3 (acme-tls/1, imap)"),
            (None, &["imap"], Some(2), "rule 3 (acme-tls/1, imap)"),
            (Some("b.example"), &["h2"], None, ""),
            (None, &[], None, ""),
        ] {
            let (rule, why) = chosen(&rules, name, alpn);
            assert_eq!((rule, why.as_deref().unwrap_or("")), (found, because), "{name:?} {alpn:?}");
        }
    }

    #[test]
    fn whose_certificate_failed_is_for_the_backends_of_such_clients() {
        let choice = Choice { rule: Some(3), failed: false };
        let agreed = |verdict: Verdict| Agreed { verdict: Some(Box::new(verdict)), ..Agreed::default() };
        let failed = agreed(Verdict::Failed { fault: CertificateFault::Expired, words: "expired".into() });
        assert_eq!(after_handshake(choice, &failed), Choice { rule: Some(3), failed: true });
        for good in [Agreed::default(), agreed(Verdict::Allowed("any".into()))] {
            assert_eq!(after_handshake(choice, &good), choice);
        }
    }
}
