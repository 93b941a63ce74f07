//! Errors of this crate, except findings about certificate files.
//!
//! In: a failed act on a file or on the generator. Out: one line, *act, object, what happened, what was expected*.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A failure, with the object it concerns.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system's random generator gave nothing.
    Random,
    /// A file operation failed.
    File {
        /// Operation that failed, in the infinitive: `read`, `write`, `lock`.
        act: &'static str,
        /// The file.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The ticket-key file can be read or written by others than its owner.
    TicketFilePermissions {
        /// The file.
        file: PathBuf,
        /// Its mode bits.
        mode: u32,
    },
    /// The ticket-key file is not what this program writes.
    TicketFileMalformed {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Problem in that line, and the expected content.
        what: &'static str,
    },
    /// Another process holds the lock of the ticket-key file for too long.
    TicketFileLocked {
        /// The lock file.
        file: PathBuf,
    },
}

impl Error {
    /// Returns an instruction to fix the error, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TicketFilePermissions { file, .. } => Some(format!("chmod 600 {}", file.display())),
            Self::TicketFileMalformed { file, .. } => Some(format!(
                "restore {0}, or remove it and a new one is made (clients then shake hands in full once)",
                file.display()
            )),
            Self::TicketFileLocked { file } => Some(format!("see who holds it: fuser {}", file.display())),
            Self::Random | Self::File { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("draw random bytes: the system's generator failed"),
            Self::File { act, file, source } => write!(f, "{act} {}: {source}", file.display()),
            Self::TicketFilePermissions { file, mode } => write!(
                f,
                "read ticket keys {}: mode {mode:04o} lets others than the owner in, expected 0600",
                file.display()
            ),
            Self::TicketFileMalformed { file, line, what } => {
                write!(f, "read ticket keys {}:{line}: {what}", file.display())
            }
            Self::TicketFileLocked { file } => {
                write!(f, "lock ticket keys {}: another process holds the lock", file.display())
            }
        }
    }
}

// `File` prints its source itself, so it is not offered a second time.
impl std::error::Error for Error {}
