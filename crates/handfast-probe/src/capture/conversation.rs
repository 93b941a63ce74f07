//! One TCP connection of a capture: its packets in, a [`ConnectionReport`] out.
//!
//! **Times.** A capture may be made anywhere on the path. TCP's handshake tells where: from SYN to SYN-ACK is the way to the server and
//! back, from there to the ACK the way to the client. So every packet's time can be computed as seen by the client, and
//! [`crate::flights`] counts round trips as it does for connections of this program.
//!
//! **Bounds.** Of what comes in the wrong order [`MAX_HELD_BYTES`] bytes are kept, of packets with data the first [`MAX_STEPS`] times.

use std::net::SocketAddr;

use handfast_wire::packet::Segment;
use handfast_wire::record::ContentType;
use handfast_wire::registry::{self, TLS_1_3};
use handfast_wire::{ClientHello, ServerHello};

use super::records::{Found, Records};
use super::report::{ConnectionReport, Direction, EndReport, FlightReport, Moments, TlsReport};
use crate::flights::{Because, Exchange, Seen, SegmentSize, before_waiting, exchanges};

/// Packets with data whose times are kept.
const MAX_STEPS: usize = 256;
/// Bytes of one direction that are kept until what is before them comes.
const MAX_HELD_BYTES: usize = 64 << 10;
/// In so many segments.
const MAX_HELD_SEGMENTS: usize = 256;
/// Flights that are reported.
const MAX_FLIGHTS: usize = 24;
/// Application protocols of a hello that are reported.
const MAX_PROTOCOLS: usize = 8;
/// A segment that fills a gap sooner than this was reordered, not sent again.
const OVERTAKEN_NANOS: u64 = 3_000_000;

const NAMES: [&str; 2] = ["client", "server"];

/// A connection that is still being read.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) interface: usize,
    ends: [SocketAddr; 2],
    begun: u64,
    /// Time of the last SYN, and the times of SYN-ACK and of what followed it.
    syn: Option<u64>,
    syn_ack: Option<u64>,
    connected: Option<u64>,
    sides: [Side; 2],
    steps: Vec<Step>,
    /// Time at which TLS began, and the time at which the ClientHello was complete.
    tls_begun: Option<u64>,
    hello: Option<(u64, TlsReport)>,
    /// The byte behind the ClientHello, and when the server had acknowledged it.
    hello_end: u32,
    hello_acknowledged: Option<u64>,
    answer: Option<(u64, ServerHello)>,
    secured: Option<(u64, usize)>,
    data: [Option<u64>; 2],
    ended: Option<(u64, usize, &'static str)>,
    alerts: Vec<String>,
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    records: Records,
    is_tls: bool,
    count: Direction,
    /// The next byte in order.
    next: Option<u32>,
    /// Segments that came out of order, and since when one is missing.
    held: Vec<(u32, u32, Vec<u8>)>,
    held_bytes: usize,
    missing_since: Option<u64>,
    largest: Option<u16>,
    stamped: bool,
    longest: usize,
    fin: Option<u32>,
    changed_cipher: bool,
    finished: Option<u64>,
    last_is_alert: bool,
    cut: bool,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    at: u64,
    side: usize,
    bytes: u32,
    what: u8,
}

/// Names of the messages in a flight, in the order of the bits of [`Step::what`].
const WHAT: [&str; 7] = [
    "ClientHello",
    "ServerHello",
    "HelloRetryRequest",
    "Certificate",
    "ChangeCipherSpec",
    "alert",
    "encrypted",
];

impl Conversation {
    /// Begins with its first packet.
    pub(super) fn new(interface: usize, at: u64, segment: &Segment<'_>) -> Self {
        // The sender of SYN-ACK is the server. Without one, the side that sends first is the client, until a hello shows otherwise.
        let ends =
            if segment.syn && segment.ack { [segment.to, segment.from] } else { [segment.from, segment.to] };
        Self {
            interface,
            ends,
            begun: at,
            syn: None,
            syn_ack: None,
            connected: None,
            sides: Default::default(),
            steps: Vec::new(),
            tls_begun: None,
            hello: None,
            hello_end: 0,
            hello_acknowledged: None,
            answer: None,
            secured: None,
            data: [None; 2],
            ended: None,
            alerts: Vec::new(),
        }
    }

    /// Bytes that are kept until others come.
    pub(super) fn held(&self) -> usize {
        self.sides.iter().map(|side| side.held_bytes + side.records.held()).sum()
    }

    /// Keeps none of them any more.
    pub(super) fn forget(&mut self) {
        for side in &mut self.sides {
            side.records.forget();
            side.drop_held();
        }
    }

    /// Returns true if this packet begins another connection between the same ports.
    pub(super) fn is_over_before(&self, segment: &Segment<'_>) -> bool {
        let first = self.sides[0].next.filter(|_| self.syn.is_some());
        segment.syn
            && !segment.ack
            && (self.ended.is_some() || self.connected.is_some())
            && first != Some(segment.sequence.wrapping_add(1))
    }

    /// Takes the next packet in, and says what is in it.
    pub(super) fn take(&mut self, at: u64, segment: &Segment<'_>) -> Vec<&'static str> {
        if self.hello.is_none()
            && self.syn.is_none()
            && segment.from == self.ends[1]
            && begins_tls(segment.payload)
        {
            self.ends.swap(0, 1);
            self.sides.swap(0, 1);
            self.steps.iter_mut().for_each(|step| step.side ^= 1);
        }
        let side = usize::from(segment.from == self.ends[1]);
        self.sides[side].count.packets += 1;
        if segment.syn {
            self.greet(at, side, segment);
        } else if side == 0 && segment.ack && self.syn_ack.is_some() {
            self.connected.get_or_insert(at);
        }
        let what = if segment.data > 0 { self.words(at, side, segment) } else { 0 };
        let behind_hello = segment.acknowledged.wrapping_sub(self.hello_end) as i32 >= 0;
        if side == 1 && segment.ack && self.hello.is_some() && behind_hello {
            self.hello_acknowledged.get_or_insert(at);
        }
        if segment.fin {
            let end = segment.sequence.wrapping_add(segment.data);
            let again = self.sides[side].fin.replace(end).is_some();
            self.sides[side].count.retransmitted += u64::from(again && segment.data == 0);
            self.ended.get_or_insert((at, side, "fin"));
        }
        if segment.reset && self.ended.is_none_or(|(.., how)| how == "fin") {
            // A reset after a clean close ends nothing, unless the other side had not closed.
            let tidy = self.sides.iter().all(|side| side.fin.is_some());
            if !tidy {
                self.ended = Some((at, side, "reset"));
            }
        }
        names(what).collect()
    }

    fn greet(&mut self, at: u64, side: usize, segment: &Segment<'_>) {
        let again = self.sides[side].next.is_some();
        let this = &mut self.sides[side];
        this.count.retransmitted += u64::from(again);
        this.next.get_or_insert(segment.sequence.wrapping_add(1));
        this.largest = segment.largest;
        this.stamped = segment.stamped;
        match side {
            0 if self.syn_ack.is_none() => self.syn = Some(at),
            0 => {}
            _ => {
                self.syn_ack.get_or_insert(at);
            }
        }
    }

    /// Takes data in, and says which of [`WHAT`] is in it.
    fn words(&mut self, at: u64, number: usize, segment: &Segment<'_>) -> u8 {
        let rtt = self.round_trip().unwrap_or(0);
        let side = &mut self.sides[number];
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        let next = *side.next.get_or_insert(sequence);
        let offset = sequence.wrapping_sub(next) as i32;
        let behind = i64::from(offset) + i64::from(segment.data);
        if behind <= 0 {
            // A byte that the other side already has is a keep-alive probe.
            side.count.retransmitted += u64::from(segment.data > 1 || behind < 0);
            return 0;
        }
        side.longest = side.longest.max(segment.data as usize);
        side.cut |= segment.payload.len() < segment.data as usize;
        let mut found = Vec::new();
        if offset > 0 {
            if side.held.iter().any(|(held, ..)| *held == sequence) {
                side.count.retransmitted += 1;
                return 0;
            }
            side.missing_since.get_or_insert(at);
            side.hold(sequence, segment, &mut found);
        } else {
            if let Some(since) = side.missing_since {
                let again = at.saturating_sub(since) >= rtt.max(OVERTAKEN_NANOS);
                side.count.retransmitted += u64::from(again);
                side.count.out_of_order += u64::from(!again);
            }
            let old = offset.unsigned_abs() as usize;
            self.feed(number, segment.payload.get(old..).unwrap_or_default(), behind as usize, &mut found);
            let side = &mut self.sides[number];
            side.next = Some(next.wrapping_add(behind as u32));
            while let Some((fresh, missing)) = self.sides[number].release() {
                self.feed(number, &fresh, missing, &mut found);
            }
        }
        if number == 0 && self.sides[0].is_tls {
            self.tls_begun.get_or_insert(at);
        }
        self.sides[number].count.bytes += behind.min(segment.data.into()) as u64;
        let what = self.note(at, number, segment, found);
        if self.steps.len() < MAX_STEPS {
            self.steps.push(Step { at, side: number, bytes: segment.data, what });
        }
        what
    }

    /// Gives bytes in order to the reader of records. `whole`: their number on the wire.
    fn feed(&mut self, number: usize, bytes: &[u8], whole: usize, found: &mut Vec<Found>) {
        if !self.sides[number].is_tls {
            // Before TLS there may be plain text (STARTTLS); TLS begins with the client.
            let begins = if number == 0 { begins_tls(bytes) } else { self.sides[0].is_tls };
            if !begins {
                return;
            }
            self.sides[number].is_tls = true;
        }
        let records = &mut self.sides[number].records;
        records.take(bytes, found);
        records.miss(whole.saturating_sub(bytes.len()), found);
    }

    /// Notes what was found, and says which of [`WHAT`] it is.
    fn note(&mut self, at: u64, number: usize, segment: &Segment<'_>, found: Vec<Found>) -> u8 {
        let mut what = 0;
        for one in found {
            self.sides[number].last_is_alert = false;
            what |= match one {
                Found::ClientHello(hello) => {
                    if self.hello.is_none() {
                        self.hello = Some((at, of_hello(&hello)));
                        self.hello_end = segment.sequence.wrapping_add(segment.data);
                    }
                    self.sides[0].records.hello_follows = false;
                    1
                }
                Found::ServerHello(hello) => {
                    let retry = hello.is_retry;
                    self.sides.iter_mut().for_each(|side| side.records.hello_follows = retry);
                    if let (true, Some((_, tls))) = (retry, &mut self.hello) {
                        tls.hello_retry = true;
                    }
                    if !retry && self.answer.is_none() {
                        self.answer = Some((at, hello));
                    }
                    if retry { 4 } else { 2 }
                }
                Found::Certificate(bytes) => {
                    if let (1, Some((_, tls))) = (number, &mut self.hello) {
                        tls.certificate_bytes = Some(bytes);
                    }
                    8
                }
                Found::ChangeCipherSpec => {
                    self.sides[number].changed_cipher = true;
                    16
                }
                Found::Alert(alert) => {
                    if self.alerts.len() < MAX_PROTOCOLS {
                        self.alerts.push(format!("{}: {alert}", NAMES[number]));
                    }
                    32
                }
                Found::Encrypted(kind, length) => {
                    self.encrypted(at, number, kind, length);
                    64
                }
                Found::Lost => 0,
            };
        }
        what
    }

    /// An encrypted record: of the handshake, data, or an alert.
    fn encrypted(&mut self, at: u64, number: usize, kind: ContentType, length: usize) {
        /// Two bytes, the inner type and the tag of all usual suites.
        const ALERT_IN_1_3: usize = 19;
        let Some((_, answer)) = &self.answer else { return };
        let is_data = kind == ContentType::APPLICATION_DATA;
        let side = &mut self.sides[number];
        if answer.version < TLS_1_3 {
            side.last_is_alert = kind == ContentType::ALERT;
            if kind == ContentType::HANDSHAKE && side.changed_cipher && self.secured.is_none() {
                side.finished = Some(at);
                if self.sides.iter().all(|side| side.finished.is_some()) {
                    self.secured = Some((at, number));
                }
            }
            if is_data {
                self.data[number].get_or_insert(at);
            }
            return;
        }
        side.last_is_alert = is_data && length == ALERT_IN_1_3;
        if !is_data || side.last_is_alert {
            return;
        }
        if number == 1 {
            if self.secured.is_some() {
                self.data[1].get_or_insert(at);
            }
            return;
        }
        // Finished has the hash's length, plus a type and a length of three bytes, the inner type and the tag. If the client sends a
        // certificate, one record can hold Finished and other messages; then it looks like the client's data.
        let finished = if answer.cipher_suite == 0x1302 { 69 } else { 53 };
        if side.finished.is_some() {
            self.data[0].get_or_insert(at);
        } else {
            side.finished = (length == finished).then_some(at);
            self.secured = Some((at, 0));
        }
    }

    /// Nanoseconds of a round trip, by TCP's handshake.
    fn round_trip(&self) -> Option<u64> {
        Some(self.connected?.saturating_sub(self.syn?))
    }

    /// The report. `first`: when the capture began; `name`: of its interface.
    pub(super) fn report(mut self, first: u64, name: Option<&str>) -> ConnectionReport {
        let begun = self.begun;
        let since = move |at: u64| at.saturating_sub(begun) as f64 / 1e6;
        let ms = move |at: Option<u64>| at.map(since);
        // To the client and back.
        let near_client = self.connected.zip(self.syn_ack).map(|(ack, syn_ack)| ack.saturating_sub(syn_ack));
        let rtt = self.round_trip().map(|nanos| nanos as f64 / 1e6);
        let shift = near_client.unwrap_or(0) as f64 / 2e6;
        let as_client = move |at: u64, side: usize| since(at) + if side == 0 { -shift } else { shift };
        let segment = self.segment();
        let seen = self.seen(as_client);
        let exchanges = exchanges(&seen, rtt.unwrap_or(0.0), SegmentSize::of(segment));
        // Seen from the server, the client's end is as uncertain as the way there; the next answer is a whole round trip away.
        let slack = rtt.unwrap_or(0.0) / 4.0;
        let until = self.secured.map(|(at, side)| as_client(at, side) + slack);
        let of_handshake = |exchange: &&Exchange| {
            exchange.first_ms().zip(until).is_some_and(|(first, until)| first <= until)
        };
        let from_hello = self.tls_begun.map_or(f64::MAX, |at| as_client(at, 0) - 1e-6);
        let shaking: Vec<&Exchange> =
            exchanges.iter().filter(|exchange| exchange.sent_ms >= from_hello).filter(of_handshake).collect();
        let (first_bytes, window_full) = before_waiting(shaking.iter().copied());
        let bursts = shaking.iter().flat_map(|exchange| &exchange.bursts);
        let held = bursts.filter(|burst| burst.because == Because::Window).count() as u32;
        let trips = until.map(|until| shaking.iter().map(|exchange| exchange.round_trips_until(until)).sum());
        let answered =
            exchanges.iter().find(|exchange| exchange.sent_ms >= from_hello && !exchange.bursts.is_empty());
        let report = ConnectionReport {
            interface: name.map(str::to_owned),
            client: self.ends[0].to_string(),
            server: self.ends[1].to_string(),
            begun_ms: self.begun.saturating_sub(first) as f64 / 1e6,
            near: near_client.zip(rtt).map(|(nanos, rtt)| place(nanos as f64 / 1e6, rtt)),
            rtt_ms: rtt,
            at_ms: Moments {
                syn_ack: ms(self.syn_ack),
                connected: ms(self.connected),
                client_hello: ms(self.hello.as_ref().map(|(at, _)| *at)),
                server_hello: ms(self.answer.as_ref().map(|(at, _)| *at)),
                secured: ms(self.secured.map(|(at, _)| at)),
                client_data: ms(self.data[0]),
                server_data: ms(self.data[1]),
                ended: ms(self.ended.map(|(at, ..)| at)),
            },
            server_ms: answered
                .filter(|_| rtt.is_some() && self.answer.is_some())
                .map(|exchange| exchange.think_ms),
            round_trips: trips.filter(|_| rtt.is_some()),
            window_round_trips: trips.filter(|_| rtt.is_some()).map(|_: u32| held),
            segment,
            first_bytes,
            window_full,
            flights: self.flights(),
            from_client: self.sides[0].count,
            from_server: self.sides[1].count,
            end: self.end(),
            notes: self.notes(),
            tls: None,
        };
        ConnectionReport { tls: self.tls(), ..report }
    }

    fn seen(&self, as_client: impl Fn(u64, usize) -> f64) -> Vec<Seen> {
        let hello = self.hello.as_ref().map(|(at, _)| *at);
        let seen = |step: &Step| match step.side {
            0 => Seen::Sent {
                at_ms: as_client(step.at, 0),
                bytes: step.bytes as usize,
                last: 0,
                sent_ms: None,
                acknowledged_ms: self
                    .hello_acknowledged
                    .filter(|_| Some(step.at) == hello)
                    .map(|at| as_client(at, 1)),
            },
            _ => Seen::Received { at_ms: as_client(step.at, 1), bytes: step.bytes as usize },
        };
        let mut all: Vec<Seen> = self.steps.iter().map(seen).collect();
        let at = |seen: &Seen| match seen {
            Seen::Sent { at_ms, .. } | Seen::Received { at_ms, .. } => *at_ms,
        };
        all.sort_by(|one, other| at(one).total_cmp(&at(other)));
        all
    }

    /// Bytes of a full segment from the server: what both agreed on, or the longest that was seen.
    fn segment(&self) -> usize {
        /// Of Ethernet with IPv4; a longer one was joined by a card.
        const USUAL: usize = 1_460;
        let agreed = self.sides[0].largest.zip(self.sides[1].largest).map(|(one, other)| one.min(other));
        let stamps = if self.sides.iter().all(|side| side.stamped) { 12 } else { 0 };
        match agreed {
            Some(agreed) => usize::from(agreed).saturating_sub(stamps).max(1),
            None => self.sides[1].longest.clamp(1, USUAL),
        }
    }

    /// Up to the first data behind the handshake.
    fn flights(&self) -> Vec<FlightReport> {
        let mut flights: Vec<FlightReport> = Vec::new();
        let until = self.data[1].or(self.data[0]).unwrap_or(u64::MAX);
        for step in self.steps.iter().filter(|step| step.at <= until) {
            let at_ms = step.at.saturating_sub(self.begun) as f64 / 1e6;
            let from = NAMES[step.side];
            if flights.last().is_none_or(|last| last.from != from) {
                if flights.len() == MAX_FLIGHTS {
                    break;
                }
                flights.push(FlightReport { from, at_ms, ..FlightReport::default() });
            }
            let Some(last) = flights.last_mut() else { break };
            last.lasted_ms = at_ms - last.at_ms;
            last.bytes += u64::from(step.bytes);
            last.packets += 1;
            for what in names(step.what) {
                if !last.what.contains(&what) {
                    last.what.push(what);
                }
            }
        }
        flights
    }

    fn end(&mut self) -> EndReport {
        let closed = (0..2).filter(|number| self.sides[*number].last_is_alert).map(|number| NAMES[number]);
        EndReport {
            how: self.ended.map_or("open", |(.., how)| how),
            by: self.ended.map(|(_, side, _)| NAMES[side]),
            both: self.sides.iter().all(|side| side.fin.is_some()),
            alerts: std::mem::take(&mut self.alerts),
            closed_by: closed.collect(),
        }
    }

    fn notes(&self) -> Vec<&'static str> {
        let of = |fact: fn(&Side) -> bool| self.sides.iter().any(fact);
        let rows = [
            (self.syn.is_none(), "its beginning is not in the capture"),
            (self.syn.is_some() && self.syn_ack.is_none(), "no SYN-ACK came: the server did not answer"),
            (of(|side| !side.held.is_empty()), "packets are missing in the capture"),
            (of(|side| side.cut), "the capture has cut its packets"),
            (of(|side| side.is_tls && side.records.lost), "its records could not be followed to the end"),
            (self.steps.len() == MAX_STEPS, "the times of later packets were not kept"),
        ];
        rows.into_iter().filter_map(|(holds, what)| holds.then_some(what)).collect()
    }

    fn tls(self) -> Option<TlsReport> {
        let (_, mut tls) = self.hello?;
        if let Some((_, answer)) = self.answer {
            let label = |name, code| Some(registry::label(name, code).into_owned());
            tls.version = label(registry::version_name(answer.version), answer.version);
            tls.suite = label(registry::cipher_suite_name(answer.cipher_suite), answer.cipher_suite);
            tls.group = answer.group.and_then(|group| label(registry::group_name(group), group));
            tls.alpn = answer.alpn.map(|name| String::from_utf8_lossy(&name).into_owned());
            // In TLS 1.2 a session that goes on has no Certificate.
            let changed = self.sides[1].changed_cipher;
            tls.resumed = match answer.version {
                TLS_1_3 => Some(answer.has_pre_shared_key),
                _ => (tls.certificate_bytes.is_some() || changed).then_some(tls.certificate_bytes.is_none()),
            };
        }
        Some(tls)
    }
}

/// Reads the offers of the client from its hello; the rest, which may be long, is not kept.
fn of_hello(hello: &ClientHello) -> TlsReport {
    TlsReport {
        server_name: hello.server_name.as_deref().map(str::to_owned),
        alpn_offered: hello
            .alpn
            .iter()
            .take(MAX_PROTOCOLS)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect(),
        early_data: hello.has_early_data,
        ..TlsReport::default()
    }
}

/// Returns true if a client's bytes begin a handshake record.
fn begins_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [22, 3, 0..=4, ..])
}

/// Names of these bits in [`WHAT`].
fn names(what: u8) -> impl Iterator<Item = &'static str> {
    WHAT.iter().enumerate().filter(move |(bit, _)| what & 1 << bit != 0).map(|(_, name)| *name)
}

/// Place of a capture: near the client, near the server, or between them.
fn place(to_client_ms: f64, rtt_ms: f64) -> &'static str {
    match to_client_ms / rtt_ms {
        share if share < 0.2 => "client",
        share if share > 0.8 => "server",
        _ => "between",
    }
}

impl Side {
    fn hold(&mut self, sequence: u32, segment: &Segment<'_>, found: &mut Vec<Found>) {
        if self.held.len() == MAX_HELD_SEGMENTS || self.held_bytes + segment.payload.len() > MAX_HELD_BYTES {
            // A segment was never captured: continue behind it.
            self.records.forget();
            self.drop_held();
            self.next = Some(sequence.wrapping_add(segment.data));
            found.push(Found::Lost);
            return;
        }
        self.held_bytes += segment.payload.len();
        self.held.push((sequence, segment.data, segment.payload.to_vec()));
    }

    fn drop_held(&mut self) {
        (self.held, self.held_bytes, self.missing_since) = (Vec::new(), 0, None);
    }

    /// Returns the next held segment: its bytes, and their number on the wire.
    fn release(&mut self) -> Option<(Vec<u8>, usize)> {
        let next = self.next?;
        let is_next = |(sequence, ..): &(u32, u32, Vec<u8>)| sequence.wrapping_sub(next) as i32 <= 0;
        let place = self.held.iter().position(is_next)?;
        let (sequence, data, mut bytes) = self.held.swap_remove(place);
        self.held_bytes -= bytes.len();
        let old = next.wrapping_sub(sequence).min(data);
        self.next = Some(next.wrapping_add(data - old));
        if self.held.is_empty() {
            self.missing_since = None;
        }
        bytes.drain(..bytes.len().min(old as usize));
        Some((bytes, (data - old) as usize))
    }
}
