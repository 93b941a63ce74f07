//! Step 5, connect: a backend that answers, or the reason why none does.
//!
//! In: a client that is served from here on. Out: a leg to a backend, secured where the configuration requires it, and whatever belongs
//! to it. How one backend is reached is in `backends/connector.rs`; here is which one, and what its failure means. A backend that refuses
//! is counted, and the next one is tried; each at most once for a connection.

use std::rc::Rc;

use handfast_leg::Socket;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_tls::client::ClientSession;
use handfast_tls::session::Failure;
use handfast_wire::starttls::Greeting;

use crate::backends::connector::{
    self, AttemptTime, Cancellation, ConnectContext, ConnectFailure, ConnectPlan, Connected, TlsOutcome,
    TlsPlan,
};
use crate::backends::endpoint::{Endpoint, InUse, Pick};
use crate::backends::opening::Opening;
use crate::backends::tls::BackendTlsClient;
use crate::backends::trial::{self, TrialEnd};
use crate::path::account::Account;
use crate::path::connection::Connection;
use crate::path::proxy_header_out;
use crate::worker::services::Chosen;
use crate::worker::waiting_client::WaitingClient;
use handfast_config::model::MissingCloseNotify;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Steps that bring a backend to the point where the client's bytes can pass.
#[derive(Debug)]
pub(crate) struct Approach<'a> {
    /// The client's first bytes, for a plain backend; empty where it must greet first.
    pub(crate) first: &'a [u8],
    /// The greeting to wait for.
    pub(crate) greeting: Option<Greeting>,
    /// TLS, where backends have it, begins only later, by [`secure`].
    pub(crate) is_tls_later: bool,
}

#[derive(Debug)]
pub(crate) struct ConnectedBackend<S: Socket> {
    pub(crate) connected: Connected<S>,
    /// Counts the connection at its endpoint.
    pub(crate) in_use: InUse,
}

/// Parameters of every attempt of a connection.
pub(crate) struct AttemptPlan<'a> {
    /// TLS with the backends, from the beginning; `None`: plain text, or TLS that follows later.
    pub(crate) dialler: Option<&'a BackendTlsClient>,
    /// The PROXY header that the backend gets before everything else; empty where none is sent.
    pub(crate) header: Vec<u8>,
    pub(crate) first: &'a [u8],
    pub(crate) greeting: Option<Greeting>,
}

/// Scope of an attempt's failure: the attempt alone, or the connection.
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
                let reason = CloseReason { detail: until_now.detail.clone(), ..deadline_reached() };
                Self::Connection(reason, time.had_enough_time::<R>().then_some(until_now))
            }
        }
    }

    /// Returns the failure of the backend, if it failed.
    fn of_backend(&self) -> Option<&CloseReason> {
        match self {
            Self::Attempt(reason) => Some(reason),
            Self::Connection(_, failure) => failure.as_ref(),
        }
    }
}

fn deadline_reached() -> CloseReason {
    CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline)
}

pub(crate) async fn dial<R: Runtime>(
    connection: &mut Connection<R>,
    chosen: Chosen,
    Approach { first, greeting, is_tls_later }: Approach<'_>,
) -> Result<ConnectedBackend<R::Socket>, CloseReason> {
    let begun = R::now();
    let service = Rc::clone(&connection.account.service);
    let backend_tls = service.dialler(chosen).map(Rc::as_ref);
    let tls_follows = is_tls_later && backend_tls.is_some();
    let dialler = backend_tls.filter(|_| !is_tls_later);
    let plan = AttemptPlan { dialler, header: proxy_header_out::header(connection), first, greeting };
    let group = service.group(chosen);
    let client = connection.account.record.client.map(|client| client.ip());
    let mut tried: Vec<Rc<Endpoint>> = Vec::new();
    let mut last = None;
    let outcome = loop {
        let (endpoint, error) = match group.pick(R::now(), &tried, client) {
            Pick::Nothing => break Err(last.unwrap_or_else(|| service.no_backend(chosen))),
            Pick::Wait(endpoint) => {
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match wait_for_trial(connection, &endpoint).await {
                    Ok(()) => continue,
                    Err(error) => (endpoint, error),
                }
            }
            Pick::Dial(picked) => {
                let endpoint = Rc::clone(&picked.endpoint);
                // Named before it has answered: a connection that ends while it waits, waited for this one.
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match attempt(connection, &endpoint, &plan).await {
                    Ok(connected) => {
                        let in_use = picked.connected(R::now().since(begun), !tls_follows);
                        break Ok(ConnectedBackend { connected, in_use });
                    }
                    Err(error) => {
                        if let Some(failure) = error.of_backend() {
                            picked.failed(failure, connection.account.backend_failed(&endpoint, failure));
                        }
                        (endpoint, error)
                    }
                }
            }
        };
        match error {
            AttemptError::Attempt(reason) => last = Some(reason),
            AttemptError::Connection(reason, _) => break Err(reason),
        }
        tried.push(endpoint);
    };
    connection.account.record.seconds.connect = R::now().since(begun);
    outcome
}

/// Waits while another connection tries out a backend, until the group is to be asked again.
///
/// **Errors**: that the trial failed, which counts as an attempt of this connection.
async fn wait_for_trial<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
) -> Result<(), AttemptError> {
    let deadline = connection.deadline;
    let mut client = WaitingClient { leg: &mut connection.client, thread: &connection.account.thread };
    let Err(end) = trial::wait::<R>(endpoint, deadline, &mut client).await else { return Ok(()) };
    let cause = match end {
        TrialEnd::Failed(cause) => cause,
        TrialEnd::Cancelled(reason) => return Err(AttemptError::Connection(reason, None)),
        TrialEnd::Deadline => return Err(AttemptError::Connection(deadline_reached(), None)),
    };
    connection.account.record.backend_failures.add(&endpoint.name, cause);
    let reason = CloseReason::new(Step::Connect, Side::Backend, cause);
    Err(AttemptError::Attempt(reason.because(trial::FAILED_TRIAL_DETAIL)))
}

pub(crate) async fn attempt<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
    plan: &AttemptPlan<'_>,
) -> Result<Connected<R::Socket>, AttemptError> {
    let time = attempt_time(connection);
    let header = match endpoint.is_program {
        true => proxy_header_out::header_for_program(connection),
        false => plan.header.clone(),
    };
    let Account { thread, service, record, .. } = &connection.account;
    let (agreed, dialler) = (record.tls.alpn.as_deref(), plan.dialler);
    let session = dialler.map(|dialler| move |now| dialler.session(endpoint, agreed, now));
    let way = (service.through.as_deref(), endpoint.destination.as_ref());
    let model = dialler.map(|dialler| &dialler.settings().model);
    let connect_plan = ConnectPlan {
        source: service.source(record.client),
        opening: Opening::towards(way, header, model, || endpoint.host()),
        own_header: None,
        tls: dialler.zip(session.as_ref()).map(|(dialler, session)| tls_plan(dialler, session)),
        greeting: plan.greeting.clone(),
        first: plan.first,
    };
    let cancellation = WaitingClient { leg: &mut connection.client, thread };
    let mut context = ConnectContext { time, buffers: &thread.scratch, cancellation, tls: None };
    let result = connector::connect::<R, _>(&endpoint.address, connect_plan, &mut context).await;
    let tls = context.tls;
    conclude(connection, time, result, tls.zip(dialler))
}

/// The time that one attempt to connect to a backend has, from now on.
pub(crate) fn attempt_time<R: Runtime>(connection: &Connection<R>) -> AttemptTime {
    let begun = R::now();
    let limit = connection.account.service.model.limits.connect;
    AttemptTime { begun, deadline: connection.deadline.min(begun.deadline(limit)) }
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
    time: AttemptTime,
    result: Result<Connected<R::Socket>, ConnectFailure>,
    tls: Option<(TlsOutcome, &BackendTlsClient)>,
) -> Result<Connected<R::Socket>, AttemptError> {
    let deadline = connection.deadline;
    let mut result = result.map_err(|failure| AttemptError::new::<R>(failure, time, deadline));
    let Some((tls, dialler)) = tls else { return result };
    let Account { record, service, .. } = &mut connection.account;
    // Also where it has not greeted then.
    if let Some(agreed) = tls.agreed.as_ref().filter(|_| tls.is_done) {
        match dialler.protocol_mismatch(record.tls.alpn.as_deref(), agreed.alpn.as_deref()) {
            None => service.metrics.backend_handshake(agreed, tls.handshake, tls.crypto),
            Some(_) if matches!(result, Err(AttemptError::Connection(..))) => {}
            Some(detail) => {
                let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::BackendProtocol);
                result = Err(AttemptError::Attempt(reason.because(detail)));
            }
        }
    }
    // Of the last attempt alone.
    let details = record.details();
    details.backend_crypto = tls.crypto;
    if tls.agreed.is_some() {
        details.backend_handshake = tls.handshake;
    }
    details.backend_tls = tls.agreed;
    result
}

/// Begins TLS with a connected backend; `before` goes first, in the clear. The client has received something of this backend already: no
/// other can be tried.
pub(crate) async fn secure<R: Runtime>(
    connection: &mut Connection<R>,
    dialler: &BackendTlsClient,
    backend: ConnectedBackend<R::Socket>,
    before: &[u8],
) -> Result<ConnectedBackend<R::Socket>, CloseReason> {
    let time = attempt_time(connection);
    let ConnectedBackend { connected: Connected { leg, mut spoken, .. }, in_use } = backend;
    let Account { thread, record, .. } = &connection.account;
    let agreed = record.tls.alpn.as_deref();
    let session = |now| dialler.session(in_use.endpoint(), agreed, now);
    let cancellation = WaitingClient { leg: &mut connection.client, thread };
    let mut context = ConnectContext { time, buffers: &thread.scratch, cancellation, tls: None };
    let plan = tls_plan(dialler, &session);
    let result = connector::secure::<R, _>(leg, before, &plan, &mut context).await;
    let tls = context.tls.map(|tls| (tls, dialler));
    match conclude(connection, time, result, tls) {
        Ok(mut connected) => {
            // The rest of the handshake is sent together with the next bytes, in front of them.
            connected.leg.hold(R::now());
            in_use.record_connected();
            spoken.extend_from_slice(&connected.spoken);
            Ok(ConnectedBackend { connected: Connected { spoken, ..connected }, in_use })
        }
        Err(error) => {
            if let Some(failure) = error.of_backend() {
                in_use.failed(failure, connection.account.backend_failed(in_use.endpoint(), failure));
            }
            let (AttemptError::Attempt(reason) | AttemptError::Connection(reason, _)) = error;
            Err(reason)
        }
    }
}

/// Waits for a backend's socket, until `deadline`; ends with a reason when the client leaves, or the program ends.
pub(crate) async fn wait_for_backend<R: Runtime>(
    connection: &mut Connection<R>,
    deadline: Moment,
) -> Result<Woken, CloseReason> {
    let mut client = WaitingClient { leg: &mut connection.client, thread: &connection.account.thread };
    client.before_wait()?;
    let woken = R::wait(deadline).await;
    client.after_wait()?;
    Ok(woken)
}
