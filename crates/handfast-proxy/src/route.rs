//! Step 4, route: which rules decide about a client. Pure: the same name gives the same answer.
//!
//! In: the name that the hello asks for. Out: the index of the rule whose policy and backends apply. It is chosen with the
//! hello alone and before the handshake, since the policy is part of the answer; connect takes the backends from it.

use std::collections::HashMap;

use handfast_wire::ClientHello;

use crate::config::model::NameRule;

/// The exceptions of a service by name.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    exact: HashMap<Box<str>, usize>,
    /// By what follows the asterisk's dot.
    wildcard: HashMap<Box<str>, usize>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Place of the rule among the service's exceptions; `None`: the service's own settings.
    pub(crate) rule: Option<usize>,
}

/// Step 4 of a connection: by which rules it goes on.
pub(crate) fn choose(rules: &Rules, hello: &ClientHello) -> Choice {
    rules.choose(hello.server_name.as_deref())
}

impl Rules {
    /// Sorts the rules of a service. Where two have the same name, the first one counts.
    pub(crate) fn new(rules: &[NameRule]) -> Self {
        let mut sorted = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            for name in &rule.names {
                let (table, key) = match name.strip_prefix("*.") {
                    Some(suffix) => (&mut sorted.wildcard, suffix),
                    None => (&mut sorted.exact, name.as_str()),
                };
                table.entry(key.into()).or_insert(index);
            }
        }
        sorted
    }

    /// The rule for a client that asks for `name`, which is in lower case. An exact name comes before a wildcard,
    /// which stands for one label (RFC 9525 §6.3).
    pub(crate) fn choose(&self, name: Option<&str>) -> Choice {
        let rule = name.and_then(|name| {
            let covering = || self.wildcard.get(name.split_once('.')?.1);
            self.exact.get(name).or_else(covering).copied()
        });
        Choice { rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(names: &[&str]) -> NameRule {
        NameRule {
            names: names.iter().map(|name| (*name).into()).collect(),
            policy: None,
            client_certificates: None,
            alpn: None,
            backends: None,
        }
    }

    #[test]
    fn names_find_their_rule() {
        let rules = Rules::new(&[
            rule(&["*.example.org", "a.example.net"]),
            rule(&["b.example.org", "a.example.net"]),
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
            assert_eq!(rules.choose(name), Choice { rule }, "{name:?}");
        }
    }
}
