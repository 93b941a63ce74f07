//! How clients are served: by TLS that ends here, passed through, or in plain text; and what contradicts each.

use crate::config::keys;
use crate::config::model::{Clients, NameRule};
use crate::config::problem::Fault;
use crate::config::reader::Table;
use crate::config::schema::{Entry, Section};

/// Keys about TLS that ends here, and about the hello that comes before it.
const OF_TERMINATION: &[&dyn Entry] = &[
    &keys::CERTIFICATE,
    &keys::CERTIFICATE_KEY,
    &keys::UNKNOWN_NAME,
    &keys::POLICY,
    &keys::VERSIONS,
    &keys::SUITES,
    &keys::GROUPS,
    &keys::ALPN,
    &keys::MISSING_CLOSE_NOTIFY,
];
const OF_TLS: &[&dyn Entry] = &[&keys::PASS_THROUGH, &keys::PLAIN_HTTP];

/// How a service serves clients that no rule is about.
pub(super) fn of(section: &Table<'_>) -> Clients {
    let passed_through = section.or_default(&keys::PASS_THROUGH);
    if section.or_default(&keys::CLIENT_TLS) {
        return if passed_through { Clients::PassedThrough } else { Clients::Tls };
    }
    let why = "clients speak plain text here (`client-tls = false`)";
    no_use(section, OF_TERMINATION.iter().chain(OF_TLS).copied(), why);
    no_sections(section, &[&keys::CLIENT_CERTIFICATES, &keys::SERVICE_TICKETS, &keys::RULE], why);
    Clients::Plain
}

/// Whether the TLS of some clients ends here.
pub(super) fn terminate(clients: Clients, rules: &[NameRule]) -> bool {
    match clients {
        Clients::Plain => false,
        Clients::Tls => true,
        Clients::PassedThrough => rules.iter().any(|rule| rule.pass_through == Some(false)),
    }
}

/// What a rule has for nothing where clients are passed through.
pub(super) fn check_rule(section: &Table<'_>, of_service: Clients, pass_through: Option<bool>) {
    if pass_through.unwrap_or(of_service == Clients::PassedThrough) {
        let why = "these clients' TLS is passed through";
        let keys: [&dyn Entry; 5] =
            [&keys::RULE_POLICY, &keys::VERSIONS, &keys::SUITES, &keys::GROUPS, &keys::RULE_ALPN];
        no_use(section, keys, why);
        no_sections(section, &[&keys::RULE_CLIENT_CERTIFICATES, &keys::RULE_BACKEND_TLS], why);
    }
}

fn no_use<'k>(section: &Table<'_>, keys: impl IntoIterator<Item = &'k dyn Entry>, why: &str) {
    for key in keys {
        if let Some(span) = section.written(key) {
            let fault = Fault::new(format!("`{}` has no use: {why}", key.name()));
            section.reading().error(&span, fault.hint("remove one of the two"));
        }
    }
}

fn no_sections(section: &Table<'_>, sections: &[&'static Section], why: &str) {
    for inner in sections {
        if let Some(span) = section.span_of(inner) {
            let fault = Fault::new(format!("`{}` has no use: {why}", inner.name));
            section.reading().error(&span, fault.hint("remove one of the two"));
        }
    }
}
