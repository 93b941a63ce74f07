//! Examines one process: the activity of its threads over an interval, its descriptors, and its sockets by state.
//!
//! In: a process ID. Out: a [`Report`]. A thread that never sleeps is a finding: it is overloaded, or in a busy loop.

mod calls;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use handfast_text::calendar::Utc;
use handfast_text::units::{count, counted, duration, share};

use crate::exam::wait_until;
use crate::machine::Machine;
use crate::report::{Finding, Report};
use crate::sockets::{self, Socket, State};

/// Samples of the system calls of all threads within the interval.
const LOOKS: u32 = 20;
/// A thread that runs or waits for a CPU for this share of the time counts as never sleeping. Waiting counts, since on a
/// busy machine a thread in a busy loop does not get a whole CPU.
const BUSY: f64 = 0.9;
/// Most threads that the report lists one by one.
const TOLD: usize = 12;
/// Share of its descriptors from which on a process has nearly none left.
const NEARLY_FULL_SHARE: f64 = 0.9;
/// From this number on, sockets that the program has not closed after the peer did are a finding.
const FORGOTTEN: usize = 100;
/// A hint about the permission to examine a process.
const WHO_MAY: &str = "root may see them, or the same user where kernel.yama.ptrace_scope is 0; of a process that let nobody look into it \
                       (prctl PR_SET_DUMPABLE; a Handfast proxy does so), or changed its user after its start, root alone";
/// /proc counts in hundredths of a second (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

/// The settings of an examination.
#[derive(Clone, Debug)]
pub struct ProcessExamSettings {
    /// Machine whose /proc is read.
    pub machine: Machine,
    /// The process.
    pub pid: u32,
    /// Time for which its threads are watched.
    pub interval: Duration,
    /// Name and version of the program, for the report.
    pub program: String,
}

/// One thread.
#[derive(Clone, Debug, Default)]
struct Thread {
    name: String,
    /// CPU time, and the parts of it in the program and in the kernel, which are coarser.
    cpu: Duration,
    /// Time for which it could have run and had no CPU; zero where the kernel does not count it.
    waited: Duration,
    user: Duration,
    system: Duration,
    /// The number of samples in each system call; `None`: on a CPU, or waiting for one.
    calls: BTreeMap<Option<i64>, u32>,
}

/// No process has this ID.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("--pid {pid}: there is no such process")]
pub struct NoProcess {
    /// The ID.
    pub pid: u32,
}

/// Examines a process.
///
/// **Errors**: there is no process with this ID.
///
/// **Cost**: the interval, and a small file for each thread twenty times.
pub fn examine(settings: &ProcessExamSettings) -> Result<Report, NoProcess> {
    let ProcessExamSettings { machine, pid, .. } = settings;
    let Some(name) = machine.line(&format!("/proc/{pid}/comm")) else {
        return Err(NoProcess { pid: *pid });
    };
    let started = Utc::of(SystemTime::now()).to_seconds().to_string();
    let mut report = Report::new(&settings.program, started, format!("process {pid} ({name})"));
    let (threads, watched) = watch(settings, &mut report);
    let files = descriptors(settings, &mut report);
    report_threads(&threads, watched, files.as_ref(), &mut report);
    if let Some(files) = &files {
        report_files(settings, files, &mut report);
        report_sockets(settings, files, &mut report);
    }
    report.sort();
    Ok(report)
}

/// CPU time of each thread at this moment.
fn threads(machine: &Machine, pid: u32) -> BTreeMap<String, Thread> {
    let folder = format!("/proc/{pid}/task");
    let one = |tid: String| {
        let stat = machine.read(&format!("{folder}/{tid}/stat")).ok()?;
        // The name may hold blanks and parentheses; it ends at the last one.
        let (_, rest) = stat.rsplit_once(") ")?;
        let ticks = |place: usize| {
            let ticks: u32 = rest.split_whitespace().nth(place)?.parse().ok()?;
            Some(TICK * ticks)
        };
        // proc(5): utime and stime are the fields 14 and 15, of which two are before the rest.
        let (user, system) = (ticks(11)?, ticks(12)?);
        let exact = machine.read(&format!("{folder}/{tid}/schedstat")).ok();
        let exact: Vec<u64> = exact
            .iter()
            .flat_map(|line| line.split_whitespace())
            .map_while(|word| word.parse().ok())
            .collect();
        let name = machine.line(&format!("{folder}/{tid}/comm")).unwrap_or_default();
        let cpu = exact.first().map_or(user + system, |nanos| Duration::from_nanos(*nanos));
        let waited = Duration::from_nanos(exact.get(1).copied().unwrap_or(0));
        Some((tid, Thread { name, cpu, waited, user, system, calls: BTreeMap::new() }))
    };
    machine.names(&folder).unwrap_or_default().into_iter().filter_map(one).collect()
}

/// The activity of each thread during the interval, and the interval's length.
fn watch(settings: &ProcessExamSettings, report: &mut Report) -> (BTreeMap<String, Thread>, Duration) {
    let ProcessExamSettings { machine, pid, interval, .. } = settings;
    let before = threads(machine, *pid);
    let begun = Instant::now();
    let mut calls: BTreeMap<String, BTreeMap<Option<i64>, u32>> = BTreeMap::new();
    for look in 1..=LOOKS {
        for tid in before.keys() {
            match machine.read(&format!("/proc/{pid}/task/{tid}/syscall")) {
                Ok(text) => {
                    *calls.entry(tid.clone()).or_default().entry(calls::number(&text)).or_insert(0) += 1
                }
                // It may have ended since.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    report.not_seen("system calls in which threads sit", format!("{error}; {WHO_MAY}"))
                }
            }
        }
        wait_until(begun + *interval * look / LOOKS);
    }
    let watched = begun.elapsed();
    let mut now = threads(machine, *pid);
    now.retain(|tid, thread| {
        let Some(before) = before.get(tid) else { return false };
        thread.cpu = thread.cpu.saturating_sub(before.cpu);
        thread.waited = thread.waited.saturating_sub(before.waited);
        thread.user = thread.user.saturating_sub(before.user);
        thread.system = thread.system.saturating_sub(before.system);
        thread.calls = calls.remove(tid).unwrap_or_default();
        true
    });
    (now, watched)
}

impl Thread {
    fn share(&self, watched: Duration) -> f64 {
        self.cpu.as_secs_f64() / watched.as_secs_f64().max(0.001)
    }

    /// Share of the time in which it did not sleep.
    fn awake(&self, watched: Duration) -> f64 {
        (self.cpu + self.waited).as_secs_f64() / watched.as_secs_f64().max(0.001)
    }

    /// `accept4 in 17 of 20 looks`, the most frequent first.
    fn calls_words(&self) -> String {
        let looks: u32 = self.calls.values().sum();
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let one = |(call, times): (&Option<i64>, &u32)| {
            format!("{} in {times}", call.map_or("on a CPU".to_owned(), calls::name))
        };
        let words: Vec<String> = calls.into_iter().take(3).map(one).collect();
        if words.is_empty() { String::new() } else { format!("{} of {looks} looks", words.join(", ")) }
    }

    /// Returns true if it was seen to accept connections.
    fn accepts(&self) -> bool {
        self.calls.keys().flatten().any(|call| calls::name(*call).starts_with("accept"))
    }

    fn words(&self, watched: Duration) -> String {
        let whole = (self.user + self.system).as_secs_f64();
        let kernel = match whole > 0.0 {
            true => format!(", {} of it in the kernel", share(self.system.as_secs_f64() / whole)),
            false => String::new(),
        };
        let calls = self.calls_words();
        let calls = if calls.is_empty() { calls } else { format!("; {calls}") };
        format!("{} of a CPU{kernel}{calls}", share(self.share(watched).min(1.0)))
    }
}

fn report_threads(
    threads: &BTreeMap<String, Thread>,
    watched: Duration,
    files: Option<&Files>,
    report: &mut Report,
) {
    let mut all: Vec<_> = threads.iter().collect();
    all.sort_by_key(|thread| std::cmp::Reverse(thread.1.cpu));
    let time = duration(watched.as_nanos() as f64);
    let sum: f64 = all.iter().map(|(_, thread)| thread.share(watched)).sum();
    let whole = format!("{} took {:.2} CPUs together, in {time}", counted(all.len() as u64, "thread"), sum);
    report.fact("threads", whole);
    for (tid, thread) in all.iter().take(TOLD) {
        report.fact("", format!("{} ({tid}): {}", thread.name, thread.words(watched)));
    }
    if all.len() > TOLD {
        report.fact("", format!("and {} that took less", counted((all.len() - TOLD) as u64, "thread")));
    }
    for (tid, thread) in all.iter().filter(|(_, thread)| thread.awake(watched) >= BUSY) {
        report.find(busy(tid, thread, watched, files));
    }
}

fn busy(tid: &str, thread: &Thread, watched: Duration, files: Option<&Files>) -> Finding {
    let title = format!("thread {} ({tid}) never sleeps: {}", thread.name, thread.words(watched));
    let time = |time: Duration| duration(time.as_nanos() as f64);
    let arithmetic = format!(
        "{} on a CPU + {} waiting for one, within {}",
        time(thread.cpu),
        time(thread.waited),
        time(watched)
    );
    let is_out = files.is_some_and(|files| files.share() >= NEARLY_FULL_SHARE);
    if thread.accepts() && is_out {
        let consequence = "it accepts, gets \"too many open files\", and retries at once: a busy loop until a descriptor is free";
        return Finding::critical("spinning-thread", title, consequence)
            .because(arithmetic)
            .change("give the process more open files (LimitNOFILE=, ulimit -n), then restart it");
    }
    let consequence = "whatever this thread does else waits. It has that much work, or it spins: then bytes and connections stand \
                       still while it runs";
    Finding::warning("spinning-thread", title, consequence)
        .because(arithmetic)
        .change(format!("perf top -t {tid}   (which code runs)"))
        .change(format!("strace -c -f -p {tid}   (which system calls, and how they fail)"))
}

/// Open descriptors.
struct Files {
    /// Number of descriptors of each kind.
    kinds: BTreeMap<String, u64>,
    count: u64,
    /// The soft limit.
    most: u64,
    /// Of the sockets.
    inodes: HashSet<u64>,
}

impl Files {
    fn share(&self) -> f64 {
        self.count as f64 / self.most.max(1) as f64
    }
}

fn descriptors(settings: &ProcessExamSettings, report: &mut Report) -> Option<Files> {
    let (machine, pid) = (&settings.machine, settings.pid);
    let folder = format!("/proc/{pid}/fd");
    let names = match machine.names(&folder) {
        Ok(names) => names,
        Err(error) => {
            report.not_seen("its descriptors and sockets", format!("{error}; {WHO_MAY}"));
            return None;
        }
    };
    let most = machine.file_limits(&pid.to_string()).map_or(u64::MAX, |(soft, _)| soft);
    let mut files = Files { kinds: BTreeMap::new(), count: names.len() as u64, most, inodes: HashSet::new() };
    for name in names {
        let Some(target) = machine.link(&format!("{folder}/{name}")) else { continue };
        let kind = match target.split_once(':') {
            Some(("socket", inode)) => {
                files.inodes.extend(inode.trim_matches(['[', ']']).parse::<u64>());
                "socket"
            }
            Some(("anon_inode", kind)) => kind.trim_matches(['[', ']']),
            Some(("pipe", _)) => "pipe",
            _ => "file",
        };
        *files.kinds.entry(kind.to_owned()).or_insert(0) += 1;
    }
    Some(files)
}

fn report_files(settings: &ProcessExamSettings, files: &Files, report: &mut Report) {
    let limit =
        if files.most == u64::MAX { "no limit".to_owned() } else { format!("at most {}", count(files.most)) };
    let kinds: Vec<String> =
        files.kinds.iter().map(|(kind, number)| format!("{} {kind}", count(*number))).collect();
    report.fact("descriptors", format!("{} open ({}), {limit}", count(files.count), kinds.join(", ")));
    if files.share() < NEARLY_FULL_SHARE {
        return;
    }
    let title = format!("{} of {} open files are in use", count(files.count), count(files.most));
    let consequence = "accept and connect fail with EMFILE, \"too many open files\"; a program that retries at once is then in a busy loop";
    let hard = settings.machine.file_limits(&settings.pid.to_string()).map_or(files.most, |(_, hard)| hard);
    let finding = Finding::critical("open-files", title, consequence);
    report.find(match hard > files.most {
        true => finding.change(format!("prlimit --pid {} --nofile={hard}:{hard}", settings.pid)),
        false => finding
            .change("LimitNOFILE=524288   (in the [Service] section of its systemd unit), then restart it"),
    });
}

fn report_sockets(settings: &ProcessExamSettings, files: &Files, report: &mut Report) {
    let all = match own_network(settings) {
        Ok(all) => all,
        Err(error) => return report.not_seen("its sockets by state", error.to_string()),
    };
    let ours: Vec<&Socket> = all.iter().filter(|socket| files.inodes.contains(&socket.inode)).collect();
    let mut states: BTreeMap<State, u64> = BTreeMap::new();
    ours.iter().for_each(|socket| *states.entry(socket.state).or_insert(0) += 1);
    let words: Vec<String> =
        states.iter().map(|(state, number)| format!("{} {}", count(*number), state.name())).collect();
    report.fact("TCP sockets", if words.is_empty() { "none".to_owned() } else { words.join(", ") });
    let forgotten = ours.iter().filter(|socket| socket.state == State::CloseWait).count();
    if forgotten >= FORGOTTEN && forgotten * 10 >= ours.len() {
        let title =
            format!("{} of {} sockets are in CLOSE_WAIT", count(forgotten as u64), count(ours.len() as u64));
        let consequence = "the other side has ended these, and the program has not closed them; each keeps a descriptor until it does";
        report.find(
            Finding::warning("close-wait", title, consequence)
                .change(format!("which ones: ss -tanp state close-wait | grep pid={}", settings.pid))
                .change("this is a bug of the program, unless it still sends to them"),
        );
    }
}

/// Sockets of the network namespace that the process is in.
fn own_network(settings: &ProcessExamSettings) -> std::io::Result<Vec<Socket>> {
    let ProcessExamSettings { machine, pid, .. } = settings;
    let network = |process: &str| machine.link(&format!("/proc/{process}/ns/net"));
    if network("self").is_some() && network("self") == network(&pid.to_string()) {
        return sockets::all(machine);
    }
    sockets::of_process(machine, *pid)
}
