//! What is read of an IP packet: whether a router would pass it on, and the parts of TCP by which connections are followed.
//!
//! In: the bytes of an IP packet, untrusted; a capture may have cut its end off. Out: values, which lend the packet's data;
//! nothing is kept, and nothing is read past the end. Source: RFC 791, RFC 8200, RFC 9293.

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
pub struct Segment<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The destination.
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
    /// Bytes of data that it had on the wire.
    pub data: u32,
    /// Those of them that are here: fewer where a capture has cut the packet.
    pub payload: &'a [u8],
    /// The largest segment that its sender takes, where it announces one (RFC 9293 §3.7.1).
    pub largest: Option<u16>,
    /// Whether it has the option of time stamps, which takes 12 bytes of each segment (RFC 7323).
    pub stamped: bool,
}

/// Bytes of a TCP header without options.
const HEADER: usize = 20;

/// Reads a packet as TCP. Fragments are not TCP here.
pub fn segment(packet: &[u8]) -> Option<Segment<'_>> {
    let (from, to) = addresses(packet)?;
    let (start, end) = match packet.first()? >> 4 {
        4 => transport_of_v4(packet)?,
        _ => transport_of_v6(packet)?,
    };
    let header = packet.get(start..start.checked_add(HEADER)?)?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let flags = header[13];
    let data_at = start + (usize::from(header[12] >> 4) * 4).max(HEADER);
    let data = end.checked_sub(data_at)?;
    let (largest, stamped) =
        options(packet.get(start + HEADER..data_at.min(packet.len())).unwrap_or_default());
    Some(Segment {
        from: SocketAddr::new(from, port(0)),
        to: SocketAddr::new(to, port(2)),
        fin: flags & 0x01 != 0,
        syn: flags & 0x02 != 0,
        reset: flags & 0x04 != 0,
        ack: flags & 0x10 != 0,
        sequence: word(4),
        acknowledged: word(8),
        data: u32::try_from(data).ok()?,
        payload: packet.get(data_at..end.min(packet.len())).unwrap_or_default(),
        largest,
        stamped,
    })
}

const TCP: u8 = 6;

/// Where TCP begins and ends in a packet of IPv4.
fn transport_of_v4(packet: &[u8]) -> Option<(usize, usize)> {
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
    (*packet.get(9)? == TCP && fragment == 0).then_some(())?;
    // A packet that the card is to cut into segments may have no length yet.
    let end = match usize::from(u16::from_be_bytes([packet[2], packet[3]])) {
        0 => packet.len(),
        total => total,
    };
    Some((usize::from(packet[0] & 0xf) * 4, end))
}

/// The same of IPv6, behind extension headers (RFC 8200 §4).
fn transport_of_v6(packet: &[u8]) -> Option<(usize, usize)> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const DESTINATION: u8 = 60;
    /// More than any honest packet has.
    const MOST: usize = 8;
    let end = match usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?])) {
        0 => packet.len(),
        payload => 40 + payload,
    };
    let (mut next, mut at) = (*packet.get(6)?, 40);
    for _ in 0..MOST {
        match next {
            TCP => return Some((at, end)),
            HOP_BY_HOP | ROUTING | DESTINATION => {
                next = *packet.get(at)?;
                at += (usize::from(*packet.get(at + 1)?) + 1) * 8;
            }
            _ => return None,
        }
    }
    None
}

/// The largest segment, and whether there are time stamps.
fn options(mut bytes: &[u8]) -> (Option<u16>, bool) {
    let (mut largest, mut stamped) = (None, false);
    while let Some((kind, rest)) = bytes.split_first() {
        match kind {
            0 => break,
            1 => {
                bytes = rest;
                continue;
            }
            _ => {}
        }
        let Some(body) = rest.first().and_then(|length| bytes.get(2..usize::from(*length))) else { break };
        match (kind, body) {
            (2, [high, low]) => largest = Some(u16::from_be_bytes([*high, *low])),
            (8, _) => stamped = true,
            _ => {}
        }
        bytes = &bytes[body.len() + 2..];
    }
    (largest, stamped)
}

/// A TCP segment as an IP packet, as tests and examples need it: `flags` as on the wire, time stamps, and no checksums.
pub fn tcp(
    from: SocketAddr,
    to: SocketAddr,
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    data: &[u8],
) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend_from_slice(&from.port().to_be_bytes());
    segment.extend_from_slice(&to.port().to_be_bytes());
    segment.extend_from_slice(&sequence.to_be_bytes());
    segment.extend_from_slice(&acknowledged.to_be_bytes());
    segment.extend_from_slice(&[0x90, flags, 0xff, 0xff, 0, 0, 0, 0]);
    // The largest segment, and time stamps.
    segment.extend_from_slice(&[2, 4, 0x05, 0xb4, 1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]);
    segment.extend_from_slice(data);
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(0).to_be_bytes();
    let mut packet = Vec::new();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend_from_slice(&[0x45, 0]);
            packet.extend_from_slice(&length(20 + segment.len()));
            packet.extend_from_slice(&[0, 0, 0x40, 0, 64, TCP, 0, 0]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
        }
        (from, to) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            packet.extend_from_slice(&[0x60, 0, 0, 0]);
            packet.extend_from_slice(&length(segment.len()));
            packet.extend_from_slice(&[TCP, 64]);
            packet.extend_from_slice(&octets(from));
            packet.extend_from_slice(&octets(to));
        }
    }
    packet.extend_from_slice(&segment);
    packet
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(v6: bool, flags: u8, data: &[u8]) -> Vec<u8> {
        let (from, to) = match v6 {
            true => ("[fd77::1]:40000", "[fd77::2]:443"),
            false => ("10.77.0.1:40000", "10.77.0.2:443"),
        };
        tcp(from.parse().expect("an address"), to.parse().expect("an address"), flags, 7, 8, data)
    }

    #[test]
    fn a_segment_is_read_over_both_versions() {
        for (v6, from) in [(false, "10.77.0.1:40000"), (true, "[fd77::1]:40000")] {
            let packet = made(v6, 0x12, b"hello");
            let segment = segment(&packet).expect("it is TCP");
            assert_eq!((segment.from, segment.to.port()), (from.parse().unwrap(), 443));
            assert_eq!((segment.sequence, segment.acknowledged, segment.data), (7, 8, 5));
            assert_eq!(
                (segment.payload, segment.largest, segment.stamped),
                (&b"hello"[..], Some(1460), true)
            );
            assert!(segment.syn && segment.ack && !segment.fin && !segment.reset);
            assert!(crosses_routers(&packet));
            // Padding behind the packet is none of it.
            let padded = [&packet[..], &[0; 9]].concat();
            assert_eq!(super::segment(&padded), Some(segment));
            // What a capture has cut off was on the wire all the same.
            let cut = super::segment(&packet[..packet.len() - 3]).expect("its header is whole");
            assert_eq!((cut.data, cut.payload), (5, &b"he"[..]));
        }
    }

    #[test]
    fn every_flag_and_every_byte_of_a_number_is_read() {
        let (from, to) = ("10.77.0.1:40000".parse().unwrap(), "10.77.0.2:443".parse().unwrap());
        for flags in [0x01, 0x02, 0x04, 0x10, 0x28] {
            let packet = tcp(from, to, flags, 0x0102_0304, 0x0506_0708, b"");
            let segment = segment(&packet).expect("it is TCP");
            assert_eq!((segment.sequence, segment.acknowledged), (0x0102_0304, 0x0506_0708));
            let read = (segment.fin, segment.syn, segment.reset, segment.ack);
            assert_eq!(read, (flags == 1, flags == 2, flags == 4, flags == 0x10), "{flags:#x}");
        }
    }

    #[test]
    fn options_end_where_they_say() {
        assert_eq!(options(&[1, 1, 2, 4, 0x05, 0xb4, 8, 2]), (Some(1460), true));
        // Behind the end stands padding, whatever it looks like.
        assert_eq!(options(&[0, 2, 2, 4, 0x05, 0xb4]), (None, false));
        assert_eq!(options(&[8, 2, 0, 2, 2, 4, 0x05, 0xb4]), (None, true));
    }

    #[test]
    fn extension_headers_are_stepped_over_and_fragments_are_not_read() {
        let mut packet = made(true, 0x10, b"hello");
        packet[6] = 0;
        packet.splice(40..40, [60, 0, 0, 0, 0, 0, 0, 0, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        packet[5] += 24;
        assert_eq!(segment(&packet).map(|segment| segment.payload), Some(&b"hello"[..]));
        packet[40] = 44;
        assert_eq!(segment(&packet), None);
        let mut packet = made(false, 0x10, b"hello");
        packet[6] = 0x20;
        assert_eq!(segment(&packet), None);
        // Without a length, what is there counts.
        let mut packet = made(false, 0x10, b"hello");
        packet[2..4].fill(0);
        assert_eq!(segment(&packet).map(|segment| segment.data), Some(5));
    }

    #[test]
    fn what_is_for_neighbours_stays_on_its_cable() {
        let mut packet = made(false, 0, b"");
        packet[16..20].copy_from_slice(&[224, 0, 0, 22]);
        assert!(!crosses_routers(&packet));
        let mut packet = made(true, 0, b"");
        packet[8] = 0xfe;
        packet[9] = 0x80;
        assert!(!crosses_routers(&packet));
        assert!(!crosses_routers(&[0; 40]));
    }

    proptest! {
        #[test]
        fn no_packet_is_read_past_its_end(v6: bool, cut in 0_usize..90, at in 0_usize..90, byte: u8) {
            let mut packet = made(v6, 0x10, b"data");
            let at = at % packet.len();
            packet[at] = byte;
            packet.truncate(cut);
            let _ = (crosses_routers(&packet), segment(&packet));
        }
    }
}
