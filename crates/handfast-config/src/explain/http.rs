//! HTTP mode in sentences: what backends receive, which routes there are, and which one a request takes.
//!
//! In: the model, and a request for `handfast check --explain URL`. Out: lines of a text. The route is found by the same code that finds
//! it for requests.

use std::time::Duration;

use handfast_text::duration;
use handfast_text::size;
use handfast_text::units::counted;
use handfast_wire::http1::Kind;

use super::phrases::{backend_tls, backends, list};
use super::target::ExplainRequest;
use crate::model::{
    BackendVersion, Concurrency, FieldChange, FieldRule, ForwardAuth, Forwarded, Http, Mirror, RateKey,
    RequestRate, RequestRoute, RequestRules, RouteAccess, RouteAction, RouteLimits, Service, Sticky,
};
use crate::request_table::RequestTable;

/// What HTTP mode does with every request, and each route.
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
    let mut lines = Vec::new();
    let mut of_routes = http.routes.iter().filter_map(RequestRoute::backends);
    if !service.backends.is_empty() || of_routes.next().is_some() {
        lines.push(format!("forwards HTTP requests to backends by {version}, and {kept}"));
        lines.extend(fields(http));
    }
    lines.extend(http.concurrency.as_ref().map(|Concurrency { requests, queue, wait }| {
        let most = counted((*requests).into(), "request");
        let wait = duration::written(*wait);
        format!("gives each backend up to {most} at once; up to {queue} more wait for up to {wait}")
    }));
    lines.extend(http.failure_ratio.map(|share| {
        format!("marks a backend down when more than {share} of its requests fail within ten seconds, of at least 20")
    }));
    lines.extend(http.body_limit.map(|most| format!("refuses content of more than {}", size::written(most))));
    lines.extend(http.routes.iter().map(|route| {
        format!(
            "{} by the route `{}`: {}{}{}",
            conditions(route),
            route.name,
            access(&route.access),
            action(service, route),
            changes(route)
        )
    }));
    if !http.rules.is_empty() {
        let which = if http.routes.is_empty() { "" } else { " without a route" };
        lines.extend(changed_fields(&http.rules).into_iter().map(|clause| format!("{clause}{which}")));
    }
    lines
}

/// The fields that backends receive from the proxy.
fn fields(http: &Http) -> Vec<String> {
    let Forwarded { x_forwarded, standard, trusted } = &http.forwarded;
    let names = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"].into_iter();
    let names: Vec<&str> = names.filter(|_| *x_forwarded).chain(standard.then_some("Forwarded")).collect();
    let mut sentence = match names.is_empty() {
        true => "does not name the client to backends".to_owned(),
        false => format!("names the client to backends in {}", list(names)),
    };
    sentence.push_str("; such fields that clients send are removed");
    if !trusted.is_empty() {
        sentence.push_str(&format!(", except those from {}, which are continued", list(trusted)));
    }
    let id =
        http.request_id.as_ref().map(|name| format!("sends backends an identifier of the request in {name}"));
    std::iter::once(sentence).chain(id).collect()
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

/// What requests must meet first.
fn access(access: &RouteAccess) -> String {
    let RouteAccess { allow, refuse, certificates, basic, forward, .. } = access;
    let mut text = String::new();
    if !allow.is_empty() {
        text.push_str(&format!("only clients from {} are let in; ", list(allow)));
    }
    if !refuse.is_empty() {
        text.push_str(&format!("clients from {} are refused; ", list(refuse)));
    }
    if !certificates.is_empty() {
        text.push_str("only clients with certain certificates are let in; ");
    }
    if let Some(basic) = basic {
        text.push_str(&format!("clients need a password of {}; ", basic.file.display()));
    }
    if let Some(ForwardAuth { to, path, copy, .. }) = forward {
        let servers = list(to.iter().map(|backend| &backend.target));
        text.push_str(&format!("{servers} is asked about each for {path}"));
        if !copy.is_empty() {
            text.push_str(&format!(", and backends receive its fields {}", list(copy)));
        }
        text.push_str("; ");
    }
    let rate = access.rate.iter().map(|RequestRate { requests, per, burst, by, .. }| {
        let whose = match by {
            RateKey::Client => "each client".to_owned(),
            RateKey::Route => "all clients together".to_owned(),
            RateKey::Field(name) => format!("each value of {name}"),
        };
        let per = duration::written(*per);
        format!("{whose} may send {} in {per} and {burst} at once; ", counted((*requests).into(), "request"))
    });
    rate.chain(std::iter::once(text)).collect()
}

/// What a route changes in requests and responses.
fn changes(route: &RequestRoute) -> String {
    let sticky = route.sticky.as_ref().map(|sticky| match sticky {
        Sticky::Cookie { name, .. } => format!("; each client stays at its backend by the cookie {name}"),
        Sticky::Header(name) => format!("; each value of {name} stays at its backend"),
    });
    let sticky = sticky.unwrap_or_default();
    let mirror = route.mirror.as_ref().map(|Mirror { to, share, content }| {
        let servers = list(to.iter().map(|server| &server.target));
        format!(
            "; {servers} gets copies of {share}, with content of at most {}",
            size::written(*content as u64)
        )
    });
    let mirror = mirror.unwrap_or_default();
    let RouteLimits { answer, content, body, retries } = &route.limits;
    let time = |limit: &Duration| if limit.is_zero() { "none".to_owned() } else { duration::written(*limit) };
    let own = [
        answer.as_ref().map(|limit| format!("; answer-timeout {}", time(limit))),
        content.as_ref().map(|limit| format!("; content-timeout {}", time(limit))),
        body.map(|most| format!("; content of at most {}", size::written(most))),
        retries.map(|retries| format!("; {}", counted(retries.into(), "retry"))),
    ];
    let own: String = own.into_iter().flatten().collect();
    let new_path = route.rules.new_path.as_ref();
    let path = new_path.map(|path| format!("; with the path below {path}")).unwrap_or_default();
    format!("{path}{sticky}{mirror}{own}{}", appended(changed_fields(&route.rules)))
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

fn appended(clauses: Vec<String>) -> String {
    clauses.into_iter().map(|clause| format!("; {clause}")).collect()
}

fn action(service: &Service, route: &RequestRoute) -> String {
    match &route.action {
        RouteAction::Inherit => "they go where their connection goes".to_owned(),
        RouteAction::Redirect(target, status) => {
            format!("they are redirected to {target} with status {status}")
        }
        RouteAction::Respond(response) => format!("they are answered with status {}", response.status),
        RouteAction::Backends(list, own_tls) => {
            let tls = own_tls.as_ref().unwrap_or(&service.backend_tls).as_ref();
            let how = tls.map_or_else(|| "speaks plain text with them".to_owned(), backend_tls);
            format!("they go to {}; it {how}", backends(list, service.balance))
        }
    }
}

/// Which route a request takes, and which ones others for the same URL take.
pub(super) fn request(service: &Service, http: &Http, host: &str, request: &ExplainRequest) -> Vec<String> {
    let table = RequestTable::new(service);
    let path = request.path.as_str();
    let find = |method: &str, has: &dyn Fn(&str, Option<&str>) -> bool, drawn: Option<usize>| {
        table.find(host.as_bytes(), path.as_bytes(), method.as_bytes(), has, |index, _| Some(index) == drawn)
    };
    let usual = find("GET", &|_, _| false, None);
    let taken = |route: Option<usize>| match route.map(|route| &http.routes[route]) {
        Some(route) => {
            format!("takes the route `{}`: {}{}", route.name, action(service, route), changes(route))
        }
        None => format!(
            "takes no route: it goes where its connection goes{}",
            appended(changed_fields(&http.rules))
        ),
    };
    let mut lines = vec![format!("a request for {path} (GET) {}", taken(usual))];
    // Routes may depend on more than a URL.
    for (index, route) in http.routes.iter().enumerate().filter(|(index, _)| Some(*index) != usual) {
        let method = route.methods.first().map_or("GET", String::as_str);
        let has = |name: &str, value: Option<&str>| {
            let mut fields = route.headers.iter();
            fields.any(|(known, given)| **known == *name && (value.is_none() || value == given.as_deref()))
        };
        if find(method, &has, Some(index)) == Some(index) {
            let with = (!route.headers.is_empty()).then(|| format!(" with {}", list(headers(route))));
            let how_often = route.share.map(|share| format!(", in {share} of the cases,"));
            let (with, how_often) = (with.unwrap_or_default(), how_often.unwrap_or_default());
            lines.push(format!("  by {method}{with}{how_often} it {}", taken(Some(index))));
        }
    }
    if usual.is_none_or(|route| http.routes[route].forwards()) {
        lines.extend(fields(http));
    }
    lines
}
