//! Captures as others write them, in both byte orders, cut off anywhere, and what is none.

use proptest::prelude::*;

use super::*;
use crate::pcapng;

/// Output of a reader: times, lengths on the wire, bytes; the number of bytes left at the end; and the reason why it
/// stopped.
type Found = (Vec<(usize, Option<u64>, u32, Vec<u8>)>, usize, Option<Broken>);

/// Reads all of it, as a reader of a file does; `pieces`: how many bytes more are there at each try.
fn read(all: &[u8], pieces: usize) -> Found {
    let mut reader = CaptureReader::default();
    let (mut at, mut there, mut frames) = (0, 0, Vec::new());
    loop {
        let bytes = &all[at.min(there)..there];
        match reader.next(bytes) {
            Err(broken) => return (frames, all.len() - at.min(all.len()), Some(broken)),
            Ok(Next::More(needed)) => {
                assert!(needed > bytes.len() && needed <= MAX_RECORD_BYTES, "{needed}");
                if there == all.len() {
                    return (frames, all.len() - at.min(all.len()), None);
                }
                there = (there + pieces).min(all.len());
            }
            Ok(Next::Passed(passed)) => at += passed as usize,
            Ok(Next::Frame(frame, taken)) => {
                frames.push((frame.interface, frame.at, frame.length, frame.bytes.to_vec()));
                at += taken;
            }
        }
        there = there.max(at.min(all.len()));
        if at > all.len() {
            return (frames, 0, None);
        }
    }
}

/// A pcap of two frames, the second of them cut to 3 of 60 bytes.
fn pcap(little: bool, nanos: bool) -> Vec<u8> {
    let word = |word: u32| if little { word.to_le_bytes() } else { word.to_be_bytes() };
    let half = |half: u16| if little { half.to_le_bytes() } else { half.to_be_bytes() };
    let magic = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut all = word(magic).to_vec();
    all.extend([half(2), half(4)].concat());
    all.extend([0, 0, 262_144, 101].map(word).concat());
    for (frame, length) in [(&b"abcde"[..], 5), (b"xyz", 60)] {
        all.extend([7, 500, frame.len() as u32, length].map(word).concat());
        all.extend(frame);
    }
    all
}

fn ours() -> Vec<u8> {
    let mut all = pcapng::section("a test");
    all.extend(pcapng::interface(101, "client", "on its link"));
    all.extend(pcapng::interface(1, "server", ""));
    all.extend(pcapng::decryption_secrets(b"CLIENT_RANDOM 00 11\n"));
    all.extend(pcapng::packet(1, 7_000_000_500, 2, b"abcde", None));
    all.extend(pcapng::packet(0, 7_000_000_501, 1, b"xyz", Some("lost")));
    all
}

#[test]
fn pcap_is_read_in_both_orders_and_resolutions_however_it_comes() {
    for (little, nanos) in [(false, false), (true, false), (false, true), (true, true)] {
        let at = Some(7_000_000_000 + if nanos { 500 } else { 500_000 });
        let expected = vec![(0, at, 5, b"abcde".to_vec()), (0, at, 60, b"xyz".to_vec())];
        for pieces in [1, 3, 1000] {
            assert_eq!(read(&pcap(little, nanos), pieces), (expected.clone(), 0, None), "{little} {nanos}");
        }
    }
}

#[test]
fn what_is_written_here_is_read_again() {
    let expected =
        vec![(1, Some(7_000_000_500), 5, b"abcde".to_vec()), (0, Some(7_000_000_501), 3, b"xyz".to_vec())];
    for pieces in [1, 7, 4096] {
        assert_eq!(read(&ours(), pieces), (expected.clone(), 0, None));
    }
    // A second section has separate interfaces.
    let twice = [ours(), ours()].concat();
    assert_eq!(read(&twice, 50).0.len(), 4);
    let mut reader = CaptureReader::default();
    let all = ours();
    let mut at = 0;
    while let Ok(Next::Passed(passed)) = reader.next(&all[at..]) {
        at += passed as usize;
    }
    assert_eq!(reader.interface_name(0), Some("client"));
    assert_eq!((reader.interface_name(2), reader.format()), (None, Some(Format::Pcapng)));
}

#[test]
fn pcapng_of_the_other_byte_order_with_units_and_offset_of_its_own() {
    fn word(word: u32) -> [u8; 4] {
        word.to_be_bytes()
    }
    let block = |kind: u32, body: &[u8]| {
        let length = word(body.len() as u32 + 12);
        [&word(kind), &length, body, &length].concat()
    };
    let mut section = word(0x1a2b_3c4d).to_vec();
    section.extend([0, 1, 0, 0]);
    section.extend([0xff; 8]);
    // Units of 2^-10 s, and 100 s to be added.
    let mut interface = vec![0, 101, 0, 0, 0, 0, 0, 0];
    interface.extend([0, 9, 0, 1, 0x8a, 0, 0, 0, 0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 100]);
    let enhanced = [[0, 0, 2048, 3, 3].map(word).concat(), b"xyz\0".to_vec()].concat();
    let old = [vec![0, 0, 0, 9], [0, 1024, 3, 3].map(word).concat(), b"abc\0".to_vec()].concat();
    let simple = [word(2).to_vec(), b"pq\0\0".to_vec()].concat();
    let all = [
        block(SECTION, &section),
        block(1, &interface),
        block(6, &enhanced),
        block(2, &old),
        block(3, &simple),
        block(0x0bad, &[0; 8]),
    ]
    .concat();
    let (frames, left, broken) = read(&all, 4096);
    let times: Vec<_> = frames.iter().map(|frame| frame.1).collect();
    assert_eq!(times, [Some(102_000_000_000), Some(101_000_000_000), None]);
    assert_eq!((frames[2].3.as_slice(), left, broken), (&b"pq"[..], 0, None));
}

#[test]
fn what_is_no_capture_is_refused_by_name() {
    let refusal = |all: &[u8]| read(all, 4096).2.map(|broken| broken.to_string());
    assert!(refusal(b"GIF89a").is_some_and(|why| why.contains("47 49 46 38")));
    let mut version = pcap(true, false);
    version[4] = 9;
    assert_eq!(read(&version, 100).2, Some(Broken::Version(9)));
    let mut long = pcap(true, false);
    long[24 + 8..24 + 12].fill(0xff);
    assert_eq!(read(&long, 100).2, Some(Broken::Length(u32::MAX)));
    let mut lengths = ours();
    let end = lengths.len() - 4;
    lengths[end] ^= 0x40;
    assert!(matches!(read(&lengths, 100).2, Some(Broken::Lengths(..))));
    let mut stranger = pcapng::section("a test");
    stranger.extend(pcapng::packet(3, 1, 1, b"abc", None));
    assert_eq!(read(&stranger, 100).2, Some(Broken::Interface(3)));
    let mut many = pcapng::section("a test");
    many.extend(pcapng::interface(1, "", "").repeat(MAX_INTERFACES + 1));
    assert_eq!(read(&many, 1 << 20).2, Some(Broken::Interfaces));
}

/// A block of pcapng in the byte order of big machines.
fn big_block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_be_bytes();
    [&kind.to_be_bytes(), &length, body, &length].concat()
}

/// A section that begins so, of version `major`.
fn big_section(major: u8) -> Vec<u8> {
    let mut body = 0x1a2b_3c4d_u32.to_be_bytes().to_vec();
    body.extend([0, major, 0, 0]);
    body.extend([0xff; 8]);
    big_block(SECTION, &body)
}

#[test]
fn formats_have_names() {
    assert_eq!((Format::Pcap.name(), Format::Pcapng.name()), ("pcap", "pcapng"));
}

#[test]
fn the_largest_record_and_block_are_read_and_no_larger_one() {
    let mut reader = CaptureReader::default();
    let file = pcap(false, false);
    assert_eq!(reader.next(&file), Ok(Next::Passed(24)));
    let mut record = |captured: u32| {
        let header = [7, 500, captured, captured].map(u32::to_be_bytes).concat();
        reader.next(&header).map(|next| next == Next::More(MAX_RECORD_BYTES))
    };
    let fits = MAX_RECORD_BYTES as u32 - 16;
    assert_eq!((record(fits), record(fits + 1)), (Ok(true), Err(Broken::Length(fits + 1))));

    let mut reader = CaptureReader::default();
    let section = big_section(1);
    assert_eq!(reader.next(&section), Ok(Next::Passed(0)));
    assert_eq!(reader.next(&section), Ok(Next::Passed(section.len() as u64)));
    let mut block = |kind: u32, length: u32| {
        let header = [kind, length, 0].map(u32::to_be_bytes).concat();
        match reader.next(&header) {
            Ok(Next::More(needed)) => Ok(needed as u64),
            Ok(Next::Passed(passed)) => Ok(passed),
            Ok(Next::Frame(..)) => panic!("a frame of twelve bytes"),
            Err(broken) => Err(broken),
        }
    };
    let most = MAX_RECORD_BYTES as u32;
    assert_eq!((block(6, most), block(6, most + 4)), (Ok(u64::from(most)), Err(Broken::Length(most + 4))));
    // One that is passed over may be larger; the smallest of all has nothing between its lengths.
    assert_eq!((block(5, most + 4), block(5, 12)), (Ok(u64::from(most) + 4), Ok(12)));
    for length in [0, 4, 8, 11, 13, 14, 15] {
        assert_eq!(block(5, length), Err(Broken::Length(length)));
    }
}

#[test]
fn a_section_has_a_version_and_interfaces_of_its_own() {
    assert_eq!(read(&big_section(2), 4096).2, Some(Broken::Version(2)));
    let short = big_block(SECTION, &0x1a2b_3c4d_u32.to_be_bytes());
    assert_eq!(read(&short, 4096).2, Some(Broken::Length(4)));
    // The second section has described none.
    let mut all = ours();
    all.extend(pcapng::section("another"));
    all.extend(pcapng::packet(0, 1, 1, b"abc", None));
    let (frames, _, broken) = read(&all, 4096);
    assert_eq!((frames.len(), broken), (2, Some(Broken::Interface(0))));
}

/// Seconds that are added to every time have 64 bits, and a sign.
#[test]
fn an_offset_of_time_is_read_whole() {
    let simple_time = |little: bool, offset: &[u8]| {
        let half = |half: u16| if little { half.to_le_bytes() } else { half.to_be_bytes() };
        let word = |word: u32| if little { word.to_le_bytes() } else { word.to_be_bytes() };
        let block = |kind: u32, body: &[u8]| {
            let length = word(body.len() as u32 + 12);
            [&word(kind), &length, body, &length].concat()
        };
        let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
        let mut interface = [&half(101)[..], &[0; 6], &half(14), &half(offset.len() as u16)].concat();
        interface.extend(offset);
        interface.resize(interface.len().next_multiple_of(4), 0);
        // No time at all: the offset alone, in units of a microsecond.
        let packet = [[0, 0, 0, 3, 3].map(word).concat(), b"xyz\0".to_vec()].concat();
        let all = [block(SECTION, &section), block(1, &interface), block(6, &packet)].concat();
        let (frames, left, broken) = read(&all, 4096);
        assert_eq!((frames.len(), left, broken), (1, 0, None));
        frames[0].1
    };
    let seconds = 0x0000_0002_0000_0001_i64;
    let nanos = Some(seconds as u64 * 1_000_000_000);
    assert_eq!(simple_time(false, &seconds.to_be_bytes()), nanos);
    assert_eq!(simple_time(true, &seconds.to_le_bytes()), nanos);
    assert_eq!(simple_time(true, &(-5_i64).to_le_bytes()), Some(0), "before 1970");
    // One of another size is none.
    for length in [0, 4, 7, 9, 12] {
        assert_eq!(simple_time(true, &vec![1; length]), Some(0), "{length} bytes");
    }
}

#[test]
fn a_section_of_ours_does_not_describe_its_length_and_secrets_are_a_tls_key_log() {
    let section = pcapng::section("a test");
    assert_eq!(section[16..24], [0xff; 8], "its length is not known");
    let log = b"CLIENT_RANDOM 00 11\n";
    let block = pcapng::decryption_secrets(log);
    assert_eq!(block[..4], [10, 0, 0, 0]);
    assert_eq!(block[8..12], *b"KSLT", "the format's number, which is TLSK");
    assert_eq!((&block[12..16], &block[16..16 + log.len()]), (&[20, 0, 0, 0][..], &log[..]));
    assert_eq!(block.len(), 8 + 8 + log.len().next_multiple_of(4) + 4);
}

proptest! {
    /// Cut off anywhere, the frames before are there, and the rest is counted.
    #[test]
    fn a_capture_may_end_anywhere(ng: bool, part in 0.0_f64..1.0, pieces in 1_usize..300) {
        let all = if ng { ours() } else { pcap(true, true) };
        let end = (all.len() as f64 * part) as usize;
        let (whole, ..) = read(&all, pieces);
        let (frames, left, broken) = read(&all[..end], pieces);
        prop_assert_eq!(broken, None);
        prop_assert!(frames.len() < 2 && frames[..] == whole[..frames.len()] && left <= end);
    }

    #[test]
    fn no_byte_is_read_that_is_not_there(ng: bool, at in 0_usize..400, byte: u8, pieces in 1_usize..300) {
        let mut all = if ng { ours() } else { pcap(true, true) };
        let at = at % all.len();
        all[at] = byte;
        let _ = read(&all, pieces);
    }

    #[test]
    fn any_bytes_are_a_capture_or_none(begun: bool, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut all = if begun { pcapng::section("a test") } else { Vec::new() };
        all.extend(bytes);
        let _ = read(&all, 4096);
    }
}
