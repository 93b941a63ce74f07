//! A made-up report: realistic enough to look at, awkward enough to test with.
//!
//! In: nothing. Out: sixty seconds of 5,000 transactions a second from two machines, with a pause in second 37, a worker
//! that missed a second, errors, and text that a browser or a spreadsheet would misread if it were not escaped.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use handfast_report::Report;
use handfast_report::both_ends::{BothEnds, Part as TimePart};
use handfast_report::job::Job;
use handfast_report::model::*;
use handfast_report::plan::{Arrivals, Model, Plan, Target, Tls, Work};
use handfast_stats::{Histogram, Random};

/// Seconds of the run.
const SECONDS: u32 = 60;
/// Transactions offered in each.
const OFFERED: u64 = 5_000;

/// The report; the same one each time.
pub(crate) fn report() -> Report {
    static MADE: OnceLock<Report> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

/// The same numbers each time.
struct Dice(Random);

impl Dice {
    /// Even numbers between 0 and 1.
    fn even(&mut self) -> f64 {
        self.0.unit()
    }

    /// Around `median`, with a long tail to the right.
    fn latency(&mut self, median: f64, spread: f64) -> f64 {
        let normal = (0..6).map(|_| self.even()).sum::<f64>() * 1.414 - 4.243;
        let slow = if self.even() < 0.002 { 4.0 + 8.0 * self.even() } else { 1.0 };
        median * (normal * spread).exp() * slow
    }
}

type Histograms = BTreeMap<&'static str, Histogram>;

/// One transaction into a second's histograms.
fn transaction(dice: &mut Dice, second: u32, into: &mut Histograms) {
    let pause = if second == 37 { dice.even() * 180e6 } else { 0.0 };
    let warm = if second < 3 { 1.6 } else { 1.0 };
    let resumed = dice.even() < 0.493;
    let connect = dice.latency(61e3 * warm, 0.25);
    let handshake = dice.latency(if resumed { 410e3 } else { 1_120e3 } * warm, 0.22);
    let first = dice.latency(130e3, 0.3) + pause;
    let exchange = first + dice.latency(18e3, 0.3);
    let lag = dice.latency(9e3, 0.5);
    let kind = if resumed { "handshake-resumed" } else { "handshake-full" };
    let service = connect + handshake + exchange;
    let steps = [("connect", connect), ("handshake", handshake), (kind, handshake), ("first-byte", first)];
    let rest = [("exchange", exchange), ("total", service + lag), ("service", service), ("lag", lag)];
    for (name, nanos) in steps.into_iter().chain(rest) {
        into.entry(name).or_default().record_nanos(nanos as u64);
    }
}

fn make() -> Report {
    let mut dice = Dice(Random::new(11));
    let (mut whole, mut timeline) = (Histograms::new(), Vec::new());
    for second in 0..SECONDS {
        let mut own = Histograms::new();
        let done = if second == 37 { 4_310 } else { OFFERED - (dice.even() * 24.0) as u64 };
        (0..done).for_each(|_| transaction(&mut dice, second, &mut own));
        for (name, histogram) in &own {
            whole.entry(name).or_default().merge(histogram);
        }
        timeline.push(row(&mut dice, second, done, &own));
    }
    let transactions: u64 = timeline.iter().map(|second| second.transactions).sum();
    let failed: u64 = timeline.iter().map(|second| second.failed).sum();
    let order = [
        "connect",
        "handshake",
        "handshake-full",
        "handshake-resumed",
        "first-byte",
        "exchange",
        "total",
        "service",
        "lag",
    ];
    let series: Vec<Series> =
        order.iter().map(|name| of(name, whole.remove(name).unwrap_or_default())).collect();
    Report {
        schema: SCHEMA.into(),
        verdict: verdict(),
        work: "connect, TLS handshake, send 4,096 bytes, receive them back, close".into(),
        manifest: manifest(),
        totals: totals(transactions, failed),
        mix: mix(&series),
        members: members(&series),
        requests: requests(&series),
        errors: errors(failed),
        series,
        timeline,
        stalled: Vec::new(),
        workers: workers(transactions),
        server: Some(ServerUse {
            who: "pid 4711 and its children".into(),
            cpu_seconds: 71.3,
            cpu_ns_per_transaction: 237_900.0,
            resident_bytes: 41_943_040,
        }),
        both_ends: Some(both_ends()),
        kernel: [("TcpExt.TCPTimeouts", 3), ("TcpExt.ListenOverflows", 0), ("Tcp.RetransSegs", 41)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ports: Some(Ports {
            range: 28_232,
            sources: 4,
            destinations: 1,
            capacity: 112_928,
            lasting_rate: Some(1_882.1),
            sentence: "28,232 ports × 4 source addresses ÷ 60 s in TIME_WAIT = 1,882 connections a second sustained"
                .into(),
        }),
        limits: vec![
            Limit { wanted: "handshake.p99=5ms".into(), found: "1.84 ms".into(), held: true },
            Limit { wanted: "errors=0.01%".into(), found: "0.071 %".into(), held: false },
        ],
        search: Some(search()),
        notes: vec![
            "The server's certificate was not verified (--verify off): a client that does costs itself about 90 µs more."
                .into(),
            "In second 37 the target answered nothing for 180 ms.".into(),
        ],
    }
}

fn row(dice: &mut Dice, second: u32, done: u64, own: &Histograms) -> Second {
    let failed = match second {
        37 => 190,
        _ => u64::from(dice.even() < 0.2),
    };
    let cpu = 0.52 + 0.06 * dice.even();
    let figures = |histogram: &Histogram| {
        [("p50", 0.5), ("p99", 0.99)].map(|(name, q)| (name.to_owned(), histogram.quantile_nanos(q))).into()
    };
    Second {
        second,
        transactions: done,
        exchanges: done,
        failed,
        bytes: done * 8_192,
        open: 6 + (dice.even() * 5.0) as u64 + if second == 37 { 640 } else { 0 },
        generator_cpu: cpu,
        busiest_thread: cpu + 0.05 + 0.05 * dice.even(),
        generator_starved: 0.004 + 0.006 * dice.even(),
        generator_paused_ns: 0,
        machine_cpu: cpu + 0.12,
        main: own.get("total").cloned().unwrap_or_default(),
        percentiles_ns: own
            .iter()
            .map(|(name, histogram)| ((*name).to_owned(), figures(histogram)))
            .collect(),
        missing: if second == 41 { vec!["lab-2 \"the slow one\"".into()] } else { Vec::new() },
    }
}

fn of(name: &str, histogram: Histogram) -> Series {
    let percentiles =
        [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
    Series {
        name: name.into(),
        count: histogram.count(),
        min_ns: histogram.min_nanos(),
        mean_ns: histogram.mean_nanos(),
        deviation_ns: histogram.deviation_nanos(),
        percentiles_ns: percentiles.map(|(name, q)| (name.to_owned(), histogram.quantile_nanos(q))).into(),
        max_ns: histogram.max_nanos(),
        histogram,
    }
}

fn verdict() -> Verdict {
    Verdict {
        word: VerdictWord::Valid,
        evidence: vec![
            "Generator threads used 55 % of their CPU, the busiest 64 % at most, and waited for one in 1.0 % of the time."
                .into(),
            "99.77 % of the offered 5,000 transactions a second were begun; half of them within 9.0 µs of their time.".into(),
            "0.071 % of the transactions failed.".into(),
        ],
    }
}

fn manifest() -> Manifest {
    let tls = Tls {
        groups: vec!["X25519".into()],
        server_name: Some("<shop>.example".into()),
        resume: 0.5,
        ..Tls::default()
    };
    let plan = Plan {
        target: Target { host: "<shop>.example".into(), port: 8443, plain: false },
        work: Work::Exchange { send: 4_096, receive: 4_096, echo: true },
        model: Model::open(5_000.0, Arrivals::Poisson),
        tls,
        connections: 1_024,
        duration: Duration::from_secs(60),
        threads: 2,
        seed: 11,
        ..Plan::default()
    };
    let words =
        ["handfast", "load", "<shop>.example:8443", "--rate", "5000", "--resume", "0.5", "--duration", "60s"];
    Manifest {
        program: "handfast 0.1.0".into(),
        binary: "9f2c1a77d0e44b6f8a52c3b1e07d9f6642ab8c01d3e5f7a9b1c2d4e6f8091a2b".into(),
        libraries: [("rustls", "0.23.46"), ("aws-lc-rs", "1.19.0")].map(|(n, v)| (n.into(), v.into())).into(),
        started: "2026-11-21T23:44:26.250Z".into(),
        command: words.map(str::to_owned).into(),
        job: Some(Job::of(plan)),
        seed: 11,
        start_skew_ns: 212_000,
        addresses: vec!["10.0.0.7:8443".into()],
    }
}

fn totals(transactions: u64, failed: u64) -> Totals {
    let seconds = f64::from(SECONDS);
    Totals {
        duration_seconds: seconds,
        rate: transactions as f64 / seconds,
        offered_rate: Some(OFFERED as f64),
        exchange_rate: transactions as f64 / seconds,
        connections: transactions + failed + 64,
        warm_up_connections: 64,
        transactions,
        failed,
        tail: 7,
        exchanges: transactions,
        http_status: BTreeMap::new(),
        sent_bytes: transactions * 4_096,
        received_bytes: transactions * 4_096,
        open: 0,
        queued: 512,
    }
}

fn mix(series: &[Series]) -> Mix {
    let count =
        |name: &str| series.iter().find(|series| series.name == name).map_or(0, |series| series.count);
    let (full, resumed) = (count("handshake-full"), count("handshake-resumed"));
    Mix {
        full,
        resumed,
        without_ticket: 2_034,
        wanted_resumed: 0.5,
        agreed: [("TLSv1.3 TLS13_AES_256_GCM_SHA384 X25519".to_owned(), full + resumed)].into(),
        verification: "not verified, not even the signature (--verify off)".into(),
        ..Mix::default()
    }
}

fn members(series: &[Series]) -> Vec<Member> {
    let of = |name: &str| series.iter().find(|series| series.name == name).cloned();
    let member = |name: &str, share, offered: &str, hello_bytes| Member {
        name: name.into(),
        share,
        offered: offered.into(),
        wanted_resumed: 0.5,
        connections: 149_000,
        transactions: 148_900,
        failed: 100,
        full: 75_000,
        resumed: 74_000,
        hello_bytes,
        agreed: [("TLSv1.3 TLS13_AES_256_GCM_SHA384 X25519".to_owned(), 149_000)].into(),
        handshake: of("handshake"),
        total: None,
    };
    vec![
        member("browsers", 0.8, "TLS 1.3, 1.2; groups X25519MLKEM768, X25519; SNI a.example", 1_532.0),
        member("<b>old</b>", 0.2, "TLS 1.2; groups secp256r1; no SNI", 190.5),
    ]
}

fn requests(series: &[Series]) -> Vec<Request> {
    let request = |method: &str, path: &str, share, body: Option<&str>| Request {
        method: method.into(),
        path: path.into(),
        headers: vec!["authorization: ***".into()],
        body: body.map(str::to_owned),
        share,
        done: 1_000,
        failed: 1,
        http_status: [("2xx".to_owned(), 1_000), ("5xx".to_owned(), 1)].into(),
        exchange: series.iter().find(|series| series.name == "exchange").cloned(),
    };
    let long = format!("/search?q={}", "x".repeat(200));
    vec![request("GET", &long, 0.9, None), request("POST", "/login", 0.1, Some("{\"name\": \"<me>\"}"))]
}

fn errors(failed: u64) -> Vec<ErrorRow> {
    let row = |step: &str, cause: &str, count, examples: &[&str]| ErrorRow {
        step: step.into(),
        cause: cause.into(),
        count,
        examples: examples.iter().map(|example| (*example).to_owned()).collect(),
    };
    vec![
        row("exchange", "deadline", failed - 3, &["read from 10.0.0.7:8443: nothing came in 10 s"]),
        row(
            "handshake",
            "closed",
            2,
            &["handshake with 10.0.0.7:8443: closed by the peer after 1,368 bytes"],
        ),
        row(
            "exchange",
            "wrong-bytes",
            1,
            &["<script>alert(1)</script> & \"more\"\u{1b}[31m came at byte 17"],
        ),
    ]
}

fn workers(transactions: u64) -> Vec<Worker> {
    let machine = |cpu: &str| {
        [
            ("kernel", "6.18.3"),
            ("cpu", cpu),
            ("cores", "2"),
            ("memory", "8 GiB"),
            ("files", "1048576"),
            ("net.ipv4.ip_local_port_range", "32768 60999"),
            ("net.ipv4.tcp_tw_reuse", "2"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    };
    let worker = |name: &str, cpu: f64, offset, error, start| Worker {
        name: name.into(),
        machine: machine("AMD EPYC 7763"),
        threads: 2,
        clock_offset_ns: offset,
        clock_error_ns: error,
        start_error_ns: start,
        transactions: transactions / 2,
        cpu,
        lost: None,
        sums_agree: true,
    };
    vec![
        worker("lab-1", 0.56, 0, 41_000, 101_000),
        worker("lab-2 \"the slow one\"", 0.53, -1_900_000, 88_000, -111_000),
    ]
}

fn search() -> Search {
    let step = |offered_rate: f64, rate: f64, found: &str, held, verdict| SearchStep {
        offered_rate,
        rate,
        found: found.into(),
        held,
        verdict,
    };
    Search {
        bound: "total.p99=10ms".into(),
        highest_rate: Some(7_200.0),
        lowest_failed: Some(7_600.0),
        steps: vec![
            step(4_000.0, 3_999.0, "2.31 ms", true, VerdictWord::Valid),
            step(8_000.0, 7_410.0, "412 ms", false, VerdictWord::TargetLimited),
            step(6_000.0, 5_998.0, "3.90 ms", true, VerdictWord::Valid),
            step(7_200.0, 7_195.0, "8.85 ms", true, VerdictWord::Valid),
            step(7_600.0, 7_390.0, "61.0 ms", false, VerdictWord::TargetLimited),
        ],
    }
}

/// Sample counters of the proxy that was the target.
fn both_ends() -> BothEnds {
    let part = |(name, ns, share): (&str, f64, f64)| TimePart { name: name.to_owned(), ns, share };
    let parts = [
        ("network", 400e3, 0.2),
        ("hello", 20e3, 0.01),
        ("crypto", 300e3, 0.15),
        ("queue", 20e3, 0.01),
        ("connect", 60e3, 0.03),
        ("backend", 900e3, 0.45),
        ("client", 240e3, 0.12),
        ("unexplained", 60e3, 0.03),
    ];
    BothEnds {
        refused: None,
        handshakes: 298_000,
        answers_each: 1.0,
        seen_ns: 2e6,
        parts: parts.map(part).into(),
        explained: 0.97,
        client_wait_ns: 640e3,
        notes: Vec::new(),
    }
}
