//! The secret that cookies of `sticky` are made from.

use std::path::Path;
use std::{fs, io};

use handfast_tls::keyed_hash::HashKey;

/// Bytes of a secret: fewer could be guessed.
const LEAST: usize = 16;
const MOST: u64 = 1024;

/// Reads the secret; line ends at its end do not count.
///
/// **Errors**: why it cannot be used.
pub(crate) fn key(file: &Path) -> Result<HashKey, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let length = fs::metadata(file).map_err(unreadable)?.len();
    let bytes = if length > MOST { Vec::new() } else { fs::read(file).map_err(unreadable)? };
    let secret = bytes.trim_ascii_end();
    if secret.len() < LEAST {
        let hint = "openssl rand -hex 32 makes one";
        return Err(format!("holds {length} bytes, expected {LEAST} to {MOST}\n  hint: {hint}"));
    }
    Ok(HashKey::new(secret))
}
