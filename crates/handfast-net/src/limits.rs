//! The process's limit on file descriptors: raised as far as allowed, and which of them connections may have.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock::Moment;

/// The limit on open files after it was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimit {
    /// Limit before it was raised.
    pub before: u64,
    /// Limit now: the hard limit, unless raising failed.
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

/// Returns the soft limit on open files. **Cost**: a call.
pub fn file_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Numbers of descriptors that connections may have: below this.
static CONNECTION_NUMBERS: AtomicU32 = AtomicU32::new(u32::MAX);
/// Numbers of descriptors that files of caches may have: below this.
static FILE_NUMBERS: AtomicU32 = AtomicU32::new(u32::MAX);
/// Time of the last connection that was refused because its number was too high; 0: none.
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// Descriptors are scarce for this time after one was refused.
const SCARCITY: Duration = Duration::from_secs(1);
/// From this number of free descriptors on, each accept is preceded by a look at what is free.
const MARGIN: u32 = 64;

/// Keeps the descriptors from number `connections` on for everything but connections (the admin listener, logs, files of a reload), and those
/// from `files` on from caches, which look at [`file_numbers`].
///
/// The kernel gives out the lowest free number (open(2)). So the number of a new descriptor is the least number of open ones: an exact count
/// of everything that the process has open, without a counter that threads would share.
pub fn reserve_descriptors(connections: u32, files: u32) {
    CONNECTION_NUMBERS.store(connections, Ordering::Relaxed);
    FILE_NUMBERS.store(files, Ordering::Relaxed);
}

/// Returns the number that descriptors of a cache's files must be below.
pub fn file_numbers() -> u32 {
    FILE_NUMBERS.load(Ordering::Relaxed)
}

/// Returns true if a connection was refused a descriptor a moment ago: what is only kept for later should be closed.
pub fn is_scarce(now: Moment) -> bool {
    let refused = REFUSED.load(Ordering::Relaxed);
    refused > 0 && now.since(Moment::from_nanos(refused)) < SCARCITY
}

/// Passes a new socket on, unless its number is reserved. **Errors**: as if the process could open no more.
pub(crate) fn admit(socket: OwnedFd) -> Result<OwnedFd, Errno> {
    if number(&socket) < CONNECTION_NUMBERS.load(Ordering::Relaxed) {
        return Ok(socket);
    }
    REFUSED.store(Moment::now().nanos().max(1), Ordering::Relaxed);
    Err(Errno::MFILE)
}

/// Returns true if there may be no room for many more connections than this one.
pub(crate) fn is_near_the_limit(socket: &OwnedFd) -> bool {
    number(socket).saturating_add(MARGIN) >= CONNECTION_NUMBERS.load(Ordering::Relaxed)
}

/// Returns true if there is room for one more connection. **Cost**: two calls.
pub(crate) fn has_room(any: impl AsFd) -> bool {
    fcntl_dupfd_cloexec(any, 0).and_then(admit).is_ok()
}

fn number(socket: &OwnedFd) -> u32 {
    u32::try_from(socket.as_raw_fd()).unwrap_or(u32::MAX)
}
