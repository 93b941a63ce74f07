//! Bytes that show where they belong, so that a lost, doubled or moved byte is seen at once and at its place.
//!
//! The stream repeats a block of noise whose length is prime: shifted by anything but whole blocks it does not match itself,
//! and whole blocks show in the length.

use std::sync::OnceLock;

/// A prime just above a mebibyte.
const PERIOD: usize = 1_048_583;
/// Maximum number of bytes in one piece.
const PIECE: usize = 65_536;

fn noise() -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            // xorshift64: no randomness is needed, only that no two places look alike.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let mut noise: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
        // The beginning again behind the end: every piece can be had as one slice.
        noise.extend_from_within(..PIECE);
        noise
    })
}

/// The bytes of the stream from `offset` on; `length` is at most 64 KiB.
pub fn piece(offset: u64, length: usize) -> &'static [u8] {
    let start = usize::try_from(offset % PERIOD as u64).expect("less than the period");
    &noise()[start..start + length.min(PIECE)]
}

/// Checks what arrived against the stream; remembers how much was right.
#[derive(Default)]
pub struct Checker {
    /// Bytes that arrived and were right.
    pub arrived: u64,
}

impl Checker {
    /// Takes the next bytes.
    ///
    /// # Panics
    /// Panics if they are not the right ones; the message has the place.
    pub fn take(&mut self, bytes: &[u8]) {
        self.try_take(bytes).unwrap_or_else(|what| panic!("{what}"));
    }

    /// Takes the next bytes; **Errors**: the first one that is not right.
    pub fn try_take(&mut self, bytes: &[u8]) -> Result<(), String> {
        for chunk in bytes.chunks(PIECE) {
            let expected = piece(self.arrived, chunk.len());
            if chunk != expected {
                let at = chunk.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
                return Err(format!("byte {} is not the one that was sent", self.arrived + at as u64));
            }
            self.arrived += chunk.len() as u64;
        }
        Ok(())
    }
}
