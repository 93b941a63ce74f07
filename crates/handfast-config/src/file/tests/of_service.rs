//! Settings of [service.http] for the routes of its service: each has them, unless it says otherwise.

use super::super::super::model::{FieldChange, RequestRules, RouteAccess};
use super::*;

/// The rules and the access of a service, and of its only route, whose sections have these lines.
fn read_both(of_service: &str, of_route: &str) -> [(RequestRules, RouteAccess); 2] {
    let text = format!(
        "{WEB}mode = \"http\"\nclient-certificates = {{ mode = \"request\", ca = \"ca.pem\" }}\n[service.http]\n{of_service}\n\
         [[service.route]]\npath = \"/a\"\n{of_route}\n"
    );
    let http = good(&text).services.remove(0).http.expect("it is in HTTP mode");
    let route = &http.routes[0];
    [(http.rules.clone(), http.access.clone()), (route.rules.clone(), route.access.clone())]
}

/// Changes of response fields, in short.
fn changes(rules: &RequestRules) -> Vec<String> {
    let one = |rule: &crate::model::FieldRule| match &rule.change {
        FieldChange::Remove => format!("-{}", rule.name),
        FieldChange::Set(value) => format!("{}={value}", rule.name),
        FieldChange::Add(value) => format!("{}+={value}", rule.name),
        FieldChange::Default(_) => format!("{}?", rule.name),
    };
    rules.response.iter().map(one).collect()
}

const SECURITY: [&str; 4] =
    ["Strict-Transport-Security?", "X-Content-Type-Options?", "X-Frame-Options?", "Referrer-Policy?"];

#[test]
fn a_route_has_the_fields_of_its_service_but_those_that_it_names() {
    for (of_service, of_route, expected) in [
        ("set-response-headers = \"a: 1\"", "", &["a=1"][..]),
        ("set-response-headers = [\"a: 1\", \"b: 2\"]", "set-response-headers = \"A: 3\"", &["b=2", "A=3"]),
        ("set-response-headers = \"a: 1\"", "remove-response-headers = \"a\"", &["-a"]),
        ("remove-response-headers = \"server\"", "add-response-headers = \"b: 2\"", &["-server", "b+=2"]),
        ("security-headers = true", "", &SECURITY),
        ("security-headers = true", "security-headers = false", &[]),
        ("security-headers = false", "security-headers = true", &SECURITY),
        ("", "", &[]),
    ] {
        let [(service, _), (route, _)] = read_both(of_service, of_route);
        assert_eq!(changes(&route), expected, "{of_service} {of_route}");
        let alone = read_both(of_service, "backend = \"10.0.0.7:80\"");
        assert_eq!(changes(&service), changes(&alone[1].0), "{of_service}: as a route without keys");
    }
}

#[test]
fn a_route_without_backends_has_no_request_fields_of_its_service() {
    let [(service, _), (route, _)] = read_both("set-request-headers = \"a: 1\"", "respond = 404");
    assert_eq!((service.request.len(), route.request.len()), (1, 0));
    let [_, (route, _)] = read_both("set-request-headers = \"a: 1\"", "set-request-headers = \"b: 2\"");
    assert_eq!(route.request.len(), 2);
}

#[test]
fn identification_is_inherited_replaced_or_removed_and_lists_stay_separate() {
    let of_service = "basic-auth = { file = \"all\" }\nforward-auth = { to = \"10.0.0.9:1\", path = \"/a\" }\n\
                      allow-clients = \"10.0.0.0/8\"\nrate-limit = { requests = 9 }\nallow-certificates = \"dns:a\"";
    for (of_route, basic, forwards) in [
        ("", Some("all"), true),
        ("basic-auth = { file = \"own\" }", Some("own"), true),
        ("basic-auth = false", None, true),
        ("forward-auth = false", Some("all"), false),
        ("basic-auth = false\nforward-auth = false", None, false),
    ] {
        let [(_, service), (_, route)] = read_both(of_service, of_route);
        let file = |access: &RouteAccess| {
            access
                .basic
                .as_ref()
                .map(|basic| basic.file.file_name().expect("a file").to_string_lossy().into_owned())
        };
        assert_eq!(file(&service).as_deref(), Some("all"));
        assert_eq!((file(&route).as_deref(), route.forward.is_some()), (basic, forwards), "{of_route}");
        // These are checked beside those of the route.
        assert!(service.rate.is_some() && !service.allow.is_empty() && !service.certificates.is_empty());
        assert!(route.rate.is_none() && route.allow.is_empty() && route.certificates.is_empty());
    }
}

#[test]
fn what_is_wrong_in_either_place_is_reported_once() {
    for (of_service, message) in [
        ("basic-auth = true", "or `false`, found true or false"),
        ("set-request-headers = \"x-forwarded-for: 1\"", "`x-forwarded-for` cannot be changed by a route"),
        ("forward-auth = { path = \"/a\" }", "no `to`"),
    ] {
        let text = format!(
            "{WEB}mode = \"http\"\n[service.http]\n{of_service}\n[[service.route]]\npath = \"/a\"\n[[service.route]]\npath = \"/b\"\n"
        );
        let problems = read(&text).expect_err(of_service);
        let found = problems.iter().filter(|problem| problem.what.contains(message)).count();
        assert_eq!((found, problems.len()), (1, 1), "{of_service}: {problems:?}");
    }
}

/// Requests to another site have its name, whatever the service sets.
#[test]
fn a_route_to_another_site_has_the_host_of_that_site() {
    let host = |of_route: &str| {
        let [_, (rules, _)] = read_both("set-request-headers = \"Host: service.example\"", of_route);
        let hosts = rules.request.iter().filter(|rule| rule.name.eq_ignore_ascii_case("host"));
        let hosts = hosts.map(|rule| match &rule.change {
            FieldChange::Set(value) => value.to_string(),
            other => format!("{other:?}"),
        });
        hosts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(host(""), "service.example");
    assert_eq!(host("backend = \"https://other.example\""), "other.example");
    let own = "backend = \"https://other.example\"\nset-request-headers = \"host: own.example\"";
    assert_eq!(host(own), "own.example");
}
