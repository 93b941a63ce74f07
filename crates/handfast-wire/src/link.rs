//! From a frame of a capture to the IP packet in it.
//!
//! In: a link type (the registry of draft-ietf-opsawg-pcaplinktype) and a frame, untrusted. Out: the packet, lent. Known are those
//! that captures of TLS have: Ethernet with VLAN tags, Linux cooked (both), raw IP, loopback.

/// An IP packet without anything before it.
pub const RAW: u16 = 101;

/// The IP packet in a frame; `None` where it has none, where the link type is not known, and of a packet that Linux shows
/// twice on its loopback the one that goes out.
pub fn ip_packet(link: u16, frame: &[u8]) -> Option<&[u8]> {
    match link {
        // Ethernet: two addresses, and what follows.
        1 => behind_tags(frame, 12),
        // Loopback of BSD: the address family, in the byte order of the machine that captured; and IP with other headers.
        0 | 108 => ip(frame.get(4..)?),
        12 | 14 | RAW | 228 | 229 => ip(frame),
        // Linux cooked: direction, kind of device, address, and what follows.
        113 => cooked(frame, frame.get(..2)?, frame.get(2..4)?, 14),
        // The second version begins with what follows.
        276 => {
            let (kind, direction) = (frame.get(8..10)?, [0, *frame.get(10)?]);
            let ether_type = frame.get(..2)?;
            (!shown_twice(&direction, kind)).then_some(())?;
            match ether_type {
                [0x81, 0] | [0x88, 0xa8] => behind_tags(frame, 20 + 2),
                _ => ip(frame.get(20..)?),
            }
        }
        _ => None,
    }
}

/// Returns true if a link type is known.
pub const fn is_known(link: u16) -> bool {
    matches!(link, 0 | 1 | 12 | 14 | RAW | 108 | 113 | 228 | 229 | 276)
}

fn cooked<'a>(frame: &'a [u8], direction: &[u8], kind: &[u8], at: usize) -> Option<&'a [u8]> {
    (!shown_twice(direction, kind)).then_some(())?;
    behind_tags(frame, at)
}

/// A capture of all devices has what loopback carries when it goes out, and again when it comes in.
fn shown_twice(direction: &[u8], kind: &[u8]) -> bool {
    const OUTGOING: [u8; 2] = [0, 4];
    /// `ARPHRD_LOOPBACK`.
    const LOOPBACK: [u8; 2] = [0x03, 0x04];
    direction == OUTGOING && kind == LOOPBACK
}

/// The content after an EtherType at `at`, and after any VLAN tags (IEEE 802.1Q, 802.1ad).
fn behind_tags(frame: &[u8], mut at: usize) -> Option<&[u8]> {
    /// Two are usual with providers.
    const MAX_TAGS: usize = 4;
    for _ in 0..=MAX_TAGS {
        match frame.get(at..at + 2)? {
            [0x81, 0] | [0x88, 0xa8] | [0x91, 0] => at += 4,
            [0x08, 0] | [0x86, 0xdd] => return ip(frame.get(at + 2..)?),
            _ => return None,
        }
    }
    None
}

fn ip(packet: &[u8]) -> Option<&[u8]> {
    matches!(packet.first()? >> 4, 4 | 6).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 6] = [0x45, 1, 2, 3, 4, 5];

    fn framed(before: &[u8]) -> Vec<u8> {
        [before, &PACKET].concat()
    }

    #[test]
    fn the_packet_is_found_behind_every_kind_of_header() {
        let ethernet = [0; 12];
        let cooked = |direction: u8| [0, direction, 0x03, 0x04, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0];
        let second = |direction: u8, kind: u8| {
            [8, 0, 0, 0, 0, 0, 0, 1, 0x03, kind, direction, 6, 0, 0, 0, 0, 0, 0, 0, 0]
        };
        for (link, before) in [
            (1, [&ethernet[..], &[8, 0]].concat()),
            (1, [&ethernet[..], &[0x81, 0, 0, 7, 8, 0]].concat()),
            (1, [&ethernet[..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0]].concat()),
            (0, vec![2, 0, 0, 0]),
            (108, vec![0, 0, 0, 2]),
            (101, vec![]),
            (12, vec![]),
            (113, cooked(0).to_vec()),
            (276, second(0, 0x04).to_vec()),
            (276, second(4, 0x01).to_vec()),
            (276, [&[0x81, 0][..], &second(0, 0x04)[2..], &[0, 7, 8, 0]].concat()),
            (276, [&[0x88, 0xa8][..], &second(0, 0x04)[2..], &[0, 7, 0x81, 0, 0, 9, 8, 0]].concat()),
        ] {
            let frame = framed(&before);
            assert_eq!(ip_packet(link, &frame), Some(&PACKET[..]), "{link}: {before:?}");
            assert!(is_known(link));
            for end in 0..before.len() {
                assert_eq!(ip_packet(link, &frame[..end]), None, "{link}: {before:?}");
            }
        }
        assert_eq!(ip_packet(1, &framed(&[&ethernet[..], &[8, 6]].concat())), None, "ARP");
        assert_eq!(ip_packet(113, &framed(&cooked(4))), None, "loopback, a second time");
        assert_eq!(ip_packet(276, &framed(&second(4, 0x04))), None, "loopback, a second time");
        assert!(ip_packet(105, &PACKET).is_none() && !is_known(105));
    }
}
