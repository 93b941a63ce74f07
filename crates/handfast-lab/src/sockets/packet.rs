//! One packet with TCP in it: what it says, and the two answers that something on its way may give in another's name.
//!
//! In: the bytes of a packet. Out: what it is, a reset, or an ICMP error. No I/O. Anything else than whole, unfragmented TCP
//! directly behind the header of IPv4 or IPv6 is no [`Packet`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{IpHeaders, IpNumber, IpSlice, PacketBuilder, PacketBuilderStep, TcpSlice};

/// The least that every path of IPv6 carries (RFC 8200 section 5), which no ICMP error may be larger than (RFC 4443 section 2.4).
const MIN_MTU_V6: usize = 1_280;
/// Bytes of the header of IPv6, and of that with ICMPv6.
const HEADER_V6: usize = 40;
const HEADERS_V6: usize = HEADER_V6 + 8;
/// Time to live of a packet made here.
const LIFETIME: u8 = 64;

/// A packet's addresses and TCP header.
#[derive(Clone, Debug)]
pub(super) struct Packet<'a> {
    bytes: &'a [u8],
    ip: IpSlice<'a>,
    tcp: TcpSlice<'a>,
}

impl<'a> Packet<'a> {
    /// Reads a packet; `None`: not TCP, a fragment, or cut off.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let ip = IpSlice::from_slice(bytes).ok()?;
        let body = ip.payload();
        if body.ip_number != IpNumber::TCP || body.fragmented {
            return None;
        }
        let tcp = TcpSlice::from_slice(body.payload).ok()?;
        let whole = match &ip {
            IpSlice::Ipv4(ip) => usize::from(ip.header().total_len()),
            IpSlice::Ipv6(ip) => HEADER_V6 + usize::from(ip.header().payload_length()),
        };
        Some(Self { bytes: bytes.get(..whole)?, tcp, ip })
    }

    /// The sender.
    pub(super) fn source(&self) -> IpAddr {
        self.ip.source_addr()
    }

    /// The receiver.
    pub(super) fn target(&self) -> IpAddr {
        self.ip.destination_addr()
    }

    /// Returns true if it carries a FIN.
    pub(super) fn is_fin(&self) -> bool {
        self.tcp.fin()
    }

    /// Returns true if it is a reset.
    pub(super) fn is_reset(&self) -> bool {
        self.tcp.rst()
    }

    /// Returns true if it acknowledges with a window of zero: there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.tcp.ack() && !self.tcp.rst() && !self.tcp.syn() && self.tcp.window_size() == 0
    }

    /// A reset in the name of its receiver, which its sender believes.
    ///
    /// **Source**: RFC 9293 section 3.5.2, reset generation.
    pub(super) fn reset(&self) -> Vec<u8> {
        let tcp = &self.tcp;
        let counted = tcp.payload().len() as u32 + u32::from(tcp.syn() || tcp.fin());
        let next = tcp.sequence_number().wrapping_add(counted);
        // From where its sender expects our side's next byte, and acknowledging everything: within its window
        // whatever it is.
        let number = if tcp.ack() { tcp.acknowledgment_number() } else { 0 };
        let ports = (tcp.destination_port(), tcp.source_port());
        let reset = datagram(self.target(), self.source()).tcp(ports.0, ports.1, number, 0).rst().ack(next);
        let mut bytes = Vec::with_capacity(reset.size(0));
        reset.write(&mut bytes, &[]).expect("it is short");
        bytes
    }

    /// An ICMP error about it from a router with the same version of IP: destination unreachable with this code, whose meaning is
    /// another one in IPv6; `next_hop` is the size that would fit, which only code 4 of IPv4 means.
    ///
    /// **Source**: RFC 792, destination unreachable; RFC 1191 section 4 (next-hop MTU); RFC 4443 section 3.1.
    pub(super) fn unreachable(&self, routers: (Ipv4Addr, Ipv6Addr), code: u8, next_hop: u16) -> Vec<u8> {
        const UNREACHABLE: u8 = 3;
        const UNREACHABLE_V6: u8 = 1;
        let mut bytes = Vec::new();
        let written = match &self.ip {
            IpSlice::Ipv4(ip) => {
                let [high, low] = next_hop.to_be_bytes();
                // The whole header and the first eight bytes behind it are all that the receiver needs.
                let quoted = &self.bytes[..ip.header().slice().len() + 8];
                let error = datagram(routers.0.into(), self.source());
                error.icmpv4_raw(UNREACHABLE, code, [0, 0, high, low]).write(&mut bytes, quoted)
            }
            IpSlice::Ipv6(_) => {
                // As much of it as fits.
                let quoted = &self.bytes[..self.bytes.len().min(MIN_MTU_V6 - HEADERS_V6)];
                let error = datagram(routers.1.into(), self.source());
                error.icmpv6_raw(UNREACHABLE_V6, code, [0; 4]).write(&mut bytes, quoted)
            }
        };
        written.expect("it is short");
        bytes
    }
}

/// The header of a packet between two addresses of one version of IP.
fn datagram(source: IpAddr, target: IpAddr) -> PacketBuilderStep<IpHeaders> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            PacketBuilder::ipv4(source.octets(), target.octets(), LIFETIME)
        }
        (source, target) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            PacketBuilder::ipv6(octets(source), octets(target), LIFETIME)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTERS: (Ipv4Addr, Ipv6Addr) =
        (Ipv4Addr::new(192, 0, 2, 9), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9));

    /// SYNs from port 0x1234 to 0x5678, number 7, without options, in both versions of IP.
    fn syns() -> [Vec<u8>; 2] {
        let address = |text: &str| text.parse().expect("an address");
        [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")].map(|(from, to)| {
            let syn = datagram(address(from), address(to)).tcp(0x1234, 0x5678, 7, 0x1000).syn();
            let mut bytes = Vec::new();
            syn.write(&mut bytes, &[]).expect("a SYN");
            bytes
        })
    }

    #[test]
    fn a_reset_answers_in_the_targets_name() {
        for bytes in syns() {
            let syn = Packet::read(&bytes).expect("a SYN");
            let reset = syn.reset();
            let answer = Packet::read(&reset).expect("a reset");
            assert!(answer.is_reset() && !answer.is_fin());
            assert_eq!((answer.source(), answer.target()), (syn.target(), syn.source()));
            assert_eq!((answer.tcp.source_port(), answer.tcp.destination_port()), (0x5678, 0x1234));
            assert_eq!(answer.tcp.acknowledgment_number(), 8, "it acknowledges the SYN");
        }
    }

    #[test]
    fn an_icmp_error_quotes_what_it_is_about() {
        let [v4, v6] = syns();
        let error = Packet::read(&v4).expect("a SYN").unreachable(ROUTERS, 4, 1300);
        assert_eq!(error[20..22], [3, 4]);
        assert_eq!(error[26..28], 1300_u16.to_be_bytes());
        assert_eq!(error[28..], v4[..28]);
        assert!(Packet::read(&error).is_none(), "it is no TCP");

        let error = Packet::read(&v6).expect("a SYN").unreachable(ROUTERS, 3, 1300);
        assert_eq!(error[40..42], [1, 3]);
        assert_eq!(error[44..48], [0; 4]);
        assert_eq!(error[48..], v6);
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
