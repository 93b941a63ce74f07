//! Examines the whole machine: what limits or endangers TLS service now, since its start, and during a short interval.
//!
//! In: a machine, how long to look. Out: a [`Report`].
//!
//! | what | file |
//! |---|---|
//! | source ports, and which side holds TIME_WAIT | `ports.rs` |
//! | connections that wait to be accepted, SYN cookies | `queues.rs` |
//! | open files | `files.rs` |
//! | orphans, memory of TCP, connection tracking | `memory.rs` |
//! | the CPU's instructions, stolen CPU time, the clock | `processor.rs` |
//! | the generators of random numbers | `random.rs` |

pub(crate) mod files;
mod memory;
mod observed;
mod ports;
mod processor;
mod queues;
mod random;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant, SystemTime};

pub(crate) use observed::Exam;

use handfast_text::calendar::Utc;
use handfast_text::units::{bytes, counted};

use crate::machine::{Counters, Machine, field};
use crate::report::{Finding, Report};
use crate::sockets;

/// The settings of an examination.
#[derive(Clone, Debug)]
pub struct ExamSettings {
    /// The machine.
    pub machine: Machine,
    /// Time for which the kernel's counters are watched.
    pub interval: Duration,
    /// Name and version of the program, for the report.
    pub program: String,
}

/// Examines a machine.
///
/// **Cost**: the interval, and about a quarter of a second for the generators.
pub fn examine(options: &ExamSettings) -> Report {
    let machine = &options.machine;
    let before = Counters::read(machine);
    let begun = Instant::now();
    let mut report =
        Report::new(&options.program, Utc::of(SystemTime::now()).to_seconds().to_string(), subject(machine));
    random::examine(machine, &mut report);
    wait_until(begun + options.interval);
    let mut exam = Exam {
        machine,
        before,
        now: Counters::read(machine),
        interval: begun.elapsed(),
        sockets: None,
        uptime: uptime(machine),
        report,
    };
    match sockets::all(machine) {
        Ok(sockets) => exam.sockets = Some(sockets),
        Err(error) => exam.report.not_seen("TCP sockets (source ports, accept queues)", error.to_string()),
    }
    ports::examine(&mut exam);
    queues::examine(&mut exam);
    files::examine(&mut exam);
    memory::examine(&mut exam);
    processor::examine(&mut exam);
    if machine.is_container() {
        let why = "this is a container: limits of the host and of other containers are not visible, and some \
                   settings can be changed on the host only";
        exam.report.not_seen("the host", why);
    }
    exam.report.sort();
    exam.report
}

/// Sleeps.
pub(crate) fn wait_until(end: Instant) {
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// `web-7, Linux 6.18.0, 2 CPUs, 23.5 GiB`.
pub(crate) fn subject(machine: &Machine) -> String {
    let mut parts = Vec::new();
    parts.extend(machine.sysctl("kernel.hostname"));
    parts.extend(machine.sysctl("kernel.osrelease").map(|release| format!("Linux {release}")));
    let processors = machine.read("/proc/cpuinfo").unwrap_or_default();
    let cpus = processors.lines().filter(|line| line.starts_with("processor")).count();
    if cpus > 0 {
        parts.push(counted(cpus as u64, "CPU"));
    }
    parts.extend(total_memory(machine).map(bytes));
    if parts.is_empty() { "this machine".to_owned() } else { parts.join(", ") }
}

/// Bytes of memory.
pub(crate) fn total_memory(machine: &Machine) -> Option<u64> {
    let text = machine.read("/proc/meminfo").ok()?;
    let kibibytes: u64 = field(&text, "MemTotal")?.split(' ').next()?.parse().ok()?;
    Some(kibibytes << 10)
}

fn uptime(machine: &Machine) -> Option<Duration> {
    let seconds: f64 = machine.line("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

impl Exam<'_> {
    /// Growth of a counter per second during the interval.
    pub(crate) fn rate(&self, counter: &str) -> f64 {
        self.now.since(&self.before, counter) as f64 / self.interval.as_secs_f64().max(0.001)
    }

    /// A finding about counters that only grow when something was lost: critical while they grow, a warning if they
    /// grew earlier, none otherwise. `make` receives a text with the number and the time.
    pub(crate) fn counted_loss(
        &mut self,
        counters: &[&str],
        topic: &'static str,
        make: impl FnOnce(&str) -> (String, String),
    ) -> Option<Finding> {
        use handfast_text::units::{count, duration, long};
        let sum = |counts: &Counters| counters.iter().map(|name| counts.get(name)).sum::<u64>();
        let (total, now) = (sum(&self.now), sum(&self.now).saturating_sub(sum(&self.before)));
        if total == 0 {
            return None;
        }
        let since = self.uptime.map_or("since the start".to_owned(), |uptime| {
            format!("since the start, at most {} ago", long(uptime))
        });
        let interval = duration(self.interval.as_nanos() as f64);
        let words = match now {
            0 => format!("{} {since}, none in the last {interval}", count(total)),
            now => format!("{} in the last {interval}, {} {since}", count(now), count(total)),
        };
        let (title, consequence) = make(&words);
        Some(match now {
            0 => Finding::warning(topic, title, consequence),
            _ => Finding::critical(topic, title, consequence),
        })
    }
}
