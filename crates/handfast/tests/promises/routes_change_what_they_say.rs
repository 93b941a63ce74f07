//! HTTP mode: a route changes the fields, paths and responses that it names, for clients of both versions, and no others.

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::skip::{needs, skipped};
use super::support::tools;
use super::support::*;

const ROUTES: &str = r#"
[[service.route]]
path = "/gone"
respond = { status = 410, content = "It has moved away.", type = "text/x-note" }
set-response-fields = "x-by: {host}"

[[service.route]]
path = "/old"
redirect = { to = "https://new.example{target}", status = "301" }
security-fields = true

[[service.route]]
path = "/api"
new-path = "/v2"
set-request-fields = ["x-who: {client-address}", "x-tls: {tls-version} {server-name}", "x-dn: {client-subject}"]
remove-request-fields = "x-debug"
set-response-fields = "x-kind: changed"
remove-response-fields = "server"
security-fields = true
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

/// What curl shows of a response: its head, and its content.
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
