//! HTTP mode: with `forward-auth` another server decides about each request. A request goes on only after its consent, with what it says of the
//! user and nothing that a client claims; its other answers are for the client. Without an answer nothing goes on.

use super::support::backend::Peer;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// Answers each request with its head as the content.
fn mirror(peer: &mut Peer) {
    while let Some(head) = peer.head() {
        let length = head.len();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}").as_bytes());
    }
}

/// Lets in who has the cookie, sends others to its login, and shows what it was asked.
fn decides(peer: &mut Peer) {
    while let Some(head) = peer.head() {
        let head = head.to_lowercase();
        let answer = if head.contains("cookie: in=alice") {
            "204 No Content\r\nRemote-User: alice\r\nRemote-Groups: a,b\r\nX-Secret: no\r\n\r\n".to_owned()
        } else if head.contains("cookie: big") {
            let content = "x".repeat(100_000);
            format!("403 Forbidden\r\nContent-Length: 100000\r\nContent-Type: text/x-big\r\n\r\n{content}")
        } else if head.contains("cookie: huge") {
            format!("403 Forbidden\r\nContent-Length: 400000\r\n\r\n{}", "x".repeat(400_000))
        } else if head.contains("cookie: broken") {
            return;
        } else if head.contains("authorization: bearer") {
            let shown = head.replace("\r\n", "|");
            format!(
                "401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: {}\r\n\r\n{shown}",
                shown.len()
            )
        } else {
            "302 Found\r\nLocation: https://login.example/?rd=x\r\nSet-Cookie: csrf=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n"
                .to_owned()
        };
        peer.send(format!("HTTP/1.1 {answer}").as_bytes());
    }
}

fn curl(proxy: &Proxy, folder: &Folder, path: &str, more: &[&str]) -> String {
    let address = proxy.address();
    let ca = folder.write("ca.pem", &authority().pem).display().to_string();
    let url = format!("https://localhost:{}{path}", address.port());
    let to = format!("localhost:{}:{}", address.port(), address.ip());
    let ran =
        tools::run("curl", &[&["-sS", "-i", "--cacert", &ca, "--resolve", &to, &url], more].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    ran.output.to_lowercase()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn routes(server: impl std::fmt::Display) -> String {
    format!(
        "[[service.route]]\npath = \"/inside\"\nset-request-headers = \"x-known: {{user}}\"\n\
         forward-auth = {{ to = \"{server}\", path = \"/auth\", copy = [\"Remote-User\", \"Remote-Groups\"], timeout = \"2s\" }}\n"
    )
}

#[test]
fn with_its_consent_and_never_without() {
    needs!("curl");
    let (folder, backend, server) = (Folder::new(), Backend::start(mirror), Backend::start(decides));
    let config = Config::to(&folder, backend.address).text("service", "mode", "http");
    let proxy = Proxy::start(format!("{config}{}", routes(server.address)));
    for version in ["--http1.1", "--http2"] {
        let see = |path: &str, more: &[&str]| curl(&proxy, &folder, path, &[more, &[version]].concat());
        let content = "c".repeat(30_000);
        let claims = ["-H", "Remote-User: mallory", "-H", "remote-groups: root"];
        let inside = see("/inside/x?y", &[&["-H", "Cookie: in=alice", "-d", &content], &claims[..]].concat());
        assert_eq!(status(&inside), "200", "{inside}");
        for line in [
            "post /inside/x?y http/1.1\r\n",
            "remote-user: alice\r\n",
            "remote-groups: a,b\r\n",
            "x-known: alice\r\n",
        ] {
            assert_eq!(inside.matches(line).count(), 1, "{version} {line:?}:\n{inside}");
        }
        for absent in ["mallory", "root", "x-secret"] {
            assert!(!inside.contains(absent), "{version} {absent}:\n{inside}");
        }
        let login = see("/inside", &claims);
        assert_eq!(status(&login), "302", "{login}");
        for line in
            ["location: https://login.example/?rd=x\r\n", "set-cookie: csrf=1\r\n", "set-cookie: b=2\r\n"]
        {
            assert_eq!(login.matches(line).count(), 1, "{version} {line:?}:\n{login}");
        }
        let requested =
            see("/inside/a?b=c", &["-X", "PUT", "-H", "Authorization: Bearer x", "-H", "X-Forwarded-Uri: /"]);
        assert_eq!(status(&requested), "401", "{requested}");
        assert!(requested.contains("www-authenticate: bearer\r\n"), "{requested}");
        for part in [
            "get /auth http/1.1|",
            "|x-forwarded-method: put|",
            "|x-forwarded-uri: /inside/a?b=c|",
            "|x-forwarded-for: 127.0.0.1|",
            "|x-forwarded-proto: https|",
        ] {
            assert_eq!(requested.matches(part).count(), 1, "{version} {part}:\n{requested}");
        }
        let big = see("/inside", &["-H", "Cookie: big"]);
        assert!(status(&big) == "403" && big.ends_with(&"x".repeat(100_000)), "{}", &big[..300]);
        assert!(big.contains("content-type: text/x-big\r\n"), "{}", &big[..300]);
        assert_eq!(status(&see("/inside", &["-H", "Cookie: huge"])), "502");
        assert_eq!(status(&see("/inside", &["-H", "Cookie: broken"])), "502");
        assert_eq!(status(&see("/outside", &claims)), "200");
    }
    let line = proxy.output.containing("\"user\":\"alice\"");
    assert!(line.contains(&format!("\"backend\":\"{}\"", backend.address)), "{line}");
    let record = proxy.record("a login", |record| record.number("status") == 302);
    assert_eq!(
        (record.reason().as_str(), record.detail()),
        ("route/client/unauthenticated", "forward-auth answered 302")
    );
    // A connection to it serves many.
    assert!(server.accepted() < 12, "{}", server.accepted());
}

#[test]
fn nothing_goes_on_where_it_does_not_answer() {
    needs!("curl");
    let folder = Folder::new();
    let backend = Backend::start(mirror);
    let silent = Backend::start(|peer: &mut Peer| peer.read_to_end());
    for (server, expected) in [(silent.address, "504"), (Backend::refusing(), "502")] {
        let config = Config::to(&folder, backend.address).text("service", "mode", "http");
        let proxy = Proxy::start(format!("{config}{}", routes(server)));
        assert_eq!(status(&curl(&proxy, &folder, "/inside", &["-H", "Cookie: in=alice"])), expected);
        let record = proxy.record("a refusal", |record| record.text("path") == "/inside");
        assert!(record.detail().starts_with("forward-auth"), "{record:?}");
    }
    assert_eq!(backend.accepted(), 0);
}
