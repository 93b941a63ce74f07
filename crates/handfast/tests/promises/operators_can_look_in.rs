//! Operators can look in: metrics that a monitoring system reads, a status for people and for programs, readiness that tells
//! the truth, an access log line for each connection with all that is known of it, and names on all threads.

use super::support::skip::needs;
use super::support::*;

#[test]
fn the_record_of_a_connection_says_what_happened() {
    let stage = Stage::with(Backend::echo(), |config, _| config.set("service", "alpn", "[\"http/1.1\"]"));
    let config = Trust::version(Version::Tls13).protocol("http/1.1").config();
    let mut client = stage.client(&config);
    client.echo(&[b'x'; 1000]);
    client.finish();
    let record = stage.proxy.record("the connection", |_| true);
    for (field, value) in [
        ("service", "web"),
        ("sni", "localhost"),
        ("alpn", "http/1.1"),
        ("version", "TLSv1.3"),
        ("backend", &stage.backend.address.to_string()),
    ] {
        assert_eq!(record.text(field), value, "{field}: {record:?}");
    }
    assert_eq!(record.text("group"), "X25519", "as the configuration writes it");
    assert!(record.text("suite").starts_with("TLS"), "{record:?}");
    assert!(record.text("signature").contains("ECDSA"), "{record:?}");
    assert!(record.text("client").starts_with("127.0.0.1:"), "{record:?}");
    assert!(record.text("time").ends_with('Z'), "{record:?}");
    assert_eq!(record.flag("resumed"), Some(false));
    assert_eq!((record.number("bytes_to_backend"), record.number("bytes_to_client")), (1000, 1000));
    assert!(record.seconds("handshake") > 0.0 && record.seconds("handshake_crypto") > 0.0, "{record:?}");
    assert!(record.reason().ends_with("/finished"), "{record:?}");
}

#[test]
fn metrics_split_a_handshake_into_its_phases() {
    let stage = Stage::echo();
    let config = Trust::version(Version::Tls13).config();
    for _ in 0..3 {
        let mut client = stage.client(&config);
        client.echo(b"x");
        client.finish();
    }
    stage.is_quiet();
    let metrics = stage.proxy.metrics();
    for phase in ["hello_wait", "crypto", "client_wait"] {
        for (kind, times) in [("full", 1.0), ("resumed", 2.0)] {
            let count = metrics.sum(
                "handfast_handshake_phase_seconds_count",
                &[("phase", phase), ("kind", kind), ("version", "TLSv1.3")],
            );
            assert!((count - times).abs() < 0.5, "{phase} {kind}: {count}");
        }
    }
    for name in [
        "handfast_thread_cpu_seconds_total",
        "handfast_certificate_expires_in_seconds",
        "handfast_loop_lag_seconds_count",
    ] {
        assert!(metrics.has(name), "{name} is on the page:\n{}", metrics.text());
    }
    // Whole connections: whichever side ended first, none is counted twice or under another cause.
    for (name, labels) in [
        ("handfast_connections_accepted_total", &[][..]),
        ("handfast_connections_closed_total", &[("cause", "finished")]),
        ("handfast_connections_closed_total", &[]),
    ] {
        assert!((metrics.sum(name, labels) - 3.0).abs() < 0.5, "{name} {labels:?}:\n{}", metrics.text());
    }
}

#[test]
fn the_status_is_for_people_and_for_programs() {
    let stage = Stage::echo();
    let page = http::get(stage.proxy.admin(), "/status", "text/html");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("text/html") && page.body.contains("<html"), "{page:?}");
    assert!(
        page.body.contains("<th scope=\"row\">web<")
            && page.body.contains(&stage.backend.address.to_string()),
        "{page:?}"
    );
    assert!(stage.proxy.status().is_object());
    assert_eq!(http::get(stage.proxy.admin(), "/nowhere", "*/*").status, 404);
}

#[test]
fn metrics_are_well_formed_for_new_scrapers_and_for_old_ones() {
    needs!("promtool");
    let stage = Stage::echo();
    stage.serves_and_is_quiet();
    for (accept, content_type) in [
        (
            "application/openmetrics-text; version=1.0.0",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        ("text/plain; version=0.0.4", "text/plain; version=0.0.4; charset=utf-8"),
    ] {
        let answer = http::get(stage.proxy.admin(), "/metrics", accept);
        assert!(answer.head.contains(&format!("content-type: {content_type}\r\n")), "{}", answer.head);
        let is_old = accept.starts_with("text");
        assert_eq!(answer.body.contains("# TYPE handfast_connections_accepted_total counter"), is_old);
        if is_old {
            // It reads this format alone.
            let checked = tools::run("promtool", &["check", "metrics"], answer.body.as_bytes());
            assert_eq!(checked.code, Some(0), "{}", checked.all());
        }
    }
}

#[test]
fn ready_and_live_tell_the_truth() {
    let stage = Stage::echo();
    assert_eq!(http::get(stage.proxy.admin(), "/ready", "*/*").status, 200);
    assert_eq!(http::get(stage.proxy.admin(), "/live", "*/*").status, 200);
    let client = stage.any_client();
    let answer = http::request(stage.proxy.admin(), "POST", "/drain", "*/*");
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer = http::get(stage.proxy.admin(), "/ready", "*/*");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.starts_with("not ready: draining: 1 connection left"), "with the reason: {answer:?}");
    client.finish();
}

#[test]
fn all_threads_have_names() {
    let stage = Stage::echo();
    stage.any_client().finish();
    let threads = stage.proxy.process().threads();
    assert!(threads.len() >= 3, "{threads:?}");
    let mut names = threads.clone();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), threads.len(), "each has its own name: {threads:?}");
}

#[test]
fn a_log_that_nobody_reads_holds_up_nobody() {
    // Standard output is a pipe whose reader stopped; the queue fills, lines are dropped and counted.
    let (read, write) = std::io::pipe().expect("the process may have more descriptors");
    let folder = folder::Folder::new();
    let backend = Backend::echo();
    let proxy =
        Proxy::start_logging_to(write, Config::to(&folder, backend.address).set("process", "threads", 1));
    let trust = Trust::version(Version::Tls13).config();
    for _ in 0..2000 {
        let client = Client::connect(proxy.address(), &trust);
        client.reset();
    }
    let mut client = Client::connect(proxy.address(), &trust);
    client.echo(b"served all the same");
    client.finish();
    drop(read);
}
