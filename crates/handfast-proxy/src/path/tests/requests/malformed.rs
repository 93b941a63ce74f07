//! Malformed messages of HTTP/2, by peers that write frames by hand: they are not forwarded, and their stream ends with PROTOCOL_ERROR
//! (RFC 9113 §8.1.1).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use handfast_http::http2::frame::{ErrorCode, FrameHead, PREFACE, flag, kind, write_settings};
use handfast_leg::memory::Memory;
use handfast_leg::memory::tasks;
use http::Request;

use super::h2;
use super::stage::{Stage, Versions};
use super::wire::Peer;
use crate::testing::on_engine;

const ENDS: u8 = flag::END_HEADERS | flag::END_STREAM;
const PEER_TIMEOUT: Duration = Duration::from_secs(1_000);

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { length: payload.len() as u32, kind, flags, stream: 1 };
    [&head.to_bytes()[..], payload].concat()
}

/// Literals that no table keeps.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn head(flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, flags, &block(fields))
}

/// The next frame, and what it has for a code, if it is an end.
async fn next_frame(peer: &mut Peer) -> Option<(FrameHead, Option<ErrorCode>)> {
    loop {
        if let Some((head, rest)) = peer.input.split_first_chunk() {
            let head = FrameHead::parse(head);
            if let Some(payload) = rest.get(..head.length as usize) {
                let code =
                    |at: usize| payload[at..].first_chunk().map(|code| ErrorCode(u32::from_be_bytes(*code)));
                let code = match head.kind {
                    kind::RST_STREAM => code(0),
                    kind::GOAWAY => code(4),
                    _ => None,
                };
                peer.input.drain(..FrameHead::SIZE + head.length as usize);
                return Some((head, code));
            }
        }
        peer.fill(PEER_TIMEOUT).await.ok()?;
    }
}

/// Codes of RST_STREAM, until the connection ends.
type Resets = Rc<RefCell<Vec<ErrorCode>>>;

/// A backend that sends these frames for each request.
fn backend(response: Vec<u8>) -> (impl Fn(Memory), Resets) {
    let resets = Resets::default();
    let seen = Rc::clone(&resets);
    let serve = move |socket| {
        let (response, seen) = (response.clone(), Rc::clone(&seen));
        tasks::spawn(async move {
            let mut peer = Peer::new(socket);
            write_settings(&mut peer.out, &[]);
            while peer.input.len() < PREFACE.len() {
                peer.fill(PEER_TIMEOUT).await.expect("the preface");
            }
            peer.input.drain(..PREFACE.len());
            while let Some((head, code)) = next_frame(&mut peer).await {
                match head.kind {
                    kind::HEADERS => peer.out.extend_from_slice(&response),
                    kind::RST_STREAM => seen.borrow_mut().push(code.expect("it has one")),
                    _ => {}
                }
            }
            peer.finish();
        });
    };
    (serve, resets)
}

/// The client's part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Status(u16),
    /// It has broken off behind its head.
    Cut,
}

async fn by_http1(socket: Memory, method: &str) -> Seen {
    let mut peer = Peer::new(socket);
    peer.out = format!("{method} /a HTTP/1.1\r\nHost: a.example\r\n\r\n").into_bytes();
    let Ok(head) = peer.head(PEER_TIMEOUT).await else { return Seen::Cut };
    let body = super::wire::framing(&head).filter(|_| method != "HEAD");
    let whole = match body {
        Some(body) => peer.body(body, |_, _| {}).await.1,
        None => Ok(()),
    };
    let status = head[9..12].parse().expect("a status");
    peer.finish();
    if whole.is_ok() { Seen::Status(status) } else { Seen::Cut }
}

async fn by_http2(mut sender: ::h2::client::SendRequest<bytes::Bytes>, method: &str) -> Seen {
    let request = Request::builder().method(method).uri("http://a.example/a").body(()).expect("a request");
    let (response, _) = sender.send_request(request, true).expect("it is ready");
    drop(sender);
    let Ok(response) = response.await else { return Seen::Cut };
    let (status, mut body) = (response.status().as_u16(), response.into_body());
    while let Some(data) = body.data().await {
        if data.is_err() {
            return Seen::Cut;
        }
    }
    if body.trailers().await.is_ok() { Seen::Status(status) } else { Seen::Cut }
}

/// Plays a request; what its client has, and the resets that the backend has received.
fn play(client_h2: bool, method: &'static str, response: Vec<u8>) -> (Seen, Vec<ErrorCode>) {
    let (backend, resets) = backend(response);
    let seen = Rc::new(RefCell::new(None));
    let of_client = Rc::clone(&seen);
    let client = move |socket| {
        if client_h2 {
            tasks::spawn(h2::connect(socket, move |sender| {
                let sender = sender.expect("HTTP/2");
                tasks::spawn(async move { *of_client.borrow_mut() = Some(by_http2(sender, method).await) });
            }));
        } else {
            tasks::spawn(async move { *of_client.borrow_mut() = Some(by_http1(socket, method).await) });
        }
    };
    Stage::new(Versions { client_h2, backend_h2: true }).play_single(backend, client);
    let seen = seen.take().expect("the client has ended");
    (seen, resets.take())
}

#[test]
fn a_malformed_response_is_not_forwarded() {
    on_engine(|| async { check_responses() });
}

fn check_responses() {
    const MALFORMED: ErrorCode = ErrorCode::PROTOCOL_ERROR;
    const OPEN: u8 = flag::END_HEADERS;
    let ok = (":status", "200");
    let data = |flags, content: &[u8]| frame(kind::DATA, flags, content);
    let bad = Seen::Status(502);
    // A stream whose both ends were sent cannot be reset any more.
    for (what, method, response, expected, resets) in [
        ("right", "GET", head(ENDS, &[ok]), Seen::Status(200), &[][..]),
        ("no status", "GET", head(OPEN, &[("a", "b")]), bad, &[MALFORMED]),
        ("no status, whole", "GET", head(ENDS, &[("a", "b")]), bad, &[]),
        ("a status of two digits", "GET", head(OPEN, &[(":status", "20")]), bad, &[MALFORMED]),
        ("two statuses", "GET", head(OPEN, &[ok, ok]), bad, &[MALFORMED]),
        ("a late status", "GET", head(OPEN, &[("a", "b"), ok]), bad, &[MALFORMED]),
        ("a field of requests", "GET", head(OPEN, &[ok, (":path", "/")]), bad, &[MALFORMED]),
        ("an unknown pseudo-field", "GET", head(OPEN, &[ok, (":a", "/")]), bad, &[MALFORMED]),
        ("a capital", "GET", head(OPEN, &[ok, ("A", "b")]), bad, &[MALFORMED]),
        ("a line end", "GET", head(OPEN, &[ok, ("a", "b\nc")]), bad, &[MALFORMED]),
        ("connection", "GET", head(OPEN, &[ok, ("connection", "x")]), bad, &[MALFORMED]),
        ("101", "GET", head(OPEN, &[(":status", "101")]), bad, &[MALFORMED]),
        ("a length that is none", "GET", head(OPEN, &[ok, ("content-length", "x")]), bad, &[MALFORMED]),
        ("a length and no content", "GET", head(ENDS, &[ok, ("content-length", "5")]), bad, &[]),
        ("a length of HEAD", "HEAD", head(ENDS, &[ok, ("content-length", "5")]), Seen::Status(200), &[]),
        (
            "less content",
            "GET",
            [head(OPEN, &[ok, ("content-length", "5")]), data(flag::END_STREAM, b"123")].concat(),
            Seen::Cut,
            &[MALFORMED],
        ),
        (
            "more content",
            "GET",
            [head(OPEN, &[ok, ("content-length", "5")]), data(0, b"123456")].concat(),
            Seen::Cut,
            &[MALFORMED],
        ),
        (
            "a pseudo-field in trailers",
            "GET",
            [head(OPEN, &[ok]), data(0, b"1"), head(ENDS, &[(":status", "200")])].concat(),
            Seen::Cut,
            &[],
        ),
        (
            "content of HEAD",
            "HEAD",
            [head(OPEN, &[ok]), data(flag::END_STREAM, b"1")].concat(),
            Seen::Status(200),
            &[],
        ),
        (
            "content of HEAD that has no end",
            "HEAD",
            [head(OPEN, &[ok]), data(0, b"1")].concat(),
            Seen::Status(200),
            &[MALFORMED],
        ),
    ] {
        for client_h2 in [false, true] {
            let (seen, received) = play(client_h2, method, response.clone());
            assert_eq!(seen, expected, "{what}, client of HTTP/2: {client_h2}");
            assert_eq!(received, resets, "{what}, client of HTTP/2: {client_h2}");
        }
    }
}

/// The trailers of a request come after its head was forwarded.
#[test]
fn malformed_trailers_of_a_request_are_not_forwarded() {
    on_engine(|| async {
        let (backend, resets) = backend(Vec::new());
        let received = Resets::default();
        let seen = Rc::clone(&received);
        let client = move |socket| {
            tasks::spawn(async move {
                let mut peer = Peer::new(socket);
                let request =
                    [(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", "/a")];
                peer.out = PREFACE.to_vec();
                write_settings(&mut peer.out, &[]);
                peer.out.extend(head(flag::END_HEADERS, &request));
                peer.out.extend(frame(kind::DATA, 0, b"123"));
                peer.out.extend(head(ENDS, &[(":path", "/b")]));
                while let Some((head, code)) = next_frame(&mut peer).await {
                    if head.kind == kind::RST_STREAM {
                        seen.borrow_mut().push(code.expect("it has one"));
                        break;
                    }
                }
                peer.finish();
            });
        };
        Stage::new(Versions { client_h2: true, backend_h2: true }).play_single(backend, client);
        assert_eq!(*received.borrow(), [ErrorCode::PROTOCOL_ERROR]);
        assert_eq!(*resets.borrow(), [ErrorCode::CANCEL]);
    });
}
