//! Step 5, connect: a backend that answers, or the reason why none does.
//!
//! In: a client that is served from here on. Out: a leg to a backend, secured where the configuration requires it, and whatever belongs
//! to it. How one backend is reached is in `backends/connector.rs`; here is which one, and what its failure means. A backend that refuses
//! is counted, and the next one is tried; each at most once for a connection.

pub(crate) mod attempt;

pub(crate) use attempt::secure;

use std::rc::Rc;
use std::time::Duration;

use handfast_net::engine::Woken;
use handfast_wire::starttls::Greeting;

use self::attempt::{AttemptError, AttemptPlan, ConnectedBackend, attempt};
use crate::backends::endpoint::{Endpoint, Pick};
use crate::backends::standing::Availability;
use crate::path::connection::Connection;
use crate::path::proxy_header_out;
use crate::worker::services::Chosen;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// How a backend is brought to the point where the client's bytes can pass.
#[derive(Debug)]
pub(crate) struct Approach<'a> {
    /// The client's first bytes, for a plain backend; empty where it must greet first.
    pub(crate) first: &'a [u8],
    /// The greeting to wait for.
    pub(crate) greeting: Option<Greeting>,
    /// TLS, where backends have it, begins only later, by [`secure`].
    pub(crate) is_tls_later: bool,
}

/// The first and the longest pause between two looks at another connection's trial: short at first, as most fail or succeed at once.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Dials backends until one answers.
pub(crate) async fn dial<R: Runtime>(
    connection: &mut Connection<R>,
    chosen: Chosen,
    approach: Approach<'_>,
) -> Result<ConnectedBackend<R::Socket>, CloseReason> {
    let begun = R::now();
    let service = Rc::clone(&connection.account.service);
    let Approach { first, greeting, is_tls_later } = approach;
    let dialler = service.dialler(chosen);
    let tls_follows = is_tls_later && dialler.is_some();
    let dialler = dialler.filter(|_| !is_tls_later).cloned();
    let header = proxy_header_out::header(connection);
    let plan = AttemptPlan { service: Rc::clone(&service), dialler, header, first, greeting };
    let group = service.group(chosen);
    let client = connection.account.record.client.map(|client| client.ip());
    let mut tried: Vec<Rc<Endpoint>> = Vec::new();
    let mut last = None;
    let outcome = loop {
        let endpoint = match group.pick(R::now(), &tried, client) {
            Pick::Nothing => break Err(last.unwrap_or_else(|| service.no_backend(chosen))),
            Pick::Wait(endpoint) => {
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match wait_for_trial(connection, &endpoint).await {
                    Ok(None) => continue,
                    Ok(Some(reason)) => last = Some(reason),
                    Err(reason) => break Err(reason),
                }
                endpoint
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
                    Err(AttemptError::Connection(reason, failure)) => {
                        if let Some(failure) = failure {
                            picked.failed(&failure, connection.account.backend_failed(&endpoint, &failure));
                        }
                        break Err(reason);
                    }
                    Err(AttemptError::Attempt(reason)) => {
                        picked.failed(&reason, connection.account.backend_failed(&endpoint, &reason));
                        last = Some(reason);
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

/// Waits while another connection tries out a backend. `None`: it is to be looked at again; else why it failed.
async fn wait_for_trial<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
) -> Result<Option<CloseReason>, CloseReason> {
    let standing = &endpoint.standing;
    let failures = standing.failures();
    let mut pause = POLL_INTERVALS.0;
    // Between two looks one trial may have failed and another begun.
    while standing.availability() == Availability::OnTrial && standing.failures() == failures {
        let again = connection.deadline.min(R::now() + pause);
        pause = (pause * 2).min(POLL_INTERVALS.1);
        let woken = connection.wait_for_backend(again).await?;
        if woken == Woken::Deadline && again == connection.deadline {
            return Err(CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline));
        }
    }
    if standing.availability() == Availability::Up || standing.failures() == failures {
        return Ok(None);
    }
    let cause = standing.cause().unwrap_or(Cause::NoBackend);
    connection.account.record.backend_failed(&endpoint.name, cause);
    let reason = CloseReason::new(Step::Connect, Side::Backend, cause);
    Ok(Some(reason.because("another connection that tried it at this time found that out")))
}
