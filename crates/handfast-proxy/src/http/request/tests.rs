//! Where requests go, which are refused, and how each one is recorded.

use handfast_wire::http1::Rule;

use super::*;
use crate::http::testing::{Fixture, head};

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
                         [[service.rule]]\nnames = \"a.shop.example\"\nbackend = \"127.0.0.1:3\"";
    let mut fixture = Fixture::with_tls(RULES);
    let settings = "TLS is for localhost, and api.example has other settings";
    let certificate = "TLS is for localhost, and its certificate does not cover other.example";
    for (host, detail) in [
        ("localhost", None),
        ("LocalHost:8443", None),
        ("a.shop.example", None),
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
        let found = [request.is_grpc, request.wants_json, request.is_about_the_connection];
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
    request.end(None);
    request.end(None);
    drop(request);
    let counted = fixture.counted();
    assert_eq!((counted.open(), counted.ended(), counted.bytes_from_client), (0, 1, 7));
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
    note_refused(&fixture.connection, HttpVersion::Http11, &fault);
    let counted = fixture.counted();
    assert_eq!((counted.open(), counted.ended(), counted.refused["host-missing"]), (0, 1, 1));
    assert_eq!(fixture.connection.totals.requests.get(), 1);
    let lines = fixture.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!((line["status"].as_u64(), line["broken_rule"].as_str()), (Some(400), Some("host-missing")));
}

#[test]
fn http_1_0_has_a_version_of_its_own_in_the_record() {
    let fixture = Fixture::new("");
    let old = fixture.request(&head(&["HEAD / HTTP/1.0", "Host: a.example"]));
    assert_eq!(old.record.protocol, HttpVersion::Http10);
    assert_eq!(fixture.request(&get(&[])).record.protocol, HttpVersion::Http11);
    assert_eq!((old.method(), old.keeps_open, old.is_empty()), (Method::HEAD, false, true));
}
