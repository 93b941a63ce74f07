//! The secret that cookies of `sticky` are made from.

use std::path::Path;

use handfast_pki::files;
use handfast_tls::keyed_hash::HashKey;

/// Bytes of a secret: fewer could be guessed.
const MIN_SECRET_BYTES: usize = 16;
const MAX_SECRET_BYTES: u64 = 1024;

/// Reads the secret; line ends at its end do not count.
///
/// **Errors**: why it cannot be used.
pub(crate) fn key(file: &Path) -> Result<HashKey, String> {
    let hint = "openssl rand -hex 32 makes one";
    let bytes = files::read(file, MAX_SECRET_BYTES).map_err(|error| {
        format!(
            "cannot be read: {error}, expected {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes\n  hint: {hint}"
        )
    })?;
    let secret = bytes.trim_ascii_end();
    if secret.len() < MIN_SECRET_BYTES {
        return Err(format!(
            "holds {} bytes, expected {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES}\n  hint: {hint}",
            bytes.len()
        ));
    }
    Ok(HashKey::new(secret))
}
