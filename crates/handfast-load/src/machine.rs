//! The machine of a run: its hardware and settings, its kernel's counters, and its CPU load.
//!
//! In: /proc and /sys. Out: facts for the report, counters that moved, shares of CPU time. All of it is
//! evidence only, and nothing is required: a missing or unreadable file is omitted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Longest file of /proc or /sys that is read; /proc/cpuinfo of a machine with 1,024 CPUs is about 1.5 MiB.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The sysctls that decide how many connections a second a machine can make or take.
const SYSCTLS: [&str; 11] = [
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_tw_reuse_delay",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_timestamps",
    "net.core.somaxconn",
    "net.netfilter.nf_conntrack_max",
];

/// Counters of /proc/net/netstat (`TcpExt`) and /proc/net/snmp (`Tcp`) that help to explain a run.
const COUNTERS: [&str; 28] = [
    "ActiveOpens",
    "AttemptFails",
    "EstabResets",
    "InErrs",
    "ListenDrops",
    "ListenOverflows",
    "OutRsts",
    "PAWSEstab",
    "PassiveOpens",
    "RetransSegs",
    "SyncookiesFailed",
    "SyncookiesSent",
    "TCPAbortOnClose",
    "TCPAbortOnData",
    "TCPAbortOnLinger",
    "TCPAbortOnMemory",
    "TCPAbortOnTimeout",
    "TCPBacklogDrop",
    "TCPLostRetransmit",
    "TCPMemoryPressures",
    "TCPReqQFullDoCookies",
    "TCPReqQFullDrop",
    "TCPSynRetrans",
    "TCPTimeWaitOverflow",
    "TCPTimeouts",
    "TW",
    "TWKilled",
    "TWRecycled",
];

/// Facts about this machine: `kernel`, `cpu`, `cores`, `memory`, `files`, `clocksource`,
/// `virtualisation`, `steal`, `governor`, and sysctls by their names.
///
/// **Cost**: about twenty small files, well under 10 ms.
pub fn facts() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    let processors = text("/proc/cpuinfo").unwrap_or_default();
    put("kernel", line("/proc/sys/kernel/osrelease"));
    put("cpu", field(&processors, "model name").or_else(|| field(&processors, "Processor")));
    put("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string()));
    put("memory", text("/proc/meminfo").and_then(|meminfo| memory(&meminfo)));
    put("files", Some(file_limit().to_string()));
    put("clocksource", line("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    put("governor", line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("virtualisation", virtualisation(&processors));
    put(
        "steal",
        text("/proc/stat").and_then(|stat| Ticks::parse(&stat)).and_then(|ticks| ticks.steal_words()),
    );
    for name in SYSCTLS {
        put(name, sysctl(name));
    }
    facts
}

/// A sysctl by its dotted name, blanks made single; `None` when the kernel does not have it.
pub fn sysctl(name: &str) -> Option<String> {
    let value = line(&format!("/proc/sys/{}", name.replace('.', "/")))?;
    Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// File descriptors that this process may have open; `u64::MAX` when there is no limit.
pub fn file_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// SHA-256 of the running program's file in hexadecimal; empty when it cannot be read. **Cost**: reads the whole
/// file the first time (about 10 ms), nothing afterwards.
pub fn program_hash() -> String {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| hash_of("/proc/self/exe").unwrap_or_default()).clone()
}

fn hash_of(path: &str) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(HEXLOWER.encode(context.finish().as_ref())),
            read => context.update(&buffer[..read]),
        }
    }
}

/// CPU time that the calling thread used, and time in which it was ready to run and had no CPU, both since it began.
///
/// **Units**: nanoseconds. The second is zero when the kernel does not count it (`CONFIG_SCHED_INFO`).
///
/// **Cost**: two system calls; one file descriptor for each thread that calls it, until the thread ends.
pub fn own_thread() -> (u64, u64) {
    thread_local! {
        // The path refers to the thread that opens it, and the file stays bound to that thread.
        static FILE: RefCell<Option<File>> = RefCell::new(File::open("/proc/thread-self/schedstat").ok());
    }
    // The clock is exact; the first figure of schedstat is as old as the last tick of the scheduler.
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let busy = u64::try_from(used.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(used.tv_nsec).unwrap_or(0);
    let starved = FILE.with_borrow(|file| {
        let mut buffer = [0; 96];
        let read = file.as_ref()?.read_at(&mut buffer, 0).ok()?;
        schedstat(std::str::from_utf8(&buffer[..read]).ok()?)
    });
    (busy, starved.map_or(0, |(_, starved)| starved))
}

/// CPU time and waiting time of a line of schedstat, in nanoseconds.
pub(crate) fn schedstat(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// TCP counters of the kernel at one moment, in our network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters(BTreeMap<String, i64>);

impl KernelCounters {
    /// Reads them now; none when /proc is not there. **Cost**: two files, about 50 µs.
    pub fn read() -> Self {
        let mut counters = Self::default();
        for (path, table) in [("/proc/net/netstat", "TcpExt:"), ("/proc/net/snmp", "Tcp:")] {
            counters.take(&text(path).unwrap_or_default(), table);
        }
        counters
    }

    /// The increases since `earlier`, by the kernel's names; unchanged counters are omitted.
    pub fn moved_since(&self, earlier: &Self) -> BTreeMap<String, i64> {
        let moved = |(name, now): (&String, &i64)| {
            let before = earlier.0.get(name)?;
            Some((name.clone(), now.wrapping_sub(*before))).filter(|(_, difference)| *difference != 0)
        };
        self.0.iter().filter_map(moved).collect()
    }

    /// Takes the known counters of one table: a line of names and a line of values, both led by its name.
    fn take(&mut self, text: &str, table: &str) {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(table));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let (true, Ok(value)) = (COUNTERS.contains(&name), value.parse()) {
                self.0.insert(name.to_owned(), value);
            }
        }
    }
}

/// The load of the machine's CPUs between two calls.
#[derive(Debug)]
pub struct MachineCpu {
    last: Ticks,
    steal: f64,
}

impl Default for MachineCpu {
    fn default() -> Self {
        Self::new()
    }
}

impl MachineCpu {
    /// Starts the first interval.
    pub fn new() -> Self {
        Self { last: Ticks::read(), steal: 0.0 }
    }

    /// Share of all CPUs' time since the last call in which they were not idle, 0 to 1. Stolen time
    /// counts as busy, since no program here could use it. 0 when no time has passed, or nothing can be read.
    ///
    /// The kernel counts in steps of 10 ms: the figure of a second is good to about one hundredth.
    pub fn share(&mut self) -> f64 {
        let now = Ticks::read();
        let busy = self.advance(now);
        busy.clamp(0.0, 1.0)
    }

    /// Share of the CPUs' time that a hypervisor took, 0 to 1, in the interval that the last [`MachineCpu::share`]
    /// ended.
    pub const fn steal(&self) -> f64 {
        self.steal
    }

    fn advance(&mut self, now: Ticks) -> f64 {
        let whole = now.all.saturating_sub(self.last.all);
        let idle = now.idle.saturating_sub(self.last.idle);
        let stolen = now.steal.saturating_sub(self.last.steal);
        self.last = now;
        if whole == 0 {
            self.steal = 0.0;
            return 0.0;
        }
        self.steal = (stolen as f64 / whole as f64).clamp(0.0, 1.0);
        1.0 - idle as f64 / whole as f64
    }
}

/// Sums of the first line of /proc/stat, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    all: u64,
    idle: u64,
    steal: u64,
}

impl Ticks {
    fn read() -> Self {
        text("/proc/stat").and_then(|stat| Self::parse(&stat)).unwrap_or_default()
    }

    /// proc(5): user nice system idle iowait irq softirq steal guest guest_nice. Guests are counted in user and
    /// nice already.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        Some(Self { all: ticks.iter().sum(), idle: at(3) + at(4), steal: at(7) })
    }

    /// Steal since the machine started, when there was any.
    fn steal_words(self) -> Option<String> {
        let share = self.steal as f64 / self.all.max(1) as f64;
        (self.steal > 0).then(|| format!("{:.2} % since the machine started", share * 100.0))
    }
}

/// Returns the hypervisor, as the processor and the firmware report it.
fn virtualisation(processors: &str) -> Option<String> {
    let flagged =
        field(processors, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let kind = line("/sys/hypervisor/type");
    let product = line("/sys/class/dmi/id/product_name").filter(|_| flagged || kind.is_some());
    let named = [kind, product].into_iter().flatten().collect::<Vec<_>>().join(", ");
    match (flagged, named.is_empty()) {
        (_, false) => Some(named),
        (true, true) => Some("yes, of an unknown kind".to_owned()),
        (false, true) => None,
    }
}

/// `MemTotal` in GiB.
fn memory(meminfo: &str) -> Option<String> {
    let kibibytes: f64 = field(meminfo, "MemTotal")?.split(' ').next()?.parse().ok()?;
    Some(format!("{:.1} GiB", kibibytes / f64::from(1 << 20)))
}

/// The value of the first `name: value` or `name<tab>: value`.
fn field(text: &str, name: &str) -> Option<String> {
    let value = |line: &str| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value)
}

/// A small file's text.
pub(crate) fn text(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A small file's text without blanks around it.
fn line(path: &str) -> Option<String> {
    Some(text(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests;
