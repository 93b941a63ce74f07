//! In: targets that are made up, quiet and noisy ones. Out: that the search finds what they can do, and ends.

use std::time::Duration;

use handfast_report::model::{Report, Series, Totals, Verdict};
use handfast_report::plan::{Arrivals, Model, Plan};
use handfast_stats::Histogram;

use super::*;

fn spec() -> SearchSpec {
    SearchSpec::new("total.p99=50ms").unwrap()
}

fn step(offered_rate: f64, held: bool, verdict: VerdictWord) -> SearchStep {
    SearchStep { offered_rate, rate: offered_rate, found: String::new(), held, verdict }
}

/// Runs a search to its end, at most 64 rates of as many repeats, and two more that the generator spoils.
fn run(spec: SearchSpec, answer: impl FnMut(f64) -> (bool, VerdictWord)) -> (model::Search, Vec<String>) {
    let found = run_to_its_end(spec, answer);
    (found.search, found.notes)
}

fn run_to_its_end(spec: SearchSpec, mut answer: impl FnMut(f64) -> (bool, VerdictWord)) -> Found {
    let mut search = Search::new(spec.clone());
    let mut steps = 0;
    while let Some(rate) = search.next() {
        let (held, verdict) = answer(rate);
        search.result(step(rate, held, verdict));
        steps += 1;
        assert!(steps <= MAX_RATES * (spec.repeats + MAX_LIMITED_STEPS - 1), "it ends");
    }
    let found = search.finish();
    assert_eq!(found.search.steps.len(), steps as usize, "the search lists every step");
    found
}

fn up_to(limit: f64) -> impl FnMut(f64) -> (bool, VerdictWord) {
    move |rate| if rate <= limit { (true, VerdictWord::Valid) } else { (false, VerdictWord::TargetLimited) }
}

#[test]
fn it_finds_what_a_quiet_target_can_do() {
    for limit in [1.0, 99.0, 100.0, 101.0, 12_345.0, 7e6] {
        let (found, notes) = run(spec(), up_to(limit));
        let (low, high) = (found.highest_rate.unwrap(), found.lowest_failed.unwrap());
        assert!(low <= limit && limit < high && high <= low * 1.05 + 1e-9, "{limit}: {low} {high}");
        assert_eq!(notes, Vec::<String>::new());
    }
}

#[test]
fn a_finer_precision_takes_more_steps() {
    let fine = SearchSpec { precision: 0.002, ..spec() };
    let (found, _) = run(fine, up_to(1_000.7));
    assert!((found.highest_rate.unwrap() - 1_000.7).abs() < 2.1);
}

#[test]
fn two_repeats_that_agree_are_enough() {
    let (found, _) = run(spec(), up_to(150.0));
    assert!(found.steps.iter().filter(|step| step.offered_rate == 100.0).count() == 2, "{:?}", found.steps);
}

#[test]
fn one_bad_step_of_three_decides_nothing() {
    let mut count = 0;
    let (found, notes) = run(spec(), |rate| {
        count += 1;
        // Every fifth step says the contrary: never two of the same three.
        let held = (rate <= 3_000.0) != (count % 5 == 0);
        (held, VerdictWord::Valid)
    });
    let (low, high) = (found.highest_rate.unwrap(), found.lowest_failed.unwrap());
    assert!(low <= 3_000.0 && 3_000.0 < high && high <= low * 1.05 + 1e-9, "{low} {high}");
    assert!(notes.iter().any(|note| note.contains("did not agree")), "{notes:?}");
}

#[test]
fn pure_noise_ends_all_the_same() {
    let mut state = 1_u32;
    for _ in 0..100 {
        run(spec(), |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state & (1 << 30) != 0, VerdictWord::Valid)
        });
    }
    let (found, notes) = run(spec(), |_| (true, VerdictWord::Valid));
    assert!(found.lowest_failed.is_none() && notes[0].contains("ended before"), "{notes:?}");
}

#[test]
fn the_generators_limit_ends_the_way_up_and_is_reported() {
    let mut greatest = 0.0_f64;
    let found = run_to_its_end(spec(), |rate| {
        greatest = greatest.max(rate);
        if rate < 5_000.0 { (true, VerdictWord::Valid) } else { (false, VerdictWord::GeneratorLimited) }
    });
    assert!((greatest - 6_400.0).abs() < 1e-9, "no rate above the first that was limited: {greatest}");
    let highest = found.search.highest_rate.unwrap();
    assert!(highest > 4_700.0 && highest < 5_000.0, "{highest}");
    assert_eq!(found.search.lowest_failed, None, "no rate is known that the target does not hold");
    let verdict = found.verdict.unwrap();
    assert_eq!(verdict.word, VerdictWord::GeneratorLimited);
    assert!(verdict.evidence[0].contains("it is not known whether total.p99=50ms holds"), "{verdict:?}");
    assert!(found.notes.len() == 1 && found.notes[0].contains("had no vote"), "{:?}", found.notes);
    let ports = run_to_its_end(spec(), |rate| (rate < 200.0, VerdictWord::PortLimited)).verdict.unwrap();
    assert!(
        ports.word == VerdictWord::PortLimited && ports.evidence[0].contains("source ports"),
        "{ports:?}"
    );
}

#[test]
fn a_target_that_is_slower_than_the_generator_is_found_all_the_same() {
    let found = run_to_its_end(spec(), |rate| match rate {
        rate if rate <= 3_500.0 => (true, VerdictWord::Valid),
        rate if rate <= 5_000.0 => (false, VerdictWord::TargetLimited),
        _ => (false, VerdictWord::GeneratorLimited),
    });
    let (low, high) = (found.search.highest_rate.unwrap(), found.search.lowest_failed.unwrap());
    assert!(low <= 3_500.0 && 3_500.0 < high && high <= low * 1.05 + 1e-9, "{low} {high}");
    assert!(found.verdict.is_none(), "the target ended it: {:?}", found.verdict);
}

#[test]
fn a_step_that_the_generator_spoilt_has_no_vote() {
    // Every other step is spoilt by a neighbour, as on a noisy machine; the first one too.
    let mut count = 0;
    let found = run_to_its_end(spec(), |rate| {
        count += 1;
        if count % 2 == 1 { (false, VerdictWord::GeneratorLimited) } else { up_to(3_000.0)(rate) }
    });
    let (low, high) = (found.search.highest_rate.unwrap(), found.search.lowest_failed.unwrap());
    assert!(low <= 3_000.0 && 3_000.0 < high && high <= low * 1.05 + 1e-9, "{low} {high}");
    assert!(found.verdict.is_none(), "{:?}", found.verdict);
}

#[test]
fn a_generator_that_cannot_do_the_first_rate_does_not_describe_the_target() {
    let found = run_to_its_end(spec(), |_| (false, VerdictWord::GeneratorLimited));
    assert_eq!((found.search.highest_rate, found.search.lowest_failed), (None, None));
    assert_eq!(found.search.steps.len(), 3, "again and again, and then no more");
    let verdict = found.verdict.unwrap();
    assert!(verdict.evidence[0].starts_with("it is not known which rate holds"), "{verdict:?}");
}

#[test]
fn the_highest_is_what_most_repeats_held() {
    let mut search = Search::new(spec());
    for held in [true, true, true, false] {
        search.result(step(search.next().unwrap(), held, VerdictWord::Valid));
    }
    assert_eq!((search.next(), search.highest()), (Some(200.0), Some(100.0)), "one to one is no majority");
    search.result(step(200.0, false, VerdictWord::TargetLimited));
    assert_eq!(search.highest(), Some(100.0));
}

#[test]
fn a_target_that_never_holds_is_given_up() {
    let (found, notes) = run(spec(), |_| (false, VerdictWord::Errors));
    assert_eq!(found.highest_rate, None);
    assert!((found.lowest_failed.unwrap() - 100.0 / 1024.0).abs() < 1e-9, "{found:?}");
    assert!(notes[0].contains("no rate held total.p99=50ms"), "{notes:?}");
    assert_eq!(found.steps.len(), 22, "eleven rates, two repeats each");
}

#[test]
fn wishes_without_sense_still_make_a_search() {
    let odd = SearchSpec { from: f64::NAN, precision: f64::NEG_INFINITY, repeats: 0, ..spec() };
    let (found, _) = run(SearchSpec { repeats: 1, ..odd.clone() }, up_to(250.0));
    assert!((found.highest_rate.unwrap() - 250.0).abs() < 15.0);
    assert_eq!(Search::new(odd).spec.repeats, 1);
}

#[test]
fn it_can_be_stopped_with_what_is_known() {
    let mut search = Search::new(SearchSpec { repeats: 1, ..spec() });
    search.result(step(100.0, true, VerdictWord::Valid));
    search.stop();
    assert_eq!(search.next(), None);
    search.result(step(200.0, true, VerdictWord::Valid));
    let Found { search: found, notes, .. } = search.finish();
    assert_eq!((found.highest_rate, found.steps.len()), (Some(100.0), 1));
    assert!(notes[0].contains("ended before"));
}

#[test]
fn a_step_holds_when_the_bound_does_and_the_run_is_valid() {
    let mut histogram = Histogram::new();
    histogram.record(Duration::from_millis(20));
    let series = vec![Series { name: "total".into(), count: 1, histogram, ..Series::default() }];
    let report = |word| Report {
        verdict: Verdict { word, evidence: Vec::new() },
        totals: Totals { rate: 99.0, ..Totals::default() },
        series: series.clone(),
        ..Report::default()
    };
    let good = spec().step(100.0, &report(VerdictWord::Valid));
    assert!(good.held && good.found.starts_with("20.0") && (good.rate - 99.0).abs() < 1e-9, "{good:?}");
    assert!(!spec().step(100.0, &report(VerdictWord::TargetLimited)).held, "quick answers to too few");
    let strict = SearchSpec::new("total.p50=10ms").unwrap();
    assert!(!strict.step(100.0, &report(VerdictWord::Valid)).held);
}

#[test]
fn a_search_needs_a_latency_or_errors() {
    assert!(SearchSpec::new("rate=5").unwrap_err().to_string().contains("needs a latency or errors"));
    assert!(SearchSpec::new("total.p99").is_err());
}

#[test]
fn a_steps_plan_is_the_plan_at_a_rate() {
    let closed = SearchSpec::plan_at(&Plan::default(), 7.0, 1);
    assert_eq!(closed.model, Model::open(7.0, Arrivals::Poisson));
    let ramp = Model::ramp(1.0, 2.0, Arrivals::Fixed);
    let open = SearchSpec::plan_at(&Plan { model: ramp, ..Plan::default() }, 8.0, 2);
    assert_eq!(open.model, Model::open(8.0, Arrivals::Fixed));
    assert_eq!(open.work, Plan::default().work);
    assert_eq!((closed.seed, open.seed), (1, 2), "repeats with the same arrivals would be no repeats");
    let last = Plan { seed: u64::MAX, ..Plan::default() };
    assert_eq!(SearchSpec::plan_at(&last, 7.0, 1).seed, 0);
}
