//! Step 5, connect: a backend that answers, or the reason why none does.
//!
//! In: a secured client. Out: a connected backend that has been given the client's first bytes. A backend that refuses
//! is counted, and the next one is tried; each at most once for a connection.

use std::rc::Rc;
use std::time::Duration;

use handfast_leg::Socket;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_net::fault::Fault;

use crate::backends::{Attempt, Endpoint, InUse, Pick};
use crate::cause::Cause;
use crate::connection::Connection;
use crate::reason::{CloseReason, Side, Step};
use crate::route::Choice;
use crate::runtime::{Dialling, Runtime};
use crate::standing::{Patience, State};

/// A backend that answered.
#[derive(Debug)]
pub(crate) struct Connected<S> {
    pub(crate) backend: S,
    /// How much of the client's first bytes it has been given.
    pub(crate) sent: usize,
    /// Counts the connection at its endpoint.
    pub(crate) in_use: InUse,
}

/// A backend that has not answered for so long fails, even when it is the client that does not wait any longer: the
/// kernel has repeated its SYN by then (RFC 6298 §2.1). Else a backend that is down would not be found out by clients
/// that are less patient than `limits.connect`.
const UNANSWERED: Duration = Duration::from_secs(1);

/// How often a connection looks for the outcome of another one's trial: soon at first, as most fail or succeed at once.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Dials backends until one answers.
pub(crate) async fn dial<R: Runtime>(
    connection: &mut Connection<R>,
    choice: Choice,
    first: &[u8],
) -> Result<Connected<R::Socket>, CloseReason> {
    let begun = R::now();
    let service = Rc::clone(&connection.account.service);
    let group = service.group(choice);
    let client = connection.account.record.client.map(|client| client.ip());
    let mut tried: Vec<Rc<Endpoint>> = Vec::new();
    let mut last = None;
    let outcome = loop {
        let endpoint = match group.pick(R::now(), &tried, client) {
            Pick::Nothing => break Err(last.unwrap_or_else(|| service.no_backend(choice))),
            Pick::Wait(endpoint) => {
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match others_outcome(connection, &endpoint).await {
                    Ok(None) => continue,
                    Ok(Some(reason)) => last = Some(reason),
                    Err(reason) => break Err(reason),
                }
                endpoint
            }
            Pick::Dial(attempt) => {
                let endpoint = Rc::clone(&attempt.endpoint);
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match begin(connection, &endpoint, first).await {
                    Ok((backend, sent)) => {
                        let in_use = attempt.connected(R::now().since(begun));
                        break Ok(Connected { backend, sent, in_use });
                    }
                    Err(Ended::Connection(reason, fault)) => {
                        if let Some(fault) = fault {
                            failed(connection, attempt, &fault);
                        }
                        break Err(reason);
                    }
                    Err(Ended::Attempt(fault)) => {
                        failed(connection, attempt, &fault);
                        last = Some(CloseReason::fault(Step::Connect, Side::Backend, &fault));
                    }
                }
                endpoint
            }
        };
        tried.push(endpoint);
    };
    connection.account.record.seconds.connect = R::now().since(begun);
    outcome
}

fn failed<R: Runtime>(connection: &mut Connection<R>, attempt: Attempt, fault: &Fault) {
    let limits = &connection.account.service.limits;
    let patience = Patience { failures: limits.backend_failures, pause: limits.backend_retry };
    connection.account.record.backend_failed(&attempt.endpoint.name, fault.cause.into());
    attempt.failed(fault, patience);
}

/// Waits while another connection tries out a backend. `None`: it is to be looked at again; else why it failed.
async fn others_outcome<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
) -> Result<Option<CloseReason>, CloseReason> {
    let standing = &endpoint.standing;
    let failures = standing.failures();
    let mut look = LOOK.0;
    // Between two looks one trial may have failed and another begun.
    while standing.state() == State::OnTrial && standing.failures() == failures {
        let again = connection.deadline.min(R::now() + look);
        look = (look * 2).min(LOOK.1);
        let woken = connection.wait(Step::Connect, again).await?;
        check_client(connection)?;
        if woken == Woken::Deadline && again == connection.deadline {
            return Err(CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline));
        }
    }
    if standing.state() == State::Up || standing.failures() == failures {
        return Ok(None);
    }
    let cause = standing.cause().map_or(Cause::NoBackend, Cause::Socket);
    connection.account.record.backend_failed(&endpoint.name, cause);
    let reason = CloseReason::new(Step::Connect, Side::Backend, cause);
    Ok(Some(reason.because("another connection that tried it at this time found that out")))
}

/// What an attempt that failed ended.
enum Ended {
    /// Itself; another backend may be tried.
    Attempt(Fault),
    /// The whole connection; and what the backend did, if it was given time enough to answer.
    Connection(CloseReason, Option<Fault>),
}

async fn begin<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
    first: &[u8],
) -> Result<(R::Socket, usize), Ended> {
    let begun = R::now();
    let deadline = connection.deadline.min(begun.deadline(connection.account.service.limits.connect));
    let mut dialling = R::dial(&endpoint.address, !first.is_empty()).map_err(Ended::Attempt)?;
    let mut over = false;
    loop {
        // Also when it is over: the answer may have come while this thread was busy with others.
        if let Some(sent) = dialling.advance(first).map_err(Ended::Attempt)? {
            return Ok((dialling.into_socket(), sent));
        }
        if over && deadline == connection.deadline {
            let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline);
            return Err(Ended::Connection(reason, unanswered::<R>(dialling, begun)));
        }
        if over {
            return Err(Ended::Attempt(dialling.give_up()));
        }
        let woken = connection.wait(Step::Connect, deadline).await;
        let woken = woken.map_err(|reason| Ended::Connection(reason, None))?;
        if let Err(reason) = check_client(connection) {
            return Err(Ended::Connection(reason, unanswered::<R>(dialling, begun)));
        }
        over = woken == Woken::Deadline;
    }
}

/// Whether the client is still there.
fn check_client<R: Runtime>(connection: &mut Connection<R>) -> Result<(), CloseReason> {
    let socket = connection.client().socket_mut();
    if !socket.is_broken() {
        return Ok(());
    }
    Err(match socket.check() {
        Err(fault) => CloseReason::fault(Step::Connect, Side::Client, &fault),
        Ok(()) => CloseReason::new(Step::Connect, Side::Client, Cause::CLOSED_EARLY),
    })
}

/// What a backend did that was given up before its own time was over; `None` when it was given no time to speak of.
fn unanswered<R: Runtime>(mut dialling: R::Dialling, begun: Moment) -> Option<Fault> {
    if R::now().since(begun) < UNANSWERED {
        return None;
    }
    match dialling.advance(&[]) {
        Ok(Some(_)) => None,
        Ok(None) => Some(dialling.give_up()),
        Err(fault) => Some(fault),
    }
}
