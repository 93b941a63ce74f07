//! Explains how each service serves a client that requests one name: its rule, certificate and backends; and its request, if any.
//!
//! In: the model, the name or URL, and the certificates that the store would show. Out: a text for `handfast check --explain HOST`. The
//! rule is chosen by the same code that chooses it for connections.

use super::phrases::{
    CertificateFact, backend_tls, backends, certificate_fact, client_certificates, list, place, policy,
    protocols,
};
use super::target::ExplainTarget;
use crate::model::{Address, Clients, PlainHttp, Route, RouteAction, Service, ServiceRule, UnknownName};
use crate::request_table::RequestTable;
use crate::route_table::RouteTable;

/// Describes how one service treats a client that asks for `target`; `None`: it does not listen on the port of the URL. `shown`: the
/// certificates for the name, best first; none where no TLS ends.
pub fn explain_host(service: &Service, target: &ExplainTarget, shown: &[CertificateFact]) -> Option<String> {
    let has_port = |port| {
        let has = |address: &Address| matches!(address, Address::Ip(address) if address.port() == port);
        service.listen.iter().any(has)
    };
    let request = target.request.as_ref();
    if !request.and_then(|request| request.port).is_none_or(has_port) {
        return None;
    }
    let mut lines = vec![format!("Service {}, at {}", service.name, list(service.listen.iter().map(place)))];
    lines.extend(super::proxy_headers(&service.proxy_protocol));
    lines.extend(super::admission(&service.admission));
    lines.extend(super::connections(service));
    let is_plain = service.clients == Clients::Plain;
    match request.map(|request| request.is_https) {
        Some(true) if is_plain => lines.push("clients speak plain text here: there is no https".to_owned()),
        Some(false) if !is_plain => lines.push(plain_http(service)),
        _ => lines.extend(served(service, target, shown)),
    }
    lines.extend(super::limits(&service.limits));
    Some(lines.join("\n  ") + "\n")
}

/// Describes the service of a client and its requests.
fn served(service: &Service, target: &ExplainTarget, shown: &[CertificateFact]) -> Vec<String> {
    let (of_requests, uses_backends) = requests(service, target);
    if service.clients == Clients::Plain {
        let mut lines = vec!["clients speak plain text here and ask for no name".to_owned()];
        if uses_backends {
            lines.push(format!("goes to {}", backends(&service.backends, service.balance)));
            lines.extend(towards_backends(service));
            lines.extend(service.backend_tls.as_ref().map(backend_tls));
        }
        lines.extend(of_requests);
        return lines;
    }
    let (mut lines, ends_here) = connection(service, target.server_name(), shown, uses_backends);
    match ends_here {
        true => lines.extend(of_requests),
        false if target.request.is_some() => lines.push("requests are not read".to_owned()),
        false => {}
    }
    lines
}

/// Describes the routes of requests, and returns true if one of them goes where its connection goes.
fn requests(service: &Service, target: &ExplainTarget) -> (Vec<String>, bool) {
    match (&service.http, &target.request) {
        (Some(http), Some(request)) => super::http::request(service, http, &target.host, request),
        (Some(http), None) => {
            let inherits = |index: Option<usize>| {
                index.is_none_or(|index| matches!(http.routes[index].action, RouteAction::Inherit))
            };
            let mut reached = RequestTable::new(service).reached(target.host.as_bytes()).into_iter();
            (super::http::requests_of_host(service, http, &target.host), reached.any(inherits))
        }
        (None, Some(_)) => (vec!["relays bytes: requests are not read (`mode = \"tcp\"`)".to_owned()], true),
        (None, None) => (Vec::new(), true),
    }
}

/// The way to the backends of a connection.
fn towards_backends(service: &Service) -> Vec<String> {
    let through = service.connect_through.as_ref().map(super::connect_through);
    through.into_iter().chain(super::source(&service.source)).collect()
}

/// The answer to plain HTTP where TLS is expected.
fn plain_http(service: &Service) -> String {
    let answer = match (&service.starttls, service.plain_http) {
        (Some(_), _) => "the connection is closed",
        (None, PlainHttp::Refuse) => "it is answered with status 400",
        (None, PlainHttp::Redirect) => "it is redirected to https with status 308",
    };
    format!("clients speak TLS here, and this is plain HTTP: {answer}")
}

/// Describes the connection of a client, and returns true if its TLS ends here. `name`: what it asks for; `uses_backends`: it is not for
/// requests alone that have other backends.
fn connection(
    service: &Service,
    name: Option<&str>,
    shown: &[CertificateFact],
    uses_backends: bool,
) -> (Vec<String>, bool) {
    let table = RouteTable::new(&service.rules);
    let choose = |alpn: &[&str]| {
        let alpn: Vec<Box<[u8]>> = alpn.iter().map(|protocol| protocol.as_bytes().into()).collect();
        let (route, reason) = table.choose(name, &alpn);
        (route, reason.map(ToString::to_string))
    };
    let routes = service.routes();
    let is_refused = shown.is_empty() && refuses_unknown_names(service);
    let passes_through = |index: usize| routes[index].clients == Clients::PassedThrough;
    let ends_here = |index: usize| !passes_through(index) && !is_refused;
    let outcome = |index: usize, reason: Option<&str>| {
        let rule = index.checked_sub(1).map(|rule| &service.rules[rule]);
        let goes_on = passes_through(index) || (ends_here(index) && uses_backends);
        outcome(service, &routes[index], (rule, reason), shown, goes_on)
    };
    let (usual, reason) = choose(&[]);
    let mut is_ended = ends_here(usual);
    let mut lines = outcome(usual, reason.as_deref());
    // Rules may depend on what the client offers beside the name.
    let mut offers: Vec<&str> =
        service.rules.iter().flat_map(|rule| &rule.client_alpn).map(String::as_str).collect();
    offers.sort_unstable();
    offers.dedup();
    for offer in offers {
        let (route, reason) = choose(&[offer]);
        if route != usual {
            is_ended |= ends_here(route);
            lines.push(format!("if the client offers {offer} (ALPN):"));
            let of_offer = outcome(route, reason.as_deref());
            lines.extend(of_offer.into_iter().map(|line| format!("  {line}")));
        }
    }
    (lines, is_ended)
}

/// Describes a route: first its inherited settings, then those of its rule. `uses_backends`: something goes to its backends.
fn outcome(
    service: &Service,
    route: &Route,
    (rule, reason): (Option<&ServiceRule>, Option<&str>),
    shown: &[CertificateFact],
    uses_backends: bool,
) -> Vec<String> {
    let mut lines = vec![match reason {
        Some(reason) => format!("is decided by {reason}"),
        None => "no rule is about it: the service's own settings count".to_owned(),
    }];
    let inherits = |sets: fn(&ServiceRule) -> bool| !rule.is_some_and(sets);
    if route.clients == Clients::PassedThrough {
        lines.push("its TLS is passed on as it is: the backend shows its own certificate".to_owned());
    } else {
        lines.extend(certificates(service, shown));
    }
    if let Some(tls) = &route.tls {
        if inherits(|rule| rule.client_certificates.is_some()) {
            lines.extend(client_certificates(&tls.client_certificates));
        }
        if inherits(|rule| rule.policy.is_some()) {
            lines.push(format!("speaks TLS with {}", policy(&tls.policy)));
        }
        if inherits(|rule| rule.alpn.is_some()) {
            lines.push(protocols(&tls.alpn));
        }
    }
    lines.extend(rule.map(|rule| super::rule(rule, uses_backends)));
    if !uses_backends {
        return lines;
    }
    if inherits(|rule| rule.backends.is_some()) {
        lines.push(format!("goes to {}", backends(&route.backends.backends, service.balance)));
    }
    lines.extend(towards_backends(service));
    if inherits(|rule| rule.backend_tls.is_some()) {
        lines.extend(route.backends.tls.as_deref().map(backend_tls));
    }
    lines
}

fn refuses_unknown_names(service: &Service) -> bool {
    service.tls.as_ref().is_some_and(|tls| tls.unknown_name == UnknownName::Refuse)
}

/// Describes the certificate for a client; the first of several is for clients that can verify it.
fn certificates(service: &Service, shown: &[CertificateFact]) -> Vec<String> {
    if shown.is_empty() {
        let why = " has this name: it is refused (unrecognized_name)";
        return vec![format!("no certificate{}", if refuses_unknown_names(service) { why } else { "" })];
    }
    let mut lines = vec![if shown[0].is_for_the_name {
        "is shown".to_owned()
    } else {
        "NO CERTIFICATE HAS THIS NAME: it is shown the first one, which clients refuse".to_owned()
    }];
    for (place, fact) in shown.iter().enumerate() {
        let otherwise = if place == 0 { "" } else { ", if the client cannot verify the one before" };
        lines.push(format!("  → {}{otherwise}", certificate_fact(fact)));
    }
    lines
}
