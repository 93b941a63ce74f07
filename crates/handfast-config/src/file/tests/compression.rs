//! Compression of responses: what is read, what a route inherits, and what cannot be meant.

use super::http::{issues, shop};
use super::*;

/// Lines of a service in HTTP mode, and the message about them.
const WRONG: &[(&str, &str)] = &[
    (
        "[[service.route]]\ncompression = { algorithms = [\"brotli\"] }",
        "error 8 `brotli` is not one of the possible values | -",
    ),
    ("[[service.route]]\ncompression = { algorithms = [] }", "error 8 the list is empty | -"),
    (
        "[[service.route]]\ncompression = { types = \"*\" }",
        "error 8 `*` is not a range of types | write `*/*`",
    ),
    (
        "[[service.route]]\ncompression = { types = \"text/html; charset=utf-8\" }",
        "error 8 `text/html; charset=utf-8` is not a range of types | leave out the parameters: they do not count",
    ),
    (
        "[[service.route]]\ncompression = { types = \"application/*json\" }",
        "error 8 `application/*json` is not a range of types | -",
    ),
    ("[[service.route]]\ncompression = { br-level = 5 }", "error 8 5 is out of range | -"),
    (
        "[[service.route]]\ncompression = { algorithms = \"br\", gzip-level = 9 }",
        "warning 8 `gzip-level` has no effect: `algorithms` does not have `gzip` | -",
    ),
    (
        "[[service.route]]\ncompression = \"gzip\"",
        "error 8 expected a table, such as `{ algorithms = [\"gzip\"], gzip-level = 1 }`; or `true` or `false`, found a text | -",
    ),
    (
        "[[service.route]]\ncompression = true\nbasic-auth = { file = \"users\" }",
        "error 8 `compression` has no effect: responses of a route with `basic-auth` may have secrets | write `compression = { with-secrets = true }` where they have none, or none that a request could guess",
    ),
    (
        "[service.http]\nbasic-auth = { file = \"users\" }\n[[service.route]]\ncompression = true",
        "error 10 `compression` has no effect: responses of a route with `basic-auth` may have secrets | write `compression = { with-secrets = true }` where they have none, or none that a request could guess",
    ),
    (
        "[service.http]\nforward-auth = { to = \"10.0.0.9:1\", path = \"/\" }\ncompression = true",
        "error 9 `compression` has no effect: responses of a route with `forward-auth` may have secrets | write `compression = { with-secrets = true }` where they have none, or none that a request could guess",
    ),
    (
        "[service.http]\nforward-auth = { to = \"10.0.0.9:1\", path = \"/\" }\nbasic-auth = { file = \"users\" }\n[[service.route]]\nbasic-auth = false\n\
         compression = true",
        "error 12 `compression` has no effect: responses of a route with `forward-auth` may have secrets | write `compression = { with-secrets = true }` where they have none, or none that a request could guess",
    ),
    (
        "client-certificates = { mode = \"request\", ca = \"ca.pem\" }\n[service.http]\nallow-certificates = \"dns:a\"\n\
         [[service.route]]\ncompression = true",
        "error 11 `compression` has no effect: responses of a route with `allow-certificates` may have secrets | write `compression = { with-secrets = true }` where they have none, or none that a request could guess",
    ),
    (
        "[[service.route]]\ncompression = true\nremove-response-headers = \"Vary\"",
        "error 8 `compression` has no effect: a rule sets or removes `Vary` or `Content-Encoding`, which compressed responses need | remove \
         that rule, or add to the field",
    ),
];

/// Conditions of the service that a route removes leave the service's compression for that route.
#[test]
fn compression_of_a_service_is_for_routes_without_its_conditions() {
    let text = "[service.http]\ncompression = true\nbasic-auth = { file = \"users\" }\n[[service.route]]\npath = \"/a\"\nbasic-auth = false";
    assert_eq!(issues(&shop(text)), [""; 0]);
}

#[test]
fn what_cannot_be_meant_is_reported() {
    for (lines, expected) in WRONG {
        assert_eq!(issues(&shop(lines)), [*expected], "{lines}");
    }
}

#[test]
fn compression_is_that_of_the_service_unless_a_route_says_otherwise() {
    let of = |lines: &str| {
        let config = good(&shop(lines));
        let resolved = crate::ResolvedRoutes::new(&config.services[0]).expect("it serves HTTP");
        let routes = std::iter::once(&resolved.fallback).chain(&resolved.routes);
        routes.map(|route| route.compression.as_ref().map(|own| own.min_size)).collect::<Vec<_>>()
    };
    let route = "[[service.route]]\npath = \"/a\"\n";
    let service = "[service.http]\ncompression = { min-size = \"7B\" }\n";
    assert_eq!(of(route), [None, None]);
    assert_eq!(of("[service.http]\ncompression = true\n"), [Some(1024)]);
    for (lines, expected) in [
        ("", Some(7)),
        ("compression = true\n", Some(7)),
        ("compression = false\n", None),
        ("compression = { min-size = \"9B\" }\n", Some(9)),
        // Responses that may have secrets, and fields that a coded response needs.
        ("basic-auth = { file = \"users\" }\n", None),
        ("forward-auth = { to = \"10.0.0.9:80\", path = \"/\" }\n", None),
        ("basic-auth = { file = \"users\" }\ncompression = { with-secrets = true }\n", Some(1024)),
        ("remove-response-headers = \"Vary\"\n", None),
        ("set-response-headers = \"content-encoding: x\"\n", None),
        ("add-response-headers = \"vary: origin\"\n", Some(7)),
    ] {
        assert_eq!(of(&format!("{service}{route}{lines}")), [Some(7), expected], "{lines}");
    }
    assert_eq!(of(&format!("{route}compression = true\n")), [None, Some(1024)]);
}
