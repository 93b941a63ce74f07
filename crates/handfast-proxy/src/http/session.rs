//! A client's connection in HTTP/1: requests, one after the other, until one side ends it.
//!
//! In: a leg after its handshake. Out: the leg, and why its connection ended, or the backend of a changed protocol.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use handfast_leg::Leg;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::{ConnectionFacts, HttpVersion, RequestRecord};
use handfast_tls::buffer::Scratch;
use handfast_tls::names::Names;

use crate::backends::pool::{self, Identity};
use crate::http::content::Io;
use crate::http::exchange::{self, Outcome, Tunnel};
use crate::http::fault::{Fault, at_rest};
use crate::http::h1_backend::Http1Backend;
use crate::http::h1_client::Http1Client;
use crate::http::h2_session;
use crate::http::request::{Refused, Request};
use crate::worker::context::{HttpBuffers, WorkerContext, WorkerPhase};
use crate::worker::http::ThreadHttp;
use crate::worker::services::{Chosen, ThreadService};
use crate::worker::waiting_client::check_phase;

/// Requests of one client before the others of its thread have their turn.
const BATCH: u32 = 16;

/// What all requests of a connection have in common.
#[derive(Clone, Debug)]
pub(crate) struct HttpConnection {
    pub(crate) thread: Rc<WorkerContext>,
    pub(crate) service: Rc<ThreadService>,
    pub(crate) http: Rc<ThreadHttp>,
    /// The route of requests that no other route takes.
    pub(crate) chosen: Chosen,
    pub(crate) facts: Rc<ConnectionFacts>,
    /// Whether the client is a proxy that names its own clients.
    pub(crate) is_trusted: bool,
    /// Of the certificate that the client has seen.
    pub(crate) names: Option<Arc<Names>>,
    /// Whether TLS has agreed on HTTP/2.
    pub(crate) is_http2: bool,
    /// The PROXY header for its backends, whose connections serve no other client then; empty: none.
    pub(crate) proxy_header: Vec<u8>,
    pub(crate) accepted: Moment,
    /// A backend's connection that only this client may use: it has authenticated there by NTLM or Negotiate, which is about the connection.
    pub(crate) tied: Rc<RefCell<Option<TiedConnection>>>,
    pub(crate) totals: Rc<Totals>,
    /// Wakes the present task, for libraries that wake by it.
    pub(crate) waker: Waker,
}

/// What the requests of a connection add up to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Those that have a line in the log.
    pub(crate) requests: Cell<u64>,
    /// Bytes of content that backends got.
    pub(crate) to_backends: Cell<u64>,
}

impl Totals {
    pub(crate) fn add(&self, record: &RequestRecord) {
        self.requests.set(self.requests.get() + 1);
        self.to_backends.set(self.to_backends.get() + record.bytes_from_client);
    }
}

/// What it is for, and the connection, whose type depends on the runtime.
pub(crate) type TiedConnection = (Identity, Box<dyn pool::Connection>);

/// The thread's buffers, lent until the next wait.
pub(crate) struct Lent<'a> {
    scratch: RefMut<'a, Scratch>,
    buffers: RefMut<'a, HttpBuffers>,
}

impl Lent<'_> {
    pub(crate) fn io<'a>(&'a mut self, waker: &'a Waker) -> Io<'a> {
        Io { scratch: &mut self.scratch, buffers: &mut self.buffers, waker }
    }
}

impl HttpConnection {
    pub(crate) fn lend(&self) -> Lent<'_> {
        let mut buffers = self.thread.buffers.borrow_mut();
        // What an exchange that failed had put there must not be sent on another connection.
        buffers.out.clear();
        Lent { scratch: self.thread.scratch.borrow_mut(), buffers }
    }

    /// **Errors**: the program is ending.
    pub(crate) fn check_phase(&self, step: Step) -> Result<(), CloseReason> {
        check_phase(&self.thread, step)
    }

    /// Whether no further request is served on its connection: the program stops, the service is gone, or the connection is too old.
    pub(crate) fn closes(&self, now: Moment) -> bool {
        let age = self.accepted.deadline(self.service.limits.lifetime);
        self.thread.phase() != WorkerPhase::Serving || !self.thread.has_service(&self.service) || now >= age
    }

    /// Whether connections to its backends may serve other clients.
    pub(crate) fn pools(&self) -> bool {
        self.proxy_header.is_empty() && self.http.model.pool.connections > 0
    }

    /// Keeps a backend's connection for the next request of this client alone.
    pub(crate) fn tie<S>(&self, identity: Identity, backend: Http1Backend<S>, requests: u32)
    where
        S: handfast_leg::Socket + std::fmt::Debug + 'static,
    {
        if let Some(connection) = backend.into_connection(requests, &self.service.metrics) {
            self.tied.replace(Some((identity, Box::new(connection))));
        }
    }

    /// The connection that was kept for this client, if it serves such a request and is still open.
    pub(crate) fn untie<T: 'static>(&self, identity: &Identity, scratch: &mut Scratch) -> Option<Box<T>> {
        let (known, mut connection) = self.tied.take()?;
        if !known.is_same_as(identity) || !connection.is_idle(scratch) {
            connection.close(scratch);
            return None;
        }
        connection.into_any().downcast().ok()
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.facts.tls_version.is_some() { "https" } else { "http" }
    }

    /// Why its connection is not for requests to this host (RFC 9110 §15.5.20). TLS was agreed for the name that the client asked for:
    /// another one may have another policy, or a certificate that this client has not seen.
    pub(crate) fn is_misdirected(&self, host: &[u8]) -> Option<String> {
        let name = self.facts.server_name.as_deref()?;
        let host = str::from_utf8(host).ok()?;
        if name.eq_ignore_ascii_case(host) {
            return None;
        }
        if !self.names.as_ref().is_some_and(|names| names.covers(host)) {
            return Some(format!("TLS is for {name}, and its certificate does not cover {host}"));
        }
        let same = self.service.is_served_alike(self.chosen, &host.to_ascii_lowercase());
        (!same).then(|| format!("TLS is for {name}, and {host} has other settings"))
    }
}

/// How a connection ended.
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
    let mut client = Http1Client::new(leg, first);
    if speaks_http2::<R>(connection, &mut client).await {
        let Http1Client { leg, incoming, .. } = client;
        let (leg, reason) = Box::pin(h2_session::serve::<R>(connection, leg, &incoming.input)).await;
        return (leg, Served::Ended(reason));
    }
    let served = requests::<R>(connection, &mut client).await;
    let served = match served {
        Ok(tunnel) => Served::Tunnel(tunnel, std::mem::take(&mut client.incoming.input)),
        Err(reason) => {
            if reason.cause == Cause::HttpClosed {
                // The client has everything; what breaks now says nothing.
                let records = &mut connection.thread.scratch.borrow_mut().records;
                let _ = client.leg.send_close(records, false);
            }
            Served::Ended(reason)
        }
    };
    (client.leg, served)
}

/// By ALPN where there is TLS; else by the first bytes, which are waited for (RFC 9113 §3.3).
async fn speaks_http2<R: Runtime>(connection: &HttpConnection, client: &mut Http1Client<R::Socket>) -> bool {
    if connection.facts.tls_version.is_some() {
        return connection.is_http2;
    }
    let deadline = R::now().deadline(connection.http.model.timeouts.head);
    loop {
        {
            let mut lent = connection.lend();
            let read = client.incoming.read_head(&mut client.leg, &mut lent.io(&connection.waker));
            let input = &client.incoming.input;
            let is_possible = input.iter().zip(PREFACE).all(|(one, other)| one == other);
            // What is wrong, or late, is for the reader of requests to find.
            let is_over = read.is_err() || client.leg.has_ended() || R::now() >= deadline;
            if is_over || !is_possible || input.len() >= PREFACE.len() {
                client.incoming.look_again();
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
        match Box::pin(exchange::run::<R>(connection, client, request)).await {
            Outcome::KeepOpen => {}
            Outcome::Close => return Err(closed("after a response that said so")),
            Outcome::Abort(reason) => return Err(reason),
            Outcome::Tunnel(tunnel) => return Ok(tunnel),
        }
        if count.is_multiple_of(BATCH) {
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
) -> Result<Request, Refused> {
    let timeouts = &connection.http.model.timeouts;
    let idle_since = R::now();
    loop {
        {
            let mut lent = connection.lend();
            let mut io = lent.io(&connection.waker);
            match client.read_request(connection, &mut io, R::now()) {
                Ok(Some(request)) => return Ok(request),
                Ok(None) => {}
                Err(refused) if refused.fault.status.is_none() && !client.is_in_a_head() => {
                    return Err(Fault::gone(at_rest(refused.fault.reason)).into());
                }
                Err(refused) => return Err(refused),
            }
        }
        let gone = |reason| Refused::from(Fault::gone(reason));
        if client.leg.has_ended() {
            let side = Side::Client;
            return Err(gone(if client.is_in_a_head() {
                CloseReason::new(Step::Hello, side, Cause::CLOSED_EARLY).because("in the head of a request")
            } else {
                CloseReason::new(Step::Relay, side, Cause::Finished)
            }));
        }
        if !client.is_in_a_head() && connection.closes(R::now()) {
            return Err(gone(closed("between two requests")));
        }
        let deadline = if client.is_in_a_head() {
            client.head_began.deadline(timeouts.head)
        } else {
            idle_since.deadline(timeouts.idle)
        };
        let woken = R::wait(deadline).await;
        connection.check_phase(Step::Hello).map_err(gone)?;
        if woken == Woken::Deadline && R::now() >= deadline {
            return Err(match client.is_in_a_head() {
                true => Fault::new(Step::Hello, Side::Client, Cause::RequestDeadline, 408).into(),
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
    let reason = &refused.fault.reason;
    let why = reason.detail.clone().unwrap_or_else(|| reason.cause.name().into());
    match exchange::refuse::<R>(connection, client, refused, HttpVersion::Http11).await {
        Outcome::Abort(reason) => reason,
        // The answer is the end of the connection, cleanly.
        _ => CloseReason::new(Step::Close, Side::Client, Cause::HttpClosed).because(why),
    }
}
