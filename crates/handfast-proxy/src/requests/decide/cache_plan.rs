//! Part of a request in the cache of its service: its key, and the rules for its path.

use std::fmt::Write;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use handfast_cache::{Heuristic, Key, Policy, forwarding};
use handfast_config::model::{self, Variable};
use handfast_config::{MAX_READINGS, path_readings};
use handfast_http::http1::{Method, RequestHead};

use crate::cache::ServiceCache;
use crate::requests::decide::gate::{self, Routes};
use crate::requests::decide::rules::RequestFacts;
use crate::requests::head::sender::Identified;
use crate::worker::request_routes::ThreadRequestRoute;

/// The longest time for which a response without a statement is fresh, in seconds.
const HEURISTIC_LIMIT: u64 = 86_400;
/// A larger object is not fetched whole for a client that wants a part of it.
pub(crate) const WHOLE: u64 = 16 * 1024 * 1024;

/// Cache, key and rules for a request.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) cache: Arc<ServiceCache>,
    pub(crate) key: Key,
    pub(crate) policy: Policy,
}

impl Plan {
    /// `None`: the route has no cache, or the request has no URL.
    pub(crate) fn new(facts: &RequestFacts<'_>, routes: &Routes<'_>) -> Option<Box<Self>> {
        let (head, connection) = (facts.head, facts.connection);
        let own: &ThreadRequestRoute = routes.route;
        let route = route_of_responses(facts, own);
        let cache = route.cache.as_ref().filter(|_| routes.others_are(|other| other.cache.is_some()))?;
        // The sender was identified for the request's own route only.
        let sender = facts.sender.filter(|_| std::ptr::eq(own, route));
        let identity = identity(facts, route, sender);
        let key = Key::of(connection.scheme(), head, identity.as_deref())?;
        let mut policy = policy(&cache.model, is_immutable(&cache.model, facts.path));
        // It has the address of each client too, so nothing would be found again.
        policy.trusts_forwarding = !connection.is_trusted || head.values("forwarded").next().is_none();
        Some(Box::new(Self { cache: Arc::clone(cache), key, policy }))
    }
}

/// Returns true if the content of a path never changes. A client can make others request `/pool/..%2faccount`, and a backend may take that for
/// `/account`: then the page of the first one would be kept for all. So every reading of the path must fit.
fn is_immutable(model: &model::Cache, path: &[u8]) -> bool {
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let fits = |path: &[u8]| str::from_utf8(path).is_ok_and(|path| model.immutable.fit(path));
    let fit = |readings: Vec<Vec<u8>>| {
        readings.iter().all(|reading| fits(reading) && !reading.iter().any(u8::is_ascii_control))
    };
    fits(path) && path_readings(path, MAX_READINGS).is_ok_and(fit)
}

/// The route whose responses a request is about. For a method that changes something it is that of GET, whose responses are not current any
/// more; but where that does not take every request, the sender may be none that it would take, and its responses stay.
fn route_of_responses<'f>(facts: &RequestFacts<'f>, route: &'f ThreadRequestRoute) -> &'f ThreadRequestRoute {
    if [Method::GET, Method::HEAD].contains(&facts.head.method) {
        return route;
    }
    let get = RequestHead { method: Method::GET, ..*facts.head };
    let of_get = gate::find_route(&facts.connection.http, &get, facts.path, facts.chance);
    if of_get.gate.is_none() { of_get } else { route }
}

/// Returns a value that differs for requests for the same URL whose responses may differ though their fields are equal. It has
/// - the route, unless every request for the URL takes it;
/// - the backends, where the connection decides about them. A client without SNI can name any host. A client whose certificate failed has
///   other backends;
/// - the host and the scheme that a trusted proxy forwards: it may repeat what its own client sent;
/// - everything else of the client's connection that its backend receives, and the sender of the request.
///
/// The client's address and the request's identifier are left out, as described in `docs/http/cache.md`.
fn identity(
    facts: &RequestFacts<'_>,
    route: &ThreadRequestRoute,
    sender: Option<&Identified>,
) -> Option<String> {
    let RequestFacts { head, connection, .. } = *facts;
    let mut text = String::new();
    let mut add = |what: &str, value: &[u8]| {
        // Writing to memory cannot fail.
        let _ = write!(text, "{what}={};", HEXLOWER.encode(value));
    };
    if let Some(name) = route.name.as_ref().filter(|_| route.is_for_some) {
        add("route", name.as_bytes());
    }
    let chosen = route.chosen(connection.chosen);
    let rule = if route.index.is_none() || chosen.failed { connection.service.rule(chosen) } else { "" };
    if !rule.is_empty() {
        add("rule", rule.as_bytes());
    }
    if chosen.failed {
        add("failed", b"");
    }
    if connection.is_trusted {
        forwarding(head)
            .for_each(|(name, value)| add(&String::from_utf8_lossy(name).to_ascii_lowercase(), value));
    }
    if !connection.proxy_facts.is_empty() {
        add("proxy", &connection.proxy_facts);
    }
    let written = route.rules.iter().flat_map(|rules| rules.request_variables());
    for variable in written.filter(|variable| distinguishes(*variable)) {
        add(variable.name(), &facts.value(variable));
    }
    if let Some(sender) = sender {
        add("sender", sender.user.as_deref().unwrap_or_default().as_bytes());
        sender.added.iter().for_each(|(name, value)| add(name, value));
    }
    (!text.is_empty()).then_some(text)
}

/// Returns true if responses may differ by this variable in a field of their request, and neither the URL nor the rest of the key has it.
fn distinguishes(variable: Variable) -> bool {
    match variable {
        Variable::TlsVersion
        | Variable::ServerName
        | Variable::ClientSubject
        | Variable::ClientFingerprint
        | Variable::ClientCertificate
        | Variable::ClientCertificateChain
        | Variable::ClientCertificateDer
        | Variable::ClientCertificatePem => true,
        Variable::Scheme | Variable::Host | Variable::Path | Variable::Target | Variable::Query => false,
        // The sender is in the key.
        Variable::User => false,
        // Of each client, or of each request, another one: nothing would be found again.
        Variable::ClientAddress | Variable::RequestId => false,
    }
}

fn policy(model: &model::Cache, is_immutable: bool) -> Policy {
    Policy {
        is_immutable,
        object_limit: model.object,
        heuristic: model.heuristic.map(|share| Heuristic {
            percent: u64::from(share.hundredths().div_ceil(100)),
            limit: HEURISTIC_LIMIT,
        }),
        stores_set_cookie: model.stores_set_cookie,
        honours_requests: model.clients_decide,
        trusts_forwarding: true,
        stale_while_revalidate: model.while_revalidate.as_secs(),
        stale_if_error: model.if_error.as_secs(),
        stale_if_unreachable: model.if_unreachable.as_secs(),
        fetches_whole: true,
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
