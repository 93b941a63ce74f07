//! Made-up captures: a connection seen near either end, cut off anywhere, overtaken, sent again, and of random bytes.

use std::sync::LazyLock;

use handfast_tls::buffer::Buffer;
use handfast_tls::client::{Client, ClientSettings, Verification};
use handfast_wire::packet::tcp;
use handfast_wire::pcapng;
use proptest::prelude::*;

use super::*;
use crate::text::Style;

const RTT: f64 = 20.0;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;
const RST: u8 = 0x14;

/// A ClientHello as this program says it.
fn client_hello() -> Vec<u8> {
    let settings = ClientSettings {
        server_name: Some("shop.example".into()),
        alpn: vec!["h2".into(), "http/1.1".into()],
        groups: vec!["X25519".into()],
        verification: Verification::Off,
        ..ClientSettings::default()
    };
    let client = Client::new(&settings, "shop.example").expect("sound settings");
    let mut session = client.connect(false).expect("a session");
    let mut words = Buffer::default();
    session.start(&mut words).expect("a hello");
    words.filled().to_vec()
}

/// A record with so many bytes.
fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_be_bytes();
    [&[kind, 3, 3], &length[..], body].concat()
}

/// A ServerHello, of TLS 1.3 or 1.2, or a HelloRetryRequest.
fn server_hello(version: u8, retry: bool) -> Vec<u8> {
    let random = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c";
    let random = (0..32).map(|at| u8::from_str_radix(&random[at * 2..at * 2 + 2], 16).expect("a digit"));
    let mut body = vec![3, 3];
    body.extend(random.map(|byte| if retry { byte } else { 7 }));
    let extensions: &[u8] = match version {
        3 => &[],
        _ => &[0, 43, 0, 2, 3, 4, 0, 51, 0, 4, 0, 29, 0, 0],
    };
    body.extend([0, 0x13, 0x01, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let message = [&[2, 0, 0, body.len() as u8], &body[..]].concat();
    record(22, &message)
}

/// A capture that is being made: packets with their times, as the client sends and receives them.
struct Made {
    /// Milliseconds by which the capture sees the client's packets later, and the server's sooner.
    away: f64,
    packets: Vec<(f64, bool, Vec<u8>)>,
    next: [u32; 2],
}

impl Made {
    fn new(away: f64) -> Self {
        let mut made = Self { away, packets: Vec::new(), next: [1_000, u32::MAX - 5] };
        made.packet(0.0, false, SYN, b"");
        made.packet(RTT, true, SYN | ACK, b"");
        made.packet(RTT, false, ACK, b"");
        made
    }

    fn ends(back: bool) -> (SocketAddr, SocketAddr) {
        let (client, server) = ("10.77.0.1:40000", "10.77.0.2:443");
        let (from, to) = if back { (server, client) } else { (client, server) };
        (from.parse().expect("an address"), to.parse().expect("an address"))
    }

    /// At the client's time; the next bytes of its direction.
    fn packet(&mut self, ms: f64, back: bool, flags: u8, data: &[u8]) {
        let (from, to) = Self::ends(back);
        let (sequence, acknowledged) = (self.next[usize::from(back)], self.next[usize::from(!back)]);
        let packet = tcp(from, to, flags, sequence, acknowledged, data);
        let begins = u32::from(flags & SYN != 0) + u32::from(flags & 0x01 != 0);
        self.next[usize::from(back)] = sequence.wrapping_add(data.len() as u32 + begins);
        let at = if back { ms - self.away } else { ms + self.away };
        self.packets.push((at, back, packet));
    }

    fn there(&mut self, ms: f64, data: &[u8]) {
        self.packet(ms, false, ACK, data);
    }

    /// In segments that are full.
    fn back(&mut self, ms: f64, data: &[u8]) {
        for piece in data.chunks(1448) {
            self.packet(ms, true, ACK, piece);
        }
    }

    fn file(&self) -> Vec<u8> {
        let mut order: Vec<_> = self.packets.iter().collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut all = pcapng::section("a test");
        all.extend(pcapng::interface(101, "near", ""));
        for (ms, back, packet) in order {
            let at = 1_700_000_000_000_000_000 + (ms * 1e6) as u64;
            all.extend(pcapng::packet(0, at, if *back { 1 } else { 2 }, packet, None));
        }
        all
    }

    fn report(&self) -> CaptureReport {
        read_all(&self.file()).expect("a capture")
    }

    fn one(&self) -> ConnectionReport {
        let mut report = self.report();
        assert_eq!((report.connections.len(), &report.broken), (1, &None));
        report.connections.swap_remove(0)
    }
}

fn read_all(mut bytes: &[u8]) -> Result<CaptureReport, String> {
    read("a.pcapng", "handfast 0", &mut bytes).map_err(|error| error.to_string())
}

/// TLS 1.3 with a server that thinks for 5 ms, and whose flight does not fit ten segments.
fn long_chain(away: f64) -> Made {
    let mut made = Made::new(away);
    let hello = client_hello();
    // In two packets, as one with a post-quantum share has it.
    made.there(21.0, &hello[..100]);
    made.there(21.1, &hello[100..]);
    made.packet(41.1, true, ACK, b"");
    let flight =
        [server_hello(4, false), record(20, &[1]), record(23, &vec![0; 16_000]), record(23, &[0; 900])];
    let flight = flight.concat();
    made.back(46.1, &flight[..14_480]);
    made.back(66.3, &flight[14_480..]);
    made.there(67.0, &[record(20, &[1]), record(23, &[0; 53]), record(23, &[0; 300])].concat());
    made.back(87.5, &record(23, &[0; 250]));
    made.back(88.0, &record(23, &[0; 4000]));
    made.packet(90.0, false, ACK, &record(23, &[0; 19]));
    made.packet(90.1, false, FIN, b"");
    made.packet(110.2, true, ACK, &record(23, &[0; 19]));
    made.packet(110.3, true, FIN, b"");
    made
}

/// The packets of that connection as a report has them.
pub(crate) fn wire() -> crate::report::WireReport {
    let (packets, connection) = watched(&long_chain(0.0).file(), Made::ends(false).0).expect("it is there");
    crate::report::WireReport { missed: 0, connection, packets }
}

#[test]
fn every_packet_of_a_connection_has_its_row() {
    let wire = wire();
    assert_eq!((wire.packets.len(), wire.connection.round_trips), (27, Some(2)), "{:?}", wire.packets);
    let row = |number: usize| {
        let row = &wire.packets[number];
        (row.from, row.flags.join(" "), row.bytes, row.what.join(" "))
    };
    assert_eq!(row(0), ("client", "SYN".into(), 0, String::new()));
    assert_eq!(row(1), ("server", "SYN ACK".into(), 0, String::new()));
    assert_eq!(row(6), ("server", "ACK".into(), 1448, "ServerHello ChangeCipherSpec encrypted".into()));
    assert!(watched(&long_chain(0.0).file(), "10.77.0.9:1".parse().expect("an address")).is_none());
}

/// A handshake of few packets, for what is done with it thousands of times.
fn short() -> Made {
    let mut made = Made::new(0.0);
    made.there(21.0, &client_hello());
    made.back(41.0, &[server_hello(4, false), record(23, &[0; 200])].concat());
    made.there(42.0, &[record(23, &[0; 53]), record(23, &[0; 30])].concat());
    made.back(62.0, &record(23, &[0; 40]));
    made.packet(63.0, true, FIN, b"");
    made
}

static SHORT: LazyLock<Vec<u8>> = LazyLock::new(|| short().file());

fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 0.01)
}

#[test]
fn a_connection_is_judged_alike_wherever_it_was_captured() {
    for (away, place) in [(0.0, "client"), (5.0, "between"), (10.0, "server")] {
        let one = long_chain(away).one();
        assert_eq!(one.near, Some(place));
        assert!(near(one.rtt_ms, RTT) && near(one.server_ms, 5.0), "{one:?}");
        assert_eq!((one.round_trips, one.window_round_trips), (Some(2), Some(1)), "{place}: {one:?}");
        assert_eq!((one.segment, one.first_bytes, one.window_full), (1448, 14_480, true), "{place}");
        let tls = one.tls.as_ref().expect("hellos");
        assert_eq!(tls.version.as_deref(), Some("TLSv1.3"));
        assert_eq!(tls.suite.as_deref(), Some("TLS_AES_128_GCM_SHA256"));
        assert_eq!(
            (tls.group.as_deref(), tls.server_name.as_deref()),
            (Some("X25519"), Some("shop.example"))
        );
        assert_eq!(
            (&tls.alpn_offered[..], tls.resumed),
            (&["h2".to_owned(), "http/1.1".to_owned()][..], Some(false))
        );
        assert!(!tls.hello_retry && !tls.early_data);
        assert_eq!((one.end.how, one.end.by, one.end.both), ("fin", Some("client"), true));
        assert_eq!(one.end.closed_by, ["client", "server"]);
        assert_eq!((one.notes.len(), one.interface.as_deref()), (0, Some("near")));
        assert_eq!((one.from_server.bytes, one.from_server.retransmitted), (16_979 + 255 + 4_005 + 24, 0));
    }
}

#[test]
fn moments_and_flights_are_those_of_the_capture() {
    let one = long_chain(0.0).one();
    let at = one.at_ms;
    for (found, expected) in [
        (at.syn_ack, 20.0),
        (at.connected, 20.0),
        (at.client_hello, 21.1),
        (at.server_hello, 46.1),
        (at.secured, 67.0),
        (at.client_data, 67.0),
        (at.server_data, 87.5),
        (at.ended, 90.1),
    ] {
        assert!(near(found, expected), "{found:?} {expected} {at:?}");
    }
    let flights: Vec<_> = one.flights.iter().map(|flight| (flight.from, flight.packets)).collect();
    assert_eq!(flights, [("client", 2), ("server", 12), ("client", 1), ("server", 1)]);
    assert_eq!(one.flights[0].what, ["ClientHello"]);
    assert_eq!(one.flights[1].what, ["ServerHello", "ChangeCipherSpec", "encrypted"]);
    assert!((one.flights[1].lasted_ms - 20.2).abs() < 0.01, "{:?}", one.flights);
}

#[test]
fn tls_1_2_is_read_up_to_its_data() {
    for resumed in [false, true] {
        let mut made = Made::new(0.0);
        made.there(21.0, &client_hello());
        let finished = [record(20, &[1]), record(22, &[0; 40])].concat();
        let certificate = record(22, &[&[11, 0, 0x10, 0], &[0; 0x1000][..], &[14, 0, 0, 0]].concat());
        if resumed {
            made.back(41.0, &[server_hello(3, false), finished.clone()].concat());
            made.there(41.5, &[finished, record(23, &[0; 80])].concat());
            made.back(62.0, &record(23, &[0; 90]));
        } else {
            made.back(41.0, &[server_hello(3, false), certificate].concat());
            made.there(41.5, &[record(22, &[16, 0, 0, 1, 0]), finished.clone()].concat());
            made.back(62.0, &finished);
            made.there(62.5, &record(23, &[0; 80]));
            made.back(83.0, &[record(23, &[0; 90]), record(21, &[0; 26])].concat());
        }
        let one = made.one();
        let tls = one.tls.as_ref().expect("hellos");
        assert_eq!((tls.version.as_deref(), tls.resumed), (Some("TLSv1.2"), Some(resumed)));
        assert_eq!(tls.certificate_bytes, (!resumed).then_some(0x1000));
        assert_eq!(one.round_trips, Some(if resumed { 1 } else { 2 }), "{one:?}");
        assert!(near(one.at_ms.secured, if resumed { 41.5 } else { 62.0 }), "{one:?}");
        assert!(near(one.at_ms.client_data, if resumed { 41.5 } else { 62.5 }), "{one:?}");
        assert!(near(one.at_ms.server_data, if resumed { 62.0 } else { 83.0 }), "{one:?}");
        assert_eq!(one.end.closed_by.len(), usize::from(!resumed));
        assert_eq!((one.end.how, one.end.by), ("open", None));
    }
}

#[test]
fn a_retry_an_alert_and_a_reset_are_named() {
    let mut made = Made::new(0.0);
    let hello = client_hello();
    made.there(21.0, &hello);
    made.back(41.0, &[server_hello(4, true), record(20, &[1])].concat());
    made.there(41.2, &[record(20, &[1]), hello].concat());
    made.back(61.5, &[server_hello(4, false), record(23, &[0; 700])].concat());
    made.there(62.0, &record(23, &[0; 53]));
    made.packet(70.0, true, RST, b"");
    let one = made.one();
    assert!(one.tls.as_ref().is_some_and(|tls| tls.hello_retry));
    assert_eq!((one.round_trips, one.window_round_trips), (Some(2), Some(0)), "{one:?}");
    assert_eq!((one.end.how, one.end.by, one.end.both), ("reset", Some("server"), false));
    assert_eq!(one.flights[1].what, ["HelloRetryRequest", "ChangeCipherSpec"]);
    assert_eq!(one.flights[2].what, ["ClientHello", "ChangeCipherSpec"]);

    let mut made = Made::new(0.0);
    made.there(21.0, &client_hello());
    made.back(41.0, &record(21, &[2, 40]));
    let one = made.one();
    assert_eq!(one.end.alerts, ["server: handshake_failure"]);
    assert!(one.at_ms.secured.is_none() && one.round_trips.is_none());
}

#[test]
fn what_was_sent_again_is_distinguished_from_what_was_overtaken() {
    let with = |late: f64| {
        let mut made = Made::new(0.0);
        made.there(21.0, &client_hello());
        let flight = [server_hello(4, false), record(23, &[0; 6_000])].concat();
        made.back(41.0, &flight);
        made.there(90.0, &record(23, &[0; 53]));
        // The second segment of the server comes later than those behind it.
        made.packets[5].0 += late;
        made
    };
    let again = with(25.0).one();
    assert_eq!((again.from_server.retransmitted, again.from_server.out_of_order), (1, 0));
    let overtaken = with(1.0).one();
    assert_eq!((overtaken.from_server.retransmitted, overtaken.from_server.out_of_order), (0, 1));
    for one in [again, overtaken] {
        assert_eq!(one.tls.and_then(|tls| tls.version).as_deref(), Some("TLSv1.3"));
        assert!(one.notes.is_empty() && near(one.at_ms.secured, 90.0));
    }
    // Seen twice: the acknowledgement was lost behind the capture.
    let mut twice = with(0.0);
    let copy = twice.packets[6].clone();
    twice.packets.push((60.0, copy.1, copy.2));
    let one = twice.one();
    assert_eq!((one.from_server.retransmitted, one.from_server.bytes), (1, 6_005 + 63));
    // Never captured.
    let mut missing = with(0.0);
    missing.packets.remove(5);
    let one = missing.one();
    assert_eq!(one.notes, ["packets are missing in the capture"]);
}

#[test]
fn ports_are_used_again_and_a_byte_that_keeps_a_connection_is_not_sent_again() {
    let mut made = short();
    // One byte that the server has, to see whether it is there; then a new connection from the same port.
    made.next[0] -= 1;
    made.packet(70.0, false, ACK, b"x");
    made.next = [500_000, 600_000];
    made.packet(100.0, false, SYN, b"");
    made.packet(120.0, true, SYN | ACK, b"");
    made.packet(120.0, false, ACK, b"");
    made.packet(121.0, false, RST, b"");
    let report = made.report();
    let all: Vec<_> = report.connections.iter().map(|one| (one.tls.is_some(), one.end.how)).collect();
    assert_eq!(all, [(true, "fin"), (false, "reset")]);
    assert_eq!((report.connections[0].from_client.retransmitted, report.connections[1].begun_ms), (0, 100.0));
}

#[test]
fn what_comes_before_tls_and_what_is_none() {
    let mut made = Made::new(0.0);
    made.back(41.0, b"220 mail ready\r\n");
    made.there(41.5, b"STARTTLS\r\n");
    made.back(62.0, b"220 go on\r\n");
    made.there(62.5, &client_hello());
    made.back(83.0, &[server_hello(4, false), record(23, &[0; 700])].concat());
    made.there(84.0, &record(23, &[0; 53]));
    let one = made.one();
    assert_eq!((one.round_trips, near(one.at_ms.client_hello, 62.5)), (Some(1), true), "{one:?}");

    let mut plain = Made::new(0.0);
    plain.there(21.0, b"GET / HTTP/1.1\r\n\r\n");
    plain.back(41.0, b"HTTP/1.1 200 OK\r\n\r\n");
    let report = plain.report();
    assert!(report.connections[0].tls.is_none() && report.connections[0].round_trips.is_none());
    let text = to_text(&report, Style { color: false, columns: 80 });
    assert!(text.contains("0 of them with a ClientHello") && text.contains("no ClientHello in it"), "{text}");
}

#[test]
fn the_text_fits_its_screen_and_says_what_was_found() {
    let report = long_chain(0.0).report();
    for columns in [80, 120] {
        let text = to_text(&report, Style { color: false, columns });
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        for part in
            ["2 round trips, 1 of them by its window", "= 10 segments of 1,448 B", "captured near the client"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let many = CaptureReport { connections: vec![report.connections[0].clone(); 7], ..report };
    let text = to_text(&many, Style { color: false, columns: 80 });
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("shop.example")).count(), 7, "{text}");
}

#[test]
fn the_published_schema_describes_it() {
    let schema = include_str!("../../../../docs/reference/capture-report.schema.json");
    let faults = |report: &CaptureReport| {
        let value = serde_json::from_str(&to_json(report)).expect("JSON");
        crate::report::tests::faults(&value, schema)
    };
    let mut report = long_chain(0.0).report();
    assert_eq!(faults(&report), [""; 0]);
    report.schema = "handfast-capture/2";
    assert_eq!(faults(&report).len(), 1);
}

#[test]
fn a_capture_may_be_cut_off_anywhere_and_reports_it() {
    let all = short().file();
    let mut packets = 0;
    for end in 0..all.len() {
        match read_all(&all[..end]) {
            Err(why) => assert!(end < 4 && why.contains("expected pcap or pcapng"), "{end}: {why}"),
            Ok(report) => {
                assert!(report.packets >= packets);
                // At the end of a block nothing is missing.
                assert_eq!(report.broken.is_none(), report.bytes == end as u64, "{end}: {:?}", report.broken);
                packets = report.packets;
            }
        }
    }
    assert_eq!(packets + 1, read_all(&all).expect("whole").packets);
    assert!(read_all(b"GIF89a").is_err_and(|why| why.contains("47 49 46 38")));
}

/// A hostile capture: each packet belongs to another connection, or a connection never continues.
#[test]
fn what_is_kept_is_bounded() {
    let mut table = Table::default();
    let hello = client_hello();
    let take = |table: &mut Table, from: SocketAddr, flags: u8, sequence: u32, data: &[u8]| {
        let packet = tcp(from, Made::ends(false).1, flags, sequence, 0, data);
        let length = packet.len() as u32;
        table.take(&Frame { interface: 0, link: 101, at: Some(1), length, bytes: &packet }, None);
    };
    for number in 0..MAX_CONNECTIONS as u32 + 5 {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        let from = SocketAddr::from((address, 40_000));
        take(&mut table, from, SYN, 0, b"");
        // Far ahead of what is next, for ever; and a hello that never ends.
        for piece in 1..20 {
            take(&mut table, from, ACK, piece * 100_000, &[0; 1400]);
        }
        take(&mut table, from, ACK, 1, &hello[..hello.len() - 1]);
    }
    assert!(table.held <= MAX_HELD_BYTES, "{}", table.held);
    let report = table.report(CaptureReport::default());
    assert_eq!((report.connections.len(), report.not_kept), (MAX_CONNECTIONS, 5));
}

proptest! {
    #[test]
    fn no_byte_of_a_capture_harms(at in 0_usize..10_000, bytes in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut all = SHORT.clone();
        let at = at % all.len();
        let end = (at + bytes.len()).min(all.len());
        all[at..end].copy_from_slice(&bytes[..end - at]);
        if let Ok(report) = read_all(&all) {
            let _ = (to_text(&report, Style { color: false, columns: 80 }), to_json(&report));
        }
    }

    #[test]
    fn random_segments_harm_nobody(all in prop::collection::vec((any::<bool>(), any::<u8>(), 0_u32..4_000, prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..60)) {
        let mut table = Table::default();
        for (number, (back, flags, sequence, data, begins)) in all.into_iter().enumerate() {
            let (from, to) = Made::ends(back);
            let data = if begins { [&[22, 3, 1][..], &data].concat() } else { data };
            let packet = tcp(from, to, flags, sequence, sequence / 2, &data);
            let (length, at) = (packet.len() as u32, Some(number as u64 * 1_000_000));
            table.take(&Frame { interface: 0, link: 101, at, length, bytes: &packet[..packet.len() - number % 3] }, None);
        }
        let report = table.report(CaptureReport::default());
        let _ = (to_text(&report, Style { color: true, columns: 80 }), to_json(&report));
    }
}
