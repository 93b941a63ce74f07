//! A client's connection in HTTP/1: requests, one after the other, until one side ends it.
//!
//! In: a leg after its handshake. Out: the leg, and why its connection ended, or the backend of a changed protocol.

use std::time::Duration;

use handfast_leg::runtime::Runtime;
use handfast_leg::{Leg, READ};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::HttpVersion;

use crate::requests::backend::h1_backend::Tunnel;
use crate::requests::client::h1_client::{HeadRead, Http1Client};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::request::{Refused, Request};
use crate::requests::head::fault::{Fault, at_rest};
use crate::requests::relay::Outcome;
use crate::requests::serve::h2_session;
use crate::requests::serve::serve_request;

/// Requests of one client before the others of its thread have their turn.
pub(super) const MAX_REQUESTS_PER_TURN: u32 = 16;

/// End of a connection.
pub(crate) enum Served<S: handfast_leg::Socket> {
    Ended(CloseReason),
    /// Bytes are relayed from here on; `first` are those of the client.
    Tunnel(Tunnel<S>, Vec<u8>),
}

/// Serves a client's requests; `first` came with the handshake.
pub(crate) async fn serve<R: Runtime>(
    connection: &HttpConnection,
    leg: Leg<R::Socket>,
    first: Vec<u8>,
) -> (Leg<R::Socket>, Served<R::Socket>)
where
    R::Socket: 'static,
{
    let mut client = Http1Client::new(leg, first, connection.http.model.half_close);
    if detect_http2::<R>(connection, &mut client).await {
        let Http1Client { leg, incoming, .. } = client;
        let (leg, reason) = Box::pin(h2_session::serve::<R>(connection, leg, &incoming.input)).await;
        return (leg, Served::Ended(reason));
    }
    let served = requests::<R>(connection, &mut client).await;
    let served = match served {
        Ok(tunnel) => Served::Tunnel(tunnel, std::mem::take(&mut client.incoming.input)),
        Err(reason) => {
            let _ = client.send_held();
            if matches!(reason.cause, Cause::HttpClosed | Cause::Finished) {
                // The client has everything; a failure now has no meaning.
                let records = &mut connection.thread.scratch.borrow_mut().records;
                let _ = client.leg.send_close(records, false);
            }
            Served::Ended(reason)
        }
    };
    (client.leg, served)
}

/// By ALPN where there is TLS; else by the first bytes, which are waited for (RFC 9113 §3.3).
async fn detect_http2<R: Runtime>(connection: &HttpConnection, client: &mut Http1Client<R::Socket>) -> bool {
    if connection.facts.tls_version.is_some() {
        return connection.is_http2;
    }
    let deadline = R::now().deadline(connection.http.model.timeouts.head);
    loop {
        {
            let mut lent = connection.lend();
            let read = client.incoming.read_head(&mut client.leg, READ, &mut lent.io());
            let input = &client.incoming.input;
            let is_possible = input.iter().zip(PREFACE).all(|(one, other)| one == other);
            // The reader of requests reports errors and timeouts.
            let is_over = read.is_err() || client.leg.has_ended() || R::now() >= deadline;
            if is_over || !is_possible || input.len() >= PREFACE.len() {
                client.incoming.mark_unparsed();
                return is_possible && client.incoming.input.len() >= PREFACE.len();
            }
            // The socket reports what comes after a read that found nothing.
            if matches!(read, Ok(true)) {
                continue;
            }
        }
        R::wait(deadline).await;
        if connection.check_phase(Step::Hello).is_err() {
            return false;
        }
    }
}

/// The beginning of HTTP/2's preface, which no request of HTTP/1 has.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Until the protocol changes, or the connection ends for the reason returned.
async fn requests<R: Runtime>(
    connection: &HttpConnection,
    client: &mut Http1Client<R::Socket>,
) -> Result<Tunnel<R::Socket>, CloseReason>
where
    R::Socket: 'static,
{
    let mut count: u32 = 0;
    loop {
        let request = match next::<R>(connection, client).await {
            Ok(request) => request,
            Err(refused) => return Err(Box::pin(refuse::<R>(connection, client, refused)).await),
        };
        if count > 0 {
            connection.service.metrics.client_connection_reused();
        }
        count = count.wrapping_add(1);
        // Boxed, so that a connection keeps no place for it between two requests.
        match Box::pin(serve_request::serve::<R>(connection, client, request)).await {
            Outcome::KeepOpen => {}
            // Nothing is handed over that a client waits for.
            Outcome::Close | Outcome::Elsewhere(_) => {
                return Err(closed("after the response that announced it"));
            }
            Outcome::Abort(reason) => return Err(reason),
            Outcome::Tunnel(tunnel) => return Ok(tunnel),
        }
        if count.is_multiple_of(MAX_REQUESTS_PER_TURN) {
            R::yield_now().await;
        }
    }
}

fn closed(why: &str) -> CloseReason {
    CloseReason::new(Step::Close, Side::Operator, Cause::HttpClosed).because(why)
}

/// Waits for the next request.
///
/// **Errors**: the end of the connection, or a request that is refused; with the request, if its head was accepted.
async fn next<R: Runtime>(
    connection: &HttpConnection,
    client: &mut Http1Client<R::Socket>,
) -> Result<Box<Request>, Refused> {
    let timeouts = &connection.http.model.timeouts;
    let idle_since = R::turn();
    let mut closes_at = Moment::NEVER;
    let mut rounds: u32 = 0;
    loop {
        let has_more = {
            let mut lent = connection.lend();
            let mut io = lent.io();
            match client.read_request(connection, &mut io, R::turn()) {
                Ok(HeadRead::Whole(request)) => return Ok(request),
                Ok(HeadRead::Part) => !client.leg.has_ended(),
                Ok(HeadRead::Nothing) => false,
                Err(refused) if refused.fault.status.is_none() && !client.is_in_a_head() => {
                    return Err(Fault::gone(at_rest(refused.fault.reason)).into());
                }
                Err(refused) => return Err(refused),
            }
        };
        let gone = |reason| Refused::from(Fault::gone(reason));
        if client.leg.has_ended() {
            let side = Side::Client;
            return Err(gone(if client.is_in_a_head() {
                CloseReason::new(Step::Hello, side, Cause::CLOSED_EARLY).because("in the head of a request")
            } else {
                CloseReason::new(Step::Relay, side, Cause::Finished)
            }));
        }
        if closes_at == Moment::NEVER && connection.closes(R::turn()) {
            closes_at = R::turn() + connection.idle_grace();
        }
        let deadline = if client.is_in_a_head() {
            client.head_began.deadline(timeouts.head)
        } else {
            idle_since.deadline(timeouts.idle).min(closes_at)
        };
        // A client can send parts, and records without content, faster than they are read: others have their turn, and the time passes.
        rounds = if has_more { rounds.wrapping_add(1) } else { 0 };
        let mut is_late = R::turn() >= deadline;
        if has_more && rounds.is_multiple_of(MAX_REQUESTS_PER_TURN) {
            R::yield_now().await;
        } else if !has_more {
            let sent = client.send_held();
            sent.map_err(|broken| Refused::from(Fault::leg(Step::Relay, &broken)))?;
            is_late = R::wait(deadline).await == Woken::Deadline && R::turn() >= deadline;
        }
        connection.check_phase(Step::Hello).map_err(gone)?;
        if is_late {
            return Err(match client.is_in_a_head() {
                true => Fault::new(Step::Hello, Side::Client, Cause::RequestDeadline, 408).into(),
                false if R::turn() >= closes_at => gone(closed("between two requests")),
                false => gone(closed("idle without a request")),
            });
        }
    }
}

/// Refuses a request, which is the last one: where it ends is unknown.
async fn refuse<R: Runtime>(
    connection: &HttpConnection,
    client: &mut Http1Client<R::Socket>,
    refused: Refused,
) -> CloseReason
where
    R::Socket: 'static,
{
    let hello = if client.is_in_a_head() { R::turn().since(client.head_began) } else { Duration::ZERO };
    let reason = &refused.fault.reason;
    let why = reason.detail.clone().unwrap_or_else(|| reason.cause.name().into());
    match serve_request::refuse::<R>(connection, client, refused, (HttpVersion::Http11, hello)).await {
        Outcome::Abort(reason) => reason,
        // The answer is the end of the connection, cleanly.
        _ => CloseReason::new(Step::Close, Side::Client, Cause::HttpClosed).because(why),
    }
}

#[cfg(test)]
mod tests;
