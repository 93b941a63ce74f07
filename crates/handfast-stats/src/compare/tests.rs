//! Whether the intervals hold what they promise, on made-up runs with a known truth.

use super::*;

/// Seconds with a mean and a spread: the sum of twelve uniform draws is as good as normal.
fn run(random: &mut Random, seconds: usize, mean: f64, spread: f64) -> Vec<f64> {
    let mut uniform = || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
    (0..seconds).map(|_| mean * (1.0 + spread * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0))).collect()
}

/// Seconds of two hundred samples each, between `centre` and three times that, with a tail.
fn latencies(random: &mut Random, seconds: usize, centre: f64) -> Vec<Histogram> {
    let mut second = || {
        let mut histogram = Histogram::new();
        for _ in 0..200 {
            let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            histogram.record_nanos((centre * (1.0 + uniform * uniform * 2.0)) as u64);
        }
        histogram
    };
    (0..seconds).map(|_| second()).collect()
}

fn shares(seeds: u64, found: impl Fn(u64) -> Comparison) -> f64 {
    (0..seeds).filter(|seed| found(*seed).noise).count() as f64 / seeds as f64
}

#[test]
fn equal_rates_are_noise_also_when_seconds_are_few() {
    for seconds in [5, 10, 30] {
        let noise = shares(300, |seed| {
            let mut random = Random::new(seed);
            let (a, b) = (run(&mut random, seconds, 4e3, 0.05), run(&mut random, seconds, 4e3, 0.05));
            rates(&[&a], &[&b], seed).unwrap()
        });
        assert!((0.90..1.0).contains(&noise), "{seconds} seconds: noise in {noise} of the cases");
    }
}

#[test]
fn a_fifth_more_is_found_and_its_size_is_in_the_interval() {
    let (mut found, mut held) = (0, 0);
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (a, b) = (run(&mut random, 10, 4e3, 0.05), run(&mut random, 10, 4.8e3, 0.05));
        let comparison = rates(&[&a], &[&b], seed).unwrap();
        found += u32::from(!comparison.noise && comparison.ratio > 1.0);
        held += u32::from(comparison.low <= 1.2 && 1.2 <= comparison.high);
    }
    assert!(found >= 99, "found in {found} of 100");
    assert!(held >= 90, "1.2 was in the interval in {held} of 100");
}

#[test]
fn equal_percentiles_are_noise() {
    for quantile in [0.5, 0.99] {
        let noise = shares(100, |seed| {
            let mut random = Random::new(seed);
            let (a, b) = (latencies(&mut random, 10, 1e6), latencies(&mut random, 10, 1e6));
            let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            quantiles(&[&a], &[&b], quantile, seed).unwrap()
        });
        assert!((0.90..=1.0).contains(&noise), "p{quantile}: noise in {noise} of the cases");
    }
}

#[test]
fn a_shifted_percentile_is_found() {
    for quantile in [0.5, 0.99] {
        let noise = shares(50, |seed| {
            let mut random = Random::new(seed);
            let (a, b) = (latencies(&mut random, 10, 1e6), latencies(&mut random, 10, 1.2e6));
            let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            quantiles(&[&a], &[&b], quantile, seed).unwrap()
        });
        assert!(noise <= 0.02, "p{quantile}: taken for noise in {noise} of the cases");
    }
}

#[test]
fn runs_that_differ_among_themselves_widen_the_interval() {
    // Within each run hardly any spread; between the runs of one side 20 %. Seconds alone would call it certain.
    let mut random = Random::new(1);
    let mut at = |mean| run(&mut random, 20, mean, 0.005);
    let (a1, b1, b2, a2) = (at(1_000.0), at(1_180.0), at(1_020.0), at(1_150.0));
    let (one_a, one_b) = ([a1.clone(), a2.clone()].concat(), [b1.clone(), b2.clone()].concat());
    let apart = rates(&[&a1, &a2], &[&b1, &b2], 7).unwrap();
    let poured_together = rates(&[&one_a], &[&one_b], 7).unwrap();
    assert!(apart.high - apart.low > 1.5 * (poured_together.high - poured_together.low), "{apart:?}");
    assert!(apart.noise);
    assert_eq!(apart.samples, (40, 40));
    assert!((apart.ratio - poured_together.ratio).abs() < 1e-9);
}

#[test]
fn the_whole_quantile_is_the_merged_histograms() {
    let seconds = latencies(&mut Random::new(3), 10, 1e6);
    let mut merged = Histogram::new();
    seconds.iter().for_each(|second| merged.merge(second));
    let refs: Vec<_> = seconds.iter().collect();
    for quantile in [0.0, 0.5, 0.9, 0.999, 1.0] {
        let comparison = quantiles(&[&refs], &[&refs[..5], &refs[5..]], quantile, 1).unwrap();
        if quantile > 0.0 {
            assert_eq!(comparison.a, merged.quantile_nanos(quantile) as f64);
        }
        assert_eq!(comparison.a, comparison.b);
    }
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let (a, b) = (run(&mut Random::new(1), 9, 1.0, 0.1), run(&mut Random::new(2), 9, 1.0, 0.1));
    assert_eq!(rates(&[&a], &[&b], 5), rates(&[&a], &[&b], 5));
    assert_ne!(rates(&[&a], &[&b], 5), rates(&[&a], &[&b], 6));
}

#[test]
fn what_has_no_ratio_has_no_comparison() {
    assert_eq!(rates(&[], &[], 0), None);
    assert_eq!(rates(&[&[1.0]], &[&[1.0, 2.0]], 0), None);
    assert_eq!(rates(&[&[0.0, 0.0]], &[&[1.0, 2.0]], 0), None);
    assert_eq!(rates(&[&[f64::NAN, 1.0]], &[&[1.0, 2.0]], 0), None);
    let empty = Histogram::new();
    assert_eq!(quantiles(&[&[&empty, &empty]], &[&[&empty, &empty]], 0.5, 0), None);
    // Mostly zeros: some draws of A are all zeros, and nothing becomes infinite or NaN.
    let rare = rates(&[&[0.0, 0.0, 0.0, 4.0]], &[&[1.0, 1.0, 1.0, 1.0]], 0).unwrap();
    assert!(rare.noise && rare.high.is_finite() && rare.low >= 0.0, "{rare:?}");
}
