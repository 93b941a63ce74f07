//! Reading /proc, /sys and /dev below one folder: `/` on a real machine, a folder of files in a test.
//!
//! In: a root. Out: texts and numbers of small files, and why one could not be read; counters of the kernel's TCP.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest file that is read; /proc/net/tcp with 100,000 sockets is 15 MB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A machine, or a folder that imitates one.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// The imitation below `root`.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// Returns true if it is the real machine, whose kernel can be queried directly.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The place of `path`, which begins with a slash.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text; what is not UTF-8 in it is replaced.
    ///
    /// **Errors**: open(2), read(2).
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.path(path))?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// [`Machine::read`] without blanks around it; `None` when it cannot be read.
    pub fn line(&self, path: &str) -> Option<String> {
        Some(self.read(path).ok()?.trim().to_owned())
    }

    /// Names in a folder.
    ///
    /// **Errors**: opendir(3).
    pub fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.path(path))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Returns the target of a link.
    pub fn link(&self, path: &str) -> Option<String> {
        std::fs::read_link(self.path(path)).ok()?.into_os_string().into_string().ok()
    }

    /// A sysctl by its dotted name; `None` when the kernel, or this container, does not have it.
    pub fn sysctl(&self, name: &str) -> Option<String> {
        self.line(&format!("/proc/sys/{}", name.replace('.', "/")))
    }

    /// A sysctl that is one number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.sysctl(name)?.parse().ok()
    }

    /// Numbers of a sysctl that has several.
    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let text = self.sysctl(name).unwrap_or_default();
        text.split_whitespace().map_while(|word| word.parse().ok()).collect()
    }

    /// Returns true if this is a container: its limits may belong to the host, and must be changed there.
    pub fn is_container(&self) -> bool {
        ["/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/proc/vz"]
            .iter()
            .any(|path| self.path(path).exists())
            || self.is_real() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
    }

    /// The limit on open files of a process: soft and hard; `u64::MAX` where there is none.
    pub fn file_limits(&self, process: &str) -> Option<(u64, u64)> {
        let limits = self.read(&format!("/proc/{process}/limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        let mut words = line.split_whitespace().map(|word| match word {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        });
        Some((words.next()??, words.next()??))
    }
}

/// The kernel's counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    tcp: BTreeMap<String, i64>,
    /// Ticks of all CPUs in all, and those that a hypervisor took.
    ticks: (u64, u64),
}

impl Counters {
    /// Reads them now. **Cost**: three files, about 100 µs.
    pub fn read(machine: &Machine) -> Self {
        let mut counters = Self::default();
        for (path, table) in [("/proc/net/netstat", "TcpExt:"), ("/proc/net/snmp", "Tcp:")] {
            counters.take(&machine.read(path).unwrap_or_default(), table);
        }
        counters.ticks = machine.read("/proc/stat").ok().and_then(|stat| ticks(&stat)).unwrap_or_default();
        counters
    }

    /// Takes one table: a line of names and a line of values, both led by its name.
    fn take(&mut self, text: &str, table: &str) {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(table));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                self.tcp.insert(name.to_owned(), value);
            }
        }
    }

    /// Returns true if no TCP counter could be read.
    pub fn is_empty(&self) -> bool {
        self.tcp.is_empty()
    }

    /// A counter of `TcpExt` or `Tcp`; 0 for one that this kernel does not have.
    pub fn get(&self, name: &str) -> u64 {
        self.tcp.get(name).and_then(|value| u64::try_from(*value).ok()).unwrap_or(0)
    }

    /// The increase of a counter since `earlier`.
    pub fn since(&self, earlier: &Self, name: &str) -> u64 {
        self.get(name).saturating_sub(earlier.get(name))
    }

    /// Share of the CPUs' time since `earlier` that a hypervisor took for others, 0 to 1.
    pub fn stolen_since(&self, earlier: &Self) -> f64 {
        let all = self.ticks.0.saturating_sub(earlier.ticks.0);
        self.ticks.1.saturating_sub(earlier.ticks.1) as f64 / all.max(1) as f64
    }
}

/// proc(5): user nice system idle iowait irq softirq steal.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    Some((ticks.iter().sum(), ticks.get(7).copied().unwrap_or(0)))
}

/// The value of the first `name: value` or `name<tab>: value`.
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exam::testing::Planted;

    #[test]
    fn limits_of_files_are_read_with_and_without_a_number() {
        let planted = Planted::new();
        planted.put("/proc/self/limits", "Limit   Soft Limit  Hard Limit Units\nMax open files            1024                 unlimited            files     \n");
        assert_eq!(planted.machine().file_limits("self"), Some((1024, u64::MAX)));
        assert_eq!(planted.machine().file_limits("7"), None);
    }

    #[test]
    fn counters_are_those_of_both_tables() {
        let planted = Planted::new();
        planted.put("/proc/net/netstat", "TcpExt: ListenOverflows TW\nTcpExt: 5 7\nIpExt: TW\nIpExt: 9\n");
        planted.put("/proc/net/snmp", "Tcp: MaxConn ActiveOpens\nTcp: -1 3\n");
        planted.put("/proc/stat", "cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1 1 1 1\n");
        let before = Counters::read(&planted.machine());
        assert_eq!((before.get("TW"), before.get("ActiveOpens"), before.get("MaxConn")), (7, 3, 0));
        planted.put("/proc/net/netstat", "TcpExt: ListenOverflows TW\nTcpExt: 8 6\n");
        planted.put("/proc/stat", "cpu  20 0 10 130 0 0 0 40 0 0\n");
        let now = Counters::read(&planted.machine());
        assert_eq!((now.since(&before, "ListenOverflows"), now.since(&before, "TW")), (3, 0));
        assert!((now.stolen_since(&before) - 0.3).abs() < 1e-9);
    }
}
