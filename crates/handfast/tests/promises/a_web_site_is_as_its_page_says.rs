//! The configuration of the page "A web site in ten minutes" does everything that the page says of it.

use std::io::Read;
use std::path::Path;

use super::support::backend::Peer;
use super::support::certificates::KeyKind;
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools;
use super::support::*;

/// Lines of the page's configuration.
const MAX_LINES: usize = 35;
const HOSTS: [&str; 3] = ["example.org", "www.example.org", "shop.example.org"];
/// Content that is above the limit of all routes but one.
const UPLOAD: usize = 11 << 20;

/// Answers with the path, which may be stored; echoes after a change of the protocol.
fn application(peer: &mut Peer) {
    while let Some(head) = peer.head() {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if path == "/broken" {
            return;
        }
        if head.to_ascii_lowercase().contains("upgrade: websocket") {
            // The proof of the key of RFC 6455 §1.2.
            let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
            peer.send(format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n\r\n").as_bytes());
            return peer.echo();
        }
        let length = head.lines().filter_map(|line| line.split_once(": ")).find_map(|(name, value)| {
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
        });
        let mut content = vec![0; length.unwrap_or(0)];
        if peer.stream.read_exact(&mut content).is_err() {
            return;
        }
        let kind = "Content-Type: text/plain\r\nCache-Control: max-age=60";
        let text = format!("the shop at {path}");
        peer.send(
            format!("HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {}\r\n\r\n{text}", text.len()).as_bytes(),
        );
    }
}

/// The configuration of the page, with what exists here in the place of what is different on each machine.
fn config(folder: &Folder, backend: &Backend) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/start/web-site.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let config = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("one block");
    let lines = config.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= MAX_LINES, "{lines} lines");
    let (_, service) = config.split_once("[[service]]").expect("a service");
    let certificate = folder.write("web.pem", authority().identity(&HOSTS, KeyKind::Ecdsa).combined());
    let names = HOSTS.map(|host| format!("\"{host}\"")).join(", ");
    let mut service = format!("[[service]]{service}");
    for (written, here) in [
        ("listen = [\"*:443\", \"*:80\"]", "listen = \"127.0.0.1:0\"".to_owned()),
        ("certificate = \"acme\"", format!("certificate = \"{}\"", certificate.display())),
        (&format!("acme-names = [{names}]\n"), String::new()),
        ("127.0.0.1:8080", backend.address.to_string()),
        ("\"/srv/", format!("\"{}/srv/", folder.path().display())),
        ("\"/var/cache/handfast\"", format!("\"{}\"", folder.file("cache").display())),
        ("\"users.htpasswd\"", format!("\"{}\"", folder.file("users").display())),
    ] {
        assert!(service.contains(written), "the page has {written}");
        service = service.replace(written, &here);
    }
    format!("{}{service}", Config::empty())
}

/// The response to a request to one of the hosts: status, fields in lower case, content.
fn curl(proxy: &Proxy, folder: &Folder, url: &str, more: &[&str]) -> String {
    let (port, ca) = (proxy.address().port(), folder.write("ca.pem", &authority().pem).display().to_string());
    let to = format!("::127.0.0.1:{port}");
    let words =
        ["-sS", "-i", "--noproxy", "*", "--max-time", "20", "--cacert", &ca, "--connect-to", &to, url];
    let ran = tools::run("curl", &[&words[..], more].concat(), b"");
    assert_eq!(ran.code, Some(0), "{url}: {}", ran.all());
    ran.output.to_lowercase()
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn in_every_line() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(application));
    let text = "<p>the same text again and again</p>\n".repeat(200);
    for (name, content) in [
        ("srv/www/index.html", text.as_str()),
        ("srv/errors/404.html", "our page for 404"),
        ("srv/errors/sorry.html", "our page for errors"),
    ] {
        std::fs::create_dir_all(folder.file(name).parent().expect("a folder")).expect("a folder");
        folder.write(name, content);
    }
    let user = tools::run(env!("CARGO_BIN_EXE_handfast"), &["hash-password", "alice"], b"wonderland\n");
    folder.write("users", user.output);
    let proxy = cached::start(&config(&folder, &backend));
    for version in ["--http1.1", "--http2"] {
        let see = |url: &str, more: &[&str]| curl(&proxy, &folder, url, &[more, &[version]].concat());
        let plain = curl(&proxy, &folder, "http://example.org/", &["--http1.1"]);
        assert!(status(&plain) == "308" && plain.contains("location: https://example.org/"), "{plain}");
        let moved = see("https://www.example.org/a?b", &[]);
        assert!(
            status(&moved) == "301" && moved.contains("location: https://example.org/a?b\r\n"),
            "{moved}"
        );
        let page = see("https://example.org/", &["--compressed"]);
        assert!(status(&page) == "200" && page.ends_with(&text), "{page}");
        for field in ["content-encoding: ", "strict-transport-security: ", "content-type: text/html"] {
            assert!(page.contains(field), "{version} {field}: {page}");
        }
        let missing = see("https://example.org/missing", &[]);
        assert!(status(&missing) == "404" && missing.ends_with("our page for 404"), "{missing}");
        let shop = see("https://shop.example.org/", &[]);
        assert!(status(&shop) == "200" && shop.ends_with("the shop at /"), "{shop}");
        wait_until("a hit of the cache", || {
            see("https://shop.example.org/", &[]).contains("cache-status: handfast; hit").then_some(())
        });
        let admin = "https://shop.example.org/admin/";
        assert_eq!(status(&see(admin, &[])), "401");
        assert_eq!(status(&see(admin, &["-u", "alice:looking-glass"])), "401");
        assert!(see(admin, &["-u", "alice:wonderland"]).ends_with("the shop at /admin/"));
        let upload = folder.write("upload", vec![b'x'; UPLOAD]);
        let upload = format!("@{}", upload.display());
        for (path, expected) in [("upload", "200"), ("", "413")] {
            let answer = see(&format!("https://shop.example.org/{path}"), &["--data-binary", &upload]);
            assert_eq!(status(&answer), expected, "{version} /{path}: {answer}");
        }
    }
    let tries = (0..60).map(|_| curl(&proxy, &folder, "https://shop.example.org/admin/", &[]));
    let limited = tries.filter(|answer| status(answer) == "429").count();
    assert!(limited >= 20, "{limited} of 60 were too many");

    let trust = Trust::version(Version::Tls13).config();
    let mut client = Client::try_connect(proxy.address(), &trust, HOSTS[2]).expect("it serves the name");
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    client.send(format!("GET /chat HTTP/1.1\r\nHost: {}\r\n{fields}\r\n\r\n", HOSTS[2]).as_bytes());
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.read_exactly(1));
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
    client.echo(b"through a WebSocket");
    drop(client);

    let sorry = curl(&proxy, &folder, "https://shop.example.org/broken", &[]);
    assert!(status(&sorry) == "502" && sorry.ends_with("our page for errors"), "{sorry}");
}
