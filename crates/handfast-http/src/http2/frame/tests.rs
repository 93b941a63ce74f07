//! Frames, their lengths and payloads.

use super::*;
use FrameFault::{Connection, Stream};

const SIZE_ERROR: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;

#[test]
fn a_frame_head_has_nine_bytes() {
    let bytes = [0x01, 0x02, 0x03, 0x01, 0x25, 0x80, 0x00, 0x00, 0x07];
    let head = FrameHead::parse(&bytes);
    assert_eq!(head, FrameHead { length: 0x01_0203, kind: kind::HEADERS, flags: 0x25, stream: 7 });
    assert!(head.has(flag::PRIORITY) && head.has(flag::END_HEADERS) && !head.has(flag::PADDED));
    let mut out = vec![9];
    head.write(&mut out);
    assert_eq!(out, [9, 0x01, 0x02, 0x03, 0x01, 0x25, 0x00, 0x00, 0x00, 0x07]);
}

/// RFC 9113 §6: the lengths that each kind may have, with their neighbours.
#[test]
fn every_kind_has_its_lengths() {
    const MAX: u32 = 16_384;
    let padded = flag::PADDED;
    let wrong = Err(Connection(SIZE_ERROR));
    for (name, kind, flags, right, fault) in [
        ("DATA", kind::DATA, 0, &[0, 1, MAX][..], wrong),
        ("padded DATA", kind::DATA, padded, &[1, MAX], wrong),
        ("HEADERS", kind::HEADERS, 0, &[0, MAX], wrong),
        ("padded HEADERS", kind::HEADERS, padded, &[1, MAX], wrong),
        ("HEADERS with priority", kind::HEADERS, flag::PRIORITY, &[5, MAX], wrong),
        ("padded HEADERS with priority", kind::HEADERS, flag::PRIORITY | padded, &[6, MAX], wrong),
        ("PRIORITY", kind::PRIORITY, 0, &[5, 5], Err(Stream(SIZE_ERROR))),
        ("RST_STREAM", kind::RST_STREAM, 0, &[4, 4], wrong),
        ("acknowledged SETTINGS", kind::SETTINGS, flag::ACK, &[0, 0], wrong),
        ("PUSH_PROMISE", kind::PUSH_PROMISE, 0, &[4, MAX], wrong),
        ("padded PUSH_PROMISE", kind::PUSH_PROMISE, padded, &[5, MAX], wrong),
        ("PING", kind::PING, 0, &[8, 8], wrong),
        ("GOAWAY", kind::GOAWAY, 0, &[8, MAX], wrong),
        ("WINDOW_UPDATE", kind::WINDOW_UPDATE, 0, &[4, 4], wrong),
        ("CONTINUATION", kind::CONTINUATION, 0, &[0, MAX], wrong),
        ("PRIORITY_UPDATE", kind::PRIORITY_UPDATE, 0, &[4, MAX], wrong),
        ("an unknown kind", 0xBE, 0xFF, &[0, MAX], wrong),
    ] {
        let check = |length| FrameHead { length, kind, flags, stream: 1 }.check_length(MAX);
        let (least, most) = (right[0], right[right.len() - 1]);
        for length in right {
            assert_eq!(check(*length), Ok(()), "{name} of {length}");
        }
        if least > 0 {
            assert_eq!(check(least - 1), fault, "{name}");
        }
        // A frame that is too large ends the connection, whatever it is.
        assert_eq!(check(most + 1), if most == MAX { wrong } else { fault }, "{name}");
        assert_eq!(check(MAX + 1), wrong, "{name}");
    }
    for (length, is_right) in
        [(0, true), (5, false), (6, true), (7, false), (12, true), (16_380, true), (16_386, false)]
    {
        let head = FrameHead { length, kind: kind::SETTINGS, flags: 0, stream: 0 };
        assert_eq!(head.check_length(MAX).is_ok(), is_right, "SETTINGS of {length}");
        let acknowledged = FrameHead { flags: flag::ACK, ..head };
        assert_eq!(acknowledged.check_length(MAX).is_ok(), length == 0, "acknowledged SETTINGS of {length}");
    }
}

#[test]
fn frames_without_content_are_written() {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        let (head, payload) = out.split_first_chunk().expect("a frame head");
        let head = FrameHead::parse(head);
        assert_eq!((head.length as usize, head.check_length(16_384)), (payload.len(), Ok(())));
        (head.kind, head.flags, head.stream, payload.to_vec())
    };
    let settings = [(setting::MAX_CONCURRENT_STREAMS, 100), (setting::ENABLE_CONNECT_PROTOCOL, 1)];
    let (kind, flags, stream, payload) = written(&|out| write_settings(out, &settings));
    assert_eq!((kind, flags, stream), (kind::SETTINGS, 0, 0));
    assert_eq!(payload, [0, 3, 0, 0, 0, 100, 0, 8, 0, 0, 0, 1]);
    assert!(Settings::new(&payload).eq(settings));
    assert_eq!(written(&write_settings_ack), (kind::SETTINGS, flag::ACK, 0, vec![]));
    let update = written(&|out| write_window_update(out, 5, 0x7FFF_FFFF));
    assert_eq!(update, (kind::WINDOW_UPDATE, 0, 5, vec![0x7F, 0xFF, 0xFF, 0xFF]));
    let reset = written(&|out| write_rst_stream(out, 7, ErrorCode::REFUSED_STREAM));
    assert_eq!(reset, (kind::RST_STREAM, 0, 7, vec![0, 0, 0, 7]));
    let goaway = written(&|out| write_goaway(out, 9, ErrorCode::ENHANCE_YOUR_CALM, "calm"));
    assert_eq!(goaway, (kind::GOAWAY, 0, 0, b"\0\0\0\x09\0\0\0\x0bcalm".to_vec()));
    let payload = *b"\x01234567\xff";
    assert_eq!(written(&|out| write_ping(out, payload, false)), (kind::PING, 0, 0, payload.to_vec()));
    assert_eq!(written(&|out| write_ping(out, payload, true)), (kind::PING, flag::ACK, 0, payload.to_vec()));
}

#[test]
fn padding_and_priority_are_no_content() {
    let head = |flags| FrameHead { length: 0, kind: kind::HEADERS, flags, stream: 3 };
    for (flags, payload, expected) in [
        (0, &b"abc"[..], Ok(&b"abc"[..])),
        (flag::PADDED, b"\0abc", Ok(b"abc")),
        (flag::PADDED, b"\x02abc\0\0", Ok(b"abc")),
        (flag::PADDED, b"\x02\0\0", Ok(b"")),
        (flag::PADDED, b"\x03\0\0", Err(ErrorCode::PROTOCOL_ERROR)),
        (flag::PADDED, b"\xffabc", Err(ErrorCode::PROTOCOL_ERROR)),
        (flag::PADDED, b"", Err(ErrorCode::FRAME_SIZE_ERROR)),
    ] {
        assert_eq!(content(head(flags), payload), expected, "{}", payload.escape_ascii());
        assert_eq!(block_fragment(head(flags), payload), expected.map(|content| (content, None)));
    }
    let priority = b"\x80\0\0\x05\xffabc";
    assert_eq!(block_fragment(head(flag::PRIORITY), priority), Ok((&b"abc"[..], Some(5))));
    let both = [&b"\x01"[..], priority, b"\0"].concat();
    assert_eq!(block_fragment(head(flag::PRIORITY | flag::PADDED), &both), Ok((&b"abc"[..], Some(5))));
    // Padding that takes the priority away.
    let short = b"\x01\0\0\0\x05\0";
    assert_eq!(block_fragment(head(flag::PRIORITY | flag::PADDED), short), Err(ErrorCode::PROTOCOL_ERROR));
}

#[test]
fn codes_have_the_names_of_the_document() {
    assert_eq!(ErrorCode(0x0B).to_string(), "ENHANCE_YOUR_CALM");
    assert_eq!(format!("{:?}", ErrorCode(0x0D)), "HTTP_1_1_REQUIRED");
    assert_eq!(ErrorCode(0x0E).to_string(), "error code 0xe");
    assert_eq!(ErrorCode(u32::MAX).name(), None);
}
