//! The process's limit on file descriptors: raised as far as allowed, and what that allows.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit on open files after it was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimit {
    /// What it was.
    pub before: u64,
    /// What it is now: the hard limit, unless raising failed.
    pub now: u64,
}

/// Raises the soft limit on open files to the hard one (getrlimit(2), `RLIMIT_NOFILE`).
///
/// **Errors**: setrlimit(2); the old limit then stays.
pub fn raise_file_limit() -> io::Result<FileLimit> {
    let limit = getrlimit(Resource::Nofile);
    let before = limit.current.unwrap_or(u64::MAX);
    let now = limit.maximum.unwrap_or(u64::MAX);
    if before < now {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(FileLimit { before, now })
}
