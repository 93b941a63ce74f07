//! One end of a connection of HTTP/2, in either role, against a peer that sends right and wrong frames while its owner opens, sends, takes,
//! resets and leaves. A model of the peer checks what comes out: windows are never exceeded, no frame follows the end of its stream, content
//! arrives once and in order, an honest peer is no fault of flow control, and everything is sent once windows permit it.
#![no_main]

use std::collections::BTreeMap;

use handfast_http::http1::{HeadLimits, HeadProgress, ResponseHead, parse_request};
use handfast_http::http2::connection::{
    MAX_CONTROL, OUTBOX, RECEIVE_BUDGET, ResponseParts, STREAM_WINDOW, Settings,
};
use handfast_http::http2::frame::{ErrorCode, FrameHead, PREFACE, flag, kind, setting};
use handfast_http::http2::{Connection, End, HeadText, Role, StreamKey};
use libfuzzer_sys::fuzz_target;

const MAX_WINDOW: i64 = 0x7FFF_FFFF;
const STREAMS: u32 = 8;
/// Field blocks: a request, a response, an interim one, trailers, one that no decoder takes.
const BLOCKS: [&[u8]; 5] =
    [&[0x82, 0x87, 0x84, 0x01, 0x01, b'a'], &[0x88], b"\x08\x03103", b"\x00\x01a\x01b", &[0xFF, 0xFF]];

/// A stream, as the peer sees it.
#[derive(Default)]
struct Stream {
    key: Option<StreamKey>,
    // From the end under test.
    has_head: bool,
    has_ended: bool,
    is_reset: bool,
    /// Bytes that it may send.
    window: i64,
    /// Its owner has put the end of the message, and has not left.
    is_complete: bool,
    has_responded: bool,
    /// The peer has reset it: behind a whole response that only ends the request.
    is_refused: bool,
    // To the end under test.
    given: u64,
    taken: u64,
    /// Bytes that the peer may send.
    granted: i64,
}

struct Peer {
    connection: Connection<u32>,
    text: HeadText,
    role: Role,
    streams: BTreeMap<u32, Stream>,
    /// Bytes that the end under test, and the peer, may send.
    window: i64,
    granted: i64,
    initial: i64,
    now: u64,
    /// The peer has sent more than it may.
    has_exceeded: bool,
    is_over: bool,
    last_named: u32,
    /// The block of HEADERS goes on.
    open_block: Option<u32>,
    /// The greatest id of a stream that is not idle.
    greatest: u32,
}

fn byte(id: u32, at: u64) -> u8 {
    (u64::from(id).wrapping_mul(31).wrapping_add(at.wrapping_mul(7)) % 251) as u8
}

fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

impl Peer {
    fn new(role: Role) -> Self {
        let settings = Settings {
            role,
            streams: STREAMS,
            window: STREAM_WINDOW,
            budget: RECEIVE_BUDGET,
            head: HeadLimits::default(),
        };
        let mut peer = Self {
            connection: Connection::new(settings),
            text: HeadText::default(),
            role,
            streams: BTreeMap::new(),
            window: 65_535,
            granted: 65_535,
            initial: 65_535,
            now: 1_000,
            has_exceeded: false,
            is_over: false,
            last_named: u32::MAX,
            open_block: None,
            greatest: 0,
        };
        if role == Role::Server {
            peer.give(PREFACE, 0);
        }
        peer.frame(kind::SETTINGS, 0, 0, &[], 0);
        peer
    }

    fn stream(&mut self, id: u32) -> &mut Stream {
        let (window, granted) = (self.initial, i64::from(STREAM_WINDOW));
        self.streams.entry(id).or_insert_with(|| Stream { window, granted, ..Stream::default() })
    }

    /// Gives bytes in two pieces.
    fn give(&mut self, bytes: &[u8], split: usize) {
        let (first, rest) = bytes.split_at(split.min(bytes.len()));
        for part in [first, rest] {
            let mut at = 0;
            loop {
                match self.connection.receive(part, &mut at, &mut self.text, self.now) {
                    Ok(Some(new)) => {
                        assert_eq!(self.role, Role::Server);
                        self.connection.set_owner(new.key, new.key.id());
                        self.stream(new.key.id()).key = Some(new.key);
                        self.greatest = self.greatest.max(new.key.id());
                        if self.text.request(!new.has_ended, None).is_err() {
                            self.connection.refuse_malformed(new.key, "malformed", self.now);
                            self.stream(new.key.id()).key = None;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        let is_honest = error.code != ErrorCode::FLOW_CONTROL_ERROR || self.has_exceeded;
                        assert!(is_honest, "{error:?}");
                        break;
                    }
                }
            }
        }
        assert!(self.connection.open_streams() <= STREAMS as usize);
        self.connection.take_woken().for_each(drop);
    }

    fn frame(&mut self, of_kind: u8, flags: u8, stream: u32, payload: &[u8], split: usize) {
        let head = FrameHead { length: payload.len() as u32, kind: of_kind, flags, stream };
        // Also a request that is refused.
        if of_kind == kind::HEADERS && self.role == Role::Server {
            self.greatest = self.greatest.max(stream);
        }
        if of_kind == kind::RST_STREAM && stream % 2 == 1 {
            self.stream(stream).is_refused = true;
        }
        self.give(&[&head.to_bytes()[..], payload].concat(), split);
    }

    /// Content, which counts for windows whatever becomes of it.
    fn data(&mut self, id: u32, count: usize, is_last: bool, split: usize) {
        self.granted -= count as i64;
        let stream = self.stream(id);
        stream.granted -= count as i64;
        let content: Vec<u8> = (0..count as u64).map(|offset| byte(id, stream.given + offset)).collect();
        stream.given += count as u64;
        let is_exceeded = stream.granted < 0;
        self.has_exceeded |= is_exceeded || self.granted < 0;
        self.frame(kind::DATA, u8::from(is_last), id, &content, split);
    }

    fn update(&mut self, id: u32, increment: u32, split: usize) {
        let increment_bytes = increment.to_be_bytes();
        let window = if id == 0 { &mut self.window } else { &mut self.stream(id).window };
        *window += i64::from(increment);
        self.has_exceeded |= *window > MAX_WINDOW;
        self.frame(kind::WINDOW_UPDATE, 0, id, &increment_bytes, split);
    }

    fn settings(&mut self, value: u32, split: usize) {
        // What was made under the windows before is checked by them.
        while self.read() {}
        let change = i64::from(value) - self.initial;
        self.initial = i64::from(value);
        for stream in self.streams.values_mut() {
            stream.window += change;
            self.has_exceeded |= stream.window > MAX_WINDOW;
        }
        self.has_exceeded |= self.initial > MAX_WINDOW;
        let payload = [&setting::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &value.to_be_bytes()].concat();
        self.frame(kind::SETTINGS, 0, 0, &payload, split);
    }

    /// Reads what is sent; returns true if there was anything.
    fn read(&mut self) -> bool {
        let output = self.connection.take_output();
        assert!(output.len() <= 2 * OUTBOX + MAX_CONTROL + 65_536, "{} bytes", output.len());
        let mut bytes = &output[..];
        if bytes.starts_with(PREFACE) {
            bytes = &bytes[PREFACE.len()..];
        }
        while let Some((head, rest)) = bytes.split_first_chunk() {
            let head = FrameHead::parse(head);
            assert!(!self.is_over, "{head:?} behind GOAWAY");
            assert!(head.length <= 16_384, "{head:?}");
            let (payload, rest) = rest.split_at(head.length as usize);
            self.read_frame(head, payload);
            bytes = rest;
        }
        assert!(bytes.is_empty());
        let had_any = !output.is_empty();
        self.connection.reuse(output);
        had_any
    }

    fn read_frame(&mut self, head: FrameHead, payload: &[u8]) {
        let id = head.stream;
        assert!(
            self.open_block.is_none() || (head.kind == kind::CONTINUATION && self.open_block == Some(id))
        );
        match head.kind {
            kind::DATA => {
                self.window -= i64::from(head.length);
                assert!(
                    self.window >= 0 || head.length == 0,
                    "the window of the connection: {}",
                    self.window
                );
                let stream = self.streams.get_mut(&id).expect("it has begun");
                stream.window -= i64::from(head.length);
                assert!(stream.window >= 0 || head.length == 0, "the window of {id}: {}", stream.window);
                assert!(stream.has_head && !stream.has_ended && !stream.is_reset, "DATA of {id}");
                stream.has_ended = head.has(flag::END_STREAM);
            }
            kind::HEADERS => {
                let stream = self.streams.get_mut(&id).expect("it has begun");
                assert!(!stream.has_ended && !stream.is_reset, "HEADERS of {id}");
                assert!(!stream.has_head || head.has(flag::END_STREAM), "a second head of {id}");
                stream.has_head = true;
                stream.has_ended = head.has(flag::END_STREAM);
                self.open_block = (!head.has(flag::END_HEADERS)).then_some(id);
            }
            kind::CONTINUATION => self.open_block = self.open_block.filter(|_| !head.has(flag::END_HEADERS)),
            kind::RST_STREAM => {
                assert!(id % 2 == 1 && id <= self.greatest, "RST_STREAM of the idle stream {id}");
                self.stream(id).is_reset = true;
            }
            kind::WINDOW_UPDATE => {
                let increment = i64::from(number(payload));
                assert!(increment > 0);
                let granted = if id == 0 { &mut self.granted } else { &mut self.stream(id).granted };
                *granted += increment;
                assert!(*granted <= i64::from(RECEIVE_BUDGET), "the window for {id}: {granted}");
            }
            kind::GOAWAY => {
                let last = number(payload);
                assert!(last <= self.last_named, "GOAWAY names a later stream");
                self.last_named = last;
                self.is_over = number(&payload[4..]) != ErrorCode::NO_ERROR.0;
            }
            kind::SETTINGS | kind::PING => assert_eq!(id, 0),
            other => panic!("a frame of type {other}"),
        }
    }

    fn open(&mut self, is_last: bool) {
        let text = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (mut fields, limits) = (Vec::new(), HeadLimits::default());
        let head = parse_request(text, &mut HeadProgress::default(), &mut fields, &limits);
        let head = head.expect("it is right").expect("it is whole");
        let can_open = self.connection.can_open();
        let opened = self.connection.open(0, &head, "https", is_last);
        assert_eq!(opened.is_some(), can_open && self.role == Role::Client);
        if let Some(key) = opened {
            self.greatest = key.id();
            let stream = self.stream(key.id());
            assert!(stream.key.is_none() && !stream.has_head);
            (stream.key, stream.is_complete) = (Some(key), is_last);
        }
    }

    /// An owner does something with its stream.
    fn own(&mut self, id: u32, act: u8, count: usize) {
        let role = self.role;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (connection, Some(key)) = (&mut self.connection, stream.key) else { return };
        match act % 6 {
            0 if role == Role::Server => {
                if !std::mem::replace(&mut stream.has_responded, true) {
                    let parts = ResponseParts {
                        head: &ResponseHead::EMPTY,
                        status: 200,
                        length: None,
                        is_last: false,
                    };
                    connection.respond(key, parts, |_| false, std::iter::empty());
                }
            }
            0 => drop(connection.take_response_head(key)),
            1 | 2 if (role == Role::Client || stream.has_responded) && !stream.is_complete => {
                if connection.accepts(key) {
                    let content = vec![7; count.min(connection.room(key))];
                    let end = (act % 6 == 2).then_some(End::Plain);
                    stream.is_complete |= end.is_some();
                    let _ended = connection.send(key, &content, end);
                }
            }
            3 => {
                let content = connection.take_content(key);
                let bytes = &content.as_slice()[..content.as_slice().len().min(count)];
                for (offset, found) in bytes.iter().enumerate() {
                    assert_eq!(*found, byte(id, stream.taken + offset as u64), "content of {id}");
                }
                let passed = bytes.len();
                stream.taken += passed as u64;
                assert!(stream.taken <= stream.given);
                connection.give_back(key, content, passed);
            }
            4 => connection.reset(key, ErrorCode::CANCEL),
            5 => {
                connection.release(key, ErrorCode::CANCEL);
                stream.key = None;
            }
            _ => {}
        }
    }

    /// With windows as large as they can be, everything goes that was put, unless its stream or the connection has ended.
    fn finish(&mut self) {
        while self.read() {}
        for id in self.streams.keys().copied().filter(|id| id % 2 == 1).chain([0]).collect::<Vec<_>>() {
            let window = if id == 0 { self.window } else { self.stream(id).window };
            let is_open = id == 0 || self.stream(id).key.is_some();
            if let Ok(increment @ 1..) = u32::try_from((MAX_WINDOW - window).min(MAX_WINDOW))
                && is_open
            {
                // Not too fast, for the guard.
                self.now += 1_000_000;
                self.update(id, increment, 0);
            }
        }
        while self.read() {}
        if self.connection.error().is_some() {
            return;
        }
        for (id, stream) in &self.streams {
            if let Some(key) = stream.key
                && self.connection.end(key).is_none()
                && stream.is_complete
            {
                assert!(
                    stream.has_ended || stream.is_refused,
                    "stream {id} has not sent its end: window {}",
                    stream.window
                );
                assert!(self.connection.is_done(key));
            }
        }
        assert!(!self.connection.has_output());
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, mut rest)) = input.split_first() else { return };
    let mut peer = Peer::new(if first & 1 == 0 { Role::Server } else { Role::Client });
    while let Some((&[act, which, a, b], behind)) = rest.split_first_chunk() {
        rest = behind;
        if peer.is_over {
            break;
        }
        let id = u32::from(which % 20);
        let (count, split) = (usize::from(a) * 67, usize::from(b));
        peer.now += u64::from(b);
        match act % 20 {
            0 => peer.open(a & 1 == 0),
            1..=6 => peer.own(id, a, usize::from(b) * 257),
            7 | 8 => {
                peer.read();
            }
            9 => peer.data(id, count.min(16_384), b & 1 != 0, split),
            // As much as it may send.
            10 => {
                let most = peer.granted.min(peer.stream(id).granted).clamp(0, 16_384);
                peer.data(id, count.min(most as usize), false, split);
            }
            11 | 12 => {
                let block = BLOCKS[usize::from(a) % BLOCKS.len()];
                // Rules for heads are tested elsewhere; trailers of requests and responses are the same.
                peer.frame(kind::HEADERS, flag::END_HEADERS | (b & 1), id, block, split);
            }
            13 => peer.update(id, u32::from(a) << (b % 24), split),
            14 => peer.settings(u32::from(a) << (b % 25), split),
            15 => peer.frame(kind::RST_STREAM, 0, id, &[0, 0, 0, b % 14], split),
            16 => peer.frame(kind::GOAWAY, 0, 0, &[0, 0, 0, a, 0, 0, 0, b], split),
            17 => {
                let length = usize::from(a % 12);
                let payload = behind.get(..length).unwrap_or_default().to_vec();
                // DATA and windows have their own acts, which the model counts.
                let of_kind = [1, 2, 3, 5, 6, 7, 9, 0x10, 0xEE][usize::from(b) % 9];
                peer.frame(of_kind, which >> 2, id, &payload, split);
            }
            18 if a & 7 == 0 => peer.connection.begin_goodbye(),
            18 if a & 7 == 1 => peer.connection.end_goodbye(),
            _ => peer.now += 1_000,
        }
    }
    peer.finish();
});
