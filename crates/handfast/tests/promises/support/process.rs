//! What the kernel knows of a process: descriptors, CPU time, memory, threads. In: its number. Out: figures from /proc.

use std::fs;
use std::time::Duration;

/// A process that is not necessarily ours to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// Open file descriptors.
    pub(crate) fn descriptors(self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.0)).map_or(0, Iterator::count)
    }

    /// The limit on open files that leaves room for so many more: the kernel bounds their numbers, and gives the lowest free one.
    pub(crate) fn limit_with_room_for(self, more: usize) -> u64 {
        let open = fs::read_dir(format!("/proc/{}/fd", self.0)).expect("the process lives");
        let open: Vec<u64> =
            open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let mut free = (0_u64..).filter(|number| !open.contains(number));
        free.nth(more).expect("there are more numbers than files")
    }

    /// CPU time of all its threads, in user and kernel mode; to the clock tick of 10 ms.
    pub(crate) fn cpu(self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).expect("the process lives");
        // The name, in parentheses, may hold spaces; the numbers follow it. proc(5): utime is the 14th field, stime the 15th.
        let (_, fields) = stat.rsplit_once(") ").expect("stat holds a name");
        let ticks =
            fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory that is its own, in bytes.
    pub(crate) fn memory(self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).expect("the process lives");
        let line =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("status holds RssAnon");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB") * 1024
    }

    /// Names of its threads.
    pub(crate) fn threads(self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).expect("the process lives");
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
        tasks.flatten().filter_map(name).map(|name| name.trim().to_owned()).collect()
    }

    /// Numbers of its threads whose names begin so.
    pub(crate) fn threads_named(self, beginning: &str) -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).expect("the process lives");
        let named = |task: &fs::DirEntry| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(beginning))
        };
        let numbers = tasks.flatten().filter(named);
        numbers.filter_map(|task| task.file_name().to_string_lossy().parse().ok()).collect()
    }

    /// CPU time of all its threads, to the nanosecond; those that have ended are left out.
    pub(crate) fn cpu_precisely(self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).expect("the process lives");
        // proc(5): the first figure is the time on a CPU, in nanoseconds.
        let of = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        Duration::from_nanos(tasks.flatten().filter_map(of).sum())
    }

    /// Sets the soft limit on open files of the running process; the hard limit stays, so it can be raised again.
    pub(crate) fn limit_files(self, files: u64) {
        use rustix::process::{Resource, Rlimit, prlimit};
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: Some(files), maximum };
        prlimit(Some(self.pid()), Resource::Nofile, limit).expect("one's own child may be limited");
    }

    /// Sends a signal.
    pub(crate) fn signal(self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("the process lives and is ours");
    }

    fn pid(self) -> rustix::process::Pid {
        let number = i32::try_from(self.0).expect("process numbers fit");
        rustix::process::Pid::from_raw(number).expect("process numbers are not 0")
    }
}
