//! The exchange of one request with its backend: content both ways, until the response is complete.
//!
//! In: a request, its client, and a backend that was found. Out: the outcome of the response, and of both connections.

pub(crate) mod auth_server;
pub(crate) mod forward_request;
pub(crate) mod mirror;
pub(crate) mod own_request;
pub(crate) mod send_answer;
pub(crate) mod send_content;
pub(crate) mod upstream;

use std::time::Duration;

use handfast_http::http1::{Field, Framing, Kind, ResponseHead};
use handfast_leg::Socket;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::{HttpVersion, RequestPart};

use crate::backends::pool::Identity;
use crate::requests::backend::Backend;
use crate::requests::backend::h1_backend::{self, Tunnel};
use crate::requests::client::{After, Client};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::{Request, authenticates_connections};
use crate::requests::head::content::{Discard, Io, Sink, Source};
use crate::requests::head::copy::Tee;
use crate::requests::head::fault::{Fault, MAX_INTERIM_RESPONSES};
use crate::requests::head::field_name::is_same_field;
use crate::requests::head::trailers::Filtered;
use crate::requests::relay::send_answer::wait;
use crate::requests::relay::upstream::{Upstream, policy};
use crate::worker::request_routes::SLOW_WINDOW;

/// Time for which the content of a request with `Expect: 100-continue` waits for the backend's response (RFC 9110 §10.1.1).
const CONTINUE: Duration = Duration::from_secs(1);
/// Rounds that one exchange may go on before the others of its thread.
pub(crate) const MAX_ROUNDS: u32 = 16;
/// Time that one exchange may go on before the others of its thread: content can come in many small pieces.
pub(crate) const TURN: Duration = Duration::from_millis(2);

/// Content of a response that is read after a page has taken its place.
const MAX_REPLACED: u64 = 65_536;

/// Outcome of an exchange.
pub(crate) enum Outcome<S: Socket> {
    /// The client's connection can carry another one.
    KeepOpen,
    /// The response is complete, and it announced that it is the last one.
    Close,
    /// The protocol was changed.
    Tunnel(Tunnel<S>),
    /// The response was cut off, or the client is gone.
    Abort(CloseReason),
    /// The content of the response goes elsewhere: its client [hands it over](Client::hands_over).
    Elsewhere(Box<Rest<S>>),
}

/// A response whose head was taken, at its backend.
pub(crate) struct Rest<S: Socket> {
    backend: Backend<S>,
    identity: Identity,
    backend_stays: bool,
    is_tied: bool,
    connected: Moment,
}

/// A request and its backend.
pub(crate) struct Exchange<'a, S: Socket> {
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
    /// The client has a page in the place of the response, whose content goes here.
    replaced: Option<Discard>,
    /// The protocol was changed, and bytes of the client's connection are relayed …
    is_tunnel: bool,
    /// … or content of its stream.
    is_stream_tunnel: bool,
    /// End of the wait of the request's content.
    content_waits: Option<Moment>,
    connected: Moment,
    /// Time at which bytes of the request were last sent; interim responses do not count.
    last_sent: Moment,
    /// Time at which content last moved; start of the present window of [`SLOW_WINDOW`], and the bytes that had moved then.
    progress: Moment,
    window: (Moment, u64),
}

/// Returns true if the response asks for the authentication of its connection.
fn is_about_the_connection(head: &ResponseHead<'_>) -> bool {
    let name = match head.status {
        401 => "www-authenticate",
        407 => "proxy-authenticate",
        _ => return false,
    };
    head.values(name).any(authenticates_connections)
}

enum RoundProgress {
    Moved,
    Blocked,
    Done,
}

impl<'a, S: Socket + std::fmt::Debug + 'static> Exchange<'a, S> {
    /// `has_ended`: all content of the request was consumed before.
    pub(crate) fn new(
        connection: &'a HttpConnection,
        request: &'a mut Request,
        Upstream { backend, identity, given, is_tied, found: now }: Upstream<S>,
        has_ended: bool,
    ) -> Self {
        let is_tied = is_tied || request.is_about_the_connection;
        request.enter(RequestPart::Answer, now);
        let content_waits = request.expects_continue.then(|| now + CONTINUE);
        let is_empty = request.is_empty();
        Self {
            connection,
            request,
            backend,
            identity,
            given,
            must_end: has_ended && !is_empty,
            interim: 0,
            has_begun: false,
            is_refused: false,
            backend_stays: false,
            is_tied,
            client_stays: false,
            replaced: None,
            is_tunnel: false,
            is_stream_tunnel: false,
            content_waits,
            connected: now,
            last_sent: now,
            progress: now,
            window: (now, 0),
        }
    }

    /// Returns the rest of a response, for a request of the proxy itself that takes it.
    pub(crate) fn into_rest(self) -> Rest<S> {
        let Self { backend, identity, backend_stays, is_tied, connected, .. } = self;
        Rest { backend, identity, backend_stays, is_tied, connected }
    }

    /// Goes on with a response whose head was taken, in the present task.
    pub(crate) fn resume<R: Runtime<Socket = S>>(
        connection: &'a HttpConnection,
        request: &'a mut Request,
        Rest { backend, identity, backend_stays, is_tied, connected }: Rest<S>,
        now: Moment,
    ) -> Self {
        backend.adopt::<R>();
        let given = request.head.text().len();
        let upstream = Upstream { backend, identity, given, is_tied, found: connected };
        let begun = Self::new(connection, request, upstream, true);
        Self {
            has_begun: true,
            must_end: false,
            content_waits: None,
            backend_stays,
            progress: now,
            window: (now, 0),
            ..begun
        }
    }

    /// Returns true if a final response has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Carries content both ways until the response is complete, or the protocol changes.
    pub(crate) async fn relay<R: Runtime<Socket = S>>(
        &mut self,
        client: &mut impl Client,
    ) -> Result<(), Fault> {
        loop {
            let mut rounds = 0;
            {
                let mut began = Moment::NEVER;
                let mut lent = self.connection.lend();
                let mut io = lent.io();
                while rounds < MAX_ROUNDS {
                    match self.turn(client, &mut io, R::turn())? {
                        RoundProgress::Moved => rounds += 1,
                        RoundProgress::Blocked => break,
                        RoundProgress::Done => return Ok(()),
                    }
                    // One round is short, whatever it moves; most exchanges have no other, and the clock costs something too.
                    let now = R::now();
                    began = began.min(now);
                    if now.since(began) >= TURN {
                        rounds = MAX_ROUNDS;
                    }
                }
            }
            if rounds > 0 {
                self.progress = R::turn();
                self.request.count_moved(client.moved());
            }
            if rounds == MAX_ROUNDS {
                R::yield_now().await;
                continue;
            }
            self.pause::<R>(client).await?;
        }
    }

    fn turn(
        &mut self,
        client: &mut impl Client,
        io: &mut Io<'_>,
        now: Moment,
    ) -> Result<RoundProgress, Fault> {
        let mut moved = match self.send_request(client, io, now) {
            // It takes no more of the request. Its response is still passed on, and its report about its stream is the better reason.
            Err(fault) if fault.is_of_backend() && (self.has_begun || self.backend.reports_reason()) => {
                io.buffers.out.clear();
                self.is_refused = true;
                false
            }
            sent => sent?,
        };
        if !self.has_begun {
            moved |= self.read_response(client, io, now)?;
            if self.is_tunnel {
                return Ok(RoundProgress::Done);
            }
        }
        if self.has_begun {
            if client.hands_over() {
                return Ok(RoundProgress::Done);
            }
            if let Some(nowhere) = &mut self.replaced {
                // Content that has come is read, so that the connection can be kept; more of it than an error needs costs a connection.
                let is_short = nowhere.bytes < MAX_REPLACED && !self.backend.has_ended();
                let drained = is_short && self.backend.pump(nowhere, io).unwrap_or(false);
                client.flush(&mut io.output())?;
                return Ok(match (drained, client.is_done()) {
                    (true, _) => RoundProgress::Moved,
                    (false, true) => RoundProgress::Done,
                    (false, false) => RoundProgress::Blocked,
                });
            }
            if client.accepts(io)? && !self.backend.has_ended() {
                let fields = self.request.response_fields.as_deref();
                let drops =
                    |field: &Field, text: &[u8]| fields.is_some_and(|fields| fields.drops(field.name(text)));
                moved |= self.backend.pump(&mut Filtered { sink: client, drops }, io)?;
            }
            client.flush(&mut io.output())?;
            if self.backend.has_ended() && client.is_done() {
                return Ok(RoundProgress::Done);
            }
        }
        Ok(if moved { RoundProgress::Moved } else { RoundProgress::Blocked })
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
        let given = std::mem::replace(&mut self.given, self.request.head.text().len());
        self.backend.put_head(&self.request.head, given, io);
        if std::mem::take(&mut self.must_end) {
            self.backend.put_end(&[], &[], &mut io.output())?;
        }
        let waits = self.content_waits.is_some_and(|until| now < until)
            || (self.request.requests_upgrade && self.request.is_empty() && !self.is_stream_tunnel);
        let dropped = &*self.request.route.dropped_trailers;
        let drops = |field: &Field, text: &[u8]| {
            let mut names = dropped.iter().map(|name| name.as_bytes());
            field.kind() == Kind::Forwarding || names.any(|name| is_same_field(field.name(text), name))
        };
        let mut backend = Filtered { sink: &mut self.backend, drops };
        let moved = match &mut self.request.copy {
            _ if client.has_ended() || waits => false,
            None => client.pump(&mut backend, io)?,
            Some(copy) => client.pump(&mut Tee { sink: &mut backend, copy }, io)?,
        };
        self.backend.flush(&mut io.output())?;
        if moved {
            self.last_sent = now;
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
        self.backend.check()?;
        if !client.accepts(io)? || !self.backend.read_head(client.room(), io)? {
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
        let Some(mut received) = self.backend.take_head()? else { return Ok(false) };
        let mut fields = std::mem::take(&mut io.buffers.fields);
        let head = match received.parse(&mut fields, limits) {
            Ok(Some(head)) => head,
            Ok(None) => {
                self.backend.give_back(received);
                io.buffers.fields = fields;
                return Ok(false);
            }
            Err(fault) => {
                self.backend.refuse_head(received, &fault);
                return Err(fault);
            }
        };
        if !head.is_interim() {
            self.request.enter(RequestPart::Relay, now);
        }
        if self.request.record.status.is_none() && !head.is_interim() {
            self.backend.in_use().answered(now.since(self.connected));
        }
        // The backend wants the content, or has decided without it.
        self.content_waits = None;
        let (length, is_switch) = (head.length, head.status == 101);
        if is_switch && !self.request.requests_upgrade {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            let reason = reason.because("it changed the protocol without a request for that");
            return Err(Fault::of(reason));
        }
        if is_switch && !self.request.is_empty() && !client.has_ended() {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            let reason = reason.because("it changed the protocol before it had the content (RFC 9110 §7.8)");
            return Err(Fault::of(reason));
        }
        if is_switch && !self.request.is_accepted_by(&head) {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            return Err(Fault::of(
                reason.because("its Sec-WebSocket-Accept is not that of the key (RFC 6455 §4.1)"),
            ));
        }
        let is_final = !head.is_interim();
        let is_over = is_final && self.backend.ended_with_its_head();
        if is_over && matches!(head.framing(self.request.method()), Framing::Length(1..)) {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            return Err(Fault::of(reason.because("there is a content-length and no content")));
        }
        self.interim += u32::from(!is_final);
        if self.interim > MAX_INTERIM_RESPONSES {
            return Err(Fault::too_many_interim());
        }
        let mut framing = Framing::None;
        if is_final {
            self.request.record.status = Some(head.status);
            framing = head.framing(self.request.method());
            // A client that has not sent all of its request cannot send another one.
            self.client_stays =
                client.has_ended() && client.keeps_open(self.request, &head) && !self.connection.closes(now);
            self.backend_stays = head.keeps_open;
            self.judge(&head, now);
            // Requests of one connection of HTTP/2 are not one after the other: none owns a connection to a backend.
            let is_http2 = self.request.record.protocol == HttpVersion::Http2;
            self.is_tied |= !is_http2 && is_about_the_connection(&head);
            self.is_tunnel = is_switch && client.can_tunnel();
            self.is_stream_tunnel = is_switch && !self.is_tunnel;
            self.has_begun = !self.is_tunnel;
        }
        let after = After { keeps_open: self.client_stays || is_switch, is_over };
        match OwnResponse::for_backend(&head, self.request).filter(|_| is_final) {
            None => client.put_head(&head, self.request, after, &mut io.output()),
            Some(page) => {
                self.replaced = Some(Discard::default());
                client.put_answer(&page, Some(self.request), !self.client_stays, &mut io.output());
            }
        }
        self.backend.give_back(received);
        io.buffers.fields = fields;
        if self.is_stream_tunnel {
            self.backend.begin_tunnel(length, limits);
            return Ok(true);
        }
        self.backend.begin_content(length, framing, limits);
        if self.has_begun && self.backend.has_ended() && self.replaced.is_none() {
            client.put_end(&[], &[], &mut io.output())?;
        }
        Ok(true)
    }

    /// Counts a status that indicates a failure of the backend, if the service counts those.
    fn judge(&self, head: &ResponseHead<'_>, now: Moment) {
        let http = &self.connection.http.model;
        if (http.count_failures || http.failure_ratio.is_some()) && head.status >= 500 {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            let reason = reason.because(format!("status {}", head.status));
            self.count_request(Some(&reason), now);
            if http.count_failures {
                self.backend.in_use().failed(&reason, policy(self.connection));
            }
        }
    }

    /// Counts the request where a share of them may fail.
    fn count_request(&self, failure: Option<&CloseReason>, now: Moment) {
        if let Some(share) = self.connection.http.model.failure_ratio {
            self.backend.in_use().request_ended(failure, share, policy(self.connection), now);
        }
    }

    /// Waits until something may move, and applies the timeouts.
    async fn pause<R: Runtime>(&mut self, client: &mut impl Client) -> Result<(), Fault> {
        let request = &self.request;
        let now = R::turn();
        let is_sending = !client.has_ended() && !self.is_tunnel;
        let moved = client.received() + client.sent();
        if now.since(self.window.0) >= SLOW_WINDOW {
            self.window = (now, moved);
        }
        let is_stream = self.request.is_grpc || self.is_stream_tunnel;
        let is_slow = moved - self.window.1 < self.connection.http.bytes_in_window() && !is_stream;
        let slow = if is_slow { self.window.0 + SLOW_WINDOW } else { Moment::NEVER };
        let idle = self.connection.service.model.limits.idle;
        let content =
            self.progress.deadline(if self.is_stream_tunnel { idle } else { request.limits().content });
        let (deadline, side, cause, status) = if client.is_full() {
            (content.min(slow), Side::Client, Cause::ContentDeadline, None)
        } else if self.has_begun {
            (content, Side::Backend, Cause::ContentDeadline, None)
        } else if is_sending && !self.backend.is_full() {
            (content.min(slow), Side::Client, Cause::RequestDeadline, Some(408))
        } else {
            (
                self.last_sent.deadline(request.limits().answer),
                Side::Backend,
                Cause::AnswerDeadline,
                Some(504),
            )
        };
        let until =
            self.content_waits.filter(|until| now < *until).map_or(deadline, |until| until.min(deadline));
        let woken = wait::<R>(self.connection, client, until).await?;
        if woken == Woken::Deadline && R::turn() >= deadline {
            let reason = CloseReason::new(Step::Relay, side, cause);
            let reason = match deadline == slow {
                true => reason.because(self.connection.http.below_min_rate()),
                false => reason,
            };
            return Err(Fault { status, ..Fault::gone(reason) });
        }
        Ok(())
    }

    /// Returns true if another backend or connection may be tried: no byte of a response has come, and no action would be done twice.
    pub(crate) fn can_retry(&self, client: &impl Client, fault: &Fault) -> bool {
        let is_lost = matches!(fault.reason.cause, Cause::Socket(_) | Cause::Truncated);
        let is_repeatable = self.backend.is_reused() && self.request.is_idempotent && is_lost;
        let is_untouched = client.received() == 0 && self.backend.is_untouched();
        // Content of which nothing was read, not even its end, is still with the client.
        let is_whole = self.request.is_empty() || !client.has_ended();
        fault.is_of_backend() && is_untouched && (self.backend.has_refused() || (is_repeatable && is_whole))
    }

    /// A kept connection that its backend has closed says nothing about the backend.
    pub(crate) fn count_failure(&mut self, fault: &Fault) {
        if !fault.is_of_backend() {
            return;
        }
        let name = &self.identity.endpoint.name;
        self.request.record.backend_failures.add(name, fault.reason.cause);
        if !self.backend.is_reused() {
            self.count_request(Some(&fault.reason), Moment::now());
        }
        // A connection that has served nothing, and on which HTTP/2 fails, is one that could not be made.
        let is_connecting = fault.reason.cause == Cause::Http2;
        if (is_connecting || self.connection.http.model.count_failures) && !self.backend.is_reused() {
            self.backend.in_use().failed(&fault.reason, policy(self.connection));
        }
    }

    /// The response has broken off.
    pub(crate) fn broke_off(&self, fault: &Fault) {
        let is_counted = self.request.record.status.is_some_and(|status| status >= 500);
        if fault.is_of_backend() && !is_counted {
            self.count_request(Some(&fault.reason), Moment::now());
        }
    }

    /// The response is complete.
    pub(crate) fn finish<R: Runtime<Socket = S>>(self, client: &mut impl Client) -> Outcome<S> {
        let now = R::now();
        if self.request.record.status.is_some_and(|status| status < 500) {
            self.count_request(None, now);
        }
        let Self { connection, request, backend, identity, .. } = self;
        request.leave_part(now);
        if self.is_tunnel {
            return match backend.into_tunnel() {
                Some(tunnel) => Outcome::Tunnel(tunnel),
                None => Outcome::Close,
            };
        }
        let mut lent = connection.lend();
        let Io { scratch, buffers, .. } = lent.io();
        // The content of a response that a page replaced is perhaps not read.
        let is_clean = backend.has_ended() && client.has_ended();
        let stays = self.backend_stays && is_clean && connection.pools() && !self.is_stream_tunnel;
        let is_pooled = stays && connection.thread.uses(&identity, &connection.service);
        match backend.into_http1(buffers) {
            Some(backend) if stays && self.is_tied => {
                h1_backend::keep_for_client(connection, identity, *backend)
            }
            Some(backend) if is_pooled => {
                let (pool, bounds) = (&connection.thread.pool, connection.http.pool_bounds());
                backend.keep(&connection.service.metrics, (pool, &identity), bounds, now, scratch);
            }
            // It is in a clean state.
            Some(backend) if is_clean => backend.close(scratch),
            _ => {}
        }
        if self.client_stays { Outcome::KeepOpen } else { Outcome::Close }
    }
}
