//! `starttls` and `starttls-name`: read, and checked against what is around them.

use handfast_wire::starttls::Protocol;

use crate::check::warn_no_effect;
use crate::keys;
use crate::kind::{AnnouncedName, StarttlsProtocol};
use crate::model::{BackendTls, CertificateEntry, Clients, ServiceRule, Starttls, Tls};
use crate::problem::Fault;
use crate::reading::Written;
use crate::schema::Key;
use crate::table::Table;

pub(super) fn starttls(section: &Table<'_>, clients: Clients) -> Option<Starttls> {
    // The reason of any other clients is reported with the rest of their keys.
    let without = (clients == Clients::Tls).then_some("clients speak");
    read(section, &keys::STARTTLS, &keys::STARTTLS_NAME, without)
}

/// The keys of one side; `without`: who speaks TLS from the first byte where no protocol is written.
pub(super) fn read(
    section: &Table<'_>,
    protocol: &Key<StarttlsProtocol>,
    name: &Key<AnnouncedName>,
    without: Option<&str>,
) -> Option<Starttls> {
    if let Some(speak) = without.filter(|_| section.written(protocol).is_none()) {
        warn_no_effect(section, name, &format!("{speak} TLS from the first byte, see `starttls`"));
    }
    let (protocol, name) = (section.optional(protocol), section.optional(name));
    Some(Starttls { protocol: protocol?, name })
}

/// Checks the rest of a service against the protocol.
pub(super) fn fit(
    section: &Table<'_>,
    (starttls, of_backends): (Option<&Starttls>, Option<&Written<Option<BackendTls>>>),
    rules: &[ServiceRule],
    tls: &mut Tls,
) {
    check_channel_binding(section, (of_backends, rules), tls);
    let protocol = starttls.map(|starttls| starttls.protocol);
    if let Some(protocol) = protocol.filter(|protocol| protocol.server_speaks_first()) {
        let what = format!(
            "with `starttls`, TLS in {protocol} cannot be passed through: the backend greets first, and waits for a request for \
             TLS that Handfast has answered already"
        );
        let hint = "remove `pass-through`, or serve these names by a separate service without `starttls`";
        let fault = Fault::new(what).hint(hint);
        let fault = fault.see(section.written(&keys::STARTTLS).unwrap_or_default(), "asked for here");
        for rule in section.inner_list(&keys::RULE) {
            if rule.optional(&keys::RULE_PASS_THROUGH) == Some(true) {
                rule.error(&keys::RULE_PASS_THROUGH, fault.clone());
            }
        }
    }
    match protocol {
        // A client that begins at once insists on it (libpq's sslnegotiation=direct), and any other offers it or nothing.
        Some(Protocol::PostgreSql) if section.written(&keys::ALPN).is_none() => {
            tls.alpn = vec!["postgresql".into()];
        }
        Some(Protocol::MySql) if rules.iter().any(|rule| rule.backends.is_some()) => {
            let fault = Fault::new(
                "a rule cannot choose the backend of MySQL: its server speaks before a client has said which name it asks for",
            );
            let fault =
                fault.hint("remove `backend` from the rules, or give each backend a separate service");
            section.error(&keys::STARTTLS, fault);
        }
        _ => {}
    }
}

/// Returns true if TLS towards backends begins in PostgreSQL's protocol.
fn uses_postgresql(tls: &BackendTls) -> bool {
    tls.starttls.as_ref().is_some_and(|starttls| starttls.protocol == Protocol::PostgreSql)
}

/// Warns of PostgreSQL logins by password that fail: behind TLS the server offers SCRAM-SHA-256-PLUS, which libpq refuses without TLS.
pub(super) fn check_plain_clients(section: &Table<'_>, tls: &Written<Option<BackendTls>>) {
    if tls.value.as_ref().is_some_and(uses_postgresql) {
        let fault = Fault::new(
            "PostgreSQL offers SCRAM-SHA-256-PLUS behind TLS, and clients of libpq without TLS refuse it: a login by password fails",
        );
        let hint = "let clients use TLS with the server's own certificate, or the server another method than `scram-sha-256`";
        section.inner(&keys::BACKEND_TLS).warn(&keys::BACKEND_STARTTLS, fault.hint(hint));
    }
}

/// Warns of PostgreSQL logins by password that fail: SCRAM binds them to the certificate, and client and server see different ones.
fn check_channel_binding(
    section: &Table<'_>,
    (of_service, rules): (Option<&Written<Option<BackendTls>>>, &[ServiceRule]),
    tls: &Tls,
) {
    let of_service = of_service.and_then(|tls| tls.value.as_ref());
    if of_service.is_some_and(|backend| has_other_certificate(backend, tls)) {
        warn_of_binding(&section.inner(&keys::BACKEND_TLS));
    }
    for (rule, written) in rules.iter().zip(section.inner_list(&keys::RULE)) {
        let of_rule = rule.backend_tls.iter().flatten().next();
        if of_rule.is_some_and(|backend| has_other_certificate(backend, tls)) {
            warn_of_binding(&written.inner(&keys::RULE_BACKEND_TLS));
        }
    }
}

/// Returns true if clients of PostgreSQL see a certificate that is not the server's own. It is where `ca` is the same file: then no other
/// certificate is good.
fn has_other_certificate(backend: &BackendTls, tls: &Tls) -> bool {
    let is_own = |entry: &CertificateEntry| matches!(entry, CertificateEntry::File { certificate, .. } if Some(certificate) == backend.ca.as_ref());
    uses_postgresql(backend) && !tls.certificates.iter().all(is_own)
}

fn warn_of_binding(backend_tls: &Table<'_>) {
    let fault = Fault::new(
        "PostgreSQL clients bind a password to the certificate that they see (SCRAM channel binding): a login fails unless it is \
         the server's own",
    );
    let hint = "write the server's certificate in `certificate` and in `ca`, or set `channel_binding=disable` at the clients";
    backend_tls.warn(&keys::BACKEND_STARTTLS, fault.hint(hint));
}

/// Checks TLS towards the backends against the protocol.
pub(super) fn fit_backends(
    section: &Table<'_>,
    starttls: Option<&Starttls>,
    of_service: Option<&Written<Option<BackendTls>>>,
    rules: &[ServiceRule],
    fails_elsewhere: bool,
) {
    let Some(protocol) = starttls.map(|starttls| starttls.protocol) else { return };
    let error = |what: &str, hint: &str| section.error(&keys::STARTTLS, Fault::new(what).hint(hint));
    let of_rules = rules.iter().filter_map(|rule| rule.backend_tls.as_ref()?.as_ref());
    let mut secured = of_service.iter().filter_map(|tls| tls.value.as_ref()).chain(of_rules.clone());
    let of_backend = |tls: &BackendTls| tls.starttls.as_ref().map(|starttls| starttls.protocol);
    if let Some(other) = secured.clone().find_map(of_backend).filter(|other| *other != protocol) {
        let what = format!(
            "clients speak {protocol} before TLS, and backends {other}: after it, they would not understand each other"
        );
        error(&what, "write the same `starttls` for both, or leave one away");
    }
    if protocol != Protocol::MySql {
        return;
    }
    if secured.any(|tls| of_backend(tls).is_none()) {
        let what =
            "a server of MySQL speaks before TLS begins, so backends cannot have TLS from the first byte";
        error(what, "add `starttls = \"mysql\"` to `backend-tls`, or remove the section");
    }
    if of_rules.clone().next().is_some() {
        let what = "a rule cannot have `backend-tls` with MySQL: its server speaks before a client has said which name it asks for";
        error(what, "write the section for the service");
    }
    if fails_elsewhere {
        let what = "`fallback-backend` cannot be met with MySQL: its client logs in with what another server has greeted it with";
        error(what, "remove `fallback-backend`, and let clients without a good certificate be refused");
    }
}
