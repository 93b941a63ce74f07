//! One standing for all threads, one trial at a time, and a trial that never gets lost.

use std::sync::Arc;

use super::*;
use crate::testing::logged_lines;
use handfast_observe::reason::Step;

const FAILURE_POLICY: FailurePolicy = FailurePolicy { failures: 3, pause: Duration::from_secs(3_600) };
/// The pause is over at once.
const NO_PAUSE: FailurePolicy = FailurePolicy { failures: 3, pause: Duration::ZERO };

const REFUSED: Cause = Cause::Socket(Socket::Refused);
const DEADLINE: Cause = Cause::Socket(Socket::ConnectTimeout);

fn down(policy: FailurePolicy) -> Arc<Standing> {
    let standing = Standings::new("web").of("10.0.0.7:80");
    (0..3).for_each(|_| drop(standing.failed(REFUSED, None, policy)));
    standing
}

#[test]
fn failures_of_all_threads_count_together() {
    let standings = Standings::new("web");
    let threads = [standings.of("10.0.0.7:80"), standings.of("10.0.0.7:80"), standings.of("10.0.0.7:80")];
    let other = standings.of("10.0.0.8:80");
    for (number, thread) in threads.iter().enumerate() {
        assert_eq!(thread.availability(), Availability::Up, "after {number} failures");
        let marked = thread.failed(REFUSED, None, FAILURE_POLICY);
        assert_eq!(marked.is_some(), number == 2, "the caller that marks it down logs it, and no other");
    }
    assert_eq!(other.failed(REFUSED, None, FAILURE_POLICY), None, "it is another backend");
    assert_eq!(threads[0].failed(REFUSED, None, FAILURE_POLICY), None, "it is down already");
    assert!(threads.iter().all(|thread| matches!(thread.availability(), Availability::Down(_))));
    assert_eq!((threads[0].cause(), threads[0].failures()), (Some(REFUSED), 4));
    assert_eq!(other.availability(), Availability::Up);
    threads[1].connected();
    assert!(
        threads.iter().all(|thread| thread.availability() == Availability::Up && thread.outage().is_none())
    );
}

#[test]
fn a_success_in_between_starts_the_count_again() {
    let standing = Standings::new("web").of("10.0.0.7:80");
    for _ in 0..10 {
        (0..2).for_each(|_| drop(standing.failed(REFUSED, None, FAILURE_POLICY)));
        standing.connected();
    }
    assert_eq!(standing.availability(), Availability::Up);
}

#[test]
fn of_many_threads_one_has_the_trial() {
    for _ in 0..200 {
        let standing = down(NO_PAUSE);
        let trials: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| standing.try_out())).collect();
            threads.into_iter().filter_map(|thread| thread.join().expect("it does not panic")).collect()
        });
        assert_eq!(trials.len(), 1, "{trials:?}");
        assert_eq!((standing.availability(), standing.try_out()), (Availability::OnTrial, None));
    }
}

#[test]
fn a_trial_has_an_outcome_or_is_given_back() {
    let standing = down(NO_PAUSE);
    let trial = standing.try_out().expect("it is down");
    let _ = standing.failed(DEADLINE, Some(trial), FAILURE_POLICY);
    assert!(
        matches!(standing.availability(), Availability::Down(until) if until > Moment::now()),
        "{standing:?}"
    );
    assert_eq!(standing.cause(), Some(DEADLINE));
    standing.give_back(trial);
    assert!(
        matches!(standing.availability(), Availability::Down(until) if until > Moment::now()),
        "it has ended already"
    );

    let next = standing.try_out().expect("it is down");
    standing.give_back(next);
    assert!(
        matches!(standing.availability(), Availability::Down(until) if until <= Moment::now()),
        "{standing:?}"
    );
    let last = standing.try_out().expect("the next one may at once");
    standing.connected();
    standing.give_back(last);
    assert_eq!(standing.availability(), Availability::Up);
}

#[test]
fn attempts_of_before_change_nothing_more() {
    let standing = down(NO_PAUSE);
    let until = standing.availability();
    let _ = standing.failed(REFUSED, None, FAILURE_POLICY);
    assert_eq!(standing.availability(), until, "the pause does not grow");
    let trial = standing.try_out().expect("it is down");
    let _ = standing.failed(REFUSED, None, FAILURE_POLICY);
    assert_eq!(standing.availability(), Availability::OnTrial, "the trial is another connection's");
    // Another connection that had begun earlier succeeded; the trial then fails as any attempt does.
    standing.connected();
    let _ = standing.failed(REFUSED, Some(trial), FAILURE_POLICY);
    assert_eq!((standing.availability(), standing.failures()), (Availability::Up, 1));
}

#[test]
fn a_cause_survives_as_a_number() {
    for known in Cause::all().chain([5, 133].map(|number| Cause::Socket(Socket::Errno(number)))) {
        assert_eq!(cause(code(known)), Some(known));
    }
    assert_eq!(cause(0), None);
}

#[test]
fn unused_standings_are_forgotten() {
    let standings = Standings::new("web");
    let kept = down_at(&standings, "10.0.0.7:80");
    drop(down_at(&standings, "10.0.0.8:80"));
    assert!(matches!(standings.of("10.0.0.7:80").availability(), Availability::Down(_)), "{kept:?}");
    assert_eq!(standings.of("10.0.0.8:80").availability(), Availability::Up);
    for number in 0..10_000 {
        standings.of(&format!("name={number}"));
    }
    assert!(
        matches!(standings.of("10.0.0.7:80").availability(), Availability::Down(_)),
        "somebody uses it: {kept:?}"
    );
    let known = standings.count();
    assert!(known <= 20, "{known} of 10,000 are kept, though none is used");
}

#[test]
fn a_backend_marked_down_is_logged_with_failures_and_reason() {
    for (failures, counted) in [(1, "1 failure:"), (3, "3 failures in a row:")] {
        let standing = Standings::new("web").of("10.0.0.7:80");
        let policy = FailurePolicy { failures, pause: Duration::from_secs(7) };
        let marked = (0..failures).find_map(|_| standing.failed(REFUSED, None, policy));
        let reason = CloseReason::new(Step::Connect, Side::Backend, REFUSED).because("after 3 SYN");
        let lines = logged_lines(|| standing.log_marked_down(&reason, marked.expect("it is down")));
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let begin =
            format!("service web: backend 10.0.0.7:80 is marked down for 7s after {counted} refused: ");
        assert!(line.starts_with(&begin) && line.ends_with(" (after 3 SYN)"), "{line}");
    }
}

#[test]
fn an_outage_is_logged_with_its_start_and_duration() {
    let before = SystemTime::now();
    let outage = down(FAILURE_POLICY).outage().expect("it is down");
    // Kept in milliseconds.
    let since = outage.since + Duration::from_millis(1);
    assert!(since >= before && outage.since <= SystemTime::now());
    let left = outage.pause_left.expect("no connection tries it");
    assert!(left <= FAILURE_POLICY.pause && left > FAILURE_POLICY.pause / 2, "{left:?}");
    let standing = down(NO_PAUSE);
    standing.try_out().expect("its pause is over");
    assert_eq!(standing.outage().expect("it is not up").pause_left, None, "somebody tries it now");
}

fn down_at(standings: &Standings, name: &str) -> Arc<Standing> {
    let standing = standings.of(name);
    (0..3).for_each(|_| drop(standing.failed(REFUSED, None, FAILURE_POLICY)));
    standing
}
