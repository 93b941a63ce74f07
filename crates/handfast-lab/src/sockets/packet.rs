//! One IPv4 packet with TCP in it: what it says, and the two answers that something on its way may give in another's name.
//!
//! In: the bytes of a packet. Out: what it is, a reset, or an ICMP error. No I/O. Anything else than whole, unfragmented TCP
//! over IPv4 is no [`Packet`].

use std::net::Ipv4Addr;

/// Shortest IPv4 header, and shortest TCP header.
const HEADER: usize = 20;
const TCP: u8 = 6;
const ICMP: u8 = 1;
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
    /// Reads a packet; `None`: not TCP over IPv4, a fragment, or cut off.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let tcp = usize::from(first & 0x0f) * 4;
        let whole = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        let fragment = u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]) & 0x3fff;
        if first >> 4 != 4 || tcp < HEADER || *bytes.get(9)? != TCP || fragment != 0 {
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
    pub(super) fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.quad(12))
    }

    /// Whom it is for.
    pub(super) fn target(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.quad(16))
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

    /// A reset in the name of the one whom it was for, which its sender believes.
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
        // The pseudo header: addresses, protocol, length.
        let mut covered = Vec::with_capacity(2 * HEADER);
        covered.extend_from_slice(&self.quad(16));
        covered.extend_from_slice(&self.quad(12));
        covered.extend_from_slice(&[0, TCP, 0, HEADER as u8]);
        covered.extend_from_slice(&tcp);
        tcp[16..18].copy_from_slice(&checksum(&covered).to_be_bytes());
        datagram(self.target(), self.source(), TCP, &tcp)
    }

    /// An ICMP error about it from `router`: destination unreachable with this code; `next_hop` is the size that would fit,
    /// which only code 4 means.
    ///
    /// **Source**: RFC 792, destination unreachable; RFC 1191 section 4 (next-hop MTU).
    pub(super) fn unreachable(&self, router: Ipv4Addr, code: u8, next_hop: u16) -> Vec<u8> {
        const DESTINATION_UNREACHABLE: u8 = 3;
        let mut message = vec![DESTINATION_UNREACHABLE, code, 0, 0, 0, 0];
        message.extend_from_slice(&next_hop.to_be_bytes());
        // The whole header and the first eight bytes behind it are all that the receiver needs.
        message.extend_from_slice(&self.bytes[..self.tcp + 8]);
        let sum = checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        datagram(router, self.source(), ICMP, &message)
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

fn datagram(source: Ipv4Addr, target: Ipv4Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x40, 0, LIFETIME, protocol, 0, 0]);
    bytes.extend_from_slice(&source.octets());
    bytes.extend_from_slice(&target.octets());
    let sum = checksum(&bytes).to_be_bytes();
    bytes[10..12].copy_from_slice(&sum);
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

    /// A SYN of 192.0.2.1:0x1234 to 192.0.2.2:0x5678, number 7, without options.
    fn syn() -> Vec<u8> {
        let tcp = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, SYN, 0x10, 0, 0, 0, 0, 0];
        datagram(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2), TCP, &tcp)
    }

    #[test]
    fn a_reset_answers_in_the_targets_name_and_its_sums_are_right() {
        let bytes = syn();
        let reset = Packet::read(&bytes).expect("a SYN").reset();
        let answer = Packet::read(&reset).expect("a reset");
        assert!(answer.is_reset() && !answer.is_fin());
        assert_eq!((answer.source().octets()[3], answer.target().octets()[3]), (2, 1));
        assert_eq!(answer.quad(answer.tcp + 8), [0, 0, 0, 8], "it acknowledges the SYN");
        assert_eq!(checksum(&reset[..HEADER]), 0);
        let mut covered = reset[12..20].to_vec();
        covered.extend_from_slice(&[0, TCP, 0, HEADER as u8]);
        covered.extend_from_slice(&reset[HEADER..]);
        assert_eq!(checksum(&covered), 0);
    }

    #[test]
    fn an_icmp_error_quotes_what_it_is_about() {
        let bytes = syn();
        let error = Packet::read(&bytes).expect("a SYN").unreachable(Ipv4Addr::new(192, 0, 2, 9), 4, 1300);
        assert_eq!(error[HEADER..HEADER + 2], [3, 4]);
        assert_eq!(error[HEADER + 6..HEADER + 8], 1300_u16.to_be_bytes());
        assert_eq!(error[HEADER + 8..], bytes[..HEADER + 8]);
        assert_eq!((checksum(&error[..HEADER]), checksum(&error[HEADER..])), (0, 0));
        assert!(Packet::read(&error).is_none(), "it is no TCP");
    }

    #[test]
    fn what_is_cut_off_or_strange_is_no_packet() {
        let bytes = syn();
        for end in 0..bytes.len() {
            assert!(Packet::read(&bytes[..end]).is_none(), "{end} bytes of it");
        }
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut changed = bytes.clone();
                changed[at] = value;
                // Whatever it says, answering must not panic.
                if let Some(packet) = Packet::read(&changed) {
                    let _ = (packet.reset(), packet.unreachable(packet.source(), 1, 0), packet.is_full());
                }
            }
        }
    }
}
