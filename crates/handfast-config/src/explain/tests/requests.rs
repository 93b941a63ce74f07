//! Tests of what is said about HTTP mode, and about one request.

use super::*;

const SHOP: &str = r#"
[[service]]
name = "shop"
listen = "*:443"
backend = ["10.0.0.1:80", "10.0.0.2:80"]
certificate = "/a.pem"
mode = "http"
plain-http = "redirect"
[service.http]
backend-version = "h2"
forwarded = "both"
trust-forwarded-from = ["10.0.0.0/8", "192.0.2.7"]
max-body = "10MiB"
[[service.rule]]
names = "b.example"
backend = "10.0.0.3:80"
[[service.route]]
name = "api"
hosts = "*.example"
path = "/api"
methods = ["PUT", "POST"]
headers = ["x-beta", "x-tenant: blue"]
backend = "10.0.0.4:80"
[service.route.backend-tls]
ca = "/ca.pem"
[[service.route]]
path = "/api/old"
[[service.route]]
name = "all"
path = "/api"
backend = "10.0.0.5:80"

[[service]]
name = "plain"
listen = "127.0.0.1:80"
backend = "10.0.0.6:80"
client-tls = false
mode = "http"
http = { pool = 0, forwarded = "off", request-id = "off" }
[[service.route]]
hosts = "a.example"
redirect = "https"

[[service]]
name = "bytes"
listen = "127.0.0.1:8443"
backend = "10.0.0.7:80"
certificate = "/a.pem"
"#;

fn config() -> Config {
    let (config, warnings) =
        parse("handfast.toml", SHOP, &|_| false).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    assert_eq!(warnings, []);
    config
}

/// The explanation of a target by the service at this index; empty if that service does not listen on the port.
fn of(index: usize, target: &str) -> String {
    let target = target.parse().expect("a target");
    explain_host(&config().services[index], &target, &[]).unwrap_or_default()
}

fn assert_has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|known| known.trim_start() == *line), "no line `{line}` in:\n{text}");
    }
}

const API: &str = "they go to 10.0.0.4:80; it speaks TLS with them by policy 2026-11 (the default); it asks them for a certificate for \
                   their name that /ca.pem makes good; it offers the application protocols h2";
const FIELDS: &str = "names the client to backends in X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and Forwarded; such fields that \
                      clients send are removed, except those from 10.0.0.0/8 and 192.0.2.7, which are continued";

#[test]
fn http_mode_and_its_routes_are_described() {
    let text = explain(&config(), &[]);
    let route = format!(
        "PUT and POST requests for *.example below /api with x-beta and x-tenant: blue by the route `api`: {API}"
    );
    assert_has(
        &text,
        &[
            "forwards HTTP requests to backends by HTTP/2, and keeps up to 256 connections to each backend for the next one, for 30s and \
             1,000 requests",
            FIELDS,
            "sends backends an identifier of the request in x-request-id",
            "refuses content of more than 10MiB",
            &route,
            "requests below /api/old by the route `route 2`: to the backends of their connection",
            "agrees on the application protocols h2, http/1.1 and http/1.0, in this order",
            "forwards HTTP requests to backends by HTTP/1.1, and opens a connection to a backend for each",
            "does not name the client to backends; such fields that clients send are removed",
            "requests for a.example by the route `route 1`: they are redirected to https://{host}{target} with status 308",
        ],
    );
}

#[test]
fn the_route_of_a_request_is_named_with_its_backends_and_fields() {
    let all = "they go to 10.0.0.5:80; it speaks plain text with them";
    assert_has(
        &of(0, "https://a.example/api/x?y=1"),
        &[
            "a request for /api/x?y=1 (GET) takes the route `all`",
            all,
            "by PUT with x-beta and x-tenant: blue it takes the route `api`",
            API,
            "content of at most 10MiB",
            "response-timeout 1m, body-timeout 1m, 1 retry",
            FIELDS,
            "sends backends an identifier of the request in x-request-id",
        ],
    );
    let other = of(0, "https://b.example");
    assert_has(&other, &["a request for / (GET) takes no route", "to the backends of their connection"]);
    assert!(other.contains("for b.example it goes to 10.0.0.3:80"), "{other}");
    assert!(!other.contains("`api`"), "{other}");
    assert_has(
        &of(0, "https://a.example/api/old"),
        &["a request for /api/old (GET) takes the route `route 2`", "to the backends of their connection"],
    );
    let redirected = of(1, "http://a.example/x");
    assert_has(
        &redirected,
        &[
            "a request for /x (GET) takes the route `route 1`",
            "they are redirected to https://{host}{target} with status 308",
        ],
    );
    assert!(!redirected.contains("names the client"), "{redirected}");
    assert!(!redirected.contains("goes to"), "nothing goes to the service's backend: {redirected}");
    let posted = of(0, "POST https://a.example/api/x");
    assert_has(
        &posted,
        &[
            "a request for /api/x (POST) takes the route `all`",
            "by POST with x-beta and x-tenant: blue it takes the route `api`",
        ],
    );
}

#[test]
fn the_host_that_a_site_receives_is_reported() {
    let text =
        "[[service]]\nlisten = \"*:443\"\ncertificate = \"/a.pem\"\nbackend = \"https://www.example.org\"\n";
    let route = "[[service.route]]\npath = \"/b\"\nbackend = \"http://b.example.org:81\"\n";
    let requested = "https://a.example/".parse().expect("a target");
    for (text, line, of_request) in [
        (
            text.to_owned(),
            "changes Host (to www.example.org) of requests",
            "changes Host (to www.example.org) of requests",
        ),
        (
            format!("{text}{route}"),
            "changes Host (to www.example.org) of requests without a route",
            "changes Host (to www.example.org) of requests",
        ),
        (
            format!("{text}{}", route.replace("path = \"/b\"", "methods = \"GET\"")),
            "GET requests by the route `route 1`: they go to b.example.org:81; it speaks plain text with them; \
             changes Host (to b.example.org:81) of requests",
            "changes Host (to b.example.org:81) of requests",
        ),
    ] {
        let (config, _) =
            parse("handfast.toml", &text, &|_| false).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
        assert_has(&explain(&config, &[]), &["Service *:443", line]);
        let of_one = explain_host(&config.services[0], &requested, &[]).expect("it listens there");
        assert!(of_one.contains(of_request), "{of_one}");
    }
}

#[test]
fn a_url_is_about_services_of_its_scheme_and_port() {
    assert_has(
        &of(0, "http://a.example/"),
        &["clients speak TLS here, and this is plain HTTP: it is redirected to https with status 308"],
    );
    assert_has(
        &of(2, "http://a.example/"),
        &["clients speak TLS here, and this is plain HTTP: it is answered with status 400"],
    );
    assert_has(&of(1, "https://a.example/"), &["clients speak plain text here: there is no https"]);
    assert_has(&of(2, "https://a.example/x"), &["relays bytes: requests are not read (`mode = \"tcp\"`)"]);
    let matched: Vec<bool> = (0..3).map(|index| !of(index, "https://a.example:8443/").is_empty()).collect();
    assert_eq!(matched, [false, false, true]);
    // A name alone is about every service, as before.
    assert!((0..3).all(|index| !of(index, "a.example").is_empty()));
    assert!(!of(2, "a.example").contains("relays bytes"));
}

/// A name has the routes that requests for it can reach, and backends that something goes to.
#[test]
fn a_name_has_its_routes_and_no_backend_that_nothing_goes_to() {
    let shop = of(0, "b.example");
    assert_has(
        &shop,
        &[
            "for b.example it goes to 10.0.0.3:80",
            "requests below /api/old by the route `route 2`: to the backends of their connection",
            "other requests go to the backends of their connection",
        ],
    );
    let plain = of(1, "a.example");
    assert_has(
        &plain,
        &[
            "requests for a.example by the route `route 1`: they are redirected to https://{host}{target} with status 308",
        ],
    );
    assert!(!plain.contains("goes to") && !plain.contains("go where"), "{plain}");
    assert_has(
        &of(1, "b.example"),
        &["requests go to the backends of their connection", "goes to 10.0.0.6:80"],
    );
    let without = "[[service]]\nlisten = \"*:80\"\nclient-tls = false\nmode = \"http\"\n[[service.route]]\nredirect = \"https\"\n";
    let (config, _) =
        parse("handfast.toml", without, &|_| false).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    let requested = "a.example".parse().expect("a target");
    let text = explain_host(&config.services[0], &requested, &[]).expect("it listens there");
    assert!(!text.contains("goes to"), "it has no backend: {text}");
    assert!(!explain(&config, &[]).contains("\n  goes to"), "{}", explain(&config, &[]));
}

#[test]
fn maintenance_is_part_of_what_becomes_of_a_request() {
    let text = "[[service]]\nlisten = \"*:443\"\ncertificate = \"/a.pem\"\nbackend = \"10.0.0.1:80\"\nmode = \"http\"\n\
                http = { maintenance = { allow = \"10.0.0.0/8\" } }\n";
    let (config, _) = parse("handfast.toml", text, &|_| false).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    let expected = "is in maintenance: requests are answered with 503 and Retry-After 5m, except those of clients from 10.0.0.0/8";
    assert!(explain(&config, &[]).contains(&format!("\n  {expected}\n")), "{}", explain(&config, &[]));
    for target in ["a.example", "https://a.example/"] {
        let requested = target.parse().expect("a target");
        let text = explain_host(&config.services[0], &requested, &[]).expect("it listens there");
        assert!(text.contains(&format!("the service {expected}\n")), "{target}: {text}");
    }
}

/// Clients that are kept out, and how many are served, are part of what becomes of one.
#[test]
fn a_name_has_the_limits_of_connections() {
    let text = "[[service]]\nlisten = \"*:443\"\ncertificate = \"/a.pem\"\nbackend = \"10.0.0.1:80\"\n\
                allow-clients = \"10.0.0.0/8\"\nmax-connections = 7\nlimits = { idle = \"9s\" }\n";
    let (config, _) = parse("handfast.toml", text, &|_| false).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    let requested = "a.example".parse().expect("a target");
    assert_has(
        &explain_host(&config.services[0], &requested, &[]).expect("it listens there"),
        &[
            "serves only clients from 10.0.0.0/8",
            "serves at most 7 connections",
            "has its own limits: idle 9s",
            "goes to 10.0.0.1:80",
        ],
    );
}

/// Two readings of a path have one outcome, or a refusal.
#[test]
fn a_path_that_is_read_in_several_ways_is_refused_or_has_all_limits() {
    let text = |open: &str| {
        format!(
            "[[service]]\nlisten = \"*:80\"\nclient-tls = false\nbackend = \"10.0.0.1:80\"\nmode = \"http\"\nhttp = {{ max-body = \"1MiB\" }}\n\
             [service.cache]\nfolder = \"/kept\"\nsize = \"1MiB\"\n[[service.route]]\nname = \"a\"\npath = \"/a\"\n{open}"
        )
    };
    let of = |open: &str, target: &str| {
        let text = text(open);
        let (config, _) =
            parse("handfast.toml", &text, &|_| false).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
        let target = target.parse().expect("a target");
        explain_host(&config.services[0], &target, &[]).expect("it listens there")
    };
    let guarded = of("allow-clients = \"10.0.0.0/8\"\n", "http://x.example/%61");
    assert_has(
        &guarded,
        &[
            "it is refused with status 400: a backend may read its path as one for the route `a`, which decides otherwise",
        ],
    );
    assert!(!guarded.contains("10.0.0.1") && !guarded.contains("go where"), "{guarded}");
    let limited = of("max-body = \"1KiB\"\ncache = false\n", "http://x.example/%61");
    assert_has(
        &limited,
        &["content of at most 1KiB", "responses are not kept in the cache", "goes to 10.0.0.1:80"],
    );
    let rate = of("rate-limit = { requests = 1, per = \"1s\" }\n", "http://x.example/%61");
    assert_has(&rate, &["as the route `a` does: each client may send 1 request in 1s and 1 at once"]);
}

#[test]
fn a_target_is_a_name_or_a_url() {
    for (text, shown, name) in [
        ("A.Example.", "a.example", Some("a.example")),
        ("https://A.example", "https://a.example/", Some("a.example")),
        ("HTTP://a.example:81/B/%20?c=/#d", "http://a.example:81/B/%20?c=/", Some("a.example")),
        ("https://a.example?x", "https://a.example/?x", Some("a.example")),
        ("https://192.0.2.7/", "https://192.0.2.7/", None),
        ("PURGE https://a.example/x", "PURGE https://a.example/x", Some("a.example")),
        ("https://[2001:db8:0::1]:443", "https://[2001:db8::1]:443/", None),
    ] {
        let target: ExplainTarget = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((target.to_string().as_str(), target.server_name()), (shown, name), "{text}");
    }
    for text in [
        "",
        "a.example/x",
        "a.example:443",
        "192.0.2.7",
        "*.example",
        "ftp://a.example/",
        "https://",
        "https:///x",
        "https://user@a.example/",
        "https://a.example:x/",
        "https://a.example:70000/",
        "https://[a.example]/",
        "https://a.example/a b",
        "get https://a.example/",
        "GET a.example",
        "GET  https://a.example/",
    ] {
        assert!(text.parse::<ExplainTarget>().is_err(), "{text}");
    }
}
