//! Figures of the kernel about this process in `/proc`: CPU by thread, files, memory, source ports.
//! Figures that a machine does not provide are left out.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

use super::snapshot::ProcessSnapshot;

/// Reads everything.
///
/// **Cost:** about a dozen small files, three for each thread.
pub(super) fn process(started: SystemTime) -> ProcessSnapshot {
    let text = |path| fs::read_to_string(path).ok();
    ProcessSnapshot {
        now: SystemTime::now(),
        started,
        cpu_seconds: cpu_seconds(),
        process_cpu_seconds: process_cpu_seconds(),
        open_files: open_files(),
        max_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        resident_bytes: resident(),
        source_ports: text("/proc/sys/net/ipv4/ip_local_port_range").and_then(|range| port_range(&range)),
        time_wait: text("/proc/net/sockstat").and_then(|sockstat| time_wait(&sockstat)),
        ..ProcessSnapshot::default()
    }
}

/// CPU time by thread name: the first field of `schedstat` is the time on a CPU in nanoseconds
/// (Linux, `Documentation/scheduler/sched-stats.rst`).
fn cpu_seconds() -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        // A thread may end between the two reads; it is then left out.
        let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
        let Ok(schedstat) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        let nanoseconds =
            schedstat.split_ascii_whitespace().next().and_then(|field| field.parse::<u64>().ok());
        if let Some(nanoseconds) = nanoseconds {
            *seconds.entry(name.trim_end().to_owned()).or_default() += nanoseconds as f64 / 1e9;
        }
    }
    seconds
}

fn process_cpu_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).ok().map(|time| time.as_secs_f64())
}

/// Open file descriptors: the size of the folder since Linux 6.2, counted one by one before.
fn open_files() -> Option<u64> {
    match fs::metadata("/proc/self/fd").ok()?.len() {
        0 => Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64),
        size => Some(size),
    }
}

/// Returns the number of bytes that this process has in memory.
pub fn resident() -> Option<u64> {
    resident_bytes(&fs::read_to_string("/proc/self/status").ok()?)
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let mut ports = text.split_ascii_whitespace().map(str::parse);
    match (ports.next(), ports.next()) {
        (Some(Ok(first)), Some(Ok(last))) => Some((first, last)),
        _ => None,
    }
}

fn time_wait(sockstat: &str) -> Option<u64> {
    let mut words = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?.split_ascii_whitespace();
    words.find(|word| *word == "tw")?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_understood() {
        assert_eq!(resident_bytes("Name:\thandfast\nVmRSS:\t    5120 kB\nThreads:\t3\n"), Some(5_242_880));
        assert_eq!(resident_bytes("VmRSS:\tplenty\n"), None);
        assert_eq!(port_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(port_range("32768"), None);
        assert_eq!(
            time_wait("sockets: used 14\nTCP: inuse 1 orphan 0 tw 23 alloc 1 mem 0\nUDP: inuse 0"),
            Some(23)
        );
        assert_eq!(time_wait("TCP: inuse 1"), None);
    }

    #[test]
    fn this_process_is_seen() {
        let started = SystemTime::now();
        let seen = process(started);
        assert_eq!(seen.started, started);
        assert!(seen.process_cpu_seconds.is_some_and(|seconds| seconds > 0.0), "{seen:?}");
        assert!(seen.open_files.is_some_and(|open| open >= 3), "{seen:?}");
        assert!(seen.max_files.is_none_or(|max| max > 3), "{seen:?}");
        assert!(seen.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{seen:?}");
    }

    #[test]
    fn cpu_time_is_found_under_the_threads_name() {
        let worker = std::thread::Builder::new().name("worker-cpu".into()).spawn(|| {
            let begun = std::time::Instant::now();
            while begun.elapsed() < std::time::Duration::from_millis(5) {
                std::hint::spin_loop();
            }
            cpu_seconds()
        });
        let seconds = worker.expect("a thread starts").join().expect("it does not panic");
        assert!(seconds.get("worker-cpu").is_some_and(|seconds| *seconds > 0.0), "{seconds:?}");
    }
}
