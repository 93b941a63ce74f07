//! One request: route → connect → relay → close.
//!
//! In: a request whose head was accepted, and its client. Out: a response, or an error, or an abort; and the request's record. Both
//! directions move at the same time, and neither is kept whole.

use std::time::Duration;

use handfast_leg::Socket;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::HttpVersion;
use handfast_wire::http1::{Framing, ResponseHead, parse_response};

use crate::backends::pool::Identity;
use crate::http::answer::Answer;
use crate::http::backend::Backend;
use crate::http::client::{After, Client};
use crate::http::connection::HttpConnection;
use crate::http::content::{Io, Sink, Source};
use crate::http::fault::Fault;
use crate::http::h1_backend::{self, Tunnel};
use crate::http::request::{Action, Refused, Request, authenticates_connections, note_refused};
use crate::http::upstream::{Search, Upstream, policy};
use crate::worker::services::Chosen;

/// How long the content of a request with `Expect: 100-continue` waits for the backend's word (RFC 9110 §10.1.1).
const CONTINUE: Duration = Duration::from_secs(1);
/// Rounds that one exchange may go on before the others of its thread.
const ROUNDS: u32 = 16;
/// Responses before the final one. A backend could send them without end.
const INTERIM: u32 = 64;
/// How long one exchange may go on before the others of its thread: content can come in many small pieces.
const TURN: Duration = Duration::from_millis(2);
/// Content must move with this number of bytes in each [`SLOW_WINDOW`], while its sender or reader is waited for.
const SLOW_BYTES: u64 = 2400;
const SLOW_WINDOW: Duration = Duration::from_secs(10);

/// How an exchange ended.
pub(crate) enum Outcome<S: Socket> {
    /// The client's connection can carry another one.
    KeepOpen,
    /// The response is complete, and it announced that it is the last one.
    Close,
    /// The protocol was changed.
    Tunnel(Tunnel<S>),
    /// The response was cut off, or the client is gone.
    Abort(CloseReason),
}

/// Serves a request.
pub(crate) async fn run<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    mut request: Request,
) -> Outcome<R::Socket>
where
    R::Socket: 'static,
{
    let outcome = match request.action.clone() {
        Action::Redirect(status, location) => {
            let answer = Answer::redirect(status, location);
            answer_with::<R>(connection, client, &mut request, &answer, None).await
        }
        Action::Forward(chosen) => forward::<R>(connection, client, &mut request, chosen).await,
    };
    request.record.bytes_from_client = client.received();
    request.record.bytes_to_client = client.sent();
    let (outcome, failure) = match outcome {
        Ok(outcome) => (outcome, None),
        Err((outcome, reason)) => (outcome, Some(reason)),
    };
    request.end(failure);
    outcome
}

/// What came of an exchange; with an error, why it has failed.
type Ended<S> = Result<Outcome<S>, (Outcome<S>, CloseReason)>;

async fn forward<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    chosen: Chosen,
) -> Ended<R::Socket> {
    let deadline = R::now().deadline(connection.service.limits.handshake);
    let mut search = Search { connection, chosen, deadline, tried: Vec::new(), may_reuse: true };
    let mut retries = connection.http.model.retries;
    loop {
        let fault = match search.run::<R>(request, client).await {
            Err(fault) => fault,
            Ok(upstream) => {
                let mut exchange = Exchange::new(connection, request, upstream, R::now());
                exchange.must_end = client.has_ended() && !exchange.request.is_empty();
                match exchange.relay::<R>(client).await {
                    Ok(()) => return Ok(exchange.finish::<R>(client)),
                    Err(fault) if exchange.has_begun => {
                        request.record.broken_rule = fault.rule;
                        return Err((Outcome::Abort(fault.reason.clone()), fault.reason));
                    }
                    Err(fault) => {
                        let can_retry = exchange.can_retry(client, &fault);
                        exchange.count_failure(&fault);
                        if can_retry && retries > 0 {
                            retries -= 1;
                            request.record.retries += 1;
                            // The other kept connections are of the same age: their backend may have closed them too.
                            search.may_reuse = false;
                            continue;
                        }
                        fault
                    }
                }
            }
        };
        request.record.broken_rule = fault.rule;
        let Some(status) = fault.status else {
            return Err((Outcome::Abort(fault.reason.clone()), fault.reason));
        };
        let answer = Answer::error(status, Some(request));
        return answer_with::<R>(connection, client, request, &answer, Some(fault)).await;
    }
}

/// Sends a response of our own. The connection stays open if the request has come whole and broke no rule.
async fn answer_with<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    answer: &Answer,
    fault: Option<Fault>,
) -> Ended<R::Socket> {
    let is_clients = fault.as_ref().is_some_and(|fault| fault.reason.side == Side::Client);
    let close = !request.keeps_open || !client.has_ended() || is_clients || connection.closes(R::now());
    request.record.status = Some(answer.status);
    let sent = send_answer::<R>(connection, client, Some(request), answer, close).await;
    let outcome = if close { Outcome::Close } else { Outcome::KeepOpen };
    match (sent, fault) {
        (Err(gone), _) => Err((Outcome::Abort(gone.reason.clone()), gone.reason)),
        (Ok(()), Some(fault)) => Err((outcome, fault.reason)),
        (Ok(()), None) => Ok(outcome),
    }
}

/// Sends a response of our own, until the kernel has it.
pub(crate) async fn send_answer<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: Option<&Request>,
    answer: &Answer,
    close: bool,
) -> Result<(), Fault> {
    let deadline = R::now().deadline(connection.http.model.timeouts.content);
    let mut is_put = false;
    loop {
        {
            let mut lent = connection.lend();
            let mut io = lent.io(&connection.waker);
            if client.accepts(&mut io)? && !is_put {
                is_put = true;
                client.put_answer(answer, request, close, &mut io.output());
                client.flush(&mut io.output())?;
                // A part may have been written; the socket reports room only after a write that found none.
                client.accepts(&mut io)?;
            }
        }
        if is_put && client.is_done() {
            return Ok(());
        }
        wait::<R>(connection, client, deadline, Side::Client, Cause::ContentDeadline, None).await?;
    }
}

/// Refuses a request whose head is wrong, or that is not for this connection.
pub(crate) async fn refuse<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    Refused { request, fault }: Refused,
    protocol: HttpVersion,
) -> Outcome<R::Socket> {
    let Some(status) = fault.status else { return Outcome::Abort(fault.reason) };
    let answer = Answer::error(status, request.as_deref());
    let sent = send_answer::<R>(connection, client, request.as_deref(), &answer, true).await;
    match request {
        Some(mut request) => {
            (request.record.status, request.record.broken_rule) = (Some(status), fault.rule);
            request.record.bytes_to_client = client.sent();
            request.end(Some(fault.reason));
        }
        None => note_refused(connection, protocol, &fault),
    }
    match sent {
        Ok(()) => Outcome::Close,
        Err(fault) => Outcome::Abort(fault.reason),
    }
}

async fn wait<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    deadline: Moment,
    side: Side,
    cause: Cause,
    status: Option<u16>,
) -> Result<Woken, Fault> {
    let woken = R::wait(deadline).await;
    connection.check_phase(Step::Relay).map_err(Fault::gone)?;
    client.check()?;
    if woken == Woken::Deadline && R::now() >= deadline {
        return Err(Fault { status, ..Fault::gone(CloseReason::new(Step::Relay, side, cause)) });
    }
    Ok(woken)
}

/// A request and its backend.
struct Exchange<'a, S: Socket> {
    connection: &'a HttpConnection,
    request: &'a mut Request,
    backend: Backend<S>,
    identity: Identity,
    /// Bytes of the head that are sent.
    given: usize,
    /// The content of the request ended without a byte before this backend was asked: it must receive that end.
    must_end: bool,
    /// Interim responses that have come.
    interim: u32,
    /// A final response has begun.
    has_begun: bool,
    /// The backend takes no more of the request.
    is_refused: bool,
    /// Its backend's connection, and the client's, can carry another request.
    backend_stays: bool,
    /// The backend's connection is the client's own: it asks for NTLM or Negotiate, or was before.
    is_tied: bool,
    client_stays: bool,
    /// The protocol was changed, and bytes of the client's connection are relayed …
    is_tunnel: bool,
    /// … or content of its stream.
    is_stream_tunnel: bool,
    /// Until when the content of the request waits.
    content_waits: Option<Moment>,
    connected: Moment,
    /// When the request was last sent something of; interim responses do not count.
    asked: Moment,
    /// When content last moved; when the present window of [`SLOW_WINDOW`] began, and the bytes that had moved then.
    progress: Moment,
    window: (Moment, u64),
}

/// Whether the response asks for the authentication of its connection.
fn is_about_the_connection(head: &ResponseHead<'_>) -> bool {
    let name = match head.status {
        401 => "www-authenticate",
        407 => "proxy-authenticate",
        _ => return false,
    };
    head.values(name).any(authenticates_connections)
}

enum Turn {
    Moved,
    Blocked,
    Done,
}

impl<'a, S: Socket + std::fmt::Debug + 'static> Exchange<'a, S> {
    fn new(
        connection: &'a HttpConnection,
        request: &'a mut Request,
        Upstream { backend, identity, given, is_tied }: Upstream<S>,
        now: Moment,
    ) -> Self {
        let is_tied = is_tied || request.is_about_the_connection;
        let content_waits = request.expects_continue.then(|| now + CONTINUE);
        Self {
            connection,
            request,
            backend,
            identity,
            given,
            must_end: false,
            interim: 0,
            has_begun: false,
            is_refused: false,
            backend_stays: false,
            is_tied,
            client_stays: false,
            is_tunnel: false,
            is_stream_tunnel: false,
            content_waits,
            connected: now,
            asked: now,
            progress: now,
            window: (now, 0),
        }
    }

    /// Carries content both ways until the response is complete, or the protocol changes.
    async fn relay<R: Runtime<Socket = S>>(&mut self, client: &mut impl Client) -> Result<(), Fault> {
        loop {
            let mut rounds = 0;
            {
                let began = R::now();
                let mut lent = self.connection.lend();
                let mut io = lent.io(&self.connection.waker);
                while rounds < ROUNDS {
                    let now = R::now();
                    match self.turn(client, &mut io, now)? {
                        Turn::Moved if now.since(began) >= TURN => rounds = ROUNDS,
                        Turn::Moved => rounds += 1,
                        Turn::Blocked => break,
                        Turn::Done => return Ok(()),
                    }
                }
            }
            if rounds > 0 {
                self.progress = R::now();
            }
            if rounds == ROUNDS {
                R::yield_now().await;
                continue;
            }
            self.pause::<R>(client).await?;
        }
    }

    fn turn(&mut self, client: &mut impl Client, io: &mut Io<'_>, now: Moment) -> Result<Turn, Fault> {
        let mut moved = match self.send_request(client, io, now) {
            // Its response has begun, and it takes no more of the request: what it sent is still passed on.
            Err(fault) if self.has_begun && fault.is_of_backend() => {
                io.buffers.out.clear();
                self.is_refused = true;
                false
            }
            sent => sent?,
        };
        if !self.has_begun {
            moved |= self.read_response(client, io, now)?;
            if self.is_tunnel {
                return Ok(Turn::Done);
            }
        }
        if self.has_begun {
            if client.accepts(io)? && !self.backend.has_ended() {
                moved |= self.backend.pump(client, io)?;
            }
            client.flush(&mut io.output())?;
            if self.backend.has_ended() && client.is_done() {
                return Ok(Turn::Done);
            }
        }
        Ok(if moved { Turn::Moved } else { Turn::Blocked })
    }

    /// The head, and content as far as it has come.
    fn send_request(
        &mut self,
        client: &mut impl Client,
        io: &mut Io<'_>,
        now: Moment,
    ) -> Result<bool, Fault> {
        if self.is_refused || !self.backend.accepts(io)? {
            return Ok(false);
        }
        let given = std::mem::replace(&mut self.given, self.request.head.len());
        self.backend.put_head(&self.request.head, given, &mut io.output());
        if std::mem::take(&mut self.must_end) {
            self.backend.put_end(&[], &[], &mut io.output())?;
        }
        let waits = self.content_waits.is_some_and(|until| now < until)
            || (self.request.wants_upgrade && !self.is_stream_tunnel);
        let moved = if client.has_ended() || waits { false } else { client.pump(&mut self.backend, io)? };
        self.backend.flush(&mut io.output())?;
        if moved {
            self.asked = now;
        }
        Ok(moved)
    }

    /// Reads heads of responses, and passes them on.
    fn read_response(
        &mut self,
        client: &mut impl Client,
        io: &mut Io<'_>,
        now: Moment,
    ) -> Result<bool, Fault> {
        if !client.accepts(io)? || !self.backend.read_head(io)? {
            return Ok(false);
        }
        while !self.has_begun && !self.is_tunnel && self.take_head(client, io, now)? {}
        if !self.has_begun {
            // A final head goes with the content that came with it.
            client.flush(&mut io.output())?;
        }
        if !self.has_begun && !self.is_tunnel && self.backend.is_over() {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::CLOSED_EARLY);
            return Err(Fault::of(reason.because("before its response")));
        }
        Ok(true)
    }

    /// Takes a head, if it has come whole.
    fn take_head(&mut self, client: &mut impl Client, io: &mut Io<'_>, now: Moment) -> Result<bool, Fault> {
        let limits = &self.connection.http.model.head;
        let mut fields = std::mem::take(&mut io.buffers.fields);
        let (text, mut progress) = self.backend.head();
        let parsed = parse_response(text, &mut progress, &mut fields, limits);
        let head = match parsed {
            Ok(None) => {
                self.backend.set_progress(progress);
                io.buffers.fields = fields;
                return Ok(false);
            }
            Err(error) => return Err(Fault::message(Step::Relay, &error)),
            Ok(Some(head)) => head,
        };
        if self.request.record.status.is_none() && !head.is_interim() {
            self.request.record.seconds.answer = now.since(self.connected);
            self.backend.in_use().answered(now.since(self.connected));
        }
        // The backend wants the content, or has decided without it.
        self.content_waits = None;
        let (length, is_switch) = (head.length, head.status == 101);
        if is_switch && !self.request.wants_upgrade {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            let reason = reason.because("it changed the protocol without a request for that");
            return Err(Fault::of(reason));
        }
        let is_final = !head.is_interim();
        self.interim += u32::from(!is_final);
        if self.interim > INTERIM {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            return Err(Fault::of(reason.because(format!("more than {INTERIM} interim responses"))));
        }
        let mut framing = Framing::None;
        if is_final {
            self.request.record.status = Some(head.status);
            framing = head.framing(self.request.method());
            // A client that has not sent all of its request cannot send another one.
            self.client_stays =
                client.has_ended() && client.keeps_open(self.request, &head) && !self.connection.closes(now);
            self.backend_stays = head.keeps_open;
            self.judge(&head);
            self.is_tied |= is_about_the_connection(&head);
            self.is_tunnel = is_switch && client.can_tunnel();
            self.is_stream_tunnel = is_switch && !self.is_tunnel;
            self.has_begun = !self.is_tunnel;
        }
        let is_over = self.has_begun && self.backend.ended_with_its_head();
        let after = After { keeps_open: self.client_stays || is_switch, is_over };
        client.put_head(&head, self.request, after, &mut io.output());
        io.buffers.fields = fields;
        if self.is_stream_tunnel {
            self.backend.begin_tunnel(length, limits);
            return Ok(true);
        }
        self.backend.begin_content(length, framing, limits);
        if self.has_begun && self.backend.has_ended() {
            client.put_end(&[], &[], &mut io.output())?;
        }
        Ok(true)
    }

    /// Whether the status counts for the health of the backend.
    fn judge(&self, head: &ResponseHead<'_>) {
        if self.connection.http.model.count_failures && head.status >= 500 {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            let reason = reason.because(format!("status {}", head.status));
            self.backend.in_use().failed(&reason, policy(self.connection));
        }
    }

    /// Waits until something may move, and applies the timeouts.
    async fn pause<R: Runtime>(&mut self, client: &mut impl Client) -> Result<(), Fault> {
        let timeouts = &self.connection.http.model.timeouts;
        let now = R::now();
        let is_sending = !client.has_ended() && !self.is_tunnel;
        let moved = client.received() + client.sent();
        if now.since(self.window.0) >= SLOW_WINDOW {
            self.window = (now, moved);
        }
        let is_slow = moved - self.window.1 < SLOW_BYTES && !self.request.is_grpc && !self.is_stream_tunnel;
        let slow = if is_slow { self.window.0 + SLOW_WINDOW } else { Moment::NEVER };
        let idle = self.connection.service.limits.idle;
        let content = self.progress.deadline(if self.is_stream_tunnel { idle } else { timeouts.content });
        let (deadline, side, cause, status) = if self.has_begun && client.is_full() {
            (content.min(slow), Side::Client, Cause::ContentDeadline, None)
        } else if self.has_begun {
            (content, Side::Backend, Cause::ContentDeadline, None)
        } else if is_sending && !self.backend.is_full() {
            (content.min(slow), Side::Client, Cause::RequestDeadline, Some(408))
        } else {
            (self.asked.deadline(timeouts.answer), Side::Backend, Cause::AnswerDeadline, Some(504))
        };
        let until =
            self.content_waits.filter(|until| now < *until).map_or(deadline, |until| until.min(deadline));
        let woken = R::wait(until).await;
        self.connection.check_phase(Step::Relay).map_err(Fault::gone)?;
        client.check()?;
        if woken == Woken::Deadline && R::now() >= deadline {
            return Err(Fault { status, ..Fault::gone(CloseReason::new(Step::Relay, side, cause)) });
        }
        Ok(())
    }

    /// Whether another backend, or another connection, may be asked: nothing of a response has come, and nothing that is done twice.
    fn can_retry(&self, client: &impl Client, fault: &Fault) -> bool {
        let is_lost = matches!(fault.reason.cause, Cause::Socket(_) | Cause::Truncated);
        let is_repeatable = self.backend.is_reused() && self.request.is_idempotent && is_lost;
        let is_untouched = client.received() == 0 && self.backend.head().0.is_empty();
        fault.is_of_backend()
            && is_untouched
            && (self.backend.has_refused() || (is_repeatable && self.request.is_empty()))
    }

    /// A kept connection that its backend has closed says nothing about the backend.
    fn count_failure(&mut self, fault: &Fault) {
        if !fault.is_of_backend() {
            return;
        }
        let name = &self.identity.endpoint.name;
        self.request.record.backend_failures.add(name, fault.reason.cause);
        // A connection that has served nothing, and on which HTTP/2 fails, is one that could not be made.
        let is_connecting = fault.reason.cause == Cause::Http2;
        if (is_connecting || self.connection.http.model.count_failures) && !self.backend.is_reused() {
            self.backend.in_use().failed(&fault.reason, policy(self.connection));
        }
    }

    /// The response is complete.
    fn finish<R: Runtime<Socket = S>>(self, client: &mut impl Client) -> Outcome<S> {
        let Self { connection, request, backend, identity, .. } = self;
        let now = R::now();
        request.record.seconds.relay = now.since(self.connected + request.record.seconds.answer);
        if self.is_tunnel {
            return match backend.into_tunnel() {
                Some(tunnel) => Outcome::Tunnel(tunnel),
                None => Outcome::Close,
            };
        }
        let scratch = &mut connection.thread.scratch.borrow_mut();
        let stays = self.backend_stays && client.has_ended() && connection.pools() && !self.is_stream_tunnel;
        if stays && self.is_tied {
            backend.keep(|backend, _| h1_backend::tie(connection, identity, backend), scratch);
        } else if stays {
            let (pool, bounds) = (&connection.thread.pool, connection.http.pool_bounds());
            let metrics = &connection.service.metrics;
            backend.keep(
                |backend, scratch| backend.keep(metrics, (pool, &identity), bounds, now, scratch),
                scratch,
            );
        } else if client.has_ended() {
            backend.close(scratch);
        }
        if self.client_stays { Outcome::KeepOpen } else { Outcome::Close }
    }
}
