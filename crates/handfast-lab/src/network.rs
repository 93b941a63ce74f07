//! A plan made real: hosts, the lab's ends of their links, addresses, routes and names. In: a [`Plan`]. Out: hosts to run things
//! in, and wires for the forwarder.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use handfast_net::sys::link::{PacketSocket, switch_offloads_off};
use handfast_net::sys::open_tun;

use crate::error::LabError;
use crate::forwarder::Wire;
use crate::host::{Host, NEIGHBOUR};
use crate::namespace::Inside;
use crate::netlink::{Cable, Netlink, Prefix, Way};
use crate::plan::Plan;
use crate::port::{Engine, Port};

/// Says to a lab within a lab how deep it is.
pub const DEPTH: &str = "HANDFAST_LAB";
/// Size of the kernel's buffer for packets to the lab, in bytes: some thousand packets.
const WAITING: usize = 8 << 20;
/// All that any lab uses: 10.64.0.0/10 and fd77::/16.
const ALL: [Prefix; 2] = [
    Prefix(IpAddr::V4(Ipv4Addr::new(10, 64, 0, 0)), 10),
    Prefix(IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0)), 16),
];
/// Labs within labs, and links of each, that have addresses.
const DEEPEST: u8 = 50;

/// A network that is there.
#[derive(Debug)]
pub struct Network {
    /// Its hosts, in the order of the plan.
    pub hosts: Vec<Host>,
    /// Engine that carries packets.
    pub engine: Engine,
    /// The addresses of each host.
    pub addresses: Vec<Vec<IpAddr>>,
    /// Number of hosts that are its own: all, or all but the last.
    pub own: usize,
    /// Number of labs that it is in, itself included.
    pub depth: u8,
    /// The links, for the forwarder.
    pub wires: Vec<Wire>,
    ends: Vec<[End; 2]>,
}

/// Settings for making a network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Make {
    /// Engine that carries packets; `None` for what works here, veth first.
    pub engine: Option<Engine>,
    /// True if the last host is the one from which this lab was started, where that is one of another lab.
    pub within: bool,
}

impl Network {
    /// Makes it.
    ///
    /// **Errors**: what the kernel refuses; with neither veth nor TUN, both refusals.
    pub fn make(inside: Inside, plan: &Plan, make: Make) -> Result<Self, LabError> {
        let depth = std::env::var(DEPTH).ok().and_then(|depth| depth.parse::<u8>().ok()).unwrap_or(0);
        let depth = depth.saturating_add(1).min(DEEPEST);
        let mut hosts = Vec::new();
        let around = if make.within { Host::around(inside, "around") } else { None };
        let make = Make { within: around.is_some(), ..make };
        let own = plan.hosts.len() - usize::from(make.within);
        for name in &plan.hosts[..own] {
            hosts.push(Host::new(inside, name)?);
        }
        hosts.extend(around);
        for host in &hosts {
            host.set_parameter("net.ipv4.ip_forward", "1")?;
            // A kernel without IPv6 has no such parameter.
            let _ = host.set_parameter("net.ipv6.conf.all.forwarding", "1");
        }
        let engine = match make.engine {
            Some(engine) => engine,
            None => working(inside, &hosts[0])?,
        };
        let mut network = Self {
            addresses: vec![Vec::new(); hosts.len()],
            hosts,
            own,
            engine,
            depth,
            wires: Vec::new(),
            ends: Vec::new(),
        };
        for number in 0..plan.links.len() {
            let ends = network.link(inside, plan, number, make)?;
            network.ends.push(ends);
        }
        network.route(plan, make)?;
        Ok(network)
    }

    /// Makes one link; gives the number of the interface at each of its ends, and its address.
    fn link(&mut self, inside: Inside, plan: &Plan, number: usize, make: Make) -> Result<[End; 2], LabError> {
        let link = &plan.links[number];
        let mut ports = Vec::new();
        let mut ends = Vec::new();
        // Several labs may be started from one host of another: the first place that is free.
        let mut place = u8::try_from(number).unwrap_or(u8::MAX);
        for (end, host) in link.ends.into_iter().enumerate() {
            let outer = make.within && host + 1 == self.hosts.len();
            let name = loop {
                let name = if outer {
                    format!("lab{place}")
                } else {
                    format!("eth{}", self.addresses[host].len() / 2)
                };
                let ours = format!("w{number}e{end}");
                match make_port(inside, self.engine, &self.hosts[host], (&name, &ours), link.mtu) {
                    Ok(port) => {
                        ports.push(port);
                        break name;
                    }
                    Err(LabError::Network { error, .. })
                        if outer && error.kind() == io::ErrorKind::AlreadyExists && place < u8::MAX =>
                    {
                        place += 1;
                    }
                    Err(error) => return Err(error),
                }
            };
            ends.push((host, name));
        }
        let mut made = Vec::new();
        for (end, (host, name)) in ends.into_iter().enumerate() {
            let last = u8::try_from(end + 1).unwrap_or(1);
            let v4 = IpAddr::from([10, 77 + self.depth - 1, place, last]);
            let v6 =
                IpAddr::from([0xfd77, u16::from(self.depth), u16::from(place), 0, 0, 0, 0, u16::from(last)]);
            let index = self.hosts[host].netlink(|netlink| {
                let index = netlink.index(&name)?;
                // A kernel without IPv6 has no such addresses.
                let v6_is_known = netlink.no_link_local_address(index).is_ok();
                netlink.up(index)?;
                netlink.add_address(index, Prefix(v4, 24))?;
                if v6_is_known && link.mtu >= 1280 {
                    netlink.add_address(index, Prefix(v6, 64))?;
                }
                Ok(index)
            })?;
            self.addresses[host].extend([v4, v6]);
            made.push(End { host, index, addresses: [v4, v6], carries_v6: link.mtu >= 1280 });
        }
        let ports: [Port; 2] = ports.try_into().expect("a link has two ends, and each got a port");
        self.wires.push(Wire { ports, shapes: link.shapes });
        Ok(made.try_into().expect("a link has two ends, and each was made"))
    }

    /// Tells every host the way to every other, and to labs that are started from the client.
    fn route(&self, plan: &Plan, make: Make) -> Result<(), LabError> {
        let ends = &self.ends;
        for (from, host) in self.hosts.iter().enumerate() {
            let outer = make.within && from + 1 == self.hosts.len();
            let ways = plan.ways(from);
            let mut routes = Vec::new();
            for (number, link) in plan.links.iter().enumerate() {
                if link.ends.contains(&from) {
                    continue;
                }
                let Some((first, end)) = ways.get(&link.ends[0]).or(ways.get(&link.ends[1])) else {
                    continue;
                };
                let addresses = ends[number][0].addresses;
                let prefixes =
                    [Prefix(network_of(addresses[0], 24), 24), Prefix(network_of(addresses[1], 64), 64)];
                routes.push((prefixes, &ends[*first][1 - *end]));
            }
            let beyond = if make.within && !outer { Some(plan.hosts.len() - 1) } else { Some(plan.client) };
            if let Some((first, end)) = beyond.filter(|_| !outer).and_then(|to| ways.get(&to)) {
                routes.push((ALL, &ends[*first][1 - *end]));
            }
            host.netlink(|netlink| {
                for (prefixes, router) in routes {
                    for (prefix, via) in prefixes.into_iter().zip(router.addresses) {
                        if via.is_ipv4() || router.carries_v6 {
                            netlink.add_route(prefix, Way::Via(via), None)?;
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The first IPv4 address of a host, with a port.
    pub fn address(&self, host: usize, port: u16) -> SocketAddr {
        let address = self.addresses[host].first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        SocketAddr::new(address, port)
    }

    /// Lets connections of a host with its neighbours begin with so many segments in flight (RFC 6928: 10), or with as many as
    /// the kernel has by itself. For the first link, over IPv4.
    pub fn widen(&self, host: usize, window: Option<u32>) -> Result<(), LabError> {
        let Some([first, second]) = self.ends.first() else { return Ok(()) };
        let (here, there) = if first.host == host { (first, second) } else { (second, first) };
        // The more special route wins.
        let (to, way) = (Prefix(there.addresses[0], 32), Way::Direct(here.index));
        self.hosts[host].netlink(|netlink| match window {
            Some(_) => netlink.add_route(to, way, window),
            None => netlink.delete_route(to, way),
        })
    }

    /// Lines of /etc/hosts: each host's name for its IPv4 addresses, and with a 6 behind it for those of IPv6. With one name for
    /// both, a client would first spend a round trip on a server that listens on IPv4 alone.
    pub fn names(&self) -> String {
        let mut lines = String::new();
        for (host, addresses) in self.hosts.iter().zip(&self.addresses).take(self.own) {
            for address in addresses {
                let version = if address.is_ipv6() { "6" } else { "" };
                lines.push_str(&format!("{address} {}{version}\n", host.name()));
            }
        }
        lines
    }
}

/// One end of a link, at its host.
#[derive(Clone, Copy, Debug)]
struct End {
    host: usize,
    index: u32,
    addresses: [IpAddr; 2],
    carries_v6: bool,
}

/// The interface `name` of a host, and the lab's end of it; `ours` is what the end of a cable is called in the lab's own network.
///
/// **Errors**: what the kernel refuses: veth, packet sockets, /dev/net/tun.
pub(crate) fn make_port(
    inside: Inside,
    engine: Engine,
    host: &Host,
    (name, ours): (&str, &str),
    mtu: u32,
) -> Result<Port, LabError> {
    match engine {
        Engine::Veth => {
            let mut netlink = Netlink::open(inside)?;
            netlink.add_cable(Cable {
                here: ours,
                there: name,
                network: host.as_fd(),
                address: NEIGHBOUR,
                mtu,
            })?;
            let act = || format!("make interface {name} of host {} like a wire", host.name());
            host.run(|| switch_offloads_off(name))?.map_err(LabError::network(act()))?;
            host.netlink(|netlink| {
                let index = netlink.index(name)?;
                netlink.disable_neighbour_requests(index)
            })?;
            let index = netlink.index(ours)?;
            let _ = netlink.no_link_local_address(index);
            netlink.up(index)?;
            let socket = PacketSocket::open(index, NEIGHBOUR, WAITING);
            Ok(Port::Packets(socket.map_err(LabError::network(format!("listen to {ours}")))?))
        }
        Engine::Tun => {
            let act = format!("make interface {name} of host {} with /dev/net/tun", host.name());
            let file = host.run(|| open_tun(name))?.map_err(LabError::network(act))?;
            host.netlink(|netlink| {
                let index = netlink.index(name)?;
                netlink.set_mtu(index, mtu)
            })?;
            rustix::io::ioctl_fionbio(&file, true)
                .map_err(LabError::network("read packets without waiting"))?;
            Ok(Port::Tun(file.into()))
        }
    }
}

/// Returns the engine that works here: a cable if the kernel has them, else TUN.
fn working(inside: Inside, host: &Host) -> Result<Engine, LabError> {
    let try_cable = || {
        let mut netlink = Netlink::open(inside)?;
        netlink.add_cable(Cable {
            here: "probe0",
            there: "probe1",
            network: host.as_fd(),
            address: NEIGHBOUR,
            mtu: 1500,
        })?;
        let index = netlink.index("probe0")?;
        host.run(|| switch_offloads_off("probe1"))?.map_err(LabError::network("switch offloads off"))?;
        let socket = PacketSocket::open(index, NEIGHBOUR, WAITING).map(drop);
        socket.map_err(LabError::network("listen to an interface"))?;
        netlink.delete(index)
    };
    let Err(cable) = try_cable() else { return Ok(Engine::Veth) };
    match host.run(|| open_tun("probe2"))? {
        Ok(_) => Ok(Engine::Tun),
        Err(tun) => Err(LabError::Refused {
            act: "make a link",
            error: io::Error::other(format!("veth: {cable}; /dev/net/tun: {tun}")),
            hint: "the kernel needs veth (modprobe veth) or TUN (modprobe tun)".to_owned(),
        }),
    }
}

/// The first address of a prefix of whole octets.
fn network_of(address: IpAddr, bits: usize) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mut octets = address.octets();
            octets[bits / 8..].fill(0);
            octets.into()
        }
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[bits / 8..].fill(0);
            octets.into()
        }
    }
}
