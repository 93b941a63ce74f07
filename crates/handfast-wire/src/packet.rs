//! Fields read from an IP packet: to decide if a router would forward it, and the parts of TCP by which connections are
//! followed.
//!
//! In: the bytes of an IP packet, untrusted; a capture may have cut its end off. Out: values, which lend the packet's data;
//! nothing is kept. The library `etherparse` knows the headers.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, LaxIpSlice, PacketBuilder, TcpHeader, TcpOptionElement, TcpSlice};

/// Returns true if a packet would leave the cable that it was sent on. Packets to neighbours alone (multicast, broadcast,
/// link-local addresses) would not, nor would anything that is no IP packet.
pub fn crosses_routers(packet: &[u8]) -> bool {
    let Ok((ip, _)) = LaxIpSlice::from_slice(packet) else { return false };
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
    !local(ip.source_addr()) && !local(ip.destination_addr())
}

/// A segment of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Address of the sender.
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
    /// True if it has the option of time stamps, which takes 12 bytes of each segment (RFC 7323).
    pub stamped: bool,
}

/// Reads a packet as TCP. Fragments are not TCP here, nor is a header that a capture has cut.
pub fn segment(packet: &[u8]) -> Option<Segment<'_>> {
    let (ip, _) = LaxIpSlice::from_slice(packet).ok()?;
    let body = ip.payload();
    (body.ip_number == IpNumber::TCP && !body.fragmented).then_some(())?;
    let tcp = TcpSlice::from_slice(body.payload).ok()?;
    // Bytes that a capture has cut off were on the wire all the same.
    let length = match &ip {
        LaxIpSlice::Ipv4(ip) => usize::from(ip.header().total_len()),
        LaxIpSlice::Ipv6(ip) => 40 + usize::from(ip.header().payload_length()),
    };
    let missing = if body.incomplete { length.saturating_sub(packet.len()) } else { 0 };
    let (mut largest, mut stamped) = (None, false);
    for option in tcp.options_iterator().flatten() {
        match option {
            TcpOptionElement::MaximumSegmentSize(size) => largest = Some(size),
            TcpOptionElement::Timestamp(..) => stamped = true,
            _ => {}
        }
    }
    Some(Segment {
        from: SocketAddr::new(ip.source_addr(), tcp.source_port()),
        to: SocketAddr::new(ip.destination_addr(), tcp.destination_port()),
        fin: tcp.fin(),
        syn: tcp.syn(),
        reset: tcp.rst(),
        ack: tcp.ack(),
        sequence: tcp.sequence_number(),
        acknowledged: tcp.acknowledgment_number(),
        data: u32::try_from(tcp.payload().len() + missing).ok()?,
        payload: tcp.payload(),
        largest,
        stamped,
    })
}

/// A TCP segment as an IP packet, as tests and examples need it: `flags` as on the wire, a largest segment of 1,460 bytes, and time stamps.
///
/// **Panics**: on addresses of two versions, and on data that does not fit a packet.
pub fn tcp(
    from: SocketAddr,
    to: SocketAddr,
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    data: &[u8],
) -> Vec<u8> {
    let is_set = |flag: u8| flags & flag != 0;
    let mut header = TcpHeader::new(from.port(), to.port(), sequence, u16::MAX);
    header.acknowledgment_number = acknowledged;
    (header.fin, header.syn, header.rst) = (is_set(0x01), is_set(0x02), is_set(0x04));
    (header.psh, header.ack, header.urg) = (is_set(0x08), is_set(0x10), is_set(0x20));
    let noop = TcpOptionElement::Noop;
    let options =
        [TcpOptionElement::MaximumSegmentSize(1460), noop.clone(), noop, TcpOptionElement::Timestamp(0, 0)];
    header.set_options(&options).expect("16 of 40 bytes");
    let ip = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => panic!("{from} and {to}: two versions of IP"),
    };
    let mut packet = Vec::new();
    ip.tcp_header(header).write(&mut packet, data).expect("the data fits a packet");
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
            // Bytes that a capture has cut off were on the wire all the same.
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
