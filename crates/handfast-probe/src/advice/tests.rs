//! A made-up report, and what is advised about it and its variations.

use handfast_report::both_ends::{BothEnds, Part, Seen};

use super::*;
use crate::error::{ProbeError, Step};
use crate::page::{Page, model};
use crate::report::{
    AddressReport, AgreedReport, Certificate, Certificates, CloseReport, Failed, Flight, HelloReport,
    HttpReport, Kind, LimitReport, Loss, Party, SCHEMA, Span, Spread, TargetReport, Tickets, Timers, Trips,
    WindowReport,
};

fn spread(p50: f64) -> Spread {
    Spread { count: 20, min: p50, p50, p95: p50 + 1.0, max: p50 + 2.0 }
}

fn kind(appconnect: f64, trips: u32, server: f64) -> Kind {
    Kind {
        count: 20,
        as_asked: 20,
        timers: Timers {
            namelookup: spread(1.4),
            connect: spread(22.0),
            appconnect: spread(appconnect),
            pretransfer: Some(spread(appconnect)),
            starttransfer: Some(spread(appconnect + 27.0)),
            total: Some(spread(appconnect + 28.0)),
        },
        round_trips: Trips {
            connect: 1,
            starttls: 0,
            handshake: trips,
            window: trips - 1,
            nagle: 0,
            request: Some(1),
        },
        handshake_ms: spread(appconnect - 22.0),
        server_ms: spread(server),
        own_ms: spread(1.4),
        server_known_by: "acknowledgement",
        flights: vec![
            Flight {
                bytes: 14_232,
                segments: 10,
                held_by_window: false,
                held_by_nagle: false,
                after_pause: false,
            },
            Flight {
                bytes: 3_902,
                segments: 3,
                held_by_window: true,
                held_by_nagle: false,
                after_pause: false,
            },
        ],
    }
}

fn parts() -> Vec<Span> {
    vec![
        Span {
            row: "DNS",
            who: Party::Network,
            from_ms: 0.0,
            to_ms: 1.4,
            what: "the name becomes addresses".into(),
        },
        Span { row: "TCP", who: Party::Network, from_ms: 1.4, to_ms: 22.0, what: "SYN, SYN-ACK".into() },
        Span { row: "TLS", who: Party::Server, from_ms: 32.0, to_ms: 59.0, what: "the server works".into() },
        Span { row: "TLS", who: Party::Client, from_ms: 90.0, to_ms: 91.7, what: "keys <>".into() },
    ]
}

fn kept() -> KeepAlive {
    KeepAlive {
        bound_ms: 60_000.0,
        idle_ms: Some(2_000.0),
        idle_ended_by: "fin",
        requests: 100,
        requests_ended: true,
        announced: true,
    }
}

/// A server with an RSA-4096 key and a chain that is too long.
pub(crate) fn sample() -> Report {
    let certificate = |key: &str, self_issued| Certificate {
        bytes: 5_420,
        subject: "CN=shop.example.net".into(),
        key: key.into(),
        not_before: "2026-10-01".into(),
        not_after: "2026-12-30".into(),
        days_left: 39,
        names: 41,
        self_issued,
        weakness: None,
    };
    let chain =
        vec![certificate("RSA-4096", false), certificate("RSA-4096", false), certificate("RSA-4096", true)];
    let error =
        ProbeError::new(Step::Connect, "refused", "connect: connect: refused").hint("nothing listens there");
    let mut report = Report {
        schema: SCHEMA,
        program: "handfast 0".into(),
        started: "2026-11-23T04:00:00Z".into(),
        target: TargetReport {
            name: "shop.example.net:443".into(),
            server_name: Some("shop.example.net".into()),
            address: "203.0.113.7".into(),
            starttls: None,
        },
        addresses: vec![
            AddressReport {
                address: "203.0.113.7".into(),
                connect_ms: Some(20.6),
                appconnect_ms: Some(90.3),
                ..AddressReport::default()
            },
            AddressReport {
                address: "203.0.113.8".into(),
                connect_ms: Some(20.6),
                takes_tickets_of_first: Some(true),
                ..AddressReport::default()
            },
            AddressReport {
                address: "2001:db8:1234:5678::1".into(),
                error: Some(error.clone()),
                ..AddressReport::default()
            },
        ],
        agreed: AgreedReport {
            version: Some("TLSv1.3"),
            suite: Some("TLS_AES_128_GCM_SHA256"),
            group: Some("X25519MLKEM768"),
            signature: Some("rsa_pss_rsae_sha256"),
            alpn: Some("http/1.1".into()),
            hello_retry: false,
            post_quantum: true,
        },
        runs: 20,
        failures: vec![Failed { count: 1, error }],
        full: kind(91.7, 2, 27.1),
        resumed: Some(kind(46.9, 1, 2.2)),
        early: None,
        rtt_ms: spread(20.6),
        hello: HelloReport { bytes: 1_741, segments: 2 },
        window: WindowReport { segment: 1_448, first_bytes: 14_232, first_segments: 10, full: true },
        certificates: Certificates {
            bytes: 16_260,
            chain,
            staple_bytes: 471,
            demands_staple: false,
            trusted: Some(true),
            why_not: None,
        },
        tickets: Tickets {
            count: 2,
            lifetime_seconds: Some(7_200),
            early_data_bytes: 16_384,
            offered: 20,
            taken: 20,
        },
        close: CloseReport { close_notify: true, ended_by: "fin", after_our_fin: false },
        http: Some(HttpReport {
            status: 200,
            body_bytes: 900,
            reused: true,
            again_ms: spread(21.0),
            server_ms: spread(6.0),
            kept: Some(kept()),
            ..HttpReport::default()
        }),
        loss: Loss::default(),
        advice: Vec::new(),
        notes: Vec::new(),
        limits: vec![LimitReport { bound: "appconnect=60ms".into(), found_ms: Some(91.7), held: false }],
        page: None,
        waterfall: parts(),
        local: Some("192.0.2.1:40000".parse().expect("an address")),
        wire: Some(crate::capture::tests::wire()),
        both_ends: Some(both_ends()),
        seen: Seen::default(),
    };
    report.page = Some(model(&Page { resources: 10, bytes: 40 << 10 }, &report));
    (report.advice, report.notes) = advice(&report);
    report
}

fn both_ends() -> BothEnds {
    BothEnds { parts: vec![Part { name: "network".into(), ns: 15e6, share: 0.75 }], ..BothEnds::default() }
}

fn topics(report: &Report) -> Vec<&'static str> {
    advice(report).0.iter().map(|advice| advice.topic).collect()
}

#[test]
fn the_greatest_saving_comes_first() {
    let mut report = sample();
    report.addresses.truncate(2);
    assert_eq!(topics(&report), ["rsa", "initial-window"]);
    let (advice, _) = advice(&report);
    assert!(
        (advice[0].saves_ms - 24.7).abs() < 0.01 && (advice[1].saves_ms - 20.6).abs() < 0.01,
        "{advice:?}"
    );
    assert!(advice[1].evidence.contains("14,232 bytes came in 10 segments"), "{advice:?}");
    assert!(advice[1].what.contains("initcwnd 14"), "{advice:?}");
    for one in sample().advice {
        crate::explain::explain(one.topic).expect("each has its explanation");
    }
}

#[test]
fn each_cause_has_its_own_word() {
    let good = || {
        let mut report = sample();
        report.addresses.truncate(1);
        report.full = kind(43.0, 1, 0.4);
        report.resumed = Some(kind(42.0, 1, 0.3));
        report.window.full = false;
        report.certificates.chain[0].key = "ECDSA-P256".into();
        report
    };
    assert_eq!(topics(&good()), [""; 0]);
    type Change = fn(&mut Report);
    let all: [(&str, Change); 11] = [
        ("tls13", |report| {
            report.agreed.version = Some("TLSv1.2");
            report.full.round_trips = Trips { handshake: 2, window: 0, ..report.full.round_trips };
        }),
        ("hello-retry", |report| report.agreed.hello_retry = true),
        ("nagle", |report| {
            report.full.round_trips = Trips { handshake: 2, nagle: 1, ..report.full.round_trips };
            report.full.flights[1].held_by_nagle = true;
        }),
        ("think-time", |report| report.full.server_ms = spread(8.0)),
        ("early-termination", |report| {
            report.full.server_ms = spread(40.2);
            report.resumed = Some(kind(80.0, 1, 40.0));
        }),
        ("resumption", |report| report.resumed = None),
        ("resumption", |report| report.tickets.taken = 10),
        ("keep-alive", |report| report.http = Some(HttpReport::default())),
        ("loss", |report| report.loss.retransmitted = 3),
        ("dns", |report| report.full.timers.namelookup = spread(90.0)),
        ("starttls", |report| report.full.round_trips.starttls = 3),
    ];
    for (topic, change) in all {
        let mut report = good();
        change(&mut report);
        assert_eq!(topics(&report), [topic]);
        crate::explain::explain(topic).expect("each has its explanation");
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_a_note() {
    let advice_for = |change: fn(&mut Report)| {
        let mut report = sample();
        change(&mut report);
        let (_, notes) = advice(&report);
        notes.iter().filter(|note| !note.good).map(|note| note.what.clone()).collect::<Vec<_>>().join("\n")
    };
    assert!(advice_for(|_| {}).contains("root certificate"));
    assert!(advice_for(|report| report.certificates.chain[0].days_left = -3).contains("expired 3 days ago"));
    assert!(advice_for(|report| report.certificates.chain[0].days_left = 9).contains("expires in 9 days"));
    assert!(advice_for(|report| report.certificates.trusted = None).contains("not verified"));
    let status = |status: u16| {
        let mut report = sample();
        report.http = Some(HttpReport { status, ..HttpReport::default() });
        let (advice, notes) = advice(&report);
        let topics = advice.iter().filter(|one| one.topic == "keep-alive").count();
        (
            topics,
            notes
                .iter()
                .filter(|note| note.what.contains("answered with status"))
                .map(|note| note.what.clone())
                .collect::<String>(),
        )
    };
    assert_eq!(status(200), (1, String::new()), "a connection that ends after a response");
    for (code, cure) in [(421, "with --sni, or in the URL"), (404, "name a path that the server has")] {
        let (topics, note) = status(code);
        assert!(
            topics == 0 && note.contains(&format!("status {code}: ")) && note.contains(cure),
            "{code}: {topics} {note}"
        );
    }
    assert!(
        advice_for(|report| report.certificates.demands_staple = true).contains("root certificate"),
        "one came"
    );
    let without = |report: &mut Report| {
        (report.certificates.demands_staple, report.certificates.staple_bytes) = (true, 0);
    };
    assert!(advice_for(without).contains("must-staple"));
    assert!(advice_for(|report| report.close.ended_by = "reset").contains("TCP reset"));
    assert!(advice_for(|report| report.close.close_notify = false).contains("without close_notify"));
}

#[test]
fn how_long_a_connection_is_kept_is_a_note() {
    let advice_for = |change: fn(&mut KeepAlive)| {
        let mut report = sample();
        change(report.http.as_mut().and_then(|http| http.kept.as_mut()).expect("it was tried"));
        let (_, notes) = advice(&report);
        notes.into_iter().filter(|note| note.what.contains("connection is")).collect::<Vec<_>>()
    };
    let all = |notes: &[Note]| notes.iter().map(|note| note.good).collect::<Vec<_>>();
    let short = advice_for(|_| {});
    assert!(short[0].what.contains("kept for 2.00 s, then ended by fin"), "{short:?}");
    assert!(
        short[1].what.contains("kept for 100 requests, and the last response announces its end"),
        "{short:?}"
    );
    assert_eq!(all(&short), [false, true]);
    assert_eq!(all(&advice_for(|kept| kept.idle_ms = Some(5_000.0))), [true, true]);
    assert_eq!(all(&advice_for(|kept| kept.requests = 99)), [false, false]);
    let unsaid = advice_for(|kept| kept.announced = false);
    assert!(!unsaid[1].good && unsaid[1].what.contains("does not announce it"), "{unsaid:?}");
    let open = advice_for(|kept| (kept.idle_ms, kept.requests_ended) = (None, false));
    assert!(
        open[0].what.contains("still open after 60.0 s") && open[1].what.contains("still open"),
        "{open:?}"
    );
}
