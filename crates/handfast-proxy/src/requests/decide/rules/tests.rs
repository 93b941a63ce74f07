//! Fields that backends and clients receive by the rules of a route.

use handfast_config::{PathRule, new_target};
use handfast_pki::ShownCertificate;

use super::*;
use crate::requests::decide::request::Action;
use crate::requests::testing::{Fixture, head};

const GET: &str = "GET /api/users?x=1 HTTP/1.1";

/// A service that adds no fields, whose one route has these lines.
fn with_route(lines: &str) -> Fixture {
    Fixture::new(&format!(
        "http = {{ request-id = \"off\", forwarded = \"off\" }}\n[[service.route]]\npath = \"/api\"\n{lines}"
    ))
}

/// Returns the lines that the backend receives.
fn received(fixture: &Fixture, sent: &[&str]) -> Vec<String> {
    let text = fixture.forwarded(&head(sent));
    text.trim_end().split("\r\n").map(str::to_owned).collect()
}

#[test]
fn the_beginning_of_a_path_is_replaced_at_whole_parts() {
    for (path, prefix, new, expected) in [
        ("/api/users?x=1", "/api", "/v2", "/v2/users?x=1"),
        ("/api", "/api", "/v2", "/v2"),
        ("/api?x", "/api", "/v2/", "/v2?x"),
        ("/api/users", "/api/", "/", "/users"),
        ("/api", "/api", "/", "/"),
        ("/api?x", "/api", "/", "/?x"),
        ("/a//b", "/a", "/", "//b"),
        ("/x", "/", "/v2", "/v2/x"),
        ("/apis", "/api*", "/v2", "/v2s"),
    ] {
        let rules = RequestRules { new_path: Some(new.into()), ..RequestRules::default() };
        let target = new_target(path.as_bytes(), Some(&PathRule::new(prefix, false)), Some(&rules));
        assert_eq!(target, Some((expected.into(), new)), "{path} {prefix}");
    }
    let fixture = with_route("rewrite-path = \"/v2\"");
    assert_eq!(received(&fixture, &[GET, "Host: a"])[0], "GET /v2/users?x=1 HTTP/1.1");
}

#[test]
fn backends_receive_fields_as_the_rules_require() {
    let fixture = with_route(
        "set-request-headers = [\"X-Who: {client-address} at {{{host}}}\", \"X-Path: {path}\", \"X-None: {tls-version}\"]\n\
         add-request-headers = \"Via: 1.1 here\"\nremove-request-headers = \"X-Debug\"",
    );
    let sent =
        [GET, "Host: a:80", "X-Debug: 1", "x-who: me", "x-none: claimed", "Via: 1.0 there", "X-Other: 1"];
    let lines = received(&fixture, &sent);
    assert_eq!(
        lines,
        [
            GET,
            "Host: a:80",
            "Via: 1.0 there",
            "X-Other: 1",
            "X-Who: 192.0.2.7 at {a}",
            "X-Path: /api/users",
            "Via: 1.1 here"
        ]
    );
    // Another path has no rule.
    let other = ["GET /apis HTTP/1.1", "Host: a", "X-Debug: 1"];
    assert_eq!(received(&fixture, &other), other);
}

#[test]
fn a_host_can_be_set() {
    let fixture = with_route("set-request-headers = \"Host: backend.example\"");
    assert_eq!(received(&fixture, &[GET, "Host: a"]), [GET, "Host: backend.example"]);
}

/// Text of a client cannot end a line, in whichever field it is used.
#[test]
fn a_text_of_the_client_is_one_value_or_none() {
    let mut fixture =
        with_route("set-request-headers = [\"X-Name: {client-subject}\", \"X-None: {client-fingerprint}\"]");
    let shown =
        ShownCertificate { subject: "a\r\nX-Evil: 1".into(), serial: "".into(), fingerprint: "".into() };
    fixture.connection.client_certificate = Some(Rc::new(shown));
    assert_eq!(received(&fixture, &[GET, "Host: a", "X-Name: claimed"]), [GET, "Host: a"]);
}

#[test]
fn a_request_whose_route_sets_no_host_is_refused() {
    for (value, is_refused) in [
        ("{client-fingerprint}.example", true),
        ("{client-fingerprint}", true),
        ("{user}.example", true),
        ("{tls-version} a", true),
        ("a{client-fingerprint}.example", false),
    ] {
        let fixture = with_route(&format!("set-request-headers = \"Host: {value}\""));
        let request = fixture.request(&head(&[GET, "Host: claimed.example"]));
        assert_eq!(matches!(request.action, Action::Refuse(_)), is_refused, "{value}: {:?}", request.action);
    }
}

#[test]
fn a_route_answers_or_redirects() {
    let fixture = with_route("redirect = { to = \"{scheme}://b.example{target}\", status = 302 }");
    let request = fixture.request(&head(&[GET, "Host: a"]));
    assert_eq!(request.action, Action::Redirect(302, b"http://b.example/api/users?x=1".to_vec()));
    let fixture = with_route("respond = { status = 503, content = \"Back at noon.\" }");
    let Action::Respond(response) = &fixture.request(&head(&[GET, "Host: a"])).action else {
        panic!("no response")
    };
    assert_eq!((response.status, &*response.content), (503, "Back at noon."));
}

#[test]
fn responses_have_fields_as_the_rules_require() {
    let fixture = with_route(
        "set-response-headers = \"X-Who: {host}\"\nadd-response-headers = \"Via: 1.1 here\"\nremove-response-headers = \"Server\"\n\
         security-headers = true",
    );
    let request = fixture.request(&head(&[GET, "Host: a"]));
    let rules = request.response_fields.as_deref().expect("the route has some");
    for (name, dropped) in [("server", true), ("x-who", true), ("via", false), ("x-frame-options", false)] {
        assert_eq!(rules.drops(name.as_bytes()), dropped, "{name}");
    }
    let added = |own: &str| -> Vec<String> {
        let fields = rules.added(|name| name.eq_ignore_ascii_case(own));
        fields.map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect()
    };
    let all = [
        "X-Who: a",
        "Via: 1.1 here",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: SAMEORIGIN",
        "Referrer-Policy: strict-origin-when-cross-origin",
    ];
    assert_eq!(added(""), all, "in plain text nothing demands TLS");
    assert_eq!(added("x-frame-options"), [all[0], all[1], all[2], all[4]], "the backend's own stays");
    assert!(fixture.request(&head(&["GET / HTTP/1.1", "Host: a"])).response_fields.is_none());
}
