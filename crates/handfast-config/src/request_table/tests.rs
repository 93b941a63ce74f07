//! Tests that a request finds the first route that matches it, as a plain search does.

use proptest::prelude::*;

use super::*;
use crate::model::{RouteAction, Service};

/// A service with these routes, each written as lines of `[[service.route]]`.
fn service(routes: &[&str]) -> Service {
    let mut text = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:1\"\nbackend = \"10.0.0.1:80\"\ncertificate = \"web.pem\"\n\
                    mode = \"http\"\n"
        .to_owned();
    for route in routes {
        text.push_str(&format!("[[service.route]]\n{route}\n"));
    }
    let parsed = crate::parse("/etc/handfast/handfast.toml", &text, &|_| false);
    let (config, _) = parsed.unwrap_or_else(|problems| panic!("{problems:#?}"));
    config.services[0].clone()
}

/// The route of a request with these fields.
fn found(
    table: &RequestTable,
    host: &str,
    path: &str,
    method: &str,
    fields: &[(&str, &str)],
) -> Option<usize> {
    let has = |name: &str, value: Option<&str>| {
        fields.iter().any(|(known, given)| *known == name && value.is_none_or(|value| value == *given))
    };
    table.find(host.as_bytes(), path.as_bytes(), method.as_bytes(), has, |_, _| false)
}

#[test]
fn a_host_is_compared_without_case_and_without_the_dot_at_its_end() {
    let table = RequestTable::new(&service(&[
        "hosts = [\"*.example.org\", \"192.0.2.7\"]",
        "hosts = [\"B.example.org\", \"[2001:db8:0::1]\"]",
        "hosts = \"example.net\"",
    ]));
    let long = "a".repeat(300);
    for (host, route) in [
        ("A.Example.ORG", Some(0)),
        ("a.example.org.", Some(0)),
        // The order written decides, not the exact name.
        ("b.example.org", Some(0)),
        ("a.b.example.org", None),
        ("example.org", None),
        (".example.org", None),
        ("example.net", Some(2)),
        ("192.0.2.7", Some(0)),
        ("[2001:db8::1]", Some(1)),
        ("", None),
        (".", None),
        (&long, None),
    ] {
        assert_eq!(found(&table, host, "/", "GET", &[]), route, "{host}");
    }
    assert_eq!(table.find(b"\xff.example.org", b"/", b"GET", |_, _| false, |_, _| false), None);
}

#[test]
fn a_path_begins_with_whole_segments_and_ends_at_the_query() {
    let table = RequestTable::new(&service(&["path = \"/api\"", "path = \"/files/\""]));
    for (path, route) in [
        ("/api", Some(0)),
        ("/api/", Some(0)),
        ("/api/v1", Some(0)),
        ("/api?x=/apis", Some(0)),
        ("/apis", None),
        ("/ap", None),
        ("/API", None),
        ("/%61pi", None),
        ("/x/../api", None),
        ("//api", None),
        ("/files", None),
        ("/files/", Some(1)),
        ("/files/a", Some(1)),
        ("/?path=/files/", None),
        ("*", None),
        ("", None),
    ] {
        assert_eq!(found(&table, "a", path, "GET", &[]), route, "{path}");
    }
}

#[test]
fn methods_and_fields_are_conditions_too() {
    let table = RequestTable::new(&service(&[
        "methods = [\"PUT\", \"POST\"]\nheaders = \"x-beta\"",
        "headers = [\"X-Tenant:  blue \", \"x-beta\"]",
        "methods = \"GET\"",
    ]));
    for (method, fields, route) in [
        ("POST", &[("x-beta", "1")][..], Some(0)),
        ("POST", &[("x-tenant", "blue")], None),
        ("GET", &[("x-tenant", "blue"), ("x-beta", "")], Some(1)),
        ("GET", &[("x-tenant", "Blue"), ("x-beta", "")], Some(2)),
        ("get", &[], None),
    ] {
        assert_eq!(found(&table, "a", "/", method, fields), route, "{method} {fields:?}");
    }
}

#[test]
fn what_is_not_drawn_goes_on_to_the_next_route() {
    let routes = ["path = \"/a\"\nshare = \"5%\"", "share = \"0.01%\"", "path = \"/a\""];
    let table = RequestTable::new(&service(&routes));
    let found = |path: &str, draws: [u64; 2]| {
        let drawn = |index: usize, share: Share| share.has(draws[index]);
        table.find(b"a", path.as_bytes(), b"GET", |_, _| false, drawn)
    };
    for (path, draws, route) in [
        ("/a", [499, 0], Some(0)),
        ("/a", [10_499, 0], Some(0)),
        ("/a", [500, 0], Some(1)),
        ("/a", [500, 1], Some(2)),
        ("/b", [0, 0], Some(1)),
        ("/b", [0, 1], None),
    ] {
        assert_eq!(found(path, draws), route, "{path} {draws:?}");
    }
}

#[test]
fn a_service_without_http_mode_has_no_routes() {
    let mut service = service(&["path = \"/api\""]);
    service.http = None;
    assert_eq!(found(&RequestTable::new(&service), "a", "/api", "GET", &[]), None);
}

type Parts = (Vec<String>, Option<String>, Vec<String>, Vec<(Box<str>, Option<Box<str>>)>);

fn made((hosts, path, methods, headers): Parts) -> RequestRoute {
    let path = path.map(|path| PathRule::new(&path, false));
    RequestRoute {
        name: "x".into(),
        hosts,
        path,
        methods,
        headers,
        share: None,
        action: RouteAction::Inherit,
        rules: Default::default(),
        access: Default::default(),
        is_cached: true,
        compression: Default::default(),
        mirror: None,
        sticky: None,
        limits: Default::default(),
        error_pages: Default::default(),
    }
}

fn hosts() -> impl Strategy<Value = String> {
    "(\\*\\.)?(a|b)(\\.(a|b)){0,2}"
}

fn paths() -> impl Strategy<Value = String> {
    "(/(a|ab)?){1,3}\\*?"
}

fn routes() -> impl Strategy<Value = Vec<RequestRoute>> {
    let headers = prop::sample::subsequence(vec!["x", "y"], 0..=1).prop_flat_map(|names| {
        let value = prop::option::of(prop::sample::select(vec!["1", "2"]));
        value.prop_map(move |value| {
            names.iter().map(|name| ((*name).into(), value.map(Into::into))).collect::<Vec<_>>()
        })
    });
    let methods = prop::sample::subsequence(vec!["GET".to_owned(), "PUT".to_owned()], 0..=2);
    let route = (prop::collection::vec(hosts(), 0..3), prop::option::of(paths()), methods, headers);
    prop::collection::vec(route.prop_map(made), 0..8)
}

/// A request: host, path, method, and the value of the field `x`.
fn requests() -> impl Strategy<Value = (String, String, &'static str, Option<&'static str>)> {
    let host = "(a|b|A)(\\.(a|b|B)){0,2}\\.?";
    let path = "(/(a|ab)?){1,4}(\\?/a)?";
    let field = prop::option::of(prop::sample::select(vec!["1", "2"]));
    (host, path, prop::sample::select(vec!["GET", "PUT"]), field)
}

/// The rules once more, as the reference page has them, and route by route.
fn naive(routes: &[RequestRoute], host: &str, path: &str, method: &str, x: Option<&str>) -> Option<usize> {
    let host = host.trim_end_matches('.').to_lowercase();
    let labels: Vec<&str> = host.split('.').collect();
    let path = path.split('?').next().unwrap_or_default();
    let has_host = |pattern: &String| {
        let parts: Vec<&str> = pattern.split('.').collect();
        let fits = |(part, label): (&&str, &&str)| *part == "*" || part == label;
        parts.len() == labels.len() && parts.iter().zip(&labels).all(fits)
    };
    let has_path = |rule: &PathRule| match (rule.prefix.strip_suffix('/'), rule.at_segments) {
        (None, false) => path.starts_with(&*rule.prefix),
        (above, _) => {
            path == &*rule.prefix || path.starts_with(&format!("{}/", above.unwrap_or(&rule.prefix)))
        }
    };
    let has_header = |(name, value): &(Box<str>, Option<Box<str>>)| {
        **name == *"x" && x.is_some_and(|x| value.as_deref().is_none_or(|value| value == x))
    };
    routes.iter().position(|route| {
        (route.hosts.is_empty() || route.hosts.iter().any(has_host))
            && route.path.as_ref().is_none_or(has_path)
            && (route.methods.is_empty() || route.methods.iter().any(|one| one == method))
            && route.headers.iter().all(has_header)
    })
}

proptest! {
    #[test]
    fn the_table_finds_what_a_plain_search_finds(routes in routes(), (host, path, method, x) in requests()) {
        let mut service = service(&[]);
        if let Some(http) = &mut service.http {
            http.routes.clone_from(&routes);
        }
        let table = RequestTable::new(&service);
        let fields: Vec<_> = x.iter().map(|value| ("x", *value)).collect();
        let expected = naive(&routes, &host, &path, method, x);
        prop_assert_eq!(found(&table, &host, &path, method, &fields), expected);
    }

    /// A route that is reported as never reached must not be the first one for any request.
    #[test]
    fn a_route_that_is_covered_is_never_found(routes in routes(), (host, path, method, x) in requests()) {
        if let Some(index) = naive(&routes, &host, &path, method, x) {
            let covered = routes[..index].iter().any(|earlier| earlier.covers(&routes[index]));
            prop_assert!(!covered, "{routes:#?}");
        }
    }
}
