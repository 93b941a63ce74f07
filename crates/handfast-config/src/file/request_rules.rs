//! Changes of a route to requests and responses, read and checked against the settings around it.

use handfast_http::http1::Kind;

use super::own_response::OwnResponse;
use super::site;
use crate::check::{no_effect, warn_no_effect};
use crate::keys;
use crate::kind::{FieldValue, List, Site};
use crate::model::{Clients, FieldChange, FieldRule, RequestRules, Template};
use crate::problem::Fault;
use crate::reading::Written;
use crate::schema::{Entry, Key};
use crate::table::Table;

/// Fields that browsers obey, and that do not change what a page can do by itself. The first one is sent over TLS alone.
const SECURITY: [(&str, &str); 4] = [
    ("Strict-Transport-Security", "max-age=31536000"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
];

/// The rules of a route. `of_service`: [service.http], whose fields it has where it does not name them itself; `site`: the route's own, whose name is
/// its `Host`; `clients`: of its service; `own_response`: that of its requests.
pub(super) fn rules(
    section: &Table<'_>,
    (of_service, site): (&Table<'_>, Option<&Written<Site>>),
    clients: Clients,
    own_response: OwnResponse,
) -> RequestRules {
    let new_path = section.optional(&keys::ROUTE_REWRITE_PATH);
    if section.written(&keys::ROUTE_PATH).is_none() {
        let fault =
            Fault::new("`rewrite-path` has no effect: the route has no `path` whose place it could take");
        section.error(&keys::ROUTE_REWRITE_PATH, fault.hint("add `path`"));
    }
    if own_response != OwnResponse::None {
        let towards =
            [&keys::ROUTE_SET_REQUEST as &dyn Entry, &keys::ROUTE_ADD_REQUEST, &keys::ROUTE_REMOVE_REQUEST];
        no_effect(section, towards, "no backend gets the requests of this route");
    }
    if own_response == OwnResponse::Fixed {
        warn_no_effect(section, &keys::ROUTE_REWRITE_PATH, "no backend gets the requests of this route");
    }
    let mut own = fields(section);
    check_names(section, &own.request, &own.response);
    if let Some(site) = site.filter(|_| own_response == OwnResponse::None) {
        site::name_host(&mut own, &site.value);
    }
    let around = fields(of_service);
    let is_secure =
        section.optional(&keys::ROUTE_SECURITY).or_else(|| of_service.optional(&keys::ROUTE_SECURITY));
    let mut response = replaced(own.response, around.response);
    response.extend(security(is_secure.unwrap_or_default(), clients));
    let request =
        if own_response == OwnResponse::None { replaced(own.request, around.request) } else { own.request };
    RequestRules { request, response, new_path: new_path.map(Into::into) }
}

/// The rules of [service.http], for requests without a route.
pub(super) fn of_service(section: &Table<'_>, clients: Clients) -> RequestRules {
    let mut rules = fields(section);
    check_names(section, &rules.request, &rules.response);
    rules.response.extend(security(section.optional(&keys::ROUTE_SECURITY).unwrap_or_default(), clients));
    rules
}

/// The changes of fields that a section names.
fn fields(section: &Table<'_>) -> RequestRules {
    let mut request = removed(section, &keys::ROUTE_REMOVE_REQUEST);
    request.extend(valued(section, &keys::ROUTE_SET_REQUEST, FieldChange::Set));
    request.extend(valued(section, &keys::ROUTE_ADD_REQUEST, FieldChange::Add));
    let mut response = removed(section, &keys::ROUTE_REMOVE_RESPONSE);
    response.extend(valued(section, &keys::ROUTE_SET_RESPONSE, FieldChange::Set));
    response.extend(valued(section, &keys::ROUTE_ADD_RESPONSE, FieldChange::Add));
    RequestRules { request, response, new_path: None }
}

/// The rules of a service, without the fields that a route names itself, and those of the route.
fn replaced(own: Vec<FieldRule>, of_service: Vec<FieldRule>) -> Vec<FieldRule> {
    let is_own = |rule: &FieldRule| own.iter().any(|one| one.name.eq_ignore_ascii_case(&rule.name));
    let mut rules: Vec<_> = of_service.into_iter().filter(|rule| !is_own(rule)).collect();
    rules.extend(own);
    rules
}

/// The usual fields for the security of browsers.
fn security(is_on: bool, clients: Clients) -> impl Iterator<Item = FieldRule> {
    let skipped = if is_on { usize::from(clients == Clients::Plain) } else { SECURITY.len() };
    SECURITY.iter().skip(skipped).map(|(name, value)| FieldRule {
        name: (*name).into(),
        change: FieldChange::Default(Template::text(value)),
    })
}

fn removed(section: &Table<'_>, key: &Key<List<crate::kind::FieldName>>) -> Vec<FieldRule> {
    let names = section.list(key).into_iter();
    names.map(|name| FieldRule { name, change: FieldChange::Remove }).collect()
}

fn valued(
    section: &Table<'_>,
    key: &Key<List<FieldValue>>,
    change: fn(Template) -> FieldChange,
) -> Vec<FieldRule> {
    let fields = section.list(key).into_iter();
    fields.map(|(name, value)| FieldRule { name, change: change(value) }).collect()
}

/// Fields that `forwarded` writes.
const WRITTEN_BY_FORWARDED: [&str; 4] =
    ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// Names that have another key, or a meaning that a rule would break.
fn check_names(section: &Table<'_>, request: &[FieldRule], response: &[FieldRule]) {
    let refuse = |name: &str, hint: &str| {
        let fault = Fault::new(format!("`{name}` cannot be changed by a route")).hint(hint);
        section.reading().error(section.span(), fault);
    };
    for FieldRule { name, change } in request {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match Kind::of(name.as_bytes()) {
            Kind::Host if !matches!(change, FieldChange::Set(_)) => {
                refuse(name, "a request has one `Host`: set it")
            }
            // Others of this kind are removed from what clients send, and a route may set them.
            Kind::Forwarding if WRITTEN_BY_FORWARDED.iter().any(|written| is(written)) => {
                refuse(name, "`forwarded` in [service.http] decides which of these fields are sent");
            }
            _ => {}
        }
    }
    for FieldRule { name, .. } in response {
        if matches!(Kind::of(name.as_bytes()), Kind::Host) {
            refuse(name, "responses have no such field");
        }
    }
}
