//! HTTP mode of a service, as one thread serves by it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_config::model::{
    BackendVersion, FieldChange, FieldRule, ForwardAuth, Http, HttpTimeouts, PoolLimits, RequestRules,
    RouteAction, RouteLimits, Service, Share, Template,
};
use handfast_config::{PathRule, RequestTable};

use crate::admission::TrustedSenders;
use crate::admission::gate::{Gate, Gates};
use crate::backends::pool::Bounds;
use crate::cache::ServiceCache;
use crate::worker::sticky::ThreadSticky;
use handfast_tls::keyed_hash::HashKey;

#[derive(Debug)]
pub(crate) struct ThreadHttp {
    pub(crate) model: Http,
    /// What is changed in requests that take no route; `None`: nothing.
    pub(crate) rules: Option<Rc<RequestRules>>,
    /// Trailer fields that backends do not get of requests that take no route.
    pub(crate) dropped_trailers: Rc<[Box<str>]>,
    pub(crate) table: RequestTable,
    /// By the index that the table finds.
    pub(crate) routes: Vec<ThreadRequestRoute>,
    /// What is kept of responses; `None`: nothing.
    pub(crate) cache: Option<Arc<ServiceCache>>,
    /// Clients that are proxies and name their own clients.
    pub(crate) trusted: Option<TrustedSenders>,
    /// Whether a route is for a share of its requests.
    pub(crate) has_shares: bool,
    /// Whether a route decides about requests by their path, so that a path that backends read in several ways is looked at in all of them.
    pub(crate) decides_by_path: bool,
    /// Connections that this thread keeps for each backend.
    connections: usize,
}

#[derive(Debug)]
pub(crate) struct ThreadRequestRoute {
    pub(crate) name: Rc<str>,
    /// What is done with its requests.
    pub(crate) action: RouteAction,
    /// The paths that it is for.
    pub(crate) path: Option<PathRule>,
    /// What it changes; `None`: nothing.
    pub(crate) rules: Option<Rc<RequestRules>>,
    /// Trailer fields that backends do not get: those that the route sets, removes, or copies from another server.
    pub(crate) dropped_trailers: Rc<[Box<str>]>,
    /// What its requests must meet first; `None`: nothing.
    pub(crate) gate: Option<Arc<Gate>>,
    /// Limits that differ from those of its service.
    pub(crate) limits: Option<Rc<RouteLimits>>,
    /// How the requests of a client are kept at one backend.
    pub(crate) sticky: Option<Rc<ThreadSticky>>,
    /// The server that is asked about its requests: how, and its route.
    pub(crate) auth: Option<(Rc<ThreadHttp>, usize)>,
    /// Whether not every request for one of its URLs takes it.
    pub(crate) is_for_some: bool,
    /// Whether its responses are kept in the cache.
    pub(crate) is_cached: bool,
    /// Where copies of its requests go.
    pub(crate) mirror: Option<Rc<ThreadMirror>>,
    /// The route of the service that its requests go to; `None`: that of their connection.
    pub(crate) index: Option<usize>,
}

impl ThreadRequestRoute {
    /// Returns true if it decides who may send a request: by conditions, or since no backend gets it.
    pub(crate) fn is_guard(&self) -> bool {
        let has_conditions = self.gate.as_ref().is_some_and(|gate| gate.has_conditions());
        has_conditions || matches!(self.action, RouteAction::Redirect(..) | RouteAction::Respond(_))
    }

    /// Returns true if something about its requests depends on a path that nobody may write in another way.
    fn decides_by_path(&self) -> bool {
        let is_limited = self.limits.as_ref().is_some_and(|limits| limits.body.is_some());
        self.path.is_some() && (self.is_guard() || self.gate.is_some() || !self.is_cached || is_limited)
    }
}

/// Servers that receive copies of a route's requests.
#[derive(Debug)]
pub(crate) struct ThreadMirror {
    /// How they are reached.
    pub(crate) http: Rc<ThreadHttp>,
    /// The route to them.
    pub(crate) route: usize,
    pub(crate) share: Share,
    /// Most bytes of content of a request that is copied.
    pub(crate) content: usize,
    /// Each copy that is under way has it too.
    pub(crate) under_way: Rc<()>,
}

/// Rules that requests share; `None`: they change nothing.
fn shared(rules: &RequestRules) -> Option<Rc<RequestRules>> {
    (!rules.is_empty()).then(|| Rc::new(rules.clone()))
}

/// The names of request fields that clients must not add as trailers.
fn dropped_trailers(http: &Http, rules: &RequestRules, forward: Option<&ForwardAuth>) -> Rc<[Box<str>]> {
    let is_replaced = |rule: &&FieldRule| !matches!(rule.change, FieldChange::Add(_));
    let changed = rules.request.iter().filter(is_replaced).map(|rule| &rule.name);
    changed.chain(forward.iter().flat_map(|forward| &forward.copy)).chain(&http.request_id).cloned().collect()
}

impl ThreadHttp {
    /// `None` where a service relays bytes.
    pub(crate) fn new(
        service: &Service,
        gates: &Gates,
        keys: &[Option<HashKey>],
        cache: Option<&Arc<ServiceCache>>,
        threads: usize,
    ) -> Option<Rc<Self>> {
        let http = service.http.as_ref()?;
        let auth = service.auth_routes();
        let mirrors = service.mirror_routes();
        let routes = service.request_routes().zip(gates).zip(auth).zip(mirrors).zip(keys);
        let routes = routes.map(|(((((index, route), gate), auth), mirror), key)| {
            let rules = shared(&route.rules);
            let (name, action, path) = ((&*route.name).into(), route.action.clone(), route.path.clone());
            let forward = route.access.forward.as_ref();
            let auth = auth
                .zip(forward)
                .map(|(index, forward)| (Self::beside(http, Some(forward.timeout), threads), index));
            let mirror = mirror.zip(route.mirror.as_ref()).map(|(index, model)| ThreadMirror {
                http: Self::beside(http, None, threads),
                route: index,
                share: model.share,
                content: model.content,
                under_way: Rc::new(()),
            });
            let sticky = route.sticky.as_ref().map(|sticky| ThreadSticky::new(sticky, key, &service.name));
            let is_own = route.limits != RouteLimits::default();
            ThreadRequestRoute {
                limits: is_own.then(|| Rc::new(route.limits.clone())),
                sticky,
                auth,
                is_for_some: !route.headers.is_empty() || route.share.is_some(),
                is_cached: route.is_cached,
                mirror: mirror.map(Rc::new),
                name,
                action,
                path,
                dropped_trailers: dropped_trailers(http, &route.rules, route.access.forward.as_ref()),
                rules,
                gate: gate.clone(),
                index,
            }
        });
        let routes: Vec<_> = routes.collect();
        let decides_by_path = routes.iter().any(ThreadRequestRoute::decides_by_path);
        Some(Rc::new(Self {
            model: http.clone(),
            rules: shared(&http.rules),
            dropped_trailers: dropped_trailers(http, &http.rules, None),
            table: RequestTable::new(service),
            routes,
            cache: cache.cloned(),
            trusted: TrustedSenders::new(&http.forwarded.trusted),
            has_shares: http.routes.iter().any(|route| route.share.is_some()),
            decides_by_path,
            connections: http.pool.connections.div_ceil(threads.max(1)),
        }))
    }

    /// For servers beside the backends: HTTP/1.1, and answers in this time, if there is one.
    fn beside(http: &Http, timeout: Option<Duration>, threads: usize) -> Rc<Self> {
        let HttpTimeouts { answer, content, .. } = http.timeouts;
        let (answer, content) = (timeout.unwrap_or(answer), timeout.unwrap_or(content));
        let timeouts = HttpTimeouts { answer, content, ..http.timeouts.clone() };
        let model = Http {
            backend_version: BackendVersion::Http1,
            timeouts,
            pool: PoolLimits { connections: http.pool.connections.max(threads), ..http.pool.clone() },
            count_failures: false,
            failure_ratio: None,
            concurrency: None,
            routes: Vec::new(),
            ..http.clone()
        };
        let connections = model.pool.connections.div_ceil(threads.max(1));
        let table = RequestTable::default();
        let (has_shares, decides_by_path) = (false, false);
        Rc::new(Self {
            model,
            rules: None,
            dropped_trailers: Rc::default(),
            table,
            routes: Vec::new(),
            cache: None,
            trusted: None,
            has_shares,
            decides_by_path,
            connections,
        })
    }

    /// Whether a route writes something of a client's certificate. Only then is the certificate part of the key of its cache.
    pub(crate) fn tells_certificates(&self) -> bool {
        self.routes.iter().any(|route| {
            let target = match &route.action {
                RouteAction::Redirect(target, _) => Some(target),
                _ => None,
            };
            let rules = route.rules.iter().flat_map(|rules| rules.templates());
            rules.chain(target).any(Template::tells_certificates)
        })
    }

    /// Whether a route asks what a client's certificate contains.
    pub(crate) fn asks_certificates(&self) -> bool {
        let mut gates = self.routes.iter().filter_map(|route| route.gate.as_ref());
        gates.any(|gate| !gate.certificates.is_empty())
    }

    /// Bounds of kept connections, and the requests that each may serve.
    pub(crate) fn pool_bounds(&self) -> (Bounds, u32) {
        let pool = &self.model.pool;
        (Bounds { connections: self.connections, idle: pool.idle }, pool.requests)
    }
}
