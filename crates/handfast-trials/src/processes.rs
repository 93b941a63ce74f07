//! What the kernel reports of a process, by proc(5), and the processes that it has started.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::trouble::{Trouble, lab};

/// A process and all that descend from it, in the order of their numbers.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(of) = found.get(next).copied() {
        found.extend(children(of));
        next += 1;
    }
    found.sort_unstable();
    found
}

/// What all its threads have started (CONFIG_PROC_CHILDREN, which distributions set) and what still runs of it.
fn children(process: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers =
        lists.flat_map(|list| list.split_whitespace().flat_map(str::parse::<i32>).collect::<Vec<_>>());
    numbers.filter(|number| has_not_ended(*number)).collect()
}

/// Fields of /proc/PID/stat behind the name in parentheses: the state is the first.
fn stat(path: &str) -> Vec<String> {
    let stat = fs::read_to_string(path).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}

/// One that has ended and was not waited for has nothing any more.
fn has_not_ended(process: i32) -> bool {
    stat(&format!("/proc/{process}/stat")).first().is_some_and(|state| state != "Z")
}

/// Whether all its threads are stopped.
pub(crate) fn is_stopped(process: i32) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.all(|thread| {
        stat(&thread.path().join("stat").to_string_lossy()).first().is_some_and(|state| state == "T")
    })
}

/// The number of its open descriptors.
pub(crate) fn descriptors(process: i32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// Whether it has as many descriptors as it may have.
pub(crate) fn is_out_of_descriptors(process: i32) -> bool {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let bound = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    bound.is_some_and(|bound| descriptors(process) >= bound)
}

/// A line of /proc/PID/status, in KiB.
pub(crate) fn kib(process: i32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// CPU time of all its threads, to the clock tick of 10 ms.
pub(crate) fn cpu(process: i32) -> Duration {
    // utime and stime are the 12th and 13th fields behind the name.
    let fields = stat(&format!("/proc/{process}/stat"));
    let ticks = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Bounds one of its resources, or lifts the bound again.
pub(crate) fn limit(process: i32, resource: Resource, bound: Option<u64>) -> Result<(), Trouble> {
    let ours = getrlimit(resource);
    let limit = Rlimit { current: bound.or(ours.maximum), maximum: ours.maximum };
    let process = rustix::process::Pid::from_raw(process);
    prlimit(process, resource, limit).map(drop).map_err(lab("limit what the proxy may have"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_in_the_tree_of_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let ours = i32::try_from(std::process::id()).expect("a process number");
        let its = i32::try_from(child.id()).expect("a process number");
        let found = tree(ours);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(found.contains(&ours) && found.contains(&its), "{its} of {ours}: {found:?}");
        assert_eq!(tree(its), [its]);
        assert!(descriptors(ours) > 0 && kib(ours, "RssAnon:") > 0);
    }
}
