//! HTTP mode in sentences: what backends receive, which routes there are, and which one a request takes.
//!
//! In: the model, and a request for `handfast check --explain URL`. Out: lines of a text. The route is found by the same code that finds
//! it for requests.

use std::path::PathBuf;
use std::time::Duration;

use handfast_http::http1::Kind;
use handfast_text::duration;
use handfast_text::size;
use handfast_text::units::counted;

use super::phrases::{addresses, backend_tls, backends, list};
use super::target::ExplainRequest;
use crate::keys;
use crate::model::{
    BackendVersion, Compression, Concurrency, ErrorPages, ErrorStatus, FieldChange, FieldRule, Files,
    ForwardAuth, Forwarded, Http, Maintenance, Mirror, RateKey, RequestLimits, RequestRate, RequestRoute,
    RequestRules, RouteAccess, RouteAction, RouteErrorPages, RouteLimits, Service, Sticky,
};
use crate::request_routes::{ResolvedRoute, ResolvedRoutes, RoutesOfPath, new_target_stays_below};
use crate::request_table::RequestTable;
use crate::schema::default_of;

/// Describes the handling of every request in HTTP mode, and each route.
pub(super) fn http(service: &Service, http: &Http) -> Vec<String> {
    let version = match http.backend_version {
        BackendVersion::Http1 => "HTTP/1.1",
        BackendVersion::Http2 => "HTTP/2",
    };
    let pool = &http.pool;
    let kept = match pool.connections {
        0 => "opens a connection to a backend for each".to_owned(),
        most => format!(
            "keeps up to {} to each backend for the next one, for {} and {}",
            counted(most as u64, "connection"),
            duration::written(pool.idle),
            counted(pool.requests.into(), "request")
        ),
    };
    let mut lines: Vec<String> = maintenance(http).into_iter().collect();
    let mut of_routes = http.routes.iter().filter_map(RequestRoute::backends);
    if !service.backends.is_empty() || of_routes.next().is_some() {
        lines.push(format!("forwards HTTP requests to backends by {version}, and {kept}"));
        lines.extend(fields(http));
    }
    lines.extend(http2_window(service, http));
    lines.extend(http.concurrency.as_ref().map(concurrency));
    lines.extend(http.failure_ratio.map(|share| {
        format!("marks a backend down when more than {share} of its requests fail within ten seconds, of at least 20")
    }));
    lines.extend(http.body_limit.map(|most| format!("refuses content of more than {}", size::written(most))));
    lines.extend(http.cache.as_ref().map(|cache| {
        let (folder, size) = (cache.folder.display(), size::written(cache.size));
        format!("keeps responses in the cache {folder}, {size} at most")
    }));
    lines.extend(conditions_of_connections(&http.access));
    lines.extend(http.compression.as_ref().map(|own| format!("compresses responses {}", compression(own))));
    lines.extend(error_pages(&http.error_pages));
    lines.extend(http.routes.iter().map(|one| route(service, http, one)));
    let which = if http.routes.is_empty() { "" } else { " without a route" };
    let of_others = [identification(&http.access), changed_fields(&http.rules)].concat();
    lines.extend(of_others.into_iter().map(|clause| format!("{clause}{which}")));
    lines
}

/// The maintenance that the configuration puts a service in.
fn maintenance(http: &Http) -> Option<String> {
    let in_words = |maintenance: &Maintenance| format!("is in maintenance: {}", maintenance.in_words());
    http.maintenance.as_ref().map(in_words)
}

/// The content that HTTP/2 connections may have, and the speed and memory that follow; `None`: as usual.
fn http2_window(service: &Service, http: &Http) -> Option<String> {
    let window = http.http2_window;
    if window == default_of(&keys::HTTP2_WINDOW) as u32 {
        return None;
    }
    // One stream leaves 256 KiB to others; a window passes in each round trip.
    let megabits = u64::from(window - 262_144) * 8 * 10 / 1_000_000;
    let all = service.max_connections.map(|most| {
        let bytes = size::written(u64::from(window) * most as u64);
        format!(", all {} at most {bytes}", counted(most as u64, "connection"))
    });
    let window = size::written(window.into());
    Some(format!(
        "keeps up to {window} of content for an HTTP/2 connection whose other side is slow{}: an upload gets up to {megabits} Mbit/s at 100 ms",
        all.unwrap_or_default()
    ))
}

/// The codings of responses, and which of them are coded.
fn compression(Compression { codings, types, min_size, with_secrets }: &Compression) -> String {
    let codings = list(codings.iter().map(|(coding, level)| format!("{} (level {level})", coding.name())));
    let secrets = if *with_secrets { ", also those that may have secrets" } else { "" };
    let (types, least) = (counted(types.written().count() as u64, "type"), size::written(*min_size));
    format!("of {types} from {least} on by {codings}{secrets}")
}

/// The compression of a route, where it differs from that of its service.
fn own_compression(resolved: Option<&Compression>, of_service: Option<&Compression>) -> Option<String> {
    (resolved != of_service).then(|| match resolved {
        Some(own) => format!("compresses their responses {}", compression(own)),
        None => "their responses are not compressed".to_owned(),
    })
}

/// The number of requests that each backend gets at once.
fn concurrency(Concurrency { requests, queue, wait }: &Concurrency) -> String {
    let most = counted((*requests).into(), "request");
    let wait = duration::written(*wait);
    format!("gives each backend up to {most} at once; up to {queue} more wait for up to {wait}")
}

/// The fields that backends receive from the proxy.
fn fields(http: &Http) -> Vec<String> {
    let Forwarded { x_forwarded, standard, trusted, trusted_files } = &http.forwarded;
    let names = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"].into_iter();
    let names: Vec<&str> = names.filter(|_| *x_forwarded).chain(standard.then_some("Forwarded")).collect();
    let mut sentence = match names.is_empty() {
        true => "does not name the client to backends".to_owned(),
        false => format!("names the client to backends in {}", list(names)),
    };
    sentence.push_str("; such fields that clients send are removed");
    let trusted = addresses(trusted, trusted_files);
    if !trusted.is_empty() {
        sentence.push_str(&format!(", except those from {trusted}, which are continued"));
    }
    let id =
        http.request_id.as_ref().map(|name| format!("sends backends an identifier of the request in {name}"));
    let trace =
        http.trace_context.then(|| "continues or begins a trace for each request, in traceparent".to_owned());
    std::iter::once(sentence).chain(id).chain(trace).collect()
}

/// The requests that a route is for.
fn conditions(route: &RequestRoute) -> String {
    let share = route.share.map(|share| format!("{share} of the ")).unwrap_or_default();
    let mut text = format!("{share}requests");
    if !route.methods.is_empty() {
        text = format!("{share}{} requests", list(&route.methods));
    }
    if !route.hosts.is_empty() {
        text.push_str(&format!(" for {}", list(&route.hosts)));
    }
    if let Some(path) = &route.path {
        text.push_str(&format!(" below {path}"));
    }
    if !route.headers.is_empty() {
        text.push_str(&format!(" with {}", list(headers(route))));
    }
    text
}

fn headers(route: &RequestRoute) -> impl Iterator<Item = String> {
    route.headers.iter().map(|(name, value)| match value {
        Some(value) => format!("{name}: {value}"),
        None => name.to_string(),
    })
}

/// Conditions and limits of a route beside those of its service, a clause each, in the order in which the proxy checks them.
fn access(http: &Http, access: &RouteAccess) -> Vec<String> {
    [conditions_of_connections(access), identification_of_route(http, access)].concat()
}

/// Marks what a route has of its service.
fn of_service(is_inherited: bool) -> &'static str {
    if is_inherited { " (of the service)" } else { "" }
}

/// The identification of the sender of a request of a route, and its origin.
fn identification_of_route(http: &Http, access: &RouteAccess) -> Vec<String> {
    let of = |basic: bool, forward: bool| RouteAccess {
        basic: access.basic.clone().filter(|_| basic),
        forward: access.forward.clone().filter(|_| forward),
        ..RouteAccess::default()
    };
    let marked = |access: RouteAccess, mark: &'static str| {
        identification(&access).into_iter().map(move |clause| format!("{clause}{mark}"))
    };
    let removed = [
        (http.access.basic.is_some() && access.basic.is_none(), "basic-auth"),
        (http.access.forward.is_some() && access.forward.is_none(), "forward-auth"),
    ];
    let removed = removed.into_iter().filter(|(is_removed, _)| *is_removed);
    marked(of(true, false), of_service(access.basic == http.access.basic))
        .chain(marked(of(false, true), of_service(access.forward == http.access.forward)))
        .chain(removed.map(|(_, key)| format!("the service's {key} is removed")))
        .collect()
}

/// Conditions that need no waiting.
fn conditions_of_connections(access: &RouteAccess) -> Vec<String> {
    let RouteAccess { allow, allow_files, refuse, refuse_files, certificates, rate, .. } = access;
    let (allow, refuse) = (addresses(allow, allow_files), addresses(refuse, refuse_files));
    let mut clauses = Vec::new();
    if !allow.is_empty() {
        clauses.push(format!("only clients from {allow} are let in"));
    }
    if !refuse.is_empty() {
        clauses.push(format!("clients from {refuse} are refused"));
    }
    clauses.extend(rate.as_ref().map(rate_limit));
    if !certificates.is_empty() {
        clauses.push("only clients with certain certificates are let in".to_owned());
    }
    clauses
}

/// The identification of the sender of a request.
fn identification(RouteAccess { basic, forward, .. }: &RouteAccess) -> Vec<String> {
    let basic = basic.as_ref().map(|basic| format!("clients need a password of {}", basic.file.display()));
    let forward = forward.as_ref().map(|ForwardAuth { to, path, copy, .. }| {
        let servers = list(to.iter().map(|backend| &backend.target));
        let copied = if copy.is_empty() {
            String::new()
        } else {
            format!(", and backends receive its fields {}", list(copy))
        };
        format!("{servers} decides about each request by {path}{copied}")
    });
    basic.into_iter().chain(forward).collect()
}

fn rate_limit(RequestRate { requests, per, burst, by, .. }: &RequestRate) -> String {
    let whose = match by {
        RateKey::Client => "each client".to_owned(),
        RateKey::Route => "all clients together".to_owned(),
        RateKey::Field(name) => format!("each value of {name}"),
    };
    let per = duration::written(*per);
    format!("{whose} may send {} in {per} and {burst} at once", counted((*requests).into(), "request"))
}

/// Changes of a route in requests and responses, and the target of copies, a clause each.
fn changes(rules: &RequestRules, sticky: Option<&Sticky>, mirror: Option<&Mirror>) -> Vec<String> {
    let path = rules.new_path.as_ref().map(|path| format!("with the path below {path}"));
    let sticky = sticky.map(|sticky| match sticky {
        Sticky::Cookie { name, .. } => format!("each client stays at its backend by the cookie {name}"),
        Sticky::Header(name) => format!("each value of {name} stays at its backend"),
    });
    let mirror = mirror.map(|Mirror { to, share, content }| {
        let servers = list(to.iter().map(|server| &server.target));
        let most = size::written(*content as u64);
        format!("{servers} gets copies of {share}, with content of at most {most}")
    });
    path.into_iter().chain(sticky).chain(mirror).collect()
}

/// The limits that a route sets, a clause each.
fn own_limits(RouteLimits { answer, content, body, retries }: &RouteLimits) -> Vec<String> {
    let own = [
        answer.map(|limit| format!("response-timeout {}", timeout(limit))),
        content.map(|limit| format!("body-timeout {}", timeout(limit))),
        body.map(|most| format!("content of at most {}", size::written(most))),
        retries.map(|retries| counted(retries.into(), "retry")),
    ];
    own.into_iter().flatten().collect()
}

fn timeout(limit: Duration) -> String {
    if limit.is_zero() { "none".to_owned() } else { duration::written(limit) }
}

/// The fields of requests and responses that are changed, a clause each. The host that a backend is asked for is part of who is asked.
fn changed_fields(RequestRules { request, response, .. }: &RequestRules) -> Vec<String> {
    let clause = |(rules, of): (&Vec<FieldRule>, &str)| {
        let named = rules.iter().map(|FieldRule { name, change }| match change {
            FieldChange::Set(value) if Kind::of(name.as_bytes()) == Kind::Host => {
                format!("{name} (to {value})")
            }
            _ => name.to_string(),
        });
        (!rules.is_empty()).then(|| format!("changes {} of {of}", list(named)))
    };
    [(request, "requests"), (response, "responses")].into_iter().filter_map(clause).collect()
}

/// The same for a route, with the fields that it has of its service behind its own.
fn changed_fields_of_route(http: &Http, rules: &RequestRules) -> Vec<String> {
    let split = |rules: &[FieldRule], of_service: &[FieldRule]| -> (Vec<FieldRule>, Vec<FieldRule>) {
        rules.iter().cloned().partition(|rule| of_service.contains(rule))
    };
    let (request_around, request) = split(&rules.request, &http.rules.request);
    let (response_around, response) = split(&rules.response, &http.rules.response);
    let own = changed_fields(&RequestRules { request, response, new_path: None });
    let around =
        changed_fields(&RequestRules { request: request_around, response: response_around, new_path: None });
    own.into_iter().chain(around.into_iter().map(|clause| format!("{clause}{}", of_service(true)))).collect()
}

fn action(service: &Service, action: &RouteAction) -> String {
    match action {
        RouteAction::Inherit => "to the backends of their connection".to_owned(),
        RouteAction::Redirect(target, status) => {
            format!("they are redirected to {target} with status {status}")
        }
        RouteAction::Files(rules) => files(rules),
        RouteAction::Respond(response) => format!("they are answered with status {}", response.status),
        RouteAction::Backends(list, own_tls) => {
            let tls = own_tls.as_ref().unwrap_or(&service.backend_tls).as_ref();
            let how = tls.map_or_else(|| "speaks plain text with them".to_owned(), backend_tls);
            format!("they go to {}; it {how}", backends(list, service.balance))
        }
    }
}

/// The files that requests are answered with.
fn files(Files { folder, index, extension, fallback, precompressed }: &Files) -> String {
    let mut text = format!("they are answered with the files of {}", folder.display());
    if !index.is_empty() {
        text.push_str(&format!(", {} for a folder", list(index)));
    }
    text.extend(extension.iter().map(|extension| format!(", with {extension} added where that is missing")));
    text.extend(fallback.iter().map(|file| format!(", and /{file} where there is none")));
    if !precompressed.is_empty() {
        let codings = precompressed.iter().map(|coding| coding.name());
        text.push_str(&format!(", compressed as {} where such a file is there", list(codings)));
    }
    text
}

/// The pages for errors, by status.
fn error_pages(ErrorPages { pages, replace_backends }: &ErrorPages) -> Option<String> {
    let page = |(status, path): &(ErrorStatus, PathBuf)| {
        let status = match status {
            ErrorStatus::One(status) => status.to_string(),
            ErrorStatus::Class(class) => format!("{class}xx"),
        };
        format!("{} for {status}", path.display())
    };
    let whose = if *replace_backends { ", those of backends too" } else { "" };
    (!pages.is_empty()).then(|| format!("sends pages with errors: {}{whose}", list(pages.iter().map(page))))
}

/// One route in a sentence.
fn route(service: &Service, http: &Http, route: &RequestRoute) -> String {
    let is_kept = http.cache.is_none() || route.is_cached || !route.forwards();
    let resolved = ResolvedRoute::of(http, route);
    let has_own = matches!(route.action, RouteAction::Redirect(..) | RouteAction::Respond(_));
    let compressed =
        own_compression(resolved.compression.as_ref(), http.compression.as_ref()).filter(|_| !has_own);
    let kept = (!is_kept).then(|| "their responses are not kept".to_owned());
    let own_pages = (route.error_pages != RouteErrorPages::default())
        .then(|| error_pages(&route.error_pages.resolve(&http.error_pages)))
        .flatten();
    let clauses = [
        access(http, &route.access),
        vec![action(service, &route.action)],
        changes(&route.rules, route.sticky.as_ref(), route.mirror.as_ref()),
        own_limits(&route.limits),
        changed_fields_of_route(http, &route.rules),
        own_pages.into_iter().collect(),
        kept.into_iter().collect(),
        compressed.into_iter().collect(),
    ];
    format!("{} by the route `{}`: {}", conditions(route), route.name, clauses.concat().join("; "))
}

/// Describes the requests for a host, route by route.
pub(super) fn requests_of_host(service: &Service, http: &Http, host: &str) -> Vec<String> {
    let reached = RequestTable::new(service).reached(host.as_bytes());
    let routes = reached.iter().flatten().map(|index| route(service, http, &http.routes[*index]));
    let mut lines: Vec<String> = routes.collect();
    if reached.contains(&None) {
        let which = if lines.is_empty() { "requests" } else { "other requests" };
        let clauses = [
            identification(&http.access),
            vec![format!("{which} go to the backends of their connection")],
            changed_fields(&http.rules),
        ];
        lines.push(clauses.concat().join("; "));
    }
    let maintenance = maintenance(http).map(|clause| format!("the service {clause}"));
    maintenance.into_iter().chain(lines).collect()
}

/// Describes one request, and others for the same URL, in lines; returns true if one of them goes where its connection goes.
pub(super) fn request(
    service: &Service,
    http: &Http,
    host: &str,
    request: &ExplainRequest,
) -> (Vec<String>, bool) {
    let table = RequestTable::new(service);
    let Some(resolved) = ResolvedRoutes::new(service) else { return (Vec::new(), false) };
    let path = request.path.as_str();
    let decides_by_path = resolved.decides_by_path();
    let find = |method: &str, has: &dyn Fn(&str, Option<&str>) -> bool, drawn: Option<usize>| {
        RoutesOfPath::find(path.as_bytes(), decides_by_path, http.routes.len(), |path| {
            let is_drawn = |index, _| Some(index) == drawn;
            table.find(host.as_bytes(), path, method.as_bytes(), has, is_drawn)
        })
    };
    let url = OfUrl { service, http, resolved: &resolved, path };
    let method = request.method.as_deref().unwrap_or("GET");
    let usual = find(method, &|_, _| false, None);
    let mut lines = vec![format!("a request for {path} ({method}) {}", url.name(&usual))];
    lines.extend(url.outcome(&usual));
    let mut goes_where_connection_goes = url.goes_where_connection_goes(&usual);
    // Routes may depend on more than a URL.
    let others = http.routes.iter().enumerate().filter(|(index, _)| Some(*index) != usual.route);
    for (index, route) in others {
        let of_route = route.methods.first().map(String::as_str);
        let method = request.method.as_deref().or(of_route).unwrap_or("GET");
        let has = |name: &str, value: Option<&str>| {
            let mut fields = route.headers.iter();
            fields.any(|(known, given)| **known == *name && (value.is_none() || value == given.as_deref()))
        };
        let taken = find(method, &has, Some(index));
        // Also where a backend may read its path as that of this route.
        if taken != usual && taken.all().any(|one| one == Some(index)) {
            let with = (!route.headers.is_empty()).then(|| format!(" with {}", list(headers(route))));
            let how_often = route.share.map(|share| format!(", in {share} of the cases,"));
            let (with, how_often) = (with.unwrap_or_default(), how_often.unwrap_or_default());
            let line = format!("by {method}{with}{how_often} it {}", url.name(&taken));
            if lines.contains(&line) {
                continue;
            }
            lines.push(line);
            lines.extend(url.outcome(&taken));
            goes_where_connection_goes |= url.goes_where_connection_goes(&taken);
        }
    }
    if resolved.at(usual.route).forwards() {
        lines.extend(fields(http));
    }
    (lines, goes_where_connection_goes)
}

/// The URL of a request, and what its routes are.
struct OfUrl<'s> {
    service: &'s Service,
    http: &'s Http,
    resolved: &'s ResolvedRoutes<'s>,
    path: &'s str,
}

impl OfUrl<'_> {
    fn name(&self, taken: &RoutesOfPath) -> String {
        match self.resolved.at(taken.route).name {
            Some(name) => format!("takes the route `{name}`"),
            None => "takes no route".to_owned(),
        }
    }

    fn is_ambiguous(&self, taken: &RoutesOfPath) -> bool {
        taken.is_ambiguous(|index| self.resolved.at(index).is_guard())
    }

    fn goes_where_connection_goes(&self, taken: &RoutesOfPath) -> bool {
        !self.is_ambiguous(taken) && matches!(self.resolved.at(taken.route).action, RouteAction::Inherit)
    }

    /// The decisions about a request with these routes, a line each, in the order of the proxy.
    fn outcome(&self, taken: &RoutesOfPath) -> Vec<String> {
        self.clauses(taken).into_iter().map(|clause| format!("  {clause}")).collect()
    }

    fn clauses(&self, taken: &RoutesOfPath) -> Vec<String> {
        let route = self.resolved.at(taken.route);
        let body = taken.all().filter_map(|index| self.resolved.at(index).limits.body).min();
        let mut clauses: Vec<String> =
            body.map(|most| format!("content of at most {}", size::written(most))).into_iter().collect();
        clauses.extend(maintenance(self.http).map(|clause| format!("the service {clause}")));
        if self.is_ambiguous(taken) {
            clauses.push(format!(
                "it is refused with status 400: a backend may read its path as {}",
                self.readings(taken)
            ));
            return clauses;
        }
        let service_wide = conditions_of_connections(&self.http.access).into_iter();
        clauses.extend(service_wide.map(|clause| format!("{clause}{}", of_service(true))));
        let own = route.access.filter(|_| route.name.is_some());
        clauses.extend(own.into_iter().flat_map(conditions_of_connections));
        for other in taken.others.iter().map(|index| self.resolved.at(*index)) {
            let rate = other.access.filter(|_| other.name.is_some()).and_then(|access| access.rate.as_ref());
            clauses.extend(rate.map(|rate| format!("as {} does: {}", self.named(other), rate_limit(rate))));
        }
        if !new_target_stays_below(self.path.as_bytes(), route.path, Some(route.rules)) {
            let new = route.rules.new_path.as_deref().unwrap_or_default();
            clauses.push(format!(
                "it is refused with status 400: a backend may read its new path as one that is not below {new}"
            ));
            return clauses;
        }
        let open = RouteAccess::default();
        clauses.extend(identification_of_route(self.http, route.access.unwrap_or(&open)));
        clauses.push(action(self.service, route.action));
        clauses.extend(changes(route.rules, route.sticky, route.mirror));
        clauses.extend(changed_fields_of_route(self.http, route.rules));
        clauses.extend(error_pages(&route.error_pages));
        if route.forwards() {
            let RequestLimits { answer, content, body: _, retries } = &route.limits;
            let (answer, content) = (timeout(*answer), timeout(*content));
            let retries =
                if *retries == 0 { "no retry".to_owned() } else { counted(u64::from(*retries), "retry") };
            clauses.push(format!("response-timeout {answer}, body-timeout {content}, {retries}"));
            clauses.extend(self.http.concurrency.as_ref().map(concurrency));
            clauses.extend(self.cached(taken));
            clauses.extend(match (&route.compression, &self.http.compression) {
                (Some(own), _) => Some(format!("responses are compressed: those {}", compression(own))),
                (None, Some(_)) => Some("responses are not compressed".to_owned()),
                (None, None) => None,
            });
        }
        clauses
    }

    /// The part of the cache; `None`: the service has none.
    fn cached(&self, taken: &RoutesOfPath) -> Option<String> {
        let cache = self.http.cache.as_ref()?;
        let is_cached = !taken.has_more && taken.all().all(|index| self.resolved.at(index).cache.is_some());
        Some(match is_cached {
            true => {
                format!("responses are kept in the cache {} as far as they allow it", cache.folder.display())
            }
            false => "responses are not kept in the cache".to_owned(),
        })
    }

    fn readings(&self, taken: &RoutesOfPath) -> String {
        if taken.has_more {
            return "more other ones than are looked at".to_owned();
        }
        let others = list(taken.others.iter().map(|index| self.named(self.resolved.at(*index))));
        format!("one for {others}, which decides otherwise")
    }

    fn named(&self, route: &ResolvedRoute<'_>) -> String {
        route.name.map_or("no route".to_owned(), |name| format!("the route `{name}`"))
    }
}
