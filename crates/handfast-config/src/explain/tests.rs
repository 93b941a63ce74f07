//! Tests of the sentences about a configuration.

mod requests;

use super::super::parse;
use super::*;

const TEXT: &str = r#"
[process]
threads = 4
user = "handfast"
max-connections = 1000

[access-log]
to = "off"

[admin]
listen = "off"

[[service]]
name = "web"
listen = ["*:443", "unix:/run/web.sock"]
backend = ["10.0.0.1:80", "web.example:80"]
balance = "least-connections"
source = ["10.0.0.5", "10.0.0.6"]
certificate = ["/certificates/", { certificate = "/a.pem", key = "/a.key" }]
unknown-name = "refuse"
alpn = ["h2", "http/1.1"]
versions = ["1.3"]
max-connections-per-address = 10
allow-clients = ["10.0.0.0/8", "192.0.2.7"]
refuse-clients = "10.9.0.0/16"
handshake-rate = { per-second = 10, burst = 50 }
client-certificates = { mode = "request", ca = "/ca.pem" }
[service.proxy-protocol]
accept-from = ["10.0.0.0/8", "unix"]
send = "v2"
client-certificate = "cn"
[service.limits]
idle = "none"
hello = "16KiB"
[service.tickets]
key-file = "/tickets.key"
[[service.rule]]
names = ["a.example", "*.b.example"]
backend = "unix:/run/b.sock"
client-certificates = { mode = "require", ca = "/other.pem" }
"#;

const SENTENCES: &str = "\
4 threads serve at most 1,000 connections, as user handfast once the listeners are bound.
A stop waits 30s for connections to end, then cuts the rest. Changed files are noticed at once, or after 10s where the file system sends no notifications.
There is no admin listener: no metrics, no status.
There is no access log.

Service web
  listens on port 443 of every address, IPv6 and IPv4 and the unix socket /run/web.sock
    with mode 0660 for unix sockets
  has the certificates of 2 places
    every file in the folder /certificates/
    /a.pem, key in /a.key
    → www.example.org and *.example.org (ECDSA-P256, good for 61 more days, /certificates/w.pem)
    → old.example.org (RSA-2048, EXPIRED 3 days ago, /a.pem, OCSP response stapled until 2026-11-01 12:00:00 UTC)
  refuses an unknown name
  speaks TLS with policy 2026-11, but only the versions 1.3
  agrees on the application protocols h2 and http/1.1, in this order
  lets in clients without a certificate, and those with one signed by /ca.pem
  issues 2 tickets a full handshake, good for 12h, by keys that change every 6h and are kept in /tickets.key
  demands a PROXY header from 10.0.0.0/8 and its unix sockets, and believes it
  sends backends a PROXY header v2, with the Common Name of the client's certificate
  goes to 10.0.0.1:80 and web.example:80, to the one with the fewest connections
  dials them from 10.0.0.5 and 10.0.0.6, in turn
  for a.example and *.b.example it goes to the unix socket /run/b.sock; it lets in only clients with a certificate signed by /other.pem
  serves at most 10 connections for one address
  serves only clients from 10.0.0.0/8 and 192.0.2.7, but none from 10.9.0.0/16
  begins at most 10 new handshakes a second for each address, 50 handshakes at once
  has its own limits: hello 16KiB, idle none
";

fn fact(service: &str, names: &[&str], kind: &str, expires_in_days: i64, file: &str) -> CertificateFact {
    CertificateFact {
        service: service.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        kind: kind.to_owned(),
        expires_in_days,
        staple_until: (kind == "RSA-2048" && service == "web").then_some(1_793_534_400),
        file: file.into(),
        is_for_the_name: false,
    }
}

#[test]
fn a_configuration_is_explained_in_sentences() {
    let (config, _) = parse("handfast.toml", TEXT, &|_| false).expect("a good configuration");
    let facts = [
        fact("web", &["www.example.org", "*.example.org"], "ECDSA-P256", 61, "/certificates/w.pem"),
        fact("web", &["old.example.org"], "RSA-2048", -3, "/a.pem"),
        fact("other", &["elsewhere.example"], "RSA-2048", 3, "/b.pem"),
    ];
    assert_eq!(explain(&config, &facts), SENTENCES);
}

#[test]
fn limits_are_only_named_where_they_differ() {
    let config = Config::embedded("/tmp/ca.pem".into());
    let text = explain(&config, &[]);
    assert!(!text.contains("its own limits"), "{text}");
    assert!(text.contains("speaks TLS with policy 2026-11 (the default)"), "{text}");
}

#[test]
fn what_is_spoken_on_the_way_to_backends_is_reported() {
    let text = "[[service]]\nname = \"db\"\nlisten = \"127.0.0.1:5432\"\nbackend = \"db.example:5432\"\nclient-tls = false\n\
                backend-tls = { starttls = \"postgresql\" }\n\
                connect-through = { type = \"http\", address = \"10.0.0.2:3128\", user = \"bob\", password-file = \"p\" }\n";
    let (config, _) = parse("handfast.toml", text, &|_| false).expect("a good configuration");
    let text = explain(&config, &[]);
    for sentence in [
        "asks the HTTP proxy 10.0.0.2:3128 for a connection to them as bob; their names are not looked up here",
        "asks them for TLS in PostgreSQL (STARTTLS), and speaks it by policy 2026-11 (the default)",
    ] {
        assert!(text.contains(sentence), "{text}");
    }
}

#[test]
fn what_is_asked_where_clients_are_passed_through_is_reported_for_the_rules_that_end_tls() {
    let text = "[[service]]\nname = \"edge\"\nlisten = \"127.0.0.1:443\"\nbackend = \"10.0.0.1:443\"\npass-through = true\n\
                certificate = \"/a.pem\"\nclient-certificates = { mode = \"require\", ca = \"/ca.pem\" }\nbackend-tls = {}\n\
                [[service.rule]]\nnames = \"a.example\"\npass-through = false\n";
    let (config, warnings) = parse("handfast.toml", text, &|_| false).expect("a good configuration");
    assert_eq!(warnings, []);
    let text = explain(&config, &[]);
    let (before, behind) = text
        .split_once("  only where a rule ends the TLS of clients here, and says nothing else, it\n")
        .expect(&text);
    assert!(before.ends_with("  passes the TLS of clients on as it is, without decrypting it\n"), "{text}");
    let (of_rules, of_all) = behind.split_once("\n  goes to ").expect(&text);
    assert!(of_rules.lines().all(|line| line.starts_with("    ")), "{text}");
    assert!(of_rules.contains("    lets in only clients with a certificate signed by /ca.pem\n"), "{text}");
    assert!(of_rules.contains("    speaks TLS with them by policy"), "{text}");
    assert!(!of_all.contains("speaks TLS with them"), "{text}");
}

#[test]
fn for_a_name_what_its_rule_takes_from_the_service_is_reported() {
    let (config, _) = parse("handfast.toml", TEXT, &|_| false).expect("a good configuration");
    for (host, requested) in [
        ("other.example", "  lets in clients without a certificate, and those with one signed by /ca.pem\n"),
        ("a.example", "it lets in only clients with a certificate signed by /other.pem\n"),
    ] {
        let target = host.parse().expect("a name");
        let text = explain_host(&config.services[0], &target, &[]).expect("it is not about a port");
        assert_eq!(text.matches("signed by").count(), 1, "{text}");
        assert!(text.contains(requested), "{text}");
        assert!(text.contains("  speaks TLS with policy 2026-11, but only the versions 1.3\n"), "{text}");
    }
}
