//! Any bytes as a capture, pcap or pcapng: its packets do not depend on how it is split, none is longer than the limit, and reading one ends.
#![no_main]

use handfast_wire::capture::{CaptureReader, MAX_RECORD_BYTES, Next};
use handfast_wire::link::{ip_packet, is_known};
use handfast_wire::packet::{crosses_routers, segment};
use libfuzzer_sys::fuzz_target;

/// A packet: its interface, when it was seen, its length on the wire, and its bytes.
type Packet = (usize, Option<u64>, u32, Vec<u8>);

fuzz_target!(|capture: &[u8]| {
    let whole = read(capture, capture.len());
    // Byte by byte for a short input, in some 64 pieces of a long one.
    let split = read(capture, capture.len() / 64 + 1);
    assert_eq!(whole, split);
    for (link, (_, _, length, bytes)) in &whole.0 {
        assert!(bytes.len() <= MAX_RECORD_BYTES && bytes.len() <= capture.len());
        let Some(packet) = ip_packet(*link, bytes) else { continue };
        assert!(is_known(*link) && packet.len() <= bytes.len());
        let _ = crosses_routers(packet);
        let Some(segment) = segment(packet) else { continue };
        assert!(segment.payload.len() <= segment.data as usize, "more is here than was sent: {length}");
    }
});

/// All packets with their link types, and whether the capture is damaged.
fn read(capture: &[u8], step: usize) -> (Vec<(u16, Packet)>, bool) {
    let mut reader = CaptureReader::default();
    let mut packets = Vec::new();
    let (mut at, mut end) = (0, 0);
    loop {
        match reader.next(&capture[at.min(end)..end]) {
            Ok(Next::More(wanted)) => {
                assert!(wanted > end - at.min(end), "what is there was not enough");
                if end == capture.len() {
                    return (packets, false);
                }
                end = (end + step).min(capture.len());
            }
            Ok(Next::Passed(bytes)) => {
                // Which format it is, and nothing else, is found without taking a byte.
                assert!(bytes > 0 || at == 0);
                let Some(next) = usize::try_from(bytes).ok().and_then(|bytes| at.checked_add(bytes)) else {
                    return (packets, false);
                };
                if next > capture.len() {
                    return (packets, false);
                }
                (at, end) = (next, end.max(next));
            }
            Ok(Next::Frame(frame, taken)) => {
                assert!(taken > 0 && taken <= end - at);
                packets.push((frame.link, (frame.interface, frame.at, frame.length, frame.bytes.to_vec())));
                at += taken;
            }
            Err(_) => return (packets, true),
        }
    }
}
