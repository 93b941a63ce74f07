//! Seconds in which nothing ended, in which errors came, and runs in which there was nothing to do.

use super::*;

/// A run in which nothing ended in these seconds.
fn still(made: &Made, seconds: &[u32]) -> Outcome {
    let second = |at| {
        let mut second = made.second(at);
        if seconds.contains(&at) {
            second.tally = Tally { open: 32, ..Tally::default() };
            second.series.clear();
        }
        second
    };
    made_of(made.plan.clone(), (0..10).map(second).collect(), "192.0.2.1", BTreeMap::new())
}

#[test]
fn a_closed_loop_says_when_its_target_stood_still() {
    let outcome = still(&closed(), &[4, 5]);
    let verdict = judge(&outcome, None);
    assert_eq!(verdict.word, VerdictWord::Valid);
    assert!(
        verdict.evidence[0].starts_with(
            "in seconds 4 and 5 nothing finished, where about 1,000 a second are usual: the target,"
        ),
        "{verdict:?}"
    );
    assert!(
        verdict.evidence[0].ends_with("its percentiles hide it: use --rate to see what clients would"),
        "{verdict:?}"
    );
    assert_eq!(stalled(&View::of(&outcome)), [4, 5]);
    assert_eq!(stalled(&View::of(&still(&closed(), &[]))), [0; 0]);
}

#[test]
fn clients_that_think_at_the_same_time_are_no_stall() {
    let second = Duration::from_secs(1);
    let think = Some(crate::plan::Think { least: second, most: second });
    let outcome = |under_way: u64| {
        let mut outcome = still(&closed(), &[4, 5]);
        outcome.plan.think = think;
        outcome.seconds[3].tally.started += under_way;
        outcome
    };
    assert_eq!(stalled(&View::of(&outcome(0))), [0; 0], "nothing was under way");
    assert_eq!(stalled(&View::of(&outcome(1))), [4, 5], "an answer was missing all the time");
}

#[test]
fn a_pause_within_two_seconds_is_seen_by_how_long_half_of_the_connections_waited() {
    let outcome = |waited: u64| {
        let mut outcome = still(&closed(), &[]);
        for (second, part) in [(4, 400), (5, 620)] {
            let tally = &mut outcome.seconds[second].tally;
            (tally.transactions, tally.exchanges) = (part, part);
        }
        let total = outcome.seconds[5].series.entry(Series::Total).or_default();
        (0..waited).for_each(|_| total.record(Duration::from_secs(1)));
        outcome
    };
    let verdict = judge(&outcome(32), None);
    assert!(
        verdict.evidence[0]
            .starts_with("in second 4 only 400 finished, where about 1,000 a second are usual: the target"),
        "{verdict:?}"
    );
    // A few slow ones, and a second with less in it, are no pause.
    assert_eq!(stalled(&View::of(&outcome(15))), [0; 0]);
    // Late transactions after a pause of the generator are no evidence about the second before.
    let mut ours = outcome(32);
    ours.seconds[5].threads[0].paused_ns = 400_000_000;
    assert_eq!(stalled(&View::of(&ours)), [0; 0]);
}

#[test]
fn a_target_that_stood_still_for_most_of_the_run_is_seen() {
    let verdict = judge(&still(&closed(), &[1, 2, 3, 4, 5, 6, 7]), None);
    assert!(verdict.evidence[0].starts_with("in seconds 1, 2, 3, 4, 5, 6 and 1 more nothing"), "{verdict:?}");
}

#[test]
fn an_open_model_shows_a_pause_and_reports_it() {
    let mut outcome = still(&open(), &[4]);
    // Transactions that were due meanwhile are done a second later.
    outcome.seconds[5].tally.transactions += 1_000;
    let verdict = judge(&outcome, None);
    assert!(
        verdict.evidence.last().is_some_and(|line| line.contains("has waited, and is in the latencies")),
        "{verdict:?}"
    );
}

#[test]
fn what_is_slow_or_rare_did_not_stand_still() {
    let none = |made: &Made, seconds: &[u32]| assert_eq!(stalled(&View::of(&still(made, seconds))), [0; 0]);
    none(&Made { service: Duration::from_millis(800), ..closed() }, &[3, 5]);
    none(&Made { per_second: 9, ..closed() }, &[3]);
    let ramp = with_model(Model::ramp(0.0, 90.0, Arrivals::Fixed));
    none(&Made { plan: ramp, per_second: 50, ..open() }, &[0]);
    // The last part of a second is not one.
    let plan = Plan { duration: Duration::from_millis(9_100), ..Plan::default() };
    none(&Made { plan, ..closed() }, &[9]);
}

/// A run in which the first generator thread was paused for so many milliseconds in these seconds.
fn paused(made: &Made, pauses: &[(usize, u64)]) -> Outcome {
    let mut seconds: Vec<Interval> = (0..10).map(|second| made.second(second)).collect();
    for (second, millis) in pauses {
        seconds[*second].threads[0].paused_ns = millis * 1_000_000;
    }
    made_of(made.plan.clone(), seconds, "192.0.2.1", BTreeMap::new())
}

#[test]
fn a_generator_that_was_paused_does_not_describe_the_target() {
    let mut outcome = still(&closed(), &[4, 5]);
    for (second, paused) in [(4, 600_000_000), (5, 1_000_000_000)] {
        outcome.seconds[second].threads.iter_mut().for_each(|thread| thread.paused_ns = paused);
    }
    let verdict = judge(&outcome, None);
    assert_says(
        &verdict,
        VerdictWord::GeneratorLimited,
        "the generator was paused: 1.00 s in second 5, 600 ms in second 4. Its process was stopped",
    );
    assert!(!verdict.evidence.iter().any(|line| line.contains("the target, or")), "{verdict:?}");
    assert_eq!(stalled(&View::of(&outcome)), [0; 0]);
}

#[test]
fn a_pause_on_a_crowded_machine_is_explained() {
    for made in [open(), closed()] {
        let crowded = Made { busy: 0.1, starved: 0.8, ..made };
        let verdict = judge(&paused(&crowded, &[(3, 300)]), None);
        assert_says(&verdict, VerdictWord::GeneratorLimited, "the generator was paused: 300 ms in second 3");
        assert_says(&verdict, VerdictWord::GeneratorLimited, "a generator thread had to wait for a CPU");
    }
}

#[test]
fn a_long_pause_or_many_short_ones_make_the_figures_the_generators() {
    for made in [open(), closed()] {
        let judged = |pauses: &[(usize, u64)]| judge(&paused(&made, pauses), None);
        assert_says(&judged(&[(0, 300)]), VerdictWord::GeneratorLimited, "paused: 300 ms in second 0");
        // Of two threads' twenty seconds one in a hundred.
        let many = judged(&[(1, 40), (2, 40), (3, 60), (9, 60)]);
        assert_says(
            &many,
            VerdictWord::GeneratorLimited,
            "paused: 60.0 ms in second 3, 60.0 ms in second 9, 40.0 ms in second 1, and in 1 second more",
        );
        assert_says(&judged(&[(3, 25)]), VerdictWord::Valid, "the generator was paused: 25.0 ms in second 3");
        assert!(!judged(&[]).evidence.iter().any(|line| line.contains("paused")));
    }
}

#[test]
fn a_report_has_one_figure_of_the_lag() {
    // The decision leaves the last second out; the sentence has the figure of the table.
    let made = open();
    let mut seconds: Vec<Interval> = (0..10).map(|second| made.second(second)).collect();
    seconds[9].series.insert(Series::Lag, samples(1_000, Duration::from_millis(9)));
    let verdict = judge(&made_of(made.plan, seconds, "192.0.2.1", BTreeMap::new()), None);
    assert_says(&verdict, VerdictWord::Valid, "schedule lag p99 9.00 ms");
}

#[test]
fn it_is_reported_when_errors_came() {
    let failing = |seconds: std::ops::Range<usize>, word: VerdictWord, each: u64, evidence: &str| {
        let mut outcome = closed().outcome();
        for second in &mut outcome.seconds[seconds] {
            second.tally.failed = each;
            outcome.totals.tally.failed += each;
        }
        assert_says(&judge(&outcome, None), word, evidence);
    };
    let errors = VerdictWord::Errors;
    failing(
        3..6,
        errors,
        500,
        "the first failed in second 3, the last in second 5; 3,000 succeeded before it, 4,000 succeeded after it",
    );
    failing(
        7..10,
        errors,
        500,
        "the first failed in second 7, the last in second 9; 7,000 succeeded before it",
    );
    failing(0..10, errors, 500, "the first failed in second 0, the last in second 9");
    failing(
        4..5,
        VerdictWord::Valid,
        3,
        "they failed in second 4; 4,000 succeeded before it, 5,000 succeeded after it",
    );
}

#[test]
fn where_nothing_was_due_nothing_failed() {
    let plan =
        Plan { duration: Duration::from_millis(100), ..with_model(Model::open(1.0, Arrivals::Poisson)) };
    let verdict_of = |plan: &Plan, unserved: u64| {
        let mut outcome = made_of(plan.clone(), Vec::new(), "", BTreeMap::new());
        outcome.totals.tally.unserved = unserved;
        let verdict = judge(&outcome, None);
        assert_eq!(verdict.word, VerdictWord::Errors);
        verdict.evidence[0].clone()
    };
    assert!(
        verdict_of(&plan, 0)
            .starts_with("no transaction was due within 0.1 s: 1.00/s makes 0.10 of them on average")
    );
    assert_eq!(verdict_of(&plan, 2), "none of the 2 transactions due within 0.1 s started");
    assert!(
        verdict_of(&Plan::default(), 0).starts_with("no transaction finished within 10.0 s, and none failed")
    );
}
