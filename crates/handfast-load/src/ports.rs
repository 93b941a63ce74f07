//! Checks before a run that source ports and descriptors are sufficient.
//!
//! In: a plan, the addresses of its target, the kernel's settings. Out: the arithmetic in a sentence, and a refusal
//! if the run cannot work. A connection needs a source port that no other one to the same address and port has; and
//! the side that ends a connection first keeps that pair for 60 s (`TCP_TIMEWAIT_LEN` of Linux; RFC 9293 §3.6.1).

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use handfast_net::ports::{Reuse, TIME_WAIT, usable};
use handfast_report::model::Ports;
use handfast_report::units::{count, counted, duration};

use crate::assignment::Share;
use crate::machine;
use crate::plan::{Close, Model, Plan};
use handfast_report::ToolError;

/// Descriptors that the program needs for itself: standard streams, engines, files, the bus.
const RESERVE: u64 = 64;

/// The sources' arithmetic on this machine, for a plan and all addresses that its target has here; `None` when
/// there is no range to be read.
///
/// **Cost**: a few small files of /proc.
pub fn arithmetic(plan: &Plan, destinations: &[IpAddr]) -> Option<Ports> {
    let names = [RANGE, RESERVED, REUSE, DELAY, STAMPS, BUCKETS];
    let settings =
        names.iter().filter_map(|name| Some(((*name).to_owned(), machine::sysctl(name)?))).collect();
    let near =
        destinations.iter().all(|destination| destination.is_loopback() || reached(plan, *destination));
    calculate(plan, destinations, near, &settings)
}

const RANGE: &str = "net.ipv4.ip_local_port_range";
const RESERVED: &str = "net.ipv4.ip_local_reserved_ports";
const REUSE: &str = "net.ipv4.tcp_tw_reuse";
const DELAY: &str = "net.ipv4.tcp_tw_reuse_delay";
const STAMPS: &str = "net.ipv4.tcp_timestamps";
const BUCKETS: &str = "net.ipv4.tcp_max_tw_buckets";

/// [`arithmetic`] of another machine, whose settings are known from [`crate::machine::facts`].
pub fn arithmetic_with(
    plan: &Plan,
    destinations: &[IpAddr],
    settings: &BTreeMap<String, String>,
) -> Option<Ports> {
    calculate(plan, destinations, destinations.iter().all(IpAddr::is_loopback), settings)
}

/// `near`: every destination can be reached from loopback addresses.
fn calculate(
    plan: &Plan,
    destinations: &[IpAddr],
    near: bool,
    settings: &BTreeMap<String, String>,
) -> Option<Ports> {
    let range = usable(settings.get(RANGE)?, settings.get(RESERVED).map_or("", String::as_str))?;
    let near = near && !destinations.is_empty();
    let sources = match plan.sources.iter().filter(|source| near || !source.is_loopback()).count() {
        0 if plan.sources.is_empty() => 1,
        usable => usable as u64,
    };
    let destinations = (destinations.len() as u64).max(1);
    let capacity = range.saturating_mul(sources).saturating_mul(destinations);
    let rest = Rest::of(plan, near, capacity, settings);
    let lasting_rate = rest.length().map(|length| capacity as f64 / length.as_secs_f64());
    let product = format!(
        "{} × {} × {} = {} to this target at the same time",
        counted(range, "source port"),
        counted(sources, "source address"),
        counted(destinations, "target address"),
        counted(capacity, "connection"),
    );
    let sentence = format!("{product}; {}", rest.sentence(plan, lasting_rate));
    Some(Ports { range, sources, destinations, capacity, lasting_rate, sentence })
}

/// Returns true if the plan's first loopback source reaches `destination`: it reaches every address of this machine, and no other
/// machine. Sends nothing: connecting a UDP socket only selects its route.
fn reached(plan: &Plan, destination: IpAddr) -> bool {
    let same_family = |source: &&IpAddr| source.is_loopback() && source.is_ipv4() == destination.is_ipv4();
    let Some(source) = plan.sources.iter().find(same_family) else { return false };
    let discard = 9;
    UdpSocket::bind((*source, 0)).and_then(|socket| socket.connect((destination, discard))).is_ok()
}

/// The state of a source port after its connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// In TIME_WAIT for this duration.
    Long,
    /// In TIME_WAIT, and reusable after the shorter time.
    Reused(Duration),
    /// The kernel keeps fewer pairs in TIME_WAIT than there are ports, and frees the others at once.
    Forgotten(u64),
    /// Free at once, by a reset.
    Reset,
    /// Free at once: TIME_WAIT is on the target's side.
    Theirs,
}

impl Rest {
    fn of(plan: &Plan, near: bool, capacity: u64, settings: &BTreeMap<String, String>) -> Self {
        match plan.close {
            Close::Reset => return Self::Reset,
            Close::Server => return Self::Theirs,
            Close::Notify | Close::Fin => {}
        }
        let number = |name: &str| settings.get(name).and_then(|value| value.parse::<u64>().ok());
        let reuse = Reuse { tw_reuse: number(REUSE), delay: number(DELAY), timestamps: number(STAMPS) };
        if let Some(delay) = reuse.after(near) {
            return Self::Reused(delay);
        }
        match number(BUCKETS) {
            Some(buckets) if buckets < capacity => Self::Forgotten(buckets),
            _ => Self::Long,
        }
    }

    const fn length(self) -> Option<Duration> {
        match self {
            Self::Long => Some(TIME_WAIT),
            Self::Reused(delay) => Some(delay),
            Self::Forgotten(_) | Self::Reset | Self::Theirs => None,
        }
    }

    fn sentence(self, plan: &Plan, lasting: Option<f64>) -> String {
        let rate = format!("{} new connections/s", count(lasting.unwrap_or(0.0) as u64));
        let close = plan.close.name();
        match self {
            Self::Long => format!(
                "we end first (--close {close}), so each port is in TIME_WAIT for 60 s: sustainable rate {rate}"
            ),
            Self::Reused(delay) => format!(
                "we end first (--close {close}), so each port rests 60 s in TIME_WAIT, but tcp_tw_reuse lets it be \
                 taken again after {}: sustainable rate {rate}",
                duration(delay.as_nanos() as f64)
            ),
            Self::Forgotten(buckets) => format!(
                "we end first (--close {close}), but the kernel keeps only {} in TIME_WAIT (tcp_max_tw_buckets) and \
                 forgets the others: the ports do not run out",
                counted(buckets, "pair")
            ),
            Self::Reset => "a reset leaves no TIME_WAIT: a port is free immediately".to_owned(),
            Self::Theirs => {
                "the target ends first, so TIME_WAIT is on its side: a port is free here immediately"
                    .to_owned()
            }
        }
    }
}

/// Reason why this machine's share of the plan cannot work, if there is one: connections kept open or in flight beyond the descriptors,
/// connections kept open beyond the ports, a rate that TIME_WAIT does not let last as long as the run. `file_limit` is the result of
/// [`crate::machine::file_limit`] after it was raised.
pub fn objection(plan: &Plan, share: Share, ports: Option<&Ports>, file_limit: u64) -> Option<ToolError> {
    let of = share.of.max(1);
    let standing = u64::from(plan.connections.div_ceil(of));
    sources_reach_nothing(plan, ports)
        .or_else(|| too_few_descriptors(standing, file_limit))
        .or_else(|| too_few_ports(plan, standing, ports?))
        .or_else(|| rests_too_long(plan, of, ports?))
}

/// Loopback sources, and a target that is elsewhere: the kernel would refuse each single connection.
fn sources_reach_nothing(plan: &Plan, ports: Option<&Ports>) -> Option<ToolError> {
    ports.is_some_and(|ports| ports.sources == 0).then(|| {
        let what = format!(
            "choose source addresses: {} is not on this machine, and from loopback addresses only this machine is \
             reached",
            plan.target.host
        );
        ToolError::wrong_use(what).hint("give addresses of this machine's network interfaces with --source")
    })
}

fn too_few_descriptors(standing: u64, file_limit: u64) -> Option<ToolError> {
    let needed = standing.saturating_add(RESERVE);
    (needed > file_limit).then(|| {
        let what = format!(
            "hold {} open: each needs a file descriptor, {} with what the program itself needs, and this process may \
             have {}",
            counted(standing, "connection"),
            count(needed),
            count(file_limit),
        );
        let room = count(file_limit.saturating_sub(RESERVE));
        ToolError::failed(what).hint(format!("ulimit -n {needed}, or at most --connections {room}"))
    })
}

fn too_few_ports(plan: &Plan, standing: u64, ports: &Ports) -> Option<ToolError> {
    // In the open model the number is a bound that a fast target does not reach.
    let stand = matches!(plan.model, Model::Closed) || !returns(plan);
    (stand && standing > ports.capacity).then(|| {
        let what = format!("hold {} open: there are {}", counted(standing, "connection"), ports.sentence);
        ToolError::failed(what)
            .hint(format!("{}, or more target addresses", more_sources(plan, standing, ports)))
    })
}

/// Returns true if a connection ends before the run does.
fn returns(plan: &Plan) -> bool {
    !matches!(plan.work, crate::plan::Work::Bulk { .. } | crate::plan::Work::Idle { .. })
}

fn rests_too_long(plan: &Plan, of: u32, ports: &Ports) -> Option<ToolError> {
    // Only the full minute is checked: with reuse after a second, the kernel's tolerance is too close to refuse a run.
    let rests =
        ports.lasting_rate.is_some_and(|rate| rate * TIME_WAIT.as_secs_f64() <= ports.capacity as f64 * 1.01);
    if !rests || plan.keeps_connections() || !returns(plan) {
        return None;
    }
    let required = opened_within_rest(plan)? / f64::from(of);
    (required > ports.capacity as f64).then(|| {
        let within = plan.duration.min(TIME_WAIT).as_nanos() as f64;
        let what = format!(
            "open {} connections within {}: there are {}",
            count(required.ceil() as u64),
            duration(within),
            ports.sentence
        );
        let more = more_sources(plan, required.ceil() as u64, ports);
        ToolError::failed(what).hint(format!("{more}, or --close reset, or sysctl net.ipv4.tcp_tw_reuse=1"))
    })
}

/// The most connections that an open model begins within one TIME_WAIT.
fn opened_within_rest(plan: &Plan) -> Option<f64> {
    Some(plan.rates()?.most_within(TIME_WAIT.as_secs_f64()))
}

/// The `--source` that would be enough.
fn more_sources(plan: &Plan, required: u64, ports: &Ports) -> String {
    let each = ports.range.saturating_mul(ports.destinations).max(1);
    let needed = required.div_ceil(each);
    let loopback =
        plan.target.host.parse().map_or(plan.target.host == "localhost", |ip: IpAddr| ip.is_loopback());
    match (loopback, needed) {
        (true, 0..=254) => "--source 127.1.0.0/24".to_owned(),
        (true, _) => "--source 127.1.0.0/16".to_owned(),
        (false, _) => format!("--source with {}", counted(needed, "address")),
    }
}

#[cfg(test)]
mod tests;
