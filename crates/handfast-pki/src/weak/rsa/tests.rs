//! The arithmetic, against slow ways to the same result, and what it costs.

use super::*;
use crate::weak::tests::{number, sample};

fn words(number: &[u8]) -> Vec<u64> {
    BigUint::from_bytes_be(number).iter_u64_digits().collect()
}

#[test]
fn small_factors_are_those_that_division_finds() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for length in [1, 2, 3, 4, 32, 33, 64, 128, 256] {
        for _ in 0..40 {
            let mut words: Vec<u64> = (0..length).map(|_| random()).collect();
            words[0] |= 1;
            *words.last_mut().unwrap() |= 1 << 63;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let number = BigUint::from_bytes_le(&bytes);
            let divides = |prime: &&u32| &number % **prime == BigUint::ZERO;
            let slow = TABLE.primes.iter().find(divides).copied();
            assert_eq!(small_factor(&words, &TABLE), slow, "{number:x}");
        }
    }
    assert_eq!(small_factor(&[6, 1], &TABLE), Some(2));
    assert_eq!(small_factor(&[], &TABLE), Some(2));
    // The largest prime that is looked for, and the next one that is not.
    let (good, _) = sample("good-2048");
    let times = |prime: u32| words(&(BigUint::from_bytes_be(&good) * prime).to_bytes_be());
    assert_eq!(
        (small_factor(&times(65_521), &TABLE), small_factor(&times(65_537), &TABLE)),
        (Some(65_521), None)
    );
    // The same where more time is taken.
    for (prime, found) in
        [(65_521_u32, true), (65_537, true), (1_000_003, true), (1_048_573, true), (1_048_583, false)]
    {
        let modulus = (BigUint::from_bytes_be(&good) * BigUint::from(prime)).to_bytes_be();
        let expected = if found { vec![Weakness::SmallFactor { factor: prime }] } else { Vec::new() };
        assert_eq!(weaknesses(&modulus, &[1, 0, 1], true), expected);
    }
}

#[test]
fn close_primes_are_found_in_each_round_and_not_beyond() {
    // Two numbers x - d and x + d are found in round d²/(2x), about.
    let x = BigUint::from(1_u32) << 200;
    let product = |apart: u128| {
        let apart = BigUint::from(apart);
        (&x - &apart) * (&x + &apart)
    };
    assert!(has_close_primes(&product(0)) && has_close_primes(&product(1)));
    let rounds = |rounds: u128| ((2 * rounds) << 100).isqrt() << 50;
    for round in 1..=u128::from(ROUNDS) {
        assert!(has_close_primes(&product(rounds(round))), "{round}");
    }
    assert!(!has_close_primes(&product(rounds(u128::from(ROUNDS) + 2))));
    for name in ["good-2048", "roca-2048", "debian-2048-a"] {
        assert!(!has_close_primes(&BigUint::from_bytes_be(&sample(name).0)), "{name}");
    }
}

#[test]
fn squares_look_like_squares_and_few_others_do() {
    let few = (0..200_000_u32).filter(|number| may_be_square(&BigUint::from(*number))).count();
    // 448 squares, and five that are none, by counting in another language.
    assert_eq!(few, 453);
    assert!((0..3000_u32).all(|root| may_be_square(&(BigUint::from(root) * root))));
}

#[test]
fn the_work_is_bounded() {
    // Number of multiplications for 8,192 bits, where one takes less than two nanoseconds.
    let multiplications = TABLE.packs.len() * 8192 / 64;
    assert!(multiplications <= 220_000, "{multiplications}");
    assert_eq!((TABLE.primes.len(), LARGER.primes.len()), (6541, 82_024 - 6541));
    // Nothing is done with what is longer than any key.
    let mut endless = vec![0xff; MAX_MODULUS_BITS / 8];
    endless.push(0xff);
    assert_eq!(weaknesses(&endless, &[1, 0, 1], true), []);
    // A modulus of the maximum length that is a multiple of 3 ends at the first pack.
    assert_eq!(
        weaknesses(&[0xff; MAX_MODULUS_BITS / 8], &[1, 0, 1], false),
        [Weakness::SmallFactor { factor: 3 }]
    );
}

#[test]
fn exponents_are_judged_by_their_value() {
    let (modulus, _) = sample("good-2048");
    let of = |exponent: &[u8]| weaknesses(&modulus, exponent, false);
    for good in ["3", "11", "10001", "0000010001", &format!("{}1", "f".repeat(63))] {
        assert_eq!(of(&number(good)), [], "{good}");
    }
    for (exponent, weakness) in [
        ("", Weakness::ExponentOne),
        ("00", Weakness::ExponentOne),
        ("0001", Weakness::ExponentOne),
        ("02", Weakness::ExponentEven),
        ("010000", Weakness::ExponentEven),
        (&format!("1{}1", "0".repeat(63)), Weakness::ExponentLong { bits: 257 }),
    ] {
        assert_eq!(of(&number(exponent)), [weakness], "{exponent}");
    }
}
