//! Step connect of a request: a connection to a backend, kept or new.
//!
//! In: a route, and a client that waits. Out: a backend with the request's head sent or in its buffer; or why there is none. A backend that
//! refuses is counted, and the next one is tried; each at most once for a request.

use std::rc::Rc;

use handfast_config::model::MissingCloseNotify;
use handfast_leg::Socket;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::backends::connector::{
    self, AttemptTime, Cancellation, ConnectContext, ConnectFailure, ConnectPlan, Connected, TlsPlan,
};
use crate::backends::endpoint::{Attempt, Endpoint, Pick};
use crate::backends::opening::Opening;
use crate::backends::pool::Identity;
use crate::backends::standing::FailurePolicy;
use crate::backends::tls::BackendTlsClient;
use crate::backends::trial::{self, TrialEnd};
use crate::http::fault::Fault;
use crate::http::h1_backend::{self, Http1Backend};
use crate::http::request::Request;
use crate::http::session::HttpConnection;
use crate::worker::services::Chosen;

/// A backend for a request.
pub(crate) struct Upstream<S: Socket> {
    pub(crate) backend: Http1Backend<S>,
    pub(crate) identity: Identity,
    /// Bytes of the request's head that are sent, or kept by the leg.
    pub(crate) given: usize,
}

/// The search for a backend: what was tried for a request, over its retries too.
pub(crate) struct Search<'a> {
    pub(crate) connection: &'a HttpConnection,
    pub(crate) chosen: Chosen,
    pub(crate) deadline: Moment,
    pub(crate) tried: Vec<Rc<Endpoint>>,
    /// Whether a kept connection may serve.
    pub(crate) may_reuse: bool,
}

/// What the failure of an attempt ends.
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
        let begun = R::now();
        let service = &self.connection.service;
        let address = self.connection.facts.client.map(|client| client.ip());
        let mut last = None;
        let outcome = loop {
            let (endpoint, error) = match service.group(self.chosen).pick(R::now(), &self.tried, address) {
                Pick::Nothing => {
                    let reason = last.unwrap_or_else(|| service.no_backend(self.chosen));
                    let status = if reason.side == Side::Backend { 502 } else { 503 };
                    break Err(Fault { reason, status: Some(status) });
                }
                Pick::Wait(endpoint) => match self.wait_for_trial::<R>(&endpoint, request, client).await {
                    Ok(()) => continue,
                    Err(error) => (endpoint, error),
                },
                Pick::Dial(picked) => {
                    let endpoint = Rc::clone(&picked.endpoint);
                    request.record.backend = Some(Rc::clone(&endpoint.name));
                    match self.attempt::<R>(picked, request, client).await {
                        Ok(upstream) => break Ok(upstream),
                        Err(error) => (endpoint, error),
                    }
                }
            };
            self.tried.push(endpoint);
            match error {
                AttemptError::Attempt(reason) => last = Some(reason),
                AttemptError::Request(fault) => break Err(fault),
            }
        };
        request.record.seconds.connect += R::now().since(begun);
        outcome
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
                Err(AttemptError::Attempt(reason.because(trial::FOUND_OUT)))
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
        let framing = request.framing;
        if self.may_reuse {
            let thread = &self.connection.thread;
            let kept = thread.pool.take(&identity, R::now(), &mut thread.scratch.borrow_mut());
            if let Some(kept) = kept {
                let kept: h1_backend::Connection<R::Socket> = *kept;
                let backend = Http1Backend::reused(kept, |open| picked.reused(open), framing);
                request.record.is_reused = true;
                return Ok(Upstream { backend, identity, given: 0 });
            }
        }
        request.record.is_reused = false;
        let begun = R::now();
        let limit = self.connection.service.limits.connect;
        let time = AttemptTime { begun, deadline: self.deadline.min(begun.deadline(limit)) };
        match self.dial::<R>(&identity, request, time, client).await {
            Ok(connected) => {
                let given = connected.given;
                let in_use = picked.connected(R::now().since(begun), true);
                Ok(Upstream { backend: Http1Backend::new(connected, in_use, framing), identity, given })
            }
            Err(failure) => Err(self.failed::<R>(picked, failure, time, request)),
        }
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
        let way = (service.through.as_deref(), endpoint.behind.as_ref());
        let model = tls.map(|tls| &tls.settings().model);
        let is_lenient = model.is_some_and(|model| model.missing_close_notify == MissingCloseNotify::End);
        let plan = ConnectPlan {
            source: service.source(facts.client),
            opening: Opening::towards(way, self.connection.proxy_header.clone(), model, || endpoint.host()),
            own_header: None,
            tls: session.as_ref().map(|session| TlsPlan { session, is_lenient }),
            greeting: None,
            first: &request.head,
        };
        let mut context = ConnectContext { time, buffers: &thread.scratch, cancellation: client, tls: None };
        let result = connector::connect::<R, _>(&endpoint.address, plan, &mut context).await;
        if let Some(outcome) = context.tls.filter(|outcome| outcome.is_done)
            && let Some(agreed) = &outcome.agreed
        {
            service.metrics.backend_handshake(agreed, outcome.handshake, outcome.crypto);
        }
        let mut connected = result?;
        if connected.leg.is_secured() {
            // What is left of the handshake goes with the head.
            connected.leg.hold(R::now());
        } else {
            connected.leg.no_delay();
        }
        connected.leg.socket().set_timeouts(service.limits.socket_timeouts());
        Ok(connected)
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
                (Some(late()), time.was_enough::<R>().then_some(until_now))
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
    let limits = &connection.service.limits;
    FailurePolicy { failures: limits.backend_failures, pause: limits.backend_retry }
}

fn late() -> Fault {
    Fault::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline, 504)
}
