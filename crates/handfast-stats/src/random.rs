//! Reproducible random numbers from a seed: for arrivals, payloads, and the draws of a comparison. Not for secrets.

/// SplitMix64: small, fast, the same for the same seed on every machine.
///
/// **Source**: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence number `stream` of a seed: streams of one seed are independent.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xa076_1d64_78bd_642f));
        random.next();
        random
    }

    /// Sixty-four random bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends, so there is no Option to unwrap")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponentially, with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// One of `items`; `None` when there are none. The upper half of a wide product: its bias is below one in 2^50 for
    /// any count of seconds.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let wide = u128::from(self.next()) * items.len() as u128;
        items.get(usize::try_from(wide >> 64).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_give_the_same_numbers_and_another_stream_does_not() {
        let draw = |seed, stream| {
            let mut random = Random::stream(seed, stream);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn means_are_what_they_should_be() {
        let mut random = Random::stream(1, 0);
        let unit: f64 = (0..100_000).map(|_| random.unit()).sum::<f64>() / 1e5;
        let exponential: f64 = (0..100_000).map(|_| random.exponential()).sum::<f64>() / 1e5;
        assert!((unit - 0.5).abs() < 0.01, "{unit}");
        assert!((exponential - 1.0).abs() < 0.02, "{exponential}");
    }
}
