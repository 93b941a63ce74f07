//! HTTP mode: what is read, what cannot go with it, and which routes cannot be meant. Long: one table has all mistakes.

use handfast_http::http1::{HeadLimits, Underscores};

use super::super::super::model::{
    BackendAlpn, BackendVersion, ErrorPages, Forwarded, HalfClose, Http, HttpTimeouts, PoolLimits,
    ProxySender, RequestRoute, RequestRules, RouteAccess, RouteAction, RouteErrorPages, RouteLimits, Share,
};
use super::*;

/// A service in HTTP mode; what a test adds begins in line 7.
pub(super) fn shop(lines: &str) -> String {
    format!("{WEB}mode = \"http\"\n{lines}\n")
}

pub(super) fn http(lines: &str) -> Http {
    good(&shop(lines)).services.remove(0).http.expect("it is in HTTP mode")
}

/// Messages about a text: severity, line, the message and the hint.
pub(super) fn issues(text: &str) -> Vec<String> {
    let problems = read(text).map_or_else(|problems| problems, |(_, warnings)| warnings);
    let words = |problem: &Problem| {
        let hint = problem.hint.as_deref().unwrap_or("-");
        format!("{} {} {} | {hint}", problem.severity.name(), problem.line(), problem.what)
    };
    problems.iter().map(words).collect()
}

#[test]
fn five_lines_are_a_service_in_http_mode() {
    let config = good(&shop(""));
    let service = &config.services[0];
    let expected = Http {
        backend_version: BackendVersion::Http1,
        forwarded: Forwarded {
            x_forwarded: true,
            standard: false,
            trusted: Vec::new(),
            trusted_files: Vec::new(),
        },
        trace_context: false,
        request_id: Some("x-request-id".into()),
        head: HeadLimits::default(),
        body_limit: None,
        timeouts: HttpTimeouts {
            idle: seconds(60),
            head: seconds(10),
            content: seconds(60),
            answer: seconds(60),
        },
        half_close: HalfClose::Cancel,
        min_rate: 240,
        pool: PoolLimits { connections: 256, idle: seconds(30), requests: 1000 },
        concurrency: None,
        streams: 100,
        http2_window: 2_097_152,
        retries: 1,
        count_failures: false,
        failure_ratio: None,
        cache: None,
        compression: None,
        maintenance: None,
        error_pages: ErrorPages::default(),
        rules: RequestRules::default(),
        access: RouteAccess::default(),
        routes: Vec::new(),
    };
    assert_eq!(service.http, Some(expected));
    assert_eq!(service.tls.as_ref().expect("it has TLS").alpn, ["h2", "http/1.1", "http/1.0"]);
    let tcp = format!("{WEB}mode = \"tcp\"\n");
    assert!([WEB, &tcp].iter().all(|text| good(text).services[0].http.is_none()));
}

#[test]
fn every_key_of_http_mode_is_read() {
    let read = http(
        "[service.http]\nbackend-version = \"h2\"\nforwarded = \"both\"\ntrust-forwarded-from = [\"10.0.0.0/8\", \"192.0.2.7\"]\n\
         request-id = \"X-Trace\"\nmax-header-size = \"8KiB\"\nmax-start-line = \"4KiB\"\nmax-headers = 64\nunderscores = \"refuse\"\nhalf-close = \"answer\"\n\
         max-body = \"1GiB\"\nidle = \"15s\"\nheader-timeout = \"5s\"\nbody-timeout = \"none\"\nresponse-timeout = \"none\"\npool = 7\n\
         pool-idle = \"4s\"\npool-requests = 9\nmin-rate = 0\nmax-streams = 8\nhttp2-window = \"8MiB\"\nretries = 0\ncount-failures = true\nfailure-ratio = \"50%\"\n",
    );
    let prefix = |text: &str| ProxySender::Prefix(text.parse().expect("a prefix"));
    let expected = Http {
        backend_version: BackendVersion::Http2,
        forwarded: Forwarded {
            x_forwarded: true,
            standard: true,
            trusted: ["10.0.0.0/8", "192.0.2.7"].map(prefix).to_vec(),
            trusted_files: Vec::new(),
        },
        request_id: Some("x-trace".into()),
        head: HeadLimits { head: 8192, start_line: 4096, fields: 64, underscores: Underscores::Refuse },
        half_close: HalfClose::Answer,
        min_rate: 0,
        body_limit: Some(1 << 30),
        timeouts: HttpTimeouts {
            idle: seconds(15),
            head: seconds(5),
            content: Duration::ZERO,
            answer: Duration::ZERO,
        },
        pool: PoolLimits { connections: 7, idle: seconds(4), requests: 9 },
        concurrency: None,
        streams: 8,
        http2_window: 8_388_608,
        retries: 0,
        count_failures: true,
        failure_ratio: Share::of_hundredths(5_000),
        ..http("")
    };
    assert_eq!(read, expected);
    let off = http("[service.http]\nforwarded = \"off\"\nrequest-id = \"off\"\n");
    assert_eq!((off.forwarded.x_forwarded, off.forwarded.standard, off.request_id), (false, false, None));
}

#[test]
fn routes_are_read_in_the_order_written() {
    let routes = http(
        "[[service.route]]\nname = \"api\"\nhosts = [\"API.example.org\", \"*.api.example.org\", \"[2001:db8:0::1]\"]\n\
         path = \"/v2\"\nmethods = [\"GET\", \"M-SEARCH\"]\nheaders = [\"X-Beta\", \"X-Tenant:\t blue green \"]\n\
         backend = [\"10.0.0.1:80\", \"10.0.0.2:80\"]\n[service.route.backend-tls]\nname = \"a.example\"\n\
         [[service.route]]\npath = \"/\"\n",
    )
    .routes;
    let [api, second] = &routes[..] else { panic!("{routes:?}") };
    assert_eq!(&*api.name, "api");
    assert_eq!(api.hosts, ["api.example.org", "*.api.example.org", "[2001:db8::1]"]);
    assert_eq!(api.path, Some(crate::PathRule::new("/v2", false)));
    assert_eq!(api.methods, ["GET", "M-SEARCH"]);
    let fields = [("x-beta".into(), None), ("x-tenant".into(), Some("blue green".into()))];
    assert_eq!(api.headers, fields);
    let RouteAction::Backends(backends, Some(Some(tls))) = &api.action else { panic!("{api:?}") };
    let targets: Vec<String> = backends.iter().map(|backend| backend.target.to_string()).collect();
    assert_eq!(targets, ["10.0.0.1:80", "10.0.0.2:80"]);
    assert_eq!(tls.name.as_deref(), Some("a.example"));
    let expected = RequestRoute {
        name: "route 2".into(),
        hosts: Vec::new(),
        path: Some(crate::PathRule::new("/", false)),
        methods: Vec::new(),
        headers: Vec::new(),
        share: None,
        action: RouteAction::Inherit,
        rules: RequestRules::default(),
        access: RouteAccess::default(),
        is_cached: true,
        compression: crate::model::RouteCompression::Inherit,
        mirror: None,
        sticky: None,
        limits: RouteLimits::default(),
        error_pages: RouteErrorPages::default(),
    };
    assert_eq!(*second, expected);
}

#[test]
fn a_route_has_plain_backends_where_it_is_configured_and_redirects_from_plain_services() {
    let lines = "backend-tls = {}\n[[service.route]]\nbackend = \"10.0.0.1:80\"\n[service.route.backend-tls]\nmode = \"off\"\n";
    let [RequestRoute { action: RouteAction::Backends(_, Some(None)), .. }] = &http(lines).routes[..] else {
        panic!("{:?}", http(lines))
    };
    let plain = shop("client-tls = false\n[[service.route]]\nhosts = \"a.example\"\nredirect = \"https\"")
        .replace(&format!("{}\n", "certificate = \"site.pem\""), "");
    let http = good(&plain).services[0].http.clone().expect("it is in HTTP mode");
    let RouteAction::Redirect(target, 308) = &http.routes[0].action else { panic!("{http:?}") };
    for status in ["301", "\"301\""] {
        let config =
            good(&shop(&format!("[[service.route]]\nredirect = {{ to = \"/x\", status = {status} }}")));
        let http = config.services[0].http.as_ref().expect("HTTP mode");
        assert!(matches!(http.routes[0].action, RouteAction::Redirect(_, 301)), "{status}: {http:?}");
    }
    assert_eq!(target.to_string(), "https://{host}{target}");
}

/// The backends of a route are dialled as others are: their family, their names and their TLS count.
#[test]
fn backends_of_routes_are_checked_with_those_of_the_service() {
    let route = |backend: &str| format!("[[service.route]]\nbackend = \"{backend}\"");
    for (lines, expected) in [
        (
            route("127.0.0.1:8443"),
            "error 8 this backend is the service itself: connections would loop forever | -",
        ),
        (
            format!("source = \"10.0.0.5\"\n{}", route("[::1]:80")),
            "error 7 no source address is an IPv6 one, as the backend `[::1]:80` is | -",
        ),
        (
            format!("backend-tls = {{}}\n{}", route("unix:/run/x.sock")),
            "error 9 a unix socket has no name that its certificate could be for | add `name = \"backend.example.org\"` to the section",
        ),
    ] {
        assert_eq!(issues(&shop(&lines)), [expected], "{lines}");
    }
    // A check over TLS is possible where only a route has it.
    good(&shop(&format!("check = {{ type = \"tls\" }}\n{}\nbackend-tls = {{}}", route("10.0.0.1:80"))));
    // A name is looked up, and one of several backends is picked.
    good(&shop(&format!(
        "balance = \"two-choices\"\nlimits = {{ resolve = \"30s\" }}\n{}",
        route("a.example:80")
    )));
}

#[test]
fn backends_are_offered_the_version_that_is_spoken() {
    let offered = |lines: &str| {
        let config = good(&shop(lines));
        config.services[0].backend_tls.clone().expect("backends have TLS").alpn
    };
    let own = |protocols: &[&str]| BackendAlpn::Own(protocols.iter().map(|&one| one.into()).collect());
    assert_eq!(offered("backend-tls = {}"), own(&["http/1.1"]));
    assert_eq!(offered("backend-tls = { alpn = [] }"), own(&[]));
    assert_eq!(offered("backend-tls = { alpn = [\"http/1.1\"] }"), own(&["http/1.1"]));
    assert_eq!(offered("http = { backend-version = \"h2\" }\nbackend-tls = {}"), own(&["h2"]));
    let of_rule = good(&shop("[[service.rule]]\nnames = \"a.example\"\nbackend-tls = {}"));
    let tls = of_rule.services[0].rules[0].backend_tls.clone().flatten().expect("backends have TLS");
    assert_eq!(tls.alpn, own(&["http/1.1"]));
    for (version, alpn) in
        [("http/1.1", "[\"h2\"]"), ("http/1.1", "\"client\""), ("h2", "[]"), ("h2", "[\"h2\", \"http/1.1\"]")]
    {
        let expected = format!(
            "error 7 this contradicts `backend-version`: requests go to backends by `{version}` | remove `alpn`, or change \
             `backend-version` in [service.http]"
        );
        let lines =
            format!("backend-tls = {{ alpn = {alpn} }}\nhttp = {{ backend-version = \"{version}\" }}");
        assert_eq!(issues(&shop(&lines)), [expected], "{lines}");
    }
}

#[test]
fn what_cannot_go_with_http_mode_is_reported() {
    for (lines, expected) in WRONG {
        assert_eq!(issues(&shop(lines)), [*expected], "{lines}");
    }
    for (lines, expected) in [
        (
            "http = { pool = 0 }",
            "error 6 `http` has no effect: the service relays bytes (`mode = \"tcp\"`) | add `mode = \"http\"` to [[service]], or remove \
             [service.http]",
        ),
        (
            "[[service.route]]\npath = \"/a\"",
            "error 6 `route` has no effect: the service relays bytes (`mode = \"tcp\"`) | add `mode = \"http\"` to [[service]], or remove \
             [[service.route]]",
        ),
        // Nothing is said of sections where the mode is not known.
        (
            "mode = \"htp\"\nhttp = { pool = 0 }",
            "error 6 `htp` is not one of the possible values | did you mean `http`?",
        ),
    ] {
        assert_eq!(issues(&format!("{WEB}{lines}\n")), [expected], "{lines}");
    }
    // Connections that are not kept may belong to one client.
    good(&shop("[service.http]\npool = 0\n[service.proxy-protocol]\nsend = \"v2\""));
    good(&shop("source = \"client\"\nhttp = { pool = 0 }"));
    good(&shop("http = { backend-version = \"h2\" }\ncheck = { type = \"http\", port = 8081 }"));
}

/// Lines of a service in HTTP mode, and the one problem that they make.
const WRONG: &[(&str, &str)] = &[
    (
        "starttls = \"imap\"",
        "error 7 clients of HTTP speak TLS from the first byte: `starttls` cannot go with `mode = \"http\"` | remove `starttls`, or serve \
         that protocol by a separate service",
    ),
    (
        "[[service.rule]]\nnames = \"a.example\"\npass-through = true",
        "error 9 requests cannot be read in TLS that is passed through: `pass-through` cannot go with `mode = \"http\"` | remove \
         `pass-through`, or serve these names by a separate service",
    ),
    (
        "missing-close-notify = \"end\"",
        "error 7 `missing-close-notify` has no effect: messages of HTTP show where they end, and a part is never taken for the whole | \
         remove it, or change what the reason names",
    ),
    (
        "alpn = [\"http/1.1\", \"imap\"]",
        "error 7 `imap` cannot be spoken with `mode = \"http\"` | list only `h2`, `http/1.1` and `http/1.0`, or leave `alpn` out",
    ),
    (
        "[[service.rule]]\nnames = \"a.example\"\nalpn = [\"imap\"]",
        "error 9 `imap` cannot be spoken with `mode = \"http\"` | list only `h2`, `http/1.1` and `http/1.0`, or leave `alpn` out",
    ),
    (
        "backend-tls = { starttls = \"smtp\" }",
        "error 7 backends of HTTP speak TLS from the first byte: `starttls` cannot go with `mode = \"http\"` | remove `starttls`",
    ),
    (
        "proxy-protocol = { send = \"v2\" }",
        "error 7 a connection with a PROXY header belongs to one client, and must not be kept for the requests of others | set `pool = 0` \
         in [service.http]",
    ),
    (
        "source = \"client\"",
        "error 7 a connection from the client's own address belongs to one client, and must not be kept for the requests of others | set \
         `pool = 0` in [service.http]",
    ),
    (
        "http = { max-header-size = \"8KiB\", max-start-line = \"9KiB\" }",
        "warning 7 `max-start-line` is never reached: the whole head has fewer bytes, see `max-header-size` | -",
    ),
    ("http = { max-header-size = \"256KiB\" }", "error 7 256KiB is out of range | -"),
    ("http = { max-body = \"0B\" }", "error 7 0B is out of range | -"),
    (
        "http = { pool = 0, pool-idle = \"1s\" }",
        "warning 7 `pool-idle` has no effect: no connection is kept for another request (`pool = 0`) | -",
    ),
    (
        "alpn = [\"http/1.1\"]\nhttp = { max-streams = 8 }",
        "warning 8 `max-streams` has no effect: Handfast agrees on `h2` with no client, see `alpn` | -",
    ),
    (
        "http = { trust-forwarded-from = \"unix\" }",
        "warning 7 `unix` has no effect: no listener is a unix socket | -",
    ),
    (
        "http = { trust-forwarded-from = \"0.0.0.0/0\" }",
        "warning 7 `0.0.0.0/0` covers every client: each can claim any address | list the addresses of the proxies in front",
    ),
    (
        "http = { request-id = \"Content-Length\" }",
        "error 7 `Content-Length` has another meaning in HTTP | choose another name: `x-request-id`",
    ),
    (
        "http = { request-id = \"x id\" }",
        "error 7 `x id` is not the name of a field | names consist of letters, digits and `-`: `x-request-id`",
    ),
    (
        "http = { backend-version = \"h2\" }\ncheck = { type = \"http\" }",
        "warning 8 a check of type `http` asks by HTTP/1.1, but requests go to these backends by HTTP/2 | write `type = \"tcp\"` or `type = \
         \"tls\"`, or the `port` of a server that speaks HTTP/1.1",
    ),
    // Routes.
    (
        "[[service.route]]\nname = \"a\"\npath = \"/a\"\n[[service.route]]\nname = \"a\"\npath = \"/b\"",
        "error 11 two routes are called `a` | metrics and logs need different names",
    ),
    ("[[service.route]]\nname = \"a b\"", "error 8 `a b` cannot be a route's name | -"),
    (
        "[[service.route]]\npath = \"a\"",
        "error 8 `a` cannot begin a path: it does not start with `/` | write `/a`",
    ),
    (
        "[[service.route]]\npath = \"https://a/b\"",
        "error 8 `https://a/b` cannot begin a path: it does not start with `/` | write the host in `hosts`, and here only the path",
    ),
    (
        "[[service.route]]\npath = \"/a?b\"",
        "error 8 `/a?b` cannot begin a path: what follows `?` is not part of a path | write `/a`",
    ),
    (
        "[[service.route]]\npath = \"/#b\"",
        "error 8 `/#b` cannot begin a path: what follows `#` is not part of a path | leave `path` out",
    ),
    (
        "[[service.route]]\npath = \"/é\"",
        "error 8 `/é` cannot begin a path: a request has no spaces, control characters or letters beyond ASCII there | write `%C3%A9`, \
         as clients send it",
    ),
    (
        "[[service.route]]\npath = \"/a/**\"",
        "error 8 `/a/**` cannot begin a path: a `*` at its end has no meaning | write `/a`, which matches what is below it, too",
    ),
    (
        "[[service.route]]\nmethods = \"GET, HEAD\"",
        "error 8 `GET, HEAD` is not a method | write each method as a separate text: `[\"GET\", \"HEAD\"]`",
    ),
    (
        "[[service.route]]\nmethods = \"get\"",
        "error 8 `get` is not a method | write `GET`: methods are case-sensitive",
    ),
    (
        "[[service.route]]\nheaders = \"x y: 1\"",
        "error 8 `x y` is not the name of a field | names consist of letters, digits and `-`; a value follows a colon: `x-tenant: blue`",
    ),
    (
        "[[service.route]]\nheaders = \"Host: a.example\"",
        "error 8 the field `host` is no condition of a route | write its name in `hosts`",
    ),
    ("[[service.route]]\nheaders = \"x-a: \"", "error 8 `x-a:` has no value | write `x-a` for any value"),
    (
        "[[service.route]]\nheaders = \"x-a: \\u0000\"",
        "error 8 this cannot be the value of `x-a` | remove the control characters: no field has them",
    ),
    ("[[service.route]]\nhosts = \"*\"", "error 8 `*` is not a host | leave `hosts` out to match every host"),
    ("[[service.route]]\nhosts = \"::1\"", "error 8 `::1` is not a host | write `[::1]`"),
    (
        "[[service.route]]\nhosts = \"a.example:80\"",
        "error 8 `a.example:80` is not a server name | a name alone, without scheme, port or path",
    ),
    (
        "[[service.route]]\nredirect = \"https\"",
        "error 8 clients speak TLS here, so they would be redirected to where they are, forever | write the route for a service with \
         `client-tls = false`; for plain HTTP on this port there is `plain-http = \"redirect\"` in [[service]]",
    ),
    ("[access-log]\nredact-query = \"a=b\"", "error 8 `a=b` cannot be the name of a parameter | -"),
    (
        "[[service.route]]\nredirect = { to = \"/x\", status = 300 }",
        "error 8 `300` is no status of a redirect | -",
    ),
    (
        "[[service.route]]\nredirect = { to = \"/{path}\" }",
        "error 8 `/{path}` is no target | a client could choose the host: write `{scheme}://{host}{target}`",
    ),
    ("[[service.route]]\nredirect = { to = \"//a.example\" }", "error 8 `//a.example` is no target | -"),
    (
        "[[service.route]]\nrespond = { status = 204, content = \"x\" }",
        "error 8 a response with status 204 has no content | -",
    ),
    (
        "[[service.route]]\nrespond = 404\nredirect = { to = \"/x\" }",
        "error 8 a route has a `redirect` or a `respond`: a request gets one response | remove one of them",
    ),
    (
        "[[service.route]]\nrewrite-path = \"/x\"",
        "error 8 `rewrite-path` has no effect: the route has no `path` whose place it could take | add `path`",
    ),
    (
        "[[service.route]]\nset-request-headers = \"x-a: {clients}\"",
        "error 8 there is no variable `clients` | -",
    ),
    (
        "[[service.route]]\nset-response-headers = \"x-a: }\"",
        "error 8 `}` has a `}` without its other one | write `}}` for a single one",
    ),
    (
        "[[service.route]]\nset-request-headers = \"content-length: 1\"",
        "error 8 `content-length` belongs to one connection, and is written by Handfast | -",
    ),
    (
        "[[service.route]]\nset-request-headers = \"X-Forwarded-For: a\"",
        "error 7 `X-Forwarded-For` cannot be changed by a route | `forwarded` in [service.http] decides which of these fields are sent",
    ),
    (
        "[[service.route]]\nrate-limit = { per = \"1s\" }",
        "error 8 { requests = …, per = … } has no `requests` | add a line such as `requests = 100`",
    ),
    (
        "[[service.route]]\nrate-limit = { requests = 1, by = \"x-key\" }",
        "error 8 `x-key` is not one of the possible values | write `header:x-key` for a field",
    ),
    (
        "[[service.route]]\nrate-limit = { requests = 1, by = \"header:x key\" }",
        "error 8 `x key` is not the name of a field | names consist of letters, digits and `-`: `header:x-api-key`",
    ),
    (
        "[[service.route]]\nrate-limit = { requests = 1, by = \"route\", prefix-v4 = 8 }",
        "warning 8 `prefix-v4` has no effect: all requests of the route are counted together | -",
    ),
    (
        "[[service.route]]\nallow-certificates = \"dns:*.a.example\"",
        "error 8 `allow-certificates` has no effect: no client is asked for a certificate | add [service.client-certificates] with `mode` and `ca`",
    ),
    (
        "[[service.route]]\nallow-clients = \"10.0.0.0/8\"\nrefuse-clients = \"10.0.0.0/8\"",
        "warning 8 `10.0.0.0/8` is never let in: `refuse-clients` wins | take it out of one of the lists",
    ),
    (
        "[[service.route]]\nbasic-auth = { realm = \"x\" }",
        "error 8 { file = …, realm = … } has no `file` | add a line such as `file = \"users.htpasswd\"`",
    ),
    (
        "[[service.route]]\nbasic-auth = { file = \"x\", realm = \"a \\\" b\" }",
        "error 8 `a \" b` cannot be a realm | -",
    ),
    (
        "[[service.route]]\nforward-auth = { to = \"10.0.0.9:80\", path = \"http://a/x\" }",
        "error 8 `http://a/x` cannot be asked for | write the address in `to`, and here only the path",
    ),
    (
        "[[service.route]]\nforward-auth = { to = { program = \"/bin/cat\" }, path = \"/\" }",
        "error 8 a program cannot be asked about requests: it would be started for each | write the address of a server",
    ),
    (
        "[[service.route]]\nforward-auth = { to = \"10.0.0.9:80\", path = \"/\", copy = \"Content-Length\" }",
        "error 8 `Content-Length` belongs to one connection, and is written by Handfast | -",
    ),
    ("[[service.route]]\nshare = \"0%\"", "error 8 `0%` is out of range | -"),
    ("[[service.route]]\nshare = \"100.01%\"", "error 8 `100.01%` is out of range | -"),
    ("[[service.route]]\nshare = \"5\"", "error 8 `5` is not a share | write `5%`"),
    ("[[service.route]]\nshare = \"0.001%\"", "error 8 `0.001%` is not a share | -"),
    ("[[service.route]]\nshare = \"-1%\"", "error 8 `-1%` is not a share | -"),
    (
        "[service.http]\nfailure-ratio = 50",
        "error 8 expected a text, such as `\"5%\"`, found a whole number | -",
    ),
    (
        "[[service.route]]\nmirror = { share = \"1%\" }",
        "error 8 { to = …, share = … } has no `to` | add a line such as `to = \"10.0.0.9:8080\"`",
    ),
    (
        "[[service.route]]\nmirror = { to = \"10.0.0.9:80\" }\nrespond = 404",
        "error 8 `mirror` has no effect: no backend gets the requests of this route | remove it, or change what the reason names",
    ),
    (
        "[[service.route]]\nmirror = { to = \"10.0.0.9:80\", content = \"2MiB\" }",
        "error 8 2MiB is out of range | -",
    ),
    (
        "[service.http]\nqueue = { length = 5 }",
        "warning 8 `queue` has no effect: backends get any number of requests, so none waits (`max-requests`) | -",
    ),
    (
        "[service.http]\nmax-requests = 1\nqueue = { length = 0, timeout = \"1s\" }",
        "warning 9 `timeout` has no effect: no request waits (`length = 0`) | -",
    ),
    (
        "[[service.route]]\nsticky = { same-site = \"lax\" }",
        "error 8 nothing says how clients are kept at their backends | write `cookie` or `header`",
    ),
    (
        "[[service.route]]\nsticky = { cookie = \"a\", header = \"b\" }",
        "error 8 a cookie or a field keeps clients at their backends, not both | remove one of them",
    ),
    ("[[service.route]]\nsticky = { cookie = \"a b\" }", "error 8 `a b` is not the name of a cookie | -"),
    (
        "[[service.route]]\nsticky = { header = \"x-a\", key-file = \"k\" }",
        "error 8 `key-file` has no effect: a field decides, and no cookie is set | remove it, or change what the reason names",
    ),
    (
        "[[service.route]]\nrespond = 404\nsticky = { cookie = \"a\" }",
        "error 9 `sticky` has no effect: no backend gets the requests of this route | remove it, or change what the reason names",
    ),
    (
        "[[service.route]]\nrespond = 404\nresponse-timeout = \"5s\"",
        "error 9 `response-timeout` has no effect: no backend gets the requests of this route | remove it, or change what the reason names",
    ),
    ("[[service.route]]\nretries = 11", "error 8 11 is out of range | -"),
    (
        "[[service.route]]\nrate-limit = 100",
        "error 8 expected a table, such as `{ requests = 100, per = \"1s\" }`, found a whole number | -",
    ),
    (
        "[[service.route]]\nbackend-tls = {}",
        "error 8 `backend-tls` has no effect: the route has no `backend`; the backends of the connection have their own TLS | remove it, \
         or change what the reason names",
    ),
];

#[test]
fn a_route_that_is_never_reached_is_reported() {
    let never = |first: &str, second: &str| {
        let text = shop(&format!("[[service.route]]\n{first}\n[[service.route]]\nname = \"b\"\n{second}"));
        issues(&text)
            .iter()
            .any(|message| message.contains("`b` is never reached: `route 1` matches its requests first"))
    };
    for (first, second) in [
        ("", ""),
        ("", "path = \"/a\""),
        ("path = \"/a\"", "path = \"/a\""),
        ("path = \"/a\"", "path = \"/a/b\"\nmethods = \"GET\""),
        ("hosts = \"*.example\"", "hosts = [\"a.example\", \"*.example\"]"),
        ("methods = [\"GET\", \"PUT\"]", "methods = \"PUT\""),
        ("headers = \"x-a\"", "headers = [\"x-b\", \"x-a: 1\"]"),
    ] {
        assert!(never(first, second), "{first} | {second}");
    }
    for (first, second) in [
        ("path = \"/a\"", ""),
        ("path = \"/a\"", "path = \"/ab\""),
        ("path = \"/a/\"", "path = \"/a\""),
        ("hosts = \"a.example\"", ""),
        ("hosts = \"a.example\"", "hosts = [\"a.example\", \"b.example\"]"),
        ("hosts = \"*.example\"", "hosts = \"a.b.example\""),
        ("methods = \"GET\"", "methods = [\"GET\", \"PUT\"]"),
        ("headers = \"x-a: 1\"", "headers = \"x-a\""),
        ("headers = \"x-a: 1\"", "headers = \"x-a: 2\""),
        // A condition that is wrong does not count as one that is not there.
        ("path = \"a\"", "path = \"/b\""),
        ("methods = \"a b\"", "path = \"/b\""),
    ] {
        assert!(!never(first, second), "{first} | {second}");
    }
}

/// A service whose routes leave nothing for its backends has none.
#[test]
fn routes_that_take_every_request_need_no_backend_behind_them() {
    let text = |lines: &str| {
        let service = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:80\"\nclient-tls = false\n";
        format!("{service}{lines}\n")
    };
    let redirect = "[[service.route]]\nredirect = \"https\"\n";
    for routes in [
        redirect.to_owned(),
        format!("[[service.route]]\nhosts = \"a.example\"\nbackend = \"127.0.0.1:81\"\n{redirect}"),
    ] {
        let config = good(&text(&format!("mode = \"http\"\n{routes}")));
        assert!(config.services[0].backends.is_empty(), "{routes}");
    }
    let missing = "error 1 [[service]] has no `backend` | add a line such as `backend = \"127.0.0.1:8080\"`";
    for lines in [
        "mode = \"http\"".to_owned(),
        "mode = \"http\"\n[[service.route]]\nhosts = \"a.example\"\nredirect = \"https\"".to_owned(),
        "mode = \"http\"\n[[service.route]]\npath = \"/\"\nredirect = \"https\"".to_owned(),
        format!("mode = \"http\"\n[[service.route]]\nhosts = \"a.example\"\n{redirect}"),
        redirect.to_owned(),
    ] {
        assert!(issues(&text(&lines)).iter().any(|it| it == missing), "{lines}: {:?}", issues(&text(&lines)));
    }
}

/// Settings about backends are errors if no request goes to a backend; a route with a backend needs them.
#[test]
fn settings_about_backends_need_some() {
    let text = |lines: &str, route: &str| {
        let service =
            "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:80\"\nclient-tls = false\nmode = \"http\"\n";
        format!("{service}{lines}\n[[service.route]]\n{route}\n")
    };
    for (lines, name) in [
        ("balance = \"least-connections\"", "balance"),
        ("slow-start = \"10s\"", "slow-start"),
        ("source = \"127.0.0.1\"", "source"),
        ("[service.check]\ntype = \"tcp\"", "check"),
        ("[service.backend-tls]\nca = \"system\"", "backend-tls"),
        ("[service.connect-through]\ntype = \"http\"\naddress = \"127.0.0.1:82\"", "connect-through"),
        ("[service.proxy-protocol]\nsend = \"v2\"", "send"),
        ("[service.http]\nretries = 2", "retries"),
        ("[service.http]\npool = 5", "pool"),
        ("[service.http]\nset-request-headers = \"a: b\"", "set-request-headers"),
        ("[service.http]\nadd-request-headers = \"a: b\"", "add-request-headers"),
        ("[service.http]\nremove-request-headers = \"a\"", "remove-request-headers"),
        ("[service.http]\ncompression = true", "compression"),
    ] {
        let issues = issues(&text(lines, "redirect = \"https\""));
        let expected = format!("`{name}` has no effect: no request goes to a backend");
        assert!(issues.iter().any(|issue| issue.contains(&expected)), "{lines}: {issues:?}");
    }
    good(&text(
        "balance = \"least-connections\"\nslow-start = \"10s\"",
        "backend = [\"127.0.0.1:81\", \"127.0.0.1:82\"]",
    ));
}

#[test]
fn everything_that_is_wrong_with_http_mode_is_reported_at_once() {
    let text = shop(
        "starttls = \"imap\"\nalpn = [\"imap\"]\nhttp = { pool = -1 }\nproxy-protocol = { send = \"v1\" }\n\
         [[service.route]]\npath = \"a\"\nmethods = \"get\"\n[[service.route]]\nheaders = \"a b\"\nbackend = \"x\"",
    );
    let lines: Vec<usize> = read(&text).expect_err("nothing is right").iter().map(Problem::line).collect();
    assert_eq!(lines, [7, 8, 9, 10, 12, 13, 15, 16]);
}
