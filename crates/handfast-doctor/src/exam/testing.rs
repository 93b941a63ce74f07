//! A folder of files that imitates a machine.
//!
//! In: files under the names that the kernel gives them. Out: a [`Machine`] for the examination.

use std::fs::{File, create_dir_all};
use std::io::Write;
use std::time::Duration;

use crate::exam::{ExamSettings, examine};
use crate::machine::Machine;
use crate::report::Report;

/// A machine made of files.
pub(crate) struct Planted(tempfile::TempDir);

impl Planted {
    /// One without a file.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("the temporary folder is writable"))
    }

    /// One without findings: the figures of an ordinary server.
    pub(crate) fn healthy() -> Self {
        let planted = Self::new();
        let sysctls = [
            ("kernel/hostname", "web-7"),
            ("kernel/osrelease", "6.1.0"),
            ("net/ipv4/ip_local_port_range", "32768\t60999"),
            ("net/ipv4/ip_local_reserved_ports", ""),
            ("net/ipv4/tcp_tw_reuse", "2"),
            ("net/ipv4/tcp_timestamps", "1"),
            ("net/ipv4/tcp_max_tw_buckets", "131072"),
            ("net/ipv4/tcp_max_orphans", "131072"),
            ("net/ipv4/tcp_mem", "287901\t383869\t575802"),
            ("net/ipv4/tcp_syncookies", "1"),
            ("net/ipv4/tcp_max_syn_backlog", "2048"),
            ("net/core/somaxconn", "4096"),
            ("net/netfilter/nf_conntrack_count", "120"),
            ("net/netfilter/nf_conntrack_max", "262144"),
            ("fs/file-nr", "2705\t0\t2466183"),
            ("fs/nr_open", "1048576"),
        ];
        for (name, value) in sysctls {
            planted.put(&format!("/proc/sys/{name}"), &format!("{value}\n"));
        }
        planted.put("/proc/net/netstat", "TcpExt: ListenOverflows ListenDrops\nTcpExt: 0 0\n");
        planted.put("/proc/net/snmp", "Tcp: ActiveOpens\nTcp: 5\n");
        planted.put("/proc/net/sockstat", "sockets: used 24\nTCP: inuse 4 orphan 0 tw 0 alloc 4 mem 292\n");
        planted.put("/proc/net/tcp", "  sl  local_address\n");
        planted.put(
            "/proc/self/limits",
            "Max open files            1024                 524288               files\n",
        );
        planted.put("/proc/stat", "cpu  10 0 10 70 0 0 0 0 0 0\n");
        planted.put("/proc/uptime", "864000.00 1.00\n");
        planted.put("/proc/meminfo", "MemTotal:       16384000 kB\n");
        let flags = handfast_tls::features::features();
        let all: Vec<_> = flags.0.into_iter().chain(flags.1.into_iter().map(|missing| missing.0)).collect();
        planted.put(
            "/proc/cpuinfo",
            &format!("processor\t: 0\nflags\t\t: fpu {}\nprocessor\t: 1\n", all.join(" ")),
        );
        planted.put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
        planted
    }

    /// Writes a file.
    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.machine().path(path);
        create_dir_all(path.parent().expect("a file is in a folder"))
            .expect("the temporary folder is writable");
        File::create(path).and_then(|mut file| file.write_all(text.as_bytes())).expect("it has room");
    }

    /// Machine with these files.
    pub(crate) fn machine(&self) -> Machine {
        Machine::below(self.0.path())
    }

    /// Report of this machine.
    pub(crate) fn examined(&self) -> Report {
        let (interval, program) = (Duration::ZERO, "handfast".to_owned());
        examine(&ExamSettings { machine: self.machine(), interval, program })
    }
}
