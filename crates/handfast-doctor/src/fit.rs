//! Checks whether a configuration fits this machine: its connections against files, source ports, connection tracking, memory and CPUs.
//!
//! In: the demands of the configuration, a machine. Out: findings where the machine cannot meet them, and a fact: the first resource
//! to run out.

use handfast_net::ports::usable;
use handfast_text::units::{bytes, count, counted};

use crate::costs::{FILES, FILES_BESIDE, Idle, TRACKED};
use crate::exam::files::{connections, words};
use crate::exam::total_memory;
use crate::machine::Machine;
use crate::report::{Finding, Report};

/// The demands of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Worker threads, if configured.
    pub threads: Option<u64>,
    /// Connections at once, if configured.
    pub connections: Option<u64>,
    /// True if there are backends with TLS.
    pub backend_tls: bool,
    /// The groups of backends.
    pub groups: Vec<Group>,
}

/// Backends that share connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The service that they belong to.
    pub name: String,
    /// Connections at once, if configured.
    pub connections: Option<u64>,
    /// Backends over TCP.
    pub destinations: Vec<String>,
    /// Source addresses; 0: the clients' own.
    pub sources: u64,
}

/// Something that bounds the connections, and at how many.
struct Bound {
    most: u64,
    arithmetic: String,
}

/// Reports which demands of a configuration do not fit, and which resource runs out first.
///
/// **Cost**: a few small files.
pub fn report_shortages(machine: &Machine, demand: &Demand, report: &mut Report) {
    let mut bounds = Vec::new();
    bounds.extend(files(machine, demand, report));
    for group in &demand.groups {
        bounds.extend(ports(machine, demand, group, report));
    }
    bounds.extend(tracking(machine, demand, report));
    bounds.extend(memory(machine, demand, report));
    threads(machine, demand, report);
    let required =
        demand.connections.map_or("as many connections as the files allow".to_owned(), |required| {
            counted(required, "connection")
        });
    report.fact("wanted", format!("{required} (process.max-connections)"));
    if let Some(first) = bounds.into_iter().min_by_key(|bound| bound.most) {
        report.fact(
            "gives out first",
            format!("at {}: {}", counted(first.most, "connection"), first.arithmetic),
        );
    }
}

fn files(machine: &Machine, demand: &Demand, report: &mut Report) -> Option<Bound> {
    let Some((_, hard)) = machine.file_limits("self") else {
        report.not_seen("whether there are files enough", "no /proc/self/limits here");
        return None;
    };
    let most = connections(hard);
    let arithmetic = format!("open files, of which each takes two: {} by the hard limit", words(hard));
    if let Some(required) = demand.connections.filter(|connections| *connections > most) {
        let needed = required * FILES + FILES_BESIDE;
        let title = format!(
            "{} are wanted, and the open files allow {}",
            counted(required, "connection"),
            count(most)
        );
        let consequence = "the proxy refuses to start with this configuration";
        report.find(
            Finding::critical("open-files", title, consequence)
                .because(format!(
                    "{} × {FILES} descriptors + {FILES_BESIDE} for everything else = {} > {}",
                    count(required),
                    count(needed),
                    words(hard)
                ))
                .change(format!("LimitNOFILE={needed}   (in the [Service] section of the systemd unit)"))
                .change(format!("ulimit -Hn {needed}   (as root)")),
        );
    }
    Some(Bound { most, arithmetic })
}

fn ports(machine: &Machine, demand: &Demand, group: &Group, report: &mut Report) -> Option<Bound> {
    let range = machine.sysctl("net.ipv4.ip_local_port_range")?;
    let reserved = machine.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default();
    let usable = usable(&range, &reserved)?;
    // With clients' source addresses, each client has separate ports.
    if group.sources == 0 || group.destinations.is_empty() {
        return None;
    }
    let destinations = group.destinations.len() as u64;
    let most = usable.saturating_mul(group.sources).saturating_mul(destinations);
    let arithmetic = format!(
        "{}: {} × {} × {} = {}",
        group.name,
        counted(usable, "source port"),
        counted(group.sources, "source address"),
        counted(destinations, "backend"),
        count(most)
    );
    let required = group.connections.into_iter().chain(demand.connections).min();
    if let Some(required) = required.filter(|connections| *connections > most) {
        let title = format!(
            "{}: up to {} are wanted, and its source ports allow {}",
            group.name,
            counted(required, "connection"),
            count(most)
        );
        let consequence =
            "beyond that connect fails with EADDRNOTAVAIL, and clients are reset (cause out-of-ports)";
        let needed = required.div_ceil(usable.saturating_mul(destinations).max(1));
        report.find(
            Finding::warning("source-ports", title, consequence)
                .because(arithmetic.clone())
                .change(format!("source = [ … ]   with {} of this machine", counted(needed, "address")))
                .change("sysctl -w net.ipv4.ip_local_port_range='1024 65535'"),
        );
    }
    Some(Bound { most, arithmetic: format!("source ports of {arithmetic}") })
}

fn tracking(machine: &Machine, demand: &Demand, report: &mut Report) -> Option<Bound> {
    let table = machine.number("net.netfilter.nf_conntrack_max")?;
    let most = table / TRACKED;
    let arithmetic = format!("connection tracking: {} entries / {TRACKED}, if it tracks them", count(table));
    if let Some(required) = demand.connections.filter(|connections| *connections > most) {
        let title = format!(
            "{} are wanted, and connection tracking holds {}",
            counted(required, "connection"),
            count(most)
        );
        let consequence = "when the table is full, packets of new connections are dropped, which looks like packet loss on the network";
        report.find(
            Finding::warning("conntrack", title, consequence)
                .because(format!(
                    "{} × {TRACKED} = {} > {}",
                    count(required),
                    count(required * TRACKED),
                    count(table)
                ))
                .change(format!("sysctl -w net.netfilter.nf_conntrack_max={}", required * TRACKED * 2)),
        );
    }
    Some(Bound { most, arithmetic })
}

fn memory(machine: &Machine, demand: &Demand, report: &mut Report) -> Option<Bound> {
    let total = total_memory(machine)?;
    let idle = Idle::of(demand.backend_tls);
    let most = idle.connections(total);
    let sum =
        |number: &str| format!("{} + {number} × {} B ({})", bytes(idle.once), count(idle.each), idle.source);
    if let Some(required) = demand.connections.filter(|connections| *connections > most) {
        let title = format!(
            "{} are wanted, and need {} of {} while they are idle",
            counted(required, "connection"),
            bytes(idle.bytes(required)),
            bytes(total)
        );
        let consequence =
            "the kernel kills the proxy when memory runs out; the kernel's memory for sockets comes on top";
        let finding = Finding::warning("memory", title, consequence);
        report.find(
            finding
                .because(sum(&count(required)))
                .change("set process.max-connections lower, or more memory")
                .change(format!(
                    "handfast doctor size --open {required}   (with the kernel's memory for sockets, measured)"
                )),
        );
    }
    let arithmetic = format!(
        "memory: {} = {} while idle, and the kernel's for its sockets on top",
        bytes(total),
        sum(&count(most))
    );
    Some(Bound { most, arithmetic })
}

fn threads(machine: &Machine, demand: &Demand, report: &mut Report) {
    let text = machine.read("/proc/cpuinfo").unwrap_or_default();
    let cpus = text.lines().filter(|line| line.starts_with("processor")).count() as u64;
    if let Some(threads) = demand.threads.filter(|threads| cpus > 0 && *threads > cpus) {
        let title = format!("{} on {}", counted(threads, "worker thread"), counted(cpus, "CPU"));
        let consequence = "threads share a CPU, and a connection waits while its thread has none";
        report.find(
            Finding::warning("threads", title, consequence)
                .change("leave process.threads out: there is then one for each CPU"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exam::testing::Planted;

    fn examined(connections: Option<u64>, threads: Option<u64>, group: Group) -> Report {
        let planted = Planted::healthy();
        let mut report = Report::new("", String::new(), String::new());
        let demand = Demand { threads, connections, backend_tls: false, groups: vec![group] };
        report_shortages(&planted.machine(), &demand, &mut report);
        report
    }

    fn group(destinations: usize, sources: u64, connections: Option<u64>) -> Group {
        let destinations = (0..destinations).map(|number| format!("10.0.0.{number}:80")).collect();
        Group { name: "service web".to_owned(), connections, destinations, sources }
    }

    fn topics(report: &Report) -> Vec<&'static str> {
        report.findings.iter().map(|finding| finding.topic).collect()
    }

    #[test]
    fn what_fits_is_no_finding_and_says_what_gives_out_first() {
        let report = examined(Some(20_000), Some(2), group(1, 1, None));
        assert_eq!(report.findings, []);
        let first = &report.facts.iter().find(|fact| fact.name == "gives out first").expect("the fact").value;
        let words = "at 28,232 connections: source ports of service web: 28,232 source ports × 1 source address × 1 backend = 28,232";
        assert_eq!(first, words);
        // Nothing is configured, so nothing is missing.
        assert_eq!(examined(None, None, group(1, 1, None)).findings, []);
        assert_eq!(examined(Some(100_000), None, group(1, 0, None)).findings, [], "clients' own addresses");
    }

    #[test]
    fn what_is_written_and_cannot_be_had_is_found() {
        assert_eq!(topics(&examined(Some(50_000), None, group(1, 1, None))), ["source-ports"]);
        assert_eq!(topics(&examined(Some(50_000), None, group(2, 1, None))), [""; 0]);
        assert_eq!(topics(&examined(Some(50_000), None, group(1, 2, None))), [""; 0]);
        assert_eq!(topics(&examined(Some(50_000), None, group(1, 1, Some(1_000)))), [""; 0]);
        assert_eq!(topics(&examined(Some(200_000), None, group(9, 1, None))), ["conntrack"]);
        assert_eq!(topics(&examined(Some(300_000), None, group(90, 1, None))), ["open-files", "conntrack"]);
        assert_eq!(
            topics(&examined(Some(5_000_000), None, group(900, 1, None))),
            ["open-files", "conntrack", "memory"]
        );
        assert_eq!(
            topics(&examined(Some(3_000_000), None, group(900, 1, None))),
            ["open-files", "conntrack"],
            "10 of 15.6 GiB"
        );
        assert_eq!(topics(&examined(None, Some(8), group(1, 1, None))), ["threads"]);
        let report = examined(Some(50_000), None, group(1, 1, None));
        assert_eq!(report.findings[0].change[0], "source = [ … ]   with 2 addresses of this machine");
    }
}
