//! Sending responses of our own: errors, redirects, fixed responses of routes.
//!
//! In: an [`OwnResponse`], and a client. Out: it is with the kernel, or the client is gone.

use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::RequestPart;

use crate::requests::client::Client;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::head::fault::Fault;
use crate::requests::relay::Outcome;

/// Outcome of an exchange; as an error, with the reason of its failure.
pub(crate) type Ended<S> = Result<Outcome<S>, (Outcome<S>, CloseReason)>;

/// Sends a response of our own. The connection stays open if the request has come whole and broke no rule.
pub(crate) async fn answer_with<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    answer: &OwnResponse,
    fault: Option<Fault>,
) -> Ended<R::Socket> {
    // A client that is refused by its route has broken no rule.
    let is_broken = |fault: &Fault| fault.reason.side == Side::Client && fault.reason.step != Step::Route;
    let is_clients = fault.as_ref().is_some_and(is_broken);
    let close = !request.keeps_open || !client.has_ended() || is_clients || connection.closes(R::turn());
    request.record.status = Some(answer.status);
    request.enter(RequestPart::Relay, R::now());
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
    answer: &OwnResponse,
    close: bool,
) -> Result<(), Fault> {
    let limits = request.map_or(&connection.http.fallback.limits, Request::limits);
    let deadline = R::turn().deadline(limits.content);
    let mut is_put = false;
    loop {
        {
            let mut lent = connection.lend();
            let mut io = lent.io();
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
        let woken = wait::<R>(connection, client, deadline).await?;
        if woken == Woken::Deadline && R::turn() >= deadline {
            return Err(Fault::gone(CloseReason::new(Step::Relay, Side::Client, Cause::ContentDeadline)));
        }
    }
}

/// Waits until something may move; a client may leave though nothing was read from it yet.
///
/// **Errors**: the client has left, or the process ends.
pub(crate) async fn wait<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    until: Moment,
) -> Result<Woken, Fault> {
    client.before_wait().map_err(Fault::gone)?;
    let woken = R::wait(until).await;
    connection.check_phase(Step::Relay).map_err(Fault::gone)?;
    client.check()?;
    Ok(woken)
}
