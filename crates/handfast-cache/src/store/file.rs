//! An open file whose descriptor is closed by the disk's threads.
//!
//! In: a descriptor. Out: the same, for as long as a reader has it. To close the last descriptor of a deleted file frees its space, which takes
//! long for a large one: no worker does that.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::pool::{Pool, Work};

/// An open content file.
pub(crate) struct File {
    /// There until the end.
    fd: Option<OwnedFd>,
    pool: Arc<Pool>,
}

impl File {
    pub(crate) const fn new(fd: OwnedFd, pool: Arc<Pool>) -> Self {
        Self { fd: Some(fd), pool }
    }

    pub(crate) const fn fd(&self) -> &OwnedFd {
        self.fd.as_ref().expect("the descriptor is taken out by drop alone")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let fd = self.fd.take();
        self.pool.submit(Work::Write, move || drop(fd));
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.fd.fmt(f)
    }
}
