//! The kernel's figures of a process: descriptors, CPU time, memory, threads. In: its number. Out: figures from /proc.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

/// A process that is not necessarily ours to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(pub u32);

impl Process {
    /// Open file descriptors.
    pub fn descriptors(self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.0)).map_or(0, Iterator::count)
    }

    /// The limit on open files that leaves room for so many more: the kernel bounds their numbers, and gives the lowest free one.
    pub fn limit_with_room_for(self, more: usize) -> u64 {
        let open = fs::read_dir(format!("/proc/{}/fd", self.0)).expect("the process lives");
        let open: Vec<u64> =
            open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let mut free = (0_u64..).filter(|number| !open.contains(number));
        free.nth(more).expect("there are more numbers than files")
    }

    /// The process and all that descend from it, in the order of their numbers; without those that have ended.
    pub fn tree(self) -> Vec<Self> {
        let mut found = vec![self];
        let mut next = 0;
        while let Some(of) = found.get(next).copied() {
            found.extend(of.children());
            next += 1;
        }
        found.sort_unstable();
        found
    }

    /// The processes that its threads have started (CONFIG_PROC_CHILDREN, which distributions set) and that still run.
    fn children(self) -> Vec<Self> {
        let lists = self.tasks().filter_map(|task| fs::read_to_string(task.join("children")).ok());
        let numbers = lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>());
        // One that has ended and was not waited for has nothing any more.
        let has_ended = |process: &Self| stat(&process.folder()).first().is_none_or(|state| state == "Z");
        numbers.map(Self).filter(|process| !has_ended(process)).collect()
    }

    /// Returns true if all its threads are stopped.
    pub fn is_stopped(self) -> bool {
        self.tasks().all(|task| stat(&task).first().is_some_and(|state| state == "T"))
    }

    /// Returns true if it has as many descriptors as it may have.
    pub fn is_out_of_descriptors(self) -> bool {
        let limits = fs::read_to_string(self.folder().join("limits")).unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let bound = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        bound.is_some_and(|bound| self.descriptors() >= bound)
    }

    /// CPU time of all its threads, in user and kernel mode; to the clock tick of 10 ms.
    pub fn cpu(self) -> Duration {
        self.try_cpu().expect("the process lives")
    }

    /// As [`Self::cpu`]; `None`: it has ended.
    pub fn try_cpu(self) -> Option<Duration> {
        // proc(5): behind the name, utime is the 12th field, stime the 13th.
        let fields = stat(&self.folder());
        let ticks = fields.get(11..13)?.iter().filter_map(|field| field.parse::<u64>().ok());
        Some(Duration::from_millis(ticks.sum::<u64>() * 10))
    }

    /// Resident memory that is its own, in bytes.
    pub fn memory(self) -> u64 {
        self.status("RssAnon:").expect("the process lives") * 1024
    }

    /// A figure of /proc/PID/status; sizes are in KiB. `None`: it has ended.
    pub fn status(self, what: &str) -> Option<u64> {
        let status = fs::read_to_string(self.folder().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(what))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    }

    fn folder(self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.0))
    }

    /// Folders of its threads; none: it has ended.
    fn tasks(self) -> impl Iterator<Item = PathBuf> {
        let tasks = fs::read_dir(self.folder().join("task")).into_iter().flatten().flatten();
        tasks.map(|task| task.path())
    }

    /// Returns whether each of its threads waits in a system call: none runs, and a tracer holds none at the border of a call.
    pub fn is_asleep(self) -> bool {
        self.tasks().all(|task| stat(&task).first().is_some_and(|state| state == "S"))
    }

    /// Names of its threads.
    pub fn threads(self) -> Vec<String> {
        self.tasks().filter_map(|task| name(&task)).collect()
    }

    /// Numbers of its threads whose names begin so.
    pub fn threads_named(self, beginning: &str) -> Vec<u32> {
        let named = self.tasks().filter(|task| name(task).is_some_and(|name| name.starts_with(beginning)));
        named.filter_map(|task| task.file_name()?.to_str()?.parse().ok()).collect()
    }

    /// CPU time of all its threads, to the nanosecond; those that have ended are left out.
    pub fn cpu_precisely(self) -> Duration {
        // proc(5): the first figure is the time on a CPU, in nanoseconds.
        let of = |task: PathBuf| {
            let text = fs::read_to_string(task.join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        Duration::from_nanos(self.tasks().filter_map(of).sum())
    }

    /// Sets the soft limit on open files of the running process; the hard limit stays, so it can be raised again.
    pub fn limit_files(self, files: u64) {
        self.limit(Resource::Nofile, Some(files)).expect("one's own child may be limited");
    }

    /// Bounds one of its resources, or lifts the bound again. **Errors**: prlimit(2).
    pub fn limit(self, resource: Resource, bound: Option<u64>) -> io::Result<()> {
        let maximum = getrlimit(resource).maximum;
        let limit = Rlimit { current: bound.or(maximum), maximum };
        Ok(prlimit(Some(self.pid()), resource, limit).map(drop)?)
    }

    /// Sends a signal.
    pub fn signal(self, signal: Signal) {
        self.try_signal(signal).expect("the process lives and is ours");
    }

    /// As [`Self::signal`]. **Errors**: kill(2).
    pub fn try_signal(self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.pid(), signal)?)
    }

    fn pid(self) -> rustix::process::Pid {
        let number = i32::try_from(self.0).expect("process numbers fit");
        rustix::process::Pid::from_raw(number).expect("process numbers are not 0")
    }
}

/// Fields of /proc/PID/stat behind the name in parentheses: the state is the first.
fn stat(folder: &Path) -> Vec<String> {
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}

fn name(task: &Path) -> Option<String> {
    fs::read_to_string(task.join("comm")).ok().map(|name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_in_the_tree_of_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let (ours, its) = (Process(std::process::id()), Process(child.id()));
        let found = ours.tree();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(found.contains(&ours) && found.contains(&its), "{its:?} of {ours:?}: {found:?}");
        assert_eq!(its.tree(), [its]);
        assert!(ours.descriptors() > 0 && ours.memory() > 0);
    }
}
