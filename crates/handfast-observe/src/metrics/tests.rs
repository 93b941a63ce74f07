//! Events of threads appear in the snapshot and in the text.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use handfast_net::fault::Cause as SocketCause;

use super::*;
use crate::cause::Cause;
use crate::reason::{CloseReason, Side, Step};
use handfast_tls::session::Agreed;

use crate::record::{Record, StepTimes};

fn record() -> Record {
    let millis = Duration::from_millis;
    let mut record = Record::new((0, "web".into()), 1, Some(SocketAddr::from(([127, 0, 0, 1], 40_000))));
    record.tls = Agreed {
        version: Some("TLSv1.3"),
        group: Some("X25519MLKEM768"),
        signature: Some("ECDSA-P256"),
        resumed: Some(false),
        ..Agreed::default()
    };
    record.seconds = StepTimes {
        hello: millis(30),
        handshake: millis(50),
        handshake_crypto: millis(1),
        handshake_wait: millis(40),
        connect: millis(2),
        relay: millis(500),
        close: millis(1),
    };
    record
}

fn reason(step: Step, side: Side, cause: Cause) -> CloseReason {
    CloseReason { step, side, cause, detail: None }
}

#[test]
fn threads_are_added_up_by_service() {
    let registry = Registry::new();
    let record = record();
    for name in ["worker-0", "worker-1"] {
        let web = registry.thread(name).service("web");
        for _ in 0..3 {
            web.accepted();
        }
        web.closed(&record, &reason(Step::Relay, Side::Client, Cause::Finished));
        web.handshake(&record.tls, &record.seconds);
        web.bytes_to_backend(10);
        web.bytes_to_client(1_000);
        web.refused(Limit::Address);
        web.ticket_offered();
    }
    let mail = registry.thread("worker-1").service("mail");
    mail.closed(&record, &reason(Step::Hello, Side::Client, Cause::Socket(SocketCause::Errno(5))));

    let snapshot = registry.snapshot();
    let [mail, web] = &snapshot.services[..] else { panic!("two services: {:?}", snapshot.services) };
    assert_eq!((mail.name.as_str(), web.name.as_str()), ("mail", "web"));
    assert_eq!((web.accepted, web.closed, web.connections()), (6, 2, 4));
    assert_eq!(
        web.ends,
        [End { step: Some(Step::Relay), side: Some(Side::Client), cause: Some(Cause::Finished), count: 2 }]
    );
    assert_eq!((web.bytes_to_backend, web.bytes_to_client), (20, 2_000));
    assert_eq!((web.handshakes_full, web.handshakes_resumed, web.tickets_offered), (2, 0, 2));
    assert_eq!(web.refused["address"], 2);
    assert_eq!(web.duration.count(), 2);
    assert_eq!(
        (mail.ends.len(), mail.ends[0].words(), mail.ends[0].count),
        (1, ["hello", "client", "errno"], 1)
    );
    assert_eq!(mail.connections(), 0, "one end without a beginning does not wrap around");
}

#[test]
fn phases_add_up_to_the_total() {
    let registry = Registry::new();
    let record = record();
    registry.thread("worker-0").service("web").handshake(&record.tls, &record.seconds);
    let snapshot = registry.snapshot();
    let [seen] = &snapshot.handshakes[..] else { panic!("one kind of handshake") };
    assert_eq!((&*seen.version, &*seen.group, seen.resumed), ("TLSv1.3", "X25519MLKEM768", false));
    let [hello, crypto, wait, queue] = seen.phases.each_ref().map(Distribution::sum_seconds);
    assert_eq!((hello, crypto, wait), (0.030, 0.001, 0.040));
    assert!((queue - 0.009).abs() < 1e-9, "what is neither computing nor waiting: {queue}");
    assert!((hello + crypto + wait + queue - seen.total.sum_seconds()).abs() < 1e-9);
}

#[test]
fn a_name_keeps_its_numbers_over_reloads() {
    let registry = Registry::new();
    let thread = registry.thread("worker-0");
    thread.service("web").accepted();
    let backend = thread.service("web").backend("127.0.0.1:80", true);
    backend.connected(Duration::from_millis(1));
    backend.answered(Duration::from_millis(7));
    thread.service("web").accepted();
    thread.service("web").backend("127.0.0.1:80", true).failed(Cause::Socket(SocketCause::Refused));
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.services[0].accepted, 2);
    let seen = &snapshot.services[0].backends[0];
    assert_eq!((seen.connected, seen.failed(), seen.connections()), (1, 1, 1));
    assert_eq!((seen.connect.sum_seconds(), seen.response.sum_seconds()), (0.001, 0.007));
    let line = "handfast_backend_response_seconds_count{service=\"web\",backend=\"127.0.0.1:80\"} 1\n";
    assert!(openmetrics(snapshot).contains(line));
}

#[test]
fn ever_new_backends_are_counted_together() {
    let service = Registry::new().thread("worker-0").service("web");
    for number in 0..1_000 {
        service
            .backend(&format!("10.0.{}.{}:80", number / 250, number % 250), true)
            .failed(Cause::Socket(SocketCause::Refused));
    }
    service.backend("10.0.0.0:80", true).failed(Cause::Socket(SocketCause::Refused));
    let backends = service.cells.backends.lock().expect("no test panicked");
    assert_eq!(backends.len(), 257);
    let count =
        |backend: &BackendMetrics| backend.failures.entry(Cause::Socket(SocketCause::Refused)).value();
    let failures =
        |name: &str| backends.iter().find(|(known, _)| known == name).map(|(_, backend)| count(backend));
    assert_eq!(failures("other"), Some(744));
    assert_eq!(failures("10.0.0.0:80"), Some(2), "known ones stay apart");
}

#[test]
fn reloads_are_distinguished() {
    let registry = Registry::new();
    assert_eq!(registry.snapshot().reload.generation, None);
    registry.reload_succeeded(1);
    assert_eq!(registry.snapshot().reload.succeeded, 0, "the start is not a reload");
    registry.reload_failed("handfast.toml:3: unknown key");
    let reload = registry.snapshot().reload;
    assert_eq!((reload.generation, reload.failed), (Some(1), 1));
    assert_eq!(reload.last_problem.as_deref(), Some("handfast.toml:3: unknown key"));
    registry.reload_succeeded(2);
    let reload = registry.snapshot().reload;
    assert_eq!((reload.generation, reload.succeeded, reload.last_problem), (Some(2), 1, None));
}

/// Everything that can be written, with labels that need escaping.
fn everything() -> Snapshot {
    let registry = Registry::new();
    let thread = registry.thread("worker-0");
    let record = record();
    let web = thread.service("we\"b\\\n");
    web.accepted();
    web.handshake(&record.tls, &record.seconds);
    web.handshake(&Agreed { resumed: Some(true), ..record.tls.clone() }, &record.seconds);
    web.closed(&record, &reason(Step::Relay, Side::Backend, Cause::Socket(SocketCause::Reset)));
    web.backend("10.0.0.7:80", true).connected(Duration::from_micros(300));
    thread.service("mail").backend("10.0.0.7:80", true).connected(Duration::from_micros(300));
    thread.accept_failed(Cause::Socket(SocketCause::OutOfFiles));
    thread.backing_off(true);
    thread.loop_turn(Duration::from_micros(20));
    registry.reload_succeeded(1);
    let certificate = |seconds| CertificateSnapshot {
        service: "web".into(),
        name: "example.org".into(),
        kind: "ECDSA-P256".into(),
        not_after: UNIX_EPOCH + Duration::from_secs(seconds),
        staple_until: (seconds > 1_000).then_some(UNIX_EPOCH + Duration::from_secs(3_000_000_000)),
    };
    registry.set_certificates(vec![certificate(4_000_000_000), certificate(1_000)]);
    registry.snapshot()
}

#[test]
fn the_text_has_the_structure_of_openmetrics() {
    let text = openmetrics(everything());
    assert!(text.ends_with("\n# EOF\n"), "ends with its mark");
    let mut types = HashMap::new();
    let mut rows = HashSet::new();
    let mut family = "";
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type line has two words");
            assert!(types.insert(name, kind).is_none(), "family {name} twice");
            family = name;
        } else if !line.starts_with('#') {
            assert!(line.starts_with(family), "{line} is not of {family}");
            let (row, value) = line.rsplit_once(' ').expect("a row has a value");
            assert!(rows.insert(row), "{row} twice");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            let suffix = row[family.len()..].split('{').next();
            let allowed: &[&str] = match types[family] {
                "counter" => &["_total"],
                "gauge" => &[""],
                "info" => &["_info"],
                "histogram" => &["_sum", "_count", "_bucket"],
                other => panic!("unexpected type {other}"),
            };
            assert!(suffix.is_some_and(|suffix| allowed.contains(&suffix)), "{line}");
        }
    }
    assert!(text.contains(r#"handfast_connections{service="we\"b\\\n"} 0"#), "labels are escaped: {text}");
    assert!(
        text.contains("handfast_source_ports_in_use{backend=\"10.0.0.7:80\"} 2\n"),
        "services share ports"
    );
    assert!(text.contains(r#"handfast_accept_backing_off{thread="worker-0"} 1"#));
    let expires = text.lines().find(|line| line.starts_with("handfast_certificate_expires_in_seconds{"));
    assert!(expires.is_some_and(|line| line.contains("} -")), "the first to expire counts: {expires:?}");
    let staple =
        r#"handfast_ocsp_response_not_after_timestamp_seconds{service="web",certificate="example.org""#;
    let staple = text.lines().find(|line| line.starts_with(staple));
    assert!(staple.is_some_and(|line| line.ends_with("} 3000000000.0")), "{staple:?}");
}

#[test]
fn the_text_of_before_has_its_own_types() {
    let snapshot = everything();
    let (new, old) = (Format::OpenMetrics.write(snapshot.clone()), Format::Text.write(snapshot));
    let is_comment = |line: &&str| line.starts_with('#');
    for line in [
        "# TYPE handfast_connections_accepted_total counter",
        "# HELP handfast_connections_accepted_total Connections accepted",
        "# TYPE handfast_relayed_bytes_total counter",
        "# TYPE handfast_build_info gauge",
        "# TYPE handfast_connections gauge",
        "# TYPE handfast_handshake_seconds histogram",
    ] {
        assert!(old.lines().any(|known| known == line), "{line}");
    }
    assert!(!old.contains("# UNIT") && new.contains("# UNIT handfast_relayed_bytes bytes"));
    // Of each row, without values that change from one look to the next.
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| !is_comment(line));
        rows.filter_map(|row| Some(row.rsplit_once(' ')?.0.to_owned())).collect()
    };
    assert_eq!(rows(&old), rows(&new));
}

#[test]
fn only_histograms_that_have_counted_are_written() {
    let registry = Registry::new();
    let web = registry.thread("worker-0").service("web");
    web.backend("10.0.0.7:80", true);
    let text = || openmetrics(registry.snapshot());
    assert!(!text().contains("handfast_backend_connect_seconds_bucket"));
    assert!(
        text().contains("handfast_connections_accepted_total{service=\"web\"} 0\n"),
        "rates need the first zero"
    );
    web.backend("10.0.0.7:80", true).connected(Duration::from_micros(300));
    assert!(text().contains("handfast_backend_connect_seconds_bucket"));
}

#[test]
fn a_histogram_in_text_adds_up() {
    let text = openmetrics(everything());
    let value = |start: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}"));
        line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a number")
    };
    let labels = r#"version="TLSv1.3",group="X25519MLKEM768",signature="ECDSA-P256",kind="full""#;
    let bucket = |le: &str| value(&format!("handfast_handshake_seconds_bucket{{le=\"{le}\",{labels}}}"));
    // 80 ms
    assert_eq!((bucket("0.065536"), bucket("0.131072"), bucket("+Inf")), (0.0, 1.0, 1.0));
    assert_eq!(value(&format!("handfast_handshake_seconds_count{{{labels}}}")), 1.0);
    assert_eq!(value(&format!("handfast_handshake_seconds_sum{{{labels}}}")), 0.08);
}
