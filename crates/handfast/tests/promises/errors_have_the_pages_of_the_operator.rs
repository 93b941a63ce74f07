//! HTTP mode: people get the operator's pages for errors of the proxy, and for those of backends where that is wanted; the status stays, and
//! programs get what they got before.

use std::net::SocketAddr;

use super::support::backend::Peer;
use super::support::certificates::localhost;
use super::support::files::{Answer, by_curl, raw};
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::*;

/// Answers `/STATUS` with that status, the content `of the backend`, and fields that some statuses have.
fn statuses(peer: &mut Peer) {
    while let Some(head) = peer.head() {
        let status = head.split(['/', ' ']).find(|word| word.len() == 3 && word.parse::<u16>().is_ok());
        let status = status.unwrap_or("200");
        let content = if head.starts_with("HEAD") { "" } else { "of the backend" };
        let fields = "WWW-Authenticate: Basic realm=\"b\"\r\nRetry-After: 7\r\nSet-Cookie: a=b\r\nX-Powered-By: x\r\nContent-Length: 14\r\n\r\n";
        peer.send(format!("HTTP/1.1 {status} Any\r\n{fields}{content}").as_bytes());
    }
}

/// Services `plain` and `web`, whose route `/gone` has no backend that listens, and `/own` its own pages.
fn config(folder: &Folder, backend: SocketAddr, more: &str) -> String {
    folder.write("404.html", "<p>page 404</p>");
    folder.write("5xx.txt", "page 5xx");
    folder.write("502.html", "page 502");
    folder.write("own.html", "page of a route");
    let certificate = folder.write("web.pem", localhost().combined());
    let place = folder.path().display();
    let service = |name: &str, tls: String| {
        format!(
            "[[service]]\nname = \"{name}\"\nlisten = \"127.0.0.1:0\"\nmode = \"http\"\n{tls}\nbackend = \"{backend}\"\n\
             [service.http]\nerror-pages = {{ 404 = \"{place}/404.html\", 502 = \"{place}/502.html\", \"5xx\" = \"{place}/5xx.txt\" }}\n{more}\n\
             [[service.route]]\npath = \"/gone\"\nbackend = \"127.0.0.1:1\"\n\
             [[service.route]]\npath = \"/own\"\nrespond = 404\nerror-pages = {{ \"4xx\" = \"{place}/own.html\" }}\nset-response-headers = \"x-a: b\"\n\
             [[service.route]]\npath = \"/respond\"\nrespond = 503\n\
             [[service.route]]\npath = \"/written\"\nrespond = {{ status = 503, content = \"written\" }}\n"
        )
    };
    let certified = format!("certificate = \"{}\"", certificate.display());
    format!(
        "{}\n{}{}",
        Config::empty(),
        service("plain", "client-tls = false".to_owned()),
        service("web", certified)
    )
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.content).into_owned()
}

#[test]
fn for_errors_of_the_proxy() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(statuses));
    let proxy = Proxy::start(config(&folder, backend.address, ""));
    for version in ["--http1.1", "--http2"] {
        for (path, status, expected, kind) in [
            ("/gone", 502, "page 502", "text/html; charset=utf-8"),
            ("/own", 404, "page of a route", "text/html; charset=utf-8"),
            ("/respond", 503, "page 5xx", "text/plain; charset=utf-8"),
            ("/written", 503, "written", "text/plain; charset=utf-8"),
            ("/404", 404, "of the backend", ""),
            ("/502", 502, "of the backend", ""),
            ("/200", 200, "of the backend", ""),
        ] {
            let answer = by_curl(&proxy, &folder, &[version], path);
            assert_eq!((answer.status, &*text(&answer)), (status, expected), "{version} {path}");
            assert_eq!(answer.field("content-type"), kind, "{version} {path}");
            assert_eq!(answer.field("content-length"), expected.len().to_string(), "{version} {path}");
            assert_eq!(answer.field("x-a"), if path == "/own" { "b" } else { "" }, "{version} {path}");
        }
        let head = by_curl(&proxy, &folder, &[version, "--head"], "/gone");
        assert_eq!(
            (head.status, head.field("content-length"), head.content.len()),
            (502, "8", 0),
            "{version}"
        );
        let json = by_curl(&proxy, &folder, &[version, "-H", "Accept: application/json"], "/gone");
        assert_eq!((json.status, json.field("content-type")), (502, "application/problem+json"), "{version}");
        let grpc = by_curl(&proxy, &folder, &[version, "-H", "Content-Type: application/grpc"], "/gone");
        assert!(!text(&grpc).contains("page"), "{version}: {}", text(&grpc));
        assert_eq!(grpc.field("grpc-status"), if version == "--http2" { "14" } else { "" }, "{version}");
    }
}

#[test]
fn for_errors_of_backends_where_that_is_wanted() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(statuses));
    let more = "error-pages-for-backends = true";
    let proxy = Proxy::start(config(&folder, backend.address, more));
    for version in ["--http1.1", "--http2"] {
        for (path, status, expected) in [
            ("/404", 404, "<p>page 404</p>"),
            ("/502", 502, "page 502"),
            ("/500", 500, "page 5xx"),
            ("/401", 401, "of the backend"),
            ("/200", 200, "of the backend"),
        ] {
            let answer = by_curl(&proxy, &folder, &[version], path);
            assert_eq!((answer.status, &*text(&answer)), (status, expected), "{version} {path}");
            let is_replaced = expected != "of the backend";
            assert_eq!(
                answer.field("x-powered-by").is_empty(),
                is_replaced,
                "{version} {path}: {}",
                answer.fields
            );
            assert_eq!(answer.field("set-cookie").is_empty(), is_replaced, "{version} {path}");
            assert_eq!(answer.field("retry-after"), "7", "{version} {path}");
            assert_eq!(answer.field("www-authenticate"), "basic realm=\"b\"", "{version} {path}");
        }
        let head = by_curl(&proxy, &folder, &[version, "--head"], "/500");
        assert_eq!(
            (head.status, head.field("content-length"), head.content.len()),
            (500, "8", 0),
            "{version}"
        );
        let json = by_curl(&proxy, &folder, &[version, "-H", "Accept: application/json"], "/500");
        assert_eq!(text(&json), "of the backend", "{version}");
    }
    let failed = proxy.output.so_far().into_iter().find(|line| line.contains("\"failed\":true"));
    assert_eq!(failed, None, "an error of a backend is a response");
}

/// A connection to a backend serves the next request after an error that was replaced.
#[test]
fn replaced_errors_cost_no_connection() {
    let (folder, backend) = (Folder::new(), Backend::start(statuses));
    let proxy = Proxy::start(config(&folder, backend.address, "error-pages-for-backends = true"));
    let address = proxy.address_of("plain");
    for _ in 0..20 {
        assert_eq!(raw(address, "/500", ("GET", "")).status, 500);
    }
    let connections = backend.accepted();
    assert!(connections <= 2, "one for each thread, not {connections}");
}

/// Of the content of an error that has a page in its place only what a small error has is read: the connection of a longer one is closed.
#[test]
fn a_long_error_that_is_replaced_costs_its_connection() {
    let long = |peer: &mut Peer| {
        while peer.head().is_some() {
            let head = b"HTTP/1.1 500 Any\r\nContent-Length: 200000\r\n\r\n";
            peer.send(&[&head[..], &[b'x'; 200_000]].concat());
        }
    };
    let (folder, backend) = (Folder::new(), Backend::start(long));
    let proxy = Proxy::start(config(&folder, backend.address, "error-pages-for-backends = true"));
    let address = proxy.address_of("plain");
    for _ in 0..20 {
        assert_eq!(text(&raw(address, "/500", ("GET", ""))), "page 5xx");
    }
    assert_eq!(backend.accepted(), 20, "one for each");
}

#[test]
fn wrong_pages_are_one_clear_error_each_and_changed_ones_are_read_again() {
    let (folder, backend) = (Folder::new(), Backend::start(statuses));
    let good = config(&folder, backend.address, "");
    folder.write("large.html", "x".repeat(65_537));
    folder.write("binary.html", [0xff, 0xfe, 0x00]);
    folder.folder("folder.html");
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.file("fifo.html"), rustix::fs::Mode::RWXU)
        .expect("the folder is ours");
    for name in ["absent.html", "large.html", "binary.html", "folder.html", "fifo.html"] {
        let bad = folder.write("bad.toml", good.replace("404.html", name));
        for command in ["check", "proxy"] {
            let ran = tools::handfast(&[command, "-c", &bad.display().to_string()]);
            assert_ne!(ran.code, Some(0), "{command} {name}");
            let said = ran.all();
            let path = folder.file(name).display().to_string();
            let is_folder = name == "folder.html";
            let expected = if is_folder {
                "is a folder; a file is needed".to_owned()
            } else {
                format!("service plain: error page {path}")
            };
            // The configuration names the page for each of two services.
            assert_eq!(said.matches(&expected).count(), if is_folder { 2 } else { 1 }, "{said}");
            assert!(said.contains("hint: ") || is_folder, "{said}");
        }
    }
    let proxy = Proxy::start(&good);
    let address = proxy.address_of("plain");
    assert_eq!(text(&raw(address, "/gone", ("GET", ""))), "page 502");
    folder.replace("502.html", "another page");
    wait_until("the new page", || {
        (text(&raw(address, "/gone", ("GET", ""))) == "another page").then_some(())
    });
    std::fs::remove_file(folder.file("502.html")).expect("it is there");
    assert!(!proxy.reload(), "a page is missing");
    assert_eq!(text(&raw(address, "/gone", ("GET", ""))), "another page", "the old state keeps serving");
}
