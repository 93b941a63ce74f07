//! One HTTP connection: a client of `handfast-http`, and the requests that are under way on it.
//!
//! In: requests to begin. Out: how each of them went, timed by itself. All of them belong to the connection's task, and are
//! polled with it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error as _;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use handfast_hyper::client::{Reply, Unready, is_unseen, sentence};
use handfast_hyper::{Client, Version};
use handfast_leg::{Broken, Why};
use handfast_net::clock::Moment;
use handfast_net::stream::Stream;
use handfast_tls::client::ClientSession;
use handfast_tls::session::Session;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::{HeaderMap, StatusCode};

use super::sequence::{MAX_BODY_BYTES, MissingValue, Values, take};
use crate::connect::{Connected, connect};
use crate::context::{Caller, ThreadContext};
use crate::failure::{Cause, Step, StepFailure};
use crate::plan::{HttpVersion, Take};
use crate::requests::PreparedRequest;
use crate::wire::{Ended, Wire};

type Pipe = handfast_leg::Pipe<Stream, ClientSession>;

/// Time until which the rest of the handshake waits for the first request, to be sent together: without a limit.
const WITH_THE_FIRST_REQUEST: Moment = Moment::from_nanos(u64::MAX - 1);

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(super) struct CompleteResponse {
    pub(super) status: StatusCode,
    /// Its first byte; with HTTP/2, where a byte belongs to no stream until it has been read: its head.
    pub(super) first_byte: Moment,
    pub(super) done: Moment,
    /// The values that the plan takes from it, or which one it has not.
    pub(super) taken: Result<Values, MissingValue>,
}

/// Reason why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum Lost {
    /// The target closed the connection before it looked at the request, which may be sent on another one.
    NotSeen(StepFailure),
    /// It failed.
    Failed(StepFailure),
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct Finished {
    /// Intended start of the request.
    pub(super) intended: Moment,
    pub(super) began: Moment,
    /// Its place among the plan's requests.
    pub(super) which: usize,
    pub(super) outcome: Result<CompleteResponse, Lost>,
}

enum Stage {
    Sent(Reply),
    Reading { status: StatusCode, first_byte: Moment, body: Incoming, taking: Option<Box<Taking>> },
}

/// An answer of which values are taken.
struct Taking {
    headers: HeaderMap,
    text: Vec<u8>,
}

struct InFlight {
    intended: Moment,
    began: Moment,
    which: usize,
    deadline: Moment,
    stage: Stage,
}

/// An established HTTP connection.
pub(super) struct Connection {
    bench: Rc<ThreadContext>,
    pipe: Rc<RefCell<Pipe>>,
    client: Client<Full<Bytes>>,
    streams: usize,
    in_flight: Vec<InFlight>,
    finished: VecDeque<Finished>,
    /// True once a reply was given up; HTTP/1.1 can only close the connection then.
    given_up: bool,
    /// Time of the first bytes since nothing was under way.
    first_received: Option<Moment>,
    /// Plaintext sent and received that has been counted.
    counted: (u64, u64),
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
        bench: &Rc<ThreadContext>,
        caller: Caller,
        target: Target,
    ) -> Result<Self, StepFailure> {
        let Connected { wire, flight, unasked, .. } = connect(bench, caller, &[]).await?;
        if !bench.plan.target.plain {
            check_protocol(&wire, target.version)?;
        }
        let mut leg = wire.into_leg();
        leg.keep(flight.filled());
        leg.hold(WITH_THE_FIRST_REQUEST);
        // A server may speak first: HTTP/2's sends its settings.
        let pipe = Rc::new(RefCell::new(Pipe::new(leg, Rc::clone(&bench.scratch), &unasked)));
        let (version, streams) = match target.version {
            HttpVersion::Http11 => (Version::Http1, 1),
            HttpVersion::Http2 => (Version::Http2, target.streams.max(1) as usize),
        };
        let client = Client::open(&pipe, version, streams, bench.deadline()).await;
        let client = client.map_err(|unready| match unready {
            Unready::Deadline => StepFailure::deadline(Step::Exchange),
            Unready::Http(error) => {
                let ended = failure(&pipe.borrow(), "the target ended before the first request");
                ended.unwrap_or_else(|| StepFailure::new(Step::Exchange, Cause::Http, sentence(&error)))
            }
        })?;
        Ok(Self {
            bench: Rc::clone(bench),
            pipe,
            client,
            streams,
            in_flight: Vec::new(),
            finished: VecDeque::new(),
            given_up: false,
            first_received: None,
            counted: (0, 0),
        })
    }

    /// Returns true if a request can begin now.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight.len() < self.streams && !self.given_up && self.client.is_ready()
    }

    /// Returns true if no request can begin any more.
    pub(super) fn is_closed(&self) -> bool {
        self.given_up || self.client.is_closed()
    }

    /// Returns true if nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.finished.is_empty()
    }

    /// Begins the plan's request number `which`, which was meant to begin at `intended`; or counts why it cannot be made.
    pub(super) fn begin(
        &mut self,
        intended: Moment,
        which: usize,
        request: Result<PreparedRequest, StepFailure>,
    ) {
        if self.in_flight.is_empty() {
            self.first_received = None;
        }
        let (began, deadline) = (Moment::now(), self.bench.deadline());
        let ask = match request {
            Ok(request) => request,
            Err(failure) => {
                let outcome = Err(Lost::Failed(failure));
                return self.finished.push_back(Finished { intended, began, which, outcome });
            }
        };
        let reply = self.client.send(ask);
        self.in_flight.push(InFlight { intended, began, which, deadline, stage: Stage::Sent(reply) });
    }

    /// A request that is over.
    pub(super) fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Polls everything until a request is over, one can begin, or nothing moves any more; then waits, until `limit` at
    /// the latest.
    ///
    /// The caller begins requests while there is room before it comes here again.
    pub(super) async fn turn(&mut self, limit: Moment) {
        let (room, closed) = (self.has_room(), self.is_closed());
        loop {
            let waker = self.client.begin_round();
            self.poll(&mut Context::from_waker(&waker));
            self.expire();
            if !self.finished.is_empty() || self.has_room() != room || self.is_closed() != closed {
                return;
            }
            if !self.client.another_round().await {
                break;
            }
        }
        let deadline = self.in_flight.iter().map(|request| request.deadline).min();
        self.client.wait(deadline.map_or(limit, |deadline| deadline.min(limit))).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        self.client.poll_tasks(context);
        self.count();
        let mut index = 0;
        while index < self.in_flight.len() {
            match self.poll_request(index, context) {
                Poll::Pending => index += 1,
                Poll::Ready(outcome) => {
                    let InFlight { intended, began, which, .. } = self.in_flight.swap_remove(index);
                    self.finished.push_back(Finished { intended, began, which, outcome });
                }
            }
        }
        // Runs the tasks that the responses have woken.
        self.client.poll_tasks(context);
        self.count();
        self.reject_what_was_not_requested();
    }

    /// An answer with more after it is none: where it ends is not known. Later bytes are taken for the next response, which fails.
    fn reject_what_was_not_requested(&mut self) {
        let Some(last) = self.finished.back_mut().filter(|last| last.outcome.is_ok()) else { return };
        if let Some(what) = self.client.unrequested() {
            let detail = format!("the target sent more than its answer: {what}");
            last.outcome = Err(Lost::Failed(StepFailure::new(Step::Exchange, Cause::Http, detail)));
        }
    }

    fn poll_request(
        &mut self,
        index: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<CompleteResponse, Lost>> {
        loop {
            match &mut self.in_flight[index].stage {
                Stage::Sent(reply) => match reply.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(response)) => {
                        let first_byte = self.first_byte();
                        let status = response.status();
                        let takes = self.takes(self.in_flight[index].which);
                        let headers = (!takes.is_empty()).then(|| response.headers().clone());
                        let taking = headers.map(|headers| Box::new(Taking { headers, text: Vec::new() }));
                        let body = response.into_body();
                        self.in_flight[index].stage = Stage::Reading { status, first_byte, body, taking };
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(self.lost(&error))),
                },
                Stage::Reading { status, first_byte, body, taking } => {
                    match std::task::ready!(Pin::new(body).poll_frame(context)) {
                        // Counted as it came.
                        Some(Ok(frame)) => {
                            if let (Some(taking), Some(bytes)) = (taking, frame.data_ref()) {
                                let room = MAX_BODY_BYTES.saturating_sub(taking.text.len());
                                taking.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
                            }
                        }
                        Some(Err(error)) => return Poll::Ready(Err(Lost::Failed(self.cut_short(&error)))),
                        None => {
                            let (status, first_byte, taking, done) =
                                (*status, *first_byte, taking.take(), Moment::now());
                            let takes = self.takes(self.in_flight[index].which);
                            let taken = taking.map_or_else(
                                || Ok(Values::new()),
                                |taking| take(takes, &taking.headers, &taking.text),
                            );
                            return Poll::Ready(Ok(CompleteResponse { status, first_byte, done, taken }));
                        }
                    }
                }
            }
        }
    }

    /// The values that are taken from the answers of a request.
    fn takes(&self, which: usize) -> &[Take] {
        self.bench.plan.requests().get(which).map_or(&[], |request| &request.take)
    }

    fn first_byte(&self) -> Moment {
        match self.client.version() {
            Version::Http1 => self.first_received.unwrap_or_else(Moment::now),
            Version::Http2 => Moment::now(),
        }
    }

    /// Ends requests whose time is up. With HTTP/1.1 the connection is of no use after that.
    fn expire(&mut self) {
        let now = Moment::now();
        let before = self.in_flight.len();
        let finished = &mut self.finished;
        self.in_flight.retain(|request| {
            if request.deadline > now {
                return true;
            }
            let outcome = Err(Lost::Failed(StepFailure::deadline(Step::Exchange)));
            let InFlight { intended, began, which, .. } = *request;
            finished.push_back(Finished { intended, began, which, outcome });
            false
        });
        self.given_up |= self.in_flight.len() < before && self.client.version() == Version::Http1;
    }

    /// Counts what passed since the last time.
    fn count(&mut self) {
        let (pipe, (sent, received)) = (self.pipe.borrow(), self.counted);
        self.counted = (pipe.leg().sent(), pipe.leg().received());
        if self.counted.1 > received {
            self.first_received.get_or_insert_with(Moment::now);
        }
        if self.counted != (sent, received) {
            self.bench.record().bytes(self.counted.0 - sent, self.counted.1 - received);
        }
    }

    /// Returns the reason why a request got no answer.
    fn lost(&self, error: &hyper::Error) -> Lost {
        if error.is_parse() {
            // However the target ended after it: what it sent was no answer.
            return Lost::Failed(StepFailure::new(Step::Exchange, Cause::Http, sentence(error)));
        }
        let ended = failure(&self.pipe.borrow(), "the target ended before it answered");
        let failure = ended.unwrap_or_else(|| StepFailure::new(Step::Exchange, Cause::Http, sentence(error)));
        if is_unseen(error) { Lost::NotSeen(failure) } else { Lost::Failed(failure) }
    }

    /// Returns the reason why a body has no end: in every case, the answer is incomplete.
    fn cut_short(&self, error: &hyper::Error) -> StepFailure {
        if is_malformed(error) {
            return StepFailure::new(Step::Exchange, Cause::Http, sentence(error));
        }
        match failure(&self.pipe.borrow(), "the target ended within a body") {
            Some(failure) if !failure.is_end() => failure,
            Some(failure) => StepFailure { cause: Cause::Truncated, ..failure },
            None => StepFailure::new(Step::Exchange, Cause::Truncated, sentence(error)),
        }
    }

    /// Returns the reason why the connection cannot be used any more.
    pub(super) fn ended(&self, what: &str) -> StepFailure {
        let failure = failure(&self.pipe.borrow(), what);
        failure.unwrap_or_else(|| StepFailure::new(Step::Exchange, Cause::ClosedEarly, what))
    }

    /// Lets the target have the rest of the handshake, for a connection that may have to wait for its first request.
    pub(super) fn finish_handshake(&self) -> Result<(), StepFailure> {
        let sent = self.pipe.borrow_mut().leg_mut().send_flight();
        sent.map_err(|broken| StepFailure::broken(Step::Handshake, &broken))
    }

    /// Gives the wire back, to be closed as the plan says; `None` when it broke.
    pub(super) fn into_wire(self) -> Option<Wire> {
        self.finish_handshake().ok()?;
        let Self { pipe, client, in_flight, .. } = self;
        // All others that hold the pipe are hyper's.
        drop((in_flight, client));
        let pipe = Rc::try_unwrap(pipe).ok()?.into_inner();
        let ended = match pipe.broken() {
            Some(Broken { why: Why::Truncated, .. }) => Ended::Truncated,
            _ if pipe.leg().has_ended() => Ended::Orderly,
            _ => Ended::No,
        };
        Some(Wire::from_leg(pipe.into_leg(), ended))
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

/// Returns true if a body could not be read because of its content, and not because it ended: hyper's
/// decoder of chunks reports this kind.
fn is_malformed(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| matches!(source.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData))
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
