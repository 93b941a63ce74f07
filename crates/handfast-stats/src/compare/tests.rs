//! Tests that claims are as rarely false as promised, on made-up runs of the same thing; and that true ones are found.

use super::*;
use crate::Random;

/// Number of pairs of the same thing, with this number of runs a side, that are called different at 5 %.
fn false_claims(pairs: u64, runs: usize, figure: impl Fn(&mut Random, usize) -> f64) -> u64 {
    let mut false_claims = 0;
    for seed in 0..pairs {
        let mut random = Random::stream(seed, 7);
        // In turn: A B B A A B …
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for place in 0..runs * 2 {
            let side = if matches!(place % 4, 0 | 3) { &mut a } else { &mut b };
            side.push(figure(&mut random, place));
        }
        let found = welch(&a, &b, 0.05).expect("figures of runs");
        assert_eq!(found.p < 0.05, found.low > 1.0 || found.high < 1.0, "{found:?}");
        false_claims += u64::from(found.p < 0.05);
    }
    false_claims
}

/// A normal draw; the sum of twelve uniform ones is as good as one.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// A draw with heavy tails: Student's t with two degrees of freedom.
fn heavy(random: &mut Random) -> f64 {
    let chi = normal(random).powi(2) + normal(random).powi(2);
    normal(random) / (chi / 2.0).sqrt()
}

#[track_caller]
fn rarely(runs: usize, figure: impl Fn(&mut Random, usize) -> f64) {
    let found = false_claims(2_000, runs, figure);
    assert!(found <= 100, "{found} of 2,000 pairs of {runs} runs a side were called different");
}

#[test]
fn runs_of_the_same_thing_are_distinguished_at_most_one_time_in_twenty() {
    for runs in [3, 5] {
        for spread in [0.01, 0.1, 0.5] {
            rarely(runs, |random, _| 1e6 * (spread * normal(random)).exp());
        }
        rarely(runs, |random, _| 1e6 * (0.1 * heavy(random)).exp());
    }
}

#[test]
fn two_modes_and_drift_are_no_difference() {
    for share in [0.1, 0.3, 0.5] {
        rarely(3, |random, _| if random.unit() < share { 1.4 } else { 1.0 } * (0.01 * normal(random)).exp());
    }
    // The machine becomes slower by 3 % from run to run.
    rarely(3, |random, place| (0.03 * place as f64 + 0.03 * normal(random)).exp());
}

#[test]
fn a_difference_is_found_and_its_size_is_in_the_interval() {
    let (mut found, mut held) = (0, 0);
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut runs = |centre: f64| [(); 3].map(|()| centre * (0.03 * normal(&mut random)).exp());
        let comparison = welch(&runs(1.0), &runs(1.3), 0.05).expect("figures");
        found += u32::from(comparison.p < 0.05 && comparison.ratio > 1.0);
        held += u32::from(comparison.low <= 1.3 && 1.3 <= comparison.high);
    }
    assert!(found >= 190, "found in {found} of 200");
    assert!(held >= 188, "1.3 was in the interval in {held} of 200");
}

/// The same by numerical integration of the density, in another program.
#[test]
fn the_figures_are_those_of_a_table() {
    let logarithms = |values: [f64; 3]| values.map(f64::exp);
    let found = welch(&logarithms([1.0, 2.0, 3.0]), &logarithms([4.0, 5.0, 9.0]), 0.05).expect("figures");
    assert!((found.ratio.ln() - 4.0).abs() < 1e-9, "{found:?}");
    assert!((found.p - 0.106367).abs() < 1e-4, "{found:?}");
    assert!((found.low.ln() - -1.74066).abs() < 1e-3, "{found:?}");
    assert!((found.resolution().ln() - (4.0 - -1.74066)).abs() < 1e-3, "{found:?}");
    let equal = welch(&[1.0, 2.0], &[2.0, 1.0], 0.05).expect("figures");
    assert!((equal.p - 1.0).abs() < 1e-9 && (equal.ratio - 1.0).abs() < 1e-9, "{equal:?}");
}

#[test]
fn what_has_no_logarithm_or_no_spread() {
    assert_eq!(welch(&[1.0], &[1.0, 2.0], 0.05), None);
    assert_eq!(welch(&[0.0, 1.0], &[1.0, 2.0], 0.05), None);
    assert_eq!(welch(&[1.0, 2.0], &[f64::NAN, 2.0], 0.05), None);
    assert_eq!((geometric_mean(&[]), geometric_mean(&[0.0])), (None, None));
    assert!(geometric_mean(&[2.0, 8.0]).is_some_and(|mean| (mean - 4.0).abs() < 1e-9));
    let same = welch(&[5.0, 5.0], &[5.0, 5.0], 0.05).expect("figures");
    assert_eq!((same.p, same.low, same.high), (1.0, 1.0, 1.0));
    let apart = welch(&[5.0, 5.0], &[6.0, 6.0], 0.05).expect("figures");
    assert!(apart.p == 0.0 && (apart.low - 1.2).abs() < 1e-9, "{apart:?}");
}
