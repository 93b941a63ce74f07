//! HTTP mode: a route changes the fields, paths and responses that it names, for clients of both versions, and no others.

use std::io::{Read, Write};
use std::time::Duration;

use super::support::backend::Peer;
use super::support::client::dial;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

const ROUTES: &str = r#"
[[service.route]]
path = "/gone"
respond = { status = 410, content = "It has moved away.", type = "text/x-note" }
set-response-headers = "x-by: {host}"

[[service.route]]
path = "/old"
redirect = { to = "https://new.example{target}", status = 301 }
security-headers = true

[[service.route]]
path = "/api"
rewrite-path = "/v2"
set-request-headers = ["x-who: {client-address}", "x-tls: {tls-version} {server-name}", "x-dn: {client-subject}"]
remove-request-headers = "x-debug"
set-response-headers = "x-kind: changed"
remove-response-headers = "server"
security-headers = true
"#;

/// Answers each request with its head as the content.
fn mirror(peer: &mut Peer) {
    while let Some(head) = peer.head() {
        let length = head.len();
        let fields = format!(
            "Server: mirror\r\nX-Kind: own\r\nX-Frame-Options: DENY\r\nContent-Length: {length}\r\n\r\n"
        );
        peer.send(&[format!("HTTP/1.1 200 OK\r\n{fields}").as_bytes(), head.as_bytes()].concat());
    }
}

/// Output of curl for a response: its head, and its content.
fn curl(proxy: &Proxy, folder: &Folder, version: &str, path: &str) -> String {
    let address = proxy.address();
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let url = format!("https://localhost:{}{path}", address.port());
    let to = format!("localhost:{}:{}", address.port(), address.ip());
    let words = [
        "-sS",
        "-i",
        version,
        "--cacert",
        &ca,
        "--resolve",
        &to,
        "-H",
        "X-Debug: 1",
        "-H",
        "X-DN: claimed",
        &url,
    ];
    let ran = tools::run("curl", &words, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    ran.output.to_lowercase()
}

#[test]
fn to_clients_of_both_versions() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let proxy = Proxy::start(format!("{config}{ROUTES}"));
    for version in ["--http1.1", "--http2"] {
        let see = |path: &str| curl(&proxy, &folder, version, path);
        let api = see("/api/users?x=1");
        for line in [
            "get /v2/users?x=1 http/1.1\r\n",
            "x-who: 127.0.0.1\r\n",
            "x-tls: tlsv1.3 localhost\r\n",
            "x-kind: changed\r\n",
            "strict-transport-security: max-age=31536000\r\n",
            "x-frame-options: deny\r\n",
            "x-content-type-options: nosniff\r\n",
        ] {
            assert_eq!(api.matches(line).count(), 1, "{version} {line:?}:\n{api}");
        }
        for absent in ["x-debug", "x-dn", "server: mirror", "x-kind: own", "sameorigin"] {
            assert!(!api.contains(absent), "{version} {absent}:\n{api}");
        }
        // A path that no route is for.
        let other = see("/apis");
        for line in [
            "get /apis http/1.1\r\n",
            "x-debug: 1\r\n",
            "x-dn: claimed\r\n",
            "server: mirror\r\n",
            "x-kind: own\r\n",
        ] {
            assert_eq!(other.matches(line).count(), 1, "{version} {line:?}:\n{other}");
        }
        assert!(!other.contains("strict-transport-security"), "{other}");
        let gone = see("/gone/x");
        let status = gone.lines().next().unwrap_or_default().to_owned();
        assert!(status.contains(" 410"), "{gone}");
        assert!(gone.contains("content-type: text/x-note") && gone.contains("x-by: localhost"), "{gone}");
        assert!(gone.ends_with("\r\n\r\nit has moved away."), "{gone}");
        let old = see("/old?y");
        assert!(old.lines().next().unwrap_or_default().contains(" 301"), "{old}");
        assert!(
            old.contains("location: https://new.example/old?y\r\n")
                && old.contains("x-frame-options: sameorigin"),
            "{old}"
        );
    }
}

/// Answers each request with the trailer section that it received, and with trailers.
fn trailing(peer: &mut Peer) {
    while peer.head().is_some() {
        let trailers = peer.head().expect("the last chunk and its trailers");
        let chunk = format!("{:x}\r\n{trailers}\r\n", trailers.len());
        let end = "0\r\nServer: s\r\nX-Kind: own\r\nX-Sum: 1\r\n\r\n";
        peer.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{end}").as_bytes());
    }
}

#[test]
fn trailers_have_the_rules_of_the_head() {
    let backend = Backend::start(trailing);
    let route = "[[service.route]]\npath = \"/api\"\nset-request-headers = \"x-who: {client-address}\"\n\
                 remove-request-headers = \"x-debug\"\nset-response-headers = \"x-kind: changed\"\nremove-response-headers = \"server\"\n";
    let config = Config::empty().service("web", backend.address).text("service", "mode", "http");
    let proxy = Proxy::start(format!("{}{route}", config.set("service", "client-tls", false)));
    let mut client = dial(proxy.address()).expect("it listens");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let end = "0\r\nX-Who: mallory\r\nx-debug: 1\r\nX-Request-Id: fake\r\nX-Kept: 1\r\n\r\n";
    let head = "POST /api HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write_all(format!("{head}{end}").as_bytes()).expect("it reads");
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    while !answer.to_lowercase().contains("x-sum: 1\r\n\r\n") {
        let count = client.read(&mut buffer).expect("an answer in time");
        assert!(count > 0, "it ended: {answer}");
        answer.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    let answer = answer.to_lowercase();
    assert!(answer.contains("x-kept: 1\r\n") && answer.contains("x-kind: changed\r\n"), "{answer}");
    for dropped in ["mallory", "x-debug", "fake", "server: s", "x-kind: own"] {
        assert!(!answer.contains(dropped), "{dropped}: {answer}");
    }
}

/// The log has the trace that the backend received: the client's if it is valid, or a new one.
#[test]
fn each_request_has_a_trace() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(mirror));
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    for has_traces in [true, false] {
        let proxy = Proxy::start(format!("{config}[service.http]\ntrace-context = {has_traces}\n"));
        let address = proxy.address();
        let url = format!("https://localhost:{}/", address.port());
        let to = format!("localhost:{}:{}", address.port(), address.ip());
        let common = ["-sS", "--cacert", &ca, "--resolve", &to, &url, "-H", "tracestate: a=b"];
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        for (number, (version, sent)) in [
            ("--http1.1", None),
            ("--http2", None),
            ("--http1.1", Some(valid)),
            ("--http2", Some(valid)),
            ("--http1.1", Some("00-0-0-00")),
        ]
        .into_iter()
        .enumerate()
        {
            let field = sent.map(|sent| format!("TraceParent: {sent}"));
            let more: Vec<&str> = field.iter().flat_map(|field| ["-H", field.as_str()]).collect();
            let ran = tools::run("curl", &[&common[..], &[version], &more].concat(), b"");
            let received = ran.output.to_lowercase();
            let value = |name: &str| {
                let mut lines =
                    received.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                (lines.next().map(str::to_owned), lines.count())
            };
            let (parent, others) = value("traceparent");
            assert_eq!(others, 0, "{received}");
            let line = wait_until("the line", || {
                let lines = proxy.output.so_far();
                lines.into_iter().filter(|line| line.contains("\"method\":\"GET\"")).nth(number)
            });
            if !has_traces {
                assert_eq!((parent.as_deref(), line.contains("\"trace\"")), (sent, false), "{received}");
                continue;
            }
            let parent = parent.expect("each has one");
            let is_kept = sent == Some(valid);
            assert_eq!((parent == valid, parent.len()), (is_kept, 55), "{received}");
            assert_eq!(value("tracestate").0.is_some(), is_kept, "{received}");
            assert!(line.contains(&format!("\"trace\":\"{}\",", &parent[3..35])), "{parent} {line}");
        }
    }
}
