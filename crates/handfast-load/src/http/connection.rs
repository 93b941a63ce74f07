//! One HTTP connection: its pipe, its protocol, and the requests that are in flight on it.
//!
//! In: requests to begin. Out: how each of them went, timed by itself. All of them belong to the connection's task: each turn reads
//! what has come, and sends what all requests have to send in one piece.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use handfast_leg::{Broken, Why};
use handfast_net::clock::Moment;
use handfast_net::engine;
use handfast_net::stream::Stream;
use handfast_tls::client::ClientSession;
use handfast_tls::session::Session;

use super::http1_client::Http1Client;
use super::http2_client::Http2Client;
use super::in_flight::{Finished, Lost, Requests, TransportEnd};
use super::protocol::Protocol;
use crate::connect::{Connected, connect};
use crate::context::{Caller, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};
use crate::plan::HttpVersion;
use crate::requests::PreparedRequest;
use crate::wire::{Ended, Wire};

type Pipe = handfast_leg::Pipe<Stream, ClientSession>;

/// Time until which the rest of the handshake waits for the first request, to be sent together: without a limit.
const WITH_THE_FIRST_REQUEST: Moment = Moment::from_nanos(u64::MAX - 1);

/// Turns of a connection without a wait before the other tasks of its thread have theirs.
const MAX_TURNS: u32 = 16;

/// An established HTTP connection.
pub(super) struct Connection {
    pipe: Pipe,
    protocol: Box<dyn Protocol>,
    streams: usize,
    requests: Requests,
    /// Bytes that the protocol sends, and how many of them the pipe has.
    output: Vec<u8>,
    written: usize,
    /// Turns since the other tasks of the thread had theirs.
    turns: u32,
    /// The pipe broke or the target has ended, and the protocol was notified.
    has_ended: bool,
    /// Plaintext sent and received that has been counted.
    counted: (u64, u64),
    context: Rc<ThreadContext>,
}

/// The target's protocol, for every connection of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) version: HttpVersion,
    pub(super) streams: u32,
}

impl Connection {
    /// Connects, shakes hands, and makes ready for requests.
    pub(super) async fn open(
        context: &Rc<ThreadContext>,
        caller: Caller,
        target: Target,
    ) -> Result<Self, StepFailure> {
        let Connected { wire, flight, unasked, .. } = connect(context, caller, &[]).await?;
        if !context.plan.target.plain {
            check_protocol(&wire, target.version)?;
        }
        let mut leg = wire.into_leg();
        leg.keep(flight.filled());
        leg.hold(WITH_THE_FIRST_REQUEST);
        let streams = target.streams.max(1);
        let protocol: Box<dyn Protocol> = match target.version {
            HttpVersion::Http11 => Box::new(Http1Client::new()),
            HttpVersion::Http2 => Box::new(Http2Client::new(streams)),
        };
        let mut connection = Self {
            pipe: Pipe::new(leg, Rc::clone(&context.scratch), &unasked),
            protocol,
            streams: streams as usize,
            requests: Requests::new(context),
            output: Vec::new(),
            written: 0,
            turns: 0,
            has_ended: false,
            counted: (0, 0),
            context: Rc::clone(context),
        };
        if !unasked.is_empty() {
            // A server may speak first: HTTP/2's sends its settings, which bound the number of streams.
            connection.receive();
        }
        Ok(connection)
    }

    /// Returns true if a request can begin now.
    pub(super) fn has_room(&self) -> bool {
        self.requests.count() < self.streams && self.protocol.has_room()
    }

    /// Returns true if no request can begin any more.
    pub(super) fn is_closed(&self) -> bool {
        self.protocol.is_closed()
    }

    /// Returns true if nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.count() == 0 && !self.requests.has_finished()
    }

    /// Begins the plan's request number `which`, which was meant to begin at `intended`; or counts why it cannot be made.
    pub(super) fn begin(
        &mut self,
        intended: Moment,
        which: usize,
        request: Result<Arc<PreparedRequest>, StepFailure>,
    ) {
        let place = self.requests.begin(intended, which);
        match request {
            Ok(request) => self.protocol.begin(place, request, &mut self.requests),
            Err(failure) => self.requests.lose(place, Lost::Failed(failure)),
        }
    }

    /// A request that is over.
    pub(super) fn next_finished(&mut self) -> Option<Finished> {
        self.requests.next_finished()
    }

    /// Reads until a request is over, one can begin, or nothing more has come; then sends, and waits, until `limit` at the latest.
    ///
    /// The caller begins requests while there is room before it comes here again: what they send goes together.
    pub(super) async fn turn(&mut self, limit: Moment) {
        let before = (self.has_room(), self.is_closed());
        self.receive();
        self.expire();
        let had_news = self.has_news(before);
        if !had_news {
            self.send();
        }
        self.count();
        if !had_news && !self.has_news(before) {
            self.turns = 0;
            engine::wait(limit.min(self.requests.next_deadline())).await;
            return;
        }
        // A target that answers faster than its answers are read would keep the thread for this connection.
        self.turns += 1;
        if self.turns == MAX_TURNS {
            self.turns = 0;
            engine::yield_now().await;
        }
    }

    /// Returns true if the caller has something to do.
    fn has_news(&self, before: (bool, bool)) -> bool {
        self.requests.has_finished() || (self.has_room(), self.is_closed()) != before
    }

    /// Reads what has come, to its end; the pipe bounds how much that is.
    fn receive(&mut self) {
        let waker = engine::current().waker();
        let task = Context::from_waker(&waker);
        while !self.has_ended {
            let Self { pipe, protocol, requests, .. } = self;
            let take = |bytes: &[u8]| protocol.receive(bytes, Moment::now(), requests);
            match pipe.poll_read(&task, usize::MAX, take) {
                Poll::Pending => break,
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0) | Err(_)) => self.end(),
            }
        }
    }

    /// Sends what the protocol has, as far as the target takes it.
    fn send(&mut self) {
        let waker = engine::current().waker();
        let task = &mut Context::from_waker(&waker);
        let now = Moment::now();
        while !self.has_ended {
            if self.written == self.output.len() {
                let spent = std::mem::take(&mut self.output);
                (self.output, self.written) = (self.protocol.output(spent, now, &mut self.requests), 0);
            }
            let left = &self.output[self.written..];
            let outcome = if left.is_empty() {
                self.pipe.poll_flush(task).map_ok(|()| 0)
            } else {
                self.pipe.poll_write(task, left)
            };
            match outcome {
                Poll::Ready(Ok(count)) if count > 0 => self.written += count,
                Poll::Ready(Ok(_)) | Poll::Pending => break,
                Poll::Ready(Err(_)) => self.end(),
            }
        }
    }

    /// The pipe broke, or the target has ended.
    fn end(&mut self) {
        self.has_ended = true;
        let cut_short = match failure(&self.pipe, "the target ended within a body") {
            Some(failure) if !failure.is_end() => failure,
            Some(failure) => StepFailure { cause: Cause::Truncated, ..failure },
            None => StepFailure::new(Step::Exchange, Cause::Truncated, "the target ended within a body"),
        };
        let end = TransportEnd {
            unanswered: self.ended("the target ended before it answered"),
            cut_short,
            is_clean: self.pipe.broken().is_none(),
        };
        self.protocol.end(&end, Moment::now(), &mut self.requests);
    }

    /// Ends requests whose time is up. With HTTP/1.1 the connection is of no use after that.
    fn expire(&mut self) {
        for place in self.requests.expired(Moment::now()) {
            self.protocol.give_up(place);
            self.requests.lose(place, Lost::Failed(StepFailure::deadline(Step::Exchange)));
        }
    }

    /// Counts what passed since the last time.
    fn count(&mut self) {
        let (sent, received) = self.counted;
        self.counted = (self.pipe.leg().sent(), self.pipe.leg().received());
        if self.counted != (sent, received) {
            self.context.record().bytes(self.counted.0 - sent, self.counted.1 - received);
        }
    }

    /// Returns the reason why the connection cannot be used any more.
    pub(super) fn ended(&self, what: &str) -> StepFailure {
        if let Some(fault) = self.protocol.fault() {
            return StepFailure::new(Step::Exchange, Cause::Http, fault);
        }
        let failure = failure(&self.pipe, what);
        failure.unwrap_or_else(|| StepFailure::new(Step::Exchange, Cause::ClosedEarly, what))
    }

    /// Lets the target have the rest of the handshake, for a connection that may have to wait for its first request.
    pub(super) fn finish_handshake(&mut self) -> Result<(), StepFailure> {
        let sent = self.pipe.leg_mut().send_flight();
        sent.map_err(|broken| StepFailure::broken(Step::Handshake, &broken))
    }

    /// Gives the wire back, to be closed as the plan says; `None` when it broke.
    pub(super) fn into_wire(mut self) -> Option<Wire> {
        self.finish_handshake().ok()?;
        let ended = match self.pipe.broken() {
            Some(Broken { why: Why::Truncated, .. }) => Ended::Truncated,
            _ if self.pipe.leg().has_ended() => Ended::Orderly,
            _ => Ended::No,
        };
        Some(Wire::from_leg(self.pipe.into_leg(), ended))
    }
}

/// Returns the reason why the leg broke, or how the target ended it before `what`; `None` while it is open.
fn failure(pipe: &Pipe, what: &str) -> Option<StepFailure> {
    match pipe.broken() {
        Some(Broken { why: Why::Truncated, .. }) => Some(StepFailure::ended(Step::Exchange, false, what)),
        Some(broken) => Some(StepFailure::broken(Step::Exchange, broken)),
        None => pipe.leg().has_ended().then(|| StepFailure::ended(Step::Exchange, true, what)),
    }
}

/// **Source**: RFC 9113 §3.3: HTTP/2 over TLS is agreed on by ALPN. Without TLS it begins with prior knowledge.
fn check_protocol(wire: &Wire, version: HttpVersion) -> Result<(), StepFailure> {
    let agreed = wire.session().agreed().alpn;
    match (version, agreed.as_deref()) {
        (HttpVersion::Http2, Some("h2")) | (HttpVersion::Http11, Some("http/1.1") | None) => Ok(()),
        (HttpVersion::Http2, None) => Err(StepFailure::new(
            Step::Handshake,
            Cause::Alpn,
            "the target did not agree to HTTP/2: no ALPN answer",
        )),
        (_, other) => {
            let detail =
                format!("the target chose the protocol {:?}, which was not wanted", other.unwrap_or(""));
            Err(StepFailure::new(Step::Handshake, Cause::Alpn, detail))
        }
    }
}
