//! Protocols on the way to backends: STARTTLS, and proxies; and combinations that are refused.

use super::super::super::model::{ConnectThrough, Target, TunnelKind};
use super::*;

/// Messages about a service with these lines, errors and warnings.
fn messages(lines: &str) -> Vec<String> {
    let problems = match read(&format!("{WEB}{lines}\n")) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    };
    problems.into_iter().map(|problem| format!("{:?}: {}", problem.severity, problem.what)).collect()
}

#[test]
fn a_proxy_on_the_way_is_read() {
    let text = format!(
        "{WEB}connect-through = {{ type = \"socks5\", address = \"proxy.example:1080\", user = \"bob\", password-file = \"p\" }}\n"
    );
    let expected = ConnectThrough {
        kind: TunnelKind::Socks5,
        proxy: Target::Name("proxy.example".into(), 1080),
        login: Some(("bob".into(), "/etc/handfast/p".into())),
    };
    assert_eq!(good(&text).services[0].connect_through, Some(expected));
    assert_eq!(good(WEB).services[0].connect_through, None);
}

#[test]
fn what_cannot_be_meant_is_reported() {
    const MYSQL: &str = "starttls = \"mysql\"";
    let through =
        |more: &str| format!("connect-through = {{ type = \"http\", address = \"10.0.0.2:80\"{more} }}");
    for (lines, message) in [
        (through(", user = \"bob\""), "Error: a `user` without its `password-file`"),
        (through(", password-file = \"p\""), "Error: a `password-file` without its `user`"),
        (
            through(", user = \"a:b\", password-file = \"p\""),
            "Error: this cannot be a user's name for a proxy",
        ),
        (
            "backend-tls = { starttls-name = \"x\" }".into(),
            "Warning: `starttls-name` has no effect: the backend speaks TLS from the first byte, see `starttls`",
        ),
        (
            "starttls = \"smtp\"\nbackend-tls = { starttls = \"imap\" }".into(),
            "Error: clients speak SMTP before TLS, and backends IMAP: after it, they would not understand each other",
        ),
        (
            "backend-tls = { starttls = \"xmpp\" }".into(),
            "Warning: an XMPP stream is opened for a domain, and this backend has none: the server will answer `host-unknown`",
        ),
        (
            format!("{MYSQL}\nbackend-tls = {{}}"),
            "Error: a server of MySQL speaks before TLS begins, so backends cannot have TLS from the first byte",
        ),
        (
            format!("{MYSQL}\n[[service.rule]]\nnames = \"a.example\"\nbackend-tls = {{ {MYSQL} }}"),
            "Error: a rule cannot have `backend-tls` with MySQL: its server speaks before a client has said which name it asks \
             for",
        ),
        (
            format!(
                "{MYSQL}\nclient-certificates = {{ mode = \"require\", ca = \"ca.pem\", fallback-backend = \"10.0.0.9:81\" }}"
            ),
            "Error: `fallback-backend` cannot be met with MySQL: its client logs in with what another server has greeted it with",
        ),
    ] {
        assert_eq!(messages(&lines), [message], "{lines}");
    }
    // Both with the same word, or one of them.
    for lines in [
        format!("{MYSQL}\nbackend-tls = {{ {MYSQL} }}"),
        "starttls = \"smtp\"\nbackend-tls = {}".into(),
        "backend-tls = { starttls = \"xmpp\", name = \"im.example\" }".into(),
        "backend-tls = { starttls = \"xmpp\", starttls-name = \"im.example\" }".into(),
    ] {
        assert_eq!(messages(&lines), [""; 0], "{lines}");
    }
    good(&format!(
        "{}backend-tls = {{ starttls = \"xmpp\" }}\n",
        WEB.replace("10.0.0.9:80", "im.example:5222")
    ));
    let near = WEB.replace("10.0.0.9:80", "unix:/run/x");
    let problems = read(&format!("{near}{}\n", through(""))).expect_err("no proxy reaches it");
    assert_eq!(
        problems[0].what,
        "no proxy can connect to the backend `unix:/run/x`: it is on this machine alone"
    );
}

/// The backend's greeting, and its own request for TLS, would come before the TLS that is passed on.
#[test]
fn clients_that_are_greeted_before_tls_are_not_passed_through() {
    let rule = "[[service.rule]]\nnames = \"a.example\"\npass-through = true";
    for protocol in handfast_wire::starttls::Protocol::ALL {
        let lines = format!("starttls = \"{}\"\n{rule}", protocol.name());
        if !protocol.server_speaks_first() {
            assert_eq!(messages(&lines), [""; 0], "{lines}");
            continue;
        }
        let problems = read(&format!("{WEB}{lines}\n")).expect_err(&lines);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        let expected = format!(
            "with `starttls`, TLS in {protocol} cannot be passed through: the backend greets first, and waits for a request for \
             TLS that Handfast has answered already"
        );
        assert_eq!(problem.what, expected);
        let Place::Text { line: 9, text, .. } = &problem.place else { panic!("{problem:?}") };
        assert_eq!(text, "true");
        let hint = "remove `pass-through`, or serve these names by a separate service without `starttls`";
        assert_eq!(problem.hint.as_deref(), Some(hint));
        let Some((Place::Text { span, .. }, _)) = &problem.see else { panic!("{problem:?}") };
        assert_eq!(span.start, WEB.len() + 11);
    }
}

/// RFC 5802 §6: the server compares its connection's binding with that of the client.
#[test]
fn passwords_of_postgresql_that_cannot_match_are_warned_of() {
    const BACKEND: &str = "backend-tls = { starttls = \"postgresql\"";
    const RULE: &str = "[[service.rule]]\nnames = \"a.example\"\nbackend = \"10.0.0.8:5432\"\n";
    const BOUND: &str = "Warning: PostgreSQL clients bind a password to the certificate that they see (SCRAM channel binding): a login \
                         fails unless it is the server's own";
    for (lines, expected) in [
        (format!("starttls = \"postgresql\"\n{BACKEND} }}"), &[BOUND][..]),
        (format!("starttls = \"postgresql\"\n{BACKEND}, ca = \"ca.pem\" }}"), &[BOUND]),
        (format!("starttls = \"postgresql\"\n{BACKEND}, ca = \"site.pem\" }}"), &[]),
        (format!("starttls = \"postgresql\"\n{RULE}{BACKEND} }}"), &[BOUND]),
        (format!("starttls = \"postgresql\"\n{BACKEND} }}\n{RULE}{BACKEND} }}"), &[BOUND, BOUND]),
        (format!("starttls = \"postgresql\"\n{RULE}{BACKEND}, ca = \"site.pem\" }}"), &[]),
        ("starttls = \"postgresql\"".into(), &[]),
        ("starttls = \"smtp\"\nbackend-tls = { starttls = \"smtp\" }".into(), &[]),
    ] {
        assert_eq!(messages(&lines), expected, "{lines}");
    }
    let plain = WEB.replace("certificate = \"site.pem\"", "client-tls = false");
    let (_, warnings) = read(&format!("{plain}{BACKEND} }}\n")).expect("it is good");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.what.starts_with("PostgreSQL offers SCRAM-SHA-256-PLUS behind TLS"), "{}", warning.what);
}
