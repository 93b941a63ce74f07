//! One row for each way to cost a server work or memory; each ends in GOAWAY, within its bound.

use super::*;
use crate::http2::frame::{setting, write_ping, write_rst_stream, write_settings, write_window_update};

/// A server and its client's correct beginning.
pub(super) fn begun() -> (Connection<u32>, HeadText) {
    let mut bytes = PREFACE.to_vec();
    write_settings(&mut bytes, &[]);
    let (mut server, mut text) = (server(), HeadText::default());
    assert_eq!(server.receive(&bytes, &mut 0, &mut text, 0), Ok(None));
    (server, text)
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { length: payload.len() as u32, kind, flags, stream };
    [&head.to_bytes()[..], payload].concat()
}

/// `GET /` of `a`, as a field block of indexed and literal fields.
const GET: &[u8] = &[0x82, 0x87, 0x84, 0x01, 0x01, b'a'];

/// A request on this stream.
fn get(id: u32, is_last: bool) -> Vec<u8> {
    let end = if is_last { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flag::END_HEADERS | end, id, GET)
}

/// Frames of the step with this number.
type Step = fn(u32) -> Vec<u8>;

pub(super) fn written(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

/// Frames that are repeated, the step that is one too many, and the reason that ends the connection. The client's first SETTINGS count too.
const TABLE: &[(&str, Step, u32, &str)] = &[
    ("PING", |_| written(|out| write_ping(out, [0; 8], false)), 201, "PING"),
    (
        "SETTINGS",
        |_| written(|out| write_settings(out, &[(setting::MAX_FRAME_SIZE, 16_384)])),
        50,
        "SETTINGS",
    ),
    ("WINDOW_UPDATE", |_| written(|out| write_window_update(out, 0, 1)), 4_001, "WINDOW_UPDATE"),
    ("answers to no PING", |_| written(|out| write_ping(out, [0; 8], true)), 2_001, "without effect"),
    ("unknown frames", |_| frame(0xEE, 0, 0, b"x"), 2_001, "without effect"),
    ("priorities", |n| frame(kind::PRIORITY, 0, 2 * n + 1, &[0, 0, 0, 0, 9]), 2_001, "without effect"),
    (
        "priorities of RFC 9218",
        |_| frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"),
        2_001,
        "without effect",
    ),
    (
        "requests that are reset",
        |n| {
            [get(2 * n + 1, true), written(|out| write_rst_stream(out, 2 * n + 1, ErrorCode::CANCEL))]
                .concat()
        },
        101,
        "resets its requests",
    ),
    (
        "resets by the server: windows that overflow",
        |n| [get(2 * n + 1, false), written(|out| write_window_update(out, 2 * n + 1, 0x7FFF_FFFF))].concat(),
        129,
        "broken streams",
    ),
    (
        "resets by the server: content behind the end",
        |n| [get(2 * n + 1, true), frame(kind::DATA, 0, 2 * n + 1, b"x")].concat(),
        129,
        "broken streams",
    ),
    (
        "resets by the server: streams that depend on themselves",
        |n| {
            let itself = [(2 * n + 1).to_be_bytes().as_slice(), &[9]].concat();
            [get(2 * n + 1, false), frame(kind::PRIORITY, 0, 2 * n + 1, &itself)].concat()
        },
        129,
        "broken streams",
    ),
    ("streams above the limit", |n| get(2 * n + 1, false), 201, "above the limit"),
    ("empty DATA", |n| if n == 0 { get(1, false) } else { frame(kind::DATA, 0, 1, b"") }, 402, "empty DATA"),
    (
        "tiny DATA",
        |n| if n == 0 { get(1, false) } else { frame(kind::DATA, 0, 1, b"x") },
        60_002,
        "tiny DATA",
    ),
    (
        "CONTINUATION without end",
        |n| match n {
            0 => frame(kind::HEADERS, 0, 1, GET),
            _ => frame(kind::CONTINUATION, 0, 1, &[]),
        },
        10,
        "header block",
    ),
    (
        "heads in two frames for no reason",
        |n| {
            let (id, ends) = (2 * n + 1, flag::END_HEADERS);
            [
                frame(kind::HEADERS, flag::END_STREAM, id, &GET[..1]),
                frame(kind::CONTINUATION, ends, id, &GET[1..]),
            ]
            .concat()
        },
        201,
        "too many CONTINUATION",
    ),
];

/// Gives these frames to a server, whose owners of streams read what comes and leave where a stream is over.
fn give(server: &mut Connection<u32>, text: &mut HeadText, bytes: &[u8]) -> Result<(), ConnectionError> {
    let mut at = 0;
    while let Some(new) = server.receive(bytes, &mut at, text, 1)? {
        server.set_owner(new.key, 0);
    }
    for key in server.streams.keys().collect::<Vec<_>>() {
        take(server, key);
        if server.end(key).is_some() {
            server.release(key, ErrorCode::CANCEL);
        }
    }
    Ok(())
}

#[test]
fn each_abuse_ends_at_its_bound() {
    for (what, step, most, reason) in TABLE {
        let (mut server, mut text) = begun();
        let mut ended = None;
        for number in 0..*most {
            let outcome = give(&mut server, &mut text, &step(number));
            let output = server.take_output();
            assert!(output.len() < 4_096, "{what}: {} bytes for one step", output.len());
            if let Err(error) = outcome {
                let last = frames(&output).pop().expect("GOAWAY");
                assert_eq!(last.0.kind, kind::GOAWAY, "{what}");
                ended = Some((number + 1, error));
                break;
            }
        }
        let (steps, error) = ended.unwrap_or_else(|| panic!("{what}: it goes on after {most} steps"));
        assert!(error.detail.contains(reason), "{what}: {error:?}");
        assert_eq!(steps, *most, "{what}: the bound is exact");
        assert_eq!(server.receive(b"x", &mut 0, &mut text, 1), Err(error), "{what}: nothing more is read");
    }
}

/// A client that never reads costs a bounded amount, whatever it asks for.
#[test]
fn answers_that_are_not_read_are_bounded() {
    let (mut server, mut text) = begun();
    let mut now = 0;
    let error = loop {
        // As slowly as the guard permits.
        now += 100;
        let bytes = written(|out| write_ping(out, [0; 8], false));
        if let Err(error) = server.receive(&bytes, &mut 0, &mut text, now) {
            break error;
        }
        assert!(server.outbox.len() <= MAX_CONTROL + 1_024, "{} bytes", server.outbox.len());
    };
    assert!(error.detail.contains("does not read"), "{error:?}");
}

/// Updates of a fast download are many, and each follows content that was sent.
#[test]
fn an_honest_download_is_no_abuse() {
    let (mut server, mut text) = begun();
    let new = server.receive(&get(1, true), &mut 0, &mut text, 0).expect("it is right").expect("it begins");
    for _ in 0..20_000 {
        server.send(new.key, &[0; 16_384], None).expect("it is open");
        let _ = server.take_output();
        let updates = written(|out| {
            write_window_update(out, 0, 16_384);
            write_window_update(out, 1, 16_384);
        });
        assert_eq!(server.receive(&updates, &mut 0, &mut text, 0), Ok(None));
    }
}

/// RFC 9113 §5.1: content and heads behind the client's own reset are errors of their stream; behind a reset of ours they are on their way.
#[test]
fn frames_behind_a_reset_are_refused_where_they_are_wrong() {
    let late: [Step; 2] = [|_| frame(kind::DATA, 0, 1, b"late"), |_| get(1, true)];
    for by_client in [true, false] {
        for frame_of in late {
            let (mut server, mut text) = begun();
            let new = server.receive(&get(1, false), &mut 0, &mut text, 0).expect("it is right");
            let key = new.expect("it begins").key;
            if by_client {
                let reset = written(|out| write_rst_stream(out, 1, ErrorCode::CANCEL));
                assert_eq!(server.receive(&reset, &mut 0, &mut text, 0), Ok(None));
            } else {
                server.reset(key, ErrorCode::CANCEL);
            }
            let _ = server.take_output();
            assert_eq!(server.receive(&frame_of(0), &mut 0, &mut text, 0), Ok(None));
            let resets = frames(&server.take_output());
            let codes: Vec<_> = resets.iter().map(|(head, code)| (head.kind, code[3])).collect();
            let expected =
                if by_client { vec![(kind::RST_STREAM, ErrorCode::STREAM_CLOSED.0 as u8)] } else { vec![] };
            assert_eq!(codes, expected, "reset by the client: {by_client}");
        }
    }
}

/// A response may be on its way when its request is given up, for all requests of a slow server.
#[test]
fn responses_to_requests_that_were_given_up_are_no_abuse() {
    let mut pair = Pair::new();
    let settings = written(|out| write_settings(out, &[]));
    assert_eq!(pair.client.receive(&settings, &mut 0, &mut pair.text, 0), Ok(None));
    let _preface = pair.client.take_output();
    for _ in 0..50 {
        let keys: Vec<_> = (0..80).map(|_| pair.request("/", true)).collect();
        keys.iter().for_each(|key| pair.client.release(*key, ErrorCode::CANCEL));
        let resets = frames(&pair.client.take_output());
        assert_eq!(resets.iter().filter(|(head, _)| head.kind == kind::RST_STREAM).count(), 80);
        for key in keys {
            let head = frame(kind::HEADERS, flag::END_HEADERS, key.id(), &[0x88]);
            let data = frame(kind::DATA, 0, key.id(), &[0; 13_000]);
            for bytes in [&head, &data, &data, &data, &data, &data] {
                let outcome = pair.client.receive(bytes, &mut 0, &mut pair.text, 0);
                assert_eq!(outcome, Ok(None), "stream {}", key.id());
            }
        }
        let answers = frames(&pair.client.take_output());
        assert!(answers.iter().all(|(head, _)| head.kind == kind::WINDOW_UPDATE), "{answers:?}");
    }
}

/// A client that does not read, and whose frames are each refused, costs a bounded amount too.
#[test]
fn refusals_that_are_not_read_are_bounded() {
    let (mut server, mut text) = begun();
    let new = server.receive(&get(1, true), &mut 0, &mut text, 0).expect("it is right").expect("it begins");
    server.release(new.key, ErrorCode::NO_ERROR);
    let mut now = 0;
    let error = loop {
        now += 1_000;
        let bytes = frame(kind::DATA, 0, 1, b"late").repeat(100);
        if let Err(error) = server.receive(&bytes, &mut 0, &mut text, now) {
            break error;
        }
        // The next reset would be of a stream that was reset before.
        server.recent_resets = [0; RECENT_RESETS];
        assert!(server.outbox.len() <= MAX_CONTROL + 4_096, "{} bytes", server.outbox.len());
    };
    assert!(error.detail.contains("does not read"), "{error:?}");
}

/// A frame of settings can change the same one thousands of times; open streams are looked at once for all of them.
#[test]
fn settings_of_one_frame_take_effect_once() {
    let (mut server, mut text) = begun();
    for number in 0..50 {
        let new = server.receive(&get(2 * number + 1, false), &mut 0, &mut text, 0).expect("it is right");
        server.set_owner(new.expect("it begins").key, number);
    }
    let mut settings: Vec<(u16, u32)> =
        (0..2_700).map(|number| (setting::INITIAL_WINDOW_SIZE, number % 2 * 1_000)).collect();
    settings.push((setting::INITIAL_WINDOW_SIZE, 70_000));
    let bytes = written(|out| write_settings(out, &settings));
    assert_eq!(server.receive(&bytes, &mut 0, &mut text, 0), Ok(None));
    assert_eq!(server.take_woken().count(), 50);
    assert!(server.streams.iter_mut().all(|slot| slot.send_window == 70_000));
}

/// A window that opens byte by byte pays for no further updates.
#[test]
fn windows_of_single_bytes_are_bounded() {
    let (mut server, mut text) = begun();
    let small = written(|out| write_settings(out, &[(setting::INITIAL_WINDOW_SIZE, 0)]));
    assert_eq!(server.receive(&small, &mut 0, &mut text, 0), Ok(None));
    let new = server.receive(&get(1, true), &mut 0, &mut text, 0).expect("it is right").expect("it begins");
    server.send(new.key, &[0; 60_000], None).expect("it is open");
    let update = written(|out| write_window_update(out, 1, 1));
    let mut steps = 0;
    let error = loop {
        steps += 1;
        assert!(steps <= 4_001, "it goes on");
        if let Err(error) = server.receive(&update, &mut 0, &mut text, 0) {
            break error;
        }
        assert!(server.take_output().len() < 100);
    };
    assert!(error.detail.contains("WINDOW_UPDATE"), "{error:?}");
}
