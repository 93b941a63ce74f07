//! Each needed resource: its amount and arithmetic, the available amount and its source, and how to change it.
//!
//! In: a machine, the planned load, the costs. Out: [`Need`]s.

use std::time::Duration;

use handfast_net::ports::{Reuse, TIME_WAIT, usable};
use handfast_text::units::{bytes, count, counted, duration, rate, share};

use super::{Costs, Memory, Need, PlannedLoad};
use crate::costs::{AWAY, BUFFERED, EMPTY, FILES, FILES_BESIDE, Idle, TRACKED, TRACKED_AFTER};
use crate::exam::total_memory;
use crate::machine::Machine;
use crate::pairs::Pairs;

/// Bytes of a page; what `tcp_mem` counts in.
const PAGE: u64 = 4096;

/// All of them, including those with a need of 0.
pub(super) fn all(
    machine: &Machine,
    planned: &PlannedLoad,
    costs: &Costs,
    kernel: Option<&Pairs>,
) -> Vec<Need> {
    let load = Load {
        machine,
        planned,
        rate: planned.full_per_second + planned.resumed_per_second,
        memory: memory(planned, kernel),
    };
    let mut all = vec![load.cores(costs), load.memory(kernel), load.tcp_memory(kernel), load.files()];
    all.extend(load.open_files_of_machine());
    all.extend(load.ports());
    all.extend(load.tracking());
    all.push(load.queue());
    all.push(load.resting());
    all
}

/// The parts of the memory.
pub(super) fn memory(planned: &PlannedLoad, kernel: Option<&Pairs>) -> Memory {
    Memory {
        program_bytes: EMPTY.value + Idle::of(planned.backend_tls).bytes(planned.open),
        kernel_bytes: kernel.map_or(0, |pairs| pairs.bytes_each).saturating_mul(planned.open),
        buffer_bytes: (planned.bytes_per_second as f64 * planned.rtt_seconds) as u64 * BUFFERED,
    }
}

struct Load<'a> {
    machine: &'a Machine,
    planned: &'a PlannedLoad,
    /// New connections a second.
    rate: f64,
    memory: Memory,
}

impl Load<'_> {
    fn cores(&self, costs: &Costs) -> Need {
        let planned = self.planned;
        let carried = self.rate * costs.carried_bytes as f64;
        let more = (planned.bytes_per_second as f64 - carried).max(0.0);
        let parts =
            [(planned.full_per_second, "full", "full"), (planned.resumed_per_second, "resumed", "resumed")];
        let mut terms = Vec::new();
        let mut seconds = 0.0;
        for (rate_of, name, word) in parts.into_iter().filter(|part| part.0 > 0.0) {
            let ns = costs.ns(name);
            seconds += rate_of * ns / 1e9;
            terms.push(format!("{} {word} × {}", rate(rate_of), duration(ns)));
        }
        if more > 0.0 {
            let ns = costs.ns("byte");
            seconds += more * ns / 1e9;
            terms.push(format!("{} a second × {ns:.3} ns a byte", bytes(more as u64)));
        }
        let efficiency = costs.efficiency.max(0.01);
        let needed = seconds / planned.busy.max(0.01) / efficiency;
        let together = match efficiency {
            efficiency if efficiency < 0.9995 => {
                format!(" / {} (all cores at once, by handfast speed)", share(efficiency))
            }
            _ => String::new(),
        };
        Need {
            topic: "cores",
            needed,
            here: Some(planned.cores as f64),
            unit: "cores",
            arithmetic: format!(
                "({}) = {seconds:.3} s of a core each second / {} busy{together} = {needed:.2} cores",
                terms.join(" + "),
                share(planned.busy)
            ),
            from: costs.source.clone(),
            consequence: "handshakes wait longer and longer for a core, until clients time out",
            change: vec![
                format!("{} of this kind, or more machines", counted(needed.ceil() as u64, "core")),
                "more resumed sessions, and an ECDSA P-256 key: handfast speed says what each would save"
                    .to_owned(),
            ],
        }
    }

    fn memory(&self, kernel: Option<&Pairs>) -> Need {
        let (open, idle) = (self.planned.open, Idle::of(self.planned.backend_tls));
        let Memory { program_bytes, kernel_bytes, buffer_bytes } = self.memory;
        let needed = program_bytes + kernel_bytes + buffer_bytes;
        let mut arithmetic = format!(
            "{} (the program) + {} (once) + {} × {} B (the program's for each; {}) = {}",
            bytes(EMPTY.value),
            bytes(idle.once),
            count(open),
            count(idle.each),
            idle.source,
            bytes(program_bytes)
        );
        if let Some(pairs) = kernel {
            arithmetic.push_str(&format!(
                "; + {} × {} B (the kernel's for each pair of sockets, measured here) = {}",
                count(open),
                count(pairs.bytes_each),
                bytes(kernel_bytes)
            ));
        }
        if buffer_bytes > 0 {
            arithmetic.push_str(&format!("; + {} in buffers ({})", bytes(buffer_bytes), self.buffered()));
        }
        arithmetic.push_str(&format!("; in all {}", bytes(needed)));
        let total = total_memory(self.machine);
        Need {
            topic: "memory",
            needed: needed as f64,
            here: total.map(|total| total as f64),
            unit: "bytes",
            arithmetic,
            from: "MemTotal of /proc/meminfo".to_owned(),
            consequence: "the kernel kills the proxy when memory runs out",
            change: vec!["more memory, more machines, or a lower process.max-connections".to_owned()],
        }
    }

    fn buffered(&self) -> String {
        format!(
            "{} a second × {} round trip × {BUFFERED} for the kernel's own",
            bytes(self.planned.bytes_per_second),
            duration(self.planned.rtt_seconds * 1e9)
        )
    }

    fn tcp_memory(&self, kernel: Option<&Pairs>) -> Need {
        let idle = kernel.map_or(0, |pairs| pairs.buffer_bytes_each);
        let buffers = self.memory.buffer_bytes;
        let needed = buffers + idle.saturating_mul(self.planned.open);
        let limits = self.machine.numbers("net.ipv4.tcp_mem");
        let pages = needed.div_ceil(PAGE);
        Need {
            topic: "tcp-memory",
            needed: needed as f64,
            here: limits.get(1).map(|pressure| (pressure * PAGE) as f64),
            unit: "bytes",
            arithmetic: format!(
                "{} ({}) + {} × {} B (what the kernel counts for an idle pair) = {}",
                bytes(buffers),
                self.buffered(),
                count(self.planned.open),
                count(idle),
                bytes(needed)
            ),
            from: "the second figure of net.ipv4.tcp_mem, in pages".to_owned(),
            consequence: "windows shrink, and all connections get slow; at the third figure connections are reset",
            change: vec![format!("sysctl -w net.ipv4.tcp_mem='{pages} {} {}'", pages * 5 / 4, pages * 2)],
        }
    }

    fn files(&self) -> Need {
        let needed = self.for_files();
        let limit = self.machine.file_limits("self").map(|(_, hard)| hard as f64);
        Need {
            topic: "open-files",
            needed: needed as f64,
            here: limit,
            unit: "files",
            arithmetic: format!(
                "{} × {FILES} + {FILES_BESIDE} for everything else = {}",
                count(self.planned.open),
                count(needed)
            ),
            from: "the hard limit of a process started from here".to_owned(),
            consequence: "further clients wait in the accept queue until one leaves",
            change: vec![
                format!("LimitNOFILE={needed}   (in the [Service] section of the systemd unit)"),
                format!("ulimit -Hn {needed}   (as root, at most fs.nr_open)"),
            ],
        }
    }

    fn for_files(&self) -> u64 {
        if self.planned.open == 0 { 0 } else { self.planned.open * FILES + FILES_BESIDE }
    }

    /// The limits of one process, and of all processes together.
    fn open_files_of_machine(&self) -> Vec<Need> {
        let needed = self.for_files();
        let of = |topic, here: Option<u64>, sysctl: &str, consequence| Need {
            topic,
            needed: needed as f64,
            here: here.map(|here| here as f64),
            unit: "files",
            arithmetic: format!("as for the process: {}", count(needed)),
            from: sysctl.to_owned(),
            consequence,
            change: vec![format!("sysctl -w {sysctl}={}", needed.saturating_mul(2))],
        };
        let numbers = self.machine.numbers("fs.file-nr");
        let free = if let [used, _, most] = numbers[..] { Some(most.saturating_sub(used)) } else { None };
        vec![
            of(
                "nr-open",
                self.machine.number("fs.nr_open"),
                "fs.nr_open",
                "no process can open that many files, whatever LimitNOFILE is",
            ),
            of(
                "file-max",
                free,
                "fs.file-max",
                "every program of the machine gets \"too many open files in system\"",
            ),
        ]
    }

    fn ports(&self) -> Option<Need> {
        let (machine, planned) = (self.machine, self.planned);
        if planned.backends == 0 {
            return None;
        }
        let reserved = machine.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default();
        let range = machine.sysctl("net.ipv4.ip_local_port_range").unwrap_or_default();
        let usable = usable(&range, &reserved);
        let rest = self.rest();
        let needed = planned.open as f64 + self.rate * rest.as_secs_f64();
        let ways = planned.backends * planned.sources.max(1);
        let addresses =
            usable.map_or(0, |usable| (needed / (usable * planned.backends).max(1) as f64).ceil() as u64);
        let mut change = vec![
            format!(
                "source = [ … ]   with {} of this machine (handfast.toml)",
                counted(addresses, "address")
            ),
            "sysctl -w net.ipv4.ip_local_port_range='1024 65535'".to_owned(),
        ];
        if rest == TIME_WAIT && self.rate > 0.0 {
            change.push("sysctl -w net.ipv4.tcp_tw_reuse=1".to_owned());
        }
        Some(Need {
            topic: "source-ports",
            needed,
            here: usable.map(|usable| usable.saturating_mul(ways) as f64),
            unit: "ports",
            arithmetic: format!(
                "{} open + {} × {} in TIME_WAIT, where this side ends first = {}; here {} × {} × {}",
                count(planned.open),
                rate(self.rate),
                duration(rest.as_nanos() as f64),
                count(needed as u64),
                counted(usable.unwrap_or(0), "source port"),
                counted(planned.sources, "source address"),
                counted(planned.backends, "backend")
            ),
            from: "net.ipv4.ip_local_port_range without ip_local_reserved_ports".to_owned(),
            consequence: "connect fails with EADDRNOTAVAIL, and clients are reset (cause out-of-ports)",
            change,
        })
    }

    /// Time for which a source port stays blocked.
    fn rest(&self) -> Duration {
        let reuse = Reuse {
            tw_reuse: self.machine.number("net.ipv4.tcp_tw_reuse"),
            delay: self.machine.number("net.ipv4.tcp_tw_reuse_delay"),
            timestamps: self.machine.number("net.ipv4.tcp_timestamps"),
        };
        reuse.after(false).unwrap_or(TIME_WAIT)
    }

    /// Only where connections are tracked.
    fn tracking(&self) -> Option<Need> {
        let most = self.machine.number("net.netfilter.nf_conntrack_max")?;
        let each = TRACKED as f64;
        let needed = each * (self.planned.open as f64 + self.rate * TRACKED_AFTER);
        Some(Need {
            topic: "conntrack",
            needed,
            here: Some(most as f64),
            unit: "entries",
            arithmetic: format!(
                "({} open + {} × {TRACKED_AFTER} s after their end) × {TRACKED}, the client's and the backend's = {}",
                count(self.planned.open),
                rate(self.rate),
                count(needed as u64)
            ),
            from: "net.netfilter.nf_conntrack_max".to_owned(),
            consequence: "packets of new connections are dropped, which looks like packet loss on the network",
            change: vec![
                format!("sysctl -w net.netfilter.nf_conntrack_max={}", (needed * 1.5) as u64),
                "or do not track the proxy's ports: nft add rule … tcp dport 443 notrack".to_owned(),
            ],
        })
    }

    fn queue(&self) -> Need {
        let wait = AWAY.max(self.planned.rtt_seconds);
        let listeners = self.planned.cores.max(1);
        let needed = (self.rate * wait / listeners as f64).ceil();
        Need {
            topic: "accept-queue",
            needed,
            here: self.machine.number("net.core.somaxconn").map(|most| most as f64),
            unit: "connections",
            arithmetic: format!(
                "{} × {} that a worker may be blocked, or a TCP handshake takes / {} = {}",
                rate(self.rate),
                duration(wait * 1e9),
                counted(listeners, "listener"),
                count(needed as u64)
            ),
            from: "net.core.somaxconn".to_owned(),
            consequence: "the kernel drops the last packet of a client's handshake, and the client retries a second later",
            change: vec![format!("sysctl -w net.core.somaxconn={}", (needed as u64 * 2).max(4096))],
        }
    }

    fn resting(&self) -> Need {
        let needed = (self.rate * TIME_WAIT.as_secs_f64()).ceil();
        Need {
            topic: "time-wait-buckets",
            needed,
            here: self.machine.number("net.ipv4.tcp_max_tw_buckets").map(|most| most as f64),
            unit: "connections",
            arithmetic: format!(
                "{} × {} s, where this side ends first = {}",
                rate(self.rate),
                TIME_WAIT.as_secs(),
                count(needed as u64)
            ),
            from: "net.ipv4.tcp_max_tw_buckets".to_owned(),
            consequence: "further connections skip TIME_WAIT, and a late segment can reach a new one with the same port",
            change: vec![format!("sysctl -w net.ipv4.tcp_max_tw_buckets={}", needed as u64 * 2)],
        }
    }
}
