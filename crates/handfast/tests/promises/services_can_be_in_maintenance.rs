//! Maintenance: `handfast maintenance on` answers every request of a service with 503, `Retry-After` and the operator's page, at once, until
//! `off`; a reload, an upgrade and, with a state folder, a restart keep it. The key `maintenance` does the same, and the command wins.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Signal;

use super::support::backend::Peer;
use super::support::certificates::localhost;
use super::support::client::{dial, with_deadline};
use super::support::files::{Answer, by_curl, get, raw};
use super::support::folder::Folder;
use super::support::skip::needs;
use super::support::tools::{self, Ran};
use super::support::upgrade::upgrade;
use super::support::*;

/// Answers every request, and one for another protocol by an echo.
fn backend(peer: &mut Peer) {
    while let Some(head) = peer.head() {
        if head.contains("Upgrade: echo") {
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
            while let Some(byte) = peer.read_exactly(1).first().copied() {
                peer.send(&[byte]);
            }
            return;
        }
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nof backend");
    }
}

/// Services `plain` and `web` with a page for 503 and routes of all kinds, and `bytes`, which relays; `process` and `http` are lines of these
/// sections.
fn config(folder: &Folder, backend: SocketAddr, process: &str, http: &str) -> String {
    folder.write("503.html", "<p>back soon</p>");
    folder.folder("www");
    folder.write("www/a.txt", "a file");
    let certificate = folder.write("web.pem", localhost().combined());
    let place = folder.path().display();
    let service = |name: &str, tls: String| {
        format!(
            "[[service]]\nname = \"{name}\"\nlisten = \"127.0.0.1:0\"\nmode = \"http\"\n{tls}\nbackend = \"{backend}\"\n\
             [service.http]\nerror-pages = {{ 503 = \"{place}/503.html\" }}\ntrust-forwarded-from = \"127.0.0.1\"\n{http}\n\
             [[service.route]]\npath = \"/moved\"\nredirect = {{ to = \"/elsewhere\" }}\n\
             [[service.route]]\npath = \"/gone\"\nrespond = 410\n\
             [[service.route]]\npath = \"/files\"\nrewrite-path = \"/\"\nfiles = \"{place}/www\"\n\
             [[service.route]]\npath = \"/guarded\"\nallow-clients = \"192.0.2.1\"\n"
        )
    };
    let bytes = format!(
        "[[service]]\nname = \"bytes\"\nlisten = \"127.0.0.1:0\"\nclient-tls = false\nbackend = \"{backend}\"\n"
    );
    format!(
        "{}\n[process]\nsandbox = \"on\"\ndrain = \"1s\"\n{process}\n{}{}{bytes}",
        Config::empty().to_string().replace("[process]\nthreads = 2\n", ""),
        service("plain", "client-tls = false".to_owned()),
        service("web", format!("certificate = \"{}\"", certificate.display()))
    )
}

fn state_folder(folder: &Folder) -> String {
    format!("state-folder = \"{}\"", folder.file("state").display())
}

fn command(proxy: &Proxy, words: &[&str]) -> Ran {
    let admin = proxy.admin().to_string();
    tools::handfast(&[&["maintenance"], words, &["--at", &admin]].concat())
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.content).into_owned()
}

fn assert_served(proxy: &Proxy, service: &str) {
    let answer = get(proxy.address_of(service), "/");
    assert_eq!((answer.status, &*text(&answer)), (200, "of backend"));
}

fn assert_in_maintenance(proxy: &Proxy, service: &str) {
    let answer = get(proxy.address_of(service), "/");
    assert_eq!((answer.status, &*text(&answer)), (503, "<p>back soon</p>"), "{answer:?}");
}

#[track_caller]
fn assert_said(ran: &Ran, code: i32, words: &[&str]) {
    let said = ran.all();
    assert_eq!(ran.code, Some(code), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "no {word:?} in {said}"));
}

#[test]
fn every_request_of_the_service_gets_503_at_once_until_off() {
    needs!("curl");
    let (folder, backend) = (Folder::new(), Backend::start(backend));
    let proxy = Proxy::start(config(&folder, backend.address, "", ""));
    let none = [("service", "web")];
    assert!(proxy.metrics().has_with("handfast_maintenance", &none));
    assert!(proxy.metrics().sum("handfast_maintenance", &none) < 0.5);
    let on = command(&proxy, &["on", "web", "--allow", "192.0.2.1,2001:db8::/32", "--retry-after", "10m"]);
    let said = "requests are answered with 503 and Retry-After 10m, except those of clients from 192.0.2.1, 2001:db8::/32";
    assert_said(
        &on,
        0,
        &["service web: in maintenance since", "by command", said, "a restart ends it\n  hint: "],
    );
    for version in ["--http1.1", "--http2"] {
        for path in ["/", "/moved", "/gone", "/files/a.txt", "/guarded"] {
            let answer = by_curl(&proxy, &folder, &[version], path);
            assert_eq!((answer.status, &*text(&answer)), (503, "<p>back soon</p>"), "{version} {path}");
            assert_eq!(answer.field("retry-after"), "600", "{version} {path}");
            assert_eq!(answer.field("content-type"), "text/html; charset=utf-8", "{version} {path}");
        }
        let json = by_curl(&proxy, &folder, &[version, "-H", "Accept: application/json"], "/");
        assert_eq!((json.status, json.field("content-type")), (503, "application/problem+json"), "{version}");
        let grpc = by_curl(&proxy, &folder, &[version, "-H", "Content-Type: application/grpc"], "/");
        assert_eq!(grpc.field("grpc-status"), if version == "--http2" { "14" } else { "" }, "{version}");
        let body = by_curl(&proxy, &folder, &[version, "-d", &"x".repeat(100_000)], "/");
        assert_eq!((body.status, body.field("retry-after")), (503, "600"), "{version}");
    }
    assert_served(&proxy, "plain");
    assert_eq!(backend.accepted(), 1, "that of the other service");
    assert_eq!(http::get(proxy.admin(), "/ready", "*/*").status, 200, "the proxy is ready");
    seen_where_people_look(&proxy);
    let malformed = raw(proxy.address_of("plain"), "/", ("GET", "Content-Length: x\r\n"));
    assert_eq!(malformed.status, 400);
    let status = command(&proxy, &["status"]);
    assert_said(
        &status,
        0,
        &["plain: not in maintenance\n", "web: in maintenance since", "by command, except for"],
    );
    assert_said(&command(&proxy, &["off", "web"]), 0, &["service web: not in maintenance"]);
    assert_eq!(by_curl(&proxy, &folder, &["--http2"], "/files/a.txt").status, 200);
    assert!(proxy.metrics().sum("handfast_maintenance", &none) < 0.5);
    assert_said(&command(&proxy, &["off", "web"]), 0, &["service web: not in maintenance"]);
}

fn seen_where_people_look(proxy: &Proxy) {
    let metrics = proxy.metrics();
    assert!(metrics.sum("handfast_maintenance", &[("service", "web")]) > 0.5);
    assert!(metrics.sum("handfast_maintenance", &[("service", "plain")]) < 0.5);
    assert!(!metrics.has_with("handfast_maintenance", &[("service", "bytes")]), "it has no requests");
    let labels = [("service", "web"), ("cause", "maintenance"), ("failed", "false"), ("step", "route")];
    assert!(
        (metrics.sum("handfast_requests_failed_total", &labels) - 16.0).abs() < 0.5,
        "{}",
        metrics.text()
    );
    let status = proxy.status();
    let services = status["services"].as_array().expect("services");
    let web = services.iter().find(|service| service["name"] == "web").expect("it is there");
    let maintenance = &web["maintenance"];
    assert_eq!((&maintenance["by"], &maintenance["retry_after_seconds"]), (&"command".into(), &600.into()));
    assert_eq!(maintenance["allow"], serde_json::json!(["192.0.2.1", "2001:db8::/32"]));
    let page = http::get(proxy.admin(), "/status", "text/html").body;
    assert!(page.contains("web is in maintenance since"), "{page}");
    let top = tools::handfast(&["top", "--once", &proxy.admin().to_string()]);
    assert!(top.output.contains("in maintenance since"), "{}", top.all());
    let record = proxy.record("a request", |record| record.reason() == "route/operator/maintenance");
    assert_eq!((record.number("status"), record.flag("failed")), (503, None), "{record:?}");
    let logged = proxy.talk.so_far().into_iter().filter(|line| line.contains("in maintenance since")).count();
    assert_eq!(logged, 1, "one line for the change");
}

/// Sends a request on an open connection, and reads the head and the content of its response.
fn exchange(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    let mut byte = [0];
    while !answer.ends_with("of backend") && !answer.ends_with("</p>") {
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {answer}"));
        answer.push(byte[0].into());
    }
    answer
}

#[test]
fn open_connections_are_answered_so_and_open_tunnels_stay() {
    let (folder, backend) = (Folder::new(), Backend::start(backend));
    let proxy = Proxy::start(config(&folder, backend.address, "", ""));
    let address = proxy.address_of("plain");
    let [mut kept, mut tunnel] = [(); 2].map(|()| dial(address).expect("it listens"));
    for stream in [&kept, &tunnel] {
        with_deadline(stream).expect("a socket");
    }
    assert!(exchange(&mut kept).starts_with("HTTP/1.1 200 "));
    let upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    let through = |tunnel: &mut TcpStream, sent: &[u8], end: &str| {
        tunnel.write_all(sent).expect("it reads");
        let (mut answer, mut byte) = (String::new(), [0]);
        while !answer.ends_with(end) {
            tunnel.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {answer}"));
            answer.push(byte[0].into());
        }
    };
    through(&mut tunnel, upgrade, "\r\n\r\n");
    through(&mut tunnel, b"before", "before");
    assert_said(&command(&proxy, &["on", "plain"]), 0, &[]);
    assert!(exchange(&mut kept).contains("Retry-After: 300\r\n"), "a connection from before");
    through(&mut tunnel, b"after", "after");
    assert_said(&command(&proxy, &["off", "plain"]), 0, &[]);
    assert!(exchange(&mut kept).starts_with("HTTP/1.1 200 "), "the same connection");
}

#[test]
fn clients_of_the_list_are_served_wherever_their_address_comes_from() {
    let (folder, backend) = (Folder::new(), Backend::start(backend));
    let text = config(&folder, backend.address, "", "");
    let with_header = "[service.proxy-protocol]\naccept-from = \"127.0.0.1\"\n[service.http]";
    let proxy = Proxy::start(text.replacen("[service.http]", with_header, 1).replacen(
        "trust-forwarded-from = \"127.0.0.1\"",
        "",
        1,
    ));
    for service in ["web", "plain"] {
        let on = command(&proxy, &["on", service, "--allow", "192.0.2.0/24", "--allow", "2001:db8::1"]);
        assert_said(&on, 0, &["except those of clients from 192.0.2.0/24, 2001:db8::1"]);
    }
    // By a PROXY header.
    for (client, status) in [("192.0.2.7", 200), ("198.51.100.7", 503)] {
        let mut stream = dial(proxy.address_of("plain")).expect("it listens");
        with_deadline(&stream).expect("a socket");
        write!(stream, "PROXY TCP4 {client} 127.0.0.1 1 2\r\n").expect("it reads");
        assert!(exchange(&mut stream).starts_with(&format!("HTTP/1.1 {status} ")), "{client}");
    }
    // By a field of a proxy in front.
    needs!("curl");
    for version in ["--http1.1", "--http2"] {
        for (field, status) in [
            ("X-Forwarded-For: 192.0.2.7", 200),
            ("X-Forwarded-For: 2001:db8::1", 200),
            ("X-Forwarded-For: 198.51.100.7", 503),
            ("X-Forwarded-For: 192.0.2.7, 198.51.100.7", 503),
            ("X-Forwarded-For: unknown", 503),
            ("X-Other: 192.0.2.7", 503),
        ] {
            let answer = by_curl(&proxy, &folder, &[version, "-H", field], "/");
            assert_eq!(answer.status, status, "{version} {field}");
        }
    }
}

#[test]
fn the_command_wins_over_the_key_until_off() {
    let (folder, backend) = (Folder::new(), Backend::start(backend));
    let text = |http: &str| config(&folder, backend.address, "", http);
    let proxy = Proxy::start(text("maintenance = { retry-after = \"7s\" }"));
    let waits = || get(proxy.address_of("plain"), "/").field("retry-after").to_owned();
    assert_eq!(waits(), "7", "by the key");
    assert_said(&command(&proxy, &["status", "plain"]), 0, &["plain: in maintenance since", "by key"]);
    let refused = command(&proxy, &["off", "plain"]);
    let file = proxy.file.display().to_string();
    let key = format!("by its key, not by command: `maintenance` in [service.http] of {file}\n  hint: ");
    assert_said(&refused, 1, &[&key]);
    assert_said(&command(&proxy, &["on", "plain", "--retry-after", "9s"]), 0, &["by command"]);
    assert_eq!(waits(), "9");
    proxy.rewrite(text("maintenance = { retry-after = \"8s\" }"));
    assert!(proxy.reload());
    assert_eq!(waits(), "9", "whatever the key says");
    assert_said(&command(&proxy, &["off", "plain"]), 1, &[&key]);
    assert_eq!(waits(), "8", "the key counts again");
    assert_said(&command(&proxy, &["on", "plain"]), 0, &[]);
    proxy.rewrite(text(""));
    assert!(proxy.reload());
    assert_in_maintenance(&proxy, "plain");
    assert_said(&command(&proxy, &["off", "plain"]), 0, &["service plain: not in maintenance"]);
    assert_served(&proxy, "plain");
    proxy.rewrite(text("maintenance = true"));
    assert!(proxy.reload());
    assert_in_maintenance(&proxy, "plain");
    let explained = tools::handfast(&["check", "--explain", "-c", &file]);
    assert_said(&explained, 0, &["is in maintenance: requests are answered with 503 and Retry-After 5m"]);
}

#[test]
fn a_reload_an_upgrade_and_a_restart_keep_it() {
    let (folder, backend) = (Folder::new(), Backend::start(backend));
    let socket = format!("upgrade-socket = \"{}\"\n", folder.file("upgrade.sock").display());
    let with_folder = socket.clone() + &state_folder(&folder);
    for (process, survives_restart) in [(&with_folder, true), (&socket, false)] {
        let text = config(&folder, backend.address, process, "");
        let mut first = Proxy::start(&text);
        let on = command(&first, &["on", "plain", "--allow", "192.0.2.1"]);
        assert_said(&on, 0, &["service plain: in maintenance since"]);
        assert_eq!(on.all().contains("a restart ends it"), !survives_restart, "{}", on.all());
        let since = |proxy: &Proxy| command(proxy, &["status", "plain"]).output;
        let before = since(&first);
        assert!(first.reload());
        assert_in_maintenance(&first, "plain");
        let second = upgrade(&first, &[]).expect("it can be replaced");
        assert_in_maintenance(&first, "plain");
        assert_eq!(since(&first), before, "the same client addresses, since the same time");
        second.0.signal(Signal::TERM);
        assert_eq!(first.ended().code(), Some(0));
        wait_until("the second one to end", || dial(first.admin()).is_err().then_some(()));
        let third = Proxy::start(&text);
        if survives_restart {
            assert_in_maintenance(&third, "plain");
            assert_eq!(since(&third), before);
            assert_said(&command(&third, &["off", "plain"]), 0, &["service plain: not in maintenance"]);
            drop(third);
            assert_served(&Proxy::start(&text), "plain");
        } else {
            assert_served(&third, "plain");
        }
    }
}

#[test]
fn what_cannot_be_is_one_clear_error() {
    let (folder, backend) = (Folder::new(), Backend::start(backend));
    let text = config(&folder, backend.address, &state_folder(&folder), "");
    let proxy = Proxy::start(&text);
    for verb in ["on", "off", "status"] {
        let known = "there is no service plan, expected `plain` or `web`\n  hint: did you mean `plain`?";
        assert_said(&command(&proxy, &[verb, "plan"]), 1, &[known]);
    }
    assert_said(
        &command(&proxy, &["on", "bytes"]),
        1,
        &["service bytes relays bytes, expected one with `mode"],
    );
    assert_said(&command(&proxy, &["on", "web", "--retry-after", "2d"]), 1, &["2d is out of range"]);
    assert_said(&command(&proxy, &["on", "web", "--allow", "10.0.0.0/40"]), 2, &["10.0.0.0/40"]);
    assert_said(
        &tools::handfast(&["maintenance", "on", "web", "--at", "127.0.0.1:1"]),
        1,
        &["hint: is it running"],
    );
    let off = text.replacen("listen = \"127.0.0.1:0\"", "listen = \"off\"", 1);
    let off = folder.write("off.toml", off).display().to_string();
    assert_said(&tools::handfast(&["maintenance", "on", "web", "-c", &off]), 2, &["admin.listen is \"off\""]);
    assert_served(&proxy, "plain");
    // The file cannot be written: it is in effect nevertheless, and said.
    folder.folder("state/maintenance.json");
    let not_stored = command(&proxy, &["on", "plain"]);
    assert_said(
        &not_stored,
        1,
        &["service plain: in maintenance since", "A restart undoes this: ", "hint: "],
    );
    assert_in_maintenance(&proxy, "plain");
    std::fs::remove_dir(folder.file("state/maintenance.json")).expect("it is empty");
    assert_said(&command(&proxy, &["on", "plain"]), 0, &[]);
    drop(proxy);
    // A damaged file: nothing is served that should be in maintenance.
    let state = folder.file("state/maintenance.json");
    let good = std::fs::read_to_string(&state).expect("it was written");
    let file = folder.write("handfast.toml", &text).display().to_string();
    folder.write("state/maintenance.json", &good[..good.len() / 2]);
    for verb in ["proxy", "check"] {
        let ran = tools::handfast(&[verb, "-c", &file]);
        let path = state.display().to_string();
        assert_said(&ran, 2, &[&path, "it is damaged: ", "hint: restore the file, or remove it"]);
    }
    // One for a service that is gone is a warning.
    folder.write("state/maintenance.json", good.replace("plain", "gone"));
    let proxy = Proxy::start(&text);
    assert_served(&proxy, "plain");
    let warned = "a command put the service gone in maintenance, and there is no such service in HTTP mode";
    assert!(proxy.talk.so_far().iter().any(|line| line.contains(warned)), "{:?}", proxy.talk.so_far());
    assert_said(&command(&proxy, &["off", "gone"]), 0, &["service gone: not in maintenance"]);
}
