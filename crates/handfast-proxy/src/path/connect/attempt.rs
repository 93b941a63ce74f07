//! One attempt at one backend, as a client's connection makes it: what the connector is to do, what it came to, and what that is called.

use std::rc::Rc;

use handfast_leg::Socket;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_tls::client::ClientSession;
use handfast_tls::session::Failure;
use handfast_wire::starttls::Greeting;

use crate::backends::connector::{
    self, AttemptTime, ConnectContext, ConnectFailure, ConnectOutcome, ConnectPlan, Connected, TlsPlan,
};
use crate::backends::endpoint::{Endpoint, InUse};
use crate::backends::opening::Opening;
use crate::backends::tls::BackendTlsClient;
use crate::path::account::Account;
use crate::path::connection::{Connection, WaitingClient};
use crate::worker::services::ThreadService;
use handfast_config::model::MissingCloseNotify;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// A backend that answered.
#[derive(Debug)]
pub(crate) struct ConnectedBackend<S: Socket> {
    pub(crate) connected: Connected<S>,
    /// Counts the connection at its endpoint.
    pub(crate) in_use: InUse,
}

/// What every attempt of a connection has to work with.
pub(crate) struct AttemptPlan<'a> {
    pub(crate) service: Rc<ThreadService>,
    /// TLS with the backends, from the beginning; `None`: plain text, or TLS that follows later.
    pub(crate) dialler: Option<Rc<BackendTlsClient>>,
    /// The PROXY header that the backend gets before everything else; empty where none is sent.
    pub(crate) header: Vec<u8>,
    /// The client's first bytes.
    pub(crate) first: &'a [u8],
    /// The greeting that the backend must send first.
    pub(crate) greeting: Option<Greeting>,
}

impl AttemptPlan<'_> {
    /// What is spoken before TLS, or before the client's bytes.
    fn opening(&self, endpoint: &Endpoint) -> Opening {
        let way = (self.service.through.as_deref(), endpoint.behind.as_ref());
        let tls = self.dialler.as_ref().map(|dialler| &dialler.settings().model);
        Opening::towards(way, self.header.clone(), tls, || endpoint.host())
    }
}

/// What the failure of an attempt ends.
pub(crate) enum AttemptError {
    /// Itself; another backend may be tried.
    Attempt(CloseReason),
    /// The whole connection; and what the backend did, if it had enough time to answer.
    Connection(CloseReason, Option<CloseReason>),
}

impl AttemptError {
    /// `deadline`: the connection's.
    fn new<R: Runtime>(failure: ConnectFailure, time: AttemptTime, deadline: Moment) -> Self {
        match failure {
            ConnectFailure::Attempt(reason) => Self::Attempt(reason),
            ConnectFailure::Cancelled { by, until_now } => Self::Connection(by, until_now),
            ConnectFailure::Deadline { until_now, .. } if time.deadline != deadline => {
                Self::Attempt(until_now)
            }
            ConnectFailure::Deadline { until_now, .. } => {
                let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline);
                let reason = CloseReason { detail: until_now.detail.clone(), ..reason };
                Self::Connection(reason, time.was_enough::<R>().then_some(until_now))
            }
        }
    }
}

/// One attempt at one backend.
pub(crate) async fn attempt<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
    plan: &AttemptPlan<'_>,
) -> Result<Connected<R::Socket>, AttemptError> {
    let time = connection.attempt_time();
    let Account { thread, service, record, .. } = &connection.account;
    let agreed = record.tls.alpn.as_deref();
    let dialler = plan.dialler.as_deref();
    let session = dialler.map(|dialler| move |now| dialler.session(endpoint, agreed, now));
    let connect_plan = ConnectPlan {
        source: service.source(record.client),
        opening: plan.opening(endpoint),
        own_header: None,
        tls: dialler.zip(session.as_ref()).map(|(dialler, session)| tls_plan(dialler, session)),
        greeting: plan.greeting.clone(),
        first: plan.first,
    };
    let cancellation = WaitingClient::new(&mut connection.client, thread);
    let mut context = ConnectContext { time, buffers: &thread.scratch, cancellation };
    let outcome = connector::connect::<R, _>(&endpoint.address, connect_plan, &mut context).await;
    conclude(connection, dialler, outcome, time)
}

fn tls_plan<'a>(
    dialler: &BackendTlsClient,
    session: &'a dyn Fn(Moment) -> Result<ClientSession, Failure>,
) -> TlsPlan<'a> {
    let is_lenient = dialler.settings().model.missing_close_notify == MissingCloseNotify::End;
    TlsPlan { session, is_lenient }
}

/// Records what an attempt came to.
fn conclude<R: Runtime>(
    connection: &mut Connection<R>,
    dialler: Option<&BackendTlsClient>,
    outcome: ConnectOutcome<R::Socket>,
    time: AttemptTime,
) -> Result<Connected<R::Socket>, AttemptError> {
    let deadline = connection.deadline;
    let mut result = outcome.result.map_err(|failure| AttemptError::new::<R>(failure, time, deadline));
    let Some((tls, dialler)) = outcome.tls.zip(dialler) else { return result };
    let Account { record, service, .. } = &mut connection.account;
    // Also where it has not greeted then.
    if let Some(agreed) = tls.agreed.as_ref().filter(|_| tls.is_done) {
        match dialler.at_odds(record.tls.alpn.as_deref(), agreed.alpn.as_deref()) {
            None => service.metrics.backend_handshake(agreed, tls.handshake, tls.crypto),
            Some(_) if matches!(result, Err(AttemptError::Connection(..))) => {}
            Some(detail) => {
                let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::BackendProtocol);
                result = Err(AttemptError::Attempt(reason.because(detail)));
            }
        }
    }
    // Of the last attempt alone.
    let rare = record.details();
    rare.backend_crypto = tls.crypto;
    if tls.agreed.is_some() {
        rare.backend_handshake = tls.handshake;
    }
    rare.backend_tls = tls.agreed;
    result
}

/// Begins TLS with a connected backend; `before` goes first, in the clear. The client has received something of this backend
/// already: no other can be tried.
pub(crate) async fn secure<R: Runtime>(
    connection: &mut Connection<R>,
    dialler: &BackendTlsClient,
    backend: ConnectedBackend<R::Socket>,
    before: &[u8],
) -> Result<ConnectedBackend<R::Socket>, CloseReason> {
    let time = connection.attempt_time();
    let ConnectedBackend { connected: Connected { leg, mut spoken, .. }, in_use } = backend;
    let Account { thread, record, .. } = &connection.account;
    let agreed = record.tls.alpn.as_deref();
    let session = |now| dialler.session(in_use.endpoint(), agreed, now);
    let cancellation = WaitingClient::new(&mut connection.client, thread);
    let mut context = ConnectContext { time, buffers: &thread.scratch, cancellation };
    let plan = tls_plan(dialler, &session);
    let outcome = connector::secure::<R, _>(leg, before, &plan, &mut context).await;
    let (reason, failure) = match conclude(connection, Some(dialler), outcome, time) {
        Ok(mut connected) => {
            // What is left of the handshake goes with the next bytes, in front of them.
            connected.leg.hold(R::now());
            in_use.is_good();
            spoken.extend_from_slice(&connected.spoken);
            return Ok(ConnectedBackend { connected: Connected { spoken, ..connected }, in_use });
        }
        Err(AttemptError::Attempt(reason)) => (reason.clone(), Some(reason)),
        Err(AttemptError::Connection(reason, failure)) => (reason, failure),
    };
    if let Some(failure) = failure {
        let policy = connection.account.backend_failed(in_use.endpoint(), &failure);
        in_use.failed(&failure, policy);
    }
    Err(reason)
}
