//! Single requests whose peers do what no schedule has: heads without end, a client that takes none, trailers of a refused stream.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use ::h2::Reason;
use bytes::Bytes;
use handfast_leg::memory::Memory;
use handfast_leg::memory::tasks::{self, InMemory};
use handfast_leg::runtime::Runtime;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};

use super::h2;
use super::stage::{Stage, Versions};
use super::wire::Peer;
use crate::testing::on_engine;

const BACKEND_H2: Versions = Versions { client_h2: false, backend_h2: true };
const HTTP2: Versions = Versions { client_h2: true, backend_h2: true };
const PEER_TIMEOUT: Duration = Duration::from_secs(1_000);

/// Waits until `is_so`, at most for this duration; returns the result.
async fn wait_until(most: Duration, is_so: impl Fn() -> bool) -> bool {
    let deadline = InMemory::now() + most;
    while !is_so() && InMemory::now() < deadline {
        // Nothing wakes this task but the clock.
        InMemory::wait(InMemory::now() + Duration::from_millis(100)).await;
    }
    is_so()
}

/// A client by HTTP/1 that sends this, and waits for `is_so` before it reads: the status that it receives then.
fn late_reader(
    socket: Memory,
    request: &str,
    most: Duration,
    is_so: impl Fn() -> bool + 'static,
) -> Rc<Cell<u16>> {
    let status = Rc::new(Cell::new(0));
    let (request, seen) = (request.as_bytes().to_vec(), Rc::clone(&status));
    tasks::spawn(async move {
        let mut peer = Peer::new(socket);
        peer.out = request;
        peer.flush().await;
        assert!(wait_until(most, is_so).await, "what the client waits for does not come");
        while seen.get() < 200 {
            let Ok(head) = peer.head(PEER_TIMEOUT).await else { break };
            seen.set(head[9..12].parse().expect("a status"));
        }
    });
    status
}

/// A backend by HTTP/2 whose interim responses have 1,000 bytes each. After these it resets the stream, or waits for a reset.
fn interims(count: usize, resets: bool) -> (impl Fn(Memory), Rc<Cell<bool>>) {
    let is_over = Rc::new(Cell::new(false));
    let over = Rc::clone(&is_over);
    let backend = move |socket| {
        let over = Rc::clone(&over);
        let serve = move |_, mut respond: ::h2::server::SendResponse<Bytes>| {
            let over = Rc::clone(&over);
            tasks::spawn(async move {
                for number in 0..count {
                    // HPACK sends what it has sent before as an index.
                    let head = Response::builder().status(103).header("link", format!("{number:01000}"));
                    respond.send_informational(head.body(()).expect("a head")).expect("the stream is open");
                }
                if resets {
                    // It takes what waits to be sent with it.
                    wait_until(Duration::from_secs(1), || false).await;
                    respond.send_reset(Reason::INTERNAL_ERROR);
                } else {
                    let _ = poll_fn(|context| respond.poll_reset(context)).await;
                }
                over.set(true);
            });
        };
        tasks::spawn(h2::accept(socket, serve));
    };
    (backend, is_over)
}

/// HTTP/2 has no flow control for them: a client that takes none must not make the proxy keep them all.
#[test]
fn interim_responses_are_counted_while_the_client_takes_none() {
    on_engine(|| async {
        let (backend, is_over) = interims(1_000, false);
        let client = move |socket| {
            let over = Rc::clone(&is_over);
            let request = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
            late_reader(socket, request, Duration::from_secs(5), move || over.get());
        };
        let lines = Stage::new(BACKEND_H2).play_single(backend, client);
        let line = line_of(&lines, "/a");
        assert_eq!(line["reason"]["detail"], "more than 64 interim responses", "{line}");
        assert_eq!(line["status"], 502, "{line}");
    });
}

/// The client's content cannot be sent any more then, and nothing of it is waited for.
#[test]
fn a_reset_is_seen_while_the_client_takes_no_interim_response() {
    on_engine(|| async {
        let (backend, is_over) = interims(20, true);
        let client = move |socket| {
            let request = "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9\r\n\r\n123";
            let began = InMemory::now();
            let is_late = move || is_over.get() && InMemory::now() > began + Duration::from_secs(20);
            late_reader(socket, request, PEER_TIMEOUT, is_late);
        };
        let lines = Stage::new(BACKEND_H2).play_single(backend, client);
        let line = line_of(&lines, "/a");
        assert_eq!(line["reason"]["cause"], "stream-reset", "{line}");
        assert_eq!((&line["reason"]["side"], &line["status"]), (&"backend".into(), &502.into()), "{line}");
    });
}

#[test]
fn a_client_that_takes_no_interim_response_is_what_is_late() {
    on_engine(|| async {
        let (backend, _) = interims(20, false);
        let client = |socket| {
            let request = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
            late_reader(socket, request, PEER_TIMEOUT, {
                let began = InMemory::now();
                move || InMemory::now() > began + Duration::from_secs(500)
            });
        };
        let lines = Stage::new(BACKEND_H2).play_single(backend, client);
        let line = line_of(&lines, "/a");
        assert_eq!(line["reason"]["cause"], "body-timeout", "{line}");
        assert_eq!(line["reason"]["side"], "client", "{line}");
        assert_eq!(line.get("status"), None, "{line}");
    });
}

fn line_of<'a>(lines: &'a [serde_json::Value], path: &str) -> &'a serde_json::Value {
    lines.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("{lines:?}"))
}

/// Trailers that were read are lost with the refused stream.
#[test]
fn a_request_with_trailers_is_not_sent_again_without_them() {
    on_engine(|| async {
        let attempts: Rc<RefCell<Vec<bool>>> = Rc::default();
        let seen = Rc::clone(&attempts);
        let backend = move |socket| {
            let seen = Rc::clone(&seen);
            tasks::spawn(h2::accept(socket, move |request, mut respond| {
                let seen = Rc::clone(&seen);
                tasks::spawn(async move {
                    let mut body = request.into_body();
                    while body.data().await.is_some() {}
                    let trailers = body.trailers().await.expect("it is whole");
                    seen.borrow_mut().push(trailers.is_some());
                    if seen.borrow().len() == 1 {
                        return respond.send_reset(Reason::REFUSED_STREAM);
                    }
                    respond.send_response(Response::new(()), true).expect("the stream is open");
                });
            }));
        };
        let client = |socket| {
            tasks::spawn(h2::connect(socket, |sender| {
                let mut sender = sender.expect("HTTP/2");
                tasks::spawn(async move {
                    let request = Request::post("http://a.example/a").body(()).expect("a request");
                    let (response, mut stream) = sender.send_request(request, false).expect("it is ready");
                    drop(sender);
                    let trailer = (HeaderName::from_static("x-sum"), HeaderValue::from_static("1"));
                    stream.send_trailers(HeaderMap::from_iter([trailer])).expect("the stream is open");
                    assert_eq!(response.await.expect("a response").status(), 502);
                });
            }));
        };
        Stage::new(HTTP2).play_single(backend, client);
        assert_eq!(*attempts.borrow(), [true]);
    });
}

#[test]
fn a_head_that_is_too_large_has_a_line_in_http2_too() {
    on_engine(|| async {
        let client = |socket| {
            tasks::spawn(h2::connect(socket, |sender| {
                let mut sender = sender.expect("HTTP/2");
                tasks::spawn(async move {
                    let request = Request::get("http://a.example/a").header("x-a", "x".repeat(40_000));
                    let request = request.body(()).expect("a request");
                    let (response, _) = sender.send_request(request, true).expect("it is ready");
                    drop(sender);
                    assert_eq!(response.await.expect("a response").status(), 431);
                });
            }));
        };
        let lines = Stage::new(HTTP2).play_single(|_| panic!("no backend is asked"), client);
        let line = lines.iter().find(|line| line["status"] == 431).unwrap_or_else(|| panic!("{lines:?}"));
        assert_eq!(line["broken_rule"], "head-too-large", "{line}");
    });
}
