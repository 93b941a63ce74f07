//! The routes of a service for requests, as they are served: what a route does not set is that of its service. The proxy serves by them, and
//! `check --explain` describes them.
//!
//! In: the model of a service. Out: for each route everything that applies to its requests, and the routes that one path may lead to.

use crate::model::{
    Cache, Compression, ErrorPages, FieldChange, FieldRule, Http, Mirror, RequestLimits, RequestRoute,
    RequestRules, RouteAccess, RouteAction, RouteLimits, Service, Sticky,
};
use crate::path_readings::path_readings;
use crate::path_rule::PathRule;

/// Readings of one path that are looked at.
pub const MAX_READINGS: usize = 256;
/// Comparisons with routes for the readings of one path: a millisecond.
const MAX_COMPARISONS: usize = 100_000;

/// A route for requests, or the service itself for those that take none.
#[derive(Clone, Debug)]
pub struct ResolvedRoute<'s> {
    /// Its name in logs and metrics; `None`: the service itself.
    pub name: Option<&'s str>,
    /// The treatment of its requests.
    pub action: &'s RouteAction,
    /// The paths that it is for; `None`: all.
    pub path: Option<&'s PathRule>,
    /// Its changes of requests and responses.
    pub rules: &'s RequestRules,
    /// Conditions and limits of its requests beside those of [the service](ResolvedRoutes::access); `None`: none. For the service itself these.
    pub access: Option<&'s RouteAccess>,
    /// Limits of its requests.
    pub limits: RequestLimits,
    /// The means by which the requests of a client stay at one backend.
    pub sticky: Option<&'s Sticky>,
    /// The target of copies of its requests.
    pub mirror: Option<&'s Mirror>,
    /// The cache for its responses.
    pub cache: Option<&'s Cache>,
    /// Compression of its responses; `None`: none, also where they may have secrets.
    pub compression: Option<Compression>,
    /// Pages for its errors.
    pub error_pages: ErrorPages,
    /// Some requests for one of its URLs take another route.
    pub is_for_some: bool,
}

impl<'s> ResolvedRoute<'s> {
    pub(crate) fn of(http: &'s Http, route: &'s RequestRoute) -> Self {
        let compression = route.compression.resolve(http.compression.as_ref());
        Self {
            name: Some(&route.name),
            action: &route.action,
            path: route.path.as_ref(),
            rules: &route.rules,
            access: Some(&route.access).filter(|access| !access.is_open()),
            limits: http.limits(&route.limits),
            sticky: route.sticky.as_ref(),
            mirror: route.mirror.as_ref(),
            cache: http.cache.as_ref().filter(|_| route.is_cached),
            compression: compression
                .filter(|own| Uncompressed::find(own, &route.rules, &route.access, http).is_none()),
            error_pages: route.error_pages.resolve(&http.error_pages),
            is_for_some: !route.methods.is_empty() || !route.headers.is_empty() || route.share.is_some(),
        }
    }

    fn fallback(http: &'s Http) -> Self {
        Self {
            name: None,
            action: &RouteAction::Inherit,
            path: None,
            rules: &http.rules,
            access: Some(&http.access).filter(|access| !access.is_open()),
            limits: http.limits(&RouteLimits::default()),
            sticky: None,
            mirror: None,
            cache: http.cache.as_ref(),
            compression: http
                .compression
                .clone()
                .filter(|own| Uncompressed::find(own, &http.rules, &http.access, http).is_none()),
            error_pages: http.error_pages.clone(),
            is_for_some: false,
        }
    }

    /// Returns true if backends receive its requests.
    pub fn forwards(&self) -> bool {
        matches!(self.action, RouteAction::Inherit | RouteAction::Backends(..))
    }

    /// Returns true if the route restricts access: by conditions, or because no backend receives its requests. A limit alone does not, nor do the
    /// service's lists, which hold for all routes.
    pub fn is_guard(&self) -> bool {
        let has_conditions =
            if self.name.is_some() { RouteAccess::has_conditions } else { RouteAccess::identifies };
        self.access.is_some_and(has_conditions) || !self.forwards()
    }

    /// Returns true if it decides something that another way to write a path must not change.
    fn decides(&self, fallback: &Self) -> bool {
        let is_exception = self.cache.is_some() != fallback.cache.is_some()
            || self.compression.is_some() != fallback.compression.is_some()
            || self.limits.body != fallback.limits.body;
        self.is_guard() || self.access.is_some() || is_exception || fallback.is_guard()
    }
}

/// Reason why responses are never compressed though it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncompressed {
    /// A rule replaces or removes a field that names their coding.
    ByRule,
    /// They may have secrets: the route identifies its clients.
    BySecrets,
}

impl Uncompressed {
    /// Finds the reason for a route, or for the service itself. `rules`, `access`: its own, with those of its service.
    pub(crate) fn find(
        own: &Compression,
        rules: &RequestRules,
        access: &RouteAccess,
        http: &Http,
    ) -> Option<Self> {
        let replaces = |rule: &FieldRule| matches!(rule.change, FieldChange::Set(_) | FieldChange::Remove);
        let is_needed =
            |name: &str| ["content-encoding", "vary"].iter().any(|own| name.eq_ignore_ascii_case(own));
        if rules.response.iter().any(|rule| replaces(rule) && is_needed(&rule.name)) {
            return Some(Self::ByRule);
        }
        // The service's certificates are those of all routes.
        let by_certificate = [access, &http.access].iter().any(|access| !access.certificates.is_empty());
        let has_secrets = by_certificate || access.identifies();
        (has_secrets && !own.with_secrets).then_some(Self::BySecrets)
    }
}

/// All routes of a service for requests.
#[derive(Clone, Debug)]
pub struct ResolvedRoutes<'s> {
    /// In the order written, by the index that [`RequestTable`](crate::RequestTable) finds.
    pub routes: Vec<ResolvedRoute<'s>>,
    /// The service itself.
    pub fallback: ResolvedRoute<'s>,
}

impl<'s> ResolvedRoutes<'s> {
    /// Resolves the routes of a service; `None`: it relays bytes.
    pub fn new(service: &'s Service) -> Option<Self> {
        let http = service.http.as_ref()?;
        let routes = http.routes.iter().map(|route| ResolvedRoute::of(http, route)).collect();
        Some(Self { routes, fallback: ResolvedRoute::fallback(http) })
    }

    /// Returns a route by its index; `None`: the service itself.
    pub fn at(&self, index: Option<usize>) -> &ResolvedRoute<'s> {
        index.map_or(&self.fallback, |index| &self.routes[index])
    }

    /// Returns true if a route decides about requests by their path, so that every reading of a path has to be checked. An open route for a path
    /// is an exception from a guard for all paths.
    pub fn decides_by_path(&self) -> bool {
        self.routes.iter().any(|route| route.path.is_some())
            && self.routes.iter().any(|route| route.decides(&self.fallback))
    }
}

/// The routes that a request may lead to, as indices; `None`: the service itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutesOfPath {
    /// The route for the path as it is forwarded.
    pub route: Option<usize>,
    /// The routes for the other ways in which a backend may read the path, each once, where a route decides by it.
    pub others: Vec<Option<usize>>,
    /// There are more ways to read the path than are looked at.
    pub has_more: bool,
}

impl RoutesOfPath {
    /// Finds the routes for a path. `decides_by_path`: see [`ResolvedRoutes`]; `routes`: the number of routes; `find`: the route for a reading.
    ///
    /// **Cost**: for nearly all paths one search, and one look at each byte.
    pub fn find(
        path: &[u8],
        decides_by_path: bool,
        routes: usize,
        find: impl Fn(&[u8]) -> Option<usize>,
    ) -> Self {
        let limit = (MAX_COMPARISONS / routes.max(1)).clamp(4, MAX_READINGS);
        let readings = if decides_by_path { path_readings(path, limit) } else { Ok(Vec::new()) };
        let route = find(path);
        let mut others = Vec::new();
        for other in readings.iter().flatten().map(|path| find(path)) {
            if other != route && !others.contains(&other) {
                others.push(other);
            }
        }
        Self { route, others, has_more: readings.is_err() }
    }

    /// All routes, the one that serves the request first.
    pub fn all(&self) -> impl Iterator<Item = Option<usize>> {
        std::iter::once(self.route).chain(self.others.iter().copied())
    }

    /// Returns true if the readings of the path lead to different access decisions. Another route that is open, too, decides nothing.
    pub fn is_ambiguous(&self, is_guard: impl Fn(Option<usize>) -> bool) -> bool {
        self.has_more || (!self.others.is_empty() && self.all().any(is_guard))
    }
}

/// Returns the target that the backend receives instead of a path, with `rewrite-path` in the place of the route's path; and that new path.
pub fn new_target<'r>(
    path: &[u8],
    prefix: Option<&PathRule>,
    rules: Option<&'r RequestRules>,
) -> Option<(Vec<u8>, &'r str)> {
    // The asterisk of OPTIONS has no beginning.
    let (new, prefix) = rules?.new_path.as_deref().zip(prefix).filter(|_| path.starts_with(b"/"))?;
    let rest = prefix.rest(path);
    let mut target = new.trim_end_matches('/').as_bytes().to_vec();
    if target.is_empty() && rest.first() != Some(&b'/') {
        target.push(b'/');
    }
    target.extend_from_slice(rest);
    Some((target, new))
}

/// Returns true if the target that a backend receives instead of a path stays below the new path, however the backend reads it.
pub fn new_target_stays_below(path: &[u8], prefix: Option<&PathRule>, rules: Option<&RequestRules>) -> bool {
    let Some((target, new)) = new_target(path, prefix, rules) else { return true };
    let end = if prefix.is_some_and(|prefix| prefix.at_segments) { "" } else { "*" };
    let below = PathRule::new(&format!("{}{end}", new.trim_end_matches('/')), false);
    let stays = |reading: &Vec<u8>| below.matches(reading);
    path_readings(&target, MAX_READINGS).is_ok_and(|readings| readings.iter().all(stays))
}
