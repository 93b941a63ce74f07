//! Location and size limits of a cache.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of a cache.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder, for this cache alone. It is created if its parent exists.
    pub folder: PathBuf,
    /// The most that all objects take on the disk. **Units** bytes. Content that is being received comes on top.
    pub size: u64,
    /// Most objects.
    pub objects: usize,
    /// The most that heads and keys take in memory. **Units** bytes, estimated.
    pub memory: u64,
    /// Most stored variants of one URL.
    pub variants: usize,
    /// Threads for the disk. Of several one reads only.
    pub threads: usize,
    /// Most files that are kept open for the next request.
    pub open_files: usize,
    /// No file is opened whose descriptor has this number or a higher one: requests go past the cache.
    pub descriptors_below: u32,
    /// Most requests that wait for the disk before further ones go past the cache.
    pub queue: usize,
    /// The most content of one fill that waits for the disk. **Units** bytes.
    pub pending: usize,
    /// A fill whose content waits longer for the disk is not stored.
    pub disk_timeout: Duration,
}

impl Settings {
    /// A cache of this size in this folder, with defaults for the rest.
    pub fn new(folder: impl Into<PathBuf>, size: u64) -> Self {
        Self {
            folder: folder.into(),
            size,
            objects: 1_000_000,
            memory: 1 << 30,
            variants: 16,
            threads: 4,
            open_files: 1024,
            descriptors_below: u32::MAX,
            queue: 1024,
            pending: 1 << 20,
            disk_timeout: Duration::from_secs(5),
        }
    }
}
