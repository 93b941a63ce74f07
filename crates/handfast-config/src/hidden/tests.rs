//! Tests of the parts that are hidden in lines, and that no message contains them.

use super::*;
use crate::schema::known_names;
use crate::{keys, parse, render};

/// In place of a secret.
const MARKER: &str = "MarKeR7sEcReT";

fn masked(text: &str) -> String {
    Hidden::of(text, known_names(&keys::FILE.all())).masked(text)
}

#[test]
fn what_helps_is_shown_and_the_rest_is_not() {
    for (text, expected) in [
        ("listen = \"*:443\"", "listen = \"*:443\""),
        ("lisen = [\"*:443\", '[::1]:8443'] # why", "lisen = [\"*:443\", '[::1]:8443'] *****"),
        ("[[service]]\n  [service.limits] # x", "[[service]]\n  [service.limits]****"),
        ("password = \"hunter2\"", "password = \"*******\""),
        ("key = \"web.key\"\nsecret = '/run/a'", "key = \"web.key\"\nsecret = '/run/a'"),
        ("secret = \"0123456789abcdef\"", "secret = \"****************\""),
        ("send = \"AUTH x\\r\\n\"", "send = \"**********\""),
        ("handshake = 10", "handshake = 10"),
        ("MIIEvQIBADANBgkqhkiG9w0BAQ==", "**************************=="),
        ("[Hunter]\n[[service]", "[******]\n[[service]"),
        (
            "key = \"certificates\"\npassword-file = \"hunter\"",
            "key = \"certificates\"\npassword-file = \"******\"",
        ),
        ("alice:$2y$10$abc", "*****:**********"),
        ("idle: \"10s\"\npassword: \"x y\"", "idle: \"10s\"\n********: \"* *\""),
        ("CAfile = \"ca.pem\"", "CAfile = \"ca.pem\""),
        ("expect = { hex = \"0d0\", token = \"x\" }", "expect = { hex = \"0d0\", token = \"*\" }"),
        ("unknown = { zzzz = \"x\", listen = \"y\" }", "unknown = { zzzz = \"*\", listen = \"y\" }"),
        ("listen = [\n  \"a\",\nhunter2\nname = \"x\"", "listen = [\n  \"a\",\n*******\nname = \"x\""),
        ("name = \"x\" hunter2\nstatus = [\n 200\n]", "name = \"x\" *******\nstatus = [\n 200\n]"),
        ("listen = [\nHunter2", "listen = [\n*******"),
        ("server = \"nats://u:p@host:1\"", "server = \"nats://***@host:1\""),
        ("name = \"\"\"\nx\ny\"\"\"", "name = \"\"\"\n*\n*\"\"\""),
    ] {
        assert_eq!(masked(text), expected, "{text}");
        assert_eq!(masked(text).len(), text.len(), "{text}");
    }
}

#[test]
fn a_hidden_text_is_in_no_message_even_when_it_is_cut() {
    let long = "x".repeat(10) + &"Y".repeat(80);
    assert_eq!(without(&format!("`{}...` is no value", &long[..57]), &long), "`***...` is no value");
    assert_eq!(without("`ab` is a bad ab", "ab"), "`***` is a bad ab");
    assert_eq!(without("secret and secret", "secret"), "*** and ***");
    assert_eq!(without("comments begin with `#`", "comment"), "comments begin with `#`");
}

/// Damaged and mistaken configurations, each with a secret in another place.
fn mistaken() -> Vec<String> {
    let good = "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:8443\"\nbackend = \"127.0.0.1:1\"\n";
    let lines = [
        "M",
        "M = M",
        "M = \"M\"",
        "\"M\" = 1",
        "password = M",
        "password = \"M\"",
        "password: M",
        "passwd \"M\"",
        "[M]",
        "[[M]]",
        "[M",
        "M]",
        "name = \"x\" M",
        "name = M",
        "key = \"M\"",
        "key = M",
        "key = \"M",
        "secret = \"M\"",
        "credentials = \"u:M\"",
        "users = [\"a:M\"]",
        "token = 'M'",
        "api_key = \"M\"",
        "listen = [\"x\"\nM",
        "listen = [\"x\",\nM,",
        "-----BEGIN PRIVATE KEY-----M",
        "key = \"-----BEGIN KEY----- M\"",
        "key = '''\n-----BEGIN PRIVATE KEY-----\nM\n-----END PRIVATE KEY-----\n'''",
        "key = \"\"\"\nM\n\"\"\"",
        "key = '''\nM",
        "# M\nlisen = 1",
        "lisen = 1 # M",
        "backend = \"http://u:M@h\"",
        "x = { password = \"M\" }",
        "connect-through = { url = \"http://proxy:1\", password = \"M\" }",
        "set-request-headers = [\"Authorization Basic: M\"]",
        "set-request-headers = [\"Authorization: Basic M\"]",
        "send = \"AUTH M\"",
        "[service.check]\ntype = \"send-expect\"\nsend = M",
        "[fleet]\nserver = \"nats://u:M@\"",
        "[fleet]\nserver = [\"tls://u:M@host:x\"]",
        "[fleet]\nsecret = M",
        "M\r\nM",
        "\u{feff}M",
        "M\tM",
        "M:M",
        "certificate = \"M\\",
        "name = \"M",
        "name = 'M",
        "certificate = \"\\q M\"",
        "{\"key\": \"M\"}",
        "key: M\nother: M",
        "ssl_certificate_key M;\nproxy_pass M;",
        "accept = M\nconnect = M",
    ];
    lines
        .iter()
        .flat_map(|line| {
            [
                line.to_string(),
                format!("{good}{line}\n"),
                format!("{line}\n{good}"),
                format!("{good}{line}\n{good}lisen = 7\n"),
            ]
        })
        .collect()
}

#[test]
fn no_message_about_a_configuration_has_a_secret() {
    for template in mistaken() {
        for secret in [MARKER.to_owned(), format!("MIIEvQ{MARKER}+{}/ab==", MARKER.repeat(4))] {
            let text = template
                .replace("-----BEGIN", "\u{1}")
                .replace("KEY", "\u{2}")
                .replace('M', &secret)
                .replace('\u{1}', "-----BEGIN")
                .replace('\u{2}', "KEY");
            let (Err(problems) | Ok((_, problems))) = parse("handfast.toml", &text, &|_| false);
            let lines: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
            let shown = render(&problems, &[("handfast.toml", &text)], false);
            for output in [lines, shown] {
                assert!(!output.contains(MARKER), "{template}\n{output}");
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics_and_places_stay(text in "[\\[\\]{}=\"'#a-cZ \\\\\n.,é-]{0,80}") {
        let hidden = Hidden::of(&text, known_names(&keys::FILE.all()));
        proptest::prop_assert_eq!(hidden.masked(&text).len(), text.len());
        for start in 0..text.len() {
            hidden.redacted("a message", &text, &(start..text.len()));
        }
    }
}
