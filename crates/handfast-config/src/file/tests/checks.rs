//! `[service.check]`: what is read, and what cannot be meant.

use super::super::super::model::{Check, CheckKind};
use super::*;

fn messages(check: &str) -> Vec<String> {
    let problems = match read(&format!("{WEB}[service.check]\n{check}\n")) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    };
    problems.into_iter().map(|problem| problem.what).collect()
}

fn check_of(check: &str) -> Check {
    good(&format!("{WEB}[service.check]\n{check}\n")).services[0].check.clone().expect("it is written")
}

#[test]
fn a_check_has_defaults_by_its_type() {
    assert_eq!(good(WEB).services[0].check, None);
    let tcp = check_of("type = \"tcp\"");
    assert_eq!((tcp.interval, tcp.timeout, tcp.rise, tcp.fall), (seconds(5), seconds(2), 2, 3));
    assert_eq!((tcp.kind, tcp.port), (CheckKind::Tcp, None));
    let http = check_of("type = \"http\"\nport = 8081").kind;
    assert_eq!(http, CheckKind::Http { path: "/".into(), host: None, status: vec![200..=399] });
    let written = "type = \"http\"\npath = \"/health?x=1\"\nhost = \"www.example.org\"\nstatus = [200, \"300-308\", \"401\"]";
    let CheckKind::Http { path, host, status } = check_of(written).kind else { panic!("{written}") };
    assert_eq!((&*path, host.as_deref()), ("/health?x=1", Some("www.example.org")));
    assert_eq!(status, [200..=200, 300..=308, 401..=401]);
    let bytes =
        check_of("type = \"send-expect\"\nsend = \"PING\\r\\n\"\nexpect = { hex = \"2B 504f4E47\" }").kind;
    assert_eq!(bytes, CheckKind::SendExpect { send: b"PING\r\n".to_vec(), expect: b"+PONG".to_vec() });
}

#[test]
fn what_cannot_be_meant_is_reported_with_its_reason() {
    for (check, message) in [
        ("interval = \"1s\"\ntimeout = \"1s\"", "[service.check] has no `type`"),
        (
            "type = \"tcp\"\ninterval = \"1s\"\ntimeout = \"1001ms\"",
            "`timeout` is longer than `interval`: one check would begin before the last one ended",
        ),
        (
            "type = \"tcp\"\ninterval = \"1s\"",
            "`timeout` is longer than `interval`: one check would begin before the last one ended",
        ),
        ("type = \"tcp\"\npath = \"/\"", "`path` belongs to a check of type `http`"),
        ("type = \"http\"\nexpect = \"x\"", "`expect` belongs to a check of type `send-expect`"),
        ("type = \"send-expect\"", "a check of type `send-expect` has no `expect`"),
        ("type = \"send-expect\"\nexpect = \"\"", "these are 0 bytes"),
        ("type = \"send-expect\"\nexpect = { hex = \"0d0\" }", "`0d0` is not pairs of hexadecimal digits"),
        ("type = \"send-expect\"\nexpect = { hex = \"0é\" }", "`0é` is not pairs of hexadecimal digits"),
        ("type = \"http\"\nstatus = 99", "99 is no status of HTTP, and no range of them"),
        ("type = \"http\"\nstatus = \"399-200\"", "\"399-200\" is no status of HTTP, and no range of them"),
        (
            "type = \"http\"\npath = \"/a\\r\\nX: y\"",
            "a path begins with `/` and has no spaces, control characters or letters beyond ASCII",
        ),
        (
            "type = \"http\"\nhost = \"a b\"",
            "a host has no spaces, control characters or letters beyond ASCII",
        ),
        ("type = \"tcp\"\nport = 0", "0 is out of range"),
        ("type = \"tls\"", "a check over TLS, but nothing says how TLS is spoken with the backends"),
        (
            "type = \"http\"\ntls = true",
            "a check over TLS, but nothing says how TLS is spoken with the backends",
        ),
        ("type = \"tcp\"\ntls = false", "`tls` is for the types `http` and `send-expect`"),
    ] {
        assert_eq!(messages(check), [message], "{check}");
    }
}
