//! Routes: how a service serves the clients of each rule. A rule inherits from its service what it does not set.
//!
//! In: a [`Service`] with its rules as written. Out: one [`Route`] for the service, and one for each rule.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use super::{
    Backend, BackendTls, ClientCertificates, Clients, Http, Policy, RequestLimits, RequestRoute, RouteAction,
    RouteLimits, Service, ServiceRule,
};

/// Settings for the clients that one rule decides about, or that match no rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The way their connections are served: TLS that ends here, passed through, or plain text.
    pub clients: Clients,
    /// TLS with them; `None` where it does not end here. Routes with equal settings share one value.
    pub tls: Option<Arc<RouteTls>>,
    /// Their backends.
    pub backends: BackendSet,
    /// The backends of clients whose certificate fails, always in plain text; `None`: they are refused.
    pub failed_client_backends: Option<BackendSet>,
}

/// TLS with the clients of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteTls {
    /// The index of the first route with these settings, whether or not its clients' TLS ends here. Tickets are bound to its names.
    pub first_route: usize,
    /// Versions, suites, groups.
    pub policy: Policy,
    /// Application protocols offered by ALPN, best first.
    pub alpn: Vec<String>,
    /// Policy for client certificates.
    pub client_certificates: ClientCertificates,
}

/// Backends, and the TLS that connections to them use.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSet {
    /// The list as it is written once; routes that inherit it share it.
    pub backends: Arc<[Backend]>,
    /// TLS towards them; `None`: plain text. Routes with equal settings share one value.
    pub tls: Option<Arc<BackendTls>>,
}

impl Service {
    /// The routes of the service. The first one is the service itself, then come its rules, then the routes for requests that have
    /// their own backends ([`Service::request_routes`]), then the servers that are asked about requests ([`Service::auth_routes`]), then those that
    /// receive copies ([`Service::mirror_routes`]), each in the order written.
    ///
    /// **Cost**: for each rule, a search among the settings that differ.
    pub fn routes(&self) -> Vec<Route> {
        let mut made = Made::default();
        let rules = std::iter::once(None).chain(self.rules.iter().map(Some));
        let mut routes: Vec<_> =
            rules.enumerate().map(|(index, rule)| self.route(index, rule, &mut made)).collect();
        routes.extend(self.request_routes().filter_map(|(_, route)| self.for_requests(route, &mut made)));
        let beside = self.forward_servers().flatten().chain(self.mirror_servers().flatten());
        routes.extend(beside.map(|servers| Route {
            clients: Clients::Plain,
            tls: None,
            backends: (servers, None).into(),
            failed_client_backends: None,
        }));
        routes
    }

    /// The routes for requests, each with the index among [`Service::routes`] of the one that its requests go to; `None`: that of
    /// their connection.
    pub fn request_routes(&self) -> impl Iterator<Item = (Option<usize>, &RequestRoute)> {
        let routes = self.http.iter().flat_map(|http| &http.routes);
        routes.scan(self.rules.len(), |last, route| {
            let is_own = matches!(route.action, RouteAction::Backends(..));
            *last += usize::from(is_own);
            Some((is_own.then_some(*last), route))
        })
    }

    /// The servers that decide about the requests of each route (`forward-auth`), and last those for requests without a route, as the index
    /// of theirs among [`Service::routes`].
    pub fn auth_routes(&self) -> impl Iterator<Item = Option<usize>> {
        indices(self.backend_routes(), self.forward_servers())
    }

    /// The servers that receive copies of the requests of each route (`mirror`), as the index of theirs among [`Service::routes`].
    pub fn mirror_routes(&self) -> impl Iterator<Item = Option<usize>> {
        indices(self.backend_routes() + self.forward_servers().flatten().count(), self.mirror_servers())
    }

    /// The number of routes, from the first, whose backends requests go to.
    pub fn backend_routes(&self) -> usize {
        1 + self.rules.len() + self.request_routes().filter(|(index, _)| index.is_some()).count()
    }

    fn forward_servers(&self) -> impl Iterator<Item = Option<&Arc<[Backend]>>> {
        let of_routes = self.http.iter().flat_map(|http| http.routes.iter().map(|route| &route.access));
        let all = of_routes.chain(self.http.iter().map(|http| &http.access));
        all.map(|access| access.forward.as_ref().map(|forward| &forward.to))
    }

    fn mirror_servers(&self) -> impl Iterator<Item = Option<&Arc<[Backend]>>> {
        let routes = self.http.iter().flat_map(|http| &http.routes);
        routes.map(|route| route.mirror.as_ref().map(|mirror| &mirror.to))
    }

    fn for_requests<'a>(&'a self, route: &'a RequestRoute, made: &mut Made<'a>) -> Option<Route> {
        let RouteAction::Backends(backends, tls) = &route.action else { return None };
        let tls = tls.as_ref().unwrap_or(&self.backend_tls).as_ref().map(|tls| made.backend_tls(tls));
        let backends = (backends, tls).into();
        Some(Route { clients: Clients::Plain, tls: None, backends, failed_client_backends: None })
    }

    /// Every list of backends of the service, as [`backend_sets`] has them.
    pub fn backend_sets(&self) -> Vec<BackendSet> {
        backend_sets(self.routes().iter()).cloned().collect()
    }

    fn route<'a>(&'a self, index: usize, rule: Option<&'a ServiceRule>, made: &mut Made<'a>) -> Route {
        let clients = match rule.and_then(|rule| rule.pass_through) {
            Some(true) => Clients::PassedThrough,
            Some(false) => Clients::Tls,
            None => self.clients,
        };
        let (mut tls, mut failed) = (None, None);
        if let Some(of_service) = &self.tls {
            let policy = rule.and_then(|rule| rule.policy.as_ref()).unwrap_or(&of_service.policy);
            let alpn = rule.and_then(|rule| rule.alpn.as_ref()).unwrap_or(&of_service.alpn);
            let client_certificates = rule.and_then(|rule| rule.client_certificates.as_ref());
            let client_certificates = client_certificates.unwrap_or(&of_service.client_certificates);
            // Also where nothing ends here: a later rule that inherits the settings shares the tickets of the first one.
            tls = Some(made.tls(index, policy, alpn, client_certificates));
            failed = client_certificates.failed_to().map(|backends| (backends, None).into());
        }
        let ends_here = clients == Clients::Tls;
        let backend_tls = rule.and_then(|rule| rule.backend_tls.as_ref()).unwrap_or(&self.backend_tls);
        let backend_tls = backend_tls.as_ref().filter(|_| clients != Clients::PassedThrough);
        let backends = rule.and_then(|rule| rule.backends.as_ref()).unwrap_or(&self.backends);
        Route {
            clients,
            tls: tls.filter(|_| ends_here),
            backends: (backends, backend_tls.map(|tls| made.backend_tls(tls))).into(),
            failed_client_backends: failed.filter(|_| ends_here),
        }
    }
}

impl Http {
    /// Returns the limits for requests of a route: those that it sets, and the service's for the rest.
    pub fn limits(&self, own: &RouteLimits) -> RequestLimits {
        RequestLimits {
            answer: own.answer.unwrap_or(self.timeouts.answer),
            content: own.content.unwrap_or(self.timeouts.content),
            body: own.body.or(self.body_limit),
            retries: own.retries.unwrap_or(self.retries),
        }
    }
}

/// For each route the index of its servers beside its backends, of which the first ones have this index.
fn indices<'s>(
    first: usize,
    servers: impl Iterator<Item = Option<&'s Arc<[Backend]>>>,
) -> impl Iterator<Item = Option<usize>> {
    servers.scan(first, |next, servers| {
        *next += usize::from(servers.is_some());
        Some(servers.map(|_| *next - 1))
    })
}

impl From<(&Arc<[Backend]>, Option<Arc<BackendTls>>)> for BackendSet {
    fn from((backends, tls): (&Arc<[Backend]>, Option<Arc<BackendTls>>)) -> Self {
        Self { backends: Arc::clone(backends), tls }
    }
}

/// Settings that routes share.
#[derive(Default)]
struct Made<'a> {
    tls: HashMap<(&'a Policy, &'a [String]), Vec<Arc<RouteTls>>>,
    backend_tls: Vec<Arc<BackendTls>>,
}

impl<'a> Made<'a> {
    fn tls(
        &mut self,
        first_route: usize,
        policy: &'a Policy,
        alpn: &'a [String],
        client_certificates: &ClientCertificates,
    ) -> Arc<RouteTls> {
        let alike = self.tls.entry((policy, alpn)).or_default();
        if let Some(known) = alike.iter().find(|known| known.client_certificates == *client_certificates) {
            return Arc::clone(known);
        }
        let (policy, alpn, client_certificates) =
            (policy.clone(), alpn.to_vec(), client_certificates.clone());
        alike.push(Arc::new(RouteTls { first_route, policy, alpn, client_certificates }));
        Arc::clone(&alike[alike.len() - 1])
    }

    fn backend_tls(&mut self, settings: &BackendTls) -> Arc<BackendTls> {
        if let Some(known) = self.backend_tls.iter().find(|known| ***known == *settings) {
            return Arc::clone(known);
        }
        self.backend_tls.push(Arc::new(settings.clone()));
        Arc::clone(&self.backend_tls[self.backend_tls.len() - 1])
    }
}

/// Every list of backends of these routes once, with the TLS of the first route that has it; those of clients whose certificate
/// fails come last.
pub fn backend_sets<'r>(
    routes: impl Iterator<Item = &'r Route> + Clone,
) -> impl Iterator<Item = &'r BackendSet> {
    let failed = routes.clone().filter_map(|route| route.failed_client_backends.as_ref());
    each_once(routes.map(|route| &route.backends).chain(failed), |set| Arc::as_ptr(&set.backends))
}

/// The first of all items with the same key: a pointer, where routes share a value.
pub fn each_once<T, K: Eq + Hash>(
    items: impl Iterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = T> {
    let mut known = HashSet::new();
    items.filter(move |item| known.insert(key(item)))
}

#[cfg(test)]
mod tests;
