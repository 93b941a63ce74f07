//! Checks, an operator and failing connections together: none undoes what another one found out.

use std::time::Duration;

use handfast_net::fault::Cause as Socket;

use super::{Availability, FailurePolicy, Standings};
use crate::testing::logged_lines;
use handfast_observe::cause::Cause;
use handfast_observe::operator_state::OperatorState;

const FAILURE_POLICY: FailurePolicy = FailurePolicy { failures: 3, pause: Duration::from_secs(3_600) };
const RISE: u32 = 2;
const FALL: u32 = 3;

fn fail(standing: &super::Standing, times: usize) {
    (0..times).for_each(|_| standing.check_failed(&"status 503", FALL));
}

fn pass(standing: &super::Standing, times: usize) {
    (0..times).for_each(|_| standing.check_passed(Duration::from_millis(1), RISE));
}

fn refused(standing: &super::Standing) {
    let refused = Cause::Socket(Socket::Refused);
    (0..3).for_each(|_| drop(standing.failed(refused, None, FAILURE_POLICY)));
}

#[test]
fn checks_take_a_backend_out_after_fall_and_back_after_rise() {
    let standing = Standings::new("web").of("10.0.0.7:80");
    pass(&standing, 1);
    fail(&standing, 2);
    pass(&standing, 1);
    fail(&standing, 2);
    assert_eq!(standing.availability(), Availability::Up, "never three in a row");
    fail(&standing, 1);
    assert_eq!(
        (standing.availability(), standing.try_out()),
        (Availability::Out, None),
        "no connection tries it"
    );
    standing.connected();
    assert_eq!(standing.availability(), Availability::Out, "a connection of before changes nothing");
    pass(&standing, 1);
    fail(&standing, 1);
    pass(&standing, 1);
    assert_eq!(standing.availability(), Availability::Out, "never two in a row");
    pass(&standing, 1);
    assert_eq!(standing.availability(), Availability::Up);
    assert!(standing.recovered_at().is_some(), "its share begins to grow");
    let seen = standing.checked().expect("it is checked");
    assert_eq!((seen.up, seen.passed, seen.failed, seen.in_a_row), (true, 5, 6, 2));
    assert_eq!((seen.last_failure, seen.seconds.count()), (None, 5));
}

#[test]
fn one_that_never_passed_is_out_with_its_first_failure() {
    let standing = Standings::new("web").of("10.0.0.7:80");
    assert_eq!(standing.availability(), Availability::Up, "before anything is known");
    fail(&standing, 1);
    assert_eq!(standing.availability(), Availability::Out);
    assert_eq!(standing.checked().and_then(|seen| seen.last_failure).as_deref(), Some("status 503"));
    standing.clear_check_result();
    assert_eq!(standing.availability(), Availability::Up, "a reload took the checks away");
    assert!(standing.checked().is_none());
}

/// Once for each change, in words for an operator at night.
#[test]
fn results_of_checks_are_logged_when_they_change() {
    let standings = Standings::new("web");
    let standing = standings.of("10.0.0.7:80");
    let is = |begin: &str, rest: &str, action: &dyn Fn()| {
        let lines = logged_lines(action);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        let begin = format!("service web: backend 10.0.0.7:80 is {begin}");
        assert!(line.starts_with(&begin) && line.ends_with(rest), "{line}");
    };
    is("down: ", ": its first check failed: status 503", &|| fail(&standing, 5));
    is("up again after ", " s: 2 checks in a row passed", &|| pass(&standing, 5));
    is("down: ", ": 3 checks in a row failed: status 503", &|| fail(&standing, 5));
    standings.set_operator_state("10.0.0.7:80", OperatorState::Drain);
    let one = || standing.check_passed(Duration::ZERO, 1);
    is("up again after ", " s: 1 check passed; an operator has set it to drain", &one);
}

#[test]
fn an_operator_state_is_known_by_its_word() {
    assert!(
        OperatorState::ALL.iter().all(|requested| OperatorState::named(requested.name()) == Some(*requested))
    );
    assert_eq!(OperatorState::named("off"), None);
    let standings = Standings::new("web");
    let standing = standings.of("10.0.0.7:80");
    assert_eq!(standing.operator_state(), None);
    standings.set_operator_state("10.0.0.7:80", OperatorState::Drain);
    assert_eq!(standing.operator_state(), Some(OperatorState::Drain));
}

#[test]
fn connections_that_fail_and_checks_that_pass_are_two_things() {
    let standing = Standings::new("web").of("10.0.0.7:80");
    pass(&standing, 1);
    refused(&standing);
    pass(&standing, 5);
    assert!(matches!(standing.availability(), Availability::Down(_)), "its pause goes on: {standing:?}");
    let trial = standing.try_out().expect("the trial is to be had");
    fail(&standing, 3);
    assert_eq!(standing.availability(), Availability::Out, "in the middle of a trial");
    standing.give_back(trial);
    assert_eq!(standing.availability(), Availability::Out);
    pass(&standing, 2);
    assert_eq!((standing.availability(), standing.failures()), (Availability::Up, 0), "it starts over");
}

#[test]
fn an_operators_word_counts_whatever_checks_find() {
    let standings = Standings::new("web");
    let standing = standings.of("10.0.0.7:80");
    for requested in [OperatorState::Drain, OperatorState::Down] {
        standings.set_operator_state("10.0.0.7:80", requested);
        pass(&standing, 5);
        standing.connected();
        assert_eq!((standing.availability(), standing.try_out()), (Availability::Out, None));
        assert_eq!(standing.taken_out().map(|(requested, _)| requested), Some(requested));
    }
    fail(&standing, 3);
    standings.set_operator_state("10.0.0.7:80", OperatorState::Up);
    assert_eq!(standing.availability(), Availability::Out, "its checks still find it down");
    pass(&standing, 2);
    assert_eq!(standing.availability(), Availability::Up);
}

#[test]
fn a_request_for_a_name_applies_to_its_addresses_now_and_later() {
    let standings = Standings::new("web");
    let [one, two] = ["db.example=10.0.0.1:80", "db.example=10.0.0.2:80"].map(|name| standings.of(name));
    let other = standings.of("db.example=10.0.0.1:81");
    standings.set_operator_state("db.example:80", OperatorState::Drain);
    assert_eq!(
        [&one, &two, &other].map(|known| known.availability()),
        [Availability::Out, Availability::Out, Availability::Up]
    );
    let later = standings.of("db.example=10.0.0.3:80");
    assert_eq!(later.availability(), Availability::Out, "an address that came later");
    standings.set_operator_state("db.example=10.0.0.2:80", OperatorState::Up);
    assert_eq!(
        [&one, &two].map(|known| known.availability()),
        [Availability::Out, Availability::Up],
        "one of them apart"
    );
    drop(two);
    assert_eq!(
        standings.of("db.example=10.0.0.2:80").availability(),
        Availability::Up,
        "also when it went and came back"
    );
    let kept = standings.retain_operator_states(|name| name == "db.example:80");
    assert_eq!(kept.len(), 2, "{kept:?}");
    standings.set_operator_state("db.example:80", OperatorState::Up);
    assert!(standings.retain_operator_states(|_| true).is_empty(), "nothing is left of it");
    assert_eq!([&one, &later].map(|known| known.availability()), [Availability::Up, Availability::Up]);
    standings.set_operator_state("db.example:80", OperatorState::Down);
    assert!(
        standings.retain_operator_states(|name| name == "10.0.0.9:80").is_empty(),
        "it is configured no more"
    );
}

#[test]
fn in_whatever_order_things_happen_no_backend_is_lost_or_used_when_it_is_out() {
    let mut random: u64 = 0x853c_49e6_748f_ea9b;
    let mut draw = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % most
    };
    for _ in 0..2_000 {
        let standings = Standings::new("web");
        let standing = standings.of("10.0.0.7:80");
        let (mut requested, mut trials) = (OperatorState::Up, Vec::new());
        for _ in 0..40 {
            match draw(8) {
                0 | 1 => pass(&standing, 1),
                2 => fail(&standing, 1),
                3 => refused(&standing),
                4 => standing.connected(),
                5 => trials.extend(standing.try_out()),
                6 => trials.pop().into_iter().for_each(|trial| standing.give_back(trial)),
                _ => {
                    requested = OperatorState::ALL[usize::try_from(draw(3)).expect("small")];
                    standings.set_operator_state("10.0.0.7:80", requested);
                }
            }
            let is_out = requested != OperatorState::Up || standing.checked().is_some_and(|seen| !seen.up);
            assert_eq!(standing.availability() == Availability::Out, is_out, "{standing:?}");
        }
        standings.set_operator_state("10.0.0.7:80", OperatorState::Up);
        pass(&standing, 2);
        standing.connected();
        assert_eq!(standing.availability(), Availability::Up, "{standing:?}");
    }
}
