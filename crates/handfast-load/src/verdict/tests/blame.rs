//! A target is blamed only by a generator that had room: one threshold for every model.

use super::*;

/// The models, each offering a thousand a second where it offers anything.
fn models() -> [Model; 4] {
    [
        Model::Closed,
        Model::open(1_000.0, Arrivals::Poisson),
        Model::open(1_000.0, Arrivals::Fixed),
        Model::ramp(1_000.0, 1_000.0, Arrivals::Fixed),
    ]
}

fn starved(model: Model, starved: f64) -> Made {
    Made { plan: with_model(model), starved, busy: 0.1, ..closed() }
}

#[test]
fn whoever_had_no_cpu_is_limited_by_that_whatever_the_model() {
    for model in models() {
        let held_up = starved(model.clone(), 0.36).judged();
        assert_says(
            &held_up,
            VerdictWord::GeneratorLimited,
            "had to wait for a CPU (busy 10 % of the time, waiting for a CPU 36 %)",
        );
        assert!(!held_up.evidence.iter().any(|line| line.contains("had spare capacity")), "{held_up:?}");
        assert_eq!(starved(model, 0.19).judged().word, VerdictWord::Valid);
    }
}

#[test]
fn arrivals_that_waited_are_no_proof_against_a_target_when_the_generator_had_no_cpu() {
    for (per_second, queued) in [(1_000, 5_000), (700, 5_000), (700, 0)] {
        let made = |part: f64| Made { plan: open().plan, per_second, queued, ..starved(Model::Closed, part) };
        let blamed = made(0.42).judged();
        assert_says(&blamed, VerdictWord::GeneratorLimited, "had to wait for a CPU");
        assert!(!blamed.evidence.iter().any(|line| line.contains("had spare capacity")), "{blamed:?}");
        assert_says(&made(0.05).judged(), VerdictWord::TargetLimited, "the generator had spare capacity");
    }
}

#[test]
fn a_thread_that_is_starved_is_found_beside_one_that_is_busy() {
    let made = open();
    let second = |at| {
        let mut second = made.second(at);
        second.threads[0] = ThreadUse {
            busy_ns: 50_000_000,
            starved_ns: 400_000_000,
            wall_ns: 1_000_000_000,
            ..ThreadUse::default()
        };
        second.threads[1] =
            ThreadUse { busy_ns: 700_000_000, starved_ns: 0, wall_ns: 1_000_000_000, ..ThreadUse::default() };
        second
    };
    let verdict =
        judge(&made_of(made.plan.clone(), (0..10).map(second).collect(), "", BTreeMap::new()), None);
    assert_says(
        &verdict,
        VerdictWord::GeneratorLimited,
        "had to wait for a CPU (busy 5.0 % of the time, waiting for a CPU 40 %)",
    );
}

#[test]
fn whoever_had_no_pause_blames_nobody_even_when_in_time() {
    let verdict = Made { per_second: 800, busy: 0.95, ..open() }.judged();
    assert_says(&verdict, VerdictWord::GeneratorLimited, "so what follows may be its own limit");
    assert_says(&verdict, VerdictWord::GeneratorLimited, "1,000/s were offered and 800/s were handled");
}

#[test]
fn what_was_taken_in_the_end_was_not_refused() {
    // Behind for five seconds, and made up for in the last one, which the decision leaves out.
    let taken = |at: u32| match at {
        3..=7 => 700,
        9 => 2_500,
        _ => 1_000,
    };
    let seconds = |at| Made { per_second: taken(at), ..open() }.second(at);
    let verdict = judge(&made_of(open().plan, (0..10).map(seconds).collect(), "", BTreeMap::new()), None);
    assert_eq!(verdict.word, VerdictWord::Valid, "{verdict:?}");
    assert!(!verdict.evidence.iter().any(|line| line.contains("were taken")), "{verdict:?}");
}

/// A run of two workers with a thread each; one of them was stopped in second 4, for 1.5 s.
fn one_stopped(model: Model) -> Outcome {
    let made = Made { plan: with_model(model), ..closed() };
    let second = |at| {
        let mut second = made.second(at);
        let wall = match at {
            4 => 1_700_000_000,
            5 => 300_000_000,
            _ => 1_000_000_000,
        };
        // Waiting work is done at once: the thread has no pause for the rest of its second.
        second.threads[1] = ThreadUse {
            busy_ns: 200_000_000.min(wall),
            starved_ns: 0,
            wall_ns: wall,
            paused_ns: if at == 4 { 700_000_000 } else { 0 },
        };
        if at == 5 {
            second.threads[1].busy_ns = 290_000_000;
            second.series.insert(Series::Lag, samples(1_000, Duration::from_millis(900)));
        }
        second
    };
    let mut outcome = made_of(made.plan.clone(), (0..10).map(second).collect(), "", BTreeMap::new());
    outcome.workers[0].name = "one".into();
    outcome.workers[0].facts.threads = 1;
    let mut two = outcome.workers[0].clone();
    two.name = "two".into();
    outcome.workers.push(two);
    outcome
}

#[test]
fn a_worker_that_stood_still_is_named() {
    for model in models() {
        let verdict = judge(&one_stopped(model), None);
        assert_says(&verdict, VerdictWord::GeneratorLimited, "two was paused: 700 ms in second 4");
        assert!(!verdict.evidence.iter().any(|line| line.contains("almost never idle")), "{verdict:?}");
    }
    let mut alone = one_stopped(Model::Closed);
    alone.workers.truncate(1);
    alone.workers[0].facts.threads = 2;
    assert_says(&judge(&alone, None), VerdictWord::GeneratorLimited, "the generator was paused: 700 ms in");
}

#[test]
fn a_thread_with_one_long_turn_did_not_stand_still() {
    let mut outcome = one_stopped(Model::Closed);
    outcome.seconds[4].threads[1].busy_ns = 1_690_000_000;
    outcome.seconds[4].threads[1].paused_ns = 0;
    assert_eq!(judge(&outcome, None).word, VerdictWord::Valid);
}
