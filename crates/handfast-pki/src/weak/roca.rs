//! The fingerprint of ROCA: RSA keys of a library in smart cards and TPMs, whose primes have a form by which they can be
//! factored.
//!
//! In: a modulus. Out: whether it is a product of such primes.
//!
//! **Source**: Nemec, Sys, Svenda, Klinec, Matyas: The Return of Coppersmith's Attack (CCS 2017), section 2: each prime is
//! k·M + (65537^a mod M) with M the product of the first primes, 39 of them or more. So the modulus is a power of 65537 modulo the
//! product of the first 39; of other moduli one in 2^154 is.

/// The first primes but 2, by which every odd number is a power of 65537.
const PRIMES: [u32; 38] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103,
    107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
];

/// Returns true if a modulus, its words least significant first, is a power of 65537 modulo the product of all these
/// primes.
///
/// **Cost**: a pass over the words for each prime, but other moduli are known by the first four or five.
pub(super) fn has_fingerprint(words: &[u64]) -> bool {
    // The exponent, modulo the order of 65537 so far: at most 2^62.
    let (mut exponent, mut order) = (0_u128, 1_u128);
    for prime in PRIMES {
        let Some((log, of)) = logarithm(remainder(words, prime), prime) else { return false };
        if exponent % greatest_common(order, of) != log % greatest_common(order, of) {
            return false;
        }
        let step = order;
        order = order / greatest_common(order, of) * of;
        while exponent % of != log {
            exponent += step;
        }
    }
    true
}

fn remainder(words: &[u64], prime: u32) -> u32 {
    let digits = words.iter().rev().flat_map(|word| [word >> 32, word & 0xffff_ffff]);
    // Below 2^8 before each digit, so that a word holds it.
    digits.fold(0, |rest, digit| (rest << 32 | digit) % u64::from(prime)) as u32
}

/// For which exponent 65537 becomes `number` modulo `prime`, and after how many it begins again; `None` when for none.
fn logarithm(number: u32, prime: u32) -> Option<(u128, u128)> {
    let (mut power, mut count, mut found) = (1, 0, None);
    loop {
        if power == number {
            found = Some(count);
        }
        count += 1;
        power = power * (65_537 % prime) % prime;
        if power == 1 {
            return found.map(|found| (found, count));
        }
    }
}

fn greatest_common(one: u128, other: u128) -> u128 {
    if other == 0 { one } else { greatest_common(other, one % other) }
}
