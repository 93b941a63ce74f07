//! Routes for requests, from `[[service.route]]` to the model, and those that no request reaches.

use std::sync::Arc;

use super::access::{self, ClientFacts};
use super::around::Around;
use super::own_response::{OwnResponse, own_response};
use super::{backend_tls, request_rules, site};
use crate::check::{self, no_effect_of_section};
use crate::keys;
use crate::kind::{RedirectTo, Site};
use crate::model::{
    BackendVersion, Clients, Files, Piece, RequestRoute, RequestRules, RouteAccess, RouteAction,
    RouteErrorPages, Template, Variable,
};
use crate::path_rule::PathRule;
use crate::problem::Fault;
use crate::reading::{Written, values};
use crate::schema::{Entry, Key, ValueKind};
use crate::table::Table;

/// The number of routes that are compared with each other; this bounds the cost.
const MAX_COMPARED_ROUTES: usize = 500;

/// The routes in the order written; `None` when something is wrong with one, which is then noted.
pub(super) fn routes(
    service: &Table<'_>,
    around: &Around<'_>,
    files: Option<Arc<Files>>,
) -> Option<Vec<RequestRoute>> {
    let sections = service.inner_list(&keys::ROUTE);
    check::names(&sections, &keys::ROUTE_NAME, "routes");
    let known = ClientFacts::of(service, around);
    let has_cache = service.span_of(&keys::CACHE).is_some();
    let section = service.inner(&keys::HTTP);
    let access = access::access(&section, None, known);
    let of_service = OfService { section, access, known, has_cache };
    let route = |(index, section)| route(section, index, around, &of_service);
    let routes: Vec<Option<RequestRoute>> = sections.iter().enumerate().map(route).collect();
    if around.http.is_some() {
        check_reachable(&sections, &routes);
    }
    let mut routes: Vec<RequestRoute> = routes.into_iter().collect::<Option<_>>()?;
    if let Some(files) = files {
        let inherits = |route: &&mut RequestRoute| route.action == RouteAction::Inherit;
        let inheriting = routes.iter_mut().filter(inherits);
        inheriting.for_each(|route| route.action = RouteAction::Files(Arc::clone(&files)));
        // Those that a route without keys has.
        let rules = request_rules::of_service(&of_service.section, around.clients);
        let rules = RequestRules { request: Vec::new(), ..rules };
        let RouteAccess { basic, forward, .. } = of_service.access?;
        let access = RouteAccess { basic, forward, ..RouteAccess::default() };
        routes.push(RequestRoute::for_files(files, rules, access));
    }
    Some(routes)
}

/// The files that requests without a route are answered with; the inner `None`: none. `None`: something is wrong, which is noted.
pub(super) fn files(service: &Table<'_>) -> Option<Option<Arc<Files>>> {
    if let Some(place) = service.written(&keys::BACKEND) {
        let fault = Fault::new("a service has a `backend` or `files`: its requests get one response");
        let hint = "write [[service.route]] with `files` for those of a path";
        service.error(&keys::FILES, fault.hint(hint).see(place, "the backend"));
    }
    Some(access::unless_wrong(service, &keys::FILES)?.map(Arc::new))
}

/// The parts of a service that its routes have, too.
struct OfService<'t> {
    /// [service.http]
    section: Table<'t>,
    /// `None`: it is wrong.
    access: Option<RouteAccess>,
    known: ClientFacts,
    has_cache: bool,
}

/// Returns true if the service has no backends and needs none: each request has a response, or backends, of a route. Reports
/// missing ones.
pub(super) fn is_without_backend(
    service: &Table<'_>,
    http: Option<BackendVersion>,
    routes: Option<&[RequestRoute]>,
) -> bool {
    if service.written(&keys::BACKEND).is_some() || service.written(&keys::FILES).is_some() {
        return service.written(&keys::BACKEND).is_none();
    }
    let take_all = |routes: &[RequestRoute]| {
        routes.iter().any(RequestRoute::matches_all)
            && routes.iter().all(|route| !matches!(route.action, RouteAction::Inherit))
    };
    // Routes that are wrong are reported; whether they take every request is not known then.
    let is_without = http.is_some() && routes.is_none_or(take_all);
    if !is_without {
        service.required(&keys::BACKEND);
    }
    is_without
}

fn route(
    section: &Table<'_>,
    index: usize,
    around: &Around<'_>,
    service: &OfService<'_>,
) -> Option<RequestRoute> {
    let name = section.optional(&keys::ROUTE_NAME);
    let hosts = whole_list(section, &keys::ROUTE_HOSTS);
    let path = section.optional(&keys::ROUTE_PATH);
    let is_path_wrong = path.is_none() && section.written(&keys::ROUTE_PATH).is_some();
    if section.written(&keys::ROUTE_PATH).is_none() {
        check::no_effect(section, [&keys::ROUTE_IGNORE_CASE as &dyn Entry], "the route has no `path`");
    }
    let ignores_case = section.or_default(&keys::ROUTE_IGNORE_CASE);
    let methods = whole_list(section, &keys::ROUTE_METHODS);
    let headers = whole_list(section, &keys::ROUTE_HEADERS);
    let share = access::unless_wrong(section, &keys::ROUTE_SHARE);
    let own_site = site::of(section, &keys::ROUTE_BACKEND);
    let action = action(section, around, own_site.as_ref());
    let response = own_response(section);
    let forwards = response == OwnResponse::None;
    let mut rules =
        request_rules::rules(section, (&service.section, own_site.as_ref()), around.clients, response);
    let of_service = around.site.filter(|_| section.written(&keys::ROUTE_BACKEND).is_none());
    if let Some(site) = of_service.filter(|_| forwards) {
        site::name_host(&mut rules, &site.value);
    }
    let access = access::access(section, service.access.as_ref(), service.known);
    let mirror = access::mirror(section, forwards);
    let sticky = access::sticky(section, forwards);
    let error_pages = error_pages(section);
    if is_path_wrong {
        return None;
    }
    Some(RequestRoute {
        name: name.unwrap_or_else(|| format!("route {}", index + 1)).into(),
        hosts: hosts?,
        path: path.map(|path| PathRule::new(&path, ignores_case)),
        methods: methods?,
        headers: headers?,
        share: share?,
        action: action?,
        rules,
        access: access?,
        is_cached: access::is_cached(section, forwards, service.has_cache),
        compression: access::compression(section, response),
        mirror: mirror?,
        sticky: sticky?,
        limits: access::limits(section, response),
        error_pages: error_pages?,
    })
}

/// A list whose items are all right. A condition that is wrong must not count as one that is not there.
fn whole_list<K: ValueKind<Value = Vec<Written<T>>>, T>(section: &Table<'_>, key: &Key<K>) -> Option<Vec<T>> {
    let written = section.item(key).map_or(0, |item| item.value.as_array().map_or(1, |list| list.len()));
    let list = section.list(key);
    (list.len() == written).then_some(list)
}

fn action(section: &Table<'_>, around: &Around<'_>, own_site: Option<&Written<Site>>) -> Option<RouteAction> {
    let backends = section.optional(&keys::ROUTE_BACKEND);
    let listed = backends.as_deref().unwrap_or_default();
    check::backends(section, &keys::ROUTE_BACKEND, around.listen, listed);
    let others = around.tls_of_others();
    let own_tls = site::backend_tls(section, &keys::ROUTE_BACKEND_TLS, around.http, (own_site, others));
    if let Some(tls) = own_tls.as_ref().and_then(Option::as_ref).or(others) {
        backend_tls::check_names(section, tls, listed);
    }
    let redirect = section.optional(&keys::ROUTE_REDIRECT);
    let respond = section.optional(&keys::ROUTE_RESPOND);
    let files = section.optional(&keys::ROUTE_FILES);
    let has_backend = section.written(&keys::ROUTE_BACKEND).is_some();
    check_one_response(section);
    if redirect == Some(RedirectTo::Https) {
        check_redirect(section, around.clients);
    }
    if !has_backend {
        let why = "the route has no `backend`; the backends of the connection have their own TLS";
        no_effect_of_section(section, &keys::ROUTE_BACKEND_TLS, why);
    }
    // Without a word about it, another backend than the service's site is spoken to in plain text.
    let plain = (around.backend_tls.is_some() && others.is_none()).then_some(None);
    let own_tls = own_tls?.map(|tls| tls.value).or(plain);
    let is_wrong = |key: &dyn Entry, is_read: bool| section.written(key).is_some() && !is_read;
    if is_wrong(&keys::ROUTE_REDIRECT, redirect.is_some())
        || is_wrong(&keys::ROUTE_RESPOND, respond.is_some())
        || is_wrong(&keys::ROUTE_FILES, files.is_some())
    {
        return None;
    }
    Some(match (backends, redirect, respond.map(RouteAction::Respond)) {
        (Some(backends), ..) => RouteAction::Backends(values(backends).into(), own_tls),
        (None, Some(RedirectTo::Https), _) => RouteAction::Redirect(to_https(), 308),
        (None, Some(RedirectTo::Target(target, status)), _) => RouteAction::Redirect(target, status),
        (None, None, Some(respond)) => respond,
        (None, None, None) => files.map_or(RouteAction::Inherit, |files| RouteAction::Files(Arc::new(files))),
    })
}

/// The same host and target.
fn to_https() -> Template {
    let text = Piece::Text("https://".into());
    Template(vec![text, Piece::Variable(Variable::Host), Piece::Variable(Variable::Target)])
}

/// Its pages for errors; `None`: something is wrong with them, which is noted.
fn error_pages(section: &Table<'_>) -> Option<RouteErrorPages> {
    Some(RouteErrorPages {
        pages: access::unless_wrong(section, &keys::ROUTE_ERROR_PAGES)?,
        replace_backends: section.optional(&keys::ROUTE_ERROR_PAGES_BACKENDS),
    })
}

/// A request gets one response.
fn check_one_response(section: &Table<'_>) {
    let keys =
        [&keys::ROUTE_BACKEND as &dyn Entry, &keys::ROUTE_REDIRECT, &keys::ROUTE_RESPOND, &keys::ROUTE_FILES];
    let mut written = keys.into_iter().filter_map(|key| Some((key, section.written(key)?)));
    if let (Some((first, place)), Some((second, _))) = (written.next(), written.next()) {
        let (first, other) = (first.name, second.name);
        let fault =
            Fault::new(format!("a route has a `{first}` or a `{other}`: a request gets one response"));
        section.error(second, fault.hint("remove one of them").see(place, format!("the {first}")));
    }
}

fn check_redirect(section: &Table<'_>, clients: Clients) {
    if clients != Clients::Plain {
        let what = "clients speak TLS here, so they would be redirected to where they are, forever";
        let hint = "write the route for a service with `client-tls = false`; for plain HTTP on this port there is \
                    `plain-http = \"redirect\"` in [[service]]";
        section.error(&keys::ROUTE_REDIRECT, Fault::new(what).hint(hint));
    }
}

/// Reports routes behind one that matches all of their requests.
fn check_reachable(sections: &[Table<'_>], routes: &[Option<RequestRoute>]) {
    let known =
        || sections.iter().zip(routes).filter_map(|(section, route)| Some((section, route.as_ref()?)));
    for (at, (section, route)) in known().enumerate().take(MAX_COMPARED_ROUTES) {
        let Some((first, earlier)) = known().take(at).find(|(_, earlier)| earlier.covers(route)) else {
            continue;
        };
        let what =
            format!("`{}` is never reached: `{}` matches its requests first", route.name, earlier.name);
        let fault = Fault::new(what).hint("write it before that route, or remove it");
        section.reading().error(section.span(), fault.see(first.span().clone(), "that route"));
    }
}
