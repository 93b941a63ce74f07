//! The identity of a file, whatever its name: whether a unix socket is still the one that this process made.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::address::Address;

/// Device and inode (stat(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file with this name, a link itself and not its target; `None` where there is none that can be examined.
    ///
    /// **Cost**: one system call.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::symlink_metadata(path).ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }

    /// The file of a unix socket's address; `None` also for an IP address.
    pub fn of_address(address: &Address) -> Option<Self> {
        match address {
            Address::Unix(path) => Self::of(path),
            Address::Ip(_) => None,
        }
    }
}
