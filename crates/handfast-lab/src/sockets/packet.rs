//! One packet with TCP in it: what it says, and the two answers that something on its way may give in another's name.
//!
//! In: the bytes of a packet. Out: what it is, a reset, or an ICMP error. No I/O. Anything else than whole, unfragmented TCP
//! directly behind the header of IPv4 or IPv6 is no [`Packet`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Shortest IPv4 header, and shortest TCP header.
const HEADER: usize = 20;
/// The header of IPv6.
const HEADER_V6: usize = 40;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// The least that every path of IPv6 carries (RFC 8200 section 5), which no ICMP error may be larger than (RFC 4443 section 2.4).
const LEAST_MTU_V6: usize = 1_280;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// Time to live of a packet made here.
const LIFETIME: u8 = 64;

/// A packet's addresses and TCP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    bytes: &'a [u8],
    /// Where the TCP header begins.
    tcp: usize,
    /// Where the data begins.
    data: usize,
}

impl<'a> Packet<'a> {
    /// Reads a packet; `None`: not TCP, a fragment, or cut off.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let pair = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let first = *bytes.first()?;
        let (protocol, tcp, whole) = match first >> 4 {
            4 if pair(6)? & 0x3fff == 0 => {
                (*bytes.get(9)?, usize::from(first & 0x0f) * 4, usize::from(pair(2)?))
            }
            6 => (*bytes.get(6)?, HEADER_V6, HEADER_V6 + usize::from(pair(4)?)),
            _ => return None,
        };
        if tcp < HEADER || protocol != TCP {
            return None;
        }
        let bytes = bytes.get(..whole)?;
        let data = tcp + usize::from(*bytes.get(tcp + 12)? >> 4) * 4;
        if data < tcp + HEADER || data > whole {
            return None;
        }
        Some(Self { bytes, tcp, data })
    }

    /// Who sent it.
    pub(super) fn source(&self) -> IpAddr {
        self.addresses().0
    }

    /// The receiver.
    pub(super) fn target(&self) -> IpAddr {
        self.addresses().1
    }

    fn addresses(&self) -> (IpAddr, IpAddr) {
        if self.is_v6() {
            (self.sixteen(8).into(), self.sixteen(24).into())
        } else {
            (Ipv4Addr::from(self.quad(12)).into(), Ipv4Addr::from(self.quad(16)).into())
        }
    }

    fn is_v6(&self) -> bool {
        self.bytes[0] >> 4 == 6
    }

    fn sixteen(&self, at: usize) -> Ipv6Addr {
        std::array::from_fn::<u8, 16, _>(|byte| self.bytes[at + byte]).into()
    }

    /// Whether it carries a FIN.
    pub(super) fn is_fin(&self) -> bool {
        self.flags() & FIN != 0
    }

    /// Whether it is a reset.
    pub(super) fn is_reset(&self) -> bool {
        self.flags() & RST != 0
    }

    /// Whether it acknowledges and says that there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.flags() & (ACK | RST | SYN) == ACK && self.pair(self.tcp + 14) == [0, 0]
    }

    /// A reset in the name of its receiver, which its sender believes.
    ///
    /// **Source**: RFC 9293 section 3.5.2, reset generation.
    pub(super) fn reset(&self) -> Vec<u8> {
        let flags = self.flags();
        let counted = (self.bytes.len() - self.data) as u32 + u32::from(flags & (SYN | FIN) != 0);
        let next = u32::from_be_bytes(self.quad(self.tcp + 4)).wrapping_add(counted);
        let (number, acknowledged, flags) = match flags & ACK != 0 {
            // From where its sender expects our side's next byte, and acknowledging everything: within its window
            // whatever it is.
            true => (self.quad(self.tcp + 8), next, RST | ACK),
            false => ([0; 4], next, RST | ACK),
        };
        let mut tcp = Vec::with_capacity(HEADER);
        tcp.extend_from_slice(&self.pair(self.tcp + 2));
        tcp.extend_from_slice(&self.pair(self.tcp));
        tcp.extend_from_slice(&number);
        tcp.extend_from_slice(&acknowledged.to_be_bytes());
        tcp.extend_from_slice(&[0x50, flags, 0, 0, 0, 0, 0, 0]);
        let sum =
            checksum(&[pseudo_header(self.target(), self.source(), TCP, tcp.len()), tcp.clone()].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        datagram(self.target(), self.source(), TCP, &tcp)
    }

    /// An ICMP error about it from a router with the same version of IP: destination unreachable with this code, whose meaning is
    /// another one in IPv6; `next_hop` is the size that would fit, which only code 4 of IPv4 means.
    ///
    /// **Source**: RFC 792, destination unreachable; RFC 1191 section 4 (next-hop MTU); RFC 4443 section 3.1.
    pub(super) fn unreachable(&self, routers: (Ipv4Addr, Ipv6Addr), code: u8, next_hop: u16) -> Vec<u8> {
        const UNREACHABLE: u8 = 3;
        const UNREACHABLE_V6: u8 = 1;
        if self.is_v6() {
            let router = routers.1.into();
            let mut message = vec![UNREACHABLE_V6, code, 0, 0, 0, 0, 0, 0];
            // As much of it as fits.
            message.extend(self.bytes.iter().take(LEAST_MTU_V6 - HEADER_V6 - 8));
            let header = pseudo_header(router, self.source(), ICMP_V6, message.len());
            let sum = checksum(&[header, message.clone()].concat()).to_be_bytes();
            message[2..4].copy_from_slice(&sum);
            return datagram(router, self.source(), ICMP_V6, &message);
        }
        let mut message = vec![UNREACHABLE, code, 0, 0, 0, 0];
        message.extend_from_slice(&next_hop.to_be_bytes());
        // The whole header and the first eight bytes behind it are all that the receiver needs.
        message.extend_from_slice(&self.bytes[..self.tcp + 8]);
        let sum = checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        datagram(routers.0.into(), self.source(), ICMP, &message)
    }

    fn flags(&self) -> u8 {
        self.bytes[self.tcp + 13]
    }

    fn pair(&self, at: usize) -> [u8; 2] {
        [self.bytes[at], self.bytes[at + 1]]
    }

    fn quad(&self, at: usize) -> [u8; 4] {
        [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]]
    }
}

/// What the sum of TCP and of ICMPv6 covers besides: addresses, protocol, length (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn pseudo_header(source: IpAddr, target: IpAddr, protocol: u8, length: usize) -> Vec<u8> {
    let mut covered = [octets(source), octets(target)].concat();
    // In IPv6 the length is longer, and stands before the protocol: a sum of 16-bit words is the same.
    covered.extend_from_slice(&[0, protocol]);
    covered.extend_from_slice(&(length as u16).to_be_bytes());
    covered
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn datagram(source: IpAddr, target: IpAddr, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = if source.is_ipv6() {
        let length = (body.len() as u16).to_be_bytes();
        vec![0x60, 0, 0, 0, length[0], length[1], protocol, LIFETIME]
    } else {
        let length = ((HEADER + body.len()) as u16).to_be_bytes();
        vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, LIFETIME, protocol, 0, 0]
    };
    bytes.extend_from_slice(&octets(source));
    bytes.extend_from_slice(&octets(target));
    if source.is_ipv4() {
        let sum = checksum(&bytes).to_be_bytes();
        bytes[10..12].copy_from_slice(&sum);
    }
    bytes.extend_from_slice(body);
    bytes
}

/// The Internet checksum (RFC 1071 section 1).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |two: &[u8]| u32::from(two[0]) << 8 | u32::from(two.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTERS: (Ipv4Addr, Ipv6Addr) =
        (Ipv4Addr::new(192, 0, 2, 9), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9));

    /// SYNs from port 0x1234 to 0x5678, number 7, without options, in both versions of IP.
    fn syns() -> [Vec<u8>; 2] {
        let tcp = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, SYN, 0x10, 0, 0, 0, 0, 0];
        let address = |text: &str| text.parse().expect("an address");
        [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")]
            .map(|(from, to)| datagram(address(from), address(to), TCP, &tcp))
    }

    #[test]
    fn a_reset_answers_in_the_targets_name_and_its_sums_are_right() {
        for bytes in syns() {
            let syn = Packet::read(&bytes).expect("a SYN");
            let reset = syn.reset();
            let answer = Packet::read(&reset).expect("a reset");
            assert!(answer.is_reset() && !answer.is_fin());
            assert_eq!((answer.source(), answer.target()), (syn.target(), syn.source()));
            assert_eq!(answer.quad(answer.tcp + 8), [0, 0, 0, 8], "it acknowledges the SYN");
            if !answer.is_v6() {
                assert_eq!(checksum(&reset[..HEADER]), 0);
            }
            let header = pseudo_header(answer.source(), answer.target(), TCP, HEADER);
            assert_eq!(checksum(&[&header, &reset[answer.tcp..]].concat()), 0);
        }
    }

    #[test]
    fn an_icmp_error_quotes_what_it_is_about() {
        let [v4, v6] = syns();
        let error = Packet::read(&v4).expect("a SYN").unreachable(ROUTERS, 4, 1300);
        assert_eq!(error[HEADER..HEADER + 2], [3, 4]);
        assert_eq!(error[HEADER + 6..HEADER + 8], 1300_u16.to_be_bytes());
        assert_eq!(error[HEADER + 8..], v4[..HEADER + 8]);
        assert_eq!((checksum(&error[..HEADER]), checksum(&error[HEADER..])), (0, 0));
        assert!(Packet::read(&error).is_none(), "it is no TCP");

        let syn = Packet::read(&v6).expect("a SYN");
        let error = syn.unreachable(ROUTERS, 3, 1300);
        assert_eq!(error[HEADER_V6..HEADER_V6 + 2], [1, 3]);
        assert_eq!(error[HEADER_V6 + 4..HEADER_V6 + 8], [0; 4]);
        assert_eq!(error[HEADER_V6 + 8..], v6);
        let header = pseudo_header(ROUTERS.1.into(), syn.source(), ICMP_V6, error.len() - HEADER_V6);
        assert_eq!(checksum(&[&header, &error[HEADER_V6..]].concat()), 0);
        assert!(Packet::read(&error).is_none(), "it is no TCP");
    }

    #[test]
    fn what_is_cut_off_or_strange_is_no_packet() {
        for bytes in syns() {
            for end in 0..bytes.len() {
                assert!(Packet::read(&bytes[..end]).is_none(), "{end} bytes of it");
            }
            for at in 0..bytes.len() {
                for value in 0..=u8::MAX {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    // Whatever it says, answering must not panic.
                    if let Some(packet) = Packet::read(&changed) {
                        let _ = (packet.reset(), packet.unreachable(ROUTERS, 1, 0), packet.is_full());
                    }
                }
            }
        }
    }
}
