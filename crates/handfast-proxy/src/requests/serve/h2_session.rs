//! A client's connection in HTTP/2: a task for each request, until one side ends it.
//!
//! In: a leg after its handshake. Out: the leg, and why its connection ended. Frames, windows and the bounds for what a client may do are in
//! `handfast-http` (`http2/connection.rs`, `http2/guard.rs`).

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use handfast_http::http1::Framing;
use handfast_http::http2::connection::{STREAM_WINDOW, Settings};
use handfast_http::http2::frame::ErrorCode;
use handfast_http::http2::{Connection, HeadFault, HeadText, NewStream, Role};
use handfast_leg::Leg;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::HttpVersion;

use crate::requests::client::Client;
use crate::requests::client::h2_client::Http2Client;
use crate::requests::decide::connection::{GOODBYE, HttpConnection};
use crate::requests::decide::request::{Refused, Request, note_refused};
use crate::requests::head::content::{Discard, Sink, Source};
use crate::requests::head::fault::{Fault, at_rest};
use crate::requests::head::h2_link::{Http2Link, millis};
use crate::requests::head::websocket;
use crate::requests::relay::Outcome;
use crate::requests::serve::serve_request;

/// After this time the client is asked to make a new connection. The number of requests has no bound: load testers take the end of a
/// connection for a failure, and a request leaves nothing behind.
const AGE: Duration = Duration::from_secs(3600);
/// Time and bytes for which a request is still read after its response, as for a connection of HTTP/1 that ends.
const DRAIN: Duration = Duration::from_secs(5);
const DRAIN_BYTES: u64 = 2_097_152;

/// Serves a client's requests; `first` came with the handshake.
pub(crate) async fn serve<R: Runtime>(
    connection: &HttpConnection,
    mut leg: Leg<R::Socket>,
    first: &[u8],
) -> (Leg<R::Socket>, CloseReason)
where
    R::Socket: 'static,
{
    let http = &connection.http.model;
    let settings = Settings {
        role: Role::Server,
        streams: http.streams,
        window: STREAM_WINDOW,
        budget: http.http2_window,
        head: http.head,
    };
    let link = Http2Link::new::<R>(settings, Side::Client);
    let connection = &Rc::new(connection.clone());
    let session = Session { connection, link: &link, is_reused: Cell::new(false) };
    let reason = session.run::<R>(&mut leg, first).await;
    let is_at_rest = link.inspect(|h2| h2.open_streams() == 0);
    let reason = match reason.cause {
        Cause::Socket(_) | Cause::Truncated if is_at_rest => at_rest(reason),
        _ => reason,
    };
    link.lose(reason.clone());
    if matches!(reason.cause, Cause::HttpClosed | Cause::Finished | Cause::Http2) {
        let mut lent = connection.lend();
        let mut io = lent.io();
        // Each stream has a separate end, so this is none of theirs; a failure now has no meaning.
        let _ = link.send(&mut leg, &mut io);
        let _ = leg.send_close(&mut io.scratch.records, false);
    }
    (leg, reason)
}

/// A connection, as its task sees it.
struct Session<'a> {
    connection: &'a Rc<HttpConnection>,
    link: &'a Rc<Http2Link>,
    /// True after the first request.
    is_reused: Cell<bool>,
}

/// Progress of a connection without requests.
struct Idle {
    began: Moment,
    /// Since when no request is open.
    since: Moment,
    says_goodbye: bool,
}

impl Session<'_> {
    async fn run<R: Runtime>(&self, leg: &mut Leg<R::Socket>, first: &[u8]) -> CloseReason
    where
        R::Socket: 'static,
    {
        let now = R::now();
        let mut idle = Idle { began: now, since: now, says_goodbye: false };
        if let Err(reason) = self.take::<R>(first, now) {
            return reason;
        }
        loop {
            match self.move_frames::<R>(leg) {
                Err(reason) => return reason,
                Ok(true) => {
                    R::yield_now().await;
                    continue;
                }
                Ok(false) => {}
            }
            let deadline = match self.judge(&mut idle, R::now()) {
                Ok(Some(deadline)) => deadline,
                // Something is to be sent.
                Ok(None) => continue,
                Err(reason) => return reason,
            };
            R::wait(deadline).await;
            let step = if self.has_begun() { Step::Relay } else { Step::Hello };
            if let Err(reason) = self.connection.check_phase(step) {
                return reason;
            }
        }
    }

    /// Returns true once the client's settings have come.
    fn has_begun(&self) -> bool {
        self.link.inspect(Connection::has_begun)
    }

    /// Handles bytes that came with the handshake.
    fn take<R: Runtime>(&self, first: &[u8], now: Moment) -> Result<(), CloseReason>
    where
        R::Socket: 'static,
    {
        let mut head = std::mem::take(&mut self.connection.thread.buffers.borrow_mut().head);
        let taken = self.link.take(first, &mut head, now, |new, head| self.accept::<R>(new, head));
        self.connection.thread.buffers.borrow_mut().head = head;
        taken
    }

    /// See [`Http2Link::move_frames`].
    fn move_frames<R: Runtime>(&self, leg: &mut Leg<R::Socket>) -> Result<bool, CloseReason>
    where
        R::Socket: 'static,
    {
        let mut lent = self.connection.lend();
        self.link.move_frames(leg, &mut lent.io(), R::turn(), |new, head| self.accept::<R>(new, head))
    }

    /// Decides what a connection waits for, and until when; `None`: nothing, because something is to be sent.
    ///
    /// **Errors**: the connection ends.
    fn judge(&self, idle: &mut Idle, now: Moment) -> Result<Option<Moment>, CloseReason> {
        let timeouts = &self.connection.http.model.timeouts;
        let (is_open, is_over) = self.link.inspect(|h2| (h2.open_streams() > 0, h2.is_over()));
        if is_over {
            return Err(match idle.says_goodbye {
                true => CloseReason::new(Step::Close, Side::Operator, Cause::HttpClosed),
                false => CloseReason::new(Step::Relay, Side::Client, Cause::Finished),
            });
        }
        if !self.has_begun() {
            let deadline = idle.began.deadline(timeouts.head);
            return match now >= deadline {
                true => Err(CloseReason::new(Step::Hello, Side::Client, Cause::RequestDeadline)),
                false => Ok(Some(deadline)),
            };
        }
        if is_open {
            idle.since = now;
        }
        let end = idle.since + if idle.says_goodbye { GOODBYE } else { timeouts.idle };
        let is_old = now >= idle.began + AGE || self.connection.closes(now);
        if !idle.says_goodbye && (is_old || (!is_open && now >= end)) {
            // Two GOAWAYs (RFC 9113 §6.8): the second one comes when the client has seen the first.
            idle.says_goodbye = true;
            idle.since = now;
            self.link.with(Connection::begin_goodbye);
            return Ok(None);
        }
        if idle.says_goodbye && !is_open && now >= end {
            // The last stream that was served, for a client that has not answered the first GOAWAY.
            self.link.with(Connection::end_goodbye);
            return Err(CloseReason::new(Step::Close, Side::Operator, Cause::HttpClosed)
                .because("the client did not end it"));
        }
        let too_old = if idle.says_goodbye { Moment::NEVER } else { idle.began + AGE };
        let deadline = if is_open { now + timeouts.idle } else { end };
        Ok(Some(deadline.min(too_old)))
    }

    /// Starts the task of a request.
    fn accept<R: Runtime>(&self, new: NewStream, head: &mut HeadText)
    where
        R::Socket: 'static,
    {
        if self.is_reused.replace(true) {
            self.connection.service.metrics.client_connection_reused();
        }
        let request = match self.read_head(new, head) {
            Ok(request) => request,
            Err(HeadFault::Malformed(detail)) => return self.refuse_malformed::<R>(new, detail),
            Err(HeadFault::Refused(error)) => Err(Fault::message(Step::Hello, &error).into()),
        };
        let mut client = Http2Client::new(self.link, new.key, new.has_ended);
        if let Ok(request) = &request {
            client.limit(request.body_limit);
        }
        // The function itself, since a block around it would keep room for all of this twice.
        R::spawn_late(serve_stream::<R>(Rc::clone(self.connection), client, request));
    }

    /// The request of a head; `Ok(Err(…))`: it is answered without a backend.
    fn read_head(
        &self,
        new: NewStream,
        head: &mut HeadText,
    ) -> Result<Result<Box<Request>, Refused>, HeadFault> {
        let key = if head.is_websocket() { websocket::websocket_key() } else { None };
        if head.is_websocket() && key.is_none() {
            let reason = CloseReason::new(Step::Hello, Side::Local, Cause::Internal);
            return Ok(Err(Fault::of(reason.because("no random numbers")).into()));
        }
        let head = head.request(!new.has_ended, key.as_deref())?;
        if let Framing::Length(length) = head.framing {
            self.link.with(|h2| h2.expect_content(new.key, length));
        }
        Ok(Request::new(&head, self.connection, HttpVersion::Http2, Duration::ZERO))
    }

    /// A stream whose head is malformed is reset (RFC 9113 §8.1.1).
    fn refuse_malformed<R: Runtime>(&self, new: NewStream, detail: &'static str) {
        let fault =
            Fault::gone(CloseReason::new(Step::Hello, Side::Client, Cause::HttpRequest)).because(detail);
        note_refused(self.connection, &fault, (HttpVersion::Http2, Duration::ZERO), (0, Duration::ZERO));
        // Where it is one too many, the next read returns the reason.
        self.link.with(|h2| h2.refuse_malformed(new.key, detail, millis(R::turn())));
    }
}

/// Detail of the log where NTLM and Negotiate go on over HTTP/1.1: a client that receives this error tries that (RFC 9113 §7).
const SHARED: &str =
    "NTLM and Negotiate authenticate a connection, which requests of HTTP/2 share (HTTP_1_1_REQUIRED)";

async fn serve_stream<R: Runtime>(
    connection: Rc<HttpConnection>,
    mut client: Http2Client,
    request: Result<Box<Request>, Refused>,
) where
    R::Socket: 'static,
{
    let connection = &*connection;
    client.adopt::<R>();
    let outcome = match request {
        // It was reset, or its connection ended, in the turn in which it came: nothing is begun for it.
        Ok(mut request) if let Err(gone) = client.check() => {
            return request.end(Some(gone.reason), R::now);
        }
        Ok(mut request) if request.is_about_the_connection => {
            let reason = CloseReason::new(Step::Hello, Side::Client, Cause::HttpRequest).because(SHARED);
            request.end(Some(reason), R::now);
            return client.reset(ErrorCode::HTTP_1_1_REQUIRED);
        }
        Ok(request) => serve_request::serve::<R>(connection, &mut client, request).await,
        Err(refused) => {
            // Heads are handled when they are whole.
            let head = (HttpVersion::Http2, Duration::ZERO);
            serve_request::refuse::<R>(connection, &mut client, refused, head).await
        }
    };
    drain::<R>(connection, &mut client).await;
    if let Outcome::Abort(reason) = outcome {
        // Never END_STREAM: the response is not whole.
        client.reset(if reason.side == Side::Operator {
            ErrorCode::CANCEL
        } else {
            ErrorCode::INTERNAL_ERROR
        });
    }
}

/// Gives a client that still sends its request time to see the response: some take a reset that comes with it for a failure, although
/// its code is NO_ERROR (RFC 9113 §8.1), and some wait for a window before they look at it. Data that arrives meanwhile is dropped.
async fn drain<R: Runtime>(connection: &HttpConnection, client: &mut Http2Client) {
    let deadline = R::now() + DRAIN;
    let mut dropped = Discard::default();
    client.limit(None);
    while client.is_done() && !client.has_ended() {
        if dropped.bytes < DRAIN_BYTES {
            let mut lent = connection.lend();
            match client.pump(&mut dropped, &mut lent.io()) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(_) => return,
            }
        } else {
            return;
        }
        let is_late = R::wait(deadline).await == Woken::Deadline;
        if is_late || client.check().is_err() || connection.check_phase(Step::Close).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
