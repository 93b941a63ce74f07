//! Random schedules of both roles against a model: every byte arrives once and in order, windows are never exceeded, and credit is not lost.

use proptest::prelude::*;

use super::*;

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Act {
    Begin,
    /// This request sends a number of bytes of its content.
    Upload(u8, u16),
    /// Its response does.
    Download(u8, u16),
    EndUpload(u8),
    EndDownload(u8),
    /// Content is taken by the server, and by the client.
    TakeUpload(u8, u16),
    TakeDownload(u8, u16),
    ResetByClient(u8),
    ResetByServer(u8),
    Carry(u16, u16),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Begin),
        4 => (any::<u8>(), any::<u16>()).prop_map(|(which, count)| Act::Upload(which, count)),
        4 => (any::<u8>(), any::<u16>()).prop_map(|(which, count)| Act::Download(which, count)),
        1 => any::<u8>().prop_map(Act::EndUpload),
        1 => any::<u8>().prop_map(Act::EndDownload),
        4 => (any::<u8>(), any::<u16>()).prop_map(|(which, count)| Act::TakeUpload(which, count)),
        4 => (any::<u8>(), any::<u16>()).prop_map(|(which, count)| Act::TakeDownload(which, count)),
        1 => any::<u8>().prop_map(Act::ResetByClient),
        1 => any::<u8>().prop_map(Act::ResetByServer),
        6 => (any::<u16>(), 1_u16..).prop_map(|(most, piece)| Act::Carry(most, piece)),
    ]
}

/// A stream as both ends should see it.
struct Stream {
    client: StreamKey,
    server: Option<StreamKey>,
    has_responded: bool,
    /// Bytes sent and taken: of the request, and of the response.
    up: (u64, u64),
    down: (u64, u64),
    ended_up: bool,
    ended_down: bool,
    is_reset: bool,
}

impl Stream {
    fn new(client: StreamKey) -> Self {
        Self {
            client,
            server: None,
            has_responded: false,
            up: (0, 0),
            down: (0, 0),
            ended_up: false,
            ended_down: false,
            is_reset: false,
        }
    }
}

/// The byte at this position of a stream's content.
fn byte(id: u32, at: u64) -> u8 {
    (u64::from(id).wrapping_mul(31).wrapping_add(at.wrapping_mul(7)) % 251) as u8
}

fn content(id: u32, at: u64, count: usize) -> Vec<u8> {
    (0..count as u64).map(|offset| byte(id, at + offset)).collect()
}

/// Takes at most this number of bytes, which must be the next ones.
fn take_some(connection: &mut Connection<u32>, key: StreamKey, most: usize, taken: &mut u64) {
    let received = connection.take_content(key);
    let bytes = &received.as_slice()[..received.as_slice().len().min(most)];
    assert_eq!(bytes, content(key.id(), *taken, bytes.len()), "stream {} at {taken}", key.id());
    let count = bytes.len();
    *taken += count as u64;
    connection.give_back(key, received, count);
}

fn put(connection: &mut Connection<u32>, key: StreamKey, count: u16, sent: &mut u64) {
    if !connection.accepts(key) {
        return;
    }
    let count = usize::from(count).min(connection.room(key));
    if connection.send(key, &content(key.id(), *sent, count), None).is_ok() {
        *sent += count as u64;
    }
}

fn check_bounds(connection: &mut Connection<u32>) {
    let (mut inbox, mut queued) = (0, 0);
    for slot in connection.streams.iter_mut() {
        inbox += slot.inbox.len();
        queued += slot.queue.len();
        assert!(slot.receive_window <= i64::from(RECEIVE_BUDGET));
    }
    assert!(inbox <= RECEIVE_BUDGET as usize, "{inbox} bytes wait to be taken");
    assert_eq!(queued, connection.queued, "the sum is counted");
    assert!(queued <= QUEUE_BUDGET + MAX_QUEUED + 100 * MIN_PIECE, "{queued} bytes wait to be sent");
    // The window is the sum of what may come, what was taken and not credited, and what was not taken.
    let credit = connection.receive_window + i64::from(connection.taken) + inbox as i64;
    assert!(credit <= i64::from(RECEIVE_BUDGET), "credit from nothing: {credit}");
}

fn apply(pair: &mut Pair, stream: &mut Stream, act: Act) {
    match (act, stream.server) {
        (Act::Upload(_, size), _) if !stream.ended_up => {
            put(&mut pair.client, stream.client, size, &mut stream.up.0);
        }
        (Act::EndUpload(_), _) => {
            stream.ended_up |= pair.client.send(stream.client, b"", Some(End::Plain)).is_ok();
        }
        (Act::Download(_, size), Some(key)) => {
            if !std::mem::replace(&mut stream.has_responded, true) {
                pair.respond(key, false);
            }
            if !stream.ended_down {
                put(&mut pair.server, key, size, &mut stream.down.0);
            }
        }
        (Act::EndDownload(_), Some(key)) if stream.has_responded => {
            stream.ended_down |= pair.server.send(key, b"", Some(End::Plain)).is_ok();
        }
        (Act::TakeUpload(_, most), Some(key)) => {
            take_some(&mut pair.server, key, usize::from(most), &mut stream.up.1);
        }
        (Act::TakeDownload(_, most), _) => {
            take_some(&mut pair.client, stream.client, usize::from(most), &mut stream.down.1);
        }
        (Act::ResetByClient(_), _) => {
            pair.client.reset(stream.client, ErrorCode::CANCEL);
            stream.is_reset = true;
        }
        (Act::ResetByServer(_), Some(key)) => {
            pair.server.reset(key, ErrorCode::INTERNAL_ERROR);
            stream.is_reset = true;
        }
        _ => {}
    }
}

fn play(acts: &[Act]) {
    let mut pair = Pair::new();
    let mut streams: Vec<Stream> = Vec::new();
    for act in acts {
        let count = streams.len();
        match *act {
            Act::Begin if count < 30 => {
                let key = pair.request(&format!("/{count}"), false);
                streams.push(Stream::new(key));
            }
            Act::Begin => {}
            Act::Carry(most, piece) => arrive(&mut pair, &mut streams, most.into(), piece.into()),
            Act::Upload(which, _)
            | Act::Download(which, _)
            | Act::EndUpload(which)
            | Act::EndDownload(which)
            | Act::TakeUpload(which, _)
            | Act::TakeDownload(which, _)
            | Act::ResetByClient(which)
            | Act::ResetByServer(which) => {
                if let Some(stream) = streams.get_mut(usize::from(which) % count.max(1)) {
                    apply(&mut pair, stream, *act);
                }
            }
        }
        check_bounds(&mut pair.client);
        check_bounds(&mut pair.server);
    }
    finish(&mut pair, &mut streams);
}

fn arrive(pair: &mut Pair, streams: &mut [Stream], most: usize, piece: usize) {
    for arrived in pair.carry(most, piece) {
        let number: usize = arrived.path[1..].parse().expect("a number");
        streams[number].server = Some(arrived.key);
    }
}

/// Everything that was sent arrives, however small the windows were when it was put.
fn finish(pair: &mut Pair, streams: &mut [Stream]) {
    for _ in 0..200 {
        arrive(pair, streams, usize::MAX, usize::MAX);
        for stream in &mut *streams {
            if let Some(key) = stream.server {
                take_some(&mut pair.server, key, usize::MAX, &mut stream.up.1);
            }
            take_some(&mut pair.client, stream.client, usize::MAX, &mut stream.down.1);
        }
    }
    for stream in streams.iter().filter(|stream| !stream.is_reset) {
        let id = stream.client.id();
        assert_eq!(stream.up.0, stream.up.1, "the request of stream {id}");
        assert_eq!(stream.down.0, stream.down.1, "the response of stream {id}");
        let server = stream.server.expect("its head has arrived");
        assert_eq!(pair.server.has_ended(server), stream.ended_up, "the end of request {id}");
        assert_eq!(pair.client.has_ended(stream.client), stream.ended_down, "the end of response {id}");
    }
}

/// Schedules to play: more in `scripts/every-case`.
fn cases() -> u32 {
    if std::env::var_os("HANDFAST_TEST_EVERY_CASE").is_some() { 3_000 } else { 60 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order(acts in prop::collection::vec(act(), 0..300)) {
        play(&acts);
    }
}
