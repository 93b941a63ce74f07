//! Weaknesses of an RSA key that its modulus and public exponent alone show.
//!
//! In: two big-endian numbers. Out: weaknesses. The work is bounded by the constants here and by the modulus's length.

use std::sync::LazyLock;

use num_bigint::BigUint;

use super::{EXPONENT_BITS, RSA_BITS, Weakness, roca};
use crate::der::bits;

/// Bits of a modulus that is looked into. OpenSSL verifies with 16,384 at most, aws-lc with 8,192.
const MAX_MODULUS_BITS: usize = 16_384;
/// Prime factors below this are looked for in every key. 752 is what SP 800-89 asks for; more costs little.
const FACTORS_BELOW: usize = 1 << 16;
/// The same where each key may take a millisecond.
const THOROUGH_BELOW: usize = 1 << 20;
/// Rounds of Fermat's method: what the CA/Browser Forum's baseline requirements ask for (6.1.1.3). The first finds primes
/// that agree in their upper half; a hundred find those of every generator known to have made such keys.
const ROUNDS: u32 = 100;
/// Square roots drawn in those rounds. One number in 3,000 looks like a square and is none, so a good key hardly ever takes one,
/// and none can be made to take many.
const ROOTS: u32 = 16;

/// Weaknesses of the key; `thorough`: larger prime factors too.
pub(super) fn weaknesses(modulus: &[u8], exponent: &[u8], thorough: bool) -> Vec<Weakness> {
    let mut found = Vec::new();
    let size = bits(modulus);
    if size < RSA_BITS {
        found.push(Weakness::TooSmall { bits: size });
    }
    match bits(exponent) {
        0 | 1 => found.push(Weakness::ExponentOne),
        _ if exponent.last().is_some_and(|last| last % 2 == 0) => found.push(Weakness::ExponentEven),
        bits if bits > EXPONENT_BITS => found.push(Weakness::ExponentLong { bits }),
        _ => {}
    }
    if size > MAX_MODULUS_BITS || size == 0 {
        return found;
    }
    let number = BigUint::from_bytes_be(modulus);
    let words: Vec<u64> = number.iter_u64_digits().collect();
    let larger = || thorough.then(|| small_factor(&words, &LARGER)).flatten();
    if let Some(factor) = small_factor(&words, &TABLE).or_else(larger) {
        // The remaining ones look for two primes.
        found.push(Weakness::SmallFactor { factor });
        return found;
    }
    if has_close_primes(&number) {
        found.push(Weakness::ClosePrimes);
    }
    if roca::has_fingerprint(&words) {
        found.push(Weakness::Roca);
    }
    found
}

/// As many odd primes as fit into a word together, multiplied.
struct Pack {
    product: u64,
    /// Of the product, modulo 2^64.
    inverse: u64,
    /// The primes, as a range of [`Table::primes`].
    primes: std::ops::Range<usize>,
}

struct Table {
    primes: Vec<u32>,
    packs: Vec<Pack>,
}

/// 6,541 primes in 1,600 packs, 90 KiB: made when the first RSA key is looked at, in less than a millisecond.
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::of(3..FACTORS_BELOW));
/// 75,483 primes in 25,161 packs, 1.3 MiB.
static LARGER: LazyLock<Table> = LazyLock::new(|| Table::of(FACTORS_BELOW..THOROUGH_BELOW));

impl Table {
    /// The odd primes in `range`.
    fn of(range: std::ops::Range<usize>) -> Self {
        let mut is_composite = vec![false; range.end];
        let mut primes: Vec<u32> = Vec::new();
        for number in (3..range.end).step_by(2) {
            if is_composite[number] {
                continue;
            }
            primes.extend(u32::try_from(number).ok().filter(|_| range.contains(&number)));
            (number * number..range.end).step_by(number).for_each(|multiple| is_composite[multiple] = true);
        }
        let mut packs = Vec::new();
        let (mut product, mut from) = (1_u64, 0);
        for (place, prime) in primes.iter().map(|prime| u64::from(*prime)).enumerate() {
            product = product.checked_mul(prime).unwrap_or_else(|| {
                packs.push(Pack { product, inverse: inverse(product), primes: from..place });
                from = place;
                prime
            });
        }
        packs.push(Pack { product, inverse: inverse(product), primes: from..primes.len() });
        Self { primes, packs }
    }
}

/// Of an odd number, modulo 2^64, by Newton's method: each step doubles the bits that are right, beginning with three.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

/// The least prime factor in the table of a number, its words least significant first; 2 for every even one.
fn small_factor(words: &[u64], table: &Table) -> Option<u32> {
    /// Packs at a time: their multiplications do not wait for each other.
    const ABREAST: usize = 8;
    if words.first().is_none_or(|word| word % 2 == 0) {
        return Some(2);
    }
    for packs in table.packs.chunks(ABREAST) {
        // The rest of a division from the low end (Jebelean's exact division): not the remainder, but divisible by the
        // same primes.
        let mut left = [0_u64; ABREAST];
        for word in words {
            for (left, pack) in left.iter_mut().zip(packs) {
                let (low, borrow) = word.overflowing_sub(*left);
                let quotient = low.wrapping_mul(pack.inverse);
                let high = (u128::from(quotient) * u128::from(pack.product)) >> 64;
                *left = high as u64 + u64::from(borrow);
            }
        }
        for (left, pack) in left.iter().zip(packs) {
            let divides = |prime: &&u32| left.is_multiple_of(u64::from(**prime));
            if let Some(prime) = table.primes[pack.primes.clone()].iter().find(divides) {
                return Some(*prime);
            }
        }
    }
    None
}

/// Fermat's method: the modulus as a difference of two squares, a² - b², where a is little above its root.
fn has_close_primes(modulus: &BigUint) -> bool {
    let root = modulus.sqrt();
    let first = if &root * &root == *modulus { root } else { root + 1_u32 };
    let mut rest = &first * &first - modulus;
    let mut roots = 0;
    for round in 0..ROUNDS {
        if may_be_square(&rest) {
            roots += 1;
            let root = rest.sqrt();
            if &root * &root == rest {
                return true;
            }
            if roots == ROOTS {
                return false;
            }
        }
        // (a + 1)² = a² + 2a + 1
        rest += (&first + round) * 2_u32 + 1_u32;
    }
    false
}

/// Squares leave few remainders; one number in 3,000 leaves one of them all the same.
fn may_be_square(number: &BigUint) -> bool {
    /// Moduli, and their product.
    const FILTERS: [(u32, &[u32]); 2] = [(45_045, &[63, 65, 11]), (6_678_671, &[17, 19, 23, 29, 31])];
    let low = number.iter_u64_digits().next().unwrap_or(0) % 64;
    if !matches!(low, 0 | 1 | 4 | 9 | 16 | 17 | 25 | 33 | 36 | 41 | 49 | 57) {
        return false;
    }
    FILTERS.iter().all(|(product, moduli)| {
        let rest = (number % product).iter_u32_digits().next().unwrap_or(0);
        moduli.iter().all(|modulus| (0..*modulus).any(|root| root * root % modulus == rest % modulus))
    })
}

#[cfg(test)]
mod tests;
