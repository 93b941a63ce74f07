//! One row for each thing that RFC 9113 forbids a server to send: the code that it receives, and what ends with it.

use super::abuse::{frame, written};
use super::*;
use crate::http2::frame::{setting, write_goaway, write_rst_stream, write_settings};

use ErrorCode as Code;
use Scope::{Connection as Whole, Nothing, Stream as One};

/// End that a frame causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// GOAWAY with this code.
    Connection(Code),
    /// RST_STREAM of this stream with this code; the others go on.
    Stream(u32, Code),
    Nothing,
}

/// Streams of the client when the frames of a row come.
mod stream {
    /// The request is whole; nothing of the response has come.
    pub(super) const AWAITED: u32 = 1;
    /// Content of the request follows.
    pub(super) const SENDING: u32 = 3;
    /// The head of the response has come, with a content-length of 5.
    pub(super) const RECEIVING: u32 = 5;
    /// The client has reset it.
    pub(super) const RESET: u32 = 7;
    /// Both messages were whole, and its owner has left.
    pub(super) const CLOSED: u32 = 9;
    /// The response is whole, and content of the request follows.
    pub(super) const ANSWERED: u32 = 11;
    /// Its response must come through whenever another stream alone has ended.
    pub(super) const WITNESS: u32 = 13;
    pub(super) const IDLE: u32 = 15;
    /// Streams of servers are those of PUSH_PROMISE.
    pub(super) const PUSHED: u32 = 2;
}

/// `:status: 200` and the final frame of its stream.
const OK: &[u8] = &[0x88];
/// The end of a field block, and of a stream.
const ENDS: u8 = flag::END_HEADERS | flag::END_STREAM;

fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flags, stream, block)
}

fn data(stream: u32, content: &[u8]) -> Vec<u8> {
    frame(kind::DATA, 0, stream, content)
}

/// A frame of a length that is not sent.
fn announced(kind: u8, stream: u32, length: u32) -> Vec<u8> {
    FrameHead { length, kind, flags: 0, stream }.to_bytes().to_vec()
}

fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    written(|out| write_settings(out, settings))
}

fn update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn reset(stream: u32) -> Vec<u8> {
    written(|out| write_rst_stream(out, stream, Code::CANCEL))
}

/// A client with all streams of [`stream`], and what it has sent is taken.
fn client() -> (Pair, Vec<StreamKey>) {
    let mut pair = Pair::new();
    let is_whole = |id| !matches!(id, stream::SENDING | stream::ANSWERED);
    let keys: Vec<_> = (1..stream::IDLE).step_by(2).map(|id| pair.request("/", is_whole(id))).collect();
    let bytes = [
        settings(&[]),
        headers(stream::RECEIVING, flag::END_HEADERS, OK),
        headers(stream::CLOSED, ENDS, OK),
        headers(stream::ANSWERED, ENDS, OK),
    ];
    give(&mut pair, &bytes.concat());
    let key = |id: u32| keys[(id / 2) as usize];
    pair.client.expect_content(key(stream::RECEIVING), 5);
    pair.client.release(key(stream::RESET), Code::CANCEL);
    pair.client.release(key(stream::CLOSED), Code::CANCEL);
    let _sent = pair.client.take_output();
    (pair, keys)
}

fn give(pair: &mut Pair, bytes: &[u8]) {
    let outcome = pair.client.receive(bytes, &mut 0, &mut pair.text, 0);
    assert_eq!(outcome.map_err(Some), pair.client.error().map_or(Ok(None), |error| Err(Some(error))));
}

/// The end that the client has sent.
fn scope(pair: &mut Pair) -> Scope {
    let sent = frames(&pair.client.take_output());
    let mut ends = sent.iter().filter_map(|(head, payload)| {
        let code = |at: usize| Code(u32::from_be_bytes(payload[at..at + 4].try_into().expect("a code")));
        match head.kind {
            kind::GOAWAY => Some(Whole(code(4))),
            kind::RST_STREAM => Some(One(head.stream, code(0))),
            _ => None,
        }
    });
    let end = ends.next().unwrap_or(Nothing);
    assert_eq!(ends.next(), None, "one end: {sent:?}");
    end
}

fn check(rows: &[(&str, Vec<u8>, Scope)]) {
    for (what, bytes, expected) in rows {
        let (mut pair, keys) = client();
        give(&mut pair, bytes);
        assert_eq!(scope(&mut pair), *expected, "{what}");
        let is_over = matches!(expected, Whole(_));
        assert_eq!(pair.client.error().is_some(), is_over, "{what}");
        let witness = keys[(stream::WITNESS / 2) as usize];
        if is_over {
            assert_eq!(pair.client.end(witness), Some(StreamEnd::Lost), "{what}");
            continue;
        }
        give(&mut pair, &headers(stream::WITNESS, ENDS, OK));
        assert!(pair.client.take_response_head(witness).is_some_and(|(_, is_last)| is_last), "{what}");
        if let One(id, code) = *expected {
            let end = pair.client.end(keys[(id / 2) as usize]);
            assert!(matches!(end, Some(StreamEnd::Broken(of, _)) if of == code), "{what}: {end:?}");
        }
    }
}

/// RFC 9113 §4 and §6: lengths, streams and padding of each kind.
#[test]
fn frames_of_a_server_have_the_form_of_their_kind() {
    use stream::{AWAITED, IDLE, PUSHED, RECEIVING};
    let padded = |kind, payload: &[u8]| frame(kind, flag::PADDED | flag::END_HEADERS, RECEIVING, payload);
    let too_large = |kind| announced(kind, RECEIVING, MAX_FRAME + 1);
    check(&[
        ("DATA above the limit", too_large(kind::DATA), Whole(Code::FRAME_SIZE_ERROR)),
        ("HEADERS above the limit", too_large(kind::HEADERS), Whole(Code::FRAME_SIZE_ERROR)),
        ("an unknown frame above the limit", too_large(0xEE), Whole(Code::FRAME_SIZE_ERROR)),
        ("an unknown frame", frame(0xEE, 0xFF, IDLE, b"x"), Nothing),
        ("the reserved bit", frame(kind::PING, 0, 1 << 31, &[0; 8]), Nothing),
        ("DATA of the connection", data(0, b"x"), Whole(Code::PROTOCOL_ERROR)),
        ("padded DATA without padding", padded(kind::DATA, b""), Whole(Code::FRAME_SIZE_ERROR)),
        ("padding of DATA", padded(kind::DATA, b"\x02a"), Whole(Code::PROTOCOL_ERROR)),
        ("padding of HEADERS", padded(kind::HEADERS, b"\x02\x88"), Whole(Code::PROTOCOL_ERROR)),
        ("HEADERS of the connection", headers(0, ENDS, OK), Whole(Code::PROTOCOL_ERROR)),
        (
            "HEADERS with half a priority",
            headers(AWAITED, ENDS | 0x20, &[0; 4]),
            Whole(Code::FRAME_SIZE_ERROR),
        ),
        ("PRIORITY of the connection", frame(kind::PRIORITY, 0, 0, &[0; 5]), Whole(Code::PROTOCOL_ERROR)),
        (
            "a short PRIORITY",
            frame(kind::PRIORITY, 0, AWAITED, &[0; 4]),
            One(AWAITED, Code::FRAME_SIZE_ERROR),
        ),
        // RFC 9113 §5.1: nothing but HEADERS and PRIORITY may be sent for an idle stream, RST_STREAM neither.
        ("a short PRIORITY, idle", frame(kind::PRIORITY, 0, IDLE, &[0; 4]), Whole(Code::FRAME_SIZE_ERROR)),
        ("a priority of itself", frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 9]), One(1, Code::PROTOCOL_ERROR)),
        ("the same, idle", frame(kind::PRIORITY, 0, PUSHED, &[0, 0, 0, 2, 9]), Whole(Code::PROTOCOL_ERROR)),
        ("a short RST_STREAM", frame(kind::RST_STREAM, 0, AWAITED, &[0; 3]), Whole(Code::FRAME_SIZE_ERROR)),
        ("RST_STREAM of the connection", reset(0), Whole(Code::PROTOCOL_ERROR)),
        ("SETTINGS of a stream", frame(kind::SETTINGS, 0, AWAITED, &[]), Whole(Code::PROTOCOL_ERROR)),
        ("half a setting", frame(kind::SETTINGS, 0, 0, &[0; 5]), Whole(Code::FRAME_SIZE_ERROR)),
        (
            "settings in an answer",
            frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
            Whole(Code::FRAME_SIZE_ERROR),
        ),
        (
            "PUSH_PROMISE",
            frame(kind::PUSH_PROMISE, 4, AWAITED, &[0, 0, 0, 2, 0x88]),
            Whole(Code::PROTOCOL_ERROR),
        ),
        (
            "a short PUSH_PROMISE",
            frame(kind::PUSH_PROMISE, 4, AWAITED, &[0; 3]),
            Whole(Code::FRAME_SIZE_ERROR),
        ),
        ("PING of a stream", frame(kind::PING, 0, AWAITED, &[0; 8]), Whole(Code::PROTOCOL_ERROR)),
        ("a short PING", frame(kind::PING, 0, 0, &[0; 7]), Whole(Code::FRAME_SIZE_ERROR)),
        ("GOAWAY of a stream", frame(kind::GOAWAY, 0, AWAITED, &[0; 8]), Whole(Code::PROTOCOL_ERROR)),
        ("a short GOAWAY", frame(kind::GOAWAY, 0, 0, &[0; 7]), Whole(Code::FRAME_SIZE_ERROR)),
        ("a long WINDOW_UPDATE", frame(kind::WINDOW_UPDATE, 0, 0, &[0; 5]), Whole(Code::FRAME_SIZE_ERROR)),
        ("WINDOW_UPDATE by 0", update(0, 0), Whole(Code::PROTOCOL_ERROR)),
        ("WINDOW_UPDATE of a stream by 0", update(AWAITED, 0), One(AWAITED, Code::PROTOCOL_ERROR)),
        (
            "PRIORITY_UPDATE",
            frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"),
            Whole(Code::PROTOCOL_ERROR),
        ),
    ]);
}

/// RFC 9113 §6.5 and §6.9; RFC 8441 §3; RFC 9218 §2.1.
#[test]
fn values_of_a_server_are_within_their_bounds() {
    use stream::{AWAITED, RESET, SENDING};
    const MAX: u32 = 0x7FFF_FFFF;
    let one = |id, value| settings(&[(id, value)]);
    let window = setting::INITIAL_WINDOW_SIZE;
    check(&[
        ("ENABLE_PUSH 0", one(setting::ENABLE_PUSH, 0), Nothing),
        ("ENABLE_PUSH 1", one(setting::ENABLE_PUSH, 1), Whole(Code::PROTOCOL_ERROR)),
        ("ENABLE_PUSH 2", one(setting::ENABLE_PUSH, 2), Whole(Code::PROTOCOL_ERROR)),
        ("the largest window", one(window, MAX), Nothing),
        ("a larger window", one(window, MAX + 1), Whole(Code::FLOW_CONTROL_ERROR)),
        (
            "the same, taken back",
            settings(&[(window, MAX + 1), (window, 1)]),
            Whole(Code::FLOW_CONTROL_ERROR),
        ),
        (
            "a window that overflows",
            [update(SENDING, 1), one(window, MAX)].concat(),
            Whole(Code::FLOW_CONTROL_ERROR),
        ),
        ("the smallest frame", one(setting::MAX_FRAME_SIZE, 16_384), Nothing),
        ("a smaller frame", one(setting::MAX_FRAME_SIZE, 16_383), Whole(Code::PROTOCOL_ERROR)),
        ("the largest frame", one(setting::MAX_FRAME_SIZE, 0x00FF_FFFF), Nothing),
        ("a larger frame", one(setting::MAX_FRAME_SIZE, 0x0100_0000), Whole(Code::PROTOCOL_ERROR)),
        ("ENABLE_CONNECT_PROTOCOL 1", one(setting::ENABLE_CONNECT_PROTOCOL, 1), Nothing),
        ("ENABLE_CONNECT_PROTOCOL 2", one(setting::ENABLE_CONNECT_PROTOCOL, 2), Whole(Code::PROTOCOL_ERROR)),
        ("NO_WEIGHTED_PRIORITIES 1", one(setting::NO_WEIGHTED_PRIORITIES, 1), Nothing),
        ("NO_WEIGHTED_PRIORITIES 2", one(setting::NO_WEIGHTED_PRIORITIES, 2), Whole(Code::PROTOCOL_ERROR)),
        ("an unknown setting", one(0xEEEE, u32::MAX), Nothing),
        ("the largest windows", [update(0, MAX - 65_535), update(SENDING, MAX - 65_535)].concat(), Nothing),
        ("the window overflows", update(0, MAX - 65_534), Whole(Code::FLOW_CONTROL_ERROR)),
        ("that of a stream", update(SENDING, MAX - 65_534), One(SENDING, Code::FLOW_CONTROL_ERROR)),
        ("that of a reset stream", update(RESET, MAX), Nothing),
        ("the reserved bit", update(AWAITED, 0x8000_0001), Nothing),
    ]);
}

/// RFC 9113 §5.1 and §8.1: what each state permits.
#[test]
fn frames_of_a_server_fit_the_state_of_their_stream() {
    use stream::{ANSWERED, AWAITED, CLOSED, IDLE, PUSHED, RECEIVING, RESET, SENDING};
    let mut rows = Vec::new();
    for id in [IDLE, PUSHED] {
        let wrong = Whole(Code::PROTOCOL_ERROR);
        rows.extend([
            ("DATA, idle", data(id, b"x"), wrong),
            ("HEADERS, idle", headers(id, ENDS, OK), wrong),
            ("RST_STREAM, idle", reset(id), wrong),
            ("WINDOW_UPDATE, idle", update(id, 1), wrong),
            ("PRIORITY, idle", frame(kind::PRIORITY, 0, id, &[0, 0, 0, 9, 9]), Nothing),
        ]);
    }
    for id in [RESET, CLOSED] {
        rows.extend([
            ("DATA, closed", data(id, b"x"), Nothing),
            ("HEADERS, closed", headers(id, ENDS, OK), Nothing),
            ("RST_STREAM, closed", reset(id), Nothing),
            ("WINDOW_UPDATE, closed", update(id, 1), Nothing),
            ("PRIORITY, closed", frame(kind::PRIORITY, 0, id, &[0, 0, 0, 15, 9]), Nothing),
            // The table of all streams is one.
            ("a bad block, closed", headers(id, ENDS, &[0xC0]), Whole(Code::COMPRESSION_ERROR)),
        ]);
    }
    rows.extend([
        ("DATA behind the end", data(ANSWERED, b"x"), One(ANSWERED, Code::STREAM_CLOSED)),
        ("HEADERS behind the end", headers(ANSWERED, ENDS, OK), One(ANSWERED, Code::STREAM_CLOSED)),
        ("WINDOW_UPDATE behind the end", update(ANSWERED, 1), Nothing),
        ("RST_STREAM behind the end", reset(ANSWERED), Nothing),
        ("DATA before the head", data(AWAITED, b"x"), One(AWAITED, Code::PROTOCOL_ERROR)),
        ("the same while the request is sent", data(SENDING, b"x"), One(SENDING, Code::PROTOCOL_ERROR)),
        // :status: 103 as a literal.
        ("an interim end", headers(AWAITED, ENDS, b"\x08\x03103"), One(AWAITED, Code::PROTOCOL_ERROR)),
        ("an interim head", headers(AWAITED, flag::END_HEADERS, b"\x08\x03103"), Nothing),
        (
            "DATA behind it",
            [headers(AWAITED, 4, b"\x08\x03103"), data(1, b"x")].concat(),
            One(1, Code::PROTOCOL_ERROR),
        ),
        ("two heads", headers(RECEIVING, flag::END_HEADERS, OK), One(RECEIVING, Code::PROTOCOL_ERROR)),
        (
            "trailers",
            [data(RECEIVING, b"12345"), headers(RECEIVING, ENDS, b"\0\x01a\x01b")].concat(),
            Nothing,
        ),
        (
            "too little content",
            headers(RECEIVING, ENDS, b"\0\x01a\x01b"),
            One(RECEIVING, Code::PROTOCOL_ERROR),
        ),
        ("too little DATA", frame(kind::DATA, 1, RECEIVING, b"1234"), One(RECEIVING, Code::PROTOCOL_ERROR)),
        ("all DATA", frame(kind::DATA, 1, RECEIVING, b"12345"), Nothing),
        ("too much DATA", data(RECEIVING, b"123456"), One(RECEIVING, Code::PROTOCOL_ERROR)),
        ("a bad block", headers(AWAITED, ENDS, &[0xFF]), Whole(Code::COMPRESSION_ERROR)),
        (
            "a table that is too large",
            headers(AWAITED, ENDS, &[0x3F, 0xE2, 0x1F]),
            Whole(Code::COMPRESSION_ERROR),
        ),
    ]);
    check(&rows);
}

/// RFC 9113 §4.3 and §6.10: nothing comes between the frames of a header block.
#[test]
fn a_header_block_is_not_interrupted() {
    use stream::{AWAITED, SENDING};
    let begun = || headers(AWAITED, flag::END_STREAM, &[]);
    let rest = |id| frame(kind::CONTINUATION, flag::END_HEADERS, id, OK);
    let wrong = Whole(Code::PROTOCOL_ERROR);
    let mut rows = vec![
        ("CONTINUATION without HEADERS", rest(AWAITED), wrong),
        ("of the connection", rest(0), wrong),
        ("a block in two", [begun(), rest(AWAITED)].concat(), Nothing),
        ("behind its end", [begun(), rest(AWAITED), rest(AWAITED)].concat(), wrong),
    ];
    for (what, between) in [
        ("CONTINUATION of another stream", rest(SENDING)),
        ("HEADERS", begun()),
        ("DATA", data(AWAITED, b"")),
        ("SETTINGS", settings(&[])),
        ("PING", frame(kind::PING, 0, 0, &[0; 8])),
        ("an unknown frame", frame(0xEE, 0, 0, b"")),
    ] {
        rows.push((what, [begun(), between].concat(), wrong));
    }
    check(&rows);
}

/// RFC 9113 §3.4.
#[test]
fn a_server_begins_with_its_settings() {
    let acknowledged = frame(kind::SETTINGS, flag::ACK, 0, &[]);
    for (what, bytes) in [
        ("an answer", acknowledged),
        ("PING", frame(kind::PING, 0, 0, &[0; 8])),
        ("GOAWAY", written(|out| write_goaway(out, 0, Code::NO_ERROR, ""))),
        ("HTTP/1", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ] {
        let mut pair = Pair::new();
        pair.request("/", true);
        give(&mut pair, &bytes);
        assert!(matches!(pair.client.error(), Some(error) if error.code != Code::NO_ERROR), "{what}");
        assert!(matches!(scope_behind_preface(&mut pair), Whole(_)), "{what}");
    }
}

/// As [`scope`], behind the client's preface.
fn scope_behind_preface(pair: &mut Pair) -> Scope {
    let sent = pair.client.take_output();
    let is_goaway = frames(&sent[PREFACE.len()..]).pop().is_some_and(|(head, _)| head.kind == kind::GOAWAY);
    if is_goaway { Whole(Code::PROTOCOL_ERROR) } else { Nothing }
}

/// RFC 9113 §6.9.1: the windows are those of the stream, and of all together.
#[test]
fn content_beyond_a_window_ends_what_the_window_is_for() {
    for (streams, expected) in [(1, One(1, Code::FLOW_CONTROL_ERROR)), (33, Whole(Code::FLOW_CONTROL_ERROR))]
    {
        let mut pair = Pair::new();
        let ids: Vec<u32> = (0..streams).map(|_| pair.request("/", true).id()).collect();
        give(&mut pair, &settings(&[]));
        let _sent = pair.client.take_output();
        for id in &ids {
            give(&mut pair, &headers(*id, flag::END_HEADERS, OK));
        }
        let full = |id: &u32| data(*id, &[0; 16_384]).repeat(4);
        give(&mut pair, &ids[..ids.len().min(32)].iter().flat_map(full).collect::<Vec<_>>());
        assert_eq!(scope(&mut pair), Nothing, "{streams} windows are used up");
        give(&mut pair, &data(ids[ids.len() - 1], b"x"));
        assert_eq!(scope(&mut pair), expected, "{streams} windows");
    }
}

/// RFC 9113 §6.8 and §8.7: streams above the one that GOAWAY names can be sent again, and those below go on.
#[test]
fn goaway_names_the_streams_that_go_on() {
    use stream::{AWAITED, RECEIVING, SENDING};
    for code in [Code::NO_ERROR, Code(7)] {
        let (mut pair, keys) = client();
        give(&mut pair, &written(|out| write_goaway(out, RECEIVING, code, "bye")));
        // A second one must not name a later stream, and has no effect then.
        give(&mut pair, &written(|out| write_goaway(out, stream::WITNESS, code, "")));
        let end = |id: u32| pair.client.end(keys[(id / 2) as usize]);
        assert_eq!([AWAITED, SENDING, RECEIVING].map(end), [None; 3], "{code}");
        assert_eq!(end(stream::WITNESS), Some(StreamEnd::Refused), "{code}");
        assert!(pair.client.begins_no_more() && pair.client.error().is_none());
        give(&mut pair, &headers(AWAITED, ENDS, OK));
        assert!(pair.client.take_response_head(keys[0]).is_some(), "{code}");
        assert_eq!(scope(&mut pair), Nothing, "{code}");
    }
}

/// A server that fails at the first request of a connection is not asked again.
#[test]
fn goaway_before_the_first_stream_says_whether_another_connection_helps() {
    for (code, expected) in [(Code::NO_ERROR, StreamEnd::Refused), (Code(7), StreamEnd::Reset(Code(7)))] {
        let (mut pair, keys) = client();
        give(&mut pair, &written(|out| write_goaway(out, 0, code, "")));
        assert_eq!(pair.client.end(keys[0]), Some(expected), "{code}");
        assert_eq!(pair.client.end(keys[1]), Some(StreamEnd::Refused), "{code}");
    }
}

/// RFC 9218 §7.1: what a server must not take either. h2spec has the rest of its rows.
#[test]
fn a_client_prioritizes_its_own_streams() {
    for (id, expected) in [(0_u32, Err(Code::PROTOCOL_ERROR)), (2, Err(Code::PROTOCOL_ERROR)), (1, Ok(None))]
    {
        let (mut server, mut text) = super::abuse::begun();
        let bytes = frame(kind::PRIORITY_UPDATE, 0, 0, &[&id.to_be_bytes()[..], b"u=1"].concat());
        let outcome = server.receive(&bytes, &mut 0, &mut text, 0).map_err(|error| error.code);
        assert_eq!(outcome, expected, "stream {id}");
    }
}
