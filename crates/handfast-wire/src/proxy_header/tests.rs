//! Headers that others send, headers of our own, and everything that can be wrong with either.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn complete(bytes: &[u8]) -> Header<'_> {
    match peek(bytes, V2_LIMIT) {
        Peek::Complete(header) => header,
        other => panic!("{other:?} for {bytes:?}"),
    }
}

fn invalid(bytes: &[u8]) -> Invalid {
    match peek(bytes, V2_LIMIT) {
        Peek::Invalid(invalid) => invalid,
        other => panic!("{other:?} for {bytes:?}"),
    }
}

fn v4(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(192, 0, 2, last).into(), port)
}

fn v6(last: u16, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into(), port)
}

/// A block of version 2 with these two bytes behind the signature, and this behind the length.
fn block(ver_cmd: u8, fam: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = V2_SIGNATURE.to_vec();
    bytes.extend([ver_cmd, fam]);
    bytes.extend(u16::try_from(rest.len()).expect("short").to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

/// A block without addresses, with these type-length-values.
fn with_tlvs(tlvs: &[u8]) -> Vec<u8> {
    block(0x21, 0, tlvs)
}

/// A header that uses everything.
fn rich() -> Vec<u8> {
    let mut header = Writer::proxy(Some((v4(7, 40_000), v4(8, 443))));
    assert!(header.add(tlv::ALPN, b"h2"));
    assert!(header.add(tlv::AUTHORITY, "bücher.example".as_bytes()));
    assert!(header.add(tlv::UNIQUE_ID, b"0123456789abcdef"));
    assert!(header.add(tlv::NOOP, &[0; 5]) && header.add(tlv::NOOP, &[]));
    assert!(header.add(0xea, b"\x01vpce-08d2bf15fac5001c9"));
    let values: [(u8, &[u8]); 4] = [
        (tlv::SSL_VERSION, b"TLSv1.3"),
        (tlv::SSL_CN, "Grüße".as_bytes()),
        (tlv::SSL_CIPHER, b"TLS_AES_128_GCM_SHA256"),
        (tlv::SSL_CLIENT_CERT, &[0x30, 0x82, 0xff, 0x00]),
    ];
    assert!(header.add_tls(Tls::USED | Tls::CERTIFICATE_NOW, 0, &values));
    header.finish(true)
}

#[test]
fn versions_and_types_have_their_names() {
    assert_eq!([Version::V1, Version::V2].map(|version| version.to_string()), ["v1", "v2"]);
    let named: Vec<_> = (0..=255).filter_map(|number| tlv::name(number).map(|name| (number, name))).collect();
    let expected = [
        (0x01, "ALPN"),
        (0x02, "AUTHORITY"),
        (0x03, "CRC32C"),
        (0x04, "NOOP"),
        (0x05, "UNIQUE_ID"),
        (0x20, "SSL"),
        (0x21, "SSL_VERSION"),
        (0x22, "SSL_CN"),
        (0x23, "SSL_CIPHER"),
        (0x24, "SSL_SIG_ALG"),
        (0x25, "SSL_KEY_ALG"),
        (0x26, "SSL_GROUP"),
        (0x27, "SSL_SIG_SCHEME"),
        (0x28, "SSL_CLIENT_CERT"),
        (0x30, "NETNS"),
    ];
    assert_eq!(named, expected);
}

#[test]
fn a_block_may_be_as_long_as_the_limit_and_a_name_as_long_as_its_own() {
    let rest = V2_LIMIT - 16;
    let mut tlvs = vec![tlv::NOOP];
    tlvs.extend(u16::try_from(rest - 3).expect("short").to_be_bytes());
    tlvs.resize(rest, 0);
    assert_eq!(complete(&with_tlvs(&tlvs)).length, V2_LIMIT);
    tlvs.push(0);
    assert_eq!(
        invalid(&with_tlvs(&tlvs)),
        Invalid::TooLong { announced: V2_LIMIT + 1, limit: V2_LIMIT },
        "one byte more"
    );
    let longest = [&[tlv::UNIQUE_ID, 0, 128][..], &[7; 128]].concat();
    assert_eq!(complete(&with_tlvs(&longest)).unique_id(), Some(&[7; 128][..]));
}

#[test]
fn version_1_names_both_ends() {
    let header = complete(b"PROXY TCP4 192.0.2.7 192.0.2.8 40000 443\r\nGET /");
    assert_eq!((header.version, header.length), (Version::V1, 42));
    assert_eq!(header.tcp(), Some((v4(7, 40_000), v4(8, 443))));
    let header = complete(b"PROXY TCP6 2001:db8::7 2001:DB8:0:0:0:0:0:8 0 65535\r\n");
    assert_eq!(header.tcp(), Some((v6(7, 0), v6(8, 65_535))));
    assert_eq!(header.tlvs().count(), 0);
}

#[test]
fn version_1_may_not_know() {
    for line in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 any \u{1}thing at all\r\n"] {
        let header = complete(line.as_bytes());
        assert_eq!((header.tcp(), header.length), (None, line.len()), "{line:?}");
    }
}

#[test]
fn what_is_wrong_with_a_line_is_reported() {
    for (line, sentence) in [
        ("PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n", "the word behind `PROXY` is not TCP4, TCP6 or UNKNOWN"),
        ("PROXY UNKNOWNS\r\n", "the word behind `PROXY` is not TCP4, TCP6 or UNKNOWN"),
        ("PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n", "the word behind `PROXY` is not TCP4, TCP6 or UNKNOWN"),
        (
            "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
            "the source address is not an address of the family that is named",
        ),
        (
            "PROXY TCP4 ::1 1.2.3.4 1 2\r\n",
            "the source address is not an address of the family that is named",
        ),
        (
            "PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
            "the source address is not an address of the family that is named",
        ),
        (
            "PROXY TCP6 ::1 fe80::1%lo 1 2\r\n",
            "the destination address is not an address of the family that is named",
        ),
        ("PROXY TCP6 ::1\r\n", "the destination address is not an address of the family that is named"),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", PORT),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n", PORT),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", PORT),
        ("PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n", PORT),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n", "something follows the destination port, expected CRLF"),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", "byte 30 is a CR or LF that is not part of the CRLF at the end"),
        (
            "PROXY TCP4\r1.2.3.4 1.2.3.4 1 2\r\n",
            "byte 10 is a CR or LF that is not part of the CRLF at the end",
        ),
    ] {
        assert_eq!(invalid(line.as_bytes()).to_string(), sentence, "{line:?}");
    }
}

const PORT: &str = "the source port is not a decimal number from 0 to 65535 without leading zeros";

/// The longest that the specification has takes 107 bytes, and is an UNKNOWN one with two full IPv6 addresses.
#[test]
fn a_line_has_107_bytes_at_the_most() {
    let longest = format!("PROXY UNKNOWN {0} {0} 65535 65535\r\n", ["ffff"; 8].join(":"));
    assert_eq!((longest.len(), complete(longest.as_bytes()).length), (V1_LIMIT, V1_LIMIT));
    let full = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_LIMIT - 16));
    assert_eq!((full.len(), complete(full.as_bytes()).length), (V1_LIMIT, V1_LIMIT));
    let over = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_LIMIT - 15));
    assert_eq!(invalid(over.as_bytes()), Invalid::LineTooLong);
    // Also when its line end would be at the limit, or has not come.
    assert_eq!(invalid(&over.as_bytes()[..V1_LIMIT]), Invalid::LineTooLong);
    assert_eq!(peek(&full.as_bytes()[..V1_LIMIT - 1], V2_LIMIT), Peek::Incomplete);
}

/// As HAProxy's `send-proxy-v2` writes them.
#[test]
fn version_2_names_both_ends() {
    let mut bytes = block(0x21, 0x11, &[192, 0, 2, 7, 192, 0, 2, 8, 0x9c, 0x40, 0x01, 0xbb]);
    bytes.extend(b"\x16\x03\x01");
    let header = complete(&bytes);
    assert_eq!((header.version, header.length, header.ignored), (Version::V2, 28, 0));
    assert_eq!(header.tcp(), Some((v4(7, 40_000), v4(8, 443))));
    let mut rest = vec![];
    for last in [7, 8] {
        rest.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).octets());
    }
    rest.extend([0, 1, 0, 2]);
    assert_eq!(complete(&block(0x21, 0x21, &rest)).tcp(), Some((v6(7, 1), v6(8, 2))));
}

#[test]
fn the_sockets_addresses_count_unless_tcp_is_named() {
    let ends = [192, 0, 2, 7, 192, 0, 2, 8, 0x9c, 0x40, 0x01, 0xbb];
    for (ver_cmd, fam) in [(0x20, 0x11), (0x21, 0x12), (0x21, 0x10), (0x21, 0x00)] {
        // Behind UNSPEC there are no addresses, but type-length-values.
        let rest: &[u8] = if fam == 0 { &[] } else { &ends };
        assert_eq!(complete(&block(ver_cmd, fam, rest)).tcp(), None, "{ver_cmd:#x} {fam:#x}");
    }
    let mut paths = [0; 216];
    paths[..9].copy_from_slice(b"/run/sock");
    paths[108..112].copy_from_slice(b"\0abs");
    let bytes = block(0x21, 0x31, &paths);
    let unix = complete(&bytes);
    let (source, destination) = (&b"/run/sock"[..], &b"\0abs"[..]);
    assert_eq!(unix.endpoints, Endpoints::Unix { transport: Transport::Stream, source, destination });
}

/// A check of a proxy that means itself may bring anything along.
#[test]
fn a_local_header_is_taken_whatever_is_in_it() {
    for fam in [0x11, 0x12, 0x13, 0x41, 0xff] {
        let bytes = block(0x20, fam, &[1, 2, 3]);
        let header = complete(&bytes);
        assert_eq!((header.command, header.endpoints), (Command::Local, Endpoints::Unspecified), "{fam:#x}");
        assert_eq!((header.length, header.ignored, header.tlvs().count()), (19, 3, 0));
    }
    assert_eq!(complete(&Writer::local().finish(false)).command, Command::Local);
}

#[test]
fn what_is_wrong_with_a_block_is_reported() {
    let twice = |number: u8, value: &[u8]| {
        let mut header = Writer::proxy(None);
        assert!(header.add(number, value) && header.add(number, value));
        header.finish(false)
    };
    let mut long = V2_SIGNATURE.to_vec();
    long.extend([0x21, 0x11, 0x0f, 0xf1]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (block(0x11, 0x11, &[]), "version 1 behind the signature, expected 2"),
        (block(0x22, 0x11, &[]), "command 2, expected 0 (LOCAL) or 1 (PROXY)"),
        (block(0x21, 0x41, &[]), "address family 4, expected 0 (UNSPEC), 1 (INET), 2 (INET6) or 3 (UNIX)"),
        (block(0x21, 0x13, &[]), "transport 3, expected 0 (UNSPEC), 1 (STREAM) or 2 (DGRAM)"),
        (block(0x21, 0x11, &[0; 11]), "11 bytes announced, but addresses of this family take 12"),
        (block(0x21, 0x21, &[0; 35]), "35 bytes announced, but addresses of this family take 36"),
        (block(0x21, 0x31, &[0; 215]), "215 bytes announced, but addresses of this family take 216"),
        (long, "4097 bytes announced, limit 4096"),
        (with_tlvs(&[1]), "ALPN (0x01) at byte 16 takes 3 bytes, but 1 are left there"),
        (with_tlvs(&[4, 0, 0, 0xe7, 0, 2, 9]), "type 0xe7 at byte 19 takes 5 bytes, but 4 are left there"),
        (with_tlvs(&[3, 0, 3, 1, 2, 3]), "CRC32C (0x03) has 3 bytes, expected 4"),
        (
            with_tlvs(&[3, 0, 4, 1, 2, 3, 4]),
            "the checksum says 0x01020304, but the bytes that came have 0x3ec9894e",
        ),
        (with_tlvs(&[2, 0, 1, 0xff]), "AUTHORITY (0x02) is not UTF-8 text"),
        (with_tlvs(&[0x30, 0, 1, 0x80]), "NETNS (0x30) is not ASCII text"),
        (with_tlvs(&[0x20, 0, 4, 1, 0, 0, 0]), "SSL (0x20) has 4 bytes, expected 5 at the least"),
        (
            with_tlvs(&[0x20, 0, 9, 1, 0, 0, 0, 0, 0x21, 0, 2, b'T', 4, 0, 0]),
            "SSL_VERSION (0x21) at byte 24 takes 5 bytes, but 4 are left there",
        ),
        (with_tlvs(&[0x20, 0, 9, 1, 0, 0, 0, 0, 0x23, 0, 1, 0xc3]), "SSL_CIPHER (0x23) is not ASCII text"),
        (with_tlvs(&[0x20, 0, 9, 1, 0, 0, 0, 0, 0x22, 0, 1, 0xff]), "SSL_CN (0x22) is not UTF-8 text"),
        (with_tlvs(&[0x20, 0, 11, 1, 0, 0, 0, 0, 0x22, 0, 0, 0x22, 0, 0]), "SSL_CN (0x22) comes twice"),
        (twice(tlv::AUTHORITY, b"a"), "AUTHORITY (0x02) comes twice"),
        (twice(tlv::SSL, &[0; 5]), "SSL (0x20) comes twice"),
    ];
    for (bytes, sentence) in cases {
        assert_eq!(invalid(&bytes).to_string(), sentence, "{bytes:02x?}");
    }
    let mut id = vec![5, 0, 129];
    id.extend([0; 129]);
    assert_eq!(
        invalid(&with_tlvs(&id)).to_string(),
        "UNIQUE_ID (0x05) has 129 bytes, expected 128 at the most"
    );
    // A value without a meaning, or with several, may come any number of times.
    for number in [tlv::NOOP, 0x06, 0xe0, 0xff] {
        assert_eq!(complete(&twice(number, b"x")).tlvs().count(), 2, "{number:#x}");
    }
}

#[test]
fn everything_written_is_read_again() {
    let bytes = rich();
    let header = complete(&bytes);
    assert_eq!(header.length, bytes.len());
    assert_eq!(header.tcp(), Some((v4(7, 40_000), v4(8, 443))));
    assert_eq!(header.alpn(), Some(&b"h2"[..]));
    assert_eq!(header.authority(), Some("bücher.example"));
    assert_eq!(header.unique_id(), Some(&b"0123456789abcdef"[..]));
    assert_eq!(header.find(0xea), Some(&b"\x01vpce-08d2bf15fac5001c9"[..]));
    let tls = header.tls().expect("it is there");
    assert_eq!((tls.client, tls.verify), (3, 0));
    let values: Vec<(u8, &[u8])> = tls.values().map(|tlv| (tlv.number, tlv.value)).collect();
    assert_eq!(values[0], (tlv::SSL_VERSION, &b"TLSv1.3"[..]));
    assert_eq!(values[3], (tlv::SSL_CLIENT_CERT, &[0x30, 0x82, 0xff, 0x00][..]));
    assert_eq!(values.len(), 4);
}

#[test]
fn addresses_of_two_families_are_both_written_as_ipv6() {
    let mapped = |address: SocketAddr| match address.ip() {
        std::net::IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        std::net::IpAddr::V6(_) => address,
    };
    for (ends, read) in [
        ((v4(7, 1), v6(8, 2)), (mapped(v4(7, 1)), v6(8, 2))),
        ((v6(7, 1), v4(8, 2)), (v6(7, 1), mapped(v4(8, 2)))),
        // A listener on `[::]` sees IPv4 clients as IPv4.
        ((mapped(v4(7, 1)), mapped(v4(8, 2))), (v4(7, 1), v4(8, 2))),
    ] {
        assert_eq!(complete(&Writer::proxy(Some(ends)).finish(true)).tcp(), Some(read));
        let mut line = vec![];
        write_v1(&mut line, Some(ends));
        assert_eq!(complete(&line).tcp(), Some(read), "{line:?}");
    }
    let mut line = vec![];
    write_v1(&mut line, None);
    assert_eq!((&line[..], complete(&line).tcp()), (&b"PROXY UNKNOWN\r\n"[..], None));
    assert_eq!(complete(&Writer::proxy(None).finish(true)).tcp(), None);
}

/// A certificate can be larger than a header.
#[test]
fn what_does_not_fit_is_left_out_whole() {
    let mut header = Writer::proxy(None);
    assert!(!header.add(tlv::NOOP, &[0; 65_536]));
    assert!(!header.add(tlv::NOOP, &[0; 65_526]));
    assert!(!header.add_tls(1, 0, &[(tlv::SSL_CLIENT_CERT, &[0; 65_536])]));
    assert!(!header.add_tls(1, 0, &[(tlv::SSL_CLIENT_CERT, &[0; 65_520])]));
    assert!(header.add(tlv::NOOP, &[0; 65_525]));
    let bytes = header.finish(true);
    assert_eq!(bytes.len(), 65_551);
    assert!(matches!(peek(&bytes, usize::MAX), Peek::Complete(header) if header.length == 65_551));
    assert_eq!(invalid(&bytes), Invalid::TooLong { announced: 65_551, limit: V2_LIMIT });
}

fn samples() -> Vec<Vec<u8>> {
    let mut line = vec![];
    write_v1(&mut line, Some((v6(7, 40_000), v6(8, 443))));
    let local = block(0x20, 0x11, &[9; 20]);
    vec![line, rich(), local, Writer::proxy(Some((v6(1, 2), v6(3, 4)))).finish(true)]
}

#[test]
fn every_truncation_is_a_beginning() {
    for bytes in samples() {
        for end in 0..bytes.len() {
            assert_eq!(peek(&bytes[..end], V2_LIMIT), Peek::Incomplete, "{bytes:?} at {end}");
        }
        assert_eq!(complete(&bytes).length, bytes.len());
    }
}

/// A header with a checksum never survives a changed byte: the checksum finds what the lengths do not.
#[test]
fn every_changed_byte_is_found_where_there_is_a_checksum() {
    let bytes = rich();
    for at in 0..bytes.len() {
        for value in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = value;
            match peek(&changed, V2_LIMIT) {
                Peek::Complete(header) if header.command == Command::Local => assert_eq!(at, 12),
                Peek::Complete(header) => assert!(
                    value == bytes[at] || header.find(tlv::CRC32C).is_none(),
                    "byte {at} changed to {value} was believed"
                ),
                Peek::Absent => assert!(at < V2_SIGNATURE.len()),
                Peek::Incomplete => assert!(matches!(at, 14 | 15), "byte {at} changed to {value}"),
                Peek::Invalid(invalid) => assert!(!invalid.to_string().is_empty()),
            }
        }
    }
}

/// Checks the rules for all bytes: no panic, a verdict stays, and a header is at the stated position.
fn judge(received: &[u8]) {
    let whole = peek(received, V2_LIMIT);
    for end in 0..received.len() {
        let part = peek(&received[..end], V2_LIMIT);
        assert!(part == Peek::Incomplete || part == whole, "{part:?} at {end} became {whole:?}");
    }
    match whole {
        Peek::Complete(header) => {
            assert!(header.length <= received.len().min(V2_LIMIT));
            assert_eq!(peek(&received[..header.length - 1], V2_LIMIT), Peek::Incomplete);
            let tls = header.tls();
            let inside = header.tlvs().chain(tls.iter().flat_map(Tls::values));
            assert!(inside.map(|tlv| tlv.value.len()).sum::<usize>() <= 2 * header.length);
        }
        Peek::Incomplete => assert!(received.len() < V2_LIMIT),
        Peek::Absent | Peek::Invalid(_) => {}
    }
}

proptest! {
    #[test]
    fn any_bytes_have_one_verdict(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        judge(&bytes);
    }

    #[test]
    fn any_line_has_one_verdict(line in "PROXY (TCP4|TCP6|UNKNOWN|)[ 0-9a-f.:\r\n]{0,120}") {
        judge(line.as_bytes());
    }

    #[test]
    fn any_block_has_one_verdict(
        ver_cmd in prop_oneof![Just(0x20_u8), Just(0x21), any::<u8>()],
        fam in prop_oneof![Just(0_u8), Just(0x11), Just(0x21), Just(0x31), any::<u8>()],
        rest in proptest::collection::vec(prop_oneof![Just(0_u8), 1..6_u8, 0x20..0x29_u8, any::<u8>()], 0..300),
        cut in 0..40_usize,
    ) {
        let mut bytes = block(ver_cmd, fam, &rest);
        bytes.truncate(bytes.len() - cut.min(rest.len()));
        judge(&bytes);
    }

    #[test]
    fn one_change_never_panics(which in 0..4_usize, at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut bytes = samples().swap_remove(which);
        let at = at.index(bytes.len());
        bytes[at] = value;
        judge(&bytes);
    }
}

#[test]
fn a_certificate_in_pem_has_lines_of_64_columns() {
    let lines = |bytes: usize| {
        let pem = certificate_pem("TRUSTED CERTIFICATE", &vec![0; bytes]);
        assert!(
            pem.starts_with("-----BEGIN TRUSTED CERTIFICATE-----\n")
                && pem.ends_with("-----END TRUSTED CERTIFICATE-----\n")
        );
        pem.lines().skip(1).map(str::len).take_while(|length| *length != 33).collect::<Vec<_>>()
    };
    assert_eq!(lines(1), [4]);
    assert_eq!(lines(48), [64]);
    assert_eq!(lines(49), [64, 4]);
}

#[test]
fn an_address_in_bytes_has_the_number_of_its_family() {
    let bytes = |text: &str| address_bytes(Some(text.parse().expect("an address")));
    assert_eq!(bytes("10.0.0.1"), [2, 10, 0, 0, 1]);
    assert_eq!(bytes("::ffff:10.0.0.1"), [2, 10, 0, 0, 1]);
    assert_eq!((bytes("::1")[0], bytes("::1").len()), (10, 17));
    assert_eq!(address_bytes(None), [0]);
}
