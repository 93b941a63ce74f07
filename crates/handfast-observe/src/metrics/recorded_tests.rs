//! Formats that other programs read, compared byte by byte with recordings: OpenMetrics, the snapshot in status.json, and the counts that
//! processes exchange in an upgrade. A difference breaks a dashboard, an alert, or an upgrade between two versions.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_http::content_coding::ContentCoding;
use handfast_http::http1::Rule;
use handfast_net::fault::Cause as SocketCause;
use handfast_pki::presented::CertificateFault;
use handfast_tls::session::Agreed;

use super::*;
use crate::access_log::Totals;
use crate::cause::Cause;
use crate::reason::{CloseReason, Side, Step};
use crate::record::{Record, StepTimes};
use crate::request_record::{ConnectionFacts, HttpVersion, RequestRecord, RequestTimes};

/// A cache of which everything is known.
#[derive(Debug)]
struct Cached;

impl CacheStatus for Cached {
    fn snapshot(&self) -> CacheSnapshot {
        CacheSnapshot {
            service: "shop".into(),
            folder: "/var/cache/shop".into(),
            problem: Some("it is full".into()),
            is_indexing: true,
            objects: 3,
            disk_bytes: 12_288,
            disk_bytes_limit: 1 << 30,
            memory_bytes: 900,
            requests: [("hit".to_owned(), 7), ("no-store".to_owned(), 1)].into(),
            confirmed: 2,
            changes: [("evicted".to_owned(), 4), ("stored".to_owned(), 9)].into(),
            undeleted: 2,
            bytes_read: 100,
            bytes_written: 50,
            errors: 6,
            disk: [("read".to_owned(), (5, 0.25)), ("write".to_owned(), (8, 1.5))].into(),
        }
    }
}

/// A backend on which everything is set.
#[derive(Debug)]
struct Status;

impl BackendStatus for Status {
    fn add_to(&self, to: &mut BackendSnapshot) {
        let (histogram, mut seconds) = (Histogram::default(), Distribution::default());
        for millis in [3, 5] {
            histogram.record(Duration::from_millis(millis));
        }
        histogram.add_to(&mut seconds);
        to.failures_in_a_row = 4;
        to.last_failure = Some("refused".into());
        to.state = BackendState::CheckFailed;
        to.down_since = Some(at(10));
        to.pause_left_seconds = Some(2.5);
        to.operator = Some("drain".into());
        to.operator_since = Some(at(20));
        to.check = Some(CheckSnapshot {
            up: true,
            since: Some(at(30)),
            last_at: Some(at(40)),
            last_failure: Some("404".into()),
            in_a_row: 3,
            passed: 2,
            failed: 7,
            seconds,
        });
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

fn times(count: u64, what: impl Fn()) {
    (0..count).for_each(|_| what());
}

/// A different number for each counter, as far as events allow it.
fn count(thread: &ThreadMetrics) {
    let web = thread.service("web");
    times(61, || web.accepted());
    let mut record = Record::new((0, "web".into()), 1, None);
    record.seconds = StepTimes { relay: Duration::from_millis(700), ..StepTimes::default() };
    let socket = |cause| Cause::Socket(cause);
    let ends = [
        (Step::Relay, Side::Client, Cause::Finished, 5),
        (Step::Handshake, Side::Client, Cause::Alert, 3),
        (Step::Connect, Side::Backend, socket(SocketCause::Refused), 3),
        (Step::Relay, Side::Backend, socket(SocketCause::Errno(5)), 2),
        (Step::Relay, Side::Backend, socket(SocketCause::Errno(6)), 4),
    ];
    for (step, side, cause, count) in ends {
        times(count, || web.closed(&record, &CloseReason::new(step, side, cause)));
    }
    for (count, limit) in (1..).zip(Limit::ALL) {
        times(count, || web.refused(limit));
        web.waiting(limit, 0, count + 10);
    }
    for (count, outcome) in (21..).zip(HeaderOutcome::ALL) {
        times(count, || web.proxy_header(outcome));
    }
    for (count, fault) in (31..).zip(CertificateFault::ALL) {
        times(count, || web.certificate_failed(fault));
    }
    web.bytes_to_backend(1_001);
    web.bytes_to_client(2_002);
    times(6, || web.ticket_offered());
    handshakes(&web);
    let backend = web.backend("10.0.0.7:80", true);
    times(8, || backend.connected(Duration::from_millis(2)));
    times(5, || backend.disconnected());
    times(4, || backend.answered(Duration::from_micros(90)));
    for cause in [Cause::Internal, socket(SocketCause::Errno(5)), socket(SocketCause::Errno(6))] {
        backend.failed(cause);
    }
    web.backend("/run/x.sock", false).connected(Duration::from_micros(7));
    thread.service("mail").accepted();
    requests(&thread.service("shop"));
}

fn requests(shop: &ServiceMetrics) {
    shop.request_copied(CopyEnd::Dropped);
    let facts = ConnectionFacts {
        service: "shop".into(),
        generation: 1,
        client: None,
        server_name: None,
        tls_version: None,
        client_subject: None,
    };
    let record = RequestRecord::new(&Rc::new(facts), HttpVersion::Http11, "1".into(), [b"GET", b"", b"/"]);
    let millis = Duration::from_millis;
    let seconds = RequestTimes {
        hello: millis(1),
        queue: millis(0),
        connect: millis(2),
        answer: millis(30),
        relay: millis(7),
    };
    let failure = CloseReason::new(Step::Connect, Side::Backend, Cause::Socket(SocketCause::Refused));
    let refused = CloseReason::new(Step::Hello, Side::Client, Cause::HttpRequest);
    let records = [
        (5, RequestRecord { status: Some(200), is_reused: Some(true), seconds, ..record.clone() }),
        (3, RequestRecord { status: Some(302), protocol: HttpVersion::Http2, ..record.clone() }),
        (2, RequestRecord { status: Some(502), failure: Some(failure), retries: 4, ..record.clone() }),
        (6, RequestRecord { status: Some(101), is_reused: Some(false), ..record.clone() }),
        (
            4,
            RequestRecord {
                status: Some(400),
                broken_rule: Some(Rule::HostMissing),
                failure: Some(refused),
                protocol: HttpVersion::Http10,
                ..record.clone()
            },
        ),
        (
            1,
            RequestRecord {
                bytes_from_client: 70,
                bytes_to_client: 80,
                coded: Some((ContentCoding::Gzip, 320)),
                ..record
            },
        ),
    ];
    shop.content_moved(70, 80);
    for (count, record) in records {
        times(count, || shop.request_began(record.protocol));
        times(count, || shop.request(&record));
    }
    times(9, || shop.request_began(HttpVersion::Http2));
    times(11, || shop.client_connection_reused());
    times(7, || shop.compression_skipped());
    times(13, || shop.pool_kept());
    times(5, || shop.pool_dropped());
}

fn handshakes(web: &ServiceMetrics) {
    let agreed = Agreed {
        version: Some("TLSv1.3"),
        group: Some("X25519MLKEM768"),
        signature: Some("ECDSA-P256"),
        hello_retry: true,
        ..Agreed::default()
    };
    let resumed = Agreed { resumed: Some(true), signature: None, ..agreed.clone() };
    let millis = Duration::from_millis;
    let seconds = StepTimes {
        hello: millis(30),
        handshake: millis(50),
        handshake_crypto: millis(1),
        handshake_wait: millis(40),
        ..StepTimes::default()
    };
    times(2, || web.handshake(&agreed, &seconds));
    times(3, || web.handshake(&resumed, &seconds));
    times(4, || web.backend_handshake(&agreed, millis(9), millis(2)));
    times(5, || web.backend_handshake(&resumed, millis(6), millis(1)));
}

/// A registry with a value for each field, and with what a process before it has counted, words of another version among it.
fn registry() -> Arc<Registry> {
    let registry = Registry::new();
    for name in ["worker-0", "worker-1"] {
        let thread = registry.thread(name);
        count(&thread);
        for cause in [SocketCause::OutOfFiles, SocketCause::Errno(9)] {
            thread.accept_failed(Cause::Socket(cause));
        }
        thread.backing_off(name == "worker-0");
        times(3, || thread.loop_turn(Duration::from_micros(20)));
        thread.spurious(4);
        thread.tasks(7);
        times(2, || thread.panicked());
        times(5, || thread.signed_elsewhere());
    }
    let backend =
        |name: &str, status| ConfiguredBackend { name: name.into(), weight: 3, backup: true, status };
    registry.set_configured(Configured {
        connections_limit: 900,
        services: vec![
            ConfiguredService {
                name: "web".into(),
                connections_limit: Some(800),
                address_limit: Some(70),
                sources: Some(2),
                requests_certificates: true,
                serves_requests: false,
                cache: None,
                maintenance: None,
                backends: vec![backend("10.0.0.7:80", Some(Arc::new(Status))), backend("db:1", None)],
            },
            ConfiguredService {
                name: "shop".into(),
                serves_requests: true,
                cache: Some(Arc::new(Cached)),
                maintenance: Some(MaintenanceSnapshot {
                    by: "command".into(),
                    since: at(60),
                    allow: vec!["10.0.0.0/8".into()],
                    retry_after_seconds: 300,
                }),
                ..ConfiguredService::default()
            },
        ],
        names: vec![NameSnapshot {
            name: "db:1".into(),
            services: vec!["web".into()],
            addresses: vec!["10.0.0.9".into()],
            answered: 11,
            failed: 12,
            problem: Some("no such name".into()),
            failing_since: Some(at(50)),
        }],
    });
    control(&registry);
    let other_version = "5\tservice\tweb\tend\ta\tb\tc\n6\tservice\tweb\tend\trelay\tb\talert\n\
                         7\tservice\tweb\tbackend\t10.0.0.7:80\tfailure\tof-tomorrow\n\
                         8\tservice\tweb\taccepted\n9\tservice\tweb\tbackend\tdb:1\tconnected\n10\topen\n\
                         7\tservice\tshop\trequest\tstatus\t2xx\n8\tservice\tshop\trequest\tstatus\t6xx\n\
                         9\tservice\tweb\trequest\tretries\n";
    registry.receive_counts(1, vec![("before".into(), other_version.into())]);
    registry
}

/// Reports the values of the control thread.
fn control(registry: &Registry) {
    registry.set_certificates(vec![CertificateSnapshot {
        service: "web".into(),
        name: "example.org".into(),
        kind: "ECDSA-P256".into(),
        not_after: at(1_000),
        staple_until: Some(at(500)),
    }]);
    registry.set_fleet(Some(FleetSnapshot {
        name: "blue".into(),
        machine: "web-1".into(),
        bus: "tls://bus.example:4222".into(),
        problem: None,
        machines: vec![MachineSnapshot {
            name: "web-2".into(),
            version: "0.1.0".into(),
            last_seen_at: at(98),
            clock_offset_seconds: 0.5,
            clock_behind: true,
        }],
        keys_shared_at: Some(at(97)),
        foreign_messages: 1,
    }));
    registry.set_ordered_certificates(vec![OrderedCertificate {
        name: "b.example.org".into(),
        not_after: Some(at(700)),
        next_try: at(650),
        last_error: Some("order: refused".into()),
        failures: 14,
    }]);
    registry.set_revocation_lists(vec![RevocationListSnapshot {
        service: "web".into(),
        issuer: "CN=Clients".into(),
        entries: 13,
        next_update: Some(at(600)),
        late_at: Some(at(550)),
    }]);
    let service = "web".into();
    registry.set_file_problems(vec![FileProblemSnapshot { service, broken: 1, removed: 2, not_stapled: 3 }]);
    registry.set_key_process(|| KeyProcessSnapshot { answers: true, restarts: 2 });
    registry.reload_succeeded(1);
    times(2, || registry.reload_succeeded(2));
    times(3, || registry.reload_left_out(3, "one file"));
    times(4, || registry.reload_failed("unknown key"));
    let totals = Totals::default();
    totals.written.add(17);
    totals.failed.add(18);
    registry.set_access_log(Arc::new(totals));
}

/// With values for what belongs to this machine and moment.
fn snapshot(registry: &Registry) -> Snapshot {
    let mut snapshot = registry.snapshot();
    snapshot.reload.last_at = Some(at(60));
    snapshot.process = ProcessSnapshot {
        now: at(100),
        started: at(0),
        pid: 4_711,
        version: "0.0.0".into(),
        cpu_seconds: [("worker-0".to_owned(), 1.5)].into(),
        process_cpu_seconds: Some(2.5),
        open_files: Some(50),
        max_files: Some(1_024),
        resident_bytes: Some(41_000_000),
        source_ports: Some((32_768, 60_999)),
        time_wait: Some(9),
    };
    snapshot
}

/// Fails with the first line that differs.
fn is_as_recorded(text: &str, recorded: &str) {
    if let Some((line, (now, before))) =
        text.lines().zip(recorded.lines()).enumerate().find(|(_, (a, b))| a != b)
    {
        panic!("line {}:\n{now}\ninstead of\n{before}", line + 1);
    }
    assert_eq!(text, recorded);
}

#[test]
fn openmetrics_is_as_recorded() {
    let text = Format::OpenMetrics.write(snapshot(&registry()));
    record("openmetrics.txt", &text);
    is_as_recorded(&text, include_str!("recorded/openmetrics.txt"));
}

/// With `HANDFAST_WRITE_RECORDED` set, what is found becomes what is expected.
#[expect(clippy::disallowed_methods, reason = "records what a developer then looks at")]
fn record(file: &str, text: &str) {
    if std::env::var_os("HANDFAST_WRITE_RECORDED").is_some() {
        std::fs::write(format!("src/metrics/recorded/{file}"), text).expect("a checkout");
    }
}

#[test]
fn the_json_is_as_recorded() -> Result<(), impl fmt::Debug> {
    let json = serde_json::to_string_pretty(&snapshot(&registry()))?;
    let json = json + "\n";
    record("snapshot.json", &json);
    is_as_recorded(&json, include_str!("recorded/snapshot.json"));
    Ok::<(), serde_json::Error>(())
}

#[test]
fn counts_for_the_next_process_are_as_recorded() {
    let registry = registry();
    let counts = registry.counts();
    record("counts.txt", &counts[0].1);
    is_as_recorded(&counts[0].1, include_str!("recorded/counts.txt"));
    // A process passes on the counts it received when their process has ended; each line has a place in a snapshot.
    let next = self::registry();
    next.process_ended(1);
    next.receive_counts(2, counts);
    next.process_ended(2);
    let of_two = &next.counts()[0].1;
    record("counts-of-two.txt", of_two);
    is_as_recorded(of_two, include_str!("recorded/counts-of-two.txt"));
}
