//! `starttls` and `starttls-name`: read, and checked against what is around them.

use handfast_wire::starttls::Protocol;

use super::super::check::warn;
use super::super::keys;
use super::super::kind::Written;
use super::super::model::{BackendTls, Clients, NameRule, Starttls, Tls};
use super::super::problem::Fault;
use super::super::reader::Table;

/// What clients of a service speak before TLS.
pub(super) fn starttls(section: &Table<'_>, clients: Clients) -> Option<Starttls> {
    if clients != Clients::Tls
        && let Some(span) = section.written(&keys::STARTTLS)
    {
        let fault = Fault::new(
            "`starttls` is for clients whose TLS ends here; these speak plain text, or are passed through",
        );
        section.reading().error(&span, fault.hint("remove one of the two"));
    }
    let protocol = section.optional(&keys::STARTTLS);
    let name = section.optional(&keys::STARTTLS_NAME);
    if section.written(&keys::STARTTLS).is_none() {
        warn(section, &keys::STARTTLS_NAME, || {
            Fault::new("`starttls-name` has no effect: clients speak TLS from the first byte, see `starttls`")
        });
    }
    Some(Starttls { protocol: protocol?, name })
}

/// What a protocol asks of the rest of its service.
pub(super) fn fit(section: &Table<'_>, starttls: Option<&Starttls>, names: &[NameRule], tls: &mut Tls) {
    match starttls.map(|starttls| starttls.protocol) {
        // A client that begins at once insists on it (libpq's sslnegotiation=direct), and any other offers it or nothing.
        Some(Protocol::PostgreSql) if section.written(&keys::ALPN).is_none() => {
            tls.alpn = vec!["postgresql".into()];
        }
        Some(Protocol::MySql) if names.iter().any(|rule| rule.backends.is_some()) => {
            let fault = Fault::new(
                "a rule cannot choose the backend of MySQL: its server speaks before a client has said which name it asks for",
            );
            let fault =
                fault.hint("remove `backend` from the rules, or give each backend a service of its own");
            section.reading().error(&section.written(&keys::STARTTLS).unwrap_or_default(), fault);
        }
        _ => {}
    }
}

/// What a protocol asks of TLS towards the backends.
pub(super) fn fit_backends(
    section: &Table<'_>,
    starttls: Option<&Starttls>,
    of_service: Option<&Written<Option<BackendTls>>>,
    names: &[NameRule],
) {
    let is_mysql = starttls.is_some_and(|starttls| starttls.protocol == Protocol::MySql);
    let secured = of_service.is_some_and(|tls| tls.value.is_some())
        || names.iter().any(|rule| matches!(rule.backend_tls, Some(Some(_))));
    if is_mysql && secured {
        let what = "a server of MySQL speaks before TLS begins, so `backend-tls` cannot be met";
        let span = section.written(&keys::STARTTLS).unwrap_or_default();
        section.reading().error(&span, Fault::new(what).hint("remove `backend-tls`"));
    }
}
