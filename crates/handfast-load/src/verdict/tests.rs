//! In: runs that are made up, each with one thing wrong. Out: the word for it, and its evidence.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use handfast_stats::Histogram;

use super::*;
use crate::cause::{Cause, Step};
use crate::outcome::{EarlyEnd, Facts, WorkerEnd, WorkerOutcome};
use crate::plan::Plan;
use crate::sample::{Interval, Tally, ThreadUse};

mod blame;
mod pauses;

/// A run of ten seconds: so many transactions in each, two threads with so much to do.
struct Made {
    plan: Plan,
    per_second: u64,
    busy: f64,
    starved: f64,
    lag: Duration,
    service: Duration,
    address: &'static str,
    kernel: BTreeMap<String, i64>,
    failures: Vec<(Step, Cause, u64)>,
    queued: u64,
    machine: f64,
}

fn closed() -> Made {
    Made {
        plan: Plan::default(),
        per_second: 1_000,
        busy: 0.4,
        starved: 0.01,
        lag: Duration::from_micros(50),
        service: Duration::from_millis(2),
        address: "192.0.2.1:8443",
        kernel: BTreeMap::new(),
        failures: Vec::new(),
        queued: 0,
        machine: 0.5,
    }
}

fn open() -> Made {
    Made { plan: with_model(Model::open(1_000.0, Arrivals::Poisson)), ..closed() }
}

fn with_model(model: Model) -> Plan {
    Plan { model, ..Plan::default() }
}

fn samples(count: u64, each: Duration) -> Histogram {
    let mut histogram = Histogram::new();
    (0..count).for_each(|_| histogram.record(each));
    histogram
}

impl Made {
    fn second(&self, second: u32) -> Interval {
        let part = |share: f64| (share * 1e9) as u64;
        let thread = |factor: f64| ThreadUse {
            busy_ns: part(self.busy * factor),
            starved_ns: part(self.starved * factor),
            wall_ns: 1_000_000_000,
            ..ThreadUse::default()
        };
        let tally = Tally {
            connections: self.per_second,
            transactions: self.per_second,
            exchanges: self.per_second,
            full: self.per_second,
            ..Tally::default()
        };
        let series = [
            (Series::Lag, samples(self.per_second, self.lag)),
            (Series::Service, samples(self.per_second, self.service)),
            (Series::Total, samples(self.per_second, self.service + self.lag)),
        ];
        let threads = vec![thread(0.5), thread(1.0)];
        Interval {
            second,
            tally,
            series: series.into(),
            threads,
            machine: vec![self.machine],
            ..Interval::default()
        }
    }

    fn outcome(self) -> Outcome {
        let mut seconds: Vec<Interval> = (0..10).map(|second| self.second(second)).collect();
        let last = &mut seconds[9];
        last.tally.queued = self.queued;
        for (step, cause, count) in &self.failures {
            last.tally.failed += count;
            last.failures.push(Failures {
                step: *step,
                cause: *cause,
                count: *count,
                examples: vec![format!("an example of {}", cause.name())],
            });
        }
        made_of(self.plan, seconds, self.address, self.kernel)
    }

    fn judged(self) -> Verdict {
        judge(&self.outcome(), None)
    }
}

fn made_of(plan: Plan, seconds: Vec<Interval>, address: &str, kernel: BTreeMap<String, i64>) -> Outcome {
    let mut totals = Interval::default();
    seconds.iter().for_each(|second| totals.merge_later(second));
    let facts = Facts { addresses: vec![address.to_owned()], threads: 2, ..Facts::default() };
    let end = WorkerEnd { totals: totals.clone(), start_error_ns: 0, kernel };
    let worker = WorkerOutcome { facts, end: Some(end), sums_agree: true, ..WorkerOutcome::default() };
    Outcome { plan, started: SystemTime::UNIX_EPOCH, seconds, totals, workers: vec![worker], early_end: None }
}

#[track_caller]
fn assert_says(verdict: &Verdict, word: VerdictWord, part: &str) {
    assert_eq!(verdict.word, word, "{verdict:?}");
    assert!(verdict.evidence.iter().any(|line| line.contains(part)), "`{part}` in {verdict:#?}");
}

#[test]
fn a_quiet_run_is_valid_and_reports_the_reason() {
    let verdict = closed().judged();
    assert_says(&verdict, VerdictWord::Valid, "its busiest thread was busy 40 % of the time");
    assert_says(&verdict, VerdictWord::Valid, "none of 10,000 transactions failed");
    assert_says(
        &open().judged(),
        VerdictWord::Valid,
        "100 % of the offered rate was reached (1,000/s of 1,000/s); schedule lag p99 50",
    );
}

#[test]
fn a_closed_loop_that_waits_for_a_cpu_measures_the_machine() {
    let verdict = Made { busy: 0.3, starved: 0.4, ..closed() }.judged();
    assert_says(&verdict, VerdictWord::GeneratorLimited, "had to wait for a CPU");
    assert_eq!(Made { busy: 0.3, starved: 0.1, ..closed() }.judged().word, VerdictWord::Valid);
}

#[test]
fn a_closed_loop_without_a_pause_measures_itself() {
    let verdict = Made { busy: 0.98, starved: 0.0, ..closed() }.judged();
    assert_says(&verdict, VerdictWord::GeneratorLimited, "the generator's own");
    assert!(!verdict.evidence.iter().any(|line| line.contains("wanted a CPU")), "{verdict:?}");
    assert_eq!(Made { busy: 0.96, starved: 0.0, ..closed() }.judged().word, VerdictWord::Valid);
}

#[test]
fn starvation_is_named_and_so_is_who_took_the_cpu() {
    let shared = Made { busy: 0.6, starved: 0.39, address: "127.0.0.1:8443", ..closed() }.judged();
    assert_says(
        &shared,
        VerdictWord::GeneratorLimited,
        "for 39 % of the time it waited for a CPU: the target",
    );
    let alone = Made { busy: 0.6, starved: 0.39, ..closed() }.judged();
    assert_says(&alone, VerdictWord::GeneratorLimited, "something else on its machine");
}

#[test]
fn lateness_of_a_busy_thread_is_the_generators() {
    let late = Duration::from_millis(41);
    let verdict = Made { busy: 0.95, lag: late, ..open() }.judged();
    assert_says(&verdict, VerdictWord::GeneratorLimited, "schedule lag p99 41");
    assert_says(&verdict, VerdictWord::GeneratorLimited, "was almost never idle (busy 95 %");
    assert_eq!(Made { busy: 0.95, ..open() }.judged().word, VerdictWord::Valid, "busy and in time is good");
    let slow_service =
        Made { busy: 0.95, lag: Duration::from_millis(9), service: Duration::from_millis(100), ..open() };
    assert_eq!(slow_service.judged().word, VerdictWord::Valid, "a tenth of the service time is nothing");
}

#[test]
fn one_saturated_second_of_many_is_found() {
    let made = open();
    let mut seconds: Vec<Interval> = (0..10).map(|second| made.second(second)).collect();
    seconds[5] = Made { busy: 0.99, lag: Duration::from_millis(30), ..open() }.second(5);
    let verdict = judge(&made_of(made.plan, seconds, "192.0.2.1", BTreeMap::new()), None);
    assert_says(&verdict, VerdictWord::GeneratorLimited, "in 1 second of the 8 seconds examined (the first");
}

#[test]
fn lateness_of_an_idle_generator_is_reported_or_judged_by_its_size() {
    let verdict = Made { lag: Duration::from_millis(3), ..open() }.judged();
    assert_says(&verdict, VerdictWord::Valid, "the lag is noticeable");
    let judged = Made { lag: Duration::from_millis(30), ..open() }.judged();
    assert_says(&judged, VerdictWord::GeneratorLimited, "the machine or its hypervisor delayed them");
    let waiting = Made { lag: Duration::from_millis(30), queued: 5_000, ..open() }.judged();
    assert_says(
        &waiting,
        VerdictWord::TargetLimited,
        "5,000 of 10,000 arrivals (50 %) waited because 32 connections",
    );
}

#[test]
fn a_target_that_takes_less_than_is_offered_is_its_limit() {
    let kernel = BTreeMap::from([("ListenOverflows".to_owned(), 295), ("TCPSynRetrans".to_owned(), 300)]);
    let verdict = Made { per_second: 800, kernel, ..open() }.judged();
    assert_says(&verdict, VerdictWord::TargetLimited, "1,000/s were offered and 800/s were handled (80 %)");
    assert_says(
        &verdict,
        VerdictWord::TargetLimited,
        "295 connections found a listener's queue full (ListenOverflows)",
    );
    assert_says(&verdict, VerdictWord::TargetLimited, "the generator had spare capacity");
    let blamed = Made { per_second: 800, busy: 0.99, lag: Duration::from_millis(50), ..open() }.judged();
    assert_eq!(
        blamed.word,
        VerdictWord::GeneratorLimited,
        "no target is blamed by a generator that was late itself"
    );
}

/// Two workers; nothing came from the second one from second 4 on.
fn half_lost(early_end: Option<EarlyEnd>) -> Outcome {
    let made = open();
    let second = |at| Made { per_second: if at < 4 { 1_000 } else { 500 }, ..open() }.second(at);
    let mut outcome = made_of(made.plan, (0..10).map(second).collect(), "192.0.2.1", BTreeMap::new());
    let gone = WorkerOutcome {
        name: "w2".into(),
        lost: Some("nothing came from it for 2.5 s".into()),
        missing: vec![1, 4, 5, 6, 7, 8, 9],
        ..WorkerOutcome::default()
    };
    outcome.workers.push(gone);
    outcome.early_end = early_end;
    outcome
}

#[test]
fn a_lost_worker_is_no_fault_of_the_target() {
    let ended = Some(EarlyEnd::WorkerLost("w2".into()));
    for outcome in [half_lost(None), half_lost(ended)] {
        let verdict = judge(&outcome, None);
        assert_eq!(verdict.word, VerdictWord::GeneratorLimited, "{verdict:?}");
        assert!(
            verdict.evidence[0]
                .starts_with("a part of the generator was lost, 1 of 2 workers, and with it 50 % of"),
            "{verdict:?}"
        );
        assert_says(
            &verdict,
            VerdictWord::GeneratorLimited,
            "w2 was lost from second 4 on: nothing came from it",
        );
        assert!(!verdict.evidence.iter().any(|line| line.contains("were offered")), "{verdict:?}");
    }
    // Half of the last six seconds was not offered.
    let offered = View::of(&half_lost(None)).offered_rate().unwrap();
    assert!((offered - 700.0).abs() < 1e-6, "{offered}");
    let reached = View::of(&half_lost(None)).ended() / View::of(&half_lost(None)).expected().unwrap();
    assert!((0.99..1.01).contains(&reached), "what the others were asked for they did: {reached}");
}

#[test]
fn a_lost_bus_is_not_valid() {
    let mut outcome = closed().outcome();
    outcome.workers[0].lost = Some("the bus 127.0.0.1:4222 was lost".into());
    outcome.workers[0].end = None;
    outcome.early_end = Some(EarlyEnd::WorkerLost("w1".into()));
    let verdict = judge(&outcome, None);
    assert_says(&verdict, VerdictWord::GeneratorLimited, "the only worker was lost");
    assert_says(
        &verdict,
        VerdictWord::GeneratorLimited,
        "after its last second: the bus 127.0.0.1:4222 was lost",
    );
    let mut five = outcome.clone();
    five.workers = vec![outcome.workers[0].clone(); 5];
    let verdict = judge(&five, None);
    assert_says(&verdict, VerdictWord::GeneratorLimited, "all 5 workers were lost");
    assert_says(&verdict, VerdictWord::GeneratorLimited, "and 2 workers more");
    five.seconds.clear();
    five.totals = Interval::default();
    let verdict = judge(&five, None);
    assert_eq!(verdict.word, VerdictWord::GeneratorLimited);
    assert!(!verdict.evidence.iter().any(|line| line.contains("0 failed")), "{verdict:?}");
}

/// This number of closes that ended with `cause`, of 10,000, and no transaction that failed.
fn badly_closed(close: Close, cause: Cause, count: u64) -> Verdict {
    let mut outcome = Made { plan: Plan { close, ..Plan::default() }, ..closed() }.outcome();
    let failures = Failures { step: Step::Close, cause, count, examples: vec!["slow".into()] };
    outcome.totals.failures.push(failures);
    judge(&outcome, None)
}

#[test]
fn a_target_that_never_ends_is_reported() {
    let verdict = badly_closed(Close::Server, Cause::Deadline, 10_000);
    assert_eq!(verdict.word, VerdictWord::Errors, "{verdict:?}");
    assert!(
        verdict.evidence[0].starts_with(
            "100 % of the connections could not be closed as --close server says: 10,000 times deadline"
        ),
        "{verdict:?}"
    );
    assert!(verdict.evidence[0].contains("with --close notify we end them"), "{verdict:?}");
    assert_eq!(verdict.evidence.len(), 1, "said once: {verdict:?}");
    assert_eq!(badly_closed(Close::Notify, Cause::Deadline, 5_000).word, VerdictWord::Errors);
    let some = badly_closed(Close::Server, Cause::Deadline, 100);
    assert_says(&some, VerdictWord::Valid, "1.0 % of the connections could not be closed");
    let few = badly_closed(Close::Server, Cause::Deadline, 99);
    assert!(!few.evidence.iter().any(|line| line.contains("could not be closed")), "{few:?}");
}

#[test]
fn a_reset_after_our_own_end_is_reported_and_harms_nothing() {
    let verdict = badly_closed(Close::Notify, Cause::Reset, 10_000);
    assert_says(
        &verdict,
        VerdictWord::Valid,
        "100 % of the connections could not be closed as --close notify says",
    );
    assert_eq!(badly_closed(Close::Server, Cause::Reset, 10_000).word, VerdictWord::Errors);
}

#[test]
fn our_own_bound_comes_before_the_targets() {
    let plan = Plan { connections: 1, ..open().plan };
    let verdict = Made { plan, per_second: 800, queued: 4_000, ..open() }.judged();
    assert_eq!(verdict.word, VerdictWord::TargetLimited);
    assert!(
        verdict.evidence[0]
            .starts_with("4,000 of 8,000 arrivals (50 %) waited because 1 connection was in use: a faster")
            && verdict.evidence[0]
                .contains("more of them (--connections) help if the target can handle more at the same time"),
        "{verdict:?}"
    );
    assert!(verdict.evidence[1].contains("were offered"), "{verdict:?}");
}

#[test]
fn growing_latencies_are_reported_only_when_they_grew() {
    let flat = Made { per_second: 800, ..open() }.judged();
    assert!(!flat.evidence.iter().any(|line| line.contains("grew")), "{flat:?}");
    let second = |at: u32| {
        let service = Duration::from_millis(10 + 10 * u64::from(at));
        Made { per_second: 800, service, ..open() }.second(at)
    };
    let growing = made_of(open().plan, (0..10).map(second).collect(), "", BTreeMap::new());
    assert_says(
        &judge(&growing, None),
        VerdictWord::TargetLimited,
        "the latencies grew with the length of the run: total p50 was 20",
    );
}

#[test]
fn sentences_have_the_figures_of_the_headline() {
    // A slow start, which the decision leaves out.
    let slow_start = |per_second: u64| {
        let second = |at| Made { per_second: if at == 0 { 200 } else { per_second }, ..open() }.second(at);
        judge(&made_of(open().plan, (0..10).map(second).collect(), "", BTreeMap::new()), None)
    };
    assert_says(
        &slow_start(1_000),
        VerdictWord::Valid,
        "92 % of the offered rate was reached (920/s of 1,000/s; without the first and the last second, and with what was \
         still under way: 100 %)",
    );
    assert_says(
        &slow_start(800),
        VerdictWord::TargetLimited,
        "1,000/s were offered and 740/s were handled (74 %; without the first and the last second, and with what was still \
         under way: 80 %)",
    );
}

#[test]
fn chance_is_no_shortage() {
    let rate = |rate, arrivals| with_model(Model::open(rate, arrivals));
    let few = |arrivals| Made { plan: rate(10.0, arrivals), per_second: 8, ..open() }.judged().word;
    assert_eq!(few(Arrivals::Poisson), VerdictWord::Valid, "64 of 80 are within what chance does");
    assert_eq!(few(Arrivals::Fixed), VerdictWord::TargetLimited);
}

#[test]
fn what_is_under_way_is_not_missing() {
    // A rate of 1,000/s and a service time of four seconds: nothing ends in the first four seconds.
    let made = Made { service: Duration::from_secs(4), ..open() };
    let mut seconds: Vec<Interval> = (0..10).map(|second| made.second(second)).collect();
    for second in &mut seconds[..4] {
        second.tally.transactions = 0;
    }
    let verdict = judge(&made_of(made.plan, seconds, "192.0.2.1", BTreeMap::new()), None);
    assert_eq!(verdict.word, VerdictWord::Valid, "{verdict:?}");
}

#[test]
fn a_ramp_says_where_it_fell_behind() {
    let plan = with_model(Model::ramp(0.0, 10_000.0, Arrivals::Fixed));
    let made = Made { plan: plan.clone(), service: Duration::from_micros(100), ..open() };
    let keeping_up = |limit: u64| {
        let seconds = (0..10_u64).map(|second| {
            Made { per_second: (second * 1_000 + 500).min(limit), ..open_like(&made) }.second(second as u32)
        });
        judge(&made_of(plan.clone(), seconds.collect(), "192.0.2.1", BTreeMap::new()), None)
    };
    assert_eq!(keeping_up(u64::MAX).word, VerdictWord::Valid);
    assert_says(&keeping_up(5_000), VerdictWord::TargetLimited, "it fell behind in second 5, at 5,500/s");
}

fn open_like(made: &Made) -> Made {
    Made { plan: made.plan.clone(), service: made.service, ..open() }
}

#[test]
fn failures_from_one_per_cent_on_are_errors() {
    let with = |failures| Made { failures, ..closed() }.judged();
    let verdict = with(vec![(Step::Handshake, Cause::Alert, 90), (Step::Connect, Cause::Refused, 20)]);
    assert_says(&verdict, VerdictWord::Errors, "1.1 % of the transactions failed (110 of 10,110)");
    assert!(
        verdict.evidence[1].starts_with("handshake alert: 90 times, for instance: an example"),
        "{verdict:?}"
    );
    assert_says(
        &with(vec![(Step::Handshake, Cause::Alert, 90)]),
        VerdictWord::Valid,
        "90 transactions failed (0.89 %)",
    );
}

#[test]
fn nothing_at_all_is_an_error() {
    let verdict =
        Made { per_second: 0, failures: vec![(Step::Connect, Cause::Refused, 7)], ..closed() }.judged();
    assert_says(&verdict, VerdictWord::Errors, "no transaction succeeded; 7 failed");
    let empty = made_of(Plan::default(), Vec::new(), "", BTreeMap::new());
    assert_eq!(judge(&empty, None).word, VerdictWord::Errors);
}

#[test]
fn idle_connections_need_not_end() {
    let made =
        Made { plan: Plan { work: Work::Idle { send: 0, receive: 0 }, ..Plan::default() }, ..closed() };
    let mut seconds: Vec<Interval> = (0..10).map(|second| made.second(second)).collect();
    seconds.iter_mut().for_each(|second| second.tally.transactions = 0);
    assert_eq!(judge(&made_of(made.plan, seconds, "", BTreeMap::new()), None).word, VerdictWord::Valid);
}

#[test]
fn ports_that_ran_out_come_before_everything() {
    let ports = Ports { sentence: "28,232 source ports".into(), ..Ports::default() };
    let outcome = |failures| Made { failures, ..closed() }.outcome();
    let verdict = judge(&outcome(vec![(Step::Connect, Cause::OutOfPorts, 3)]), Some(&ports));
    assert_says(
        &verdict,
        VerdictWord::PortLimited,
        "3 connections could not be opened because no source port was free",
    );
    assert_says(&verdict, VerdictWord::PortLimited, "28,232 source ports");
    let many = judge(&outcome(vec![(Step::Connect, Cause::OutOfPorts, 5_000)]), Some(&ports));
    assert_says(&many, VerdictWord::PortLimited, "% of the transactions failed");
    let beside = outcome(vec![(Step::Connect, Cause::OutOfPorts, 3), (Step::Handshake, Cause::Reset, 900)]);
    assert_eq!(judge(&beside, Some(&ports)).word, VerdictWord::Errors, "a few beside many others");
}

#[test]
fn descriptors_that_ran_out_are_the_generators() {
    let verdict = Made { failures: vec![(Step::Connect, Cause::OutOfFiles, 50)], ..closed() }.judged();
    assert_says(&verdict, VerdictWord::GeneratorLimited, "file descriptors (ulimit -n)");
}

#[test]
fn a_full_machine_is_reported() {
    let verdict = Made { machine: 0.99, address: "[::1]:443", ..closed() }.judged();
    assert_says(&verdict, VerdictWord::Valid, "generator and target shared it");
}

#[test]
fn the_first_and_last_second_count_only_in_short_runs() {
    let slow_start = |length: u64| {
        let made = closed();
        let mut seconds: Vec<Interval> = (0..length as u32).map(|second| made.second(second)).collect();
        seconds[0] = Made { busy: 1.0, starved: 0.0, ..closed() }.second(0);
        let plan = Plan { duration: Duration::from_secs(length), ..Plan::default() };
        made_of(plan, seconds, "", BTreeMap::new())
    };
    let busiest = |outcome: &Outcome| View::of(outcome).busiest().unwrap().busy;
    assert!((busiest(&slow_start(10)) - 0.4).abs() < 1e-6);
    assert!((busiest(&slow_start(3)) - 0.6).abs() < 1e-6);
}

#[test]
fn an_early_end_shortens_what_was_measured() {
    let mut outcome = closed().outcome();
    assert!((View::of(&outcome).length - 10.0).abs() < 1e-9);
    outcome.early_end = Some(EarlyEnd::Interrupted);
    outcome.seconds.truncate(5);
    outcome.seconds[4].threads.iter_mut().for_each(|thread| thread.wall_ns = 250_000_000);
    assert!((View::of(&outcome).length - 4.25).abs() < 1e-9);
    // A second of stragglers behind it.
    let mut tail = closed().second(5);
    tail.tally = Tally { transactions: 9, tail: 9, ..Tally::default() };
    outcome.seconds.push(tail);
    assert!((View::of(&outcome).length - 4.25).abs() < 1e-9);
    outcome.seconds.clear();
    assert!(View::of(&outcome).length.abs() < 1e-9);
}

#[test]
fn a_missing_worker_does_not_mix_up_the_threads() {
    let mut outcome = closed().outcome();
    outcome.seconds[4].threads.remove(0);
    outcome.seconds[4].threads[0].busy_ns = 1_000_000_000;
    let busiest = View::of(&outcome).busiest().unwrap();
    assert!((busiest.busy - 0.4).abs() < 1e-6, "{busiest:?}");
    assert_eq!(Busy::of(&ThreadUse::default()), None);
}

#[test]
fn addresses_are_read_with_and_without_ports() {
    let mut outcome = closed().outcome();
    outcome.workers[0].facts.addresses =
        ["[::1]:443", "192.0.2.1:1", "192.0.2.1", "junk"].map(str::to_owned).to_vec();
    let read: Vec<String> = addresses(&outcome).iter().map(ToString::to_string).collect();
    assert_eq!(read, ["192.0.2.1", "::1"]);
}

#[test]
fn waiting_for_handshakes_is_no_stalled_machine() {
    let late = || Made { lag: Duration::from_millis(40), busy: 0.1, ..open() };
    let mut waited = late().outcome();
    waited.totals.tally.held = 500;
    let verdict = judge(&waited, None);
    assert_eq!(verdict.word, VerdictWord::Valid, "{verdict:?}");
    assert!(has_evidence(&verdict, "5.0 % of the arrivals waited for a new connection"), "{verdict:?}");
    let verdict = late().judged();
    assert_eq!(verdict.word, VerdictWord::GeneratorLimited, "{verdict:?}");
    assert!(has_evidence(&verdict, "the machine or its hypervisor"), "{verdict:?}");
}

#[test]
fn how_connections_were_shed_is_reported_by_what_sheds_them() {
    let evidence_of = |step, cause, is_reported: bool| {
        // Another failure is more frequent, and sheds nothing.
        let failures = vec![(step, cause, 7), (Step::Exchange, Cause::HttpStatus, 9)];
        let mut outcome = Made { failures, ..open() }.outcome();
        outcome.totals.tally.shed = 7;
        let verdict = judge(&outcome, None);
        let shed = verdict.evidence.iter().find(|line| line.starts_with("the target shed 7")).unwrap();
        let words = format!("({} {}: 7 times", step.name(), cause.name());
        assert_eq!(shed.contains(&words), is_reported, "{shed}");
        assert!(!shed.contains("http-status"), "{shed}");
    };
    evidence_of(Step::Connect, Cause::Refused, true);
    evidence_of(Step::Handshake, Cause::Deadline, true);
    let mut outcome = Made { failures: vec![(Step::Connect, Cause::Deadline, 7)], ..open() }.outcome();
    outcome.totals.tally.shed = 7;
    let timed_out = shed::evidence(&View::of(&outcome)).unwrap();
    assert!(timed_out.contains("by not answering in time") && !timed_out.contains("refus"), "{timed_out}");
    for cause in [Cause::ClosedEarly, Cause::Truncated, Cause::Reset, Cause::Alert] {
        evidence_of(Step::Exchange, cause, true);
    }
    evidence_of(Step::Exchange, Cause::WrongBytes, false);
    evidence_of(Step::Close, Cause::Reset, false);
}

#[test]
fn shed_connections_are_named_whatever_the_word() {
    let mut outcome = Made { failures: vec![(Step::Connect, Cause::Refused, 7)], ..open() }.outcome();
    outcome.totals.tally.shed = 7;
    let verdict = judge(&outcome, None);
    assert_eq!(verdict.word, VerdictWord::Valid, "{verdict:?}");
    assert!(has_evidence(&verdict, "the target shed 7 connections"), "{verdict:?}");
    assert!(
        has_evidence(&verdict, "connect refused: 7 times, for instance: an example of refused"),
        "{verdict:?}"
    );
}

#[test]
fn a_closed_model_with_connections_missing_is_not_valid() {
    let plan = Plan { connections: 100, exchanges: None, ..Plan::default() };
    let run = |open, shed| {
        let mut outcome = Made { plan: plan.clone(), ..closed() }.outcome();
        outcome.seconds.iter_mut().for_each(|second| second.tally.open = open);
        outcome.totals.tally.shed = shed;
        judge(&outcome, None)
    };
    let verdict = run(90, 3);
    assert_eq!(verdict.word, VerdictWord::Errors, "{verdict:?}");
    assert!(has_evidence(&verdict, "of 100 connections at most 90 were open"), "{verdict:?}");
    assert_eq!(run(100, 3).word, VerdictWord::Valid, "one that was replaced is not missing");
    assert_eq!(run(90, 0).word, VerdictWord::Valid, "no connection was refused");
}

fn has_evidence(verdict: &Verdict, words: &str) -> bool {
    verdict.evidence.iter().any(|line| line.contains(words))
}

#[test]
fn connections_that_do_not_stay_open_are_reported() {
    let run = |exchanges: Option<u32>, handshakes: u64| {
        let plan = Plan { exchanges, ..Plan::default() };
        let mut outcome = Made { plan, ..closed() }.outcome();
        outcome.seconds.iter_mut().for_each(|second| second.tally.open = 32);
        outcome.totals.tally.full = handshakes;
        judge(&outcome, None)
    };
    let evidence = "connections were to stay open, and the target ended them: 10,000 connections were opened for 10,000 exchanges";
    assert!(has_evidence(&run(None, 10_000), evidence), "{:?}", run(None, 10_000));
    assert!(!has_evidence(&run(None, 33), "were to stay open"));
    assert!(!has_evidence(&run(Some(1), 10_000), "were to stay open"));
}
