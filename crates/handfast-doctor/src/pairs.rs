//! Measures the kernel's memory of a pair of sockets: opens pairs in this process, and reads the kernel's figures before
//! and after.
//!
//! In: the number of pairs. Out: bytes for each pair, by the best available source, and the unavailable sources. A connection over loopback is
//! one accepted and one dialled socket, as a proxied connection is; both are in an epoll instance, and have carried a byte.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use handfast_net::limits::raise_file_limit;
use handfast_text::units::{bytes, count};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::sockopt::set_socket_linger;
use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::{Machine, field};

/// Timeout of one step of a pair, on loopback.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Descriptors that the process needs beside pairs.
const OTHERS: u64 = 64;
/// Bytes of a page; what /proc counts slabs and TCP's memory in.
const PAGE: f64 = 4096.0;
/// A cache belongs to sockets if it grew by at least one object for this number of pairs; others grow for other reasons.
const ONE_FOR: f64 = 2.0;

/// Two TCP sockets take more. Less means that the kernel gave memory that was free in its caches, after other connections had ended.
const MIN_PAIR_BYTES: u64 = 2_000;
/// Measurements, each with further pairs beside the ones before, until those caches have none left.
const ATTEMPTS: u64 = 8;

/// Memory of open pairs of connections, as measured.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Pairs {
    /// Pairs that were open.
    pub pairs: u64,
    /// The kernel's memory for each.
    pub bytes_each: u64,
    /// The part in their buffers, as the kernel counts it against `tcp_mem`.
    pub buffer_bytes_each: u64,
    /// The source of the figure: `slabinfo`, `cgroup`, `meminfo`.
    #[schemars(extend("enum" = ["slabinfo", "cgroup", "meminfo", ""]))]
    pub by: &'static str,
    /// The arithmetic.
    pub arithmetic: String,
    /// All sources.
    pub readings: Vec<Reading>,
}

/// The figures of one source.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Reading {
    /// Name of the reading.
    pub source: &'static str,
    /// Bytes before.
    pub before: u64,
    /// Bytes while all pairs were open.
    pub after: u64,
    /// The difference for each pair.
    pub bytes_each: f64,
}

/// The unreadable sources, and the reasons.
pub type Unseen = (&'static str, String);

/// Opens pairs, reads, and closes them by reset, so that none stays in TIME_WAIT.
///
/// **Errors**: no loopback, no descriptors for a hundred pairs. **Cost**: some 40 µs for each pair.
pub fn measure(machine: &Machine, required: u64) -> io::Result<(Pairs, Vec<Unseen>)> {
    let files = raise_file_limit().map_or(1024, |limit| limit.now);
    let most = files.saturating_sub(OTHERS) / 2;
    let pairs = required.min(most);
    if pairs < required.min(100) {
        return Err(io::Error::other(format!("the limit on open files, {files}, leaves {pairs} pairs")));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    // The first pair allocates memory that is not per pair.
    let mut open = (0..8).map(|_| pair(&listener, address, &poller)).collect::<io::Result<Vec<_>>>()?;
    let mut attempt = || -> io::Result<_> {
        let before = Witnesses::read(machine);
        for _ in 0..pairs {
            open.push(pair(&listener, address, &poller)?);
        }
        Ok(judge(pairs, &before, &Witnesses::read(machine)))
    };
    let mut found = attempt()?;
    let attempts = ATTEMPTS.min(most / pairs.max(1));
    for _ in 1..attempts {
        if found.0.bytes_each >= MIN_PAIR_BYTES {
            break;
        }
        found = attempt()?;
    }
    for socket in open.iter().flatten() {
        let _ = set_socket_linger(socket, Some(Duration::ZERO));
    }
    Ok(found)
}

/// Two sockets that are connected to each other, after one byte in each direction.
fn pair(listener: &TcpListener, address: SocketAddr, poller: impl AsFd) -> io::Result<[TcpStream; 2]> {
    let dialled = TcpStream::connect_timeout(&address, STEP_TIMEOUT)?;
    let timeout = Timespec { tv_sec: 2, tv_nsec: 0 };
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout))?;
    let (accepted, _) = listener.accept()?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    for (socket, other) in [(&dialled, &accepted), (&accepted, &dialled)] {
        socket.set_read_timeout(Some(STEP_TIMEOUT))?;
        epoll::add(&poller, other, epoll::EventData::new_u64(0), flags)?;
    }
    accepted.set_nonblocking(false)?;
    for (mut from, mut to) in [(&dialled, &accepted), (&accepted, &dialled)] {
        from.write_all(b"x")?;
        to.read_exact(&mut [0])?;
    }
    Ok([accepted, dialled])
}

/// A cache of the kernel: its name, objects in use, memory of each with what its slabs cannot use.
type Cache = (String, f64, f64);

/// The kernel's figures at one moment; `Err`: why they are unavailable.
struct Witnesses {
    slabs: io::Result<Vec<Cache>>,
    group: Result<u64, GroupError>,
    slab: Option<u64>,
    tcp: Option<u64>,
}

impl Witnesses {
    fn read(machine: &Machine) -> Self {
        let meminfo = machine.read("/proc/meminfo").unwrap_or_default();
        let kibibytes = field(&meminfo, "Slab").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let sockstat = machine.read("/proc/net/sockstat").unwrap_or_default();
        let pages = field(&sockstat, "TCP").and_then(|text| text.rsplit(' ').next()?.parse::<u64>().ok());
        Self {
            slabs: machine.read("/proc/slabinfo").map(|text| caches(&text)),
            group: group(machine),
            slab: kibibytes.map(|kibibytes| kibibytes << 10),
            tcp: pages.map(|pages| pages * PAGE as u64),
        }
    }
}

/// slabinfo(5): name active_objs num_objs objsize objperslab pagesperslab.
fn caches(text: &str) -> Vec<Cache> {
    let cache = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |place: usize| words.get(place)?.parse::<f64>().ok();
        Some((words.first()?.to_string(), number(1)?, number(5)? * PAGE / number(4)?.max(1.0)))
    };
    text.lines().filter_map(cache).collect()
}

/// Reason why the memory of this process's control group is unknown.
#[derive(Debug, thiserror::Error)]
enum GroupError {
    #[error(transparent)]
    Groups(#[from] io::Error),
    #[error("no memory control group here")]
    NoGroup,
    #[error("{file}: {source}")]
    Read { file: String, source: io::Error },
    #[error("{file} is no number")]
    NoNumber { file: String },
}

/// Kernel memory of this process's memory control group, version 2 or 1.
fn group(machine: &Machine) -> Result<u64, GroupError> {
    let groups = machine.read("/proc/self/cgroup")?;
    let below = |middle: &str| {
        groups.lines().find_map(|line| line.split_once(middle).map(|(_, path)| path.trim_end_matches('/')))
    };
    if let Some(path) = below("0::")
        && let Ok(stat) = machine.read(&format!("/sys/fs/cgroup{path}/memory.stat"))
    {
        let sum = |name: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
        };
        return Ok(sum("slab") + sum("sock"));
    }
    let path = below(":memory:").ok_or(GroupError::NoGroup)?;
    let file = format!("/sys/fs/cgroup/memory{path}/memory.kmem.usage_in_bytes");
    match machine.read(&file) {
        Ok(text) => text.trim().parse().map_err(|_| GroupError::NoNumber { file }),
        Err(source) => Err(GroupError::Read { file, source }),
    }
}

/// Computes the result from both readings.
fn judge(pairs: u64, before: &Witnesses, after: &Witnesses) -> (Pairs, Vec<Unseen>) {
    let mut unseen = Vec::new();
    let mut found = Pairs { pairs, ..Pairs::default() };
    let mut witness = |source: &'static str, before: u64, after: u64| {
        let bytes_each = after.saturating_sub(before) as f64 / pairs.max(1) as f64;
        found.readings.push(Reading { source, before, after, bytes_each });
        bytes_each
    };
    let mut best: Option<(&'static str, f64, String)> = None;
    match (&before.slabs, &after.slabs) {
        (Ok(before), Ok(after)) => {
            let grown = grown(pairs, before, after);
            let all =
                |caches: &[Cache]| caches.iter().map(|(_, objects, size)| objects * size).sum::<f64>() as u64;
            witness("/proc/slabinfo, all caches", all(before), all(after));
            let each = grown.iter().map(|(_, objects, size)| objects * size).sum();
            let terms: Vec<String> = grown
                .iter()
                .map(|(name, objects, size)| format!("{objects:.1} {name} × {} B", count(*size as u64)))
                .collect();
            best = Some(("slabinfo", each, terms.join(" + ")));
        }
        (Err(why), _) | (_, Err(why)) => {
            unseen.push(("the kernel's memory for sockets, cache by cache (/proc/slabinfo)", why.to_string()))
        }
    }
    let difference = |name: &str, before: u64, after: u64| {
        format!("{name}: ({} - {}) / {}", bytes(after), bytes(before), count(pairs))
    };
    match (&before.group, &after.group) {
        (Ok(before), Ok(after)) => {
            let each = witness("memory control group", *before, *after);
            best = best.or_else(|| {
                Some(("cgroup", each, difference("the control group's kernel memory", *before, *after)))
            });
        }
        (Err(why), _) | (_, Err(why)) => {
            unseen.push(("the kernel's memory of this control group", why.to_string()));
        }
    }
    if let (Some(before), Some(after)) = (before.slab, after.slab) {
        let each = witness("/proc/meminfo, Slab", before, after);
        best =
            best.or_else(|| Some(("meminfo", each, difference("Slab of the whole machine", before, after))));
    }
    if let (Some(before), Some(after)) = (before.tcp, after.tcp) {
        found.buffer_bytes_each = witness("/proc/net/sockstat, TCP mem", before, after) as u64;
    }
    if let Some((by, each, arithmetic)) = best {
        (found.by, found.bytes_each, found.arithmetic) = (by, each as u64, arithmetic);
    }
    (found, unseen)
}

/// Caches that grew with the pairs: objects for each pair.
fn grown(pairs: u64, before: &[Cache], after: &[Cache]) -> Vec<Cache> {
    let pairs = pairs.max(1) as f64;
    let one = |(name, now, size): &Cache| {
        let then = before.iter().find(|cache| cache.0 == *name)?.1;
        let each = (now - then) / pairs;
        (each * ONE_FOR >= 1.0).then(|| (name.clone(), each, *size))
    };
    after.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exam::testing::Planted;

    const HEAD: &str =
        "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>\n";

    fn planted(slabs: &str, slab: u64, kernel: u64, pages: u64) -> Witnesses {
        let planted = Planted::new();
        if !slabs.is_empty() {
            planted.put("/proc/slabinfo", &format!("{HEAD}{slabs}"));
        }
        planted.put("/proc/meminfo", &format!("MemTotal: 16384000 kB\nSlab:   {slab} kB\n"));
        planted.put("/proc/net/sockstat", &format!("TCP: inuse 4 orphan 0 tw 0 alloc 4 mem {pages}\n"));
        if kernel > 0 {
            planted.put("/proc/self/cgroup", "0::/web.slice\n");
            planted
                .put("/sys/fs/cgroup/web.slice/memory.stat", &format!("anon 7\nsock 4096\nslab {kernel}\n"));
        }
        Witnesses::read(&planted.machine())
    }

    #[test]
    fn caches_that_grew_with_the_pairs_are_reported_one_by_one() {
        let before = planted("TCP 10 20 2000 16 8 : x\ndentry 5000 5000 192 21 1 : x\n", 1_000, 0, 1);
        let after = planted("TCP 2010 2020 2000 16 8 : x\ndentry 5300 5300 192 21 1 : x\n", 9_000, 0, 501);
        let (found, unseen) = judge(1_000, &before, &after);
        // 16 objects in 8 pages are 2,048 bytes each; the 300 dentries belong to other programs.
        assert_eq!((found.bytes_each, found.by), (4_096, "slabinfo"));
        assert_eq!(found.arithmetic, "2.0 TCP × 2,048 B");
        assert_eq!(found.buffer_bytes_each, 2_048);
        assert!(matches!(&unseen[..], [(what, _)] if what.contains("control group")), "{unseen:?}");
    }

    #[test]
    fn without_root_the_control_group_and_then_the_machine_are_asked() {
        let (before, after) = (planted("", 1_000, 1_000_000, 0), planted("", 9_000, 8_000_000, 0));
        let (found, unseen) = judge(1_000, &before, &after);
        assert_eq!((found.bytes_each, found.by), (7_000, "cgroup"));
        assert!(matches!(&unseen[..], [(what, _)] if what.contains("slabinfo")), "{unseen:?}");
        let (found, _) = judge(1_000, &planted("", 1_000, 0, 0), &planted("", 9_000, 0, 0));
        assert_eq!((found.bytes_each, found.by), (8_192, "meminfo"));
    }

    #[test]
    fn pairs_are_opened_here() {
        let (found, _) = measure(&Machine::here(), 200).expect("loopback, and descriptors");
        assert_eq!(found.pairs, 200);
        assert!(!found.readings.is_empty() && !found.by.is_empty(), "{found:?}");
    }
}
