//! Tests for decisions over time: tables, and months of tries with failures of every pattern.

use proptest::prelude::*;

use super::*;

const DAY: i64 = 86_400;
const NOW: i64 = 1_800_000_000;
const ISSUERS: [IssuerFacts<'static>; 2] = [
    IssuerFacts { directory: "first", staging: Some("first-staging") },
    IssuerFacts { directory: "second", staging: None },
];

fn life(from: i64, days: i64) -> Life {
    Life { not_before: from, not_after: from + days * DAY - 1 }
}

fn facts<'a>(certificate: Option<Life>, record: &'a Record) -> Facts<'a> {
    let own_moment = certificate.map_or(0, |life| life.renewal(0.0));
    Facts { certificate, own_moment, record, issuers: &ISSUERS, all_orders: &[] }
}

#[test]
fn a_name_without_a_certificate_is_ordered_at_once() {
    let record = Record::default();
    assert_eq!(decide(&facts(None, &record), NOW), Decision::Order { issuer: 0, at_staging: false });
}

#[test]
fn lives_of_every_length_are_renewed_in_time() {
    for (days, renewed_after) in [(90, 60.0), (64, 42.67), (45, 30.0), (6, 3.0), (1, 0.5)] {
        let life = life(NOW, days);
        let after = (life.renewal(0.0) - NOW) as f64 / DAY as f64;
        assert!((after - renewed_after).abs() < 0.01, "{days} days: after {after}");
        assert!(life.renewal(1.0) < life.renewal(0.0) && life.renewal(1.0) > NOW);
        assert!(life.renewal(0.0) < life.emergency() && life.emergency() < life.not_after);
    }
}

#[test]
fn an_issuer_s_window_counts_and_an_emergency_counts_more() {
    let life = life(NOW, 90);
    let within = |start: i64, end: i64| suggestion(life, (NOW + start, NOW + end), 3_600, NOW, None, 0.5);
    for (window, due_at) in [
        (within(50 * DAY, 52 * DAY), NOW + 51 * DAY),
        // A window in the past, for example because the certificate will be revoked: at once, but for a certificate that
        // is new.
        (within(-2 * DAY, -DAY), NOW + DAY / 2),
        // Too late: the emergency limit.
        (within(88 * DAY, 89 * DAY), life.emergency()),
        // No window at all.
        (within(10, 10), life.renewal(0.0)),
    ] {
        let record = Record { suggestion: window, ..Record::default() };
        assert_eq!(due(&facts(Some(life), &record)), due_at, "{window:?}");
    }
    let of_another = Suggestion { not_after: 1, start: 0, end: 1, at: 0, ask_again: 0 };
    let record = Record { suggestion: Some(of_another), ..Record::default() };
    assert_eq!(due(&facts(Some(life), &record)), life.renewal(0.0), "it is about the certificate before");
}

#[test]
fn a_moment_is_chosen_once_for_each_window() {
    let life = life(NOW, 90);
    let first = suggestion(life, (NOW, NOW + 1_000), 0, NOW, None, 0.2);
    let again = suggestion(life, (NOW, NOW + 1_000), 50_000, NOW + 10, first, 0.9);
    assert_eq!(first.map(|it| it.at), again.map(|it| it.at));
    assert_eq!(again.map(|it| it.ask_again), Some(NOW + 10 + 50_000));
    let moved = suggestion(life, (NOW - 10, NOW + 1_000), 0, NOW, first, 0.9);
    assert_ne!(moved.map(|it| it.at), first.map(|it| it.at));
}

#[test]
fn pauses_grow_from_a_minute_to_six_hours() {
    let pauses: Vec<i64> = (1..12).map(|failures| backoff(failures, 0.0)).collect();
    assert_eq!(pauses[..9], [60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 15_360]);
    assert!(pauses[9..].iter().all(|pause| *pause == MAX_BACKOFF_SECONDS));
    assert_eq!(backoff(u32::MAX, f64::NAN), MAX_BACKOFF_SECONDS);
    assert_eq!(backoff(1, 1.0), 66);
}

#[test]
fn after_a_failure_staging_is_first_and_then_the_next_issuer() {
    let mut record = Record::default();
    record.failed("no", None, NOW, 0.0);
    assert_eq!(decide(&facts(None, &record), NOW), Decision::Wait { until: NOW + 60 });
    let later = NOW + 60;
    assert_eq!(decide(&facts(None, &record), later), Decision::Order { issuer: 0, at_staging: true });
    let mut passed = record.clone();
    passed.passed_staging(later);
    assert_eq!(decide(&facts(None, &passed), later), Decision::Order { issuer: 0, at_staging: false });
    passed.failed("no", None, later, 0.0);
    assert!(!passed.staging_passed, "the next try at this issuer is with staging again");
    record.failed("no", None, later, 0.0);
    let second = later + 120;
    assert_eq!(
        decide(&facts(None, &record), second),
        Decision::Order { issuer: 1, at_staging: false },
        "the second issuer has no staging directory"
    );
    record.failed("no", None, second, 0.0);
    record.failed("no", None, second, 0.0);
    let decision = decide(&facts(None, &record), second + MAX_BACKOFF_SECONDS);
    assert_eq!(decision, Decision::Order { issuer: 0, at_staging: true }, "and the first again");
}

#[test]
fn an_operator_s_request_makes_it_due_and_does_not_lift_the_limits() {
    let life = life(NOW, 90);
    let mut record = Record { renew_now: true, ..Record::default() };
    assert_eq!(decide(&facts(Some(life), &record), NOW), Decision::Order { issuer: 0, at_staging: false });
    for _ in 0..4 {
        record.orders("first", NOW);
    }
    assert_eq!(decide(&facts(Some(life), &record), NOW + 1), Decision::Wait { until: NOW + 3_600 });
}

#[test]
fn the_limits_of_an_account_are_those_of_all_names() {
    let record = Record::default();
    let made = |at| OrderMade { at, directory: "first".to_owned() };
    let orders: Vec<_> = (0..250).map(|n| made(NOW - 250 + n)).collect();
    let facts = Facts { all_orders: &orders, ..facts(None, &record) };
    assert_eq!(decide(&facts, NOW), Decision::Wait { until: NOW - 250 + 3 * 3_600 });
}

/// Thirty days of an issuer that fails in some way, tried by the schedule.
fn month(fails: impl Fn(u32) -> bool, randoms: &[f64]) -> Record {
    let mut record = Record::default();
    let mut certificate = None;
    let (mut now, mut tries) = (NOW, 0_u32);
    let mut every_order: Vec<OrderMade> = Vec::new();
    while now < NOW + 30 * DAY {
        let random = randoms[tries as usize % randoms.len()];
        match decide(&facts(certificate, &record), now) {
            Decision::Wait { until } => {
                assert!(until > now, "it would spin");
                now = until;
            }
            Decision::Order { issuer, at_staging } => {
                let known = &ISSUERS[issuer];
                let directory = if at_staging { known.staging.expect("it has one") } else { known.directory };
                record.begins(now);
                record.orders(directory, now);
                every_order.extend(record.orders.last().cloned());
                tries += 1;
                if fails(tries) {
                    record.failed("it failed", None, now, random);
                } else if at_staging {
                    record.passed_staging(now);
                } else {
                    record.succeeded(now);
                    certificate = Some(life(now, 6));
                }
            }
        }
    }
    for directory in ["first", "first-staging", "second"] {
        let at = |made: &&OrderMade| made.directory == directory;
        let moments: Vec<i64> = every_order.iter().filter(at).map(|made| made.at).collect();
        for (seconds, most) in ORDER_LIMITS {
            let busiest = moments
                .iter()
                .map(|from| moments.iter().filter(|at| (*from..from + seconds).contains(*at)).count());
            assert!(busiest.max().unwrap_or(0) <= most, "more than {most} in {seconds} s at {directory}");
        }
    }
    record
}

#[test]
fn an_issuer_that_is_down_for_a_month_is_asked_within_the_limits() {
    let record = month(|_| true, &[0.0]);
    assert!(record.failures > 100, "it goes on: {}", record.failures);
}

#[test]
fn certificates_of_six_days_are_renewed_for_a_month() {
    let record = month(|_| false, &[0.5]);
    assert!(record.issued.len() >= 2 && record.failures == 0);
}

proptest! {
    #[test]
    fn no_pattern_of_failures_exceeds_the_limits(
        pattern in prop::collection::vec(any::<bool>(), 1..40),
        randoms in prop::collection::vec(0.0..1.0, 1..5),
    ) {
        month(|tries| pattern[tries as usize % pattern.len()], &randoms);
    }

    #[test]
    fn whatever_is_stored_nothing_panics(
        failures: u32, next_try: i64, at: i64, now: i64, from: i64, to: i64, random: f64,
    ) {
        let mut record = Record { failures, next_try, ..Record::default() };
        record.orders.push(OrderMade { at, directory: "first".to_owned() });
        record.suggestion = suggestion(Life { not_before: from, not_after: to }, (at, to), from, now, None, random);
        decide(&facts(Some(Life { not_before: from, not_after: to }), &record), now);
        record.failed("no", Some(from), now, random);
        record.orders("first", now);
        decide(&facts(None, &record), now);
    }
}
