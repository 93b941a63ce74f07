//! Responses to requests that came at once: those that are ready share a write, and none waits for a later one.

use std::cell::{Cell, RefCell};

use handfast_leg::memory::tasks::{self, InMemory};
use handfast_leg::memory::{Link, Memory, dice};
use handfast_leg::{Side as LegSide, Socket};

use super::*;
use crate::requests::testing::Fixture;
use crate::testing::on_engine;

/// Bytes of the peer's socket: more than all responses of a test.
const ROOM: usize = 1 << 20;

/// A connection on which these bytes have come, and the state of its socket.
fn begin(fixture: &Fixture, received: &str, has_ended: bool) -> std::rc::Rc<RefCell<Link>> {
    let link = Link { room: ROOM, peer_ended: has_ended, ..Link::default() };
    let link = std::rc::Rc::new(RefCell::new(link));
    // Nothing is cut short, so that each write of the session is one.
    let socket = Memory::new(std::rc::Rc::clone(&link), dice(1), std::rc::Rc::new(Cell::new(false)));
    let (connection, received) = (fixture.connection.clone(), received.as_bytes().to_vec());
    tasks::spawn(async move {
        let leg = Leg::plain(LegSide::Client, socket);
        let (mut leg, served) = serve::<InMemory>(&connection, leg, received).await;
        assert!(matches!(served, Served::Ended(_)));
        // What was sent is not lost by a reset.
        leg.socket_mut().finish_at_drop();
    });
    link
}

fn sent(link: &RefCell<Link>) -> String {
    String::from_utf8(link.borrow().to_peer.iter().copied().collect()).expect("text")
}

/// A service with a fixed response of this number of bytes at `/fixed`.
fn fixed(bytes: usize) -> Fixture {
    let content = "x".repeat(bytes);
    Fixture::new(&format!(
        "http = {{ half-close = \"answer\" }}\n[[service.route]]\npath = \"/fixed\"\n\
         respond = {{ status = 200, content = \"{content}\", type = \"text/plain\" }}\n"
    ))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

/// Responses wait for the next one as long as they have 16 KiB together.
#[test]
fn responses_to_requests_that_came_at_once_share_a_write() {
    for (requests, bytes, writes) in
        [(1, 10, 1), (2, 10, 1), (16, 10, 1), (50, 10, 1), (50, 600, 3), (5, 10_000, 3), (4, 20_000, 4)]
    {
        on_engine(move || async move {
            let fixture = fixed(bytes);
            let link = RefCell::default();
            tasks::run(1, || {
                link.replace(Some(begin(&fixture, &get("/fixed").repeat(requests), true))).map_or((), drop)
            });
            let link = link.take().expect("it has begun");
            assert_eq!(sent(&link).matches("HTTP/1.1 200").count(), requests);
            assert_eq!(link.borrow().writes, writes, "{requests} responses of {bytes} bytes");
        });
    }
}

/// Whatever the connection waits for behind a response that is ready.
#[test]
fn a_response_does_not_wait_for_a_later_one() {
    let post = "POST /slow HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9\r\n\r\n1234";
    for (what, behind) in [
        ("the next request", String::new()),
        ("the rest of its head", "GET /fix".to_owned()),
        ("a slow backend", get("/slow")),
        ("the rest of its content", post.to_owned()),
        ("content that nothing reads", post.replace("/slow", "/fixed")),
        ("a third response", [get("/fixed"), get("/slow")].concat()),
    ] {
        on_engine(move || async move {
            let fixture = fixed(10);
            let count = 1 + behind.matches("/fixed").count();
            tasks::run(1, || {
                // Backends that say nothing, as long as the schedule lasts.
                let silent = RefCell::new(Vec::new());
                tasks::listen(ROOM, move |_, socket| silent.borrow_mut().push(socket));
                let link = begin(&fixture, &[get("/fixed"), behind].concat(), false);
                tasks::spawn(async move {
                    let end = InMemory::now() + Duration::from_secs(1);
                    while InMemory::wait(end).await == Woken::Event {}
                    assert_eq!(sent(&link).matches("HTTP/1.1 200").count(), count, "before {what}");
                });
            });
        });
    }
}
