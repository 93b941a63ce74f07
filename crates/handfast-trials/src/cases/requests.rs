//! Requests in HTTP mode: heads that are slow, endless or ambiguous, clients that leave in the middle, and what a stop and a reload do
//! to a response that is under way. `responses` has the other side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_testkit::connection::Connection;
use handfast_testkit::deadline::DEADLINE;
use handfast_testkit::ending::SocketEnd;
use handfast_testkit::pattern::piece;
use rustix::process::Signal;

use super::hello::{EARLY, LIMIT};
use super::life::{has_stopped, shut};
use crate::backend::Manner;
use crate::case::{Case, case};
use crate::error::{CaseError, MustEnd, broken, lab};
use crate::http::{self, Response};
use crate::mode::Mode;
use crate::program::put;
use crate::setup::{Setup, USUAL};
use crate::stage::Stage;

pub(super) const NO_REQUESTS: &str = "bytes are forwarded there, and requests are not read";
/// Kept connections end soon, so that none is open when a case is judged.
pub(super) const KEPT: Setup = http("[service.http]\npool-idle = \"1s\"");

/// So that only the client's leave can end a request.
const PATIENT: Setup = http("[service.http]\npool-idle = \"1s\"\nresponse-timeout = \"10m\"");

pub(super) const GET: &[u8] = b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// A response of ten bytes, and its content.
pub(super) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
/// The first half of a response of 200 bytes.
const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n";
const HUNDRED: [u8; 100] = [b'h'; 100];

/// A case about requests, with lines of `[service.http]`.
pub(super) const fn of_requests(
    name: &'static str,
    step: &'static str,
    what: (&'static str, &'static str),
    play: fn(&mut Stage) -> Result<(), CaseError>,
) -> Case {
    case(name, step, what, play).only(Mode::is_http, NO_REQUESTS).with(KEPT)
}

/// The usual, with a section of HTTP mode.
pub(super) const fn http(tables: &'static str) -> Setup {
    Setup { tables, ..USUAL }
}

pub(super) const CASES: &[Case] = &[
    of_requests(
        "ambiguous-requests",
        "hello",
        (
            "requests that two servers could read in two ways: two lengths, a length and chunks, unknown codings, bare line ends, blanks \
             before a colon",
            "each is refused, its connection ends, and no byte of it reaches the backend",
        ),
        ambiguous,
    ),
    of_requests(
        "dripping-head",
        "hello",
        (
            "the head of a request comes one byte at a time, for ever",
            "408 at the deadline, which no byte extends",
        ),
        dripping,
    )
    .with(http("[service.http]\nheader-timeout = \"1s\"")),
    of_requests(
        "endless-head",
        "hello",
        ("the head of a request has no end: 16 MiB are sent", "431 at the limit, and no more of it is kept"),
        endless,
    ),
    of_requests(
        "kept-client-idle",
        "close",
        ("a client sends a request, and nothing more", "its connection is closed cleanly at `idle`"),
        idle,
    )
    .with(http("[service.http]\npool-idle = \"1s\"\nidle = \"1s\"")),
    of_requests(
        "upload-cut",
        "relay",
        (
            "a client sends a part of its content and resets, or ends without the last chunk",
            "the backend sees an abort and no end that the client did not send",
        ),
        upload_cut,
    ),
    of_requests(
        "client-leaves",
        "relay",
        (
            "a client resets while its request is at the backend",
            "the backend sees an abort, and the log names the cause",
        ),
        leaves,
    )
    .with(PATIENT),
    of_requests(
        "pipelined-then-reset",
        "relay",
        (
            "a client sends 50 requests at once, reads three responses and resets",
            "the responses come in order, and what is left of the requests is not sent",
        ),
        pipelined,
    )
    .with(PATIENT),
    of_requests(
        "client-reads-slowly",
        "relay",
        (
            "a client reads nothing of a response of 32 MiB for a second, then all of it",
            "memory stays bounded, another client is not affected, and every byte arrives",
        ),
        |stage| slow(stage, Way::ToClient),
    ),
    of_requests(
        "backend-reads-slowly",
        "relay",
        (
            "a backend reads nothing of a request of 32 MiB for a second, then all of it",
            "memory stays bounded, another client is not affected, and every byte arrives",
        ),
        |stage| slow(stage, Way::ToBackend),
    ),
    of_requests(
        "stop-completes-responses",
        "close",
        (
            "it is stopped while a response is under way, another one has not begun, and a third connection is idle",
            "both responses are complete, and the later one announces the end; the idle connection ends cleanly; exit code 0",
        ),
        stop_completes,
    ),
    of_requests(
        "reload-in-response",
        "reload",
        (
            "a reload with a lower limit on heads comes while a response is under way",
            "the response is complete, its connection keeps the old limit, and new ones have the new limit",
        ),
        reload_in_response,
    ),
];

/// A client whose request has reached the backend, and the backend's end behind its head.
pub(super) fn open_request(stage: &Stage, request: &[u8]) -> Result<(Connection, Connection), CaseError> {
    let mut client = stage.requester()?;
    let backend = send_next_request(stage, &mut client, request)?;
    Ok((client, backend))
}

/// A client's next request reaches the backend on a new connection.
pub(super) fn send_next_request(
    stage: &Stage,
    client: &mut Connection,
    request: &[u8],
) -> Result<Connection, CaseError> {
    stage.backend()?.forget();
    stage.backend()?.behave(Manner::Requests);
    client.try_send(request)?;
    let backend = stage.backend()?.next();
    stage.backend()?.behave(Manner::Good);
    let mut backend = backend?;
    http::head(&mut backend)?;
    Ok(backend)
}

/// The backend answers, and the client receives it.
pub(super) fn answers(client: &mut Connection, backend: &mut Connection) -> Result<Response, CaseError> {
    backend.try_send(ANSWER)?;
    let response = http::response(client)?.must_be(200)?;
    if ANSWER.ends_with(&response.content) { Ok(response) } else { broken("the client got another response") }
}

/// The client closes, and is closed, cleanly.
pub(super) fn leaves_cleanly(mut client: Connection) -> Result<(), CaseError> {
    client.close();
    client.ends().must_be_clean("the client")
}

fn ambiguous(stage: &mut Stage) -> Result<(), CaseError> {
    const HEAD: &str = "POST / HTTP/1.1\r\nHost: localhost\r\n";
    const REQUESTS: [&str; 10] = [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "Content-Length: 4, 4\r\n\r\nabcd",
        "Content-Length: +4\r\n\r\nabcd",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "X: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Host: other\r\nContent-Length: 0\r\n\r\n",
    ];
    let accepted = stage.backend()?.accepted();
    for request in REQUESTS {
        let mut client = stage.requester()?;
        client.try_send(format!("{HEAD}{request}").as_bytes())?;
        let response = http::response(&mut client)?;
        if !matches!(response.status, 400 | 501) {
            return broken(format!("{request:?} was answered with {:?}", response.head));
        }
        let ending = client.ends();
        if ending.socket == SocketEnd::Open || !ending.bytes.is_empty() {
            return broken(format!("behind the refusal of {request:?} came {}", ending));
        }
    }
    if stage.backend()?.accepted() != accepted {
        return broken("a request that was refused reached the backend");
    }
    stage.happened(format!("{} requests were refused", REQUESTS.len()));
    stage.expect_of(REQUESTS.len(), &["hello/client/http-request"]);
    Ok(())
}

fn dripping(stage: &mut Stage) -> Result<(), CaseError> {
    const PACE: Duration = Duration::from_millis(40);
    let mut client = stage.requester()?;
    client.try_send(b"GET / HTTP/1.1\r\nX: ")?;
    let begun = Instant::now();
    let mut sent = 0;
    while !client.has_bytes() && begun.elapsed() < DEADLINE && client.try_send(b"x").is_ok() {
        sent += 1;
        // Tickets may come, or nothing for a while.
        let _ = client.receive_by(Instant::now() + PACE);
    }
    let took = begun.elapsed();
    http::response(&mut client)?.must_be(408)?;
    stage.happened(format!("{sent} bytes of a head were dripped in {} ms", took.as_millis()));
    stage.expect(&["hello/client/request-timeout"]);
    match sent {
        0..5 => Err(CaseError::Lab(format!("only {sent} bytes were dripped"))),
        _ if took >= DEADLINE => broken(format!("{sent} bytes were taken in {took:?}")),
        _ if took < LIMIT - EARLY => broken(format!("it was refused after {took:?}, before its deadline")),
        _ => Ok(()),
    }
}

fn endless(stage: &mut Stage) -> Result<(), CaseError> {
    let (before, accepted) = (stage.program()?.memory(), stage.backend()?.accepted());
    let mut client = stage.requester()?;
    client.try_send(b"GET / HTTP/1.1\r\nHost: localhost\r\n")?;
    let line = [b"X: ".as_slice(), &[b'x'; 1_000], b"\r\n"].concat().repeat(16);
    // It is refused before all of it is sent, and the rest may meet a reset.
    let sent = (0..1_024).take_while(|_| client.try_send(&line).is_ok()).count() * line.len();
    let grew = stage.program()?.memory().saturating_sub(before);
    http::response(&mut client)?.must_be(431)?;
    stage.happened(format!("{} KiB of a head were sent, and memory grew by {grew} KiB", sent >> 10));
    stage.expect(&["hello/client/http-request"]);
    if grew > 1 << 10 || stage.backend()?.accepted() != accepted {
        return broken(format!("memory grew by {grew} KiB, or the backend was asked"));
    }
    Ok(())
}

fn idle(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = open_request(stage, GET)?;
    let begun = Instant::now();
    answers(&mut client, &mut backend)?;
    let ending = client.ends();
    let took = begun.elapsed();
    stage.happened(format!("idle for {} ms, until it was ended", took.as_millis()));
    stage.closed(1, "http-closed")?;
    if took < LIMIT - EARLY {
        return broken(format!("it was ended after {took:?}, before its limit"));
    }
    ending.must_be_clean("the client")
}

fn upload_cut(stage: &mut Stage) -> Result<(), CaseError> {
    const LENGTH: &[u8] = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    const CHUNKS: &[u8] = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n";
    for (head, resets) in [(LENGTH, true), (LENGTH, false), (CHUNKS, true), (CHUNKS, false)] {
        let (mut client, mut backend) = open_request(stage, &[head, &HUNDRED].concat())?;
        if resets {
            client.reset();
        } else {
            client.close();
        }
        let ending = backend.ends();
        if ending.bytes.len() > HUNDRED.len() + 8 {
            return broken(format!("the backend received {}: more than was sent", ending));
        }
        ending.must_abort("the backend")?;
    }
    stage.happened("100 bytes of content, then a reset or an end, with a length and in chunks");
    stage.expect_of(2, &["relay/client/reset"]);
    stage.expect_of(2, &["relay/client/closed-early"]);
    Ok(())
}

fn leaves(stage: &mut Stage) -> Result<(), CaseError> {
    let (client, mut backend) = open_request(stage, GET)?;
    client.reset();
    let ending = backend.ends();
    stage.happened("a reset instead of a wait");
    stage.expect(&["relay/client/reset"]);
    ending.must_abort("the backend")
}

fn pipelined(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 50;
    let accepted = stage.backend()?.accepted();
    let (mut client, mut backend) = open_request(stage, &GET.repeat(TIMES))?;
    for number in 0..3 {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
        backend.try_send(answer.as_bytes())?;
        if http::response(&mut client)?.content != number.to_string().as_bytes() {
            return broken(format!("response {number} came in another's place"));
        }
        http::head(&mut backend)?;
    }
    client.reset();
    let ending = backend.ends();
    let reached = stage.backend()?.accepted() - accepted;
    stage.happened(format!("{TIMES} requests at once, and a reset behind three responses"));
    stage.expect(&["relay/client/reset"]);
    if !ending.bytes.is_empty() || reached != 1 {
        return broken(format!("the backend received {} on {reached} connections", ending));
    }
    ending.must_abort("the backend")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToBackend,
    ToClient,
}

const LARGE: usize = 32 << 20;

/// Waits until a sender has sent nothing more for a second.
fn stalled(sent: &AtomicUsize) -> usize {
    let (mut before, mut since) = (sent.load(Ordering::Acquire), Instant::now());
    while since.elapsed() < LIMIT {
        pause();
        let now = sent.load(Ordering::Acquire);
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    before
}

fn send_large(source: &mut Connection, sent: &AtomicUsize) -> Result<(), CaseError> {
    let mut from = 0;
    while from < LARGE {
        let chunk = piece(from as u64, 16 << 10).to_vec();
        source.try_send(&chunk)?;
        from += chunk.len();
        sent.store(from, Ordering::Release);
    }
    Ok(())
}

fn take_large(sink: &mut Connection) -> Result<(), CaseError> {
    for from in (0..LARGE).step_by(16 << 10) {
        if sink.try_read_exactly(16 << 10)? != piece(from as u64, 16 << 10) {
            return broken(format!("a byte behind {from} is not the one that was sent"));
        }
    }
    Ok(())
}

fn slow(stage: &mut Stage, way: Way) -> Result<(), CaseError> {
    let upload = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LARGE}\r\n\r\n");
    let request = if way == Way::ToBackend { upload.as_bytes() } else { GET };
    let (mut client, mut backend) = open_request(stage, request)?;
    if way == Way::ToClient {
        backend.try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").as_bytes())?;
    }
    let sent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (source, sink) = match way {
            Way::ToBackend => (&mut client, &mut backend),
            Way::ToClient => (&mut backend, &mut client),
        };
        let sending = Builder::new().spawn_scoped(scope, || send_large(source, &sent));
        let sending = sending.map_err(lab("start a thread"))?;
        let stalled = stalled(&sent);
        let grew = stage.program()?.memory().saturating_sub(stage.figures.memory_before_kib);
        stage.happened(format!(
            "{} of {} KiB were taken until nothing moved for a second; memory grew by {grew} KiB",
            stalled >> 10,
            LARGE >> 10
        ));
        let held = stage.echoes();
        if way == Way::ToClient {
            http::head(sink)?;
        }
        let took = take_large(sink);
        let sending = sending.join().unwrap_or_else(|_| Err(CaseError::Lab("a thread panicked".to_owned())));
        held.and(took).and(sending)?;
        match stalled {
            _ if grew > 1 << 10 => broken(format!("memory grew by {grew} KiB for one request")),
            LARGE => Err(CaseError::Lab("all of it was taken at once".to_owned())),
            _ => Ok(()),
        }
    })?;
    if way == Way::ToBackend {
        answers(&mut client, &mut backend)?;
    }
    leaves_cleanly(client)
}

/// The second half of what [`HALF`] began.
fn completes(client: &mut Connection, backend: &mut Connection) -> Result<(), CaseError> {
    backend.try_send(&HUNDRED)?;
    Ok(client.expect(&HUNDRED)?)
}

/// A client that has received the first half of a response.
fn half_answered(stage: &Stage) -> Result<(Connection, Connection), CaseError> {
    let (mut client, mut backend) = open_request(stage, GET)?;
    backend.try_send(HALF)?;
    backend.try_send(&HUNDRED)?;
    http::head(&mut client)?;
    client.expect(&HUNDRED)?;
    Ok((client, backend))
}

fn stop_completes(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut begun, mut its) = half_answered(stage)?;
    let (mut waiting, mut other) = open_request(stage, GET)?;
    let (mut idle, mut kept) = open_request(stage, GET)?;
    answers(&mut idle, &mut kept)?;
    stage.leave()?;
    stage.program()?.signal(Signal::TERM)?;
    shut(stage)?;
    idle.ends().must_be_clean("the idle client")?;
    completes(&mut begun, &mut its)?;
    begun.ends().must_be_clean("the client of a response that had begun")?;
    let response = answers(&mut waiting, &mut other)?;
    if response.field("connection").as_deref() != Some("close") {
        return broken(format!("the last response does not announce the end: {:?}", response.head));
    }
    waiting.ends().must_be_clean("the client of the last response")?;
    stage.happened("two responses were due when it was stopped");
    stage.program()?.wait_for_line("every connection had ended")?;
    has_stopped(stage)
}

fn reload_in_response(stage: &mut Stage) -> Result<(), CaseError> {
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(2_000));
    let file = stage.folder.join("handfast.toml");
    let good = stage.configuration();
    let (mut client, mut backend) = half_answered(stage)?;
    put(&file, good.replacen("pool-idle", "max-header-size = \"1KiB\"\npool-idle", 1))?;
    reloads(stage)?;
    completes(&mut client, &mut backend)?;
    // It is kept, and so is its configuration. The backend's connection serves its next request.
    client.try_send(long.as_bytes())?;
    http::head(&mut backend)?;
    answers(&mut client, &mut backend)?;
    let mut new = stage.requester()?;
    new.try_send(long.as_bytes())?;
    http::response(&mut new)?.must_be(431)?;
    stage.happened("a reload between two halves of a response, and a limit that new connections have");
    leaves_cleanly(client)?;
    put(&file, good)?;
    reloads(stage)
}

fn reloads(stage: &mut Stage) -> Result<(), CaseError> {
    let (program, place) = stage.both()?;
    if program.reload(place)? { Ok(()) } else { Err(CaseError::Lab(program.last_words())) }
}
