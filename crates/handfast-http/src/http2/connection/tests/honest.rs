//! Frames that correct programs send in thousands, and that are no abuse.

use super::abuse::{begun, frame, written};
use super::*;
use crate::http2::frame::{write_rst_stream, write_settings, write_window_update};

const COUNT: usize = 5_000;

/// Sends a request for each round, and gives the client what the server sends for it.
fn check(is_last: bool, respond: impl Fn(u32) -> Vec<u8>, late: impl Fn(u32) -> Vec<u8>) {
    let mut pair = Pair::new();
    let give = |pair: &mut Pair, bytes: &[u8]| {
        assert_eq!(pair.client.receive(bytes, &mut 0, &mut pair.text, 0), Ok(None));
    };
    give(&mut pair, &written(|out| write_settings(out, &[])));
    for _ in 0..COUNT {
        let key = pair.request("/", is_last);
        if !is_last {
            pair.client.send(key, b"0123456789", Some(End::Plain)).expect("it is open");
        }
        give(&mut pair, &respond(key.id()));
        pair.client.release(key, ErrorCode::CANCEL);
        give(&mut pair, &late(key.id()));
        let _ = pair.client.take_output();
        assert!(!pair.client.begins_no_more(), "stream {}", key.id());
    }
}

/// `:status: 200` and the end of its stream.
fn ok(id: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &[0x88])
}

fn reset(id: u32, code: ErrorCode) -> Vec<u8> {
    written(|out| write_rst_stream(out, id, code))
}

/// A server above its load refuses every request.
#[test]
fn requests_can_be_refused() {
    check(true, |id| reset(id, ErrorCode::REFUSED_STREAM), |_| Vec::new());
}

/// nginx and others reset a stream behind its response where they have not read the end of its request (RFC 9113 §8.1).
#[test]
fn a_server_can_reset_a_stream_behind_its_response() {
    check(false, ok, |id| reset(id, ErrorCode::NO_ERROR));
}

/// Tomcat and others update both windows whenever they have read something, however little.
#[test]
fn windows_can_be_updated_for_each_small_content() {
    let updates = |id| {
        written(|out| {
            write_window_update(out, 0, 10);
            write_window_update(out, id, 10);
        })
    };
    check(false, |id| [updates(id), ok(id)].concat(), |_| Vec::new());
}

/// The frames of a header block, each with this number of its bytes.
fn block_in(id: u32, block: &[u8], size: usize) -> Vec<u8> {
    let mut frames = Vec::new();
    let mut parts = block.chunks(size).peekable();
    let (mut of_kind, mut flags) = (kind::HEADERS, flag::END_STREAM);
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        frames.extend(frame(of_kind, flags, id, part));
        (of_kind, flags) = (kind::CONTINUATION, 0);
    }
    frames
}

/// Fields of this number of bytes together, which no table keeps.
fn fields(count: usize) -> Vec<u8> {
    b"\x00\x01a\x7f\x81\x07".iter().copied().chain([b'b'; 1_024]).collect::<Vec<_>>().repeat(count)
}

/// Most programs fill a frame with a long head; Tomcat's have 1,024 bytes.
#[test]
fn a_long_head_can_have_many_frames() {
    let response = [&[0x88][..], &fields(20)].concat();
    for size in [16_384, 1_024] {
        check(true, |id| block_in(id, &response, size), |_| Vec::new());
    }
    let (mut server, mut text) = begun();
    let request = [&[0x82, 0x87, 0x84, 0x01, 0x01, b'a'][..], &fields(20)].concat();
    for number in 0..1_000 {
        let bytes = block_in(2 * number + 1, &request, 16_384);
        let new = server.receive(&bytes, &mut 0, &mut text, 0).expect("it is honest").expect("it begins");
        server.respond(
            new.key,
            ResponseParts {
                head: &crate::http1::ResponseHead::EMPTY,
                status: 200,
                length: None,
                is_last: true,
            },
            |_| false,
            std::iter::empty(),
        );
        server.release(new.key, ErrorCode::NO_ERROR);
        let _ = server.take_output();
        assert!(!server.begins_no_more());
    }
}
