//! One HTTP connection: hyper's client, polled by hand inside one task of our engine.
//!
//! In: requests to begin. Out: how each of them went, timed by itself. The engine runs no foreign wakers, so hyper gets
//! one that sets a flag: everything is polled again until the flag stays down, and then the engine waits for a socket.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use handfast_net::clock::Moment;
use handfast_net::engine;
use handfast_tls::session::Session;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper::{Response, StatusCode};

use super::pipe::{Io, Pipe};
use crate::bench::{Bench, Caller, Phase};
use crate::connect::connect;
use crate::plan::HttpVersion;
use crate::trouble::{Cause, Step, Trouble};
use crate::wire::Wire;

/// Rounds of polling before the other connections of the thread have their turn.
const ROUNDS: u32 = 16;

type Task = Pin<Box<dyn Future<Output = ()>>>;
type Reply = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>>>>;

/// What hyper's wakers do.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tasks that hyper wants run: they belong to the connection, and are polled with it.
#[derive(Clone, Default)]
struct Tasks(Rc<RefCell<Vec<Task>>>);

impl<F: Future<Output = ()> + 'static> Executor<F> for Tasks {
    fn execute(&self, future: F) {
        self.0.borrow_mut().push(Box::pin(future));
    }
}

impl Tasks {
    fn poll(&self, context: &mut Context<'_>) {
        // Taken out meanwhile: a task may start another one.
        let mut tasks = std::mem::take(&mut *self.0.borrow_mut());
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        self.0.borrow_mut().append(&mut tasks);
    }
}

/// Ends the tasks when it is dropped: they hold clones of the list that they are in, and so would never be.
#[derive(Default)]
struct Owner(Tasks);

impl Drop for Owner {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.0.0.borrow_mut());
        drop(tasks);
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// An answer, read to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Its first byte; with HTTP/2, where a byte belongs to nobody until it has been read: its head.
    pub(super) first_byte: Moment,
    pub(super) done: Moment,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum Lost {
    /// The target closed the connection before it looked at the request, which may be sent on another one.
    NotSeen(Trouble),
    /// It failed.
    Failed(Trouble),
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct Finished {
    /// When it was meant to begin.
    pub(super) intended: Moment,
    pub(super) began: Moment,
    /// Its place among the plan's requests.
    pub(super) which: usize,
    pub(super) outcome: Result<Answer, Lost>,
}

enum Stage {
    Asked(Reply),
    Reading { status: StatusCode, first_byte: Moment, body: Incoming },
}

struct InFlight {
    intended: Moment,
    began: Moment,
    which: usize,
    deadline: Moment,
    stage: Stage,
}

/// An HTTP connection that stands.
pub(super) struct Connection {
    bench: Rc<Bench>,
    pipe: Rc<RefCell<Pipe>>,
    sender: Sender,
    /// hyper's own work on the connection; empty when it has ended.
    tasks: Owner,
    flag: Arc<Flag>,
    waker: Waker,
    streams: usize,
    in_flight: Vec<InFlight>,
    finished: VecDeque<Finished>,
    /// Whether a reply was given up that HTTP/1.1 has no other way to be rid of.
    given_up: bool,
}

/// How it is asked, on every connection of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) version: HttpVersion,
    pub(super) streams: u32,
}

impl Connection {
    /// Connects, shakes hands, and makes ready for requests.
    pub(super) async fn open(bench: &Rc<Bench>, caller: Caller, target: Target) -> Result<Self, Trouble> {
        let connected = connect(bench, caller, &[]).await?;
        check_protocol(&connected.wire, target.version)?;
        let pipe = Rc::new(RefCell::new(Pipe::new(bench, connected)));
        let (flag, tasks) = (Arc::<Flag>::default(), Owner::default());
        let waker = Waker::from(Arc::clone(&flag));
        let io = Io(Rc::clone(&pipe));
        let sender = match target.version {
            HttpVersion::Http11 => {
                let (sender, connection) = soon(&pipe, bench, &flag, http1::handshake(io)).await?;
                tasks.0.execute(async { drop(connection.await) });
                Sender::Http1(sender)
            }
            HttpVersion::Http2 => {
                let shaking = http2::handshake(tasks.0.clone(), io);
                let (sender, connection) = soon(&pipe, bench, &flag, shaking).await?;
                tasks.0.execute(async { drop(connection.await) });
                Sender::Http2(sender)
            }
        };
        let streams = if target.version == HttpVersion::Http2 { target.streams.max(1) as usize } else { 1 };
        Ok(Self {
            bench: Rc::clone(bench),
            pipe,
            sender,
            tasks,
            flag,
            waker,
            streams,
            in_flight: Vec::new(),
            finished: VecDeque::new(),
            given_up: false,
        })
    }

    /// Whether a request can begin now.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight.len() < self.streams
            && !self.given_up
            && match &self.sender {
                Sender::Http1(sender) => sender.is_ready(),
                Sender::Http2(sender) => sender.is_ready(),
            }
    }

    /// Whether no request can begin any more.
    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            _ if self.given_up => true,
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.finished.is_empty()
    }

    /// Begins the plan's request number `which`, which was meant to begin at `intended`.
    pub(super) fn begin(&mut self, intended: Moment, which: usize) {
        if self.in_flight.is_empty() {
            self.pipe.borrow_mut().heard = None;
        }
        let ask = self.bench.asks[which].clone();
        let (began, deadline) = (Moment::now(), self.bench.deadline());
        let reply: Reply = match &mut self.sender {
            Sender::Http1(sender) => Box::pin(sender.send_request(ask)),
            Sender::Http2(sender) => Box::pin(sender.send_request(ask)),
        };
        self.in_flight.push(InFlight { intended, began, which, deadline, stage: Stage::Asked(reply) });
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
        let mut rounds = 0;
        loop {
            self.flag.0.store(false, Ordering::Relaxed);
            self.poll();
            self.expire();
            if !self.finished.is_empty() || self.has_room() != room || self.is_closed() != closed {
                return;
            }
            if !self.flag.0.load(Ordering::Relaxed) {
                break;
            }
            rounds += 1;
            if rounds == ROUNDS {
                engine::yield_now().await;
                rounds = 0;
            }
        }
        let deadline = self.in_flight.iter().map(|request| request.deadline).min();
        engine::wait(deadline.map_or(limit, |deadline| deadline.min(limit))).await;
    }

    fn poll(&mut self) {
        let waker = self.waker.clone();
        let context = &mut Context::from_waker(&waker);
        self.tasks.0.poll(context);
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
        // What the answers have set going.
        self.tasks.0.poll(context);
        self.count();
    }

    fn poll_request(&mut self, index: usize, context: &mut Context<'_>) -> Poll<Result<Answer, Lost>> {
        loop {
            match &mut self.in_flight[index].stage {
                Stage::Asked(reply) => match reply.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(response)) => {
                        let first_byte = self.first_byte();
                        let status = response.status();
                        let body = response.into_body();
                        self.in_flight[index].stage = Stage::Reading { status, first_byte, body };
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(self.lost(&error))),
                },
                Stage::Reading { status, first_byte, body } => {
                    match std::task::ready!(Pin::new(body).poll_frame(context)) {
                        // Counted as it came.
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return Poll::Ready(Err(Lost::Failed(self.cut_short(&error)))),
                        None => {
                            let (status, first_byte) = (*status, *first_byte);
                            return Poll::Ready(Ok(Answer { status, first_byte, done: Moment::now() }));
                        }
                    }
                }
            }
        }
    }

    fn first_byte(&self) -> Moment {
        match self.sender {
            Sender::Http1(_) => self.pipe.borrow().heard.unwrap_or_else(Moment::now),
            Sender::Http2(_) => Moment::now(),
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
            let outcome = Err(Lost::Failed(Trouble::deadline(Step::Exchange)));
            let InFlight { intended, began, which, .. } = *request;
            finished.push_back(Finished { intended, began, which, outcome });
            false
        });
        self.given_up |= self.in_flight.len() < before && matches!(self.sender, Sender::Http1(_));
    }

    /// Hands over what passed since the last time.
    fn count(&self) {
        let (sent, received) = self.pipe.borrow_mut().take_counts();
        if self.bench.phase() == Phase::WarmUp {
            return;
        }
        let tally = &mut self.bench.sampler.borrow_mut().tally;
        tally.sent += sent;
        tally.received += received;
    }

    /// Why a request got no answer.
    fn lost(&self, error: &hyper::Error) -> Lost {
        let ended = self.pipe.borrow().trouble("the target ended before it answered");
        let trouble = ended.unwrap_or_else(|| Trouble::new(Step::Exchange, Cause::Http, sentence(error)));
        if error.is_canceled() || error.is_closed() || is_unseen(error) {
            Lost::NotSeen(trouble)
        } else {
            Lost::Failed(trouble)
        }
    }

    /// Why a body has no end: whatever else, the answer is not whole.
    fn cut_short(&self, error: &hyper::Error) -> Trouble {
        let pipe = self.pipe.borrow();
        let ended = pipe.trouble("the target ended within a body");
        match ended {
            Some(trouble) if !trouble.is_end() => trouble,
            Some(trouble) => Trouble { cause: Cause::Truncated, ..trouble },
            None => Trouble::new(Step::Exchange, Cause::Truncated, sentence(error)),
        }
    }

    /// Why it is of no use any more.
    pub(super) fn ended(&self, what: &str) -> Trouble {
        let trouble = self.pipe.borrow().trouble(what);
        trouble.unwrap_or_else(|| Trouble::new(Step::Exchange, Cause::ClosedEarly, what))
    }

    /// Lets the target have the rest of the handshake, for a connection that may have to wait for its first request.
    pub(super) fn finish_handshake(&self) -> Result<(), Trouble> {
        self.pipe.borrow_mut().finish_handshake()
    }

    /// Gives the wire back, to be closed as the plan says; `None` when it broke.
    pub(super) fn into_wire(self) -> Option<Wire> {
        self.finish_handshake().ok()?;
        let Self { pipe, sender, tasks, in_flight, .. } = self;
        drop((in_flight, sender, tasks));
        Rc::try_unwrap(pipe).ok().map(|pipe| pipe.into_inner().wire)
    }
}

/// Polls hyper's own preparations to their end, which takes at most a write.
async fn soon<T>(
    pipe: &Rc<RefCell<Pipe>>,
    bench: &Bench,
    flag: &Arc<Flag>,
    preparing: impl Future<Output = hyper::Result<T>>,
) -> Result<T, Trouble> {
    let mut preparing = std::pin::pin!(preparing);
    let waker = Waker::from(Arc::clone(flag));
    let deadline = bench.deadline();
    loop {
        flag.0.store(false, Ordering::Relaxed);
        if let Poll::Ready(outcome) = preparing.as_mut().poll(&mut Context::from_waker(&waker)) {
            return outcome.map_err(|error| {
                let ended = pipe.borrow().trouble("the target ended before the first request");
                ended.unwrap_or_else(|| Trouble::new(Step::Exchange, Cause::Http, sentence(&error)))
            });
        }
        if !flag.0.load(Ordering::Relaxed) && engine::wait(deadline).await == engine::Woken::Deadline {
            return Err(Trouble::deadline(Step::Exchange));
        }
    }
}

/// Whether the target said that it has not processed the request: it may be sent again (RFC 9113 §8.7).
fn is_unseen(error: &hyper::Error) -> bool {
    let Some(error) = error.source().and_then(|source| source.downcast_ref::<h2::Error>()) else {
        return false;
    };
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    let going = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    error.is_remote() && (refused || going)
}

/// An error and what is behind it.
fn sentence(error: &hyper::Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        sentence = format!("{sentence}: {error}");
        source = error.source();
    }
    sentence
}

/// **Source**: RFC 9113 §3.3: HTTP/2 over TLS is agreed on by ALPN.
fn check_protocol(wire: &Wire, version: HttpVersion) -> Result<(), Trouble> {
    let agreed = wire.session.agreed().alpn;
    match (version, agreed.as_deref()) {
        (HttpVersion::Http2, Some("h2")) | (HttpVersion::Http11, Some("http/1.1") | None) => Ok(()),
        (HttpVersion::Http2, None) => Err(Trouble::new(
            Step::Handshake,
            Cause::Alpn,
            "the target did not agree to HTTP/2: no ALPN answer",
        )),
        (_, other) => {
            let detail =
                format!("the target chose the protocol {:?}, which was not wanted", other.unwrap_or(""));
            Err(Trouble::new(Step::Handshake, Cause::Alpn, detail))
        }
    }
}
