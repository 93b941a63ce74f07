//! A fake program, for tests: its numbers are made by the real counters.

#![expect(clippy::disallowed_types, reason = "a test's thread and the listener's share a script")]

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use handfast_net::fault::Cause as SocketCause;

use super::control::{
    BackendOutcome, BackendRefusal, CacheAct, Control, MaintenanceOutcome, MaintenanceRefusal, NotReady,
    OpenOutcome, OrderOutcome, OrderRefusal, Overview, ReloadOutcome, ReloadRefusal, ServiceOverview,
    StillServing,
};
use crate::authorization::RequiredToken;
use handfast_config::model::Maintenance;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::{
    CertificateSnapshot, FailureSnapshot, Limit, Registry, RequestFailureSnapshot, RevocationListSnapshot,
    ServiceMetrics, Snapshot, ThreadMetrics,
};
use handfast_observe::open::{OpenClient, OpenRequest, OpenSnapshot};
use handfast_observe::operator_state::OperatorState;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::record::{Record, StepTimes};
use handfast_observe::request_record::{ConnectionFacts, HttpVersion, RequestRecord, RequestTimes};
use handfast_tls::session::Agreed;

/// Behavior of the fake, and the requests that it received; shared with the test's thread.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) not_ready: Mutex<Option<NotReady>>,
    pub(super) token: Mutex<Option<String>>,
    pub(super) reload_problem: Mutex<Option<ReloadRefusal>>,
    pub(super) reloads: AtomicUsize,
    pub(super) drains: AtomicUsize,
    pub(super) reopens: AtomicUsize,
}

/// The fake program.
pub(super) struct Fake {
    pub(super) script: Arc<Script>,
    pub(super) registry: Arc<Registry>,
}

impl Fake {
    pub(super) fn new(script: Arc<Script>) -> Self {
        Self { script, registry: busy() }
    }
}

impl Control for Fake {
    fn ready(&self) -> Result<(), NotReady> {
        self.script.not_ready.lock().expect("no test panicked").clone().map_or(Ok(()), Err)
    }

    fn has_host(&self, name: &str) -> bool {
        name == "metrics.example.org"
    }

    fn required_token(&self) -> RequiredToken {
        let token = self.script.token.lock().expect("no test panicked").clone();
        token.map_or(RequiredToken::None, |token| RequiredToken::Token(token.into()))
    }

    fn hand_over(&self, _threads: u32) -> Result<(), StillServing> {
        self.ready().map_or(Ok(()), |()| Err(StillServing))
    }

    fn reload(&self) -> ReloadOutcome {
        self.script.reloads.fetch_add(1, Ordering::SeqCst);
        let problem = self.script.reload_problem.lock().expect("no test panicked").clone();
        Box::pin(async move { problem.map_or(Ok("generation 4 is served".into()), Err) })
    }

    fn set_backend(&self, service: String, backend: String, requested: OperatorState) -> BackendOutcome {
        let outcome = match (&*service, &*backend) {
            ("web", "unix:/run/x.sock" | "[::1]:80") => {
                Ok(format!("{backend} is set to {}", requested.name()))
            }
            ("web", _) => Err(BackendRefusal::NoBackend { known: vec!["[::1]:80".into()] }),
            _ => Err(BackendRefusal::NoService { known: vec!["web".into()] }),
        };
        Box::pin(async move { outcome })
    }

    fn set_maintenance(&self, service: String, requested: Option<Maintenance>) -> MaintenanceOutcome {
        let outcome = match (&*service, requested) {
            ("web", Some(requested)) => Ok(requested.in_words()),
            ("web", None) => {
                let configuration = "handfast.toml".to_owned();
                Err(MaintenanceRefusal::ByKey { service, configuration })
            }
            _ => Err(MaintenanceRefusal::NoService { service, known: vec!["web".into()] }),
        };
        Box::pin(async move { outcome })
    }

    fn cache(&self, service: Option<String>, act: CacheAct) -> OrderOutcome {
        let known = service.as_deref().is_none_or(|service| service == "web");
        let unknown = || Err(OrderRefusal::Refused("there is no such cache".into()));
        let outcome = if known { Ok(format!("{service:?} {act:?}")) } else { unknown() };
        Box::pin(async move { outcome })
    }

    fn order(&self, name: String, revokes: bool) -> OrderOutcome {
        let outcome = match &*name {
            "a.example" if revokes => Ok("revoked".to_owned()),
            "a.example" => Ok("ordered".to_owned()),
            _ => Err(OrderRefusal::Refused("no certificate is ordered for this name".into())),
        };
        Box::pin(async move { outcome })
    }

    fn reopen(&self) {
        self.script.reopens.fetch_add(1, Ordering::SeqCst);
    }

    fn drain(&self) {
        self.script.drains.fetch_add(1, Ordering::SeqCst);
    }

    fn overview(&self) -> Overview {
        let service = |name: &str, port: u16, backends: &[&str]| ServiceOverview {
            name: name.into(),
            listen: vec![format!("0.0.0.0:{port}"), format!("[::]:{port}")],
            policy: "modern-2026: TLS 1.2, TLS 1.3".into(),
            client_certificates: "off".into(),
            backends: backends.iter().map(|name| (*name).into()).collect(),
            balance: "round-robin".into(),
            exceptions: vec![],
        };
        let mut overview = Overview {
            configuration: "/etc/handfast/handfast.toml".into(),
            services: vec![
                service("web", 443, &["10.0.0.7:8080", "10.0.0.8:8080"]),
                service("mail", 993, &["/run/imap.sock"]),
            ],
        };
        overview.services[1].client_certificates = "require".into();
        overview
    }

    fn failures(&self) -> Vec<FailureSnapshot> {
        self.registry.failures()
    }

    fn request_failures(&self) -> Vec<RequestFailureSnapshot> {
        self.registry.request_failures()
    }

    fn open(&self) -> OpenOutcome {
        let open = what_is_open();
        Box::pin(async move { open })
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.registry.snapshot();
        // A process of this size is easier to look at than a test's.
        snapshot.process.started = snapshot.process.now - Duration::from_secs(300_000);
        snapshot.process.open_files = Some(1_912);
        snapshot.process.max_files = Some(1_048_576);
        snapshot.process.resident_bytes = Some(41_000_000);
        snapshot.access_log_written = 128_441;
        snapshot.process.cpu_seconds =
            [("worker-0", 512.3), ("worker-1", 498.1), ("control", 3.2), ("access-log", 9.9)]
                .map(|(name, seconds)| (name.to_owned(), seconds))
                .into();
        snapshot
    }
}

/// A registry that has seen some days' work, a few failures of each kind among it.
fn busy() -> Arc<Registry> {
    let registry = Registry::new();
    registry.reload_succeeded(1);
    registry.reload_succeeded(2);
    registry.reload_succeeded(3);
    for name in ["worker-0", "worker-1"] {
        worker(&registry.thread(name));
    }
    let certificate = |service: &str, name: &str, kind: &str, days: u64| CertificateSnapshot {
        service: service.into(),
        name: name.into(),
        kind: kind.into(),
        not_after: SystemTime::now() + Duration::from_secs(days * 86_400 + 600),
        staple_until: (service == "mail").then(|| SystemTime::now() + Duration::from_secs(4 * 86_400)),
    };
    registry.set_certificates(vec![
        certificate("web", "www.example.org", "ECDSA-P256", 71),
        certificate("web", "www.example.org", "RSA-2048", 16),
        certificate("mail", "imap.example.org", "ECDSA-P256", 3),
    ]);
    let in_days = |days: u64| Some(SystemTime::now() + Duration::from_secs(days * 86_400 + 600));
    registry.set_revocation_lists(vec![RevocationListSnapshot {
        service: "web".into(),
        issuer: "CN=Clients of Example".into(),
        entries: 1_204,
        next_update: in_days(6),
        late_at: in_days(4),
    }]);
    registry
}

fn worker(thread: &ThreadMetrics) {
    let micros = Duration::from_micros;
    let kinds: [(&str, &str, Option<&'static str>, u64, u64); 4] = [
        ("TLSv1.3", "X25519MLKEM768", Some("ECDSA-P256"), 900, 410),
        ("TLSv1.3", "X25519", None, 500, 90),
        ("TLSv1.3", "X25519", Some("RSA-2048"), 120, 1_210),
        ("TLSv1.2", "secp256r1", Some("RSA-2048"), 30, 1_300),
    ];
    let web = thread.service("web");
    let backends = [web.backend("10.0.0.7:8080", true), web.backend("10.0.0.8:8080", true)];
    for (version, group, signature, count, crypto) in kinds {
        let resumed = Some(signature.is_none());
        let facts = Agreed {
            version: Some(version),
            group: Some(group),
            signature,
            resumed,
            hello_retry: false,
            ..Agreed::default()
        };
        for round in 0..count {
            let wait = 18_000 + round * 37;
            let seconds = StepTimes {
                hello: micros(wait / 2),
                handshake: micros(crypto + wait + 120),
                handshake_crypto: micros(crypto),
                handshake_wait: micros(wait),
                connect: micros(240),
                relay: micros(900_000),
                close: micros(40),
            };
            web.accepted();
            web.ticket_offered();
            web.handshake(&facts, &seconds);
            web.bytes_to_backend(900);
            web.bytes_to_client(42_000);
            let backend = &backends[usize::from(round % 3 == 0)];
            backend.connected(micros(200 + round % 100));
            if round % 8 != 0 {
                backend.disconnected();
                let (record, reason) = (record(seconds), reason_of(round));
                if reason.cause.is_failure() {
                    thread.failed(&record, &reason);
                }
                web.closed(&record, &reason);
            }
            thread.loop_turn(micros(20 + round % 300));
        }
    }
    requests(&web, thread);
    thread.service("mail").backend("/run/imap.sock", false).connected(micros(31));
    web.refused(Limit::Address);
    backends[1].failed(Cause::Socket(SocketCause::Refused));
    thread.spurious(4);
    thread.tasks(118);
}

/// Requests of clients that send several on a connection, with a few failures.
fn requests(web: &ServiceMetrics, thread: &ThreadMetrics) {
    let micros = Duration::from_micros;
    let facts = ConnectionFacts {
        service: "web".into(),
        generation: 3,
        client: None,
        server_name: None,
        tls_version: Some("TLSv1.3"),
        client_subject: None,
    };
    let facts = Rc::new(facts);
    for round in 0..2_000_u64 {
        let version = if round % 3 == 0 { HttpVersion::Http11 } else { HttpVersion::Http2 };
        let texts = [&b"GET"[..], b"shop.example.org", b"/api/orders?token=secret"];
        let mut record = RequestRecord::new(&facts, version, "1".into(), texts);
        record.route = (round % 4 > 0).then(|| "api".into());
        record.status = Some(match round % 250 {
            1 => 502,
            2..12 => 404,
            20..40 => 304,
            _ => 200,
        });
        record.failure = (record.status == Some(502))
            .then(|| CloseReason::new(Step::Connect, Side::Backend, Cause::Socket(SocketCause::Refused)));
        record.is_reused = record.failure.is_none().then_some(round % 12 != 0);
        record.seconds = RequestTimes {
            queue: Duration::ZERO,
            hello: micros(40),
            connect: if round % 12 == 0 { micros(310) } else { micros(2) },
            answer: micros(1_200 + round * 3),
            relay: micros(500 + round),
        };
        (record.bytes_from_client, record.bytes_to_client) = (120, 9_000);
        web.request_began(version);
        web.content_moved(record.bytes_from_client, record.bytes_to_client);
        web.request(&record);
        thread.request_ended(&record);
        if round % 9 != 0 {
            web.client_connection_reused();
        }
    }
    (0..31).for_each(|_| web.request_began(HttpVersion::Http2));
    (0..4).for_each(|_| web.request_began(HttpVersion::Http11));
    (0..24).for_each(|_| web.pool_kept());
}

/// Requests and clients that are open.
fn what_is_open() -> OpenSnapshot {
    let request = |path: &str, part: &str, seconds: f64| OpenRequest {
        id: "a1".into(),
        service: "web".into(),
        client: Some([192, 0, 2, 7].into()),
        protocol: "h2".into(),
        method: "GET".into(),
        host: Some("shop.example.org".into()),
        path: path.into(),
        route: Some("api".into()),
        backend: Some("10.0.0.7:8080".into()),
        part: part.into(),
        seconds,
        bytes_from_client: 0,
        bytes_to_client: 48_000,
    };
    let client = |last: u8, bytes: u64| OpenClient {
        client: Some([192, 0, 2, last].into()),
        connections: 3,
        requests: 410,
        requests_open: 2,
        bytes_to_backend: 9_000,
        bytes_to_client: bytes,
        oldest_seconds: 812.0,
    };
    OpenSnapshot {
        requests: vec![request("/api/export", "response", 41.5), request("/api/orders", "relay", 0.2)],
        requests_in_all: 35,
        clients: vec![client(7, 88_000_000), client(9, 1_000)],
        clients_in_all: 118,
        missing_workers: 0,
    }
}

fn reason_of(round: u64) -> CloseReason {
    let (step, side, cause) = match round {
        r if r % 90 == 1 => (Step::Relay, Side::Client, Cause::Socket(SocketCause::Reset)),
        r if r % 130 == 2 => (Step::Handshake, Side::Client, Cause::Alert),
        r if r % 200 == 3 => (Step::Hello, Side::Client, Cause::NotTls),
        r if r % 310 == 4 => (Step::Connect, Side::Backend, Cause::Socket(SocketCause::Refused)),
        _ => (Step::Relay, Side::Client, Cause::Finished),
    };
    let detail = (cause == Cause::Alert).then(|| "received fatal alert: UnknownCA".into());
    CloseReason { step, side, cause, detail }
}

fn record(seconds: StepTimes) -> Record {
    let mut record = Record::new((0, "web".into()), 3, Some(([192, 0, 2, 44], 50_123).into()));
    (record.accepted_at, record.seconds) = (UNIX_EPOCH, seconds);
    record
}
