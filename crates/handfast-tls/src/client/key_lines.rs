//! The secrets of our own sessions as a key log (RFC 9850), to decrypt captures.
//!
//! In: the secrets that rustls reports for each session. Out: lines, at most [`MAX_FILE_BYTES`] bytes. With them, those sessions can be decrypted.

#![expect(
    clippy::disallowed_types,
    reason = "rustls logs from wherever a session is made; only a probe that captures packets requests it"
)]

use std::fmt;
use std::sync::{Mutex, PoisonError};

use data_encoding::HEXLOWER;

/// Some ten thousand sessions.
const MAX_FILE_BYTES: usize = 8 << 20;

/// Lines of a key log.
#[derive(Default)]
pub struct KeyLines(Mutex<String>);

impl KeyLines {
    /// All of them so far.
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for KeyLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the secrets.
        f.write_str("KeyLines")
    }
}

impl rustls::KeyLog for KeyLines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", HEXLOWER.encode(client_random), HEXLOWER.encode(secret));
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() + line.len() <= MAX_FILE_BYTES {
            lines.push_str(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::KeyLog;

    use super::*;

    #[test]
    fn lines_are_as_the_format_has_them_and_end_at_the_bound() {
        let lines = KeyLines::default();
        lines.log("CLIENT_RANDOM", &[0, 0xff], &[1, 2]);
        assert_eq!(lines.text(), "CLIENT_RANDOM 00ff 0102\n");
        assert!(!format!("{lines:?}").contains("0102"));
        for _ in 0..3 {
            lines.log("A", &[0; 1 << 20], &[0; 1 << 20]);
        }
        assert!(lines.text().len() <= MAX_FILE_BYTES);
    }
}
