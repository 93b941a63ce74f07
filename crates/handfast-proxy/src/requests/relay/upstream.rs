//! Step connect of a request: a connection to a backend, kept or new.
//!
//! In: a route, and a client that waits. Out: a backend with the request's head sent or in its buffer; or why there is none. A backend that
//! refuses is counted, and the next one is tried; each at most once for a request.

use std::rc::Rc;

use handfast_config::model::{BackendVersion, Concurrency, MissingCloseNotify};
use handfast_leg::Socket;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::RequestPart;

use crate::backends::connector::{
    self, AttemptTime, Cancellation, ConnectContext, ConnectFailure, ConnectPlan, Connected, TlsPlan,
};
use crate::backends::endpoint::{Attempt, Endpoint, InUse, Pick};
use crate::backends::opening::Opening;
use crate::backends::pool::{Identity, SharedConnection};
use crate::backends::slots::Slot;
use crate::backends::standing::FailurePolicy;
use crate::backends::tls::BackendTlsClient;
use crate::backends::trial::{self, TrialEnd};
use crate::requests::backend::Backend;
use crate::requests::backend::h1_backend::{self, Http1Backend};
use crate::requests::backend::h2_backend::{self, Http2Backend};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::request::Request;
use crate::requests::head::fault::Fault;
use crate::worker::services::Chosen;

/// A backend for a request.
pub(crate) struct Upstream<S: Socket> {
    pub(crate) backend: Backend<S>,
    pub(crate) identity: Identity,
    /// Bytes of the request's head that are sent, or kept by the leg.
    pub(crate) given: usize,
    /// Its connection was this client's own.
    pub(crate) is_tied: bool,
    /// Time at which the search ended.
    pub(crate) found: Moment,
}

/// The search for a backend: what was tried for a request, over its retries too.
pub(crate) struct Search<'a> {
    pub(crate) connection: &'a HttpConnection,
    pub(crate) chosen: Chosen,
    pub(crate) deadline: Moment,
    pub(crate) tried: Vec<Rc<Endpoint>>,
    /// True if a kept connection may serve.
    pub(crate) may_reuse: bool,
}

/// A connection that was kept.
enum ReusableConnection<S: Socket> {
    /// For one request; and whether it is of this client alone.
    Http1(Box<h1_backend::Connection<S>>, bool),
    /// A stream of one that several requests share.
    Http2(Backend<S>),
}

/// Scope of an attempt's failure: the attempt alone, or the request.
enum AttemptError {
    /// Itself; another backend may be tried.
    Attempt(CloseReason),
    /// The request.
    Request(Fault),
}

impl Search<'_> {
    /// Finds a connection for a request.
    ///
    /// **Errors**: no backend could be reached, or the client has left.
    pub(crate) async fn run<R: Runtime>(
        &mut self,
        request: &mut Request,
        client: &mut impl Cancellation,
    ) -> Result<Upstream<R::Socket>, Fault> {
        request.enter(RequestPart::Connect, R::now());
        let service = &self.connection.service;
        let address = self.connection.facts.client.map(|client| client.ip());
        let mut last = None;
        loop {
            let group = service.group(self.chosen);
            let picked = match &request.affinity {
                None => group.pick(R::turn(), &self.tried, address),
                Some(affinity) => affinity.pick(group, R::turn(), &self.tried, address),
            };
            let (endpoint, error) = match picked {
                Pick::Nothing => {
                    let reason = last.unwrap_or_else(|| service.no_backend(self.chosen));
                    let status = if reason.side == Side::Backend { 502 } else { 503 };
                    return Err(Fault { status: Some(status), ..Fault::gone(reason) });
                }
                Pick::Wait(endpoint) => match self.wait_for_trial::<R>(&endpoint, request, client).await {
                    Ok(()) => continue,
                    Err(error) => (endpoint, error),
                },
                Pick::Dial(mut picked) => {
                    if let Some(limit) = &self.connection.http.model.concurrency {
                        // Boxed, because most requests need no place for it.
                        match Box::pin(self.slot::<R>(limit, picked, request, client)).await {
                            Ok(attempt) => picked = attempt,
                            Err(fault) => return Err(fault),
                        }
                    }
                    let endpoint = Rc::clone(&picked.endpoint);
                    request.set_attempted_backend(&endpoint.name);
                    match self.attempt::<R>(picked, request, client).await {
                        Ok(upstream) => return Ok(upstream),
                        Err(error) => (endpoint, error),
                    }
                }
            };
            self.tried.push(endpoint);
            match error {
                AttemptError::Attempt(reason) => last = Some(reason),
                AttemptError::Request(fault) => return Err(fault),
            }
        }
    }

    /// A place among the requests of a backend, of the one that was picked if it has one.
    async fn slot<R: Runtime>(
        &mut self,
        limit: &Concurrency,
        first: Attempt,
        request: &mut Request,
        client: &mut impl Cancellation,
    ) -> Result<Attempt, Fault> {
        let service = &self.connection.service;
        let group = service.group(self.chosen);
        let address = self.connection.facts.client.map(|client| client.ip());
        // That of an attempt before.
        request.slot = None;
        let known = self.tried.len();
        let takes_backups = group.is_backup(&first.endpoint);
        let mut picked = Some(first);
        while let Some(attempt) = picked {
            if let Some(slot) = service.slots.take(&attempt.endpoint.name, limit.requests) {
                request.slot = Some(slot);
                self.tried.truncate(known);
                return Ok(attempt);
            }
            self.tried.push(Rc::clone(&attempt.endpoint));
            picked = match group.pick(R::turn(), &self.tried, address) {
                // A client that belongs to a backend waits for it.
                _ if request.affinity.is_some() => None,
                Pick::Dial(next) if takes_backups || !group.is_backup(&next.endpoint) => Some(next),
                _ => None,
            };
        }
        let full = self.tried.split_off(known);
        let begun = R::now();
        request.enter(RequestPart::Queue, begun);
        let slot = self.wait_for_slot::<R>(limit, &full, client).await;
        let granted = R::now();
        request.enter(RequestPart::Connect, granted);
        // The time in the queue has its own limit.
        self.deadline = self.deadline + granted.since(begun);
        let slot = slot?;
        let endpoint = full.iter().find(|endpoint| endpoint.name == slot.name).unwrap_or(&full[0]);
        let attempt = Attempt::without_trial(endpoint);
        request.slot = Some(slot);
        Ok(attempt)
    }

    /// Waits until one of these backends has less requests than it may have.
    async fn wait_for_slot<R: Runtime>(
        &self,
        limit: &Concurrency,
        full: &[Rc<Endpoint>],
        client: &mut impl Cancellation,
    ) -> Result<Slot, Fault> {
        let overloaded = |cause| Fault::new(Step::Connect, Side::Backend, cause, 503);
        let names = full.iter().map(|endpoint| Rc::clone(&endpoint.name));
        let slots = &self.connection.service.slots;
        let ticket = slots.wait(names, (limit.requests, limit.queue), R::waker());
        let ticket = ticket.ok_or_else(|| overloaded(Cause::QueueFull))?;
        let deadline = R::now().deadline(limit.wait);
        loop {
            if let Some(slot) = ticket.granted() {
                return Ok(slot);
            }
            client.before_wait().map_err(Fault::gone)?;
            let woken = R::wait(deadline).await;
            client.after_wait().map_err(Fault::gone)?;
            if woken == Woken::Deadline && R::turn() >= deadline {
                return ticket.granted().ok_or_else(|| overloaded(Cause::QueueTimeout));
            }
        }
    }

    async fn wait_for_trial<R: Runtime>(
        &self,
        endpoint: &Endpoint,
        request: &mut Request,
        client: &mut impl Cancellation,
    ) -> Result<(), AttemptError> {
        match trial::wait::<R>(endpoint, self.deadline, client).await {
            Ok(()) => Ok(()),
            Err(TrialEnd::Failed(cause)) => {
                request.record.backend_failures.add(&endpoint.name, cause);
                let reason = CloseReason::new(Step::Connect, Side::Backend, cause);
                Err(AttemptError::Attempt(reason.because(trial::FAILED_TRIAL_DETAIL)))
            }
            Err(TrialEnd::Cancelled(reason)) => Err(AttemptError::Request(Fault::gone(reason))),
            Err(TrialEnd::Deadline) => Err(AttemptError::Request(late())),
        }
    }

    async fn attempt<R: Runtime>(
        &self,
        picked: Attempt,
        request: &mut Request,
        client: &mut impl Cancellation,
    ) -> Result<Upstream<R::Socket>, AttemptError> {
        let tls = self.connection.service.dialler(self.chosen).cloned();
        let identity = Identity { endpoint: Rc::clone(&picked.endpoint), tls };
        let (backend, is_tied) = match self.kept::<R>(&identity, request)? {
            Some(ReusableConnection::Http1(kept, is_tied)) => {
                let backend = Http1Backend::reused(*kept, |open| picked.reused(open), request.framing);
                (Backend::Http1(Box::new(backend)), is_tied)
            }
            Some(ReusableConnection::Http2(backend)) => (backend, false),
            // Boxed, because most requests need no place for it.
            None => return Box::pin(self.connect::<R>(picked, identity, request, client)).await,
        };
        request.record.is_reused = Some(true);
        Ok(Upstream { backend, identity, given: 0, is_tied, found: R::now() })
    }

    /// A new connection.
    async fn connect<R: Runtime>(
        &self,
        picked: Attempt,
        identity: Identity,
        request: &mut Request,
        client: &mut impl Cancellation,
    ) -> Result<Upstream<R::Socket>, AttemptError> {
        request.record.is_reused = Some(false);
        let begun = R::now();
        let limit = self.connection.service.model.limits.connect;
        let time = AttemptTime { begun, deadline: self.deadline.min(begun.deadline(limit)) };
        let connected = match self.dial::<R>(&identity, request, time, client).await {
            Ok(connected) => connected,
            Err(failure) => return Err(self.failed::<R>(picked, failure, time, request)),
        };
        let given = connected.given;
        let found = R::now();
        let in_use = picked.connected(found.since(begun), true);
        if !self.is_http2() {
            let backend = Backend::Http1(Box::new(Http1Backend::new(connected, in_use, request.framing)));
            return Ok(Upstream { backend, identity, given, is_tied: false, found });
        }
        let backend = self.open_http2::<R>(connected, in_use, &identity, request);
        Ok(Upstream { backend, identity, given: 0, is_tied: false, found: R::now() })
    }

    /// A request on a new connection that others will share.
    fn open_http2<R: Runtime>(
        &self,
        connected: Connected<R::Socket>,
        in_use: InUse,
        identity: &Identity,
        request: &Request,
    ) -> Backend<R::Socket> {
        let endpoint = &identity.endpoint;
        let open = in_use.into_idle().expect("it is new, so nothing shares it");
        let (_, requests) = self.connection.http.pool_bounds();
        let bounds = (requests, self.connection.http.model.pool.idle);
        let thread = &self.connection.thread;
        let shared = h2_backend::open::<R>(connected, open, self.connection, bounds);
        if self.connection.pools() && thread.uses(identity, &self.connection.service) {
            thread.pool.share(identity, Rc::clone(&shared) as Rc<dyn SharedConnection>);
        }
        self.http2::<R>(shared, InUse::shared(endpoint), request)
    }

    fn is_http2(&self) -> bool {
        self.connection.http.model.backend_version == BackendVersion::Http2
    }

    /// A connection that was kept, if one can serve this request.
    fn kept<R: Runtime>(
        &self,
        identity: &Identity,
        request: &Request,
    ) -> Result<Option<ReusableConnection<R::Socket>>, AttemptError>
    where
        R::Socket: 'static,
    {
        if !self.may_reuse || !self.connection.pools() {
            return Ok(None);
        }
        let thread = &self.connection.thread;
        if self.is_http2() {
            let found =
                thread.pool.find_shared(identity, h2_backend::Shared::is_over, h2_backend::Shared::has_room);
            let Some(shared) = found else { return Ok(None) };
            let backend = self.http2::<R>(shared, InUse::shared(&identity.endpoint), request);
            return Ok(Some(ReusableConnection::Http2(backend)));
        }
        let scratch = &mut thread.scratch.borrow_mut();
        let tied = h1_backend::take_for_client(self.connection, identity, scratch);
        let is_tied = tied.is_some();
        let Some(kept) = tied.or_else(|| thread.pool.take(identity, R::turn(), scratch)) else {
            return Ok(None);
        };
        Ok(Some(ReusableConnection::Http1(kept, is_tied)))
    }

    /// A request on a shared connection.
    fn http2<R: Runtime>(
        &self,
        shared: Rc<h2_backend::Shared>,
        in_use: InUse,
        request: &Request,
    ) -> Backend<R::Socket> {
        // That of the connection to the backend: servers compare both.
        let scheme = if self.connection.service.dialler(self.chosen).is_some() { "https" } else { "http" };
        Backend::Http2(Box::new(Http2Backend::new::<R>(shared, in_use, scheme, request.is_empty())))
    }

    async fn dial<R: Runtime>(
        &self,
        Identity { endpoint, tls }: &Identity,
        request: &Request,
        time: AttemptTime,
        client: &mut impl Cancellation,
    ) -> Result<Connected<R::Socket>, ConnectFailure> {
        let HttpConnection { service, thread, facts, .. } = self.connection;
        let tls: Option<&BackendTlsClient> = tls.as_deref();
        let session = tls.map(|tls| move |now| tls.session(endpoint, None, now));
        let way = (service.through.as_deref(), endpoint.destination.as_ref());
        let model = tls.map(|tls| &tls.settings().model);
        let is_lenient = model.is_some_and(|model| model.missing_close_notify == MissingCloseNotify::End);
        let plan = ConnectPlan {
            source: service.source(facts.client),
            opening: Opening::towards(way, self.connection.proxy_header.clone(), model, || endpoint.host()),
            own_header: None,
            tls: session.as_ref().map(|session| TlsPlan { session, is_lenient }),
            greeting: None,
            first: if self.is_http2() { &[] } else { request.head.text() },
        };
        let mut context = ConnectContext { time, buffers: &thread.scratch, cancellation: client, tls: None };
        let result = connector::connect::<R, _>(&endpoint.address, plan, &mut context).await;
        if let Some(outcome) = context.tls.filter(|outcome| outcome.is_done)
            && let Some(agreed) = &outcome.agreed
        {
            service.metrics.backend_handshake(agreed, outcome.handshake, outcome.crypto);
        }
        let mut connected = result?;
        if let Some(session) = connected.leg.session() {
            self.check_version(session.agreed().alpn.as_deref())?;
        }
        if connected.leg.is_secured() {
            // The rest of the handshake is sent together with the head.
            connected.leg.hold(R::now());
        } else {
            connected.leg.no_delay();
        }
        connected.leg.socket().set_timeouts(service.model.limits.socket_timeouts());
        Ok(connected)
    }

    /// **Errors**: HTTP/2 is configured, and TLS has not agreed on it.
    fn check_version(&self, agreed: Option<&str>) -> Result<(), ConnectFailure> {
        if !self.is_http2() || agreed == Some("h2") {
            return Ok(());
        }
        let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::BackendProtocol);
        Err(ConnectFailure::Attempt(reason.because("it did not agree on h2 by ALPN")))
    }

    /// Counts what the backend did, and decides whether another one is tried.
    fn failed<R: Runtime>(
        &self,
        picked: Attempt,
        failure: ConnectFailure,
        time: AttemptTime,
        request: &mut Request,
    ) -> AttemptError {
        let (error, of_backend) = match failure {
            ConnectFailure::Attempt(reason) => (None, Some(reason)),
            ConnectFailure::Cancelled { by, until_now } => (Some(Fault::gone(by)), until_now),
            ConnectFailure::Deadline { until_now, .. } if time.deadline != self.deadline => {
                (None, Some(until_now))
            }
            ConnectFailure::Deadline { until_now, .. } => {
                (Some(late()), time.had_enough_time::<R>().then_some(until_now))
            }
        };
        if let Some(reason) = &of_backend {
            request.record.backend_failures.add(&picked.endpoint.name, reason.cause);
            picked.failed(reason, policy(self.connection));
        }
        match (error, of_backend) {
            (Some(fault), _) => AttemptError::Request(fault),
            (None, Some(reason)) => AttemptError::Attempt(reason),
            (None, None) => AttemptError::Request(late()),
        }
    }
}

/// Failures in a row that a backend may have.
pub(crate) fn policy(connection: &HttpConnection) -> FailurePolicy {
    let limits = &connection.service.model.limits;
    FailurePolicy { failures: limits.backend_failures, pause: limits.backend_retry }
}

fn late() -> Fault {
    Fault::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline, 504)
}
