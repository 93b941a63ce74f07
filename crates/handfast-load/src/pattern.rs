//! The bytes that are sent, and that an echo must return: random, from the seed, so that they cannot be compressed and
//! a shifted or mixed-up answer is detected.

use handfast_stats::Random;

/// Bytes before the pattern repeats: a prime, so that no buffer's size divides it.
const PERIOD: usize = 65_521;

/// An endless sequence of bytes.
pub(crate) struct Pattern(Box<[u8]>);

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pattern")
    }
}

impl Pattern {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, u64::MAX);
        Self((0..PERIOD).map(|_| random.next().to_le_bytes()[0]).collect())
    }

    /// The bytes at `position`, up to `most` bytes and up to the end of the pattern; at least one byte.
    pub(crate) fn at(&self, position: u64, most: u64) -> &[u8] {
        let start = (position % PERIOD as u64) as usize;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        &self.0[start..start.saturating_add(most).min(PERIOD)]
    }

    /// Returns true if `bytes` are those at `position`.
    pub(crate) fn matches(&self, mut position: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.at(position, bytes.len() as u64);
            let (head, tail) = bytes.split_at(expected.len());
            if head != expected {
                return false;
            }
            position += expected.len() as u64;
            bytes = tail;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_recognized_at_its_place_only() {
        let pattern = Pattern::new(1);
        let mut sent = Vec::new();
        while sent.len() < 200_000 {
            let next = pattern.at(1000 + sent.len() as u64, 10_000).to_vec();
            sent.extend(next);
        }
        assert!(pattern.matches(1000, &sent));
        assert!(!pattern.matches(1001, &sent));
        sent[150_000] ^= 1;
        assert!(!pattern.matches(1000, &sent));
    }
}
