//! In: plans and settings of machines. Out: the arithmetic to the last port, and refusals with their reason.

use super::*;
use crate::plan::{Arrivals, Target, Work};

const ALONE: Share = Share { index: 0, of: 1 };

fn settings(reuse: &str) -> BTreeMap<String, String> {
    let pairs = [(RANGE, "32768 60999"), (REUSE, reuse), (STAMPS, "1"), (BUCKETS, "262144")];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The standard plan against another machine.
fn standard() -> Plan {
    Plan { target: Target { host: "far.example".into(), port: 443, plain: false }, ..Plan::default() }
}

fn far(plan: &Plan, reuse: &str) -> Ports {
    arithmetic_with(plan, &[address("192.0.2.1")], &settings(reuse)).unwrap()
}

fn open(rate: f64, seconds: u64) -> Plan {
    let model = Model::open(rate, Arrivals::Fixed);
    Plan { model, duration: Duration::from_secs(seconds), ..standard() }
}

#[test]
fn a_port_rests_a_minute_when_we_end_first() {
    let ports = far(&standard(), "2");
    assert_eq!((ports.range, ports.sources, ports.destinations, ports.capacity), (28_232, 1, 1, 28_232));
    assert_eq!(ports.lasting_rate.map(|rate| rate as u64), Some(470));
    assert!(ports.sentence.contains("28,232 source ports × 1 source address"), "{}", ports.sentence);
    assert!(
        ports.sentence.contains("is in TIME_WAIT for 60 s: sustainable rate 470 new connections/s"),
        "{}",
        ports.sentence
    );
}

#[test]
fn reuse_makes_it_a_second_and_two_means_loopback_only() {
    let plan = standard();
    let reused = |reuse, target| {
        arithmetic_with(&plan, &[address(target)], &settings(reuse))
            .unwrap()
            .lasting_rate
            .map(|rate| rate as u64)
    };
    assert_eq!(reused("1", "192.0.2.1"), Some(28_232));
    assert_eq!(reused("2", "127.0.0.1"), Some(28_232));
    assert_eq!(reused("2", "::1"), Some(28_232));
    assert_eq!(reused("0", "127.0.0.1"), Some(470));
    let mut without_stamps = settings("1");
    without_stamps.insert(STAMPS.into(), "0".into());
    let ports = arithmetic_with(&plan, &[address("192.0.2.1")], &without_stamps).unwrap();
    assert_eq!(ports.lasting_rate.map(|rate| rate as u64), Some(470), "no reuse without time stamps");
    let mut quick = settings("1");
    quick.insert(DELAY.into(), "100".into());
    let ports = arithmetic_with(&plan, &[address("192.0.2.1")], &quick).unwrap();
    assert_eq!(ports.lasting_rate.map(|rate| rate as u64), Some(282_320));
    assert!(ports.sentence.contains("after 100 ms"), "{}", ports.sentence);
}

#[test]
fn a_reset_and_the_targets_end_leave_no_port_resting() {
    for close in [Close::Reset, Close::Server] {
        let ports = far(&Plan { close, ..standard() }, "0");
        assert_eq!(ports.lasting_rate, None, "{close:?}");
        assert!(ports.sentence.contains("free"), "{}", ports.sentence);
    }
}

#[test]
fn a_kernel_that_forgets_resting_pairs_does_not_run_out() {
    let mut few = settings("0");
    few.insert(BUCKETS.into(), "8192".into());
    let ports = arithmetic_with(&standard(), &[address("192.0.2.1")], &few).unwrap();
    assert_eq!(ports.lasting_rate, None);
    assert!(ports.sentence.contains("8,192 pairs"), "{}", ports.sentence);
    assert_eq!(objection(&open(5_000.0, 100), ALONE, Some(&ports), 100_000), None);
}

#[test]
fn sources_and_targets_multiply_and_reserved_ports_are_taken_off() {
    let sources = ["192.0.2.8", "192.0.2.9", "127.1.0.1"].map(address).to_vec();
    let plan = Plan { sources, ..standard() };
    let mut settings = settings("0");
    settings.insert(RESERVED.into(), "80,32768-32867,60999-61005,junk".into());
    let ports = arithmetic_with(&plan, &[address("192.0.2.1"), address("192.0.2.2")], &settings).unwrap();
    assert_eq!((ports.range, ports.sources, ports.destinations), (28_232 - 101, 2, 2));
    assert_eq!(ports.capacity, (28_232 - 101) * 4);
}

#[test]
fn nonsense_from_the_kernel_is_no_arithmetic() {
    for range in ["", "32768", "60999 32768", "a b", "1 70000"] {
        assert_eq!(usable(range, ""), None, "{range}");
    }
    assert_eq!(usable("5 5", "5"), Some(1), "never nothing: the kernel would not have taken the setting");
}

#[test]
fn the_kernel_of_this_machine_has_a_range() {
    let ports = arithmetic(&standard(), &[address("127.0.0.1")]).unwrap();
    assert!(ports.range > 0 && ports.capacity == ports.range, "{ports:?}");
}

#[test]
fn loopback_sources_do_not_reach_another_machine() {
    let plan = Plan { sources: vec![address("127.1.0.1")], ..standard() };
    assert!(reached(&plan, address("127.0.0.1")));
    assert!(!reached(&plan, address("192.0.2.1")));
    let ports = arithmetic(&plan, &[address("192.0.2.1")]).unwrap();
    let refusal = objection(&plan, ALONE, Some(&ports), 100_000).unwrap();
    assert!(refusal.is_wrong_use() && refusal.what.contains("loopback"), "{refusal}");
    let ports = arithmetic(&plan, &[address("127.0.0.1")]).unwrap();
    assert_eq!(objection(&plan, ALONE, Some(&ports), 100_000), None);
}

#[test]
fn a_rate_that_time_wait_does_not_let_last_is_refused_with_cures() {
    let plan = open(1_000.0, 60);
    let refusal = objection(&plan, ALONE, Some(&far(&plan, "2")), 100_000).unwrap();
    assert!(
        !refusal.is_wrong_use() && refusal.what.starts_with("open 60,000 connections within 60.0 s"),
        "{refusal}"
    );
    let hint = refusal.hint.unwrap();
    assert!(hint.contains("--source with 3 addresses") && hint.contains("--close reset"), "{hint}");
    assert!(hint.contains("tcp_tw_reuse=1"), "{hint}");
}

#[test]
fn the_same_rate_is_good_where_it_fits() {
    let fits = |plan: &Plan, share, reuse| objection(plan, share, Some(&far(plan, reuse)), 1 << 30).is_none();
    assert!(fits(&open(1_000.0, 28), ALONE, "2"), "short enough for the ports to last");
    assert!(!fits(&open(1_000.0, 29), ALONE, "2"));
    assert!(fits(&open(470.0, 3_600), ALONE, "2"), "slow enough for ever");
    assert!(fits(&open(1_000.0, 60), ALONE, "1"), "with reuse");
    assert!(fits(&open(1_000.0, 60), Share { index: 1, of: 3 }, "2"), "a third of it");
    assert!(fits(&Plan { close: Close::Reset, ..open(1e6, 60) }, ALONE, "2"), "without TIME_WAIT");
    let kept = Plan { exchanges: None, ..open(1e6, 60) };
    assert!(fits(&kept, ALONE, "2"), "exchanges on connections that stand open none");
}

#[test]
fn a_ramp_is_judged_by_its_worst_minute() {
    let ramp = |from, to, seconds| {
        let model = Model::ramp(from, to, Arrivals::Poisson);
        opened_within_rest(&Plan { model, duration: Duration::from_secs(seconds), ..standard() }).unwrap()
    };
    assert!((ramp(0.0, 100.0, 60) - 3_000.0).abs() < 1e-6);
    assert!((ramp(0.0, 120.0, 120) - 90.0 * 60.0).abs() < 1e-6, "from 60 to 120 in the second minute");
    assert!((ramp(120.0, 0.0, 120) - 90.0 * 60.0).abs() < 1e-6);
    assert!(ramp(1.0, 2.0, 0).abs() < 1e-6);
}

#[test]
fn more_connections_than_descriptors_or_ports_are_refused() {
    let plan = Plan { connections: 1_000, ..standard() };
    let ports = far(&plan, "2");
    let refusal = objection(&plan, ALONE, Some(&ports), 1_024).unwrap();
    assert!(refusal.what.contains("descriptor") && refusal.hint.unwrap().contains("--connections 960"));
    assert_eq!(objection(&plan, ALONE, Some(&ports), 1_064), None);
    assert_eq!(objection(&plan, ALONE, None, 1_064), None);

    let many = Plan { connections: 30_000, work: Work::Idle { send: 0, receive: 0 }, ..standard() };
    let refusal = objection(&many, ALONE, Some(&far(&many, "2")), 1 << 30).unwrap();
    assert!(refusal.what.starts_with("hold 30,000 connections open: there are 28,232"), "{refusal}");
    assert!(refusal.hint.unwrap().contains("--source with 2 addresses"));
    assert_eq!(objection(&many, Share { index: 0, of: 2 }, Some(&far(&many, "2")), 1 << 30), None);
}

#[test]
fn a_bound_in_flight_is_not_a_number_of_ports() {
    let plan = Plan { connections: 100_000, ..open(100.0, 60) };
    assert_eq!(objection(&plan, ALONE, Some(&far(&plan, "2")), 1 << 30), None);
}

#[test]
fn a_local_target_gets_the_hint_about_local_sources() {
    let plan = Plan { connections: 60_000, ..Plan::default() };
    let ports = arithmetic_with(&plan, &[address("127.0.0.1")], &settings("2")).unwrap();
    let hint = objection(&plan, ALONE, Some(&ports), 1 << 30).unwrap().hint.unwrap();
    assert!(hint.starts_with("--source 127.1.0.0/24"), "{hint}");
}
