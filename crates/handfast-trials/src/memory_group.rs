//! A bound on all the memory that the kernel counts for one process: its own, that of its sockets, that of files it wrote.
//!
//! In: a process, a number of bytes. Out: a control group around it, of version 1 or 2, or why there is none. Only a user that may
//! write to this process's control group can make one: root, outside of a user namespace.
//!
//! A group ends with its value, empty. One is left behind only when the laboratory is killed just then; it holds nothing, and the
//! next one that is made takes it away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use handfast_lab::namespace::put;

use crate::error::{CaseError, lab};

/// Prefix of the groups' names.
const NAME: &str = "handfast-lab-";
/// One that is older and empty has no process left.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// A version of the kernel's control groups, and what it calls things.
struct Version {
    /// Mount point of its tree.
    root: &'static str,
    /// Text of a line of /proc/self/cgroup between the first colon and the path.
    controllers: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Value that lifts the limit.
    none: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        root: "/sys/fs/cgroup/memory",
        controllers: "memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        none: "-1",
    },
    Version {
        root: "/sys/fs/cgroup",
        controllers: "",
        limit: "memory.max",
        used: "memory.current",
        none: "max",
    },
];

/// A group with one process and its threads in it.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    around: PathBuf,
    version: usize,
    process: u32,
}

impl MemoryGroup {
    /// Puts a process into a new group, in which it may allocate this number of bytes more.
    ///
    /// **Errors**: why there can be none here, for people.
    pub(crate) fn around(process: u32, bytes: u64) -> Result<Self, String> {
        let lines = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let mut why = "this kernel has no memory groups".to_owned();
        for (number, version) in VERSIONS.iter().enumerate() {
            let Some(around) = own(&lines, version).filter(|around| around.is_dir()) else { continue };
            forget(&around);
            match Self::make(&around, number, process, bytes) {
                Ok(group) => return Ok(group),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    fn make(around: &Path, number: usize, process: u32, bytes: u64) -> io::Result<Self> {
        /// Several are made at a time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Every laboratory has a separate network, with a number that no other one has while it is there.
        let network = fs::read_link("/proc/self/ns/net")?;
        let network: String = network.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        let name = format!("{NAME}{network}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let (folder, around) = (around.join(name), around.to_owned());
        fs::create_dir(&folder)?;
        let group = Self { folder, around, version: number, process };
        put(group.folder.join(VERSIONS[number].limit), &bytes.to_string())?;
        put(group.folder.join("cgroup.procs"), &process.to_string())?;
        Ok(group)
    }

    /// Bytes that the kernel counts for it now.
    pub(crate) fn used(&self) -> Result<u64, CaseError> {
        let file = self.folder.join(VERSIONS[self.version].used);
        let text = fs::read_to_string(&file);
        let used = text.ok().and_then(|text| text.trim().parse().ok());
        used.ok_or_else(|| CaseError::Lab(format!("{} holds no number", file.display())))
    }

    /// Takes the limit away, and the process out.
    pub(crate) fn lift(self) -> Result<(), CaseError> {
        let lifted = put(self.folder.join(VERSIONS[self.version].limit), VERSIONS[self.version].none);
        lifted.map_err(lab("lift the limit of a memory group"))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Of one that has ended there is nothing to move.
        let _ = put(self.around.join("cgroup.procs"), &self.process.to_string());
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The group of this version that this process is in.
fn own(lines: &str, version: &Version) -> Option<PathBuf> {
    let path = lines.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = controllers == version.controllers
            || !version.controllers.is_empty()
                && controllers.split(',').any(|one| one == version.controllers);
        is_it.then_some(path)
    })?;
    let whole = Path::new(version.root).join(path.trim_start_matches('/'));
    // In a container, the path may be that of the host, and the mount that of the container.
    Some(if whole.is_dir() { whole } else { version.root.into() })
}

/// Takes away what a killed laboratory left: a group without processes can be removed, others cannot.
fn forget(around: &Path) {
    for entry in fs::read_dir(around).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|made| made.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > FORGOTTEN) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_both_versions() {
        let lines = "9:name=systemd:/\n4:cpu,memory:/nowhere/at/all\n0::/\n";
        assert_eq!(own(lines, &VERSIONS[0]), Some(PathBuf::from("/sys/fs/cgroup/memory")));
        assert_eq!(own(lines, &VERSIONS[1]), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(own("4:cpu:/\nnonsense\n", &VERSIONS[0]), None);
        assert_eq!(own("", &VERSIONS[1]), None);
    }
}
