//! Counting before the start, in its second, and after the end; and that nothing is lost on the way.

use std::sync::mpsc::{Receiver, sync_channel};

use handfast_tls::session::Agreed;

use super::*;
use crate::failure::{Cause, Step, StepFailure};
use crate::plan::{Arrivals, ExpectedStatuses, HttpVersion, Member, Request, Tls, Work};
use crate::sample::EXAMPLES;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// A recorder of this plan, with room for so many seconds.
fn recorder(plan: &Plan, room: usize) -> (Recorder, Receiver<Interval>) {
    let (sender, receiver) = sync_channel(room);
    (Recorder::new(plan, sender), receiver)
}

/// One that records the plain plan from 0 to `end`.
fn recording(end: Moment, room: usize) -> (Recorder, Receiver<Interval>) {
    let (mut recorder, seconds) = recorder(&Plan::default(), room);
    recorder.record();
    recorder.begin(at(0), end);
    (recorder, seconds)
}

/// A plan with everything that can be recorded: arrivals, two members, two requests.
fn everything() -> Plan {
    let member = |name: &str| Member { name: name.into(), share: 1.0, tls: Tls::default() };
    let requests = vec![Request::default(), Request::default()];
    let (version, authority) = (HttpVersion::Http11, "a.example".into());
    Plan {
        mix: vec![member("a"), member("b")],
        work: Work::Http {
            version,
            authority,
            requests,
            streams: 1,
            expect: ExpectedStatuses::default(),
            in_order: false,
        },
        model: Model::open(1.0, Arrivals::Fixed),
        ..Plan::default()
    }
}

/// One of each thing that can happen, from `begin` to ten milliseconds later, to the second member with the second request.
fn happen(recorder: &mut Recorder, begin: u64) {
    let times = Times { began: at(begin + 3), first_byte: at(begin + 5), done: at(begin + 9) };
    let agreed = Agreed { version: Some("TLSv1.3"), hello_retry: true, ..Agreed::default() };
    let failure = || StepFailure::new(Step::Exchange, Cause::ClosedEarly, "it left");
    recorder.queued();
    recorder.held();
    recorder.never_begun(1);
    recorder.connection();
    recorder.hello(1, 500, true);
    recorder.connected(at(begin), at(begin + 1));
    recorder.handshake(1, &agreed, Some(true), (at(begin + 1), at(begin + 3), Duration::from_nanos(7)));
    recorder.begun();
    recorder.lag(at(begin), at(begin + 3));
    recorder.bytes(10, 20);
    recorder.answer(1, 200, false, times);
    recorder.answer(1, 503, true, times);
    recorder.no_answer(1);
    recorder.over();
    recorder.succeeded(1, at(begin), at(begin + 3), at(begin + 9));
    recorder.failed(1, failure(), at(begin + 10));
    recorder.incident(failure());
    recorder.shed();
    recorder.opened();
    recorder.closed();
}

#[test]
fn what_happens_before_the_start_leaves_the_number_of_its_connections() {
    let (mut recorder, seconds) = recorder(&everything(), 8);
    happen(&mut recorder, 1_000);
    happen(&mut recorder, 500_000);
    assert_eq!(recorder.last_exchange(), Duration::from_millis(6), "what a rehearsal is for");
    recorder.record();
    recorder.begin(at(600_000), at(601_000));
    recorder.hand_over();
    let mut first = seconds.recv().expect("a second");
    assert_eq!(std::mem::take(&mut first.tally), Tally { warm_up: 2, ..Tally::default() });
    let nothing = Interval {
        threads: first.threads.clone(),
        members: vec![MemberSample::default(); 2],
        requests: vec![RequestSample::default(); 2],
        ..Interval::default()
    };
    assert_eq!(first, nothing);
}

#[test]
fn connections_that_are_opened_ahead_of_the_start_belong_to_the_first_second() {
    let (mut recorder, seconds) = recorder(&Plan::default(), 8);
    recorder.record();
    recorder.connection();
    recorder.opened();
    recorder.connected(at(5), at(7));
    recorder.begin(at(60_000), at(61_000));
    recorder.roll(at(61_000));
    let first = seconds.recv().expect("the first second is over");
    assert_eq!((first.second, first.tally.connections, first.tally.open), (0, 1, 1));
    assert_eq!(first.series[&Series::Connect].count(), 1);
    recorder.hand_over();
    let second = seconds.recv().expect("the next one");
    assert_eq!((second.second, second.tally.connections, second.tally.open), (1, 0, 1), "a gauge goes on");
}

#[test]
fn after_the_start_everything_counts_for_its_member_and_request() {
    let (mut recorder, seconds) = recorder(&everything(), 8);
    recorder.record();
    recorder.begin(at(0), at(1_000));
    happen(&mut recorder, 100);
    recorder.hand_over();
    let second = seconds.recv().expect("a second");
    let counted = Tally {
        connections: 1,
        transactions: 1,
        failed: 1,
        exchanges: 1,
        sent: 10,
        received: 20,
        full: 1,
        hello_retry: 1,
        early_accepted: 1,
        without_ticket: 1,
        queued: 1,
        held: 1,
        unserved: 1,
        shed: 1,
        own_ns: 7,
        http_status: [0, 1, 0, 0, 1],
        started: 1,
        ended: 1,
        ..Tally::default()
    };
    assert_eq!(second.tally, counted);
    let took = |series| (second.series[&series].count(), second.series[&series].max_nanos() / 1_000_000);
    let timed: Vec<_> = second.series.keys().map(|series| (*series, took(*series))).collect();
    let expected = [
        (Series::Connect, (1, 1)),
        (Series::Handshake, (1, 2)),
        (Series::HandshakeFull, (1, 2)),
        (Series::FirstByte, (1, 2)),
        (Series::Exchange, (1, 6)),
        (Series::Total, (1, 9)),
        (Series::Service, (1, 6)),
        (Series::Lag, (1, 3)),
    ];
    assert_eq!(timed, expected);
    assert_eq!((second.failures.len(), second.failures[0].count), (1, 2));
    assert_eq!(second.agreed.get("TLSv1.3"), Some(&1));
    assert_eq!(second.members[0], MemberSample::default());
    let member = &second.members[1];
    assert_eq!((member.connections, member.transactions, member.failed, member.hello_bytes), (1, 1, 1, 500));
    assert_eq!((member.handshake.count(), member.total.count(), member.agreed["TLSv1.3"]), (1, 1, 1));
    assert_eq!(second.requests[0], RequestSample::default());
    let request = &second.requests[1];
    assert_eq!((request.done, request.failed, request.status), (1, 2, [0, 1, 0, 0, 1]));
}

#[test]
fn what_ends_after_the_end_is_counted_and_said_to_be_late() {
    let (mut recorder, seconds) = recording(at(2_500), 8);
    recorder.succeeded(0, at(100), at(100), at(900));
    recorder.succeeded(0, at(900), at(900), at(2_100));
    recorder.finished(0, at(2_600));
    recorder.hand_over();
    let seconds: Vec<Interval> = seconds.try_iter().collect();
    let counts: Vec<_> =
        seconds.iter().map(|second| (second.second, second.tally.transactions, second.tally.tail)).collect();
    assert_eq!(counts, [(0, 1, 0), (1, 0, 0), (2, 2, 1)], "each in the second in which it ended");
    assert!(!seconds[1].series.contains_key(&Series::Total));
    assert_eq!(seconds[2].series[&Series::Total].count(), 1);
}

#[test]
fn a_failure_belongs_to_the_second_in_which_it_happened() {
    let (mut recorder, seconds) = recording(at(9_000), 8);
    recorder.failed(0, StepFailure::new(Step::Connect, Cause::Refused, "refused"), at(1_500));
    recorder.hand_over();
    let failed: Vec<u64> = seconds.try_iter().map(|second| second.tally.failed).collect();
    assert_eq!(failed, [0, 1]);
}

#[test]
fn a_closed_model_has_no_lag_and_no_service_time() {
    let (mut recorder, seconds) = recording(at(9_000), 1);
    recorder.lag(at(1), at(2));
    recorder.succeeded(0, at(1), at(2), at(3));
    recorder.hand_over();
    let second = seconds.recv().expect("a second");
    assert_eq!(second.series.keys().collect::<Vec<_>>(), [&Series::Total]);
}

#[test]
fn a_receiver_without_room_loses_nothing() {
    let (mut recorder, seconds) = recording(at(9_000), 1);
    for second in 0..5 {
        recorder.finished(0, at(second * 1000 + 1));
    }
    recorder.hand_over();
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.extend(seconds.try_iter().map(|second| second.second));
        recorder.hand_over_waiting();
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn failures_of_one_kind_are_counted_and_the_first_few_kept() {
    let (mut recorder, seconds) = recording(at(9_000), 1);
    for number in 0..10 {
        recorder.incident(StepFailure::new(Step::Connect, Cause::Refused, format!("number {number}")));
    }
    recorder.hand_over();
    let failures = seconds.recv().expect("a second").failures;
    assert_eq!((failures.len(), failures[0].count, failures[0].examples.len()), (1, 10, EXAMPLES));
}
