//! The token that requests at the admin address must send when they change something.
//!
//! In: the file of `admin.token-file`. Out: the token, and the users that can read its file.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use handfast_pki::files::read_text;
use zeroize::Zeroizing;

/// Bytes of the file.
const FILE_LIMIT: u64 = 4096;
/// Characters below which a token could be guessed.
const MIN_CHARACTERS: usize = 16;
/// Permission of others to read (inode(7)).
const OTHERS_READ: u32 = 0o004;

/// Reason why a file has no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminTokenError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(
        "expected one line of at least {MIN_CHARACTERS} printable characters\n  hint: umask 077; openssl rand -hex 32 > {}",
        .0.display()
    )]
    NoToken(PathBuf),
    /// This process cannot act as the user that serves.
    #[error(transparent)]
    User(#[from] handfast_process::error::Error),
}

/// A token.
pub(crate) struct AdminToken {
    text: Zeroizing<String>,
    /// All users of the machine can read its file.
    pub(crate) is_readable_by_others: bool,
}

impl fmt::Debug for AdminToken {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

impl AdminToken {
    /// Reads the file.
    ///
    /// **Errors**: it cannot be read, or has no token; with a hint.
    pub(crate) fn read(file: &Path) -> Result<Self, AdminTokenError> {
        let text = read_text(file, FILE_LIMIT)?;
        let metadata = std::fs::metadata(file)?;
        let token = text.trim();
        let is_token = token.len() >= MIN_CHARACTERS && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return Err(AdminTokenError::NoToken(file.to_owned()));
        }
        let is_readable_by_others = metadata.permissions().mode() & OTHERS_READ != 0;
        Ok(Self { text: Zeroizing::new(token.to_owned()), is_readable_by_others })
    }

    /// The token itself.
    pub(crate) fn text(&self) -> &Zeroizing<String> {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use handfast_testkit::folder::Folder;

    use super::*;

    #[test]
    fn a_token_is_one_line_that_cannot_be_guessed() {
        let folder = Folder::new();
        let read = |text: &str| AdminToken::read(&folder.write("token", text));
        let token = read("0123456789abcdef\n").expect("16 characters");
        assert_eq!(token.text().as_str(), "0123456789abcdef");
        for wrong in ["", "short\n", "0123456789 abcdef", "0123456789abcdef\nmore", "0123456789abcd\u{e9}f"] {
            let problem = read(wrong).expect_err(wrong).to_string();
            assert!(
                problem
                    .starts_with("expected one line of at least 16 printable characters\n  hint: umask 077"),
                "{problem}"
            );
        }
        assert!(!format!("{token:?}").contains("0123456789"));
    }
}
