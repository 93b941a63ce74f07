//! A client's connection in HTTP/2: a task for each request, until one side ends it.
//!
//! In: a leg after its handshake. Out: the leg, and why its connection ended. The `h2` crate frames and counts windows; its limits are set
//! here, one by one.
//!
//! | attack | bound |
//! |---|---|
//! | streams at once (RFC 9113 §5.1.2) | `max-streams` |
//! | rapid reset (CVE-2023-44487) | 20 resets of streams that were not accepted yet; [`MAX_RESETS`] of others in [`RESET_WINDOW`] |
//! | resets that the client provokes (CVE-2025-8671) | [`LOCAL_RESETS`] for a connection |
//! | header lists (CVE-2026-49975), CONTINUATION floods | twice `max-head`, and `max-head` for what is left of them |
//! | responses that are not read | `h2_queue.rs`: a bound for the content of all streams |
//! | windows that stay closed | `content-timeout`, and the least rate of `exchange.rs` |
//! | tiny DATA frames | the connection's window: more honest ones cannot be on their way |

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use handfast_hyper::SharedPipe;
use handfast_leg::runtime::Runtime;
use handfast_leg::{Leg, Pipe};
use handfast_net::clock::Moment;
use handfast_net::engine::{TaskHandle, Woken};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::HttpVersion;
use handfast_http::http1::{HeadProgress, parse_request};
use http::Request as Head;

use crate::requests::client::Client;
use crate::requests::client::h2_client::Http2Client;
use crate::requests::decide::connection::{GOODBYE, HttpConnection};
use crate::requests::decide::request::{Refused, Request};
use crate::requests::head::content::{Discard, Sink, Source};
use crate::requests::head::fault::{Fault, at_rest};
use crate::requests::head::h2_heads;
use crate::requests::head::h2_queue::Queue;
use crate::requests::head::h2_stream::StreamIn;
use crate::requests::head::task::waker;
use crate::requests::relay::Outcome;
use crate::requests::serve::serve_request;
use crate::requests::serve::session::MAX_REQUESTS_PER_TURN;

/// Windows: of a stream (h2 0.4 stalls with a smaller one), and of the connection.
const STREAM_WINDOW: u32 = 65_535;
const CONNECTION_WINDOW: u32 = 1_048_576;
/// Most bytes that are kept for a stream whose window is closed.
const SEND_BUFFER: usize = 65_536;
/// The crate answers a larger list itself, without a word to us, and ends the connection for four times its limit. So its limit is above
/// ours: `max-head` and `max-fields` refuse what is between them, with a line in the log.
const HEAD_LISTS: usize = 2;
const LOCAL_RESETS: usize = 128;
/// Requests of one connection that its client may take back in this time.
const MAX_RESETS: u32 = 100;
const RESET_WINDOW: Duration = Duration::from_secs(10);
/// After this time the client is asked to make a new connection. The number of requests has no bound: load testers take the end of a
/// connection for a failure, and a request leaves nothing behind.
const AGE: Duration = Duration::from_secs(3600);

/// Time and bytes for which a request is still read after its response.
const DRAIN: Duration = Duration::from_secs(1);
const DRAIN_BYTES: u64 = 65_536;

/// Reports of the tasks of streams to their connection.
#[derive(Debug)]
struct Streams {
    open: Cell<usize>,
    /// Of the present window, and when it began.
    resets: Cell<u32>,
    since: Cell<Moment>,
    /// Content of responses that waits to be sent.
    queue: Rc<Queue>,
    task: TaskHandle,
}

/// An open stream.
struct Open<R: Runtime>(Rc<Streams>, std::marker::PhantomData<R>);

impl<R: Runtime> Open<R> {
    fn new(streams: &Rc<Streams>) -> Self {
        streams.open.set(streams.open.get() + 1);
        Self(Rc::clone(streams), std::marker::PhantomData)
    }
}

impl<R: Runtime> Drop for Open<R> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        R::wake(self.0.task);
    }
}

/// Serves a client's requests; `first` came with the handshake.
pub(crate) async fn serve<R: Runtime>(
    connection: &HttpConnection,
    leg: Leg<R::Socket>,
    first: &[u8],
) -> (Leg<R::Socket>, CloseReason)
where
    R::Socket: 'static,
{
    let pipe = Rc::new(RefCell::new(Pipe::new(leg, Rc::clone(&connection.thread.scratch), first)));
    let streams = Rc::new(Streams {
        open: Cell::new(0),
        resets: Cell::new(0),
        since: Cell::new(R::now()),
        queue: Rc::default(),
        task: R::task(),
    });
    let reason = run::<R>(connection, &pipe, &streams).await;
    let is_at_rest = streams.open.get() == 0;
    let pipe = Rc::into_inner(pipe).expect("the h2 connection, which is gone, had the other share");
    let broken = pipe.borrow().broken().map(|broken| CloseReason::broken(Step::Relay, broken));
    let mut leg = pipe.into_inner().into_leg();
    let reason = match broken {
        Some(broken) if reason.cause != Cause::Http2 && is_at_rest => at_rest(broken),
        Some(broken) if reason.cause != Cause::Http2 => broken,
        _ => reason,
    };
    if matches!(reason.cause, Cause::HttpClosed | Cause::Finished | Cause::Http2) {
        // Each stream has a separate end, so this is none of theirs; a failure now has no meaning.
        let _ = leg.send_close(&mut connection.thread.scratch.borrow_mut().records, false);
    }
    (leg, reason)
}

type Shared<R> = Rc<RefCell<Pipe<<R as Runtime>::Socket>>>;

async fn run<R: Runtime>(connection: &HttpConnection, pipe: &Shared<R>, streams: &Rc<Streams>) -> CloseReason
where
    R::Socket: 'static,
{
    let mut shaking = Box::pin(builder(connection).handshake::<_, Bytes>(SharedPipe::new(pipe)));
    let deadline = R::now() + connection.http.model.timeouts.head;
    let mut context = Context::from_waker(&connection.waker);
    let mut h2 = loop {
        match shaking.as_mut().poll(&mut context) {
            Poll::Ready(Ok(h2)) => break h2,
            Poll::Ready(Err(error)) => return ended(&error),
            Poll::Pending => {}
        }
        if let Err(reason) = wait::<R>(connection, deadline, Cause::RequestDeadline).await {
            return reason;
        }
    };
    drop(shaking);
    requests::<R>(connection, &mut h2, streams).await
}

fn builder(connection: &HttpConnection) -> server::Builder {
    let http = &connection.http.model;
    let mut builder = server::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(16_384)
        .max_concurrent_streams(http.streams)
        .max_header_list_size(u32::try_from(http.head.head * HEAD_LISTS).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(20)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(Some(LOCAL_RESETS))
        .data_frame_budget(CONNECTION_WINDOW as usize)
        .enable_connect_protocol();
    builder
}

type Connection<R> =
    server::Connection<SharedPipe<<R as Runtime>::Socket, Box<dyn handfast_tls::session::Session>>, Bytes>;

/// Accepts requests until the connection ends.
async fn requests<R: Runtime>(
    connection: &HttpConnection,
    h2: &mut Connection<R>,
    streams: &Rc<Streams>,
) -> CloseReason
where
    R::Socket: 'static,
{
    let began = R::now();
    let (mut is_reused, mut accepted) = (false, 0);
    let mut idle_since = began;
    let mut sends_goaway = false;
    loop {
        let mut context = Context::from_waker(&connection.waker);
        match h2.poll_accept(&mut context) {
            Poll::Ready(Some(Ok((head, respond)))) => {
                if std::mem::replace(&mut is_reused, true) {
                    connection.service.metrics.client_connection_reused();
                }
                accept::<R>(connection, streams, head, respond);
                idle_since = R::now();
                // Streams that came at once begin in several turns, so that others have theirs in between.
                accepted = (accepted + 1) % MAX_REQUESTS_PER_TURN;
                if accepted == 0 {
                    R::yield_now().await;
                }
                continue;
            }
            Poll::Ready(Some(Err(error))) => return ended(&error),
            Poll::Ready(None) => {
                return match sends_goaway {
                    true => CloseReason::new(Step::Close, Side::Operator, Cause::HttpClosed),
                    false => CloseReason::new(Step::Relay, Side::Client, Cause::Finished),
                };
            }
            Poll::Pending => {}
        }
        streams.queue.wake();
        let now = R::now();
        if streams.open.get() > 0 {
            idle_since = now;
        }
        if streams.resets.get() > MAX_RESETS {
            h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            let _ = h2.poll_closed(&mut context);
            return CloseReason::new(Step::Relay, Side::Client, Cause::Http2)
                .because("it resets its requests");
        }
        let idle = idle_since + if sends_goaway { GOODBYE } else { connection.http.model.timeouts.idle };
        let is_old = now >= began + AGE || connection.closes(now);
        if !sends_goaway && (is_old || (streams.open.get() == 0 && now >= idle)) {
            // Two GOAWAYs (RFC 9113 §6.8): the second one comes when the client has seen the first.
            sends_goaway = true;
            h2.graceful_shutdown();
            idle_since = now;
            continue;
        }
        if sends_goaway && streams.open.get() == 0 && now >= idle {
            // The last stream that was served, for a client that has not answered the first GOAWAY.
            h2.abrupt_shutdown(Reason::NO_ERROR);
            let _ = h2.poll_closed(&mut context);
            return CloseReason::new(Step::Close, Side::Operator, Cause::HttpClosed)
                .because("the client did not end it");
        }
        let deadline = if streams.open.get() == 0 { idle } else { now + connection.http.model.timeouts.idle };
        let too_old = if sends_goaway { Moment::NEVER } else { began + AGE };
        R::wait(deadline.min(too_old)).await;
        if let Err(reason) = connection.check_phase(Step::Relay) {
            return reason;
        }
    }
}

async fn wait<R: Runtime>(
    connection: &HttpConnection,
    deadline: Moment,
    cause: Cause,
) -> Result<(), CloseReason> {
    let woken = R::wait(deadline).await;
    connection.check_phase(Step::Hello)?;
    match woken {
        Woken::Deadline if R::now() >= deadline => Err(CloseReason::new(Step::Hello, Side::Client, cause)),
        _ => Ok(()),
    }
}

/// Returns the reason why the `h2` crate ended a connection.
fn ended(error: &h2::Error) -> CloseReason {
    let cause = if error.is_io() { Cause::CLOSED_EARLY } else { Cause::Http2 };
    CloseReason::new(Step::Relay, Side::Client, cause).because(error.to_string())
}

/// Detail of the log where NTLM and Negotiate go on over HTTP/1.1: a client that receives this error tries that (RFC 9113 §7).
const SHARED: &str =
    "NTLM and Negotiate authenticate a connection, which requests of HTTP/2 share (HTTP_1_1_REQUIRED)";

/// Starts the task of a request.
fn accept<R: Runtime>(
    connection: &HttpConnection,
    streams: &Rc<Streams>,
    head: Head<RecvStream>,
    respond: SendResponse<Bytes>,
) where
    R::Socket: 'static,
{
    let open = Open::<R>::new(streams);
    let mut connection = connection.clone();
    R::spawn(async move {
        R::carries_bytes();
        connection.waker = waker::<R>();
        serve_stream::<R>(&connection, &open, head, respond).await;
    });
}

async fn serve_stream<R: Runtime>(
    connection: &HttpConnection,
    open: &Open<R>,
    head: Head<RecvStream>,
    respond: SendResponse<Bytes>,
) where
    R::Socket: 'static,
{
    let (parts, content) = head.into_parts();
    let http = &connection.http.model;
    let incoming = StreamIn::new(content, http.body_limit, http.head, false);
    let text = h2_heads::request_text(&Head::from_parts(parts, ()), !incoming.has_ended());
    let mut client = Http2Client::new(incoming, respond, &open.0.queue, connection.waker.clone());
    let outcome = match text.map_err(Refused::from).and_then(|text| parse(connection, &text)) {
        Ok(mut request) if request.is_about_the_connection => {
            let reason = CloseReason::new(Step::Hello, Side::Client, Cause::HttpRequest).because(SHARED);
            request.end(Some(reason), R::now);
            return client.reset(Reason::HTTP_1_1_REQUIRED);
        }
        Ok(request) => {
            client.limit(request.body_limit);
            serve_request::serve::<R>(connection, &mut client, request).await
        }
        Err(refused) => {
            // The library gives whole heads.
            let head = (HttpVersion::Http2, Duration::ZERO);
            serve_request::refuse::<R>(connection, &mut client, refused, head).await
        }
    };
    drain::<R>(connection, &mut client).await;
    if let Outcome::Abort(reason) = outcome {
        if reason.cause == Cause::StreamReset && reason.side == Side::Client {
            note_reset::<R>(&open.0);
        }
        // Never END_STREAM: the response is not whole.
        client.reset(if reason.side == Side::Operator { Reason::CANCEL } else { Reason::INTERNAL_ERROR });
    }
}

/// Gives a client that still sends its request a moment to see the response: some take a reset that comes with it for a failure, although
/// its code is NO_ERROR (RFC 9113 §8.1). Data that arrives meanwhile is dropped.
async fn drain<R: Runtime>(connection: &HttpConnection, client: &mut Http2Client) {
    let deadline = R::now() + DRAIN;
    let mut dropped = Discard::default();
    while client.is_done() && !client.has_ended() {
        if dropped.bytes < DRAIN_BYTES {
            let mut lent = connection.lend();
            match client.pump(&mut dropped, &mut lent.io(&connection.waker)) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(_) => return,
            }
        }
        let is_late = R::wait(deadline).await == Woken::Deadline;
        if is_late || client.check().is_err() || connection.check_phase(Step::Close).is_err() {
            return;
        }
    }
}

fn parse(connection: &HttpConnection, text: &[u8]) -> Result<Box<Request>, Refused> {
    let mut fields = Vec::new();
    match parse_request(text, &mut HeadProgress::default(), &mut fields, &connection.http.model.head) {
        Err(error) => Err(Fault::message(Step::Hello, &error).into()),
        // It was written whole.
        Ok(None) => Err(Fault::new(Step::Hello, Side::Local, Cause::Internal, 500).into()),
        Ok(Some(head)) => Request::new(&head, connection, HttpVersion::Http2, Duration::ZERO),
    }
}

fn note_reset<R: Runtime>(streams: &Streams) {
    let now = R::now();
    if now.since(streams.since.get()) > RESET_WINDOW {
        streams.since.set(now);
        streams.resets.set(0);
    }
    streams.resets.set(streams.resets.get() + 1);
}
