//! In: a run of two workers that is made up. Out: that every field of the report says what happened.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use handfast_report::model::VerdictWord;

use super::*;
use crate::cause::{Cause, Step};
use crate::limits::{Bound, Direction};
use crate::outcome::{EarlyEnd, Facts, WorkerEnd};
use crate::plan::{Arrivals, Model, Plan, Tls};
use crate::sample::{Failures, Tally, ThreadUse};

fn samples(millis: u64) -> Histogram {
    let mut histogram = Histogram::new();
    (0..100).for_each(|_| histogram.record(Duration::from_millis(millis)));
    histogram
}

/// One worker's second: 100 transactions of 5 ms; stragglers after the fourth.
fn second(second: u32) -> Interval {
    let tail = if second >= 4 { 100 } else { 0 };
    let tally = Tally {
        connections: if tail == 0 { 100 } else { 0 },
        transactions: 100,
        exchanges: 100,
        failed: 1,
        tail,
        sent: 1_000,
        received: 2_000,
        full: 60,
        resumed: 40,
        warm_up: if second == 0 { 8 } else { 0 },
        without_ticket: 2,
        hello_retry: 1,
        open: 7,
        http_status: [0, 90, 0, 0, 10],
        ..Tally::default()
    };
    let failures = vec![
        Failures { step: Step::Handshake, cause: Cause::Alert, count: 1, examples: vec!["bad".into()] },
        Failures { step: Step::Close, cause: Cause::Reset, count: 3, examples: Vec::new() },
    ];
    let used = |busy| ThreadUse {
        busy_ns: busy,
        starved_ns: 100_000_000,
        wall_ns: 1_000_000_000,
        ..ThreadUse::default()
    };
    Interval {
        second,
        tally,
        series: [(Series::Handshake, samples(2)), (Series::Total, samples(5))].into(),
        failures,
        agreed: [("TLSv1.3 TLS13_AES_128_GCM_SHA256 X25519".to_owned(), 100)].into(),
        threads: vec![used(200_000_000), used(600_000_000)],
        machine: vec![0.5],
        ..Interval::default()
    }
}

fn outcome() -> Outcome {
    let plan = Plan {
        duration: Duration::from_secs(4),
        model: Model::open(200.0, Arrivals::Poisson),
        tls: Tls { resume: 0.5, ..Tls::default() },
        seed: 42,
        ..Plan::default()
    };
    let mut one = Interval::default();
    (0..5).for_each(|at| one.merge_later(&second(at)));
    let mut totals = Interval::default();
    let worker = |name: &str, start_error_ns| {
        let settings = [("net.ipv4.ip_local_port_range".to_owned(), "32768 60999".to_owned())];
        let facts = Facts {
            machine: settings.into(),
            addresses: vec!["192.0.2.1:443".into()],
            threads: 2,
            notes: Vec::new(),
        };
        let kernel = [("TW".to_owned(), 5)].into();
        let end = Some(WorkerEnd { totals: one.clone(), start_error_ns, kernel });
        WorkerOutcome { name: name.into(), facts, end, sums_agree: true, ..WorkerOutcome::default() }
    };
    let workers = vec![worker("a", -20_000), worker("b", 30_000)];
    workers.iter().for_each(|_| totals.merge_parallel(&one));
    let seconds = (0..5).map(|at| {
        let mut merged = Interval { second: at, ..Interval::default() };
        (0..2).for_each(|_| merged.merge_parallel(&second(at)));
        merged
    });
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_304_667);
    Outcome { plan, started, seconds: seconds.collect(), totals, workers, early_end: None }
}

fn circumstances() -> Circumstances {
    let bound = |text, direction| Bound::parse(text, direction).unwrap();
    let limits = vec![bound("total.p99=4ms", Direction::Max), bound("rate=200", Direction::Min)];
    Circumstances {
        program: "handfast 0.1.0".into(),
        command: vec!["handfast".into(), "load".into()],
        job: Job { plan: outcome().plan, limits, ..Job::default() },
        notes: vec!["one more".into()],
        ..Circumstances::default()
    }
}

fn made() -> Report {
    report(&outcome(), circumstances())
}

#[test]
fn totals_count_everything_and_rates_only_the_measured_part() {
    let totals = made().totals;
    assert_eq!((totals.transactions, totals.tail, totals.failed, totals.exchanges), (1_000, 200, 10, 1_000));
    assert!((totals.duration_seconds - 4.0).abs() < 1e-9 && (totals.rate - 200.0).abs() < 1e-9, "{totals:?}");
    assert!(
        (totals.exchange_rate - 200.0).abs() < 1e-9,
        "exchanges of the stragglers are not in it: {totals:?}"
    );
    assert_eq!(totals.offered_rate, Some(200.0));
    assert_eq!((totals.connections, totals.warm_up_connections, totals.open), (816, 16, 14));
    assert_eq!(totals.http_status, [("2xx".to_owned(), 900), ("5xx".to_owned(), 100)].into());
    assert_eq!((totals.sent_bytes, totals.received_bytes), (10_000, 20_000));
}

#[test]
fn the_mix_is_what_was_observed_beside_what_was_wanted() {
    let mix = made().mix;
    assert_eq!((mix.full, mix.resumed, mix.hello_retry, mix.without_ticket), (600, 400, 10, 20));
    assert!((mix.wanted_resumed - 0.5).abs() < 1e-9 && mix.verification.contains("not verified"), "{mix:?}");
    assert_eq!(mix.agreed.values().sum::<u64>(), 1_000);
}

#[test]
fn series_have_their_figures_in_the_order_of_the_path() {
    let series = made().series;
    assert_eq!(series.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["handshake", "total"]);
    let total = &series[1];
    assert_eq!((total.count, total.percentiles_ns.len()), (1_000, 6));
    assert!((4_990_000..5_010_000).contains(&total.percentiles_ns["p99.9"]), "{total:?}");
    assert!((total.mean_ns - 5e6).abs() < 1e4 && total.min_ns <= total.max_ns);
}

#[test]
fn failures_come_most_frequent_first() {
    let errors = made().errors;
    assert_eq!((errors[0].cause.as_str(), errors[0].count), ("reset", 30));
    assert_eq!((errors[1].step.as_str(), errors[1].count, errors[1].examples.len()), ("handshake", 10, 3));
}

#[test]
fn the_timeline_shows_each_second_and_who_was_missing() {
    let mut outcome = outcome();
    outcome.workers[1].missing = vec![2];
    let timeline = report(&outcome, circumstances()).timeline;
    assert_eq!(timeline.len(), 5, "the stragglers' second too");
    let row = &timeline[2];
    assert_eq!((row.transactions, row.failed, row.bytes, row.open), (200, 2, 6_000, 14));
    let figures = [row.generator_cpu, row.busiest_thread, row.generator_starved, row.machine_cpu];
    for (found, meant) in figures.into_iter().zip([0.4, 0.6, 0.1, 0.5]) {
        assert!((found - meant).abs() < 1e-9, "{figures:?}");
    }
    assert_eq!(row.main.count(), 200);
    assert!(row.percentiles_ns["handshake"]["p50"] < row.percentiles_ns["total"]["p99"]);
    assert_eq!((row.missing.clone(), timeline[1].missing.len()), (vec!["b".to_owned()], 0));
}

#[test]
fn the_end_of_a_run_spoils_no_gauge() {
    let mut outcome = outcome();
    // A few milliseconds after the end, in which threads were awake for half of the time.
    for used in &mut outcome.seconds[4].threads {
        *used = ThreadUse { busy_ns: 5_000_000, starved_ns: 0, wall_ns: 5_000_000, ..ThreadUse::default() };
    }
    let timeline = report(&outcome, circumstances()).timeline;
    let gauges = |row: &Second| {
        [row.generator_cpu, row.busiest_thread, row.generator_starved, row.machine_cpu].iter().sum::<f64>()
    };
    assert!(gauges(&timeline[3]) > 1.0 && gauges(&timeline[4]).abs() < 1e-9, "{:?}", timeline[4]);
    assert_eq!(timeline[4].transactions, 200, "what ended in it is still told");
    // Also when it is a piece of the measured part; but a run that has nothing else has that.
    outcome.plan.duration = Duration::from_millis(4_005);
    assert!(gauges(&report(&outcome, circumstances()).timeline[4]).abs() < 1e-9);
    outcome.seconds[0].threads[0].wall_ns = 300_000_000;
    outcome.seconds.truncate(1);
    assert!(gauges(&report(&outcome, circumstances()).timeline[0]) > 0.1);
}

#[test]
fn a_workers_cpu_is_that_of_the_measured_part() {
    let mut outcome = outcome();
    // Ten seconds of waiting for stragglers, in which it slept.
    for worker in &mut outcome.workers {
        for used in &mut worker.end.as_mut().unwrap().totals.threads {
            used.wall_ns += 10_000_000_000;
        }
    }
    // The second worker had twice as much to do.
    for second in &mut outcome.seconds {
        second.threads[2..].iter_mut().for_each(|used| used.busy_ns *= 2);
    }
    let cpu = |outcome: &Outcome| {
        report(outcome, circumstances()).workers.iter().map(|worker| worker.cpu).collect::<Vec<_>>()
    };
    let found = cpu(&outcome);
    assert!((found[0] - 0.4).abs() < 1e-9 && (found[1] - 0.7).abs() < 1e-9, "{found:?}");
    // Lost after the second second: what it did until then.
    outcome.workers[0].missing = vec![2, 3];
    outcome.workers[0].end = None;
    outcome.seconds[2..].iter_mut().for_each(|second| {
        second.threads.drain(..2);
    });
    let found = cpu(&outcome);
    assert!((found[0] - 0.4).abs() < 1e-9 && (found[1] - 0.7).abs() < 1e-9, "{found:?}");
}

#[test]
fn early_data_that_never_happened_is_noted() {
    let mut outcome = outcome();
    assert!(!report(&outcome, circumstances()).notes.iter().any(|note| note.contains("0-RTT")));
    outcome.plan.tls.early_data = true;
    assert_noted(&outcome, &["0-RTT was requested, and 0 of 400 resumed handshakes allowed it"]);
    outcome.totals.tally.early_accepted = 300;
    outcome.totals.tally.early_refused = 60;
    assert_noted(
        &outcome,
        &[
            "0-RTT was requested, and 360 of 400",
            "0-RTT data was refused in 60 of 360 handshakes that offered it",
        ],
    );
    outcome.totals.tally.early_accepted = 340;
    assert!(!report(&outcome, circumstances()).notes.iter().any(|note| note.contains("asked for, and")));
    outcome.totals.tally = Tally { full: 5, ..Tally::default() };
    assert_noted(&outcome, &["0-RTT was requested, and no handshake was resumed"]);
}

#[test]
fn a_search_is_repeated_with_its_own_seed() {
    let mut outcome = outcome();
    outcome.plan.seed = 45;
    assert_eq!(report(&outcome, circumstances()).manifest.seed, 45);
    let search = Circumstances { search: Some(Search::default()), ..circumstances() };
    assert_eq!(report(&outcome, search).manifest.seed, 42, "that of the third step comes from it");
}

#[test]
fn workers_and_kernels_are_reported_and_added() {
    let report = made();
    assert_eq!(report.kernel, [("TW".to_owned(), 10)].into());
    assert_eq!(report.manifest.start_skew_ns, 50_000);
    let worker = &report.workers[0];
    assert_eq!((worker.transactions, worker.threads, worker.start_error_ns), (500, 2, -20_000));
    assert!((worker.cpu - 0.4).abs() < 1e-9);
    let ports = report.ports.unwrap();
    assert!(ports.capacity == 28_232 && ports.sentence.starts_with("on each machine 28,232"), "{ports:?}");
}

#[test]
fn a_lost_worker_has_in_its_row_what_came_from_it() {
    let mut outcome = outcome();
    outcome.workers[0].lost = Some("silent".into());
    outcome.workers[0].end = None;
    outcome.workers[0].delivered = 321;
    let rows = report(&outcome, circumstances()).workers;
    assert_eq!(rows.iter().map(|row| row.transactions).collect::<Vec<_>>(), [321, 500]);
}

#[test]
fn the_manifest_repeats_the_run() {
    let report = made();
    assert_eq!((report.schema.as_str(), report.manifest.seed), (SCHEMA, 42));
    assert_eq!(report.manifest.started, "2026-11-21T23:44:27Z");
    assert_eq!(report.manifest.addresses, ["192.0.2.1"]);
    assert_eq!(report.manifest.binary.len(), 64);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(Job::parse(&json).unwrap(), circumstances().job);
    assert!(report.work.starts_with("connect, TLS handshake"), "{}", report.work);
}

#[test]
fn limits_are_judged_on_the_finished_report() {
    let held: Vec<bool> = made().limits.iter().map(|limit| limit.held).collect();
    assert_eq!(held, [false, true]);
}

#[track_caller]
fn assert_noted(outcome: &Outcome, parts: &[&str]) {
    let notes = report(outcome, circumstances()).notes;
    for part in parts {
        assert!(notes.iter().any(|note| note.contains(part)), "`{part}` in {notes:#?}");
    }
}

#[test]
fn what_a_reader_should_know_is_noted() {
    assert_noted(
        &outcome(),
        &[
            "the certificate was not verified",
            "tickets ran out: 20 handshakes should have resumed and had none, so 40 % were resumed instead of 50 %",
            "before the start, 16 connections went to the target to fill the ticket pool",
            "every byte of the echo was compared",
            "10 handshakes took a HelloRetryRequest",
            "100 of 1,000 HTTP responses were errors (4xx: 0, 5xx: 100)",
            "one more",
        ],
    );
}

#[test]
fn early_ends_and_lost_workers_are_noted() {
    let mut outcome = outcome();
    outcome.early_end = Some(EarlyEnd::Interrupted);
    outcome.plan.duration = Duration::from_secs(60);
    outcome.workers[0].lost = Some("nothing came from it".into());
    outcome.workers[0].missing = vec![3, 4];
    outcome.workers[1].sums_agree = false;
    outcome.workers[1].facts.notes = vec!["no CPU governor".into()];
    assert_noted(
        &outcome,
        &[
            "interrupted after 4.0 s of 60 s",
            "worker a was lost (nothing came from it): from second 3 on the load was 50 % less than planned",
            "nothing came from worker a in 2 seconds",
            "worker b: its final totals are not the sum",
            "b: no CPU governor",
        ],
    );
    outcome.early_end = Some(EarlyEnd::WorkerLost("a".into()));
    outcome.workers[0].sums_agree = false;
    assert_noted(&outcome, &["because worker a was lost"]);
    let notes = report(&outcome, circumstances()).notes;
    assert!(!notes.iter().any(|note| note.contains("worker a: its final totals")), "it had none: {notes:?}");
}

#[test]
fn ports_that_were_nearly_used_up_are_noted() {
    let mut outcome = outcome();
    assert!(!report(&outcome, circumstances()).notes.iter().any(|note| note.contains("used up")));
    outcome.totals.tally.connections = 2 * 25_000;
    assert_noted(&outcome, &["about 25,000 of 28,232 were in TIME_WAIT"]);
}

#[test]
fn a_closed_loop_with_a_latency_limit_is_explained() {
    let mut outcome = outcome();
    outcome.plan.model = Model::Closed;
    assert_noted(&outcome, &["in the closed model nothing starts while the target stalls"]);
    assert_eq!(report(&outcome, circumstances()).totals.offered_rate, None);
}

#[test]
fn verification_is_reported_in_words() {
    let sentence = |verify, server_name: Option<&str>| {
        let mut outcome = outcome();
        outcome.plan.tls.verify = verify;
        outcome.plan.tls.server_name = server_name.map(str::to_owned);
        report(&outcome, circumstances()).mix.verification
    };
    assert!(sentence(Verify::System, Some("a.example")).contains("for a.example against the system's"));
    assert!(
        sentence(Verify::File(PathBuf::from("/ca.pem")), None)
            .contains("for localhost against the authorities in /ca.pem")
    );
}

#[test]
fn nothing_at_all_still_makes_a_report() {
    let nothing = Outcome {
        plan: Plan::default(),
        started: SystemTime::UNIX_EPOCH,
        seconds: Vec::new(),
        totals: Interval::default(),
        workers: Vec::new(),
        early_end: Some(EarlyEnd::Interrupted),
    };
    let report = report(&nothing, Circumstances::default());
    assert_eq!(report.verdict.word, VerdictWord::Errors);
    assert!(report.totals.rate.abs() < 1e-9 && report.ports.is_none());
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(
        serde_json::from_str::<Report>(&json).unwrap(),
        report,
        "every number can be written and read"
    );
}
