//! What the lab reads of a packet: whether a router would pass it on, and the parts of TCP that handshakes are counted by.
//!
//! In: the bytes of an IP packet, from anybody. Out: values; nothing is kept, and nothing is read past the end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether a packet would leave the cable that it was sent on: what hosts say to their neighbours alone (multicast, broadcast,
/// link-local addresses) would not, and is no IP packet otherwise.
pub fn crosses_routers(packet: &[u8]) -> bool {
    let Some((from, to)) = addresses(packet) else { return false };
    let local = |address: IpAddr| match address {
        IpAddr::V4(address) => {
            address.is_multicast()
                || address.is_broadcast()
                || address.is_link_local()
                || address.is_unspecified()
        }
        IpAddr::V6(address) => {
            address.is_multicast() || address.is_unicast_link_local() || address.is_unspecified()
        }
    };
    !local(from) && !local(to)
}

/// Source and destination.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let read = |at: usize| {
                let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(octets)))
            };
            Some((read(12)?, read(16)?))
        }
        6 => {
            let read = |at: usize| {
                let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            };
            Some((read(8)?, read(24)?))
        }
        _ => None,
    }
}

/// A segment of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// SYN.
    pub syn: bool,
    /// ACK.
    pub ack: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub reset: bool,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// The next byte that its sender expects.
    pub acknowledged: u32,
    /// Bytes of data in it.
    pub data: u32,
}

/// Reads a packet as TCP. Fragments and IPv6 extension headers, which the lab's hosts do not send, are not TCP here.
pub fn segment(packet: &[u8]) -> Option<Segment> {
    const TCP: u8 = 6;
    let (from, to) = addresses(packet)?;
    let (start, end) = match packet.first()? >> 4 {
        4 => {
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
            let total = u16::from_be_bytes([packet[2], packet[3]]);
            (*packet.get(9)? == TCP && fragment == 0).then_some(())?;
            (usize::from(packet[0] & 0xf) * 4, usize::from(total))
        }
        _ => {
            let payload = u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]);
            (*packet.get(6)? == TCP).then_some(())?;
            (40, 40 + usize::from(payload))
        }
    };
    let header = packet.get(start..end.min(packet.len()))?;
    let word = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let port = |at: usize| Some(u16::from_be_bytes(header.get(at..at + 2)?.try_into().ok()?));
    let flags = *header.get(13)?;
    let length = usize::from(header[12] >> 4) * 4;
    let data = header.len().checked_sub(length.max(20))?;
    Some(Segment {
        from: SocketAddr::new(from, port(0)?),
        to: SocketAddr::new(to, port(2)?),
        fin: flags & 0x01 != 0,
        syn: flags & 0x02 != 0,
        reset: flags & 0x04 != 0,
        ack: flags & 0x10 != 0,
        sequence: word(4)?,
        acknowledged: word(8)?,
        data: u32::try_from(data).ok()?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A TCP segment over IPv4 or IPv6.
    pub(crate) fn tcp(v6: bool, flags: u8, sequence: u32, acknowledged: u32, data: &[u8]) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend_from_slice(&40_000_u16.to_be_bytes());
        segment.extend_from_slice(&443_u16.to_be_bytes());
        segment.extend_from_slice(&sequence.to_be_bytes());
        segment.extend_from_slice(&acknowledged.to_be_bytes());
        segment.extend_from_slice(&[0x80, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend_from_slice(&[1; 12]);
        segment.extend_from_slice(data);
        let mut packet = if v6 {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend_from_slice(&(segment.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[6, 64]);
            packet.extend_from_slice(&Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1).octets());
            packet.extend_from_slice(&Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2).octets());
            packet
        } else {
            let mut packet = vec![0x45, 0];
            packet.extend_from_slice(&(20 + segment.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
            packet
        };
        packet.extend_from_slice(&segment);
        packet
    }

    #[test]
    fn a_segment_is_read_over_both_versions() {
        for (v6, from) in [(false, "10.77.0.1:40000"), (true, "[fd77::1]:40000")] {
            let packet = tcp(v6, 0x12, 7, 8, b"hello");
            let segment = segment(&packet).expect("it is TCP");
            assert_eq!((segment.from, segment.to.port()), (from.parse().unwrap(), 443));
            assert_eq!((segment.sequence, segment.acknowledged, segment.data), (7, 8, 5));
            assert!(segment.syn && segment.ack && !segment.fin && !segment.reset);
            assert!(crosses_routers(&packet));
            // Padding behind the packet is none of it.
            let padded = [&packet[..], &[0; 9]].concat();
            assert_eq!(super::segment(&padded), Some(segment));
        }
    }

    #[test]
    fn what_is_for_neighbours_stays_on_its_cable() {
        let mut packet = tcp(false, 0, 0, 0, b"");
        packet[16..20].copy_from_slice(&[224, 0, 0, 22]);
        assert!(!crosses_routers(&packet));
        let mut packet = tcp(true, 0, 0, 0, b"");
        packet[8] = 0xfe;
        packet[9] = 0x80;
        assert!(!crosses_routers(&packet));
        assert!(!crosses_routers(&[0; 40]));
    }

    proptest! {
        #[test]
        fn no_packet_is_read_past_its_end(v6: bool, cut in 0_usize..80, at in 0_usize..80, byte: u8) {
            let mut packet = tcp(v6, 0x10, 1, 2, b"data");
            let at = at % packet.len();
            packet[at] = byte;
            packet.truncate(cut);
            let _ = (crosses_routers(&packet), segment(&packet));
        }
    }
}
