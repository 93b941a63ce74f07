//! Processes that follow each other, as registries: what each of them counts is in the numbers once, in whatever order they end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use handfast_tls::session::Agreed;

use super::*;
use crate::cause::Cause;
use crate::metrics::{
    BackendSnapshot, BackendStatus, CheckSnapshot, Configured, ConfiguredBackend, ConfiguredService,
    Distribution, HeaderOutcome, Histogram, Limit, NameSnapshot, Registry,
};
use crate::reason::{CloseReason, Side, Step};
use crate::record::{Record, StepTimes};

fn served(registry: &Registry) {
    let web = ConfiguredService { name: "web".into(), ..ConfiguredService::default() };
    registry.set_configured(Configured { services: vec![web], ..Configured::default() });
    drop(registry.thread("worker-0").service("web"));
}

/// Some of everything, and one connection that is open still.
fn count(registry: &Registry) {
    served(registry);
    let web = registry.thread("worker-0").service("web");
    (0..3).for_each(|_| web.accepted());
    let record = Record::new((0, std::rc::Rc::from("web")), 1, None);
    let reset = CloseReason::new(Step::Relay, Side::Client, Cause::Truncated);
    (0..2).for_each(|_| web.closed(&record, &reset));
    web.bytes_to_client(7_000);
    web.refused(Limit::Rate);
    web.proxy_header(HeaderOutcome::Invalid);
    let agreed = Agreed { version: Some("TLSv1.3"), resumed: Some(true), ..Agreed::default() };
    let times = StepTimes { hello: Duration::from_millis(3), ..StepTimes::default() };
    web.handshake(&agreed, &times);
    web.backend_handshake(&agreed, Duration::from_millis(5), Duration::from_micros(80));
    let backend = web.backend("10.0.0.7:80", true);
    backend.connected(Duration::from_millis(2));
    backend.failed(Cause::Internal);
    registry.reload_succeeded(1);
    registry.reload_failed("it is wrong");
}

/// Counters of the registry's own process.
fn counts_of(registry: &Registry) -> BTreeMap<String, u64> {
    lines(&registry.counts()[0].1).map(|(words, value)| (words.to_owned(), value)).collect()
}

#[test]
fn a_process_that_takes_over_counts_on() {
    let (before, now) = (Registry::new(), Registry::new());
    count(&before);
    served(&now);
    now.receive_counts(1, before.counts());
    let seen = now.snapshot();
    assert_eq!((seen.services[0].accepted, seen.services[0].connections()), (3, 0), "they are not ours");
    assert_eq!((seen.connections_draining, seen.services[0].backends[0].connections()), (1, 0));
    // Later counts of a process are totals, not increments.
    count(&now);
    count(&before);
    now.receive_counts(1, before.counts());
    let seen = now.snapshot();
    assert_eq!((seen.services[0].accepted, seen.services[0].connections()), (9, 1));
    assert_eq!((seen.services[0].ends[0].count, seen.connections_draining), (6, 2));
    now.process_ended(1);
    let seen = now.snapshot();
    assert_eq!((seen.services[0].accepted, seen.connections_draining), (9, 0));
}

/// A backend whose check failed once and passed that often.
#[derive(Debug)]
struct Checked {
    passed: u64,
}

impl BackendStatus for Checked {
    fn add_to(&self, to: &mut BackendSnapshot) {
        let (histogram, mut seconds) = (Histogram::default(), Distribution::default());
        (0..self.passed).for_each(|_| histogram.record(Duration::from_millis(1)));
        histogram.add_to(&mut seconds);
        let check = CheckSnapshot { passed: self.passed, failed: 1, seconds, ..CheckSnapshot::default() };
        to.check = Some(check);
    }
}

/// A backend and a name with this number of checks and lookups.
fn checked(registry: &Registry, passed: u64, answered: u64) {
    let status = Some(Arc::new(Checked { passed }) as Arc<dyn BackendStatus>);
    let backend = ConfiguredBackend { name: "db:1".into(), weight: 1, backup: false, status };
    let web =
        ConfiguredService { name: "web".into(), backends: vec![backend], ..ConfiguredService::default() };
    let name = NameSnapshot { name: "db:1".into(), answered, failed: 1, ..NameSnapshot::default() };
    registry.set_configured(Configured { services: vec![web], names: vec![name], ..Configured::default() });
}

#[test]
fn checks_and_lookups_go_on_too() {
    let (before, now) = (Registry::new(), Registry::new());
    checked(&before, 4, 20);
    checked(&now, 2, 10);
    now.receive_counts(1, before.counts());
    let seen = now.snapshot();
    let check = seen.services[0].backends[0].check.as_ref().expect("it is checked");
    assert_eq!((check.passed, check.failed, check.seconds.count()), (6, 2, 6));
    assert_eq!((seen.names[0].answered, seen.names[0].failed), (30, 2));
}

#[test]
fn everything_has_its_place_and_nothing_comes_twice() {
    let (before, now) = (Registry::new(), Registry::new());
    count(&before);
    served(&now);
    now.receive_counts(1, before.counts());
    now.process_ended(1);
    let mut counts = counts_of(&before);
    assert_eq!(counts.remove(OPEN), Some(1));
    assert!(counts.len() > 20, "{counts:?}");
    assert_eq!(counts_of(&now), counts);
}

#[test]
fn three_processes_count_as_one_in_whatever_order_they_end() {
    let [first, second, third] = [Registry::new(), Registry::new(), Registry::new()];
    [&first, &second, &third].into_iter().for_each(|registry| count(registry));
    let is = |draining, what| {
        let seen = third.snapshot();
        let web = &seen.services[0];
        assert_eq!((web.accepted, web.bytes_to_client, seen.reload.failed), (9, 21_000, 3), "{what}");
        assert_eq!((seen.handshakes[0].total.count(), seen.connections_draining), (3, draining), "{what}");
    };
    second.receive_counts(1, first.counts());
    third.receive_counts(1, second.counts());
    is(2, "the second passes on the counts of the first");
    third.process_ended(1);
    is(0, "the second has ended, and no process sends the counts of the first");
    third.receive_counts(2, first.counts());
    is(1, "the first sends its counts itself");
    third.process_ended(2);
    is(0, "all have ended");
}

#[test]
fn what_a_process_sends_itself_counts_more_than_what_others_received_from_it() {
    let [first, second, third] = [Registry::new(), Registry::new(), Registry::new()];
    [&first, &second, &third].into_iter().for_each(|registry| count(registry));
    let accepted = || third.snapshot().services[0].accepted;
    second.receive_counts(1, first.counts());
    third.receive_counts(1, second.counts());
    count(&first);
    third.receive_counts(2, first.counts());
    assert_eq!(accepted(), 12);
    // The counts that the second process sent at its end are older.
    third.receive_counts(1, second.counts());
    third.process_ended(1);
    assert_eq!(accepted(), 12);
    third.process_ended(2);
    assert_eq!(accepted(), 12);
}

#[test]
fn one_that_has_ended_is_among_the_numbers_of_the_next() {
    let [first, second, third] = [Registry::new(), Registry::new(), Registry::new()];
    [&first, &second, &third].into_iter().for_each(|registry| count(registry));
    second.receive_counts(1, first.counts());
    third.receive_counts(1, second.counts());
    second.process_ended(1);
    third.receive_counts(1, second.counts());
    assert_eq!((third.snapshot().services[0].accepted, third.snapshot().connections_draining), (9, 1));
}

#[test]
fn nothing_is_missing_at_the_moment_when_a_process_ends() {
    for _ in 0..300 {
        let registry = Registry::new();
        served(&registry);
        registry.receive_counts(1, vec![("before".into(), "5\tservice\tweb\taccepted\n".into())]);
        let ends = Arc::clone(&registry);
        let ending = std::thread::Builder::new().name("ending".into()).spawn(move || ends.process_ended(1));
        let ending = ending.expect("there are threads");
        let mut over = false;
        while !over {
            over = ending.is_finished();
            let counts = registry.counts();
            let sum: u64 = counts.iter().flat_map(|(_, text)| lines(text)).map(|(_, value)| value).sum();
            assert_eq!(sum, 5, "{counts:?}");
        }
    }
}

#[test]
fn processes_that_never_send_again_take_no_more_room() {
    let registry = Registry::new();
    count(&registry);
    for upgrade in 0..100 {
        let one = |name: &str| (format!("{name}{upgrade}"), "1\tservice\tweb\taccepted\n".to_owned());
        registry.receive_counts(upgrade, vec![one("second"), one("first")]);
        registry.process_ended(upgrade);
    }
    assert_eq!(registry.counts().len(), 1 + ORPHANS);
    assert_eq!(registry.snapshot().services[0].accepted, 3 + 200);
}

#[test]
fn what_is_not_known_here_is_left_out() {
    let registry = Registry::new();
    count(&registry);
    let page = || serde_json::to_value(registry.snapshot().services).expect("it is JSON");
    let before = page();
    let receive = |lines: &[&str]| {
        let counts = lines.iter().map(|line| line.replace(' ', "\t") + "\n").collect();
        registry.receive_counts(1, vec![("before".into(), counts)]);
    };
    receive(&[
        "5 service gone accepted",
        "5 service web duration 56",
        "5 service web duration x",
        "5 service web refused of-tomorrow",
        "5 handshake TLSv1.3",
        "-5 service web accepted",
        "5",
        "",
    ]);
    assert_eq!(page(), before);
    receive(&["5 service web end a b c"]);
    let ends = registry.snapshot().services[0].ends.clone();
    assert_eq!((ends[0].words(), ends[0].key(), ends[0].count), (["other"; 3], (None, None, None), 5));
    receive(&["18446744073709551615 service web accepted"]);
    assert_eq!(registry.snapshot().services[0].accepted, u64::MAX, "no overflow");
}
