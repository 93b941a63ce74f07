//! Routes that requests take, requests that are refused, and the record of each one.

use handfast_http::http1::Rule;

use super::*;
use crate::requests::testing::{Fixture, head};

/// A head with these fields behind `Host: a.example`.
fn get(fields: &[&str]) -> String {
    head(&[&["GET / HTTP/1.1", "Host: a.example"], fields].concat())
}

fn refused(fixture: &Fixture, text: &str) -> Option<(u16, Cause, Option<Box<str>>)> {
    let Err(Refused { request, fault }) = fixture.try_request(text) else { return None };
    assert!(request.is_some(), "its head was accepted, so it has a record: {text}");
    assert_eq!(fault.reason.side, Side::Client);
    Some((fault.status.expect("the client waits"), fault.reason.cause, fault.reason.detail))
}

const ROUTES: &str = r#"
[[service.rule]]
names = "localhost"
backend = "127.0.0.1:3"
[[service.route]]
name = "inherit"
hosts = "a.example"
path = "/v2/free"
[[service.route]]
name = "api"
hosts = "a.example"
path = "/v2"
backend = "127.0.0.1:4"
[[service.route]]
name = "beta"
methods = ["PUT", "GET"]
headers = ["x-beta", "x-tenant: blue"]
backend = "127.0.0.1:5"
"#;

#[test]
fn the_first_route_that_matches_is_taken() {
    let mut fixture = Fixture::with_tls(ROUTES);
    fixture.change_facts(|facts| facts.server_name = None);
    let route = |route| Chosen { route, failed: false };
    let beta = ["X-Tenant: red", "X-BETA:", "x-tenant: blue"];
    for (line, fields, name, action) in [
        ("GET /v2 HTTP/1.1", &[][..], Some("api"), route(2)),
        ("GET /v2?free HTTP/1.1", &[], Some("api"), route(2)),
        ("GET http://a.example/v2/x HTTP/1.1", &beta, Some("api"), route(2)),
        ("GET /v2/free/x HTTP/1.1", &beta, Some("inherit"), route(0)),
        ("GET /v20 HTTP/1.1", &beta, Some("beta"), route(3)),
        ("PUT / HTTP/1.1", &beta, Some("beta"), route(3)),
        ("POST / HTTP/1.1", &beta, None, route(0)),
        ("GET / HTTP/1.1", &beta[..2], None, route(0)),
        ("GET / HTTP/1.1", &["X-Beta: 1", "X-Tenant: Blue"], None, route(0)),
        ("OPTIONS * HTTP/1.1", &[], None, route(0)),
        ("GET http://a.example HTTP/1.1", &[], None, route(0)),
    ] {
        let request = fixture.request(&head(&[&[line, "Host: a.example"], fields].concat()));
        assert_eq!(request.record.route.as_deref(), name, "{line} {fields:?}");
        assert_eq!(request.action, Action::Forward(action), "{line} {fields:?}");
    }
    let api = head(&["GET /v2 HTTP/1.1", "Host: a.example"]);
    fixture.connection.chosen = route(1);
    assert_eq!(fixture.request(&get(&[])).action, Action::Forward(route(1)), "that of the connection");
    assert_eq!(fixture.request(&api).action, Action::Forward(route(2)));
    let failed = Chosen { route: 0, failed: true };
    fixture.connection.chosen = failed;
    assert_eq!(fixture.request(&api).action, Action::Forward(failed), "its client's certificate failed");
}

#[test]
fn a_redirect_leads_to_the_same_host_and_path_without_a_port() {
    let fixture = Fixture::new("[[service.route]]\nredirect = \"https\"");
    for (line, host, location) in [
        ("GET / HTTP/1.1", "a.example", "https://a.example/"),
        ("GET /a/b%20c?d=/e?f HTTP/1.1", "a.example:8080", "https://a.example/a/b%20c?d=/e?f"),
        ("GET //evil.example/x HTTP/1.1", "a.example", "https://a.example//evil.example/x"),
        ("GET http://a.example HTTP/1.1", "a.example", "https://a.example/"),
        ("GET http://a.example?b HTTP/1.1", "a.example", "https://a.example/?b"),
        ("GET http://a.example:80/b HTTP/1.1", "a.example:80", "https://a.example/b"),
        ("OPTIONS * HTTP/1.1", "a.example", "https://a.example/"),
        ("GET /?a HTTP/1.1", "[2001:db8::1]:80", "https://[2001:db8::1]/?a"),
    ] {
        let request = fixture.request(&head(&[line, &format!("Host: {host}")]));
        let Action::Redirect(308, found) = &request.action else { panic!("{:?}", request.action) };
        assert_eq!(String::from_utf8_lossy(found), location, "{line} {host}");
    }
}

#[test]
fn content_that_is_announced_too_large_is_refused() {
    let fixture = Fixture::new("http = { max-body = \"10B\" }");
    let too_large = Some((413, Cause::BodyTooLarge, None));
    for (field, expected) in [
        ("Content-Length: 10", None),
        ("Content-Length: 11", too_large.clone()),
        ("Content-Length: 9999999999999999999", too_large),
        ("Transfer-Encoding: chunked", None),
    ] {
        assert_eq!(refused(&fixture, &head(&["POST / HTTP/1.1", "Host: a", field])), expected, "{field}");
    }
}

#[test]
fn a_request_for_a_host_that_its_connection_is_not_for_is_misdirected() {
    const RULES: &str = "[[service.rule]]\nnames = \"api.example\"\npolicy = \"2026-11-modern\"\n\
                         [[service.rule]]\nnames = \"a.shop.example\"\nbackend = \"127.0.0.1:3\"\n\
                         [[service.rule]]\nnames = \"c.shop.example\"";
    let mut fixture = Fixture::with_tls(RULES);
    let settings = "TLS is for localhost, and api.example has other settings";
    let certificate = "TLS is for localhost, and its certificate does not cover other.example";
    for (host, detail) in [
        ("localhost", None),
        ("LocalHost:8443", None),
        ("a.shop.example", Some("TLS is for localhost, and a.shop.example has other settings")),
        ("c.shop.example", None),
        ("B.shop.example", None),
        ("api.example", Some(settings)),
        ("other.example", Some(certificate)),
    ] {
        let expected = detail.map(|detail| (421, Cause::Misdirected, Some(detail.into())));
        let text = head(&["GET / HTTP/1.1", &format!("Host: {host}")]);
        assert_eq!(refused(&fixture, &text), expected, "{host}");
    }
    fixture.change_facts(|facts| facts.server_name = None);
    assert_eq!(refused(&fixture, &get(&[])), None, "its TLS asked for no name");
}

#[test]
fn fields_show_what_a_client_is_and_prefers() {
    let fixture = Fixture::new("");
    for (field, [is_grpc, wants_json, is_about_the_connection]) in [
        ("X-Other: 1", [false, false, false]),
        ("Content-Type: application/grpc", [true, false, false]),
        ("content-type: Application/GRPC+proto", [true, false, false]),
        ("Content-Type: application/gr", [false, false, false]),
        ("Content-Type: text/application/grpc", [false, false, false]),
        ("Accept: application/problem+json", [false, true, false]),
        ("Accept: text/html, application/json;q=0.1", [false, true, false]),
        ("Accept: text/html, */*", [false, false, false]),
        ("Authorization: NTLM TlRMTVNT", [false, false, true]),
        ("authorization: negotiate YII", [false, false, true]),
        ("Authorization: Basic bnRsbQ==", [false, false, false]),
        ("Proxy-Authorization: NTLM TlRMTVNT", [false, false, false]),
    ] {
        let request = fixture.request(&get(&[field]));
        let found = [request.is_grpc, request.prefers_json, request.is_about_the_connection];
        assert_eq!(found, [is_grpc, wants_json, is_about_the_connection], "{field}");
    }
}

#[test]
fn a_request_ends_once() {
    let fixture = Fixture::new("");
    let mut request = fixture.request(&get(&[]));
    assert_eq!((fixture.counted().open(), fixture.counted().ended()), (1, 0));
    request.record.status = Some(200);
    request.record.bytes_from_client = 7;
    request.end(None, Moment::now);
    request.end(None, Moment::now);
    drop(request);
    let counted = fixture.counted();
    assert_eq!((counted.open(), counted.ended()), (0, 1));
    let totals = &fixture.connection.totals;
    assert_eq!((totals.requests.get(), totals.to_backends.get()), (1, 7));
    let lines = fixture.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0]["status"].as_u64(), lines[0]["host"].as_str()), (Some(200), Some("a.example")));
}

#[test]
fn a_request_whose_task_is_dropped_has_a_line_with_the_cause() {
    let fixture = Fixture::new("");
    drop(fixture.request(&get(&[])));
    assert_eq!(fixture.counted().ended(), 1);
    let lines = fixture.lines();
    assert_eq!(lines[0]["reason"]["cause"], "internal", "{lines:?}");
    assert_eq!(lines[0]["status"], serde_json::Value::Null);
}

#[test]
fn a_request_that_is_refused_before_its_head_was_accepted_has_a_line_too() {
    let fixture = Fixture::new("");
    let fault = Fault::new(Step::Hello, Side::Client, Cause::HttpRequest, 400);
    let fault = Fault { rule: Some(Rule::HostMissing), ..fault };
    let (hello, relay) = (Duration::from_secs(2), Duration::from_secs(1));
    note_refused(&fixture.connection, &fault, (HttpVersion::Http11, hello), (16, relay));
    let counted = fixture.counted();
    assert_eq!((counted.open(), counted.ended(), counted.refused["host-missing"]), (0, 1, 1));
    assert_eq!(fixture.connection.totals.requests.get(), 1);
    let lines = fixture.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!((line["status"].as_u64(), line["broken_rule"].as_str()), (Some(400), Some("host-missing")));
    assert_eq!((&line["seconds"]["hello"], &line["seconds"]["relay"]), (&2.0.into(), &1.0.into()));
    assert_eq!(line["bytes_to_client"], 16);
}

#[test]
fn http_1_0_has_a_version_of_its_own_in_the_record() {
    let fixture = Fixture::new("");
    let old = fixture.request(&head(&["HEAD / HTTP/1.0", "Host: a.example"]));
    assert_eq!(old.record.protocol, HttpVersion::Http10);
    assert_eq!(fixture.request(&get(&[])).record.protocol, HttpVersion::Http11);
    assert_eq!((old.method(), old.keeps_open, old.is_empty()), (Method::HEAD, false, true));
}

/// Ways to write `/admin/x` that some server reads so, and that are another path for others.
const WRITTEN: [&str; 22] = [
    "/%61dmin/x",
    "/%2561dmin/x",
    "/a/../admin/x",
    "/a/%2e%2E/admin/x",
    "//admin/x",
    "/./admin/x",
    "/a%2f..%2fadmin/x?x=/..",
    "/a\\..\\admin\\x",
    "/a/..%5cadmin/x",
    "/%5cadmin/x",
    "/admin;x=1/x",
    "/;x/admin/x",
    "/a/..;/admin/x",
    "/a/..;x=1/%61dmin;y/x",
    "/../../admin/x",
    "//a/admin/x",
    "///a//admin/x",
    "/\\a/admin/x",
    "/a%2fb/../%61dmin/x",
    "/a%2fb/%2e%2e/admin/x",
    "/admin%00/x",
    "/admin%3fx",
];

/// Returns the action for a request for this target, in a service with a route for `/admin` and an open one for the rest.
fn decision(route: &str, target: &str) -> (Action, Option<u64>, bool) {
    let cache = "[service.cache]\nfolder = \"kept\"\nsize = \"1MiB\"";
    let fixture = Fixture::with_tls(&format!("{cache}\n[[service.route]]\npath = \"/admin\"\n{route}"));
    let request = fixture.request(&head(&[&format!("GET {target} HTTP/1.1"), "Host: localhost"]));
    (request.action.clone(), request.body_limit, request.cached.is_some())
}

fn cause(action: &Action) -> Option<(Option<u16>, Cause)> {
    let Action::Refuse(refusal) = action else { return None };
    Some((refusal.status, refusal.reason.cause))
}

#[test]
fn a_guard_sees_every_way_in_which_a_backend_may_read_a_path() {
    for guard in [
        "allow-clients = \"10.0.0.0/8\"",
        "refuse-clients = \"192.0.2.0/24\"",
        "forward-auth = { to = \"127.0.0.1:9\", path = \"/auth\" }",
        "respond = 404",
        "redirect = { to = \"/login\", status = 302 }",
    ] {
        for target in ["/admin", "/admin/x", "/admin?x"] {
            let (action, ..) = decision(guard, target);
            assert!(!matches!(action, Action::Forward(_)), "{guard} {target}: {action:?}");
        }
        for target in WRITTEN {
            let (action, ..) = decision(guard, target);
            assert_eq!(
                cause(&action),
                Some((Some(400), Cause::AmbiguousPath)),
                "{guard} {target}: {action:?}"
            );
        }
        for target in ["/", "/a%20b", "/a/../b", "/admins", "/a;x=1", "/a//b?x=/admin"] {
            let (action, ..) = decision(guard, target);
            assert_eq!(action, Action::Forward(Chosen::SERVICE), "{guard} {target}");
        }
    }
    let many = format!("/%{}2e", "25".repeat(300));
    assert_eq!(cause(&decision("respond = 404", &many).0), Some((Some(400), Cause::AmbiguousPath)));
}

#[test]
fn of_limits_and_exceptions_the_strictest_applies() {
    for target in WRITTEN {
        let (action, limit, _) = decision("max-body = \"10B\"", target);
        assert_eq!((action, limit), (Action::Forward(Chosen::SERVICE), Some(10)), "{target}");
        let (action, _, is_cached) = decision("cache = false", target);
        assert_eq!((action, is_cached), (Action::Forward(Chosen::SERVICE), false), "{target}");
    }
    let fixture =
        Fixture::new("[[service.route]]\npath = \"/admin\"\nrate-limit = { requests = 1, per = \"1h\" }");
    let send =
        |target: &str| cause(&fixture.request(&head(&[&format!("GET {target} HTTP/1.1"), "Host: a"])).action);
    assert_eq!(send("/%61dmin"), None);
    for target in WRITTEN.into_iter().chain(["/admin"]) {
        assert_eq!(send(target), Some((Some(429), Cause::RequestRate)), "{target}");
    }
    assert_eq!(send("/other"), None);
}

#[test]
fn a_route_may_ignore_the_case_of_its_path_and_be_for_letters() {
    for (path, target, is_refused) in [
        ("/admin\"\nignore-case = true#\"", "/ADMIN/x", true),
        ("/admin\"\nignore-case = true#\"", "/%41dmin", true),
        ("/admin", "/ADMIN/x", false),
        ("/admin*", "/administrator", true),
        ("/admin*", "/a/../administrator", true),
        ("/admin", "/administrator", false),
    ] {
        let fixture = Fixture::new(&format!("[[service.route]]\npath = \"{path}\"\nrespond = 404"));
        let request = fixture.request(&head(&[&format!("GET {target} HTTP/1.1"), "Host: a"]));
        assert_eq!(!matches!(request.action, Action::Forward(_)), is_refused, "{path} {target}");
    }
}

#[test]
fn a_target_without_a_path_is_compared_as_it_is_forwarded() {
    let fixture = Fixture::new(
        "[[service.route]]\nname = \"all\"\npath = \"/\"\nset-request-headers = \"x-path: {target}\"",
    );
    for (line, forwarded) in [
        ("GET http://a.example HTTP/1.1", "GET / HTTP/1.1"),
        ("GET http://a.example?x HTTP/1.1", "GET /?x HTTP/1.1"),
        ("GET HTTPS://A.example?/../x HTTP/1.1", "GET /?/../x HTTP/1.1"),
        ("GET http://a.example/b?x HTTP/1.1", "GET /b?x HTTP/1.1"),
        ("OPTIONS http://a.example HTTP/1.1", "OPTIONS * HTTP/1.1"),
        ("OPTIONS http://a.example?x HTTP/1.1", "OPTIONS /?x HTTP/1.1"),
        ("OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1"),
    ] {
        let text = head(&[line, "Host: a.example"]);
        let request = fixture.request(&text);
        assert_eq!(request.record.route.as_deref(), Some("all"), "{line}");
        assert_eq!(fixture.forwarded(&text).lines().next(), Some(forwarded), "{line}");
    }
}

#[test]
fn a_new_path_is_not_left_by_any_reading() {
    for (path, new, target, forwarded) in [
        ("/api", "/v2", "/api/x", Some("/v2/x")),
        ("/api", "/v2", "/api/x/../y%20z", Some("/v2/x/../y%20z")),
        ("/api", "/v2", "/api/../../etc", None),
        ("/api", "/v2", "/api/%2e%2e/%2e%2e/etc", None),
        ("/api", "/v2", "/api/..;/..;/etc", None),
        ("/api", "/v2", "/api/..\\..\\etc", None),
        ("/api", "/v2", "/api/../v2evil", None),
        ("/", "/v2", "/../etc", None),
        ("/api", "/", "/api/../etc", Some("/../etc")),
    ] {
        let fixture =
            Fixture::new(&format!("[[service.route]]\npath = \"{path}\"\nrewrite-path = \"{new}\""));
        let text = head(&[&format!("GET {target} HTTP/1.1"), "Host: a"]);
        let request = fixture.request(&text);
        let expected = forwarded.map_or(Some((Some(400), Cause::AmbiguousPath)), |_| None);
        assert_eq!(cause(&request.action), expected, "{path} {new} {target}");
        if let Some(forwarded) = forwarded {
            let line = format!("GET {forwarded} HTTP/1.1");
            assert_eq!(fixture.forwarded(&text).lines().next(), Some(&*line), "{target}");
        }
    }
}

#[test]
fn a_host_is_served_only_to_clients_that_meet_the_demands_of_its_rules() {
    const RULES: &str = "client-certificates = { mode = \"off\" }\n\
        [[service.rule]]\nnames = \"a.shop.example\"\n\
        [[service.rule]]\nnames = \"b.shop.example\"\nclient-certificates = { mode = \"require\", ca = \"names.pem\" }\n\
        [[service.rule]]\nnames = \"c.shop.example\"\nclient-alpn = \"h2\"\n\
        client-certificates = { mode = \"require\", ca = \"names.pem\" }\n\
        [[service.rule]]\nnames = \"*.example\"\nclient-certificates = { mode = \"request\", ca = \"names.pem\" }\n\
        [[service.route]]\nhosts = [\"b.shop.example\", \"[2001:db8::1]\"]\nbackend = \"127.0.0.1:4\"\n";
    let mut fixture = Fixture::with_tls(RULES);
    for (name, rule, host, is_served) in [
        (Some("a.shop.example"), 1, "a.shop.example", true),
        (Some("a.shop.example"), 1, "A.Shop.Example.", true),
        (Some("a.shop.example"), 1, "d.shop.example", true),
        (Some("a.shop.example"), 1, "b.shop.example", false),
        (Some("a.shop.example"), 1, "b.shop.example.", false),
        (Some("a.shop.example"), 1, "B.SHOP.example.:8443", false),
        (Some("a.shop.example"), 1, "c.shop.example", false),
        (Some("a.shop.example"), 1, "api.example", false),
        (Some("b.shop.example"), 2, "b.shop.example", true),
        (Some("b.shop.example"), 2, "B.shop.example.", true),
        (Some("b.shop.example"), 2, "a.shop.example", false),
        (None, 0, "localhost", true),
        (None, 0, "192.0.2.1", true),
        (None, 0, "a.shop.example", true),
        (None, 0, "b.shop.example", false),
        (None, 0, "b.shop.example.", false),
        (None, 0, "c.shop.example", false),
        (None, 0, "api.example", false),
    ] {
        fixture.connection.chosen = Chosen { route: rule, failed: false };
        fixture.change_facts(|facts| facts.server_name = name.map(Into::into));
        let text = head(&["GET / HTTP/1.1", &format!("Host: {host}")]);
        let status = refused(&fixture, &text).map(|(status, ..)| status);
        assert_eq!(status, (!is_served).then_some(421), "{name:?} {host}");
    }
}

#[test]
fn an_address_is_the_same_host_in_every_notation() {
    let fixture =
        Fixture::new("[[service.route]]\nhosts = [\"[2001:db8::1]\", \"192.0.2.1\"]\nrespond = 404");
    for (host, is_it) in [
        ("[2001:db8::1]", true),
        ("[2001:DB8:0:0:0:0:0:1]:8443", true),
        ("[2001:0db8::0001]", true),
        ("[2001:db8::0.0.0.1]", true),
        ("192.0.2.1", true),
        ("192.0.2.1.", true),
        ("[2001:db8::2]", false),
    ] {
        let request = fixture.request(&head(&["GET / HTTP/1.1", &format!("Host: {host}")]));
        assert_eq!(matches!(request.action, Action::Respond(_)), is_it, "{host}");
    }
}

#[test]
fn a_client_that_a_trusted_proxy_does_not_name_is_refused_where_addresses_decide() {
    let refuse = "[[service.route]]\npath = \"/r\"\nrefuse-clients = \"203.0.113.0/24\"\n";
    let allow = "[[service.route]]\npath = \"/a\"\nallow-clients = [\"198.51.100.0/24\", \"192.0.2.0/24\", \"2001:db8::/32\"]\n";
    let http = "http = { trust-forwarded-from = \"192.0.2.0/24\" }\n";
    let fixture = Fixture::new(&format!("{http}{refuse}{allow}[[service.route]]\npath = \"/o\"")).trusted();
    for (fields, is_refused, is_allowed) in [
        (&["X-Forwarded-For: 198.51.100.1"][..], false, true),
        (&["X-Forwarded-For: 198.51.100.1:4711"], false, true),
        (&["X-Forwarded-For: [2001:db8::1]:4711"], false, true),
        (&["X-Forwarded-For: [2001:db8::1]"], false, true),
        (&["X-Forwarded-For: 203.0.113.1:4711"], true, false),
        (&["X-Forwarded-For: ::ffff:203.0.113.1"], true, false),
        (&["X-Forwarded-For: 203.0.113.1, 192.0.2.9"], true, false),
        (&["X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 192.0.2.9"], true, false),
        (&["X-Forwarded-For: unknown"], true, false),
        (&["X-Forwarded-For: _hidden"], true, false),
        (&["X-Forwarded-For: "], true, false),
        (&["X-Forwarded-For: 198.51.100.1,"], true, false),
        (&["X-Forwarded-For: unknown, 192.0.2.9"], true, false),
        (&["Forwarded: for=203.0.113.1"], true, false),
        (&[], false, true),
    ] {
        for (path, passes) in [("/r", !is_refused), ("/a", is_allowed), ("/o", true)] {
            let line = format!("GET {path} HTTP/1.1");
            let request = fixture.request(&head(&[&[&*line, "Host: a"], fields].concat()));
            assert_eq!(cause(&request.action).is_none(), passes, "{path} {fields:?}");
        }
    }
}

#[test]
fn an_open_exception_from_a_guard_for_all_paths_is_no_way_around_it() {
    let fixture = Fixture::new(
        "[[service.route]]\npath = \"/public\"\n[[service.route]]\nallow-clients = \"10.0.0.0/8\"",
    );
    for (target, expected) in [
        ("/public/x", None),
        ("/admin", Some((Some(403), Cause::Forbidden))),
        ("/public/../admin", Some((Some(400), Cause::AmbiguousPath))),
        ("/public/%2e%2e/admin", Some((Some(400), Cause::AmbiguousPath))),
        ("/public/..;/admin", Some((Some(400), Cause::AmbiguousPath))),
    ] {
        let request = fixture.request(&head(&[&format!("GET {target} HTTP/1.1"), "Host: a"]));
        assert_eq!(cause(&request.action), expected, "{target}");
    }
}
