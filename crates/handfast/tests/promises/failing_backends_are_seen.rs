//! Failing backends are seen where people look: on the status page, in the metrics, in the log and in the access log, with
//! service, backend and cause, whichever threads found out; and so are names without an address, and clients that wait.

use std::time::Duration;

use super::support::proxy::message;
use super::support::*;

fn page(proxy: &Proxy) -> String {
    let answer = http::get(proxy.admin(), "/status", "text/html");
    assert_eq!(answer.status, 200, "{answer:?}");
    let (_, rest) = answer.body.split_once("<main>").expect("a page has a main part");
    rest.split("<section><h2>Services").next().expect("the services follow").replace("&#39;", "'")
}

/// Waits until what needs attention on the page has all of this.
fn shows(proxy: &Proxy, words: &[&str]) {
    let seen = || words.iter().all(|word| page(proxy).contains(word)).then_some(());
    deadline::wait_until_seeing(&format!("{words:?} on the page"), seen, || page(proxy));
}

#[test]
fn a_backend_is_marked_down_by_all_threads_together() {
    let (good, gone) = (Backend::echo(), Backend::refusing());
    let folder = folder::Folder::new();
    let config = Config::to(&folder, good.address)
        .backend(gone)
        .set("process", "threads", 4)
        .set("service.limits", "backend-failures", 5)
        .text("service.limits", "backend-retry", "1h");
    let proxy = Proxy::start(config);
    let name = gone.to_string();
    let labels = [("service", "web"), ("backend", &*name)];
    assert!(proxy.metrics().sum("handfast_backend_up", &labels) > 0.5, "before the first client");
    let trust = Trust::version(Version::Tls13).config();
    let mut clients = 0;
    wait_until("the failing backend to be marked down", || {
        let mut client = Client::connect(proxy.address(), &trust);
        client.echo(b"served by the other one");
        client.finish();
        clients += 1;
        assert!(clients < 200, "{}", proxy.metrics().text());
        (proxy.metrics().sum("handfast_backend_up", &labels) < 0.5).then_some(())
    });
    let failures = |cause| {
        let labels = [("service", "web"), ("backend", &*name), ("cause", cause)];
        proxy.metrics().sum("handfast_backend_failures_total", &labels)
    };
    assert!(
        (failures("refused") - 5.0).abs() < 0.5,
        "one after the other, over all threads: {}",
        failures("refused")
    );
    let lines = proxy.talk.so_far();
    let marked: Vec<_> =
        lines.iter().map(|line| message(line)).filter(|line| line.contains("marked down")).collect();
    let line = format!(
        "warning: service web: backend {name} is marked down for 3600s after 5 failures in a row: refused: \
         nobody listened at the backend's address (connection refused)"
    );
    assert_eq!(marked, [line], "said once");
    let down = format!("Backend {name} of web is down since ");
    shows(
        &proxy,
        &[
            &down,
            "refused: nobody listened at the backend's address (connection refused). 5 attempts in a row failed",
        ],
    );
    // The jq filter in docs/diagnose/backends.md selects this: a connection that was served after failed attempts.
    let record = proxy.record("one that was refused first", |record| record.number("backends_failed") == 1);
    assert!(record.reason().ends_with("/finished"), "{record:?}");
    let failed = record.value("backend_failures");
    assert_eq!(failed, &serde_json::json!([{ "backend": name, "cause": "refused" }]), "{record:?}");
    // A reload keeps what is known.
    assert!(proxy.reload());
    assert!(proxy.metrics().sum("handfast_backend_up", &labels) < 0.5, "after a reload");
    shows(&proxy, &[&down]);
    assert_eq!(http::get(proxy.admin(), "/ready", "*/*").status, 200, "the other backend serves");
}

#[test]
fn a_tunnel_that_its_backend_ends_is_logged_with_its_name() {
    let backend = Backend::start(|peer| {
        peer.read_exactly(b"GET / HTTP/1.1\r\n".len());
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello");
        // The unread rest of the request makes it a reset.
    });
    let name = backend.address.to_string();
    let stage = Stage::with(backend, |config, _| config.text("service", "mode", "http"));
    let mut client = stage.any_client();
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    client.read_to_end();
    let record = stage.proxy.record("the line of the tunnel", |record| record.text("request").is_empty());
    assert!(record.reason().starts_with("relay/backend/"), "{record:?}");
    assert_eq!(record.text("backend"), name, "{record:?}");
}

#[test]
fn a_name_that_never_resolves_is_seen() {
    // RFC 6761 §6.4: names under `invalid` never have an address.
    let folder = folder::Folder::new();
    let proxy = Proxy::start(Config::to(&folder, "missing.invalid:8080"));
    let labels = [("service", "web"), ("backend", "missing.invalid:8080")];
    assert!(proxy.metrics().has_with("handfast_backend_up", &labels), "{}", proxy.metrics().text());
    assert!(proxy.metrics().sum("handfast_backend_up", &labels) < 0.5);
    let trust = Trust::version(Version::Tls13).config();
    for _ in 0..13 {
        if let Ok(mut client) = Client::try_connect(proxy.address(), &trust, "localhost") {
            client.read_to_end();
        }
    }
    wait_until("all to be over", || (proxy.records().len() == 13).then_some(()));
    let metrics = proxy.metrics();
    let failed = metrics
        .sum("handfast_backend_failures_total", &[labels[0], labels[1], ("cause", "name-not-resolved")]);
    assert!((failed - 13.0).abs() < 0.5, "{}", metrics.text());
    let name = [("name", "missing.invalid:8080")];
    assert!(metrics.sum("handfast_name_lookups_total", &[name[0], ("outcome", "failed")]) > 0.5);
    assert!(
        metrics.has_with("handfast_name_addresses", &name)
            && metrics.has_with("handfast_name_resolved", &name)
    );
    assert!(
        metrics.sum("handfast_name_addresses", &name) + metrics.sum("handfast_name_resolved", &name) < 0.5
    );
    shows(
        &proxy,
        &[
            "Clients of web reach no backend. Its only backend is not up.",
            "The name missing.invalid:8080 of backends of web has no address since ",
            "13 of 13 connections (100 %) of web reached no backend",
            "the backend's name could not be resolved (connect / operator / name-not-resolved)",
        ],
    );
    let is_warning = |line: &str| {
        message(line).starts_with("warning: resolve missing.invalid (service web): ").then_some(())
    };
    proxy.talk.find(0, "a warning for the name", is_warning);
    let ready = |proxy: &Proxy| http::get(proxy.admin(), "/ready", "*/*");
    let answer = ready(&proxy);
    assert_eq!(answer.status, 503, "it can serve nothing, so it must not replace a process that can");
    assert!(
        answer.body.contains("no address yet for the backends' names missing.invalid:8080"),
        "{}",
        answer.body
    );
    // One dead name must not keep other services from being served.
    let config = Config::to(&folder, "missing.invalid:8080").service("other", Backend::refusing());
    let proxy = Proxy::start(config.certificate(&folder.file("web.pem")));
    wait_until("it to be ready", || (ready(&proxy).status == 200).then_some(()));
}

#[test]
fn clients_that_wait_for_a_limit_are_seen() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.set("process", "threads", 1).set("service", "max-connections", 3)
    });
    let trust = Trust::version(Version::Tls13).config();
    let limit = [("service", "web"), ("limit", "service")];
    assert!((stage.proxy.metrics().sum("handfast_connections_limit", &limit) - 3.0).abs() < 0.5);
    assert!(stage.proxy.metrics().has_with("handfast_connections_limit", &[("limit", "process")]));
    let mut clients: Vec<Client> = (0..3).map(|_| stage.client(&trust)).collect();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            std::net::TcpStream::connect_timeout(&stage.proxy.address(), DEADLINE)
                .expect("the queue has room")
        })
        .collect();
    let count = || stage.proxy.metrics().sum("handfast_connections_waiting", &limit);
    wait_until("both to be counted", || ((count() - 2.0).abs() < 0.5).then_some(()));
    shows(
        &stage.proxy,
        &["2 clients wait for web: 3 of 3 connections are open. Raise max-connections of the service"],
    );
    clients.iter_mut().for_each(|client| client.echo(b"undisturbed"));
    clients.clear();
    wait_until("no client to wait", || (count() < 0.5).then_some(()));
    deadline::pause(Duration::from_millis(150));
    assert!(count() < 0.5, "nor a moment later");
    drop(waiting);
    // Those who come and go at the limit are one event, not one each.
    let _held: Vec<Client> = (0..2).map(|_| stage.client(&trust)).collect();
    for _ in 0..20 {
        stage.client(&trust).finish();
    }
    let is_limit_line =
        |line: &&String| line.contains("(service web): max-connections of the service is reached");
    let line_count = stage.proxy.talk.so_far().iter().filter(is_limit_line).count();
    assert!((1..=5).contains(&line_count), "said {line_count} times");
}
