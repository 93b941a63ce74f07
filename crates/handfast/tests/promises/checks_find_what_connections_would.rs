//! Checks find what connections would: a backend with a wrong certificate is down, and it is said why; one that wants PROXY
//! headers gets them; HAProxy, nginx and NATS say in their own words whether they work.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::checks_and_operators_take_backends_out::{count_lines, up};
use super::proxies_understand_each_others_headers::{haproxy, nginx_with_headers};
use super::support::bus::{Bus, SERVER};
use super::support::certificates::localhost;
use super::support::folder::Folder;
use super::support::secured::{Secured, server};
use super::support::servers::address_of_ones_own;
use super::support::skip::{needs, skipped};
use super::support::*;

const CHECK: &str = "service.check";

/// A service that checks quickly, `rise` and `fall` at once.
fn checking(folder: &Folder, backend: std::net::SocketAddr, kind: &str) -> Config {
    Config::to(folder, backend)
        .text(CHECK, "type", kind)
        .text(CHECK, "interval", "300ms")
        .text(CHECK, "timeout", "300ms")
        .set(CHECK, "rise", 1)
        .set(CHECK, "fall", 1)
}

fn figure(proxy: &Proxy, backend: std::net::SocketAddr, result: &str) -> f64 {
    let labels = [("backend", &*backend.to_string()), ("result", result)];
    proxy.metrics().sum("handfast_backend_checks_total", &labels)
}

fn is_up(proxy: &Proxy, backend: std::net::SocketAddr) -> bool {
    proxy.metrics().sum("handfast_backend_up", &[("backend", &backend.to_string())]) > 0.5
}

/// Checks pass, and the backend is used.
fn is_found_up(proxy: &Proxy, backend: std::net::SocketAddr) {
    let before = figure(proxy, backend, "passed");
    let seen = || (figure(proxy, backend, "passed") > before + 0.5 && is_up(proxy, backend)).then_some(());
    deadline::wait_until_seeing("a check to pass", seen, || proxy.talk.so_far().join("\n"));
}

/// It is out of use, and this is why.
fn is_found_down(proxy: &Proxy, backend: std::net::SocketAddr, why: &[&str]) {
    let name = backend.to_string();
    let words = [&[&*name][..], why].concat();
    // It is out of use a moment before that is said.
    let seen = || (!is_up(proxy, backend) && count_lines(proxy, &words) > 0).then_some(());
    deadline::wait_until_seeing(&format!("it to be found down: {why:?}"), seen, || {
        proxy.talk.so_far().join("\n")
    });
}

#[test]
fn a_backend_with_a_wrong_certificate_is_down_and_the_reason_is_reported() {
    for version in Version::BOTH {
        let settings = server(version, false);
        let backend = Backend::start(move |peer| {
            if let Ok(mut secured) = Secured::accept(peer, &settings) {
                secured.echo();
            }
        });
        let folder = Folder::new();
        let ca = folder.write("ca.pem", &authority().pem);
        let named =
            |name: &str| {
                checking(&folder, backend.address, "tls")
                    .text("service.backend-tls", "ca", ca.display())
                    .text("service.backend-tls", "name", name)
            };
        let proxy = Proxy::start(named("localhost"));
        is_found_up(&proxy, backend.address);
        proxy.rewrite(named("other.example"));
        assert!(proxy.reload());
        is_found_down(&proxy, backend.address, &["backend-certificate", "other.example", "localhost"]);
        let page = http::get(proxy.admin(), "/status", "text/html").body;
        assert!(page.contains("other.example"), "{page}");
        // And back.
        proxy.rewrite(named("localhost"));
        assert!(proxy.reload());
        is_found_up(&proxy, backend.address);
        assert!(up(&proxy, &backend));
    }
}

/// Tells HAProxy something over its socket.
fn send_command(socket: &Path, words: &str) {
    let mut stream = UnixStream::connect(socket).expect("HAProxy listens");
    stream.write_all(words.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert_eq!(answer.trim(), "", "{words}");
}

#[test]
fn haproxy_with_headers_and_tls_says_whether_it_works() {
    needs!("haproxy");
    let echo = Backend::echo();
    for form in ["v1", "v2"] {
        let (folder, address) = (Folder::new(), address_of_ones_own());
        let pem = folder.write("both.pem", localhost().combined());
        let socket = folder.file("admin.sock");
        // Without the expected PROXY header, HAProxy waits, and then refuses.
        let sections = format!(
            "    timeout http-request 10s\nglobal\n    stats socket {} level admin\nfrontend front\n    mode http\n    bind {address} \
             accept-proxy ssl crt {}\n    monitor-uri /health\n    monitor fail if {{ nbsrv(back) lt 1 }}\n    default_backend \
             back\nbackend back\n    mode http\n    server echo {}\n",
            socket.display(),
            pem.display(),
            echo.address
        );
        let _haproxy = haproxy(&folder, address, &sections);
        let own = Folder::new();
        let ca = own.write("ca.pem", &authority().pem);
        let config = checking(&own, address, "http")
            .text(CHECK, "path", "/health")
            .text("service.backend-tls", "ca", ca.display())
            .text("service.backend-tls", "name", "localhost");
        let proxy = Proxy::start(config.clone().text("service.proxy-protocol", "send", form));
        is_found_up(&proxy, address);
        send_command(&socket, "disable server back/echo\n");
        is_found_down(&proxy, address, &["status 503, expected 200 to 399"]);
        send_command(&socket, "enable server back/echo\n");
        is_found_up(&proxy, address);
        // Without the header HAProxy accepts no client.
        proxy.rewrite(config);
        assert!(proxy.reload());
        is_found_down(&proxy, address, &["check failed"]);
    }
}

#[test]
fn nginx_with_headers_says_whether_it_works() {
    needs!("nginx");
    for form in ["v1", "v2"] {
        let (folder, address) = (Folder::new(), address_of_ones_own());
        let flag = folder.file("maintenance");
        let location =
            format!("location = /health {{ if (-f {}) {{ return 503; }} return 200; }}", flag.display());
        let _nginx = nginx_with_headers(&folder, address, &location);
        let own = Folder::new();
        let config = checking(&own, address, "http").text(CHECK, "path", "/health");
        let proxy = Proxy::start(config.clone().text("service.proxy-protocol", "send", form));
        is_found_up(&proxy, address);
        folder.write("maintenance", "");
        is_found_down(&proxy, address, &["status 503, expected 200 to 399"]);
        std::fs::remove_file(&flag).expect("it was there");
        is_found_up(&proxy, address);
        proxy.rewrite(config);
        assert!(proxy.reload());
        is_found_down(&proxy, address, &["check failed"]);
    }
}

#[test]
fn a_line_protocol_is_asked_in_its_own_words() {
    if tools::find(SERVER).is_none() {
        skipped!("{SERVER} is not installed");
    }
    let mut bus = Bus::start();
    let folder = Folder::new();
    let config = checking(&folder, bus.address, "send-expect");
    let proxy =
        Proxy::start(config.clone().set(CHECK, "send", "\"PING\\r\\n\"").text(CHECK, "expect", "PONG"));
    is_found_up(&proxy, bus.address);
    bus.kill();
    is_found_down(&proxy, bus.address, &["refused"]);
    bus.back();
    is_found_up(&proxy, bus.address);
    // It says something else to what it does not know.
    proxy.rewrite(config.set(CHECK, "send", "\"NONSENSE\\r\\n\"").text(CHECK, "expect", "PONG"));
    assert!(proxy.reload());
    is_found_down(&proxy, bus.address, &["closed before it had answered"]);
}
