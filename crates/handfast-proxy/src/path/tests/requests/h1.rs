//! Clients and backends that speak HTTP/1.

use std::rc::Rc;
use std::time::Duration;

use handfast_leg::memory::Memory;

use super::plan::{BackendFault, Fate, Framing, Outcome, Play, TRAILER};
use super::wire::{Body, Peer, ReadError, chunked, field, framing};

/// Longer than every timeout of the proxy.
const PEER_TIMEOUT: Duration = Duration::from_secs(10_000);

/// A client: its requests one after the other, or all at once.
pub(super) async fn client(play: Rc<Play>, socket: Memory, ids: Vec<usize>) {
    let mut peer = Peer::new(socket);
    let mut rest = ids.as_slice();
    let plans = &play.plans;
    let pipelines = play.pipelines && ids.iter().all(|id| !plans[*id].expects && plans[*id].leaves.is_none());
    if pipelines {
        ids.iter().for_each(|id| queue(&play, &mut peer, *id));
    }
    let mut goes_on = true;
    while let [id, others @ ..] = rest
        && goes_on
    {
        if !pipelines {
            play.mark_begun(*id);
            queue(&play, &mut peer, *id);
        }
        if plans[*id].leaves.is_some() {
            peer.flush().await;
            rest.iter().for_each(|id| play.ended(*id, Outcome::Unsent));
            return;
        }
        rest = others;
        if others.is_empty() && play.half_closes && !plans[*id].expects {
            peer.flush().await;
            peer.end_writing();
        }
        let outcome;
        (outcome, goes_on) = response(&play, &mut peer, *id).await;
        play.ended(*id, outcome);
    }
    rest.iter().for_each(|id| play.ended(*id, Outcome::Unsent));
    if !goes_on {
        return;
    }
    assert!(peer.input.is_empty(), "bytes behind the last response");
    peer.finish();
}

/// Queues a request, or what its client sends of it before it waits or leaves.
fn queue(play: &Play, peer: &mut Peer, id: usize) {
    let plan = &play.plans[id];
    let version = if plan.is_http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head = format!("{} {} {version}\r\nHost: a.example\r\n", plan.method, play.path(id));
    let is_chunked = plan.is_chunked && !plan.is_http10;
    if matches!(plan.method, "POST" | "PUT") {
        match is_chunked {
            true => head.push_str("Transfer-Encoding: chunked\r\n"),
            false => head.push_str(&format!("Content-Length: {}\r\n", plan.upload)),
        }
    }
    if plan.expects {
        head.push_str("Expect: 100-continue\r\n");
    }
    head.push_str("\r\n");
    let from = peer.out.len();
    peer.out.extend_from_slice(head.as_bytes());
    if !plan.expects {
        queue_content(play, peer, id);
    }
    if let Some(at) = plan.leaves {
        let whole = peer.out.len() - from;
        // Never all of it.
        peer.out.truncate(from + (head.len() + at).min(whole - 1));
    }
}

fn queue_content(play: &Play, peer: &mut Peer, id: usize) {
    let plan = &play.plans[id];
    if !matches!(plan.method, "POST" | "PUT") {
        return;
    }
    let content = play.content(id, false, plan.upload);
    match plan.is_chunked && !plan.is_http10 {
        true => peer.out.extend(chunked(&content, &format!("{TRAILER}: {}\r\n", play.trailer(id, false)))),
        false => peer.out.extend(content),
    }
}

/// Reads a response; returns it, and true if the connection can go on.
async fn response(play: &Play, peer: &mut Peer, id: usize) -> (Outcome, bool) {
    let plan = &play.plans[id];
    let mut waits = plan.expects;
    let head = loop {
        let timeout = if waits { Duration::from_secs(2) } else { PEER_TIMEOUT };
        let head = match peer.head(timeout).await {
            Err(ReadError::Late) if waits => {
                waits = false;
                queue_content(play, peer, id);
                continue;
            }
            Err(lost) => {
                assert_ne!(lost, ReadError::Late, "request {id} is never answered");
                let is_clean = lost == ReadError::End && !peer.input.is_empty();
                assert!(
                    !is_clean || matches!(play.fate, Fate::Forged(_)),
                    "a clean end in the head of response {id}"
                );
                return (Outcome::Aborted, false);
            }
            Ok(head) => head,
        };
        let status: u16 = head[9..12].parse().expect("a status");
        if status >= 200 {
            break head;
        }
        assert!(!plan.is_http10, "an interim response is not for HTTP/1.0");
        if status == 100 && std::mem::take(&mut waits) {
            queue_content(play, peer, id);
        }
    };
    let status: u16 = head[9..12].parse().expect("a status");
    let is_own = field(&head, "x-id").is_none();
    match field(&head, "x-id") {
        Some(found) => assert_eq!(found, id.to_string(), "the response of another request"),
        None => assert!(status >= 400 && framing(&head).is_some(), "an error of the proxy: {head}"),
    }
    let has_none = plan.method == "HEAD" || matches!(status, 204 | 304);
    let body = if has_none { Body::Length(0) } else { framing(&head).unwrap_or(Body::UntilClose) };
    let take = |at: usize, bytes: &[u8]| {
        if !is_own {
            play.check(id, true, at, bytes)
        }
    };
    let (length, read) = peer.body(body, take).await;
    let is_forged = matches!(play.fate, Fate::Forged(_));
    if let Err(lost) = read {
        assert_ne!(lost, ReadError::Late, "response {id} never ends");
        assert!(lost == ReadError::Broken || is_forged, "a clean end of a part of response {id}");
        return (Outcome::Aborted, false);
    }
    let closes = field(&head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let goes_on = !closes && body != Body::UntilClose && !waits;
    let is_short = !is_own && length != plan.content();
    assert!(
        !is_short || is_forged && body == Body::UntilClose,
        "{length} bytes of response {id} are whole: {plan:?}"
    );
    if is_own {
        return (Outcome::Own(status, length), goes_on);
    }
    // HTTP/1.0 has none.
    let trailer = play.download_trailer(id).filter(|_| !plan.is_http10);
    assert_eq!(peer.trailer.take(), trailer, "the trailer of response {id}: {plan:?}");
    (Outcome::Whole, goes_on)
}

/// A backend's connection, until it closes it or the proxy does.
pub(super) async fn backend(play: Rc<Play>, socket: Memory) {
    let mut peer = Peer::new(socket);
    let (mut served, mut is_dirty) = (0, false);
    loop {
        let Ok(head) = peer.head(PEER_TIMEOUT).await else { return peer.finish() };
        let id = play.id(head.split(' ').nth(1).expect("a path"));
        let plan = &play.plans[id];
        let attempt = play.saw(id, is_dirty);
        match plan.fault {
            BackendFault::ClosesKept if served > 0 && attempt == 1 => return peer.finish(),
            BackendFault::AlwaysCloses => return peer.finish(),
            BackendFault::BadHead => {
                peer.out.extend_from_slice(b"HTTP/1.1 2x0 bad\r\n\r\n");
                peer.flush().await;
                return peer.finish();
            }
            BackendFault::Silent => {
                while peer.fill(PEER_TIMEOUT).await.is_ok() {}
                return;
            }
            _ => {}
        }
        served += 1;
        if field(&head, "expect").is_some() {
            peer.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if plan.is_early {
            answer(&play, &mut peer, id);
            peer.flush().await;
        }
        let body = framing(&head).unwrap_or(Body::Length(0));
        let (length, read) = peer.body(body, |at, bytes| play.check(id, false, at, bytes)).await;
        if read.is_err() {
            return;
        }
        play.uploaded(id, (length, peer.trailer.take()));
        if !plan.is_early {
            answer(&play, &mut peer, id);
            peer.flush().await;
        }
        match plan.fault {
            BackendFault::Reset(_) => return,
            BackendFault::End(_) | BackendFault::ClosesAfter => return peer.finish(),
            BackendFault::Garbage => is_dirty = true,
            _ => {}
        }
        if plan.framing == Framing::UntilClose && !plan.has_no_content() {
            return peer.finish();
        }
    }
}

/// Queues a response, or its part.
fn answer(play: &Play, peer: &mut Peer, id: usize) {
    let plan = &play.plans[id];
    for _ in 0..plan.interim {
        peer.out.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n");
    }
    let mut head = format!("HTTP/1.1 {} Fine\r\nX-Id: {id}\r\n", plan.status);
    let has_length = !matches!(plan.status, 204 | 304);
    match plan.framing {
        Framing::Length if has_length => head.push_str(&format!("Content-Length: {}\r\n", plan.download)),
        Framing::Chunked if has_length => head.push_str("Transfer-Encoding: chunked\r\n"),
        _ => {}
    }
    head.push_str("\r\n");
    peer.out.extend_from_slice(head.as_bytes());
    let mut content = play.content(id, true, plan.content());
    if plan.framing == Framing::Chunked && !plan.has_no_content() {
        content = chunked(&content, &format!("{TRAILER}: {}\r\n", play.trailer(id, true)));
    }
    if let BackendFault::Reset(at) | BackendFault::End(at) = plan.fault {
        content.truncate(at);
    }
    peer.out.extend(content);
    if plan.fault == BackendFault::Garbage && (plan.framing != Framing::UntilClose || plan.has_no_content()) {
        peer.out.extend_from_slice(b"garbage\r\n\r\n");
    }
}
