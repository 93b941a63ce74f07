//! Both versions by what the target sends, in one piece and byte by byte: the outcome of a request, and what is sent for it.

use std::time::Duration;

use handfast_http::http2::frame::{ErrorCode, FrameHead, flag, kind, write_window_update};

use super::*;
use crate::context::testing::thread;
use crate::failure::{Cause, Step, StepFailure};
use crate::http::http1_client::Http1Client;
use crate::http::http2_client::Http2Client;
use crate::http::in_flight::Lost;
use crate::plan::{HttpVersion, Plan};

/// One client with one request.
struct Scene {
    client: Box<dyn Protocol>,
    requests: Requests,
}

impl Scene {
    fn new(version: HttpVersion, method: &str, body: &[u8]) -> Self {
        let now = Moment::now();
        let (context, _) = thread(&Plan::default(), now, now + Duration::from_secs(60));
        let (mut client, scheme): (Box<dyn Protocol>, _) = match version {
            HttpVersion::Http11 => (Box::new(Http1Client::new()), None),
            HttpVersion::Http2 => (Box::new(Http2Client::new(10)), Some("https")),
        };
        let mut requests = Requests::new(&context);
        let header =
            |name: &str, value: String| crate::plan::Header { name: name.into(), value: Some(value) };
        let mut fields = vec![header("host", "a.example".into())];
        if !body.is_empty() {
            fields.push(header("content-length", body.len().to_string()));
        }
        let request = PreparedRequest::new((method, "/"), fields, Arc::from(body), scheme);
        let place = requests.begin(now, 0);
        client.begin(place, Arc::new(request.expect("a request")), &mut requests);
        Self { client, requests }
    }

    fn output(&mut self) -> Vec<u8> {
        self.client.output(Vec::new(), Moment::now(), &mut self.requests)
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.client.receive(bytes, Moment::now(), &mut self.requests);
    }

    fn end(&mut self, is_clean: bool) {
        let failure = |cause| StepFailure::new(Step::Exchange, cause, "the end");
        let end = TransportEnd {
            unanswered: failure(Cause::ClosedEarly),
            cut_short: failure(Cause::Truncated),
            is_clean,
        };
        self.client.end(&end, Moment::now(), &mut self.requests);
    }

    /// `200`, the cause of the failure, or `waits`; and the end of the connection.
    fn outcome(&mut self) -> String {
        let outcome = match self.requests.next_finished().map(|finished| finished.outcome) {
            None => "waits".to_owned(),
            Some(Ok(answer)) => answer.status.as_u16().to_string(),
            Some(Err(Lost::NotSeen(_))) => "not seen".to_owned(),
            Some(Err(Lost::Failed(failure))) => failure.cause.name().to_owned(),
        };
        assert_eq!(self.requests.count(), usize::from(outcome == "waits"), "one outcome: {outcome}");
        if self.client.is_closed() { outcome + ", closed" } else { outcome }
    }
}

/// Event behind the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    End,
    Break,
    /// An end before the request was sent.
    Unsent,
}
use Then::{Break, End, Nothing, Unsent};

#[track_caller]
fn check(version: HttpVersion, method: &str, bytes: &[u8], then: Then, expected: &str) {
    for piece in [usize::MAX, 1] {
        let mut scene = Scene::new(version, method, b"");
        if then != Unsent {
            assert!(!scene.output().is_empty());
        }
        bytes.chunks(piece.min(bytes.len().max(1))).for_each(|part| scene.receive(part));
        if then != Nothing {
            scene.end(then != Break);
        }
        let shown = bytes.escape_ascii();
        assert_eq!(scene.outcome(), expected, "{method}, then {then:?}, in pieces of {piece}: {shown}");
    }
}

#[test]
fn http1_ends_a_request_by_what_comes() {
    let rows: &[(&str, &[u8], Then, &str)] = &[
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", Nothing, "200"),
        (
            "GET",
            b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            Nothing,
            "204",
        ),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            Nothing,
            "200",
        ),
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Nothing, "200"),
        ("GET", b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", Nothing, "200, closed"),
        ("GET", b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", Nothing, "200, closed"),
        ("GET", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", Nothing, "101, closed"),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nall", Nothing, "waits, closed"),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nall", End, "200, closed"),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nall", Break, "truncated, closed"),
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", End, "truncated, closed"),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            End,
            "truncated, closed",
        ),
        ("GET", b"HTTP/1.1 200 OK\r\ncontent-le", End, "closed-early, closed"),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\n", End, "closed-early, closed"),
        ("GET", b"", End, "closed-early, closed"),
        ("GET", b"", Unsent, "not seen, closed"),
        ("GET", b"HTTP/1.1 408 Request Timeout\r\n\r\n", Unsent, "not seen, closed"),
        ("GET", b"220 mail.example ESMTP\r\n", End, "http, closed"),
        ("GET", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnone\r\n", Nothing, "http, closed"),
    ];
    for (method, bytes, then, expected) in rows {
        check(HttpVersion::Http11, method, bytes, *then, expected);
    }
}

/// Bytes behind an answer are seen before it is taken only where they come with it.
#[test]
fn http1_takes_no_answer_with_more_behind_it() {
    let mut scene = Scene::new(HttpVersion::Http11, "GET", b"");
    let _ = scene.output();
    scene.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more");
    assert_eq!(scene.outcome(), "http, closed");
    let fault = scene.client.fault().expect("a fault");
    assert!(fault.contains("9 bytes behind the end of the last answer"), "{fault}");
    let mut scene = Scene::new(HttpVersion::Http11, "GET", b"");
    let _ = scene.output();
    scene.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    assert_eq!(scene.outcome(), "200");
    scene.receive(b"x");
    assert!(scene.client.is_closed() && scene.client.fault().is_some());
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { length: payload.len() as u32, kind, flags, stream };
    [&head.to_bytes()[..], payload].concat()
}

/// `:status: 200`, and `content-length: 5` behind it.
const OK: &[u8] = &[0x88];
const OK_5: &[u8] = &[0x88, 0x0F, 0x0D, 1, b'5'];

#[test]
fn http2_ends_a_request_by_what_comes() {
    let head = |block: &[u8], flags: u8| frame(kind::HEADERS, flag::END_HEADERS | flags, 1, block);
    let last = flag::END_STREAM;
    let data = |content: &[u8], flags: u8| frame(kind::DATA, flags, 1, content);
    let reset = |code: ErrorCode| frame(kind::RST_STREAM, 0, 1, &code.0.to_be_bytes());
    let goaway = |id: u32, code: ErrorCode| {
        frame(kind::GOAWAY, 0, 0, &[id.to_be_bytes(), code.0.to_be_bytes()].concat())
    };
    let (cancel, refused) = (ErrorCode::CANCEL, ErrorCode::REFUSED_STREAM);
    // `:status: 103`, and an unknown pseudo-field.
    let (hints, unknown) = ([0x08, 3, b'1', b'0', b'3'], [0x88, 0x00, 2, b':', b'x', 1, b'y']);
    let rows: &[(&str, Vec<Vec<u8>>, Then, &str)] = &[
        ("GET", vec![head(OK, last)], Nothing, "200"),
        ("GET", vec![head(OK, 0), data(b"hel", 0), data(b"lo", last)], Nothing, "200"),
        ("GET", vec![head(OK, 0), data(b"hel", 0), head(&[0x00, 1, b'x', 1, b'y'], last)], Nothing, "200"),
        ("GET", vec![head(&hints, 0), head(OK, last)], Nothing, "200"),
        ("GET", vec![head(OK_5, 0), data(b"hello", last)], Nothing, "200"),
        ("HEAD", vec![head(OK_5, last)], Nothing, "200"),
        ("GET", vec![head(OK, last), reset(ErrorCode::NO_ERROR)], Nothing, "200"),
        ("GET", vec![head(OK, last), goaway(1, ErrorCode::NO_ERROR)], Nothing, "200, closed"),
        ("GET", vec![head(OK_5, last)], Nothing, "http"),
        ("GET", vec![head(OK_5, 0), data(b"hell", last)], Nothing, "http"),
        ("GET", vec![head(OK_5, 0), data(b"hello and more", 0)], Nothing, "http"),
        ("GET", vec![head(&unknown, last)], Nothing, "http"),
        ("GET", vec![reset(cancel)], Nothing, "http"),
        ("GET", vec![reset(refused)], Nothing, "not seen"),
        ("GET", vec![goaway(0, ErrorCode::NO_ERROR)], Nothing, "not seen, closed"),
        ("GET", vec![goaway(0, ErrorCode::INTERNAL_ERROR)], Nothing, "http, closed"),
        ("GET", vec![goaway(1, ErrorCode::NO_ERROR)], Nothing, "waits, closed"),
        ("GET", vec![goaway(1, ErrorCode::NO_ERROR)], End, "closed-early, closed"),
        ("GET", vec![head(OK, 0), reset(cancel)], Nothing, "truncated"),
        ("GET", vec![head(OK, 0), data(b"hel", 0)], End, "truncated, closed"),
        ("GET", vec![data(b"hel", 0)], Nothing, "http"),
        ("GET", vec![data(b"", last)], Nothing, "http"),
        ("GET", vec![head(&hints, 0), data(b"", last)], Nothing, "http"),
        ("GET", vec![frame(kind::DATA, 0, 3, b"x")], Nothing, "http, closed"),
        ("GET", vec![head(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], last)], Nothing, "http, closed"),
        ("GET", vec![], End, "closed-early, closed"),
        ("GET", vec![], Unsent, "not seen, closed"),
    ];
    let settings = frame(kind::SETTINGS, 0, 0, b"");
    for (method, frames, then, expected) in rows {
        let bytes = [settings.clone(), frames.concat()].concat();
        check(HttpVersion::Http2, method, &bytes, *then, expected);
    }
    check(HttpVersion::Http2, "GET", b"HTTP/1.1 400 Bad Request\r\n\r\n", Nothing, "http, closed");
}

#[test]
fn http1_sends_content_in_pieces() {
    let body: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
    let mut scene = Scene::new(HttpVersion::Http11, "POST", &body);
    let mut sent = Vec::new();
    loop {
        let output = scene.output();
        assert!(output.len() <= 65_536);
        if output.is_empty() {
            break;
        }
        sent.extend(output);
    }
    assert!(sent.ends_with(&body) && sent.starts_with(b"POST / HTTP/1.1\r\nhost: a.example\r\n"));
    // An answer to a part of it is one; the connection carries another request only behind all of it.
    let mut scene = Scene::new(HttpVersion::Http11, "POST", &body);
    let _ = scene.output();
    scene.receive(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(scene.outcome(), "413");
    assert!(!scene.client.has_room());
    while !scene.output().is_empty() {}
    assert!(scene.client.has_room());
}

#[test]
fn http2_sends_content_as_windows_permit() {
    let body: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
    let mut scene = Scene::new(HttpVersion::Http2, "POST", &body);
    let (mut content, mut has_ended) = (Vec::new(), false);
    let mut take = |mut output: &[u8]| {
        output = output.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap_or(output);
        while let Some((head, rest)) = output.split_first_chunk() {
            let head = FrameHead::parse(head);
            let (payload, rest) = rest.split_at(head.length as usize);
            if head.kind == kind::DATA {
                content.extend_from_slice(payload);
                has_ended = head.has(flag::END_STREAM);
            }
            output = rest;
        }
        (content.len(), has_ended)
    };
    scene.receive(&frame(kind::SETTINGS, 0, 0, b""));
    for _ in 0..4 {
        assert_eq!(take(&scene.output()), (65_535, false), "the first window");
    }
    let mut updates = Vec::new();
    write_window_update(&mut updates, 0, 1 << 20);
    write_window_update(&mut updates, 1, 1 << 20);
    scene.receive(&updates);
    let mut end = (0, false);
    for _ in 0..10 {
        end = take(&scene.output());
    }
    assert_eq!(end, (200_000, true));
    assert_eq!(content, body);
}

/// A window that is smaller than the answer would cost a round trip, which would be in the figures.
#[test]
fn http2_permits_an_answer_of_two_megabytes_in_one_piece() {
    let output = Scene::new(HttpVersion::Http2, "GET", b"").output();
    let (settings, rest) = output[24..].split_first_chunk().expect("SETTINGS");
    let settings = FrameHead::parse(settings);
    let (payload, rest) = rest.split_at(settings.length as usize);
    let window = payload.chunks_exact(6).find(|setting| setting[..2] == [0, 4]).expect("a window");
    assert_eq!(window[2..], (2_u32 << 20).to_be_bytes());
    let mut update = Vec::new();
    write_window_update(&mut update, 0, (2 << 20) - 65_535);
    assert!(rest.starts_with(&update), "that of the connection");
}
