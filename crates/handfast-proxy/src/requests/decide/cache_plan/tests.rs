//! Keys and rules of single requests.

use handfast_cache::bypass;
use handfast_http::http1::HeadLimits;

use super::*;
use crate::requests::testing::{Fixture, head, with_head};
use crate::worker::services::Chosen;

/// The plan of a request with this field, by its route in the fixture, or by the first one as if its condition held.
fn plan<T>(
    fixture: &Fixture,
    (path, field): (&str, &str),
    sender: Option<&Identified>,
    of: impl Fn(&RequestHead<'_>, Box<Plan>) -> T,
) -> Option<T> {
    let text = head(&[&format!("GET {path} HTTP/1.1"), "Host: localhost", field]);
    with_head(&text, &HeadLimits::default(), |head| {
        let connection = &fixture.connection;
        let facts =
            RequestFacts { head, path: path.as_bytes(), connection, id: "", trace: None, chance: 0, sender };
        let mut routes = Routes::find(&connection.http, head, 0);
        let first = connection.http.routes.first().filter(|_| routes.route.name.is_none());
        routes.route = first.unwrap_or(routes.route);
        Plan::new(&facts, &routes).map(|plan| of(head, plan))
    })
}

fn key(fixture: &Fixture, sender: Option<&Identified>) -> Option<Key> {
    plan(fixture, ("/a", "A: b"), sender, |_, plan| plan.key)
}

#[test]
fn no_field_about_host_or_scheme_is_without_effect_on_the_key() {
    let known = |fixture: &Fixture, field: &str| {
        plan(fixture, ("/a", field), None, |head, plan| (plan.key, bypass(head, &plan.policy).is_some()))
    };
    let (strange, trusted) = (fixture(""), fixture("").trusted());
    let usual = known(&strange, "A: b");
    assert_eq!(known(&trusted, "A: b"), usual);
    for (field, in_key, bypasses) in [
        // It does not reach the backend.
        ("X-Forwarded-Host: evil.example", false, false),
        ("X-Host: evil.example", false, true),
        ("Front-End-Https: off", false, true),
    ] {
        let found = known(&strange, field).expect("there is a cache");
        assert_eq!(
            (Some(&found.0) != usual.as_ref().map(|usual| &usual.0), found.1),
            (in_key, bypasses),
            "{field}"
        );
    }
    for (field, in_key, bypasses) in [
        ("X-Forwarded-Host: evil.example", true, false),
        ("X-Forwarded-Proto: http", true, false),
        ("x-forwarded-prefix: /a", true, false),
        ("X-Forwarded-For: 192.0.2.1", false, false),
        ("X-Real-IP: 192.0.2.1", false, false),
        ("Forwarded: for=192.0.2.1;host=evil.example", true, true),
        ("X-Host: evil.example", false, true),
    ] {
        let found = known(&trusted, field).expect("there is a cache");
        assert_eq!(
            (Some(&found.0) != usual.as_ref().map(|usual| &usual.0), found.1),
            (in_key, bypasses),
            "{field}"
        );
    }
}

fn fixture(more: &str) -> Fixture {
    Fixture::with_tls(&format!("{more}\n[service.cache]\nfolder = \"kept\"\nsize = \"1MiB\""))
}

#[test]
fn another_way_to_write_a_path_makes_nothing_immutable() {
    let keys = "folder = \"kept\"\nsize = \"1MiB\"\nimmutable = [\"/pool/**\", \"/**/*.css\"]";
    let fixture = Fixture::with_tls(&format!("[service.cache]\n{keys}"));
    let is_immutable = |path: &str| plan(&fixture, (path, "A: b"), None, |_, plan| plan.policy.is_immutable);
    for path in ["/pool/a.deb", "/pool/a%2Bb.deb?x=/..", "/pool//a.deb", "/a;x/b.css"] {
        assert_eq!(is_immutable(path), Some(true), "{path}");
    }
    let strange = ["/pool/..%2faccount", "/pool/%2e%2e/account", "/pool/..;/account", "/pool\\..\\account"];
    for path in strange.into_iter().chain([
        "/account;a.css",
        "/account%3f/a.css",
        "/account%23a.css",
        "/account%00.css",
        "/account",
    ]) {
        assert_eq!(is_immutable(path), Some(false), "{path}");
    }
}

#[test]
fn another_way_to_write_a_path_is_no_way_into_the_cache() {
    let route =
        "[[service.route]]\npath = \"/account\"\ncache = false\n[[service.route]]\nbackend = \"127.0.0.1:9\"";
    let fixture = fixture(route);
    let is_cached = |path: &str| plan(&fixture, (path, "A: b"), None, |_, _| ()).is_some();
    for path in ["/account/1", "/%61ccount/1", "//account/1", "/a/..%2faccount/1", "/account;x/1"] {
        assert!(!is_cached(path), "{path}");
    }
    for path in ["/a", "/%61", "//a", "/accounts/1"] {
        assert!(is_cached(path), "{path}");
    }
}

#[test]
fn what_the_connection_decides_is_part_of_the_key() {
    let rule = "[[service.rule]]\nnames = \"api.example\"\nbackend = \"127.0.0.1:9\"";
    let mut fixture = fixture(rule);
    let of_service = key(&fixture, None);
    fixture.connection.chosen = Chosen { route: 1, failed: false };
    let of_rule = key(&fixture, None);
    assert!(of_service.is_some() && of_rule.is_some() && of_service != of_rule);
}

#[test]
fn the_sender_of_a_request_is_part_of_the_key_where_its_backend_receives_it() {
    let fixture = fixture("[[service.route]]\nbackend = \"127.0.0.1:9\"");
    let anonymous = key(&fixture, None);
    let user = |name: &str| Identified { user: Some(name.into()), added: Vec::new() };
    let identified = |value: &str| Identified { user: None, added: vec![("x-user".into(), value.into())] };
    let keys = [
        anonymous.clone(),
        key(&fixture, Some(&user("a"))),
        key(&fixture, Some(&user("b"))),
        key(&fixture, Some(&identified("a"))),
        key(&fixture, Some(&identified("b"))),
    ];
    for (index, one) in keys.iter().enumerate() {
        assert!(one.is_some() && keys[index + 1..].iter().all(|other| other != one), "{index}: {keys:?}");
    }
    assert_eq!(key(&fixture, None), anonymous);
}

#[test]
fn a_route_that_not_every_request_takes_has_its_own_keys() {
    let of_all = fixture("[[service.route]]\nbackend = \"127.0.0.1:9\"");
    for condition in ["share = \"5%\"", "headers = \"x-beta\"", "methods = \"GET\""] {
        let of_some = fixture(&format!("[[service.route]]\nbackend = \"127.0.0.1:9\"\n{condition}"));
        assert!(key(&of_some, None) != key(&of_all, None), "{condition}");
    }
    assert_eq!(key(&fixture("[[service.route]]\nbackend = \"127.0.0.1:9\"\ncache = false"), None), None);
}

#[test]
fn a_certificate_separates_clients_only_where_a_route_forwards_it() {
    for (route, tells) in [
        ("", false),
        ("set-request-headers = \"x-by: {client-address}\"", false),
        ("set-request-headers = \"host: www.example\"", false),
        ("respond = { status = 204 }", false),
        ("set-request-headers = \"x-dn: a {client-subject}\"", true),
        ("add-request-headers = \"x-print: {client-fingerprint}\"", true),
        ("set-response-headers = \"x-dn: {client-subject}\"", true),
        ("redirect = { to = \"https://www.example/{client-fingerprint}\", status = \"302\" }", true),
    ] {
        let fixture = Fixture::new(&format!("[[service.route]]\npath = \"/a\"\n{route}\n"));
        assert_eq!(fixture.connection.http.writes(Variable::is_about_certificate), tells, "{route}");
    }
}

/// RFC 9111 §4.4: the response to GET is not current any more.
#[test]
fn a_change_ends_what_get_receives_unless_that_is_guarded() {
    const OTHER: &str =
        "[[service.route]]\nmethods = [\"POST\", \"HEAD\"]\nbackend = \"127.0.0.1:8\"\ncache = false\n";
    for (routes, is_same) in [
        ("", true),
        ("[[service.route]]\nbackend = \"127.0.0.1:9\"", true),
        ("[[service.route]]\nallow-clients = \"192.0.2.0/24\"", true),
        (OTHER, true),
        (&format!("{OTHER}[[service.route]]\nbackend = \"127.0.0.1:9\""), true),
        (&format!("{OTHER}[[service.route]]\nmethods = \"GET\"\nbackend = \"127.0.0.1:9\""), true),
        (&format!("{OTHER}[[service.route]]\nallow-clients = \"192.0.2.0/24\""), false),
        (&format!("{OTHER}[[service.route]]\ncache = false"), false),
    ] {
        let fixture = fixture(routes);
        let key = |method: &str| {
            let request = fixture.request(&head(&[&format!("{method} /a HTTP/1.1"), "Host: localhost"]));
            request.cached.as_ref().map(|plan| plan.key.clone())
        };
        let (get, post, put) = (key("GET"), key("POST"), key("PUT"));
        assert_eq!(get.is_some() && post == get, is_same, "{routes}");
        assert_eq!(put, get, "{routes}: it takes the route of GET");
        assert!(key("HEAD").is_none_or(|head| routes.starts_with(OTHER) || Some(head) == get), "{routes}");
    }
}
