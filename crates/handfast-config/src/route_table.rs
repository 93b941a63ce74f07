//! Finds the route of a client in a service. Pure: the same ClientHello gives the same result.
//!
//! In: the name and the protocols that the hello offers. Out: the index of the route, and why it was chosen.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::model::ServiceRule;

/// The name of a rule that fits every client that sends a name.
pub(crate) const ANY_NAME: &str = "*";

/// The rules of a service, ready to be searched by the name and the protocols of a hello.
#[derive(Debug, Default)]
pub struct RouteTable {
    exact: HashMap<Box<str>, Candidates<Box<[u8]>>>,
    /// Rules by the part of the pattern after `*.`.
    wildcard: HashMap<Box<str>, Candidates<Box<[u8]>>>,
    /// Rules for [`ANY_NAME`].
    named: Candidates<Box<[u8]>>,
    /// Rules without names: for clients with any name, and with none.
    any: Candidates<Box<[u8]>>,
}

/// The rules of one name, by the protocol that a client must offer. A hello can offer many protocols, so each costs one search.
#[derive(Debug)]
struct Candidates<P> {
    by_protocol: BTreeMap<P, Candidate>,
    /// For clients that offer any protocol, or none.
    always: Option<Candidate>,
}

/// A rule under one of its names.
#[derive(Clone, Debug)]
struct Candidate {
    route: usize,
    reason: Rc<str>,
}

impl<P> Default for Candidates<P> {
    fn default() -> Self {
        Self { by_protocol: BTreeMap::new(), always: None }
    }
}

impl<P: Ord> Candidates<P> {
    /// Adds a rule after those that are here. A client must offer one of `protocols`, if there are any.
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

    fn routes(&self) -> impl Iterator<Item = usize> {
        self.by_protocol.values().chain(&self.always).map(|candidate| candidate.route)
    }

    /// The first rule that matches a client with these protocols.
    fn first<'c, Q: Ord + ?Sized + 'c>(&self, offered: impl Iterator<Item = &'c Q>) -> Option<&Candidate>
    where
        P: Borrow<Q>,
    {
        let matching = offered.filter_map(|protocol| self.by_protocol.get(protocol));
        matching.chain(&self.always).min_by_key(|candidate| candidate.route)
    }
}

impl RouteTable {
    /// Builds the table. Where two rules match equally well, the first one decides.
    pub fn new(rules: &[ServiceRule]) -> Self {
        let mut table = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            let candidate = |name: Option<&str>| {
                let protocols = rule.client_alpn.iter().map(String::as_str);
                let conditions: Vec<&str> = name.into_iter().chain(protocols).collect();
                let reason = format!("rule {} ({})", index + 1, conditions.join(", ")).into();
                Candidate { route: index + 1, reason }
            };
            let protocols = || rule.client_alpn.iter().map(|protocol| protocol.as_bytes().into());
            if rule.names.is_empty() {
                table.any.add(candidate(None), protocols());
            }
            for name in &rule.names {
                if name == ANY_NAME {
                    table.named.add(candidate(Some(name)), protocols());
                    continue;
                }
                let (by_name, key) = match name.strip_prefix("*.") {
                    Some(suffix) => (&mut table.wildcard, suffix),
                    None => (&mut table.exact, name.as_str()),
                };
                by_name.entry(key.into()).or_default().add(candidate(Some(name)), protocols());
            }
        }
        table
    }

    /// The index of the route for a client that asks for `name` and offers the protocols `alpn`, and why it is that one. 0 is the
    /// service itself (then there is no reason), 1 its first rule. `name` is in lower case.
    ///
    /// An exact name comes before a wildcard, which matches one label (RFC 9525 §6.3), a wildcard before [`ANY_NAME`], and that before
    /// rules without names.
    ///
    /// **Cost**: at most four searches for each protocol, whatever the number of rules.
    pub fn choose(&self, name: Option<&str>, alpn: &[Box<[u8]>]) -> (usize, Option<&Rc<str>>) {
        let offered = || alpn.iter().map(|protocol| &**protocol);
        let exact = name.and_then(|name| self.exact.get(name)?.first(offered()));
        let wildcard = || self.wildcard.get(name?.split_once('.')?.1)?.first(offered());
        let named = || self.named.first(offered()).filter(|_| name.is_some());
        let candidate = exact.or_else(wildcard).or_else(named).or_else(|| self.any.first(offered()));
        candidate.map_or((0, None), |candidate| (candidate.route, Some(&candidate.reason)))
    }

    /// Returns the index of every route that may be for clients that ask for `name`, whatever protocols they offer. `name` is in lower case.
    pub fn all_for(&self, name: &str) -> Vec<usize> {
        let exact = self.exact.get(name);
        let wildcard = name.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent));
        let mut routes: Vec<usize> = exact.into_iter().chain(wildcard).flat_map(Candidates::routes).collect();
        let mut is_decided = exact.into_iter().chain(wildcard).any(|candidates| candidates.always.is_some());
        // A client that offers none of their protocols gets what the other rules say.
        for others in [&self.named, &self.any] {
            if !is_decided {
                routes.extend(others.routes());
                is_decided = others.always.is_some();
            }
        }
        routes.extend((!is_decided).then_some(0));
        routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(names: &[&str], client_alpn: &[&str]) -> ServiceRule {
        ServiceRule {
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

    fn chosen(table: &RouteTable, name: Option<&str>, alpn: &[&str]) -> (Option<usize>, Option<String>) {
        let alpn: Vec<Box<[u8]>> = alpn.iter().map(|protocol| protocol.as_bytes().into()).collect();
        let (route, reason) = table.choose(name, &alpn);
        (route.checked_sub(1), reason.map(ToString::to_string))
    }

    #[test]
    fn names_find_their_rule() {
        let table = RouteTable::new(&[
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
            assert_eq!(chosen(&table, name, &[]).0, rule, "{name:?}");
        }
    }

    #[test]
    fn a_rule_for_every_name_comes_after_the_others_and_is_not_for_clients_without_one() {
        let table =
            RouteTable::new(&[rule(&["*"], &[]), rule(&["a.example"], &["h2"]), rule(&[], &["imap"])]);
        for (name, alpn, found) in [
            (Some("a.example"), &["h2"][..], Some(1)),
            (Some("a.example"), &[], Some(0)),
            (Some("b.example"), &["imap"], Some(0)),
            (None, &["imap"], Some(2)),
            (None, &[], None),
        ] {
            assert_eq!(chosen(&table, name, alpn).0, found, "{name:?} {alpn:?}");
        }
        assert_eq!(table.all_for("a.example"), [2, 1]);
    }

    #[test]
    fn protocols_choose_among_rules_and_the_reason_is_given() {
        let table = RouteTable::new(&[
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
            let (rule, why) = chosen(&table, name, alpn);
            assert_eq!((rule, why.as_deref().unwrap_or("")), (found, because), "{name:?} {alpn:?}");
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
        for (route, protocol) in protocols("rule", 1_000).into_iter().enumerate() {
            candidates.add(Candidate { route, reason: "".into() }, std::iter::once(protocol));
        }
        let offered = protocols("rulf", handfast_wire::client_hello::MAX_PROTOCOLS);
        COMPARED.set(0);
        assert!(candidates.first(offered.iter()).is_none());
        // A node of the tree has up to 11 entries, and four levels hold 1,000.
        assert!(COMPARED.get() <= 44 * offered.len(), "{} comparisons", COMPARED.get());
        let offered: Vec<Counted> = ["rule7", "rule3"].map(|name| Counted(name.as_bytes().into())).into();
        assert_eq!(candidates.first(offered.iter()).map(|candidate| candidate.route), Some(3));
    }
}
