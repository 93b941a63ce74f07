//! HTTP mode of a service, as one thread serves by it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_config::model::{
    BackendVersion, Compression, FieldChange, FieldRule, ForwardAuth, Http, PoolLimits, RequestLimits,
    RequestRules, RouteAccess, RouteAction, RouteLimits, Service, Share, Template, Variable,
};
use handfast_config::{PathRule, RequestTable, ResolvedRoute, ResolvedRoutes};

use crate::admission::TrustedSenders;
use crate::admission::gate::{Gate, Gates};
use crate::backends::pool::Bounds;
use crate::cache::ServiceCache;
use crate::files::{RouteFiles, ServiceFiles};
use crate::worker::services::Chosen;
use crate::worker::sticky::ThreadSticky;
use handfast_tls::keyed_hash::HashKey;

/// Time over which `min-rate` is measured, while the sender or reader of content is waited for.
pub(crate) const SLOW_WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct ThreadHttp {
    pub(crate) model: Http,
    pub(crate) table: RequestTable,
    /// By the index that the table finds.
    pub(crate) routes: Vec<Rc<ThreadRequestRoute>>,
    /// The service itself, for requests that take none of these.
    pub(crate) fallback: Rc<ThreadRequestRoute>,
    /// Clients that are proxies and name their own clients.
    pub(crate) trusted: Option<TrustedSenders>,
    /// Conditions that every request must meet. Its sender is identified by the gate of its route.
    pub(crate) gate: Option<Arc<Gate>>,
    /// A route takes a share of its requests.
    pub(crate) has_shares: bool,
    /// A route decides about requests by their path, so every reading of a path has to be checked.
    pub(crate) decides_by_path: bool,
    /// Connections that this thread keeps for each backend.
    connections: usize,
}

/// A route as its requests are served, resolved at reload: whatever it does not set is that of its service. Requests of the proxy's own for it
/// are made of it too.
#[derive(Debug)]
pub(crate) struct ThreadRequestRoute {
    /// In logs and metrics; `None`: the service itself.
    pub(crate) name: Option<Rc<str>>,
    /// Action for its requests.
    pub(crate) action: RouteAction,
    /// The paths that it is for.
    pub(crate) path: Option<PathRule>,
    /// Changes to its requests and responses; `None` without any.
    pub(crate) rules: Option<Rc<RequestRules>>,
    /// Trailer fields that backends do not get: those that the route sets, removes, or copies from another server.
    pub(crate) dropped_trailers: Rc<[Box<str>]>,
    /// Conditions that its requests must meet first; `None` without any.
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) limits: RequestLimits,
    /// Stickiness of a client's requests to one backend.
    pub(crate) sticky: Option<Rc<ThreadSticky>>,
    /// The authentication server for its requests.
    pub(crate) auth: Option<ThreadServers>,
    /// Some requests for one of its URLs take another route.
    pub(crate) is_for_some: bool,
    /// Its folder, and pages for its errors.
    pub(crate) files: RouteFiles,
    /// The cache for its responses.
    pub(crate) cache: Option<Arc<ServiceCache>>,
    /// Compression of its responses.
    pub(crate) compression: Option<Rc<Compression>>,
    /// Target for copies of its requests.
    pub(crate) mirror: Option<Rc<ThreadMirror>>,
    /// The route of the service that its requests go to; `None`: that of their connection.
    pub(crate) index: Option<usize>,
    /// It restricts access.
    pub(crate) is_guard: bool,
}

/// Servers beside the backends of a route.
#[derive(Clone, Debug)]
pub(crate) struct ThreadServers {
    /// Settings of requests to them.
    pub(crate) http: Rc<ThreadHttp>,
    /// The route of the service that has them.
    pub(crate) index: usize,
}

/// Servers that receive copies of a route's requests.
#[derive(Debug)]
pub(crate) struct ThreadMirror {
    pub(crate) servers: ThreadServers,
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

/// The field of a trace (W3C Trace Context).
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The field with data of tracing systems, which belongs to it.
pub(crate) const TRACESTATE: &str = "tracestate";

/// The names of request fields that clients must not add as trailers.
fn dropped_trailers(http: &Http, rules: &RequestRules, forward: Option<&ForwardAuth>) -> Rc<[Box<str>]> {
    let is_replaced = |rule: &&FieldRule| !matches!(rule.change, FieldChange::Add(_));
    let changed = rules.request.iter().filter(is_replaced).map(|rule| &rule.name);
    let copied = forward.iter().flat_map(|forward| &forward.copy);
    let traces = http.trace_context.then_some([TRACEPARENT, TRACESTATE]).into_iter().flatten();
    changed.chain(copied).chain(&http.request_id).cloned().chain(traces.map(Into::into)).collect()
}

impl ThreadRequestRoute {
    /// Resolves a route. The places are indices among the routes of its service: of its backends, and of the servers beside them.
    fn new(
        service: &Service,
        http: &Http,
        route: &ResolvedRoute<'_>,
        [index, auth, mirror]: [Option<usize>; 3],
        (gate, key, files): (&Option<Arc<Gate>>, &Option<HashKey>, &RouteFiles),
        (cache, threads): (Option<&Arc<ServiceCache>>, usize),
    ) -> Self {
        let limits = route.limits.clone();
        let servers = |index: usize, limits: RequestLimits| ThreadServers {
            http: ThreadHttp::beside(http, limits, threads),
            index,
        };
        let forward = route.access.and_then(|access| access.forward.as_ref());
        let auth = auth.zip(forward).map(|(index, model)| {
            let (answer, content) = (model.timeout, model.timeout);
            servers(index, RequestLimits { answer, content, ..limits.clone() })
        });
        let mirror = mirror.zip(route.mirror).map(|(index, model)| ThreadMirror {
            servers: servers(index, limits.clone()),
            share: model.share,
            content: model.content,
            under_way: Rc::new(()),
        });
        let sticky = route.sticky.map(|sticky| ThreadSticky::new(sticky, key, &service.name));
        Self {
            name: route.name.map(Into::into),
            action: route.action.clone(),
            path: route.path.cloned(),
            rules: shared(route.rules),
            dropped_trailers: dropped_trailers(http, route.rules, forward),
            gate: gate.clone(),
            limits,
            sticky,
            auth,
            is_for_some: route.is_for_some,
            files: files.clone(),
            cache: cache.filter(|_| route.cache.is_some()).cloned(),
            compression: route.compression.clone().map(Rc::new),
            mirror: mirror.map(Rc::new),
            index,
            is_guard: route.is_guard(),
        }
    }

    /// All requests to servers beside the backends.
    fn open(limits: RequestLimits, http: &Http) -> Self {
        Self {
            name: None,
            action: RouteAction::Inherit,
            path: None,
            rules: None,
            dropped_trailers: dropped_trailers(http, &RequestRules::default(), None),
            gate: None,
            limits,
            sticky: None,
            auth: None,
            is_for_some: false,
            files: RouteFiles::default(),
            cache: None,
            compression: None,
            mirror: None,
            index: None,
            is_guard: false,
        }
    }

    /// The backends of a request that came by a connection with these. A client whose certificate failed is for the backends of such clients
    /// alone.
    pub(crate) fn chosen(&self, connection: Chosen) -> Chosen {
        match self.index {
            Some(route) if !connection.failed => Chosen { route, failed: false },
            _ => connection,
        }
    }
}

impl ThreadHttp {
    /// `None` where a service relays bytes.
    pub(crate) fn new(
        service: &Service,
        gates: &Gates,
        keys: &[Option<HashKey>],
        files: &ServiceFiles,
        cache: Option<&Arc<ServiceCache>>,
        threads: usize,
    ) -> Option<Rc<Self>> {
        let http = service.http.as_ref()?;
        let resolved = ResolvedRoutes::new(service)?;
        let places = service.request_routes().zip(service.auth_routes()).zip(service.mirror_routes());
        let places = places.map(|(((index, _), auth), mirror)| [index, auth, mirror]);
        let of_service =
            ([None, service.auth_routes().last().flatten(), None], (&gates.service, &None, &files.fallback));
        let own =
            gates.routes.iter().zip(keys).zip(&files.routes).map(|((gate, key), files)| (gate, key, files));
        let own = places.zip(own).chain([of_service]);
        let all = resolved.routes.iter().chain([&resolved.fallback]).zip(own);
        let mut routes: Vec<_> = all
            .map(|(route, (places, own))| {
                Rc::new(ThreadRequestRoute::new(service, http, route, places, own, (cache, threads)))
            })
            .collect();
        let fallback = routes.pop()?;
        let all = Self::of(http.clone(), http.limits(&RouteLimits::default()), threads);
        Some(Rc::new(Self {
            fallback,
            gate: gates.service.clone(),
            decides_by_path: resolved.decides_by_path(),
            table: RequestTable::new(service),
            routes,
            trusted: TrustedSenders::new(&http.forwarded.trusted),
            has_shares: http.routes.iter().any(|route| route.share.is_some()),
            ..all
        }))
    }

    /// For servers beside the backends: HTTP/1.1, and one more connection where a kept one was closed.
    fn beside(http: &Http, limits: RequestLimits, threads: usize) -> Rc<Self> {
        let model = Http {
            backend_version: BackendVersion::Http1,
            pool: PoolLimits { connections: http.pool.connections.max(threads), ..http.pool.clone() },
            count_failures: false,
            failure_ratio: None,
            concurrency: None,
            compression: None,
            rules: RequestRules::default(),
            access: RouteAccess::default(),
            routes: Vec::new(),
            ..http.clone()
        };
        Rc::new(Self::of(model, RequestLimits { retries: 1, ..limits }, threads))
    }

    /// Without routes.
    fn of(model: Http, limits: RequestLimits, threads: usize) -> Self {
        Self {
            connections: model.pool.connections.div_ceil(threads.max(1)),
            fallback: Rc::new(ThreadRequestRoute::open(limits, &model)),
            gate: None,
            model,
            table: RequestTable::default(),
            routes: Vec::new(),
            trusted: None,
            has_shares: false,
            decides_by_path: false,
        }
    }

    /// Returns a route by the index that the table finds; `None`: the service itself.
    pub(crate) fn route(&self, index: Option<usize>) -> &Rc<ThreadRequestRoute> {
        index.map_or(&self.fallback, |index| &self.routes[index])
    }

    fn all_routes(&self) -> impl Iterator<Item = &Rc<ThreadRequestRoute>> {
        self.routes.iter().chain([&self.fallback])
    }

    /// Returns true if a route writes such a variable into a field or a target. Otherwise connections do not keep what it is made of.
    pub(crate) fn writes(&self, is_it: impl Fn(Variable) -> bool) -> bool {
        self.all_routes().any(|route| {
            let target = match &route.action {
                RouteAction::Redirect(target, _) => Some(target),
                _ => None,
            };
            let rules = route.rules.iter().flat_map(|rules| rules.templates());
            rules.chain(target).flat_map(Template::variables).any(&is_it)
        })
    }

    /// Returns true if a route keeps responses.
    pub(crate) fn has_cache(&self) -> bool {
        self.all_routes().any(|route| route.cache.is_some())
    }

    /// Returns true if a route has conditions on the content of a client's certificate.
    pub(crate) fn has_certificate_conditions(&self) -> bool {
        let mut gates = self.all_routes().filter_map(|route| route.gate.as_ref());
        gates.any(|gate| !gate.certificates.is_empty())
    }

    /// Bytes of content that must move in a window of [`SLOW_WINDOW`].
    pub(crate) fn bytes_in_window(&self) -> u64 {
        u64::from(self.model.min_rate) * SLOW_WINDOW.as_secs()
    }

    /// Returns the detail of the log for a client that was too slow for `min-rate`.
    pub(crate) fn below_min_rate(&self) -> String {
        format!("its content is slower than `min-rate`, {} bytes a second", self.model.min_rate)
    }

    /// Bounds of kept connections, and the requests that each may serve.
    pub(crate) fn pool_bounds(&self) -> (Bounds, u32) {
        let pool = &self.model.pool;
        (Bounds { connections: self.connections, idle: pool.idle }, pool.requests)
    }
}
