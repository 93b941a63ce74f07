//! Two hosts and the path between them, for one experiment after the other: `here`, where the sockets under test are, and
//! `there`, where their peers are.
//!
//! In: the proof that we are in namespaces of the lab's own. Out: sockets in either host, and faults on demand. Both hosts are
//! networks that were made for this place and end with it, so no fault can reach the machine's own.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, UdpSocket};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Failure;
use super::addresses::{ALL_THERE, ALL_THERE_V6, HERE, HERE_V6, THERE, THERE_V6};
use super::diagnosis::Diagnosis;
use super::path::Path;
use super::peer::{Family, Peer};
use crate::error::LabError;
use crate::host::Host;
use crate::namespace::Inside;
use crate::netlink::{Netlink, Prefix, Way};
use crate::network::make_port;
use crate::port::{Engine, Port};

/// Largest packet of both interfaces, in bytes.
const MTU: u32 = 1_500;
/// Name of the interface at both ends.
const INTERFACE: &str = "lab0";
/// A mark that has not come by then is sent again.
const LOST: Duration = Duration::from_millis(500);
/// Longest that a packet takes through the path; only a machine under heavy load needs this long.
const PATH_TIMEOUT: Duration = Duration::from_secs(20);

/// One host, and its end of the path.
#[derive(Debug)]
struct End {
    host: Host,
    netlink: RefCell<Netlink>,
    interface: u32,
    has_v6: bool,
}

/// Two hosts and a path.
#[derive(Debug)]
pub struct Place {
    // Dropped first: its thread ends before the interfaces go.
    path: Path,
    here: End,
    there: End,
    diagnosis: Diagnosis,
    /// Carries nothing but marks: what was sent before one has arrived when it has.
    mark: (UdpSocket, UdpSocket),
    marks: Cell<u64>,
    peers: u16,
    /// True if no mark can pass.
    cut: Cell<bool>,
}

impl Place {
    /// Makes two hosts and connects them.
    ///
    /// **Errors**: what the machine does not allow, by the step that failed.
    pub fn open(inside: Inside, engine: Option<Engine>) -> Result<Self, Failure> {
        let ours = [(HERE.into(), ALL_THERE), (HERE_V6.into(), ALL_THERE_V6)];
        let (here, our_port) = End::make(inside, engine, "here", ours)?;
        let theirs = [
            (peer_address(0).into(), Prefix(HERE.into(), 32)),
            (peer_address_v6(0).into(), Prefix(HERE_V6.into(), 128)),
        ];
        let (there, their_port) = End::make(inside, engine, "there", theirs)?;
        let theirs =
            there.host.run(|| mark(peer_address(0)))?.map_err(Failure::io("open the mark's socket there"))?;
        let ours = here.host.run(|| mark(HERE))?.map_err(Failure::io("open the mark's socket here"))?;
        let meet = || {
            ours.connect(theirs.local_addr()?)?;
            theirs.connect(ours.local_addr()?)
        };
        meet().map_err(Failure::io("connect the marks"))?;
        let diagnosis = here.host.run(Diagnosis::open)?.map_err(Failure::errno("open sock_diag"))?;
        let path = Path::start(our_port, their_port).map_err(Failure::io("start the path"))?;
        let mark = (ours, theirs);
        let place =
            Self { path, here, there, diagnosis, mark, marks: Cell::new(0), peers: 0, cut: Cell::new(false) };
        place.settle()?;
        Ok(place)
    }

    /// The path between the hosts.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new peer of this family, watched on the path from now on if it is on it.
    ///
    /// **Errors**: as [`Self::next_peer`]; this kernel has no IPv6.
    pub(super) fn meet(&mut self, family: Family) -> Result<Peer, Failure> {
        /// Places run in parallel, and share one folder.
        static PATHS: AtomicU32 = AtomicU32::new(0);
        match family {
            Family::V4 => Ok(Peer::At(self.next_peer()?.into())),
            Family::V6 => Ok(Peer::At(self.next_peer_v6()?.into())),
            Family::Unix => Ok(Peer::Path(PATHS.fetch_add(1, Ordering::Relaxed))),
        }
    }

    /// A new peer, watched on the path from now on.
    ///
    /// **Errors**: the path does not carry, or no address is left.
    pub fn next_peer(&mut self) -> Result<Ipv4Addr, Failure> {
        let peer = self.add_peer()?;
        self.path.watch(peer);
        Ok(peer)
    }

    /// The same in IPv6.
    ///
    /// **Errors**: as [`Self::next_peer`]; this kernel has no IPv6.
    fn next_peer_v6(&mut self) -> Result<Ipv6Addr, Failure> {
        if !self.here.has_v6 {
            return Err(Failure::Skipped("this kernel has no IPv6".into()));
        }
        self.number()?;
        let peer = peer_address_v6(self.peers);
        self.there.netlink.borrow_mut().add_address(self.there.interface, Prefix(peer.into(), 128))?;
        usable(&self.there.host, peer)?;
        self.path.watch(peer);
        Ok(peer)
    }

    /// A new peer that is not watched.
    ///
    /// **Errors**: as [`Self::next_peer`].
    pub fn add_peer(&mut self) -> Result<Ipv4Addr, Failure> {
        self.number()?;
        let peer = peer_address(self.peers);
        let interface = self.there.interface;
        self.there.netlink.borrow_mut().add_address(interface, Prefix(peer.into(), 32))?;
        Ok(peer)
    }

    /// The number of the next peer.
    fn number(&mut self) -> Result<(), Failure> {
        // A cable that the experiment before this one has switched off and on again may take a moment.
        self.settle()?;
        self.peers =
            self.peers.checked_add(1).ok_or_else(|| Failure::Skipped("no address is left".into()))?;
        Ok(())
    }

    /// Starts a command on our host.
    pub fn spawn_here(&self, command: &mut Command) -> Result<Child, Failure> {
        Ok(self.here.host.spawn(command)?)
    }

    /// Runs something on our host: sockets that it opens are there for good.
    pub fn here<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        Ok(self.here.host.run(act)?)
    }

    /// Runs something on the other host.
    pub fn there<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        Ok(self.there.host.run(act)?)
    }

    /// Waits until everything that is on its way has arrived, and what came back at once has, too.
    ///
    /// **Errors**: the path does not carry, which is a fault of the laboratory.
    pub fn settle(&self) -> Result<(), Failure> {
        if self.cut.get() {
            // Nothing can be on its way.
            return Ok(());
        }
        let (ours, theirs) = &self.mark;
        // Twice: an answer to an answer is on its way, too.
        for _ in 0..2 {
            self.pass(ours, theirs)
                .and_then(|()| self.pass(theirs, ours))
                .map_err(Failure::io("send a mark through the path"))?;
        }
        Ok(())
    }

    /// Sends one mark until it has arrived: an interface that was just switched on may lose the first.
    fn pass(&self, from: &UdpSocket, to: &UdpSocket) -> io::Result<()> {
        self.marks.set(self.marks.get() + 1);
        let mark = self.marks.get().to_be_bytes();
        let begun = Instant::now();
        while begun.elapsed() < PATH_TIMEOUT {
            from.send(&mark)?;
            let mut came = [0; 8];
            // An older one had been sent twice.
            while to.recv(&mut came).is_ok() {
                if came == mark {
                    return Ok(());
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Switches our interface off, until the value is dropped.
    pub fn without_interface(&self) -> Result<Repair<'_>, Failure> {
        self.here.netlink.borrow_mut().down(self.here.interface)?;
        self.cut.set(true);
        Ok(Repair { place: self, damage: Damage::Interface })
    }

    /// Takes away our route to all peers, until the value is dropped.
    pub(crate) fn without_route(&self) -> Result<Repair<'_>, Failure> {
        self.here.netlink.borrow_mut().delete_route(ALL_THERE, Way::Direct(self.here.interface))?;
        self.cut.set(true);
        Ok(Repair { place: self, damage: Damage::Route })
    }

    /// Routes one peer so, until the value is dropped.
    pub fn with_route(&self, peer: IpAddr, way: Way) -> Result<Repair<'_>, Failure> {
        let peer = Prefix(peer, if peer.is_ipv6() { 128 } else { 32 });
        self.here.netlink.borrow_mut().add_route(peer, way, None)?;
        Ok(Repair { place: self, damage: Damage::Added(peer, way) })
    }

    /// Leaves us so many source ports, until the value is dropped.
    pub fn with_ports(&self, first: u16, last: u16) -> Result<Repair<'_>, Failure> {
        let read = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let before = self.here(read)?.map_err(Failure::io("read net.ipv4.ip_local_port_range"))?;
        self.set_ports(&format!("{first} {last}")).map_err(|error| {
            Failure::Skipped(format!("the range of source ports cannot be set here ({error})"))
        })?;
        Ok(Repair { place: self, damage: Damage::Ports(before.trim().to_owned()) })
    }

    fn set_ports(&self, range: &str) -> Result<(), LabError> {
        self.here.host.set_parameter("net.ipv4.ip_local_port_range", range)
    }

    /// Ends one of our sockets, as `ss --kill` does.
    pub fn destroy(&self, from: SocketAddrV4, to: SocketAddrV4) -> Result<(), Failure> {
        self.diagnosis.destroy(from, to).map_err(|errno| match errno {
            Errno::OPNOTSUPP => {
                Failure::Skipped("this kernel has no SOCK_DESTROY (CONFIG_INET_DIAG_DESTROY)".into())
            }
            other => Failure::errno("destroy a socket")(other),
        })
    }
}

/// Damage that a [`Repair`] undoes.
#[derive(Debug)]
enum Damage {
    Interface,
    Route,
    Added(Prefix, Way),
    Ports(String),
}

/// Undoes, when it is dropped, what was done to our host.
#[derive(Debug)]
pub struct Repair<'a> {
    place: &'a Place,
    damage: Damage,
}

impl Drop for Repair<'_> {
    fn drop(&mut self) {
        let (place, here) = (self.place, &self.place.here);
        let there = |netlink: &mut Netlink| netlink.add_route(ALL_THERE, Way::Direct(here.interface), None);
        let mut netlink = here.netlink.borrow_mut();
        // When it fails, the next experiment cannot settle, and reports that.
        let _ = match &self.damage {
            // An interface that goes down takes its routes along.
            Damage::Interface => netlink.up(here.interface).and_then(|()| there(&mut netlink)),
            Damage::Route => there(&mut netlink),
            Damage::Added(to, way) => netlink.delete_route(*to, *way),
            Damage::Ports(range) => place.set_ports(range),
        };
        place.cut.set(false);
    }
}

impl End {
    /// Makes a host with an address of each version of IP, and a route by its interface for each.
    fn make(
        inside: Inside,
        engine: Option<Engine>,
        name: &str,
        [v4, v6]: [(IpAddr, Prefix); 2],
    ) -> Result<(Self, Port), Failure> {
        let host = Host::new(inside, name)?;
        let port = port(inside, engine, &host)?;
        let (netlink, interface, has_v6) = host.run(|| {
            let mut netlink = Netlink::open(inside)?;
            let interface = netlink.index(INTERFACE)?;
            netlink.no_link_local_address(interface)?;
            netlink.add_address(interface, Prefix(v4.0, 32))?;
            netlink.up(interface)?;
            netlink.add_route(v4.1, Way::Direct(interface), None)?;
            // A kernel without IPv6 has neither.
            let has_v6 = netlink.add_address(interface, Prefix(v6.0, 128)).is_ok()
                && netlink.add_route(v6.1, Way::Direct(interface), None).is_ok();
            Ok::<_, LabError>((netlink, interface, has_v6))
        })??;
        if let (true, IpAddr::V6(address)) = (has_v6, v6.0) {
            usable(&host, address)?;
        }
        Ok((Self { host, netlink: RefCell::new(netlink), interface, has_v6 }, port))
    }
}

/// Waits until packets for an IPv6 address of a host's own are taken there, by sending it some from itself: the kernel puts it into its
/// table of local addresses a moment after it has said that it has the address (`addrconf_dad_work` in net/ipv6/addrconf.c), and
/// drops what comes before that.
fn usable(host: &Host, address: Ipv6Addr) -> Result<(), Failure> {
    /// Time limit for a packet; one that has not come by then was not taken.
    const LOOK: Duration = Duration::from_millis(2);
    let open = || {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok((socket.local_addr()?, socket))
    };
    let act = "send from an IPv6 address to itself";
    let (itself, socket) = host.run(open)?.map_err(Failure::io(act))?;
    let begun = Instant::now();
    // Not connected: such a socket would keep the way that it found first.
    while socket.send_to(b"me", itself).and_then(|_| socket.recv(&mut [0; 2])).is_err() {
        if begun.elapsed() > PATH_TIMEOUT {
            return Err(Failure::io(act)(io::ErrorKind::TimedOut.into()));
        }
    }
    Ok(())
}

/// By TUN if nothing else is wanted and it works: an interface of it that is switched on again carries at once.
fn port(inside: Inside, engine: Option<Engine>, host: &Host) -> Result<Port, Failure> {
    /// Names of the ends of cables, which are all in one network.
    static CABLES: AtomicU32 = AtomicU32::new(0);
    let ours = format!("s{}", CABLES.fetch_add(1, Ordering::Relaxed));
    let make = |engine| make_port(inside, engine, host, (INTERFACE, &ours), MTU);
    match engine {
        Some(engine) => Ok(make(engine)?),
        None => make(Engine::Tun).or_else(|tun| {
            make(Engine::Veth)
                .map_err(|veth| Failure::NoLink { tun: tun.to_string(), veth: veth.to_string() })
        }),
    }
}

fn mark(address: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 0))?;
    socket.set_read_timeout(Some(LOST))?;
    Ok(socket)
}

fn peer_address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    let [first, second, ..] = THERE.octets();
    Ipv4Addr::new(first, second, high, low)
}

fn peer_address_v6(number: u16) -> Ipv6Addr {
    let [a, b, c, d, e, f, g, _] = THERE_V6.segments();
    // The first one is not the subnet's own (RFC 4291 section 2.6.1).
    Ipv6Addr::new(a, b, c, d, e, f, g + 1, number)
}
