//! Step 4, route: which rules decide about a client, and because of what. Pure: the same name gives the same answer.
//!
//! In: the name that the hello asks for. Out: the index of the rule whose policy and backends apply. The handshake asks
//! with the hello alone, since the policy is part of the answer; the connection takes the backends from it later.

use std::collections::HashMap;

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
    /// Why.
    pub(crate) because: Because,
}

/// Why a rule was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Because {
    /// The client named nothing.
    NoName,
    /// The rule has this very name.
    Exact,
    /// The rule has a wildcard that covers it.
    Wildcard,
    /// No rule has it.
    NoRule,
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
        let Some(name) = name else { return Choice { rule: None, because: Because::NoName } };
        if let Some(rule) = self.exact.get(name) {
            return Choice { rule: Some(*rule), because: Because::Exact };
        }
        let covering = name.split_once('.').and_then(|(_, suffix)| self.wildcard.get(suffix));
        match covering {
            Some(rule) => Choice { rule: Some(*rule), because: Because::Wildcard },
            None => Choice { rule: None, because: Because::NoRule },
        }
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
        for (name, rule, because) in [
            (None, None, Because::NoName),
            (Some("a.example.org"), Some(0), Because::Wildcard),
            (Some("b.example.org"), Some(1), Because::Exact),
            (Some("a.example.net"), Some(0), Because::Exact),
            (Some("example.org"), None, Because::NoRule),
            (Some("a.b.example.org"), None, Because::NoRule),
            (Some("localhost"), None, Because::NoRule),
        ] {
            assert_eq!(rules.choose(name), Choice { rule, because }, "{name:?}");
        }
    }
}
