//! Source ports: how many each destination takes, which side holds TIME_WAIT, and when they run out.
//!
//! In: the sockets and a few sysctls. Out: a finding for each destination whose ports nearly run out, and the arithmetic.
//!
//! A connection needs a source port that no other one from the same address to the same address and port has. TIME_WAIT
//! is on the side that ended the connection first: on the client it blocks a port, on the server it only uses some memory.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use handfast_net::ports::{Reuse, TIME_WAIT, range_of, usable};
use handfast_text::units::{count, counted, rate, share_of};

use super::Exam;
use crate::report::{Finding, Severity};
use crate::sockets::{Socket, State};

const TOPIC: &str = "source-ports";
/// Shares of the ports in use from which on it is a finding.
const WARNING_SHARE: f64 = 0.6;
const NOW: f64 = 0.9;
/// Sockets that entered TIME_WAIT within this time give the current rate.
const RECENT: Duration = Duration::from_secs(5);
/// Fewer ports than these are no default, and few for a proxy.
const MIN_PORTS: u64 = 10_000;
/// Most destinations that the report lists.
const TOLD: usize = 5;
/// Source ports that the connections to one destination use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    /// Not ended, or ended by the other side.
    open: u64,
    /// In TIME_WAIT here.
    resting: u64,
    /// … of which this number cannot be reused yet, where reuse is on.
    fresh: u64,
    /// … of which this number began within [`RECENT`].
    recent: u64,
}

/// The available ports.
#[derive(Clone, Debug)]
struct Ports {
    first: u16,
    last: u16,
    usable: u64,
    reuse: Reuse,
}

pub(super) fn examine(exam: &mut Exam<'_>) {
    settings(exam);
    let Some(ports) = ports(exam) else {
        exam.report.not_seen("source ports", "no /proc/sys/net/ipv4/ip_local_port_range here");
        return;
    };
    facts(exam, &ports);
    let Some(sockets) = exam.sockets.take() else { return };
    let (used, as_server) = by_destination(&sockets, &ports);
    exam.sockets = Some(sockets);
    time_wait(exam, &used, as_server);
    let mut findings: Vec<(u64, Finding)> = used
        .iter()
        .filter_map(|(ends, used)| Some((used.open + used.resting, judge(*ends, *used, &ports)?)))
        .collect();
    findings.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
    let more = findings.len().saturating_sub(TOLD);
    exam.report.findings.extend(findings.into_iter().take(TOLD).map(|(_, finding)| finding));
    if more > 0 {
        exam.report.fact(
            "source ports",
            format!("the same holds for {}", counted(more as u64, "other destination")),
        );
    }
}

fn ports(exam: &Exam<'_>) -> Option<Ports> {
    let range = exam.machine.sysctl("net.ipv4.ip_local_port_range")?;
    let reserved = exam.machine.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default();
    let (first, last) = range_of(&range)?;
    let number = |name| exam.machine.number(name);
    let reuse = Reuse {
        tw_reuse: number("net.ipv4.tcp_tw_reuse"),
        delay: number("net.ipv4.tcp_tw_reuse_delay"),
        timestamps: number("net.ipv4.tcp_timestamps"),
    };
    Some(Ports { first, last, usable: usable(&range, &reserved)?, reuse })
}

/// Settings that are wrong for any traffic.
fn settings(exam: &mut Exam<'_>) {
    if exam.machine.number("net.ipv4.tcp_tw_recycle") == Some(1) {
        let consequence =
            "clients behind one NAT are refused at random: their time stamps do not grow together";
        exam.report.find(
            Finding::critical("tcp-tw-recycle", "net.ipv4.tcp_tw_recycle is 1", consequence)
                .change("sysctl -w net.ipv4.tcp_tw_recycle=0"),
        );
    }
    if let Some(ports) = ports(exam).filter(|ports| ports.usable < MIN_PORTS) {
        let title =
            format!("only {} ({} to {})", counted(ports.usable, "source port"), ports.first, ports.last);
        let consequence = format!(
            "this machine can have at most {} to one backend from one address, and {} new ones a second when it ends them first",
            counted(ports.usable, "connection"),
            count(ports.usable / TIME_WAIT.as_secs()),
        );
        exam.report.find(
            Finding::warning(TOPIC, title, consequence)
                .change("sysctl -w net.ipv4.ip_local_port_range='1024 65535'"),
        );
    }
}

fn facts(exam: &mut Exam<'_>, ports: &Ports) {
    let lasting = ports.usable / TIME_WAIT.as_secs();
    let reuse = match ports.reuse.tw_reuse {
        Some(1) if ports.reuse.timestamps == Some(0) => {
            "tcp_tw_reuse is on, and does nothing because tcp_timestamps is off"
        }
        Some(1) => "tcp_tw_reuse is on: ports in TIME_WAIT are taken again after 1 s",
        Some(2) => "tcp_tw_reuse holds on loopback only",
        Some(_) => "tcp_tw_reuse is off",
        None => "tcp_tw_reuse is not known",
    };
    let sentence = format!(
        "{} ({} to {}) for each source address and destination; where this side ends connections first, each rests \
         60 s in TIME_WAIT: {} / 60 s = {} new connections/s for long; {reuse}",
        count(ports.usable),
        ports.first,
        ports.last,
        count(ports.usable),
        count(lasting),
    );
    exam.report.fact("source ports", sentence);
}

/// Reports the side that holds TIME_WAIT.
fn time_wait(exam: &mut Exam<'_>, used: &BTreeMap<(IpAddr, SocketAddr), Used>, as_server: u64) {
    let as_client: u64 = used.values().map(|used| used.resting).sum();
    let sentence = match (as_client, as_server) {
        (0, 0) => {
            "none here: either no connection ends, or the other side ends connections first and holds it"
                .to_owned()
        }
        _ => format!(
            "{} where this machine was the client and ended first (a source port each), {} where it was the server and \
             ended first (memory only)",
            count(as_client),
            count(as_server)
        ),
    };
    exam.report.fact("TIME_WAIT", sentence);
    let resting = as_client + as_server;
    let Some(most) = exam.machine.number("net.ipv4.tcp_max_tw_buckets") else { return };
    if most > 0 && resting as f64 >= most as f64 * NOW {
        let title = format!("{} of at most {} sockets in TIME_WAIT", count(resting), count(most));
        let consequence = "the kernel drops the others at once: a late segment of an old connection can then reach a new one";
        exam.report.find(
            Finding::warning("time-wait-buckets", title, consequence)
                .change(format!("sysctl -w net.ipv4.tcp_max_tw_buckets={}", most.saturating_mul(2))),
        );
    }
}

/// The ports in use for each pair of source address and destination, and the number of TIME_WAIT sockets as a server.
fn by_destination(sockets: &[Socket], ports: &Ports) -> (BTreeMap<(IpAddr, SocketAddr), Used>, u64) {
    let listening: HashSet<u16> = sockets
        .iter()
        .filter(|socket| socket.state == State::Listen)
        .map(|socket| socket.local.port())
        .collect();
    let mut used: BTreeMap<(IpAddr, SocketAddr), Used> = BTreeMap::new();
    let mut as_server = 0;
    for socket in sockets.iter().filter(|socket| socket.state != State::Listen && socket.remote.port() != 0) {
        let port = socket.local.port();
        let is_client = (ports.first..=ports.last).contains(&port) && !listening.contains(&port);
        if socket.state != State::TimeWait {
            if is_client {
                used.entry((socket.local.ip(), socket.remote)).or_default().open += 1;
            }
            continue;
        }
        if !is_client {
            as_server += 1;
            continue;
        }
        let used = used.entry((socket.local.ip(), socket.remote)).or_default();
        let age = TIME_WAIT.saturating_sub(socket.rests);
        used.resting += 1;
        used.recent += u64::from(age <= RECENT);
        let near = socket.local.ip().is_loopback();
        used.fresh += u64::from(ports.reuse.after(near).is_none_or(|after| age < after));
    }
    (used, as_server)
}

/// Judges whether the ports to one destination run out.
fn judge((source, to): (IpAddr, SocketAddr), used: Used, ports: &Ports) -> Option<Finding> {
    let taken = used.open + used.fresh;
    let reused = ports.reuse.after(source.is_loopback()).is_some();
    let per_second = used.recent as f64 / RECENT.as_secs_f64();
    // The number at the current rate; reusable ports do not add up.
    let lasting =
        used.open as f64 + if reused { used.fresh as f64 } else { per_second * TIME_WAIT.as_secs_f64() };
    let worst = lasting.max(taken as f64) / ports.usable as f64;
    let now = taken as f64 / ports.usable as f64;
    let severity = match (now, worst) {
        (now, _) if now >= NOW => Severity::Critical,
        (now, worst) if now >= WARNING_SHARE || worst >= NOW => Severity::Warning,
        _ => return None,
    };
    let title = format!(
        "source ports from {source} to {to}: {} of {} in use ({})",
        count(taken),
        count(ports.usable),
        share_of(taken, ports.usable)
    );
    let mut arithmetic = format!(
        "{} ({} to {}) × 1 source address × 1 destination = {}; in use {} = {} open + {} in TIME_WAIT, which this side \
         holds because it ended those connections first",
        counted(ports.usable, "source port"),
        ports.first,
        ports.last,
        counted(ports.usable, "connection"),
        count(taken),
        count(used.open),
        count(used.fresh),
    );
    if per_second > 0.0 && !reused {
        let comes_to = per_second * TIME_WAIT.as_secs_f64();
        arithmetic.push_str(&format!(
            "; at the present rate, {} ended, it comes to {} × 60 s = {}",
            rate(per_second),
            rate(per_second),
            count(comes_to.round() as u64)
        ));
    }
    let consequence = "when all are in use, connect fails with EADDRNOTAVAIL (\"cannot assign requested address\"), and clients get errors";
    let finding = Finding::new(severity, TOPIC, title, consequence).because(arithmetic);
    Some(cures(finding, used, ports, reused))
}

fn cures(finding: Finding, used: Used, ports: &Ports, reused: bool) -> Finding {
    let mut finding = finding;
    if !reused && used.fresh > used.open {
        if ports.reuse.timestamps == Some(0) {
            finding = finding.change("sysctl -w net.ipv4.tcp_timestamps=1");
        }
        if ports.reuse.tw_reuse != Some(1) {
            finding = finding.change("sysctl -w net.ipv4.tcp_tw_reuse=1");
        }
        finding = finding.change("or keep connections open, or let the other side end them first");
    }
    if ports.usable < 60_000 {
        finding = finding.change("sysctl -w net.ipv4.ip_local_port_range='1024 65535'");
    }
    finding.change("more source addresses (`source` in handfast.toml), or more addresses of the destination")
}
