//! The way clients are served (TLS that ends here, passed through, or plain text), and the keys that have no effect with it.

use crate::check::{no_effect, no_effect_of_section};
use crate::keys;
use crate::model::{Clients, ServiceRule};
use crate::schema::{Entry, Section};
use crate::table::Table;

/// Keys of a service about TLS that ends here, each with the keys of a rule that replace it for the rule's clients.
const TERMINATION_KEYS: &[(&dyn Entry, &[&dyn Entry])] = &[
    (&keys::CERTIFICATE, &[]),
    (&keys::CERTIFICATE_KEY, &[]),
    (&keys::UNKNOWN_NAME, &[]),
    (&keys::POLICY, &[&keys::RULE_POLICY]),
    (&keys::VERSIONS, &[&keys::RULE_POLICY, &keys::VERSIONS]),
    (&keys::SUITES, &[&keys::RULE_POLICY, &keys::SUITES]),
    (&keys::GROUPS, &[&keys::RULE_POLICY, &keys::GROUPS]),
    (&keys::ALPN, &[&keys::RULE_ALPN]),
    (&keys::MISSING_CLOSE_NOTIFY, &[]),
];

/// The same for sections. TLS towards the backends is one of them: what is passed through is encrypted already.
const SECTIONS_OF_TERMINATION: &[(&Section, Option<&Section>)] = &[
    (&keys::CLIENT_CERTIFICATES, Some(&keys::RULE_CLIENT_CERTIFICATES)),
    (&keys::BACKEND_TLS, Some(&keys::RULE_BACKEND_TLS)),
    (&keys::SERVICE_TICKETS, None),
];

/// Keys about the TLS that clients of any service but a plain one speak.
const CLIENT_TLS_KEYS: &[&dyn Entry] =
    &[&keys::PASS_THROUGH, &keys::PLAIN_HTTP, &keys::STARTTLS, &keys::STARTTLS_NAME];

/// The way a service serves clients that match no rule.
pub(super) fn of(section: &Table<'_>) -> Clients {
    let passed_through = section.or_default(&keys::PASS_THROUGH);
    if section.or_default(&keys::CLIENT_TLS) {
        return if passed_through { Clients::PassedThrough } else { Clients::Tls };
    }
    let why = "clients speak plain text here (`client-tls = false`)";
    no_effect(
        section,
        TERMINATION_KEYS.iter().map(|(key, _)| *key).chain(CLIENT_TLS_KEYS.iter().copied()),
        why,
    );
    for inner in [&keys::CLIENT_CERTIFICATES, &keys::SERVICE_TICKETS, &keys::RULE] {
        no_effect_of_section(section, inner, why);
    }
    Clients::Plain
}

/// Returns true if the TLS of some clients ends here.
pub(super) fn terminate(clients: Clients, rules: &[ServiceRule]) -> bool {
    match clients {
        Clients::Plain => false,
        Clients::Tls => true,
        Clients::PassedThrough => rules.iter().any(|rule| rule.pass_through == Some(false)),
    }
}

/// Reports keys that have no effect where clients are passed through: those that no rule with `pass-through = false` inherits.
pub(super) fn check_service(section: &Table<'_>, clients: Clients, rules: &[Table<'_>]) {
    if clients != Clients::PassedThrough {
        return;
    }
    let terminates = |rule: &&Table<'_>| {
        rule.item(&keys::RULE_PASS_THROUGH).and_then(|item| item.value.as_bool()) == Some(false)
    };
    let terminating: Vec<_> = rules.iter().filter(terminates).collect();
    let why = if terminating.is_empty() {
        "the TLS of clients is passed through (`pass-through = true`)"
    } else {
        "clients are passed through (`pass-through = true`), and each rule whose TLS ends here has its own"
    };
    for (key, replacing) in TERMINATION_KEYS {
        if terminating.iter().all(|rule| replacing.iter().any(|own| rule.written(*own).is_some())) {
            no_effect(section, [*key], why);
        }
    }
    for (inner, replacing) in SECTIONS_OF_TERMINATION {
        if terminating.iter().all(|rule| replacing.is_some_and(|own| rule.span_of(own).is_some())) {
            no_effect_of_section(section, inner, why);
        }
    }
    let what = "clients do not speak TLS with Handfast here: it is passed through (`pass-through = true`)";
    no_effect(section, [&keys::STARTTLS as &dyn Entry, &keys::STARTTLS_NAME], what);
}

/// Reports keys of a rule that have no effect because its clients are passed through.
pub(super) fn check_rule(section: &Table<'_>, of_service: Clients, pass_through: Option<bool>) {
    if pass_through.unwrap_or(of_service == Clients::PassedThrough) {
        let why = "these clients' TLS is passed through";
        let keys: [&dyn Entry; 5] =
            [&keys::RULE_POLICY, &keys::VERSIONS, &keys::SUITES, &keys::GROUPS, &keys::RULE_ALPN];
        no_effect(section, keys, why);
        no_effect_of_section(section, &keys::RULE_CLIENT_CERTIFICATES, why);
        no_effect_of_section(section, &keys::RULE_BACKEND_TLS, why);
    }
}
