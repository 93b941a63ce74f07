//! Prime factors that two RSA keys have in common: both private keys then follow from the two public ones.
//!
//! In: public keys. Out: pairs. Machines that made keys before they had entropy made many such pairs (Heninger, Durumeric, Wustrow,
//! Halderman, "Mining Your Ps and Qs", 2012).
//!
//! The keys' moduli are multiplied, and the product is divided by each modulus's square: what is left has, beside the modulus, only
//! factors that it shares (Bernstein's batch gcd, without its tree).

use std::collections::BTreeMap;

use num_bigint::BigUint;

use super::PublicKey;

/// Different keys that are compared; 1,000 of 2,048 bits take about a second.
const MAX_KEYS: usize = 1_000;
/// Bits of a modulus that is looked into.
const MAX_MODULUS_BITS: usize = 16_384;

/// Pairs of places in `infos` (SubjectPublicKeyInfo in DER) whose RSA keys differ and share a factor; each place is in at most one.
///
/// **Errors**: how many different keys there are, when they are more than 1,000.
///
/// **Cost**: grows with the square of their number.
pub(crate) fn shared_factors(infos: &[&[u8]]) -> Result<Vec<(usize, usize)>, usize> {
    let mut moduli: BTreeMap<BigUint, usize> = BTreeMap::new();
    for (place, info) in infos.iter().enumerate() {
        if let Some(PublicKey::Rsa { modulus, .. }) = PublicKey::from_info(info)
            && modulus.len() * 8 <= MAX_MODULUS_BITS + 8
        {
            let number = BigUint::from_bytes_be(modulus);
            // Small and even ones are weak for another reason, and 0 cannot be divided by.
            if number.bit(0) && number.bits() > 64 {
                moduli.entry(number).or_insert(place);
            }
        }
    }
    if moduli.len() > MAX_KEYS {
        return Err(moduli.len());
    }
    let product: BigUint = moduli.keys().product();
    let sharing: Vec<(&BigUint, usize)> = moduli
        .iter()
        .filter(|(modulus, _)| has_common(&((&product % (*modulus * *modulus)) / *modulus), modulus))
        .map(|(modulus, place)| (modulus, *place))
        .collect();
    let mut pairs = Vec::new();
    for (index, (modulus, place)) in sharing.iter().enumerate() {
        let other = sharing[..index].iter().find(|(other, _)| has_common(other, modulus));
        pairs.extend(other.map(|(_, other)| (*other.min(place), *other.max(place))));
    }
    Ok(pairs)
}

/// Returns true if two numbers have a factor in common (Euclid).
fn has_common(one: &BigUint, other: &BigUint) -> bool {
    let (mut one, mut other) = (one.clone(), other.clone());
    while other != BigUint::ZERO {
        let rest = &one % &other;
        one = std::mem::replace(&mut other, rest);
    }
    one != BigUint::from(1_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SubjectPublicKeyInfo of an RSA key with this modulus, which is shorter than 128 bytes.
    fn info(modulus: &BigUint) -> Vec<u8> {
        let tlv = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
        let number = tlv(2, &[&[0][..], &modulus.to_bytes_be()].concat());
        let key = tlv(0x30, &[number, tlv(2, &[1, 0, 1])].concat());
        let algorithm = tlv(0x30, &tlv(6, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]));
        tlv(0x30, &[algorithm, tlv(3, &[&[0][..], &key].concat())].concat())
    }

    #[test]
    fn two_keys_with_one_factor_are_found_among_others() {
        // Mersenne primes and one of Fermat's cousins.
        let prime = |bits: u32| (BigUint::from(1_u8) << bits) - 1_u8;
        let [a, b, c, d] = [61, 89, 107, 127].map(prime);
        let e = (BigUint::from(1_u8) << 64_u32) + 13_u8;
        let infos: Vec<Vec<u8>> = [&a * &b, &c * &e, &d * &b, &a * &b].iter().map(info).collect();
        let infos: Vec<&[u8]> = infos.iter().map(Vec::as_slice).collect();
        assert_eq!(shared_factors(&infos), Ok(vec![(0, 2)]), "the fourth is the first once more");
        assert_eq!(shared_factors(&infos[..2]), Ok(vec![]));
        assert_eq!(shared_factors(&[]), Ok(vec![]));
        let many: Vec<Vec<u8>> = (0..=MAX_KEYS)
            .map(|number| info(&((BigUint::from(number) << 70_u32) + 1_u8 + (BigUint::from(1_u8) << 65_u32))))
            .collect();
        let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
        assert_eq!(shared_factors(&many), Err(MAX_KEYS + 1));
    }
}
