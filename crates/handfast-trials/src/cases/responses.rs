//! Responses in HTTP mode: backends that are silent, send something else, die in the middle, send too much, or close a kept connection.
//! `requests` has the other side.

use std::time::{Duration, Instant};

use handfast_testkit::connection::Connection;
use handfast_testkit::ending::SocketEnd;

use super::hello::{EARLY, LIMIT};
use super::requests::{
    GET, answers, http as setup, leaves_cleanly, of_requests, open_request, send_next_request,
};
use crate::case::Case;
use crate::error::{CaseError, MustEnd, broken};
use crate::http;
use crate::stage::Stage;

/// CPU that a flood may take, on however slow a machine.
const CALM: Duration = Duration::from_secs(2);
const HUNDRED: [u8; 100] = [b'h'; 100];
const POST: &[u8] = b"POST /order HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nonce";

pub(super) const CASES: &[Case] = &[
    of_requests(
        "response-late",
        "relay",
        (
            "the backend receives a request and sends nothing",
            "504 at the deadline, and the log names the cause",
        ),
        late,
    )
    .with(setup("[service.http]\npool-idle = \"1s\"\nresponse-timeout = \"1s\"")),
    of_requests(
        "response-stops",
        "relay",
        (
            "the backend sends a half of its response, and nothing more",
            "the client sees an abort at the deadline, and the log names the side",
        ),
        stops,
    )
    .with(setup("[service.http]\npool-idle = \"1s\"\nbody-timeout = \"1s\"")),
    of_requests(
        "response-not-http",
        "relay",
        (
            "the backend answers with another protocol, a bare line end, a broken status or length, or a folded field",
            "502, and no byte of it reaches the client",
        ),
        not_http,
    ),
    of_requests(
        "response-head-endless",
        "relay",
        ("the head of a response has no end: 16 MiB are sent", "502 at the limit, and no more of it is kept"),
        head_endless,
    ),
    of_requests(
        "interim-flood",
        "relay",
        (
            "the backend sends 10,000 interim responses (103)",
            "502 after a few of them, and the CPU stays calm",
        ),
        interim_flood,
    ),
    of_requests(
        "response-cut",
        "relay",
        (
            "the backend ends or resets in the middle of a response with a length, in chunks, and until the end",
            "the client gets what came before, then an abort and no end that the backend did not send",
        ),
        cut,
    ),
    of_requests(
        "response-surplus",
        "relay",
        (
            "the backend sends a second response behind the one that is due",
            "no client gets it, and the connection serves no other request",
        ),
        surplus,
    ),
    of_requests(
        "response-early",
        "relay",
        (
            "the backend answers before it has all of the request, and closes",
            "the client gets the response, and its connection ends cleanly",
        ),
        early,
    ),
    of_requests(
        "kept-backend-closes",
        "connect",
        (
            "the backend closes, resets, or sends something on a kept connection that is idle",
            "the next request goes on a new connection, and no client is affected",
        ),
        kept_closes,
    ),
    of_requests(
        "kept-backend-dies",
        "relay",
        (
            "the backend closes a kept connection with a request on it, before a byte of a response",
            "GET is sent again on a new connection, POST is not: 502",
        ),
        kept_dies,
    ),
];

fn late(stage: &mut Stage) -> Result<(), CaseError> {
    let begun = Instant::now();
    let (mut client, mut backend) = open_request(stage, GET)?;
    http::response(&mut client)?.must_be(504)?;
    let took = begun.elapsed();
    stage.happened(format!("no response for {} ms, until it was given up", took.as_millis()));
    stage.expect(&["relay/backend/response-timeout"]);
    if took < LIMIT - EARLY {
        return broken(format!("it was given up after {took:?}, before its deadline"));
    }
    // A late answer belongs to no request.
    if backend.ends().socket == SocketEnd::Open {
        return broken("the backend's connection was kept, although a response is due on it");
    }
    leaves_cleanly(client)
}

fn stops(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = open_request(stage, GET)?;
    backend.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n")?;
    backend.try_send(&HUNDRED)?;
    let begun = Instant::now();
    let ending = client.ends();
    stage.happened(format!("a half, then nothing for {} ms", begun.elapsed().as_millis()));
    stage.expect(&["relay/backend/body-timeout"]);
    ending.must_abort("the client")?;
    backend.ends().must_abort("the backend")
}

fn not_http(stage: &mut Stage) -> Result<(), CaseError> {
    const WRONG: [&[u8]; 8] = [
        b"SSH-2.0-OpenSSH_9.2p1 secret\r\n",
        b"\x16\x03\x03\x00\x02secret",
        b"HTTP/1.1 200 OK\nX: secret\n\n",
        b"HTTP/1.1 20 OK\r\nX: secret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: secret\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: secret\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n secret\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: secret\r\n\r\n",
    ];
    for wrong in WRONG {
        let (mut client, mut backend) = open_request(stage, GET)?;
        backend.try_send(wrong)?;
        let response = http::response(&mut client)?.must_be(502)?;
        let content = String::from_utf8_lossy(&response.content).into_owned();
        if response.head.contains("secret") || content.contains("secret") {
            return broken(format!("the client received a part of {:?}", String::from_utf8_lossy(wrong)));
        }
        leaves_cleanly(client)?;
    }
    stage.happened(format!("{} responses that are none", WRONG.len()));
    stage.expect_of(WRONG.len(), &["relay/backend/http-response"]);
    Ok(())
}

fn head_endless(stage: &mut Stage) -> Result<(), CaseError> {
    let before = stage.program()?.memory();
    let (mut client, mut backend) = open_request(stage, GET)?;
    backend.try_send(b"HTTP/1.1 200 OK\r\n")?;
    let line = [b"X: ".as_slice(), &[b'x'; 1_000], b"\r\n"].concat().repeat(16);
    // It is given up before all of it is sent.
    let sent = (0..1_024).take_while(|_| backend.try_send(&line).is_ok()).count() * line.len();
    let grew = stage.program()?.memory().saturating_sub(before);
    http::response(&mut client)?.must_be(502)?;
    stage.happened(format!("{} KiB of a head were sent, and memory grew by {grew} KiB", sent >> 10));
    stage.expect(&["relay/backend/http-response"]);
    if grew > 1 << 10 { broken(format!("memory grew by {grew} KiB")) } else { leaves_cleanly(client) }
}

fn interim_flood(stage: &mut Stage) -> Result<(), CaseError> {
    const TIMES: usize = 10_000;
    let before = stage.program()?.cpu();
    let (mut client, mut backend) = open_request(stage, GET)?;
    // It is given up before all of them are sent.
    let _ = backend.try_send(&b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(TIMES));
    http::response(&mut client)?.must_be(502)?;
    let spent = stage.program()?.cpu().saturating_sub(before);
    stage.happened(format!("{TIMES} interim responses, {} ms of CPU", spent.as_millis()));
    stage.expect(&["relay/backend/http-response"]);
    if spent > CALM { broken(format!("they took {spent:?} of CPU")) } else { leaves_cleanly(client) }
}

/// End of a backend's incomplete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Ends,
    Resets,
    /// Without close_notify.
    Truncates,
}

fn cut(stage: &mut Stage) -> Result<(), CaseError> {
    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    const CHUNKS: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n";
    const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
    let mut cuts =
        vec![(LENGTH, Cut::Ends), (LENGTH, Cut::Resets), (CHUNKS, Cut::Ends), (UNTIL_CLOSE, Cut::Resets)];
    if stage.mode.originates() {
        cuts.push((UNTIL_CLOSE, Cut::Truncates));
        stage.expect(&["relay/backend/truncated"]);
    }
    for (head, how) in &cuts {
        let (mut client, mut backend) = open_request(stage, GET)?;
        backend.try_send(&[*head, &HUNDRED].concat())?;
        match how {
            Cut::Ends => backend.close(),
            Cut::Resets => backend.reset(),
            Cut::Truncates => backend.fin(),
        }
        http::head(&mut client)?;
        let ending = client.ends();
        if ending.bytes.len() < HUNDRED.len() {
            return broken(format!("the client received {}: not the bytes that came before", ending));
        }
        ending.must_abort("the client")?;
    }
    stage.happened(format!("{} responses were cut behind 100 bytes", cuts.len()));
    stage.expect_of(2, &["relay/backend/closed-early"]);
    stage.expect_of(2, &["relay/backend/reset"]);
    Ok(())
}

fn surplus(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = open_request(stage, GET)?;
    backend.try_send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    )?;
    let response = http::response(&mut client)?.must_be(200)?;
    if response.content != b"ok" {
        return broken("the first response has another's content");
    }
    let mut next = send_next_request(stage, &mut client, GET)?;
    answers(&mut client, &mut next)?;
    stage.happened("two responses to one request");
    if backend.ends().socket == SocketEnd::Open {
        return broken("the connection with a response too many was kept");
    }
    leaves_cleanly(client)
}

fn early(stage: &mut Stage) -> Result<(), CaseError> {
    const LENGTH: &[u8] = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n";
    let (mut client, mut backend) = open_request(stage, LENGTH)?;
    client.try_send(&HUNDRED)?;
    backend.expect(&HUNDRED)?;
    backend
        .try_send(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")?;
    backend.close();
    let response = http::response(&mut client)?.must_be(413)?;
    if response.field("connection").as_deref() != Some("close") {
        return broken("where the next request begins is unknown, and its connection was kept");
    }
    stage.happened("a response behind 100 bytes of a request of 1 MiB");
    stage.closed(1, "http-closed")?;
    client.ends().must_be_clean("the client")
}

/// A client whose backend's connection has served two requests: it is kept.
fn kept(stage: &Stage) -> Result<(Connection, Connection), CaseError> {
    let (mut client, mut backend) = open_request(stage, GET)?;
    answers(&mut client, &mut backend)?;
    client.try_send(GET)?;
    http::head(&mut backend)?;
    answers(&mut client, &mut backend)?;
    Ok((client, backend))
}

fn kept_closes(stage: &mut Stage) -> Result<(), CaseError> {
    let ends: [fn(Connection) -> Option<Connection>; 3] = [
        |mut backend| {
            backend.close();
            Some(backend)
        },
        |backend| {
            backend.reset();
            None
        },
        |mut backend| {
            let _ = backend.try_send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
            Some(backend)
        },
    ];
    for end in ends {
        let (mut client, backend) = kept(stage)?;
        let old = end(backend);
        stage.place.settle()?;
        let mut next = send_next_request(stage, &mut client, GET)?;
        answers(&mut client, &mut next)?;
        leaves_cleanly(client)?;
        if old.is_some_and(|mut old| old.ends().socket == SocketEnd::Open) {
            return broken("a connection that its backend has ended was kept");
        }
    }
    stage.happened("three ends of a kept connection, and a request behind each");
    no_failures(stage)
}

/// No request has failed.
fn no_failures(stage: &mut Stage) -> Result<(), CaseError> {
    let failed = stage.program()?.requests().iter().find(|request| request.get("reason").is_some());
    match failed.map(crate::program::reason) {
        Some(reason) => broken(format!("a request failed: {reason}")),
        None => Ok(()),
    }
}

fn kept_dies(stage: &mut Stage) -> Result<(), CaseError> {
    let (mut client, mut backend) = kept(stage)?;
    client.try_send(GET)?;
    http::head(&mut backend)?;
    stage.backend()?.behave(crate::backend::Manner::Requests);
    backend.close();
    let mut next = stage.backend()?.next()?;
    http::head(&mut next)?;
    answers(&mut client, &mut next)?;
    // The same with a request that must not be sent twice.
    client.try_send(POST)?;
    http::head(&mut next)?;
    next.expect(b"once")?;
    let accepted = stage.backend()?.accepted();
    next.close();
    http::response(&mut client)?.must_be(502)?;
    stage.backend()?.behave(crate::backend::Manner::Good);
    if stage.backend()?.accepted() != accepted {
        return broken("a POST was sent twice");
    }
    stage.happened("two requests were at the backend when it closed");
    stage.expect(&["relay/backend/closed-early"]);
    let (program, place) = stage.both()?;
    let retries = program.metric(place, "handfast_request_retries_total", "service=")?;
    if (retries - 1.0).abs() > 0.5 {
        return broken(format!("{retries} requests were sent again, not one"));
    }
    leaves_cleanly(client)
}
