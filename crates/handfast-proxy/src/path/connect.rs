//! Step 5, connect: a backend that answers, or the reason why none does.
//!
//! In: a client that is served from here on. Out: a leg to a backend, secured where the service says so, and whatever belongs
//! to it. How one backend is reached is in `backends/connector.rs`; here is which one, and what its failure means. A backend that refuses
//! is counted, and the next one is tried; each at most once for a connection.

mod attempt;
mod cancel;

pub(crate) use attempt::secure_later;
pub(crate) use cancel::cancel;

use std::rc::Rc;
use std::time::Duration;

use handfast_leg::{Leg, Socket};
use handfast_net::engine::Woken;
use handfast_wire::starttls::{Greeting, Protocol};

use self::attempt::{Ended, Wanted, attempt, note_failure};
use crate::backends::connector;
use crate::backends::endpoint::{Endpoint, InUse, Pick};
use crate::backends::standing::State;
use crate::path::connection::Connection;
use crate::path::proxy_header_out;
use crate::worker::services::Choice;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// A backend that answered.
#[derive(Debug)]
pub(crate) struct Connected<S: Socket> {
    pub(crate) leg: Leg<S>,
    /// As [`connector::Connected`] has it.
    pub(crate) given: usize,
    /// The same.
    pub(crate) spoken: Vec<u8>,
    /// Counts the connection at its endpoint.
    pub(crate) in_use: InUse,
    /// What it is to get before TLS begins there (MySQL's request for TLS, which the client has made already).
    pub(crate) request: Vec<u8>,
}

/// How far a backend is brought before it counts as one that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The client's bytes can pass: TLS stands where it is wanted.
    Ready,
    /// The same, and it has greeted, which its client does not expect any more.
    Greeted(Protocol),
    /// It has greeted: TLS begins later, behind what it says to the client.
    MySqlGreeting,
}

/// How often a connection looks for the outcome of another one's trial: soon at first, as most fail or succeed at once.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Dials backends until one answers.
pub(crate) async fn dial<R: Runtime>(
    connection: &mut Connection<R>,
    choice: Choice,
    first: &[u8],
    until: Until,
) -> Result<Connected<R::Socket>, CloseReason> {
    let begun = R::now();
    let service = Rc::clone(&connection.account.service);
    let is_early = until == Until::MySqlGreeting;
    let dialler = service.dialler(choice).filter(|_| !is_early).cloned();
    let tls_follows = is_early && service.dialler(choice).is_some();
    let header = proxy_header_out::header(connection);
    let greeting = match until {
        Until::Ready => None,
        Until::Greeted(protocol) => Greeting::new(protocol),
        Until::MySqlGreeting => Some(Greeting::of_mysql(tls_follows)),
    };
    let wanted = Wanted { service: Rc::clone(&service), dialler, header, first, greeting };
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
            Pick::Dial(picked) => {
                let endpoint = Rc::clone(&picked.endpoint);
                // Named before it has answered: a connection that ends while it waits, waited for this one.
                connection.account.record.backend = Some(Rc::clone(&endpoint.name));
                match attempt(connection, &endpoint, &wanted).await {
                    Ok(connector::Connected { leg, given, spoken }) => {
                        let in_use = picked.connected(R::now().since(begun), !tls_follows);
                        break Ok(Connected { leg, given, spoken, in_use, request: Vec::new() });
                    }
                    Err(Ended::Connection(reason, failure)) => {
                        if let Some(failure) = failure {
                            picked.failed(&failure, note_failure(connection, &endpoint, &failure));
                        }
                        break Err(reason);
                    }
                    Err(Ended::Attempt(reason)) => {
                        picked.failed(&reason, note_failure(connection, &endpoint, &reason));
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
        let woken = connection.wait_for_backend(again).await?;
        if woken == Woken::Deadline && again == connection.deadline {
            return Err(CloseReason::new(Step::Connect, Side::Backend, Cause::HandshakeDeadline));
        }
    }
    if standing.state() == State::Up || standing.failures() == failures {
        return Ok(None);
    }
    let cause = standing.cause().unwrap_or(Cause::NoBackend);
    connection.account.record.backend_failed(&endpoint.name, cause);
    let reason = CloseReason::new(Step::Connect, Side::Backend, cause);
    Ok(Some(reason.because("another connection that tried it at this time found that out")))
}
