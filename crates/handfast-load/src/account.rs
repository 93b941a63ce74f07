//! The CPU time and memory of the server's processes during a run, read on the same machine.
//!
//! In: a process with its descendants, or a control group. Out: CPU nanoseconds for each transaction.
//!
//! The kernel counts a control group completely. A process tree is counted from /proc, with two
//! limits: the time of threads and children that ended during the run has a resolution of 10 ms (`utime` to `cstime`
//! of proc(5)), and the figures of a child are lost if its parent ended or did not wait for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub use handfast_report::job::Accounted;
use handfast_report::model::ServerUse;

use crate::machine::{schedstat, text};
use handfast_report::ToolError;

/// Nanoseconds of one tick of /proc/PID/stat: USER_HZ is 100 on every architecture that rustls runs on.
const TICK: u64 = 10_000_000;

/// Reads the figures before and after a run.
#[derive(Debug)]
pub struct Accountant {
    source: Counted,
    /// CPU nanoseconds at [`Accountant::begin`].
    before: u64,
}

#[derive(Debug)]
enum Counted {
    Tree(Tree),
    Group(Group),
}

impl Accountant {
    /// Checks that it exists, and begins to count.
    ///
    /// **Errors**: no such process, or no such control group; the mistake is in the request.
    pub fn new(which: &Accounted) -> Result<Self, ToolError> {
        let source = match which {
            Accounted::Pid(pid) => Counted::Tree(Tree::find(*pid)?),
            Accounted::Cgroup(path) => Counted::Group(Group::find(path)?),
        };
        let mut accountant = Self { source, before: 0 };
        accountant.begin();
        Ok(accountant)
    }

    /// The measured part begins now. **Cost**: one look at every process of the machine, about 10 µs each; a control
    /// group takes two files.
    pub fn begin(&mut self) {
        self.before = match &mut self.source {
            Counted::Tree(tree) => tree.cpu_time().unwrap_or(0),
            Counted::Group(group) => group.usage().unwrap_or(0),
        };
    }

    /// The measured part ends now, after this number of transactions (or exchanges, on kept connections).
    ///
    /// **Errors**: the process ended before, and its figures are lost. **Cost**: as [`Accountant::begin`].
    pub fn end(&mut self, transactions: u64) -> Result<ServerUse, ToolError> {
        let (processes, now, resident_bytes) = match &mut self.source {
            Counted::Tree(tree) => (tree.processes(), tree.cpu_time(), tree.resident()),
            Counted::Group(group) => (group.processes(), group.usage(), group.resident()),
        };
        let now = now.ok_or_else(|| {
            ToolError::failed(format!(
                "count the CPU time of {processes}: it ended before the run did, and its figures with it"
            ))
        })?;
        let used = now.saturating_sub(self.before) as f64;
        Ok(ServerUse {
            who: processes,
            cpu_seconds: used / 1e9,
            cpu_ns_per_transaction: if transactions == 0 { 0.0 } else { used / transactions as f64 },
            resident_bytes,
        })
    }
}

/// The fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Start time, in ticks: with the pid it identifies one process for good.
    started: u64,
    /// Its own time, ended threads included, in ticks.
    own: u64,
    /// Time of children that ended and were waited for, in ticks.
    children: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&text(&format!("/proc/{pid}/stat"))?)
    }

    /// The name in parentheses may contain any character, also parentheses: fields are counted after the last one.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        // Field 3 of proc(5), the state, is the first here.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(4)?).ok()?,
            own: number(14)? + number(15)?,
            children: number(16)? + number(17)?,
            started: number(22)?,
        })
    }
}

/// A process and its descendants.
#[derive(Debug)]
struct Tree {
    root: u32,
    name: String,
    /// Every process seen so far, with the start time that makes its pid unique: a process that lost its parent is still found.
    members: BTreeMap<u32, u64>,
    /// Greatest sum of the members' peaks.
    peak: u64,
}

impl Tree {
    fn find(root: u32) -> Result<Self, ToolError> {
        let stat = Stat::of(root).ok_or_else(|| {
            ToolError::wrong_use(format!(
                "count the CPU time of process {root}: there is no such process on this machine"
            ))
            .hint("the server must run here; `pgrep -o NAME` prints the number of its first process")
        })?;
        let name =
            text(&format!("/proc/{root}/comm")).map_or_else(String::new, |name| name.trim().to_owned());
        Ok(Self { root, name, members: std::iter::once((root, stat.started)).collect(), peak: 0 })
    }

    fn processes(&self) -> String {
        format!("pid {} ({}) and its children", self.root, self.name)
    }

    fn resident(&self) -> u64 {
        self.peak
    }

    /// CPU nanoseconds of all members up to now; `None` when the root is gone.
    fn cpu_time(&mut self) -> Option<u64> {
        let everyone = everyone();
        self.members.retain(|pid, started| everyone.get(pid).is_some_and(|stat| stat.started == *started));
        if !self.members.contains_key(&self.root) {
            return None;
        }
        self.adopt(&everyone);
        let stats = self.members.keys().filter_map(|pid| Some((*pid, everyone.get(pid)?)));
        let used = stats.map(|(pid, stat)| own_time(pid, stat) + stat.children * TICK).sum();
        self.peak = self.peak.max(self.members.keys().map(|pid| peak_of(*pid)).sum());
        Some(used)
    }

    /// Adds children of members until there are no more.
    fn adopt(&mut self, everyone: &BTreeMap<u32, Stat>) {
        loop {
            let before = self.members.len();
            for (pid, stat) in everyone {
                if self.members.contains_key(&stat.parent) {
                    self.members.entry(*pid).or_insert(stat.started);
                }
            }
            if self.members.len() == before {
                return;
            }
        }
    }
}

/// Every visible process of the machine.
fn everyone() -> BTreeMap<u32, Stat> {
    let Ok(directory) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let stat = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, Stat::of(pid)?))
    };
    directory.flatten().filter_map(stat).collect()
}

/// CPU nanoseconds of a process: its living threads to the nanosecond, or the ticks when ended threads make them
/// more.
fn own_time(pid: u32, stat: &Stat) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = |entry: fs::DirEntry| {
        let line = text(entry.path().join("schedstat").to_str()?)?;
        Some(schedstat(&line)?.0)
    };
    let living: u64 = threads.filter_map(nanos).sum();
    living.max(stat.own * TICK)
}

/// Greatest resident memory of a process, in bytes.
fn peak_of(pid: u32) -> u64 {
    let status = text(&format!("/proc/{pid}/status")).unwrap_or_default();
    let kibibytes = |line: &str| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok();
    status.lines().find_map(kibibytes).unwrap_or(0) * 1024
}

/// A control group's files.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    version_2: bool,
}

impl Group {
    fn find(path: &Path) -> Result<Self, ToolError> {
        let group = |version_2| Self { path: path.to_owned(), version_2 };
        match [true, false].map(group).into_iter().find(|group| group.usage().is_some()) {
            Some(group) => Ok(group),
            None => Err(ToolError::wrong_use(format!(
                "count the CPU time of control group {}: neither cpu.stat (version 2) nor cpuacct.usage (version 1) can \
                 be read there",
                path.display()
            ))
            .hint("give its directory, as /sys/fs/cgroup/system.slice/NAME.service; /proc/PID/cgroup has it")),
        }
    }

    fn processes(&self) -> String {
        format!("control group {}", self.path.display())
    }

    /// CPU nanoseconds up to now.
    fn usage(&self) -> Option<u64> {
        if !self.version_2 {
            return self.number("cpuacct.usage");
        }
        let stat = text(self.path.join("cpu.stat").to_str()?)?;
        let micros = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        micros.trim().parse::<u64>().ok()?.checked_mul(1_000)
    }

    /// Greatest memory, page cache included; 0 if the kernel does not report it.
    fn resident(&self) -> u64 {
        if self.version_2 {
            return self.number("memory.peak").or_else(|| self.number("memory.current")).unwrap_or(0);
        }
        // Version 1 has a tree for each controller; the group has the same name in both as a rule.
        let in_memory_tree: PathBuf = self
            .path
            .components()
            .map(|part| match part.as_os_str().to_str() {
                Some("cpuacct" | "cpu,cpuacct" | "cpuacct,cpu") => Path::new("memory").as_os_str(),
                _ => part.as_os_str(),
            })
            .collect();
        let beside = Self { path: in_memory_tree, version_2: false };
        beside.number("memory.max_usage_in_bytes").unwrap_or(0)
    }

    fn number(&self, file: &str) -> Option<u64> {
        text(self.path.join(file).to_str()?)?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests;
