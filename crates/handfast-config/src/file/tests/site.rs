//! The URL of another site as the backend: what follows from it, and what cannot go with it.

use super::super::super::model::{FieldChange, FieldRule, RequestRules, RouteAction, Service, Target};
use super::*;

/// A service whose backend is written so; what a test adds begins in line 5.
fn to(backend: &str, lines: &str) -> String {
    format!("[[service]]\nlisten = \"*:443\"\ncertificate = \"web.pem\"\nbackend = {backend}\n{lines}\n")
}

fn service(backend: &str, lines: &str) -> Service {
    good(&to(backend, lines)).services[0].clone()
}

/// The `Host` that rules set.
fn host(rules: &RequestRules) -> Vec<String> {
    let set = |rule: &FieldRule| match &rule.change {
        FieldChange::Set(value) if rule.name.eq_ignore_ascii_case("host") => Some(value.to_string()),
        _ => None,
    };
    rules.request.iter().filter_map(set).collect()
}

/// Messages about a text: the line and the message.
fn messages(text: &str) -> Vec<String> {
    let problems = read(text).expect_err("it is wrong");
    problems.iter().map(|problem| format!("{} {}", problem.line(), problem.what)).collect()
}

#[test]
fn five_lines_are_a_mirror_with_a_cache() {
    let text = to("\"https://Repo.example.org/\"", "cache = { folder = \"/var/cache/m\", size = \"1GiB\" }");
    assert_eq!(text.trim_end().lines().count(), 5);
    let mirror = good(&text).services[0].clone();
    assert_eq!(mirror.name, "*:443");
    assert_eq!(mirror.backends[0].target, Target::Name("repo.example.org".into(), 443));
    let http = mirror.http.as_ref().expect("requests go to a site");
    assert_eq!(host(&http.rules), ["repo.example.org"]);
    assert!(http.cache.is_some());
    let written = service("\"repo.example.org:443\"", "mode = \"http\"\nbackend-tls = {}");
    assert!(written.backend_tls.is_some());
    assert_eq!(mirror.backend_tls, written.backend_tls);
}

#[test]
fn a_scheme_says_whether_there_is_tls() {
    for (backend, port, is_secure, named) in [
        ("\"http://deb.example.org\"", 80, false, "deb.example.org"),
        ("[\"http://deb.example.org:8080\"]", 8080, false, "deb.example.org:8080"),
        ("\"HTTPS://deb.example.org:443/\"", 443, true, "deb.example.org"),
        ("\"https://deb.example.org:80\"", 80, true, "deb.example.org:80"),
    ] {
        let service = service(backend, "");
        assert_eq!(service.backends[0].target, Target::Name("deb.example.org".into(), port), "{backend}");
        assert_eq!(service.backend_tls.is_some(), is_secure, "{backend}");
        assert_eq!(host(&service.http.expect("requests go to a site").rules), [named]);
    }
    let own = service("\"https://deb.example.org\"", "backend-tls = { ca = \"ca.pem\" }");
    assert_eq!(
        own.backend_tls.expect("a scheme and a section").ca.expect("it is written"),
        Path::new("/etc/handfast/ca.pem")
    );
}

#[test]
fn each_route_has_its_own_host_and_tls() {
    let route = |lines: &str| format!("[[service.route]]\npath = \"/{}\"\n{lines}\n", lines.len());
    let lines = [
        "",
        "set-request-headers = \"host: other.example\"",
        "backend = \"https://files.example.org\"",
        "backend = \"http://plain.example.org\"",
        "backend = \"10.0.0.1:80\"",
        "respond = { status = 204 }",
    ];
    let expected: [(&[&str], Option<Option<bool>>); 6] = [
        (&["www.example.org"], None),
        (&["other.example"], None),
        (&["files.example.org"], Some(Some(true))),
        (&["plain.example.org"], Some(Some(false))),
        (&[], Some(Some(false))),
        (&[], None),
    ];
    let routes = lines.map(route).concat();
    let service = service("\"https://www.example.org\"", &routes);
    let http = service.http.expect("requests go to a site");
    for ((route, (named, tls)), lines) in http.routes.iter().zip(expected).zip(lines) {
        assert_eq!(host(&route.rules), named, "{lines}");
        let own = match &route.action {
            RouteAction::Backends(_, own) => Some(own.as_ref().map(Option::is_some)),
            _ => None,
        };
        assert_eq!(own, tls, "{lines}");
    }
}

#[test]
fn a_section_about_tls_counts_for_every_backend() {
    let lines = "backend-tls = { ca = \"ca.pem\" }\n[[service.route]]\npath = \"/a\"\nbackend = \"10.0.0.1:443\"\n\
                 [[service.route]]\npath = \"/b\"\nbackend = \"https://files.example.org\"\n\
                 [[service.route]]\npath = \"/c\"\nbackend = \"http://files.example.org\"";
    let http = service("\"https://www.example.org\"", lines).http.expect("requests go to a site");
    let own = http.routes.iter().map(|route| match &route.action {
        RouteAction::Backends(_, own) => own.as_ref().map(Option::is_some),
        other => panic!("{other:?}"),
    });
    assert_eq!(own.collect::<Vec<_>>(), [None, None, Some(false)]);
}

#[test]
fn what_is_no_site_is_refused() {
    for (url, what) in [
        ("ftp://www.example.org", "4 `ftp://www.example.org` is not the URL of a site"),
        (
            "https://www.example.org/maven2",
            "4 `https://www.example.org/maven2` has more than the name of a site",
        ),
        (
            "https://bob:secret@www.example.org",
            "4 `https://***@www.example.org` has more than the name of a site",
        ),
        (
            "http://127.0.0.1:8080",
            "4 `http://127.0.0.1:8080` is no other site: its requests keep the `Host` that clients send",
        ),
        (
            "https://[::1]",
            "4 `https://[::1]` is no other site: its requests keep the `Host` that clients send",
        ),
        (
            "http://localhost:3000",
            "4 `http://localhost:3000` is no other site: its requests keep the `Host` that clients send",
        ),
        ("https://", "4 `:443` is not a backend"),
        ("https://www.example.org:0", "4 `0` is not a port"),
    ] {
        assert_eq!(messages(&to(&format!("\"{url}\""), "")), [what], "{url}");
    }
}

#[test]
fn what_contradicts_a_site_is_reported() {
    const SITE: &str = "\"https://www.example.org\"";
    for (backend, lines, what) in [
        (SITE, "mode = \"tcp\"", "5 a URL says where requests go, and `tcp` forwards bytes"),
        (
            SITE,
            "backend-tls = { mode = \"off\" }",
            "5 the backend is written with `https://`, so this cannot be plain text",
        ),
        (
            "\"http://www.example.org\"",
            "backend-tls = {}",
            "5 the backend is written with `http://`, which is plain text",
        ),
        (
            "[\"https://www.example.org\", \"10.0.0.1:80\"]",
            "mode = \"http\"",
            "4 the URL of a site is the only backend: `Host` and TLS are for its name",
        ),
        (
            SITE,
            "[[service.rule]]\nnames = \"a.example\"\nbackend = \"10.0.0.1:80\"",
            "7 requests to these backends would have the name of the service's site as their `Host`",
        ),
        (
            SITE,
            "client-certificates = { mode = \"require\", ca = \"ca.pem\", fallback-backend = \"10.0.0.1:80\" }",
            "5 requests to these backends would have the name of the service's site as their `Host`",
        ),
        (
            "\"10.0.0.1:80\"",
            "[[service.rule]]\nnames = \"a.example\"\nbackend = \"https://www.example.org\"",
            "7 `https://www.example.org` is not a backend",
        ),
        (
            SITE,
            "starttls = \"smtp\"",
            "5 clients of HTTP speak TLS from the first byte: `starttls` cannot go with `mode = \"http\"`",
        ),
    ] {
        assert_eq!(messages(&to(backend, lines)), [what], "{backend} {lines}");
    }
}

#[test]
fn a_service_without_a_name_has_that_of_its_first_address() {
    let listening = |listen: &str| {
        format!("[[service]]\nlisten = {listen}\ncertificate = \"web.pem\"\nbackend = \"10.0.0.1:80\"\n")
    };
    for (listen, name) in [("\"*:443\"", "*:443"), ("[\"127.0.0.1:80\", \"*:443\"]", "127.0.0.1:80")] {
        assert_eq!(good(&listening(listen)).services[0].name, name);
    }
    for listen in ["\"127.0.0.1:0\"", "\"unix:/run/x.sock\""] {
        assert_eq!(messages(&listening(listen)), ["1 [[service]] has no `name`"], "{listen}");
    }
    let messages_alone = messages("[[service]]\ncertificate = \"web.pem\"\nbackend = \"10.0.0.1:80\"\n");
    assert_eq!(messages_alone, ["1 [[service]] has no `listen`"]);
}
