//! The process that holds the private keys, and the one that starts it. In: a proxy's process. Out: theirs.

use std::fs;

use super::deadline::wait_until;
use super::process::Process;
use rustix::process::Signal;

/// The child of a process that has this name.
pub(crate) fn child(parent: Process, name: &str) -> Option<Process> {
    let processes = fs::read_dir("/proc").expect("there is one").flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find_map(|number| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let is_it = field("PPid:") == Some(&parent.0.to_string()) && field("Name:") == Some(name);
        (is_it && field("State:").is_some_and(|state| !state.starts_with('Z'))).then_some(Process(number))
    })
}

/// Supervisor and key process.
pub(crate) fn both(proxy: Process) -> (Process, Process) {
    let supervisor = wait_until("a supervisor", || child(proxy, "key-supervisor"));
    (supervisor, wait_until("a key process", || child(supervisor, "key-process")))
}

/// Stops it, and waits until every thread of it is stopped: the kernel begins that on its main thread, and meanwhile another one could sign.
pub(crate) fn stop(process: Process) {
    process.signal(Signal::STOP);
    wait_until("every thread to be stopped", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.0)).ok()?;
        let is_stopped = |task: std::io::Result<fs::DirEntry>| {
            let status = task.and_then(|task| fs::read_to_string(task.path().join("status")));
            status.is_ok_and(|status| status.lines().any(|line| line.starts_with("State:\tT")))
        };
        tasks.into_iter().all(is_stopped).then_some(())
    });
}

/// Returns true if it has ended; a zombie counts as ended.
pub(crate) fn has_ended(process: Process) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0)).unwrap_or_default();
    !status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
