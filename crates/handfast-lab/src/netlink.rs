//! Interfaces, addresses and routes of the network that the thread is in, over rtnetlink: no `ip` needs to be installed.
//!
//! In: what should be. Out: done, or the kernel's answer with the act in words. Only what the lab needs is here.
//!
//! **Source**: rtnetlink(7), netlink(7), linux/if_link.h, linux/rtnetlink.h.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, sendto, socket_with};

use crate::error::LabError;
use crate::namespace::Inside;

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
/// The type of an answer, good or bad.
const ANSWER: u16 = 2;

const REQUEST: u16 = 0x1;
const ANSWER_WANTED: u16 = 0x4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;

const UP: u32 = 0x1;
const NO_ARP: u32 = 0x80;

/// Handling of packets to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of this interface, directly to the receiver.
    Direct(u32),
    /// To this router.
    Via(IpAddr),
    /// Nowhere: connect gets EINVAL or EHOSTUNREACH, as for a destination that does not exist.
    Blackhole,
    /// Sent back as unreachable: EHOSTUNREACH.
    Unreachable,
    /// Sent back as forbidden: EACCES.
    Prohibited,
}

/// A destination: an address and how many of its bits count; 0 for all there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix(pub IpAddr, pub u8);

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

/// Two interfaces that are the ends of one cable.
#[derive(Clone, Copy, Debug)]
pub struct Cable<'a> {
    /// Name of the end here.
    pub here: &'a str,
    /// Name of the end there.
    pub there: &'a str,
    /// The network in which the end there will be.
    pub network: BorrowedFd<'a>,
    /// Ethernet address of both ends: there is no third host, and no host needs to ask.
    pub address: [u8; 6],
    /// Largest packet of both ends, in bytes.
    pub mtu: u32,
}

/// A conversation with the kernel about the network that the thread was in when it began.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Begins one.
    ///
    /// **Errors**: socket(2).
    pub fn open(_: Inside) -> Result<Self, LabError> {
        let open = || {
            let flags = SocketFlags::CLOEXEC;
            // Protocol 0 is NETLINK_ROUTE.
            let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            bind(&socket, &SocketAddrNetlink::new(0, 0))?;
            Ok::<_, io::Error>(socket)
        };
        Ok(Self { socket: open().map_err(LabError::network("open netlink"))?, sequence: 0 })
    }

    /// The number of an interface.
    ///
    /// **Errors**: ENODEV when there is none of this name.
    pub fn index(&self, name: &str) -> Result<u32, LabError> {
        rustix::net::netdevice::name_to_index(&self.socket, name)
            .map_err(LabError::network(format!("find interface {name}")))
    }

    /// Switches an interface on.
    pub fn up(&mut self, index: u32) -> Result<(), LabError> {
        self.flags(format!("switch interface {index} on"), index, UP, UP)
    }

    /// Switches an interface off; its routes go with that.
    pub fn down(&mut self, index: u32) -> Result<(), LabError> {
        self.flags(format!("switch interface {index} off"), index, 0, UP)
    }

    /// Lets an interface send no requests for the address of a neighbour.
    pub fn disable_neighbour_requests(&mut self, index: u32) -> Result<(), LabError> {
        self.flags(format!("switch ARP of interface {index} off"), index, NO_ARP, NO_ARP)
    }

    /// Makes the kernel give an interface no IPv6 address by itself, and so send nothing by itself.
    pub fn no_link_local_address(&mut self, index: u32) -> Result<(), LabError> {
        let mut message = Message::new(NEW_LINK, 0, &link(index, 0, 0));
        // IFLA_AF_SPEC, AF_INET6, IFLA_INET6_ADDR_GEN_MODE: none.
        message.nest(26, |message| message.nest(10, |message| message.put(8, &[1])));
        self.send_request(format!("keep interface {index} without a link-local address"), message)
    }

    fn flags(&mut self, act: String, index: u32, flags: u32, mask: u32) -> Result<(), LabError> {
        self.send_request(act, Message::new(NEW_LINK, 0, &link(index, flags, mask)))
    }

    /// Sets the largest packet of an interface, in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), LabError> {
        let mut message = Message::new(NEW_LINK, 0, &link(index, 0, 0));
        message.put(4, &mtu.to_ne_bytes());
        self.send_request(format!("set the MTU of interface {index} to {mtu}"), message)
    }

    /// Lays a cable (veth) from here to another network.
    ///
    /// **Errors**: EOPNOTSUPP where the kernel has no veth.
    pub fn add_cable(&mut self, cable: Cable<'_>) -> Result<(), LabError> {
        let mut message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link(0, 0, 0));
        let end = |message: &mut Message, name: &str| {
            message.put(3, &zero_ended(name));
            message.put(1, &cable.address);
            message.put(4, &cable.mtu.to_ne_bytes());
        };
        end(&mut message, cable.here);
        message.nest(18, |message| {
            message.put(1, b"veth");
            message.nest(2, |message| {
                message.nest(1, |message| {
                    message.bytes.extend_from_slice(&link(0, 0, 0));
                    end(message, cable.there);
                    message.put(28, &cable.network.as_raw_fd().to_ne_bytes());
                });
            });
        });
        self.send_request(format!("lay a cable from {} to {}", cable.here, cable.there), message)
    }

    /// Takes an interface away; the other end of a cable goes with it.
    pub fn delete(&mut self, index: u32) -> Result<(), LabError> {
        self.send_request(
            format!("delete interface {index}"),
            Message::new(DELETE_LINK, 0, &link(index, 0, 0)),
        )
    }

    /// Gives an interface an address, and a route to its prefix. IPv6 addresses are usable at once (RFC 4862 section 5.4
    /// would wait a second for an objection).
    pub fn add_address(&mut self, index: u32, address: Prefix) -> Result<(), LabError> {
        let mut message = Message::new(NEW_ADDRESS, CREATE | EXCLUSIVE, &interface_address(index, address));
        message.put(2, &octets(address.0));
        message.put(1, &octets(address.0));
        self.send_request(format!("add address {address} to interface {index}"), message)
    }

    /// Takes an address away.
    pub fn delete_address(&mut self, index: u32, address: Prefix) -> Result<(), LabError> {
        let mut message = Message::new(DELETE_ADDRESS, 0, &interface_address(index, address));
        message.put(2, &octets(address.0));
        self.send_request(format!("delete address {address} of interface {index}"), message)
    }

    /// Says where packets go. `initial_window` is how many segments a connection on this route may have in flight before
    /// the first acknowledgement (RFC 6928: 10), for [`Way::Direct`] and [`Way::Via`].
    pub fn add_route(&mut self, to: Prefix, way: Way, initial_window: Option<u32>) -> Result<(), LabError> {
        let mut message = Message::new(NEW_ROUTE, CREATE | EXCLUSIVE, &route(to, way));
        describe(&mut message, to, way);
        if let Some(window) = initial_window {
            // RTA_METRICS: RTAX_INITCWND of what we send, RTAX_INITRWND of what the other end may.
            message.nest(8, |message| {
                message.put(11, &window.to_ne_bytes());
                message.put(14, &window.to_ne_bytes());
            });
        }
        self.send_request(format!("add the route to {to}"), message)
    }

    /// Forgets where packets go.
    ///
    /// **Errors**: ESRCH when there is no such route.
    pub fn delete_route(&mut self, to: Prefix, way: Way) -> Result<(), LabError> {
        let mut message = Message::new(DELETE_ROUTE, 0, &route(to, way));
        describe(&mut message, to, way);
        self.send_request(format!("delete the route to {to}"), message)
    }

    /// Sends a message, and waits for the kernel's answer, which comes before the call that sends returns.
    fn send_request(&mut self, act: String, message: Message) -> Result<(), LabError> {
        self.sequence += 1;
        let message = message.finish(self.sequence);
        let exchange = || {
            sendto(&self.socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
            let mut answer = vec![0_u8; 8192];
            let (length, _) = recv(&self.socket, &mut answer[..], RecvFlags::DONTWAIT)?;
            read_answer(answer.get(..length).unwrap_or_default())
        };
        exchange().map_err(LabError::network(act))
    }
}

/// Reads the kernel's answer.
fn read_answer(answer: &[u8]) -> io::Result<()> {
    let short = || io::Error::other("the kernel's answer is cut short");
    let kind = answer.get(4..6).ok_or_else(short)?;
    let error = answer.get(16..20).ok_or_else(short)?;
    let error = i32::from_ne_bytes([error[0], error[1], error[2], error[3]]);
    match (u16::from_ne_bytes([kind[0], kind[1]]), error) {
        (ANSWER, 0) => Ok(()),
        (ANSWER, error) => Err(io::Error::from_raw_os_error(-error)),
        (kind, _) => Err(io::Error::other(format!("the kernel answers with a message of type {kind}"))),
    }
}

/// `struct ifinfomsg`.
fn link(index: u32, flags: u32, mask: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for word in [index, flags, mask] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// `struct ifaddrmsg`; IFA_F_NODAD for IPv6.
fn interface_address(index: u32, address: Prefix) -> Vec<u8> {
    let flags = if address.0.is_ipv6() { 0x02 } else { 0 };
    let mut bytes = vec![family(address.0), address.1, flags, 0];
    bytes.extend_from_slice(&index.to_ne_bytes());
    bytes
}

/// `struct rtmsg`, in the main table, made by an administrator.
fn route(to: Prefix, way: Way) -> Vec<u8> {
    const MAIN: u8 = 254;
    const STATIC: u8 = 4;
    let (scope, kind) = match way {
        Way::Direct(_) if to.0.is_ipv4() => (253, 1),
        Way::Direct(_) | Way::Via(_) => (0, 1),
        Way::Blackhole => (0, 6),
        Way::Unreachable => (0, 7),
        Way::Prohibited => (0, 8),
    };
    vec![family(to.0), to.1, 0, 0, MAIN, STATIC, scope, kind, 0, 0, 0, 0]
}

fn describe(message: &mut Message, to: Prefix, way: Way) {
    if to.1 > 0 {
        message.put(1, &octets(to.0));
    }
    match way {
        Way::Direct(index) => message.put(4, &index.to_ne_bytes()),
        Way::Via(router) => message.put(5, &octets(router)),
        Way::Blackhole | Way::Unreachable | Way::Prohibited => {}
    }
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    u8::try_from(family.as_raw()).unwrap_or(0)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn zero_ended(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// A message that is being written.
struct Message {
    kind: u16,
    flags: u16,
    bytes: Vec<u8>,
}

impl Message {
    /// Begins with the fixed part of its kind; sixteen bytes are left for the header.
    fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; 16];
        bytes.extend_from_slice(fixed);
        Self { kind, flags: flags | REQUEST | ANSWER_WANTED, bytes }
    }

    /// Adds an attribute.
    fn put(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |message| message.bytes.extend_from_slice(value));
    }

    /// Adds an attribute that is what `fill` writes.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        fill(self);
        let length =
            u16::try_from(self.bytes.len() - start).expect("the lab's messages are some hundred bytes");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Writes the header: length, kind, flags, sequence; 0 for a sender that the kernel knows.
    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).expect("the lab's messages are some hundred bytes");
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[4..6].copy_from_slice(&self.kind.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;
    use crate::host::Host;
    use crate::testing::in_a_network;

    fn connect(to: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&to, Duration::from_secs(10))
    }

    /// Two hosts with a cable between them, and addresses of both families.
    fn pair(inside: Inside) -> (Host, Host) {
        let (one, other) = (Host::new(inside, "one").unwrap(), Host::new(inside, "other").unwrap());
        one.netlink(|netlink| {
            netlink.add_cable(Cable {
                here: "a",
                there: "b",
                network: other.as_fd(),
                address: [2, 0, 0, 0, 0, 1],
                mtu: 1400,
            })
        })
        .unwrap();
        for (host, name, last) in [(&one, "a", 1), (&other, "b", 2)] {
            host.netlink(|netlink| {
                let index = netlink.index(name)?;
                netlink.disable_neighbour_requests(index)?;
                netlink.no_link_local_address(index)?;
                netlink.up(index)?;
                netlink.add_address(index, Prefix(Ipv4Addr::new(10, 77, 0, last).into(), 24))?;
                let v6 = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last.into());
                netlink.add_address(index, Prefix(v6.into(), 64))
            })
            .unwrap();
        }
        (one, other)
    }

    #[test]
    fn a_cable_carries_both_families_without_asking_for_neighbours() {
        in_a_network("a_cable_carries_both_families_without_asking_for_neighbours", |inside| {
            let (one, other) = pair(inside);
            for address in ["10.77.0.2:0", "[fd77::2]:0"] {
                let address: SocketAddr = address.parse().unwrap();
                let listener = other.run(|| TcpListener::bind(address).unwrap()).unwrap();
                let to = listener.local_addr().unwrap();
                let mut client = one.run(|| connect(to).unwrap()).unwrap();
                let (mut server, _) = listener.accept().unwrap();
                client.write_all(b"x").unwrap();
                server.read_exact(&mut [0]).unwrap();
            }
        });
    }

    #[test]
    fn routes_come_and_go_and_the_kernel_says_what_is_wrong() {
        in_a_network("routes_come_and_go_and_the_kernel_says_what_is_wrong", |inside| {
            let (one, _other) = pair(inside);
            let far = Prefix(Ipv4Addr::new(192, 0, 2, 0).into(), 24);
            let to = "192.0.2.1:9".parse().unwrap();
            let kind = || connect(to).map(drop).map_err(|error| error.raw_os_error());
            assert_eq!(one.run(kind).unwrap(), Err(Some(101)), "no route is ENETUNREACH");
            for (way, errno) in [(Way::Unreachable, 113), (Way::Prohibited, 13), (Way::Blackhole, 22)] {
                one.netlink(|netlink| netlink.add_route(far, way, None)).unwrap();
                assert_eq!(one.run(kind).unwrap(), Err(Some(errno)), "{way:?}");
                one.netlink(|netlink| netlink.delete_route(far, way)).unwrap();
            }
            let via = Way::Via(Ipv4Addr::new(10, 77, 0, 2).into());
            one.netlink(|netlink| netlink.add_route(far, via, Some(30))).unwrap();
            let error = one.netlink(|netlink| netlink.add_route(far, via, None)).unwrap_err();
            assert!(error.to_string().starts_with("add the route to 192.0.2.0/24: File exists"), "{error}");
            one.netlink(|netlink| netlink.delete_route(far, via)).unwrap();
            let error = one.netlink(|netlink| netlink.delete_route(far, via)).unwrap_err();
            assert!(error.to_string().contains("No such process"), "{error}");
        });
    }

    #[test]
    fn an_interface_that_is_down_takes_its_routes_along() {
        in_a_network("an_interface_that_is_down_takes_its_routes_along", |inside| {
            let (one, _other) = pair(inside);
            let index = one.netlink(|netlink| netlink.index("a")).unwrap();
            one.netlink(|netlink| netlink.down(index)).unwrap();
            let refused = one.run(|| connect("10.77.0.2:9".parse().unwrap()).map(drop)).unwrap();
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(101));
            one.netlink(|netlink| netlink.delete(index)).unwrap();
            assert!(one.netlink(|netlink| netlink.index("a")).is_err());
        });
    }

    #[test]
    fn an_answer_that_is_cut_short_is_an_error() {
        let mut answer = vec![0; 20];
        answer[4] = 2;
        assert!(read_answer(&answer).is_ok());
        for length in 0..answer.len() {
            assert!(read_answer(&answer[..length]).is_err(), "{length}");
        }
        answer[16..20].copy_from_slice(&(-17_i32).to_ne_bytes());
        assert_eq!(read_answer(&answer).unwrap_err().raw_os_error(), Some(17));
        answer[4] = 3;
        assert!(read_answer(&answer).is_err());
    }
}
