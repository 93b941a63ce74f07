//! Both roles against each other, what a server must not send, and each abuse that `guard.rs` bounds.

use super::*;
use crate::http1::{HeadProgress, Method, parse_request, parse_response};
use crate::http2::frame::{flag, kind};
use crate::http2::{End, HeadText};

mod abuse;
mod honest;
mod illegal;
mod model;

/// Both ends of a connection, and the bytes between them.
struct Pair {
    client: Connection<u32>,
    server: Connection<u32>,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    text: HeadText,
}

/// A request that a server has received.
struct Arrived {
    key: StreamKey,
    path: String,
}

const LIMITS: HeadLimits = HeadLimits {
    head: 32_768,
    start_line: 16_384,
    fields: 128,
    underscores: crate::http1::Underscores::Drop,
};

fn server() -> Connection<u32> {
    Connection::new(Settings {
        role: Role::Server,
        streams: 100,
        window: STREAM_WINDOW,
        budget: RECEIVE_BUDGET,
        head: LIMITS,
    })
}

impl Pair {
    fn new() -> Self {
        let client = Connection::new(Settings {
            role: Role::Client,
            streams: 1_000,
            window: STREAM_WINDOW,
            budget: RECEIVE_BUDGET,
            head: LIMITS,
        });
        let (to_server, to_client, text) = (Vec::new(), Vec::new(), HeadText::default());
        Self { client, server: server(), to_server, to_client, text }
    }

    /// Moves at most this number of bytes in each direction, in pieces; returns the requests that arrived.
    fn carry(&mut self, most: usize, piece: usize) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        self.to_server.extend(self.client.take_output());
        let count = most.min(self.to_server.len());
        for part in self.to_server.drain(..count).collect::<Vec<_>>().chunks(piece.max(1)) {
            let mut at = 0;
            while let Some(new) =
                self.server.receive(part, &mut at, &mut self.text, 0).expect("the client is honest")
            {
                let head = self.text.request(!new.has_ended, None).expect("it is right");
                let path = String::from_utf8(head.target.path().to_vec()).expect("text");
                self.server.set_owner(new.key, new.key.id());
                arrived.push(Arrived { key: new.key, path });
            }
        }
        self.to_client.extend(self.server.take_output());
        let count = most.min(self.to_client.len());
        for part in self.to_client.drain(..count).collect::<Vec<_>>().chunks(piece.max(1)) {
            let new = self.client.receive(part, &mut 0, &mut self.text, 0);
            assert_eq!(new.expect("the server is honest"), None);
        }
        arrived
    }

    fn request(&mut self, path: &str, is_last: bool) -> StreamKey {
        let text = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let mut fields = Vec::new();
        let head = parse_request(text.as_bytes(), &mut HeadProgress::default(), &mut fields, &LIMITS);
        let head = head.expect("it is right").expect("it is whole");
        assert_eq!(head.method, Method::GET);
        self.client.open(0, &head, "https", is_last).expect("there is room")
    }

    fn respond(&mut self, key: StreamKey, is_last: bool) {
        let text = b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n";
        let mut fields = Vec::new();
        let head = parse_response(text, &mut HeadProgress::default(), &mut fields, &LIMITS);
        let head = head.expect("it is right").expect("it is whole");
        let parts = ResponseParts { head: &head, status: 200, length: None, is_last };
        self.server.respond(key, parts, |_| false, std::iter::empty());
    }
}

/// Takes all content of a stream that has come.
fn take(connection: &mut Connection<u32>, key: StreamKey) -> Vec<u8> {
    let content = connection.take_content(key);
    let bytes = content.as_slice().to_vec();
    connection.give_back(key, content, bytes.len());
    bytes
}

/// All frames in these bytes.
fn frames(mut bytes: &[u8]) -> Vec<(FrameHead, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = FrameHead::parse(head);
        let (payload, rest) = rest.split_at(head.length as usize);
        frames.push((head, payload.to_vec()));
        bytes = rest;
    }
    frames
}

#[test]
fn a_request_and_its_response_pass_in_pieces_of_any_size() {
    for piece in [1, 2, 7, 9, 10, 100, 65_536] {
        let mut pair = Pair::new();
        let key = pair.request("/a", true);
        let arrived = pair.carry(usize::MAX, piece);
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].path, "/a");
        assert!(pair.server.has_ended(arrived[0].key));
        pair.respond(arrived[0].key, false);
        pair.server.send(arrived[0].key, b"hello", Some(End::Plain)).expect("it is open");
        assert!(pair.server.is_done(arrived[0].key));
        pair.carry(usize::MAX, piece);
        let (mut head, is_last) = pair.client.take_response_head(key).expect("it has come");
        assert_eq!((head.response(!is_last).expect("it is right").status, is_last), (200, false));
        assert_eq!(take(&mut pair.client, key), b"hello");
        assert!(pair.client.has_ended(key));
        pair.server.release(arrived[0].key, ErrorCode::INTERNAL_ERROR);
        pair.client.release(key, ErrorCode::CANCEL);
        pair.carry(usize::MAX, piece);
        assert_eq!((pair.server.open_streams(), pair.client.open_streams()), (0, 0));
    }
}

/// All responses that are ready in one turn go out together, and each is one HEADERS and one DATA frame.
#[test]
fn responses_of_one_turn_are_one_output() {
    let mut pair = Pair::new();
    let keys: Vec<_> = (0..40).map(|_| pair.request("/", true)).collect();
    let arrived = pair.carry(usize::MAX, usize::MAX);
    assert_eq!(arrived.len(), keys.len());
    for request in &arrived {
        pair.respond(request.key, false);
        pair.server.send(request.key, &[7; 1_024], Some(End::Plain)).expect("it is open");
    }
    let output = pair.server.take_output();
    let kinds: Vec<u8> = frames(&output).iter().map(|(head, _)| head.kind).collect();
    assert_eq!(kinds, [kind::HEADERS, kind::DATA].repeat(40));
    assert!(!pair.server.has_output());
}

/// Content beyond the windows waits, and each update moves what it permits.
#[test]
fn windows_are_never_exceeded_and_grow_for_a_single_upload() {
    let mut pair = Pair::new();
    let key = pair.request("/", false);
    let arrived = pair.carry(usize::MAX, usize::MAX)[0].key;
    let mut sent = 0;
    let mut largest = 0;
    let mut in_flight = 0;
    for _ in 0..64 {
        while pair.client.accepts(key) {
            let piece = vec![1; pair.client.room(key).min(16_384)];
            pair.client.send(key, &piece, None).expect("it is open");
            sent += piece.len();
        }
        pair.carry(usize::MAX, usize::MAX);
        let got = take(&mut pair.server, arrived).len();
        in_flight += got;
        largest = largest.max(got);
        pair.carry(usize::MAX, usize::MAX);
    }
    assert!(sent >= in_flight && in_flight > 0);
    assert!(largest > STREAM_WINDOW as usize, "the window has grown: {largest}");
    assert!(largest <= RECEIVE_BUDGET as usize);
}

/// A receiver that takes nothing holds the window and no more; the connection goes on for others.
#[test]
fn a_stream_that_is_not_taken_does_not_stop_others() {
    let mut pair = Pair::new();
    let stuck = pair.request("/stuck", false);
    let other = pair.request("/other", false);
    let arrived = pair.carry(usize::MAX, usize::MAX);
    for _ in 0..200 {
        if pair.client.accepts(stuck) {
            let piece = vec![1; pair.client.room(stuck)];
            pair.client.send(stuck, &piece, None).expect("it is open");
        }
        pair.carry(usize::MAX, usize::MAX);
    }
    pair.client.send(other, b"through", Some(End::Plain)).expect("it is open");
    pair.carry(usize::MAX, usize::MAX);
    assert_eq!(take(&mut pair.server, arrived[1].key), b"through");
    assert!(take(&mut pair.server, arrived[0].key).len() <= STREAM_WINDOW as usize);
}

/// RFC 9218 §10: the most urgent first; those that are not incremental one after the other, others in turns.
#[test]
fn content_goes_by_urgency_and_in_turns() {
    let mut pair = Pair::new();
    let keys: Vec<_> = (0..3).map(|_| pair.request("/", true)).collect();
    assert_eq!(keys.len(), 3);
    let arrived = pair.carry(usize::MAX, usize::MAX);
    for (request, urgency) in arrived.iter().zip([5, 5, 1]) {
        let update = [&request.key.id().to_be_bytes()[..], format!("u={urgency}, i").as_bytes()].concat();
        let head =
            FrameHead { length: update.len() as u32, kind: kind::PRIORITY_UPDATE, flags: 0, stream: 0 };
        let frame = [&head.to_bytes()[..], &update].concat();
        let received = pair.server.receive(&frame, &mut 0, &mut pair.text, 0);
        assert_eq!(received.expect("it is right"), None);
    }
    // The first fills the outbox, so that all others wait in their queues.
    for request in &arrived {
        pair.respond(request.key, false);
    }
    pair.server.send(arrived[0].key, &[0; 65_535], None).expect("it is open");
    let _ = pair.server.take_output();
    pair.server.send_window = 0;
    for request in &arrived[..] {
        pair.server.send(request.key, &[0; 30_000], Some(End::Plain)).expect("it is open");
    }
    pair.server.send_window = 100_000;
    for slot in pair.server.streams.iter_mut() {
        slot.send_window = 100_000;
    }
    for request in &arrived {
        pair.server.schedule(request.key);
    }
    let output = [pair.server.take_output(), pair.server.take_output()].concat();
    let order: Vec<u32> = frames(&output).iter().map(|(head, _)| head.stream).collect();
    let [a, b, c] = [arrived[0].key.id(), arrived[1].key.id(), arrived[2].key.id()];
    assert_eq!(order, [c, c, a, b, a, b], "of {order:?}");
}

/// RFC 9113 §6.8: those that the client has begun meanwhile are served, and no later one.
#[test]
fn a_goodbye_has_two_steps() {
    let mut pair = Pair::new();
    pair.request("/a", true);
    let arrived = pair.carry(usize::MAX, usize::MAX);
    pair.server.begin_goodbye();
    let late = pair.request("/late", true);
    // The client sends before it has received the first step.
    let output = pair.client.take_output();
    let mut at = 0;
    let new = pair.server.receive(&output, &mut at, &mut pair.text, 0).expect("it is right");
    assert_eq!(new.map(|new| new.key.id()), Some(late.id()));
    pair.carry(usize::MAX, usize::MAX);
    assert!(!pair.client.can_open());
    assert_eq!(pair.server.goodbye, Goodbye::Announced);
    pair.carry(usize::MAX, usize::MAX);
    assert_eq!(pair.server.goodbye, Goodbye::Final, "the client has answered the ping");
    assert_eq!(pair.server.last_served, Some(late.id()));
    for request in &arrived {
        pair.server.release(request.key, ErrorCode::NO_ERROR);
    }
}

/// An idle connection keeps neither streams nor an outbox, whatever it has carried.
#[test]
fn an_idle_connection_gives_its_memory_back() {
    let mut pair = Pair::new();
    for _ in 0..10 {
        let key = pair.request("/", true);
        let arrived = pair.carry(usize::MAX, usize::MAX)[0].key;
        pair.respond(arrived, false);
        pair.server.send(arrived, &[0; 50_000], Some(End::Plain)).expect("it is open");
        pair.carry(usize::MAX, usize::MAX);
        pair.server.release(arrived, ErrorCode::NO_ERROR);
        pair.client.release(key, ErrorCode::CANCEL);
        let output = pair.server.take_output();
        pair.server.reuse(output);
    }
    let server = &pair.server;
    let kept = server.outbox.capacity()
        + server.partial.capacity()
        + server.decoder.heap_bytes()
        + server.scheduled.capacity() * size_of::<StreamKey>();
    assert!(kept + size_of::<Connection<u32>>() <= 6_144, "{kept} bytes beside itself");
}

/// Requests that wait for a place are kept once each, and one that leaves passes its turn on.
#[test]
fn a_place_goes_to_a_request_that_still_waits() {
    let mut pair = Pair::new();
    let keys: Vec<_> = (0..FIRST_STREAMS).map(|_| pair.request("/", true)).collect();
    for owner in [7, 8, 7, 8, 7] {
        assert!(!pair.client.can_open_for(owner));
    }
    assert_eq!(pair.client.waiting.len(), 2);
    pair.client.release(keys[0], ErrorCode::CANCEL);
    assert_eq!(pair.client.take_woken().collect::<Vec<_>>(), [7]);
    pair.client.stop_waiting(7);
    assert_eq!(pair.client.take_woken().collect::<Vec<_>>(), [8], "7 has left without using its place");
    assert!(pair.client.can_open_for(8));
    assert!(pair.client.waiting.is_empty());
}

/// Requests that wait for a place on a connection that begins no more are not left waiting.
#[test]
fn a_goodbye_wakes_those_that_wait() {
    let mut pair = Pair::new();
    for _ in 0..FIRST_STREAMS {
        pair.request("/", true);
    }
    assert!(!pair.client.can_open_for(7));
    assert!(!pair.client.begins_no_more());
    pair.client.begin_goodbye();
    assert!(pair.client.begins_no_more());
    assert!(pair.client.take_woken().any(|owner| owner == 7));
}

/// A server that does not read holds a bounded number of heads, whatever it permits.
#[test]
fn heads_that_are_not_sent_are_bounded() {
    let mut pair = Pair::new();
    let _ = pair.client.take_output();
    let path = format!("/{}", "a".repeat(6_000));
    while pair.client.can_open_for(7) {
        pair.request(&path, true);
    }
    assert!(pair.client.streams.len() < FIRST_STREAMS as usize, "the bytes are the bound, not the streams");
    assert!(pair.client.outbox.len() < MAX_HEADS_WAITING + 8_192, "{} bytes", pair.client.outbox.len());
    assert_eq!(pair.client.take_woken().count(), 0);
    let _ = pair.client.take_output();
    assert_eq!(pair.client.take_woken().collect::<Vec<_>>(), [7], "it can begin now");
    assert!(pair.client.can_open_for(7));
}
