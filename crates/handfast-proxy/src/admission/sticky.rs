//! The secret that cookies of `sticky` are made from.

use std::io;
use std::path::{Path, PathBuf};

use handfast_pki::files;
use handfast_tls::keyed_hash::HashKey;

/// Bytes of a secret: fewer could be guessed.
const MIN_SECRET_BYTES: usize = 16;
const MAX_SECRET_BYTES: u64 = 1024;

/// Reason why a file has no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error(
        "cannot be read: {0}, expected {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes\n  hint: openssl rand -hex 32 makes one"
    )]
    Read(#[source] io::Error),
    #[error(
        "holds {0} bytes, expected {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES}\n  hint: openssl rand -hex 32 makes one"
    )]
    TooShort(usize),
    /// This process cannot act as the user that serves.
    #[error(transparent)]
    User(#[from] handfast_process::error::Error),
}

/// Reason why cookies of `sticky` cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CookieKeyError {
    #[error(transparent)]
    Random(handfast_tls::Error),
    #[error("secret of cookies in {}{place}: {source}", .file.display())]
    File { file: PathBuf, place: String, source: SecretError },
}

/// Reads the secret; line ends at its end do not count.
///
/// **Errors**: why it cannot be used.
pub(crate) fn key(file: &Path) -> Result<HashKey, SecretError> {
    let bytes = files::read(file, MAX_SECRET_BYTES).map_err(SecretError::Read)?;
    let secret = bytes.trim_ascii_end();
    if secret.len() < MIN_SECRET_BYTES {
        return Err(SecretError::TooShort(bytes.len()));
    }
    Ok(HashKey::new(secret))
}
