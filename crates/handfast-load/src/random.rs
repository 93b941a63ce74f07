//! Random numbers that a seed repeats: for arrivals, the choice of handshakes, and payloads. Not for secrets.

/// SplitMix64: small, fast, and good enough for spacing arrivals.
///
/// **Source**: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence number `stream` of a seed: streams of one seed are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xa076_1d64_78bd_642f));
        random.next();
        random
    }

    /// Sixty-four random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponentially, with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_give_the_same_numbers_and_another_stream_does_not() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn means_are_what_they_should_be() {
        let mut random = Random::new(1, 0);
        let unit: f64 = (0..100_000).map(|_| random.unit()).sum::<f64>() / 1e5;
        let exponential: f64 = (0..100_000).map(|_| random.exponential()).sum::<f64>() / 1e5;
        assert!((unit - 0.5).abs() < 0.01, "{unit}");
        assert!((exponential - 1.0).abs() < 0.02, "{exponential}");
    }
}
