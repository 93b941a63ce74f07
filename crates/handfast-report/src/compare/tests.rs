//! Tests that differences are found, named, and distinguished from chance.

use std::sync::OnceLock;

use handfast_stats::{Histogram, Random};

use super::*;
use crate::made_up;
use crate::plan::{self, Plan, Tls, Work};

/// A run of the made-up one's plan, made in this minute, with its latencies and its rate scaled.
fn run(minute: usize, latency: f64, rate: f64) -> Report {
    static PLAIN: OnceLock<Report> = OnceLock::new();
    let plain = PLAIN.get_or_init(|| {
        // Histograms are large, and nothing is read from them here.
        let mut report = Report { timeline: Vec::new(), search: None, ..made_up::report() };
        report.members.iter_mut().for_each(|member| (member.handshake, member.total) = (None, None));
        report.requests.iter_mut().for_each(|request| request.exchange = None);
        report.series.iter_mut().for_each(|series| series.histogram = Histogram::new());
        report
    });
    let mut report = plain.clone();
    report.manifest.started = format!("2026-11-22T10:{minute:02}:00Z");
    report.totals.rate *= rate;
    for series in &mut report.series {
        series.percentiles_ns.values_mut().for_each(|nanos| *nanos = (*nanos as f64 * latency) as u64);
    }
    report
}

fn plan_of(report: &mut Report) -> &mut Plan {
    &mut report.manifest.job.as_mut().unwrap().plan
}

fn closed(mut report: Report) -> Report {
    plan_of(&mut report).model = plan::Model::Closed;
    report.totals.offered_rate = None;
    report
}

/// Runs of both sides in turn (A B B A A B), each changed by this function of its side and its place.
fn in_turn(number: usize, mut change: impl FnMut(usize, &'static str) -> Report) -> [Vec<Report>; 2] {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for place in 0..number * 2 {
        let (side, name) = if matches!(place % 4, 0 | 3) { (&mut a, "A") } else { (&mut b, "B") };
        side.push(change(place, name));
    }
    [a, b]
}

fn compared<'r>(a: &'r [Report], b: &'r [Report]) -> Compared<'r> {
    Compared::new(Sides { a, b, names: ("before", "after"), across_targets: false })
}

/// Three runs of A as they are, and three of B that are scaled; runs differ by one per cent.
fn apart(latency: f64, rate: f64, of: fn(Report) -> Report) -> [Vec<Report>; 2] {
    in_turn(3, |place, side| {
        let own = 1.0 + 0.01 * (place / 2) as f64;
        of(if side == "A" { run(place, own, own) } else { run(place, latency * own, rate * own) })
    })
}

/// Runs of the same thing that differ from each other as those of a shared machine do: by a tenth, and now and then by half as much
/// again; p99 by more than p50.
fn same_thing(seed: u64) -> [Vec<Report>; 2] {
    let mut random = Random::stream(seed, 3);
    let mut normal = move || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    in_turn(3, |place, _| {
        let own = (0.1 * normal()).exp() * if normal() > 1.3 { 1.5 } else { 1.0 };
        let mut report = run(place, own, 1.0 / own);
        let tail = (0.3 * normal()).exp();
        for series in &mut report.series {
            series
                .percentiles_ns
                .entry("p99".into())
                .and_modify(|nanos| *nanos = (*nanos as f64 * tail) as u64);
        }
        report
    })
}

#[test]
fn of_200_pairs_of_the_same_thing_at_most_one_in_twenty_is_called_different() {
    for of in [|report| report, closed] {
        let different = (0..200).filter(|seed| {
            let [a, b] = same_thing(*seed).map(|runs| runs.into_iter().map(of).collect::<Vec<_>>());
            let compared = compared(&a, &b);
            assert!(
                matches!(compared.answer(), ComparisonResult::Different | ComparisonResult::NoDifference),
                "{compared:?}"
            );
            *compared.answer() == ComparisonResult::Different
        });
        let different = different.count();
        assert!(different <= 10, "{different} of 200");
    }
}

#[test]
fn one_run_a_side_makes_no_claim() {
    let (a, b) = ([run(1, 1.0, 1.0)], [run(2, 5.0, 0.2)]);
    let compared = compared(&a, &b);
    assert!(
        matches!(compared.answer(), ComparisonResult::SideBySide(why) if why.contains("at least 3 runs of each side"))
    );
    let text = compared.text(None);
    assert!(text.starts_with("SIDE BY SIDE, no claim: runs of the same thing differ too"), "{text}");
    assert!(!text.contains("more time") && !text.contains("slower") && !text.contains("interval"), "{text}");
    assert!(text.contains("total p50"), "the figures are shown:\n{text}");
    let json: serde_json::Value = serde_json::from_str(&compared.json()).unwrap();
    assert_eq!(json["answer"], "side-by-side");
    assert!(json["figures"].as_array().unwrap().iter().all(|figure| figure["better"].is_null()), "{json:#}");
}

#[test]
fn an_open_model_is_compared_by_its_latencies_and_a_closed_one_by_its_rate_too() {
    let deciding = |sides: &[Vec<Report>; 2]| -> Vec<String> {
        let compared = compared(&sides[0], &sides[1]);
        compared.figures.iter().filter(|figure| figure.decides).map(|figure| figure.name.clone()).collect()
    };
    assert_eq!(deciding(&apart(1.0, 1.0, |report| report)), ["total p50", "total p99"]);
    assert_eq!(deciding(&apart(1.0, 1.0, closed)), ["rate", "total p99"]);
    let at_its_limit = |mut report: Report| {
        report.verdict.word = VerdictWord::TargetLimited;
        report
    };
    assert_eq!(deciding(&apart(1.0, 1.0, at_its_limit)), ["rate"]);
    // The rate that was asked for is no speed.
    let [a, b] = apart(1.0, 4.0, |report| report);
    let text = compared(&a, &b).text(None);
    assert!(text.starts_with("NO DIFFERENCE FOUND: ") && !text.contains("as fast"), "{text}");
}

#[test]
fn what_differs_is_reported_and_by_how_much() {
    let [a, b] = apart(0.8, 1.3, closed);
    let text = compared(&a, &b).text(None);
    assert!(
        text.starts_with("DIFFERENT: rate: after is 30 % faster; total p99: after takes 20 % less time"),
        "{text}"
    );
    assert!(text.contains("  A: before, 3 runs (VALID)"), "{text}");
    let text = compared(&b, &a).text(None);
    assert!(text.contains("rate: after is 23 % slower; total p99: after takes 25 % more time"), "{text}");
    let [a, b] = apart(51.9, 52.0, closed);
    let text = compared(&a, &b).text(None);
    assert!(
        text.contains("rate: after is 52 times as fast; total p99: after takes 52 times as long"),
        "{text}"
    );
    let [a, b] = apart(1.005, 1.0, |mut report| {
        report.series.iter_mut().for_each(|series| {
            series.percentiles_ns.values_mut().for_each(|nanos| *nanos = *nanos / 1_000_000 * 1_000_000 + 1);
        });
        report
    });
    assert_eq!(
        *compared(&a, &b).answer(),
        ComparisonResult::NoDifference,
        "below one per cent nothing is claimed"
    );
}

#[test]
fn programs_read_the_same() {
    let [a, b] = apart(0.8, 1.3, closed);
    let json: serde_json::Value = serde_json::from_str(&compared(&a, &b).json()).unwrap();
    assert_eq!((json["schema"].as_str(), json["answer"].as_str()), (Some(SCHEMA), Some("different")));
    let figures = json["figures"].as_array().unwrap();
    let figure = |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap();
    assert_eq!(figure("rate")["better"], "faster");
    assert!((figure("total p99")["ratio"].as_f64().unwrap() - 0.8).abs() < 0.01, "{json:#}");
    assert!(figure("total p99")["p"].as_f64().unwrap() < 0.01, "{json:#}");
    assert_eq!(figure("rate")["a_runs"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&figure("connect p99")["decides"], &figure("connect p99")["p"]),
        (&false.into(), &serde_json::Value::Null)
    );
}

#[test]
fn other_work_model_target_or_report_is_not_comparable() {
    let reason = |change: &dyn Fn(&mut Report)| -> String {
        let mut other = run(2, 1.0, 1.0);
        change(&mut other);
        let (a, b) = ([run(1, 1.0, 1.0)], [other]);
        let compared = compared(&a, &b);
        let text = compared.text(None);
        let ComparisonResult::NotComparable(reasons) = compared.answer() else {
            return format!("{:?}", compared.answer());
        };
        assert!(text.starts_with("NOT COMPARABLE: the two sides did different things"), "{text}");
        assert!(text.contains(&format!("  - {}", reasons[0])), "{text}");
        reasons.join("\n")
    };
    let message = reason(&|report| plan_of(report).model = plan::Model::Closed);
    assert!(message.contains("job model differs: open in run 1 of A, closed in run 1 of B"), "{message}");
    let rate = plan::Model::open(7.0, plan::Arrivals::Poisson);
    assert!(reason(&|report| plan_of(report).model = rate.clone()).contains("job model.rate differs: 5000"));
    assert!(reason(&|report| plan_of(report).work = Work::Handshake).contains("job work differs"));
    assert!(reason(&|report| plan_of(report).target.port = 9_443).contains("the target differs"));
    assert!(reason(&|report| report.manifest.program = "handfast 9".into()).contains("the program differs"));
    assert!(reason(&|report| report.schema = "handfast-load/9".into()).contains("the version of the report"));
    assert!(reason(&|report| plan_of(report).tls.groups.clear()).contains("job tls.groups differs"));
    assert!(
        reason(&|report| report.manifest.job = None).contains("job differs: recorded in run 1 of A, not")
    );
    assert!(
        reason(&|report| report.members[1].share = 0.3).contains("the mix of clients differs: 80 % browsers")
    );
    assert!(reason(&|report| drop(report.requests.pop())).contains("the list of requests differs"));
    // The runs of one side among themselves.
    let mut other = run(2, 1.0, 1.0);
    plan_of(&mut other).connections += 1;
    let (a, b) = ([run(1, 1.0, 1.0), other], [run(3, 1.0, 1.0)]);
    let compared = compared(&a, &b);
    assert!(
        matches!(compared.answer(), ComparisonResult::NotComparable(why) if why[0].ends_with("in run 2 of A")),
        "{compared:?}"
    );
}

#[test]
fn two_servers_are_compared_when_that_is_requested() {
    let mut other = run(2, 1.0, 1.0);
    plan_of(&mut other).target.port = 9_443;
    let (a, b) = ([run(1, 1.0, 1.0)], [other]);
    let sides = Sides { a: &a, b: &b, names: ("x", "y"), across_targets: true };
    assert!(matches!(Compared::new(sides).answer(), ComparisonResult::SideBySide(_)));
}

#[test]
fn a_name_that_follows_the_target_is_no_difference() {
    let named = |name: &str| {
        let mut report = run(1, 1.0, 1.0);
        let members = report.members.clone();
        let plan = plan_of(&mut report);
        for member in &members {
            let tls = Tls { server_name: Some(name.into()), ..plan.tls.clone() };
            plan.mix.push(plan::Member { name: member.name.clone(), share: member.share, tls });
        }
        report
    };
    let answer = |other: Report| compared(&[named("a.example")], &[other]).answer().clone();
    assert!(!matches!(answer(named("b.example")), ComparisonResult::NotComparable(_)));
    let mut other = named("a.example");
    plan_of(&mut other).mix[0].tls.groups.pop();
    assert!(matches!(answer(other), ComparisonResult::NotComparable(_)), "a group is one");
}

#[test]
fn circumstances_are_warned_of() {
    let mut other = run(2, 1.0, 1.0);
    plan_of(&mut other).threads = 9;
    other.manifest.seed = 3;
    other.stalled = vec![7];
    other.workers[1].machine.insert("kernel".into(), "5.10\u{1b}".into());
    let (a, b) = ([run(1, 1.0, 1.0)], [other]);
    let text = compared(&a, &b).text(None);
    assert!(
        text.contains("worker 2 kernel differs: 6.18.3 in run 1 of A, 5.10\\u{1b} in run 1 of B"),
        "{text}"
    );
    assert!(text.contains("in run 1 of B the target stalled for 1 second"), "{text}");
    assert_eq!(text.matches("warning:").count(), 3, "the seed may differ\n{text}");
}

#[test]
fn what_is_not_valid_is_not_compared() {
    let with = |word: VerdictWord| {
        let mut report = run(1, 0.8, 1.2);
        report.verdict.word = word;
        [report]
    };
    let valid = with(VerdictWord::Valid);
    let result_of = |a: &[Report; 1], b: &[Report; 1]| compared(a, b).answer().clone();
    for word in [VerdictWord::PortLimited, VerdictWord::Errors, VerdictWord::TargetLimited] {
        let expected = |side| {
            let word = word.name();
            ComparisonResult::NotCompared(format!(
                "run 1 of {side} is {word}, so which side is faster is not known"
            ))
        };
        assert_eq!(
            (result_of(&valid, &with(word)), result_of(&with(word), &valid)),
            (expected("B"), expected("A"))
        );
    }
    let limit = || with(VerdictWord::TargetLimited);
    assert!(
        matches!(result_of(&limit(), &limit()), ComparisonResult::SideBySide(_)),
        "the limits of two targets are compared"
    );
}

#[test]
fn runs_that_were_not_made_in_turn_make_no_claim() {
    let result_of = |a: &[usize], b: &[usize]| {
        let runs =
            |minutes: &[usize]| minutes.iter().map(|minute| run(*minute, 1.0, 1.0)).collect::<Vec<_>>();
        let (a, b) = (runs(a), runs(b));
        match compared(&a, &b).answer() {
            ComparisonResult::SideBySide(why) => why.clone(),
            other => format!("{other:?}"),
        }
    };
    assert!(result_of(&[1, 2, 3], &[4, 5, 6]).contains("not made in turn (A A A B B B)"));
    assert!(result_of(&[1, 5, 6, 7], &[2, 3, 4]).contains("not made in turn (A B B B A A A)"));
    assert!(result_of(&[1, 3, 5], &[1, 4, 6]).contains("do not say in which order"));
    for (a, b) in [([1, 4, 5], [2, 3, 6]), ([1, 3, 5], [2, 4, 6])] {
        assert_eq!(result_of(&a, &b), "NoDifference");
    }
}

#[test]
fn nothing_to_compare_is_reported() {
    assert!(compared(&[], &[]).text(None).starts_with("SIDE BY SIDE"));
    let [a, b] = in_turn(3, |place, _| Report { series: Vec::new(), ..run(place, 1.0, 1.0) });
    let text = compared(&a, &b).text(None);
    assert!(text.starts_with("NO DIFFERENCE FOUND: the runs have no figure"), "{text}");
}

#[test]
fn a_series_that_is_another_one_is_not_reported_twice() {
    let names = |report: Report| -> Vec<String> {
        let runs = [report];
        compared(&runs, &runs).figures.iter().map(|figure| figure.name.clone()).collect()
    };
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    let mut report = run(1, 1.0, 1.0);
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
    let [a, b] = in_turn(3, |place, side| {
        let mut report = closed(run(place, 1.0, 1.0));
        plan_of(&mut report).work = Work::Bulk { send: true, receive: true };
        let more = if side == "A" { 1.0 } else { 0.5 } * (1.0 + 0.01 * (place / 2) as f64);
        report.totals.sent_bytes = (1e9 * more) as u64;
        report.totals.received_bytes = report.totals.sent_bytes;
        report
    });
    let text = compared(&a, &b).text(None);
    assert!(text.starts_with("DIFFERENT: bytes: after is 50 % slower"), "{text}");
    assert!(text.contains("MiB/s") && !text.contains("\n  rate "), "{text}");
}

#[test]
fn sentences_are_wrapped_at_a_terminal_and_nowhere_else() {
    let (a, b) = ([run(1, 1.0, 1.0)], [run(2, 1.0, 1.0)]);
    let compared = compared(&a, &b);
    let lines = |columns| compared.text(columns).lines().next().unwrap().chars().count();
    assert!(lines(Some(60)) <= 60 && lines(None) > 100);
}
