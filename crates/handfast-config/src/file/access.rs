//! Conditions and limits of a route, read and checked against the settings around it.

use handfast_pki::rules::Rules;

use super::admission::{contradictions, split};
use super::around::Around;
use super::own_response::OwnResponse;
use super::proxy_protocol;
use crate::check;
use crate::keys;
use crate::model::{Address, Mirror, RateKey, RouteAccess, RouteCompression, RouteLimits, Sticky};
use crate::problem::Fault;
use crate::reading::{Written, values};
use crate::schema::{Entry, Key, ValueKind};
use crate::table::Table;

/// Facts about the clients of a service.
#[derive(Clone, Copy)]
pub(super) struct ClientFacts {
    /// True if some have an address, by their socket or by a proxy in front.
    pub(super) have_addresses: bool,
    /// True if a certificate is requested from some of them.
    pub(super) show_certificates: bool,
}

impl ClientFacts {
    /// Returns the facts that the conditions of routes depend on. Without HTTP mode nothing counts as missing: the conditions have no effect at all.
    pub(super) fn of(service: &Table<'_>, around: &Around<'_>) -> Self {
        let is_ip = |address: &Written<Address>| !matches!(address.value, Address::Unix(_));
        Self {
            have_addresses: around.http.is_none()
                || around.listen.is_empty()
                || around.listen.iter().any(is_ip)
                || proxy_protocol::names_clients(service),
            show_certificates: around.http.is_none() || requests_certificates(service),
        }
    }
}

/// Returns true if a service, or one of its rules, requests certificates from clients.
fn requests_certificates(service: &Table<'_>) -> bool {
    let requests_certificates = |rule: &Table<'_>| rule.span_of(&keys::RULE_CLIENT_CERTIFICATES).is_some();
    service.span_of(&keys::CLIENT_CERTIFICATES).is_some()
        || service.inner_list(&keys::RULE).iter().any(requests_certificates)
}

/// The limits and conditions of a section: a route, or [service.http], which is `of_service` for a route. `None` when something is wrong, which is
/// then noted.
pub(super) fn access(
    section: &Table<'_>,
    of_service: Option<&RouteAccess>,
    clients: ClientFacts,
) -> Option<RouteAccess> {
    let (allow, allow_files) = split(section.optional(&keys::ROUTE_ALLOW_CLIENTS));
    let (refuse, refuse_files) = split(section.optional(&keys::ROUTE_REFUSE_CLIENTS));
    contradictions(section, (&allow, &allow_files), &refuse);
    let certificates = section.list(&keys::ROUTE_ALLOW_CERTIFICATES);
    let rate = unless_wrong(section, &keys::ROUTE_RATE_LIMIT);
    let basic = unless_wrong(section, &keys::ROUTE_BASIC_AUTH);
    let forward = unless_wrong(section, &keys::ROUTE_FORWARD_AUTH);
    if !clients.have_addresses {
        let why = "clients of unix sockets have no address, unless a proxy in front names it";
        let keys = [&keys::ROUTE_ALLOW_CLIENTS as &dyn Entry, &keys::ROUTE_REFUSE_CLIENTS];
        check::no_effect(section, keys, why);
        if rate.as_ref().is_some_and(|rate| rate.as_ref().is_some_and(|rate| rate.by == RateKey::Client)) {
            let what = "`rate-limit` has no effect: clients of unix sockets have no address";
            let hint =
                "write `by = \"route\"`, or `by = \"header:NAME\"` for a field that the proxy in front sends";
            section.error(&keys::ROUTE_RATE_LIMIT, Fault::new(what).hint(hint));
        }
    }
    if !clients.show_certificates {
        let why = "no client is asked for a certificate";
        let fault = Fault::new(format!("`allow-certificates` has no effect: {why}"));
        let hint = "add [service.client-certificates] with `mode` and `ca`";
        section.error(&keys::ROUTE_ALLOW_CERTIFICATES, fault.hint(hint));
    }
    Some(RouteAccess {
        allow: values(allow),
        allow_files,
        refuse: values(refuse),
        refuse_files,
        certificates: Rules { allow: certificates, refuse: Vec::new() },
        rate: rate?,
        basic: basic?.unwrap_or_else(|| of_service?.basic.clone()),
        forward: forward?.unwrap_or_else(|| of_service?.forward.clone()),
    })
}

/// Returns true if responses are stored in the cache of the service. Reports a `cache` key without effect.
pub(super) fn is_cached(section: &Table<'_>, forwards: bool, has_cache: bool) -> bool {
    let key = [&keys::ROUTE_CACHE as &dyn Entry];
    if !forwards {
        check::no_effect(section, key, "no backend gets the requests of this route");
    } else if !has_cache {
        check::no_effect(section, key, "the service has no [service.cache]");
    }
    section.or_default(&keys::ROUTE_CACHE)
}

/// Compression of the responses of a route; `check/effects.rs` reports where it has no effect because of the rest.
pub(super) fn compression(section: &Table<'_>, response: OwnResponse) -> RouteCompression {
    let key = &keys::ROUTE_COMPRESSION;
    if response == OwnResponse::Fixed {
        check::no_effect(section, [key as &dyn Entry], "the response of this route is short");
    }
    section.optional(key).unwrap_or_default()
}

/// The servers that receive copies of the requests; the inner `None`: no copies.
pub(super) fn mirror(section: &Table<'_>, forwards: bool) -> Option<Option<Mirror>> {
    if !forwards {
        let why = "no backend gets the requests of this route";
        check::no_effect(section, [&keys::ROUTE_MIRROR as &dyn Entry], why);
    }
    unless_wrong(section, &keys::ROUTE_MIRROR)
}

/// Session affinity of the requests to one backend; the inner `None`: none.
pub(super) fn sticky(section: &Table<'_>, forwards: bool) -> Option<Option<Sticky>> {
    if !forwards {
        let why = "no backend gets the requests of this route";
        check::no_effect(section, [&keys::ROUTE_STICKY as &dyn Entry], why);
    }
    unless_wrong(section, &keys::ROUTE_STICKY)
}

/// The limits of a route that differ from those of its service.
pub(super) fn limits(section: &Table<'_>, response: OwnResponse) -> RouteLimits {
    let why = "no backend gets the requests of this route";
    if response != OwnResponse::None {
        check::no_effect(section, [&keys::ROUTE_RETRIES as &dyn Entry], why);
    }
    if response == OwnResponse::Fixed {
        let keys = [&keys::ROUTE_RESPONSE_TIMEOUT as &dyn Entry, &keys::ROUTE_BODY_TIMEOUT];
        check::no_effect(section, keys, why);
    }
    RouteLimits {
        answer: section.optional(&keys::ROUTE_RESPONSE_TIMEOUT),
        content: section.optional(&keys::ROUTE_BODY_TIMEOUT),
        body: section.optional(&keys::ROUTE_MAX_BODY).map(|most| most as u64),
        retries: section.optional(&keys::ROUTE_RETRIES),
    }
}

/// The value of a key; `None`: it is wrong.
pub(super) fn unless_wrong<K: ValueKind>(section: &Table<'_>, key: &Key<K>) -> Option<Option<K::Value>> {
    let value = section.optional(key);
    (value.is_some() || section.written(key).is_none()).then_some(value)
}
