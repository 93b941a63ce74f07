//! Random numbers for handshakes and tickets, a handful at a time.
//!
//! In: the number of bytes. Out: those bytes, used once.
//!
//! The library's generator requests fresh randomness from the processor and makes its key again at each call: 2,400
//! instructions, for numbers of 4 to 32 bytes, seven times in a handshake. So each thread draws a supply at once.
//! Used bytes are erased, so that a later read of this memory does not reveal them.

use std::cell::RefCell;

use aws_lc_rs::rand;
use rustls::crypto::{GetRandomFailed, SecureRandom};
use zeroize::Zeroize;

/// Bytes drawn at once: enough for three handshakes with a ticket or two.
const SUPPLY: usize = 512;

thread_local! {
    static SUPPLY_OF_THREAD: RefCell<Supply> = const { RefCell::new(Supply { bytes: [0; SUPPLY], left: 0 }) };
}

struct Supply {
    bytes: [u8; SUPPLY],
    /// Number of bytes at the front that have not been given away.
    left: usize,
}

impl Supply {
    /// Fills `buffer`, which is no longer than the supply.
    fn take(&mut self, buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        if self.left < buffer.len() {
            // After a failed draw, no old bytes are left that could be used as random.
            self.left = 0;
            rand::fill(&mut self.bytes).map_err(|_| GetRandomFailed)?;
            self.left = SUPPLY;
        }
        let from = self.left - buffer.len();
        let given = &mut self.bytes[from..self.left];
        buffer.copy_from_slice(given);
        given.zeroize();
        self.left = from;
        Ok(())
    }
}

/// Fills `buffer` with random bytes.
///
/// **Errors**: the library's generator fails. **Cost**: a copy; now and then a draw of 512 bytes.
pub(crate) fn fill(buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
    if buffer.len() > SUPPLY / 4 {
        return rand::fill(buffer).map_err(|_| GetRandomFailed);
    }
    SUPPLY_OF_THREAD.with_borrow_mut(|supply| supply.take(buffer))
}

/// Returns random bytes; `None`: the library's generator fails.
pub fn bytes<const LENGTH: usize>() -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    fill(&mut bytes).is_ok().then_some(bytes)
}

/// The same as rustls asks for it.
#[derive(Debug)]
pub(crate) struct Random;

impl SecureRandom for Random {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_is_given_twice_on_one_thread_or_two() {
        let draw = || (0..1000).map(|_| drawn::<16>()).collect::<Vec<_>>();
        let (here, there) = std::thread::scope(|scope| {
            let other = scope.spawn(draw);
            (draw(), other.join().expect("it only draws"))
        });
        let numbers: HashSet<_> = here.into_iter().chain(there).collect();
        assert_eq!(numbers.len(), 2000);
    }

    #[test]
    fn every_length_is_filled_whole() {
        // A byte that stayed zero 40 times over was not filled.
        for length in [0, 1, 4, 31, 128, 129, 512, 5000] {
            let mut seen = vec![0; length];
            for _ in 0..40 {
                let mut buffer = vec![0; length];
                assert!(fill(&mut buffer).is_ok());
                seen.iter_mut().zip(buffer).for_each(|(seen, byte)| *seen |= byte);
            }
            assert!(seen.iter().all(|byte| *byte != 0), "{length} bytes");
        }
    }

    #[test]
    fn every_caller_gets_numbers() {
        let (mut ours, mut librarys) = ([0; 32], [0; 32]);
        crate::random_bytes(&mut ours).expect("it draws");
        Random.fill(&mut librarys).expect("it draws");
        assert!(ours != [0; 32] && librarys != [0; 32] && ours != librarys);
    }

    #[test]
    fn what_was_given_away_is_erased() {
        let number = drawn::<32>();
        SUPPLY_OF_THREAD.with_borrow(|supply| {
            assert!(supply.bytes[supply.left..].iter().all(|byte| *byte == 0));
            assert!(!supply.bytes.windows(number.len()).any(|bytes| bytes == number));
        });
    }

    fn drawn<const LENGTH: usize>() -> [u8; LENGTH] {
        let mut number = [0; LENGTH];
        assert!(fill(&mut number).is_ok());
        number
    }
}
