//! A request to cancel a query of PostgreSQL, which a client sends on a separate connection, before TLS.
//!
//! In: the request. Out: the close reason. The request carries the key that a server gave to the connection whose query it is about. It
//! does not name one of several backends, so each of them gets it; the others do not have the key and ignore it.

use std::rc::Rc;

use handfast_leg::{Leg, Socket as _};
use handfast_net::engine::Woken;

use crate::backends::connector;
use crate::backends::endpoint::{Attempt, Endpoint};
use crate::backends::standing::Availability;
use crate::backends::tls::BackendTlsClient;
use crate::path::connect::{AttemptError, AttemptPlan, attempt, attempt_time, wait_for_backend};
use crate::path::connection::Connection;
use crate::path::proxy_header_out;
use crate::worker::services::Chosen;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Most backends that one request is sent to: a client without a login must not cause more connections than this.
const MAX_BACKENDS: usize = 16;

/// Passes a request on to every backend of the service that is not marked down, one after another.
pub(crate) async fn cancel<R: Runtime>(connection: &mut Connection<R>, request: &[u8]) -> CloseReason {
    let service = Rc::clone(&connection.account.service);
    // One that is taken out of use may still serve connections that it has.
    let is_reachable = |endpoint: &Endpoint| {
        matches!(endpoint.standing.availability(), Availability::Up | Availability::Out)
    };
    let backends = service.endpoints(is_reachable, MAX_BACKENDS);
    let mut reached = 0;
    let mut last = None;
    for (endpoint, dialler) in &backends {
        connection.account.record.backend = Some(Rc::clone(&endpoint.name));
        match send(connection, endpoint, dialler.as_deref(), request).await {
            Ok(()) => reached += 1,
            Err(AttemptError::Connection(reason, _)) => return reason,
            Err(AttemptError::Attempt(reason)) => last = Some(reason),
        }
    }
    if reached == 0 {
        return last.unwrap_or_else(|| service.no_backend(Chosen::SERVICE));
    }
    let detail = format!("a request to cancel a query, passed on to {reached} of {}", backends.len());
    CloseReason::new(Step::Relay, Side::Client, Cause::Finished).because(detail)
}

/// Gives one backend the request, and waits until it closes: then it has acted on it.
async fn send<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Rc<Endpoint>,
    dialler: Option<&BackendTlsClient>,
    request: &[u8],
) -> Result<(), AttemptError> {
    let begun = R::now();
    let header = proxy_header_out::header(connection);
    let plan = AttemptPlan { dialler, header, first: request, greeting: None };
    let picked = Attempt::without_trial(endpoint);
    let mut leg = match attempt(connection, endpoint, &plan).await {
        Ok(connected) => connected.leg,
        Err(ended) => {
            if let AttemptError::Attempt(reason) = &ended {
                picked.failed(reason, connection.account.backend_failed(endpoint, reason));
            }
            return Err(ended);
        }
    };
    let _in_use = picked.connected(R::now().since(begun), true);
    if leg.is_secured() {
        leg.hold(R::now());
        leg.write(request, &mut connection.account.thread.scratch.borrow_mut().records)
            .map_err(|broken| AttemptError::Attempt(CloseReason::broken(Step::Connect, &broken)))?;
    }
    leg.socket_mut().finish_at_drop();
    wait_for_its_end(connection, &mut leg).await
}

/// However it ends: what it sends has no meaning here.
async fn wait_for_its_end<R: Runtime>(
    connection: &mut Connection<R>,
    leg: &mut Leg<R::Socket>,
) -> Result<(), AttemptError> {
    let until = attempt_time(connection).deadline;
    loop {
        match connector::read(leg, &mut connection.account.thread.scratch.borrow_mut()) {
            Err(_) => return Ok(()),
            Ok(Some(_)) if R::now() < until => continue,
            Ok(_) => {}
        }
        let woken = wait_for_backend(connection, until).await;
        let woken = woken.map_err(|reason| AttemptError::Connection(reason, None))?;
        if woken == Woken::Deadline {
            return Ok(());
        }
    }
}
