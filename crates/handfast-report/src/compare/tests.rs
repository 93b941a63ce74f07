//! Whether differences are found, named, and told from noise.

use super::*;
use crate::made_up;
use crate::model::VerdictWord;
use crate::plan::{self, Tls};

/// The made-up run with its main histograms scaled, and as many transactions more or less.
fn scaled(latency: f64, rate: f64) -> Report {
    let mut report = made_up::report();
    for second in &mut report.timeline {
        second.transactions = (second.transactions as f64 * rate) as u64;
        let mut main = Histogram::new();
        for (value, count) in second.main.buckets() {
            (0..count).for_each(|_| main.record_nanos((value as f64 * latency) as u64));
        }
        second.main = main;
        for percentiles in second.percentiles_ns.values_mut() {
            percentiles.values_mut().for_each(|nanos| *nanos = (*nanos as f64 * latency) as u64);
        }
    }
    report
}

fn one(report: Report) -> [Report; 1] {
    [report]
}

#[test]
fn a_run_against_itself_is_noise() {
    let report = one(made_up::report());
    let text = compare(&report, &report, ("before", "after"), 1);
    assert!(text.starts_with("NOISE: no difference"), "{text}");
    assert!(!text.contains("warning:") && !text.contains("faster"), "{text}");
}

#[test]
fn another_mix_or_other_requests_cannot_be_compared() {
    let a = one(made_up::report());
    let mut other = made_up::report();
    other.members[1].share = 0.3;
    let text = compare(&a, &one(other.clone()), ("before", "after"), 1);
    assert!(text.starts_with("NOT COMPARABLE: "), "{text}");
    assert!(text.contains("warning: the mix of clients differs: 80 % browsers"), "{text}");
    assert!(compare_json(&a, &one(other), ("a", "b"), 1).contains("\"not_comparable\": [\n    \"the mix"));
    let mut other = made_up::report();
    other.requests.pop();
    assert!(compare(&a, &one(other), ("a", "b"), 1).contains("warning: the list of requests differs"));
    let named = |name: &str| {
        let mut report = made_up::report();
        let plan = &mut report.manifest.job.as_mut().unwrap().plan;
        for member in &mut report.members {
            let tls = Tls { server_name: Some(name.into()), ..plan.tls.clone() };
            member.offered = tls.sentence();
            plan.mix.push(plan::Member { name: member.name.clone(), share: member.share, tls });
        }
        report
    };
    let text = |other: Report| compare(&one(named("a.example")), &one(other), ("a", "b"), 1);
    assert!(!text(named("b.example")).contains("NOT COMPARABLE"), "a name is no difference");
    let mut other = named("a.example");
    other.manifest.job.as_mut().unwrap().plan.mix[0].tls.groups.pop();
    assert!(text(other).contains("NOT COMPARABLE"), "a group is one");
}

#[test]
fn what_is_faster_is_said_to_be_and_by_how_much() {
    let (a, b) = (one(made_up::report()), one(scaled(0.8, 1.12)));
    let text = compare(&a, &b, ("before", "after"), 1);
    assert!(text.starts_with("rate: after is 12 % faster; total p50: after takes 20 % less time"), "{text}");
    let text = compare(&b, &a, ("before", "after"), 1);
    assert!(text.contains("rate: after is 11 % slower") && text.contains("takes 25 % more time"), "{text}");
    assert!(text.contains("handshake p99 *"), "{text}");
}

#[test]
fn programs_read_the_same() {
    let (a, b) = (one(made_up::report()), one(scaled(0.8, 1.12)));
    let json: serde_json::Value = serde_json::from_str(&compare_json(&a, &b, ("a", "b"), 1)).unwrap();
    assert_eq!(json["schema"], SCHEMA);
    let figure =
        |name: &str| json["figures"].as_array().unwrap().iter().find(|f| f["name"] == name).unwrap().clone();
    assert_eq!(figure("rate")["better"], "faster");
    assert!((figure("total p50")["comparison"]["ratio"].as_f64().unwrap() - 0.8).abs() < 0.01);
    // Sixty seconds without the first and the one with a missing worker.
    assert_eq!(figure("rate")["comparison"]["seconds"], serde_json::json!([58, 58]));
    assert_eq!(figure("connect p99")["median_of_seconds"], true);
}

#[test]
fn what_cannot_be_compared_is_named() {
    let a = one(made_up::report());
    let mut other = made_up::report();
    other.verdict.word = VerdictWord::GeneratorLimited;
    let plan = &mut other.manifest.job.as_mut().unwrap().plan;
    plan.tls.groups = vec!["secp256r1".into()];
    plan.target.port = 9_443;
    other.manifest.seed = 3;
    other.workers[1].machine.insert("kernel".into(), "5.10\u{1b}".into());
    let text = compare(&a, &one(other), ("A", "B"), 1);
    assert!(text.contains("run 1 of B is GENERATOR-LIMITED"), "{text}");
    assert!(
        text.contains("job tls.groups differs: [\"X25519\"] in run 1 of A, [\"secp256r1\"] in run 1 of B"),
        "{text}"
    );
    assert!(
        text.contains("worker 2 kernel differs: 6.18.3 in run 1 of A, 5.10\\u{1b} in run 1 of B"),
        "{text}"
    );
    assert_eq!(text.matches("warning:").count(), 3, "the target and the seed may differ\n{text}");
}

#[test]
fn what_is_not_valid_is_not_compared() {
    let with = |word| {
        let mut report = scaled(0.8, 1.12);
        report.timeline.truncate(6);
        report.verdict.word = word;
        one(report)
    };
    let valid = with(VerdictWord::Valid);
    for word in [VerdictWord::PortLimited, VerdictWord::Errors, VerdictWord::TargetLimited] {
        let said =
            |side| Some(format!("run 1 of {side} is {}, so which side is faster is not known", word.name()));
        assert_eq!((unfit(&valid, &with(word)), unfit(&with(word), &valid)), (said('B'), said('A')));
    }
    assert_eq!(unfit(&valid, &valid), None);
    let limit = || with(VerdictWord::TargetLimited);
    assert_eq!(unfit(&limit(), &limit()), None, "the limits of two targets are compared");
    let spoilt = with(VerdictWord::GeneratorLimited);
    let text = compare(&valid, &spoilt, ("x", "y"), 1);
    assert!(text.starts_with("NOT COMPARED: run 1 of B is GENERATOR-LIMITED, so which side is"), "{text}");
    assert!(!text.contains("y is ") && !text.contains("less time") && !text.contains("noise\n"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&compare_json(&valid, &spoilt, ("a", "b"), 1)).unwrap();
    assert!(json["not_compared"].as_str().is_some_and(|why| why.contains("GENERATOR-LIMITED")), "{json:#}");
    assert!(
        json["figures"].as_array().unwrap().iter().all(|figure| figure["better"] == "unknown"),
        "{json:#}"
    );
}

#[test]
fn runs_that_were_not_made_in_turn_are_told() {
    let at = |minute: &u32| {
        let mut report = Report::default();
        report.manifest.started = format!("2026-11-22T10:{minute:02}:00Z");
        report
    };
    let said = |a: &[u32], b: &[u32]| {
        let runs = |minutes: &[u32]| minutes.iter().map(at).collect::<Vec<_>>();
        differences::warnings(&runs(a), &runs(b)).join("\n")
    };
    assert!(said(&[1, 2], &[3, 4]).contains("one side after the other (A A B B)"));
    assert!(said(&[3, 4], &[1, 2]).contains("one side after the other (B B A A)"));
    assert!(said(&[1], &[2, 3]).contains("(A B B)"));
    for (a, b) in [(&[1, 4][..], &[2, 3][..]), (&[1, 3], &[2, 4]), (&[1], &[2]), (&[1, 1], &[2, 2])] {
        assert_eq!(said(a, b), "", "{a:?} {b:?}");
    }
}

#[test]
fn a_target_that_stood_still_is_told() {
    let mut stalled = made_up::report();
    stalled.stalled = vec![7];
    let warnings = differences::warnings(&one(made_up::report()), &one(stalled));
    assert_eq!(warnings, ["in run 1 of B the target stalled for 1 second"]);
}

#[test]
fn paired_runs_are_taken_together() {
    let a = [made_up::report(), scaled(1.0, 1.01)];
    let b = [scaled(0.7, 1.2), scaled(0.7, 1.21)];
    let text = compare(&a, &b, ("A", "B"), 1);
    assert!(
        text.contains("2 runs, 116 seconds used (VALID, VALID)")
            && text.starts_with("rate: B is 20 % faster"),
        "{text}"
    );
}

#[test]
fn nothing_to_compare_is_said() {
    assert!(compare(&[], &[], ("A", "B"), 1).starts_with("NOT COMPARED"));
    let short = || one(Report { timeline: Vec::new(), ..made_up::report() });
    assert!(compare(&short(), &short(), ("A", "B"), 1).contains("too few seconds to say"));
    assert!(compare_json(&[], &short(), ("A", "B"), 1).contains("\"comparison\": null"));
}

#[test]
fn one_bad_second_does_not_rule_a_median() {
    let good = || {
        let mut report = made_up::report();
        report.timeline.truncate(10);
        report.totals.duration_seconds = 10.0;
        report
    };
    let mut stalled = good();
    let handshake = stalled.timeline[5].percentiles_ns.get_mut("handshake").unwrap();
    handshake.values_mut().for_each(|nanos| *nanos *= 500);
    // The mean of them would be fifty times that of the others.
    let figures = figures(&one(good()), &one(stalled), 1);
    let found = figures.iter().find(|figure| figure.name == "handshake p50").unwrap().found.unwrap();
    assert!(found.noise && found.high < 2.0, "{found:?}");
    assert!((found.ratio - 1.0).abs() < 0.1, "{found:?}");
}

#[test]
fn a_series_that_is_another_one_is_not_told_twice() {
    let names = |report: Report| -> Vec<String> {
        figures(&one(report.clone()), &one(report), 1).into_iter().map(|figure| figure.name).collect()
    };
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    let mut report = made_up::report();
    assert!(has(&names(report.clone()), "handshake-full p50"));
    let all = report.series.iter().find(|series| series.name == "handshake").unwrap().count;
    report.series.retain(|series| series.name != "handshake-resumed");
    report
        .series
        .iter_mut()
        .filter(|series| series.name == "handshake-full")
        .for_each(|full| full.count = all);
    let names = names(report);
    assert!(!has(&names, "handshake-full p50") && has(&names, "handshake p50"), "{names:?}");
}

#[test]
fn bulk_is_compared_in_bytes() {
    let bulk = |more: f64| {
        let mut report = made_up::report();
        let plan = &mut report.manifest.job.as_mut().unwrap().plan;
        plan.work = crate::plan::Work::Bulk { send: true, receive: true };
        for second in &mut report.timeline {
            second.transactions = 0;
            second.bytes = (second.bytes as f64 * more) as u64;
        }
        report
    };
    let text = compare(&one(bulk(1.0)), &one(bulk(0.5)), ("A", "B"), 1);
    assert!(text.starts_with("bytes: B is 50 % slower"), "{text}");
    assert!(text.contains("MiB/s") && !text.contains("\n  rate "), "{text}");
}
