//! Step 4, route: which rules decide about a client. Pure: the same hello gives the same answer.
//!
//! In: the name and the protocols that the hello asks for. Out: the index of the rule whose policy and backends apply, and why
//! it was chosen. It is chosen with the hello alone and before the handshake, since the policy is part of the answer, and
//! whether there is a handshake at all; connect takes the backends from it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use handfast_tls::session::{Agreed, Verdict};
use handfast_wire::ClientHello;

use crate::config::model::NameRule;
use crate::connection::Connection;
use crate::runtime::Runtime;

/// The exceptions of a service.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    exact: HashMap<Box<str>, Candidates<Box<[u8]>>>,
    /// By what follows the asterisk's dot.
    wildcard: HashMap<Box<str>, Candidates<Box<[u8]>>>,
    /// Of any name, and of none.
    any: Candidates<Box<[u8]>>,
}

/// The rules of one name, by the protocol that a client must offer. A hello may offer many, so that each costs one search.
#[derive(Debug)]
struct Candidates<P> {
    by_protocol: BTreeMap<P, Candidate>,
    /// Whatever the client offers.
    always: Option<Candidate>,
}

/// A rule under one of its names.
#[derive(Clone, Debug)]
struct Candidate {
    rule: usize,
    because: Rc<str>,
}

impl<P> Default for Candidates<P> {
    fn default() -> Self {
        Self { by_protocol: BTreeMap::new(), always: None }
    }
}

impl<P: Ord> Candidates<P> {
    /// Adds a rule, later than those that it has; `protocols`: one of these must be offered, if there are any.
    fn add(&mut self, candidate: Candidate, protocols: impl Iterator<Item = P>) {
        let mut protocols = protocols.peekable();
        if protocols.peek().is_none() {
            self.always.get_or_insert(candidate);
            return;
        }
        for protocol in protocols {
            self.by_protocol.entry(protocol).or_insert_with(|| candidate.clone());
        }
    }

    /// The first rule that fits a client which offers these protocols.
    fn first<'c, Q: Ord + ?Sized + 'c>(&self, offered: impl Iterator<Item = &'c Q>) -> Option<&Candidate>
    where
        P: Borrow<Q>,
    {
        let fitting = offered.filter_map(|protocol| self.by_protocol.get(protocol));
        fitting.chain(&self.always).min_by_key(|candidate| candidate.rule)
    }
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
            let candidate = |name: Option<&str>| {
                let protocols = rule.client_alpn.iter().map(String::as_str);
                let fits: Vec<&str> = name.into_iter().chain(protocols).collect();
                Candidate { rule: index, because: format!("rule {} ({})", index + 1, fits.join(", ")).into() }
            };
            let protocols = || rule.client_alpn.iter().map(|protocol| protocol.as_bytes().into());
            if rule.names.is_empty() {
                sorted.any.add(candidate(None), protocols());
            }
            for name in &rule.names {
                let (table, key) = match name.strip_prefix("*.") {
                    Some(suffix) => (&mut sorted.wildcard, suffix),
                    None => (&mut sorted.exact, name.as_str()),
                };
                table.entry(key.into()).or_default().add(candidate(Some(name)), protocols());
            }
        }
        sorted
    }

    /// The rule for a client that asks for `name`, which is in lower case, and offers the protocols `alpn`; and why it is
    /// that one. An exact name comes before a wildcard, which stands for one label (RFC 9525 §6.3), and that before
    /// rules without names.
    ///
    /// **Cost**: at most three searches for each protocol, whatever the number of rules.
    pub(crate) fn choose(&self, name: Option<&str>, alpn: &[Box<[u8]>]) -> (Choice, Option<&Rc<str>>) {
        let offered = || alpn.iter().map(|protocol| &**protocol);
        let exact = name.and_then(|name| self.exact.get(name)?.first(offered()));
        let covering = || self.wildcard.get(name?.split_once('.')?.1)?.first(offered());
        match exact.or_else(covering).or_else(|| self.any.first(offered())) {
            Some(candidate) => {
                (Choice { rule: Some(candidate.rule), failed: false }, Some(&candidate.because))
            }
            None => (Choice::SERVICE, None),
        }
    }
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

    thread_local! {
        static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// A protocol that counts how often it is compared.
    #[derive(Debug)]
    struct Counted(Box<[u8]>);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted {}

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    /// One hello with 31,000 protocols took a worker 50 ms with 1,000 rules, when each was compared with each.
    #[test]
    fn a_hello_with_many_protocols_costs_few_comparisons_with_many_rules() {
        let protocols = |kind: &str, number: usize| -> Vec<Counted> {
            (0..number).map(|index| Counted(format!("{kind}{index}").into_bytes().into())).collect()
        };
        let mut candidates = Candidates::default();
        for (rule, protocol) in protocols("rule", 1_000).into_iter().enumerate() {
            candidates.add(Candidate { rule, because: "".into() }, std::iter::once(protocol));
        }
        let offered = protocols("rulf", handfast_wire::client_hello::MOST_PROTOCOLS);
        COMPARED.set(0);
        assert!(candidates.first(offered.iter()).is_none());
        // A node of the tree has up to 11 entries, and four levels hold 1,000.
        assert!(COMPARED.get() <= 44 * offered.len(), "{} comparisons", COMPARED.get());
        let offered: Vec<Counted> = ["rule7", "rule3"].map(|name| Counted(name.as_bytes().into())).into();
        assert_eq!(candidates.first(offered.iter()).map(|candidate| candidate.rule), Some(3));
    }
}
