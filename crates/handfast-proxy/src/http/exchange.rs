//! One request: route → connect → relay → close.
//!
//! In: a request whose head was accepted, and its client. Out: a response, or an error, or an abort; and the request's record. Both
//! directions move at the same time, and neither is kept whole.

use std::time::Duration;

use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::HttpVersion;

use crate::http::answer::Answer;
use crate::http::client::Client;
use crate::http::connection::HttpConnection;
use crate::http::fault::Fault;
use crate::http::identity;
use crate::http::mirror;
use crate::http::refusal::{Refusal, retry_after};
use crate::http::relay::{Exchange, Outcome};
use crate::http::request::{Action, Refused, Request, note_refused};
use crate::http::upstream::Search;
use crate::worker::services::Chosen;

/// Serves a request.
pub(crate) async fn run<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    mut request: Box<Request>,
) -> Outcome<R::Socket>
where
    R::Socket: 'static,
{
    if matches!(request.action, Action::Authenticate(_)) {
        // Boxed, because most requests need no place for it.
        Box::pin(identity::identify::<R>(connection, client, &mut request)).await;
    }
    let outcome = match &request.action {
        Action::Forward(chosen) => {
            let chosen = *chosen;
            if let Some(copy) = request.copy.take_if(|copy| copy.is_whole()) {
                mirror::send::<R>(connection, &request, *copy);
            }
            let outcome = forward::<R>(connection, client, &mut request, chosen).await;
            if let Some(copy) = request.copy.take() {
                mirror::send::<R>(connection, &request, *copy);
            }
            outcome
        }
        Action::Respond(response) => {
            let answer = Answer::fixed(response);
            answer_with::<R>(connection, client, &mut request, &answer, None).await
        }
        Action::Redirect(status, location) => {
            let answer = Answer::redirect(*status, location.clone());
            answer_with::<R>(connection, client, &mut request, &answer, None).await
        }
        Action::Refuse(refusal) => {
            let refusal = refusal.clone();
            refuse_by_route::<R>(connection, client, &mut request, *refusal).await
        }
        // It was identified above.
        Action::Authenticate(_) => {
            refuse_by_route::<R>(connection, client, &mut request, Refusal::internal()).await
        }
        Action::Challenge(content) => {
            let answer = Answer::file(content);
            answer_with::<R>(connection, client, &mut request, &answer, None).await
        }
    };
    request.record.bytes_from_client = client.received();
    request.record.bytes_to_client = client.sent();
    let (outcome, failure) = match outcome {
        Ok(outcome) => (outcome, None),
        Err((outcome, reason)) => (outcome, Some(reason)),
    };
    request.end(failure);
    outcome
}

/// What came of an exchange; with an error, why it has failed.
type Ended<S> = Result<Outcome<S>, (Outcome<S>, CloseReason)>;

async fn forward<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    chosen: Chosen,
) -> Ended<R::Socket> {
    let deadline = R::turn().deadline(connection.service.limits.handshake);
    let mut search = Search { connection, chosen, deadline, tried: Vec::new(), may_reuse: true };
    let mut retries = request.retries(&connection.http.model);
    loop {
        let fault = match search.run::<R>(request, client).await {
            Err(fault) => fault,
            Ok(upstream) => {
                if request.affinity.is_some() {
                    let is_secure = connection.facts.tls_version.is_some();
                    request.is_at(&upstream.identity.endpoint.name, is_secure);
                }
                let mut exchange = Exchange::new(connection, request, upstream, client.has_ended());
                match exchange.relay::<R>(client).await {
                    Ok(()) => return Ok(exchange.finish::<R>(client)),
                    Err(fault) if exchange.has_begun() => {
                        exchange.broke_off(&fault);
                        request.record.broken_rule = fault.rule;
                        return Err((Outcome::Abort(fault.reason.clone()), fault.reason));
                    }
                    Err(fault) => {
                        let can_retry = exchange.can_retry(client, &fault);
                        exchange.count_failure(&fault);
                        if can_retry && retries > 0 {
                            retries -= 1;
                            request.record.retries += 1;
                            // The other kept connections are of the same age: their backend may have closed them too.
                            search.may_reuse = false;
                            continue;
                        }
                        fault
                    }
                }
            }
        };
        request.record.broken_rule = fault.rule;
        let Some(status) = fault.status else {
            return Err((Outcome::Abort(fault.reason.clone()), fault.reason));
        };
        let answer = Answer::error(status, Some(request));
        let answer = if status == 503 {
            answer.with(vec![retry_after(try_again(connection, &fault))])
        } else {
            answer
        };
        return answer_with::<R>(connection, client, request, &answer, Some(fault)).await;
    }
}

/// When a client should try again that found no backend: when one that is down is tried, or soon where all of them are busy.
fn try_again(connection: &HttpConnection, fault: &Fault) -> Duration {
    match fault.reason.cause {
        Cause::QueueFull | Cause::QueueTimeout => Duration::ZERO,
        _ => connection.service.limits.backend_retry,
    }
}

/// Sends the response of a route that does not take a request.
async fn refuse_by_route<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    refusal: Refusal,
) -> Ended<R::Socket> {
    let Refusal { status, reason, fields, content } = refusal;
    let Some(status) = status else { return Err((Outcome::Abort(reason.clone()), reason)) };
    let answer = match content {
        Some(content) => Answer::passed(status, fields, content),
        None => Answer::error(status, Some(request)).with(fields),
    };
    let fault = Fault { status: Some(status), ..Fault::gone(reason) };
    answer_with::<R>(connection, client, request, &answer, Some(fault)).await
}

/// Sends a response of our own. The connection stays open if the request has come whole and broke no rule.
async fn answer_with<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    answer: &Answer,
    fault: Option<Fault>,
) -> Ended<R::Socket> {
    // A client that is refused by its route has broken no rule.
    let is_broken = |fault: &Fault| fault.reason.side == Side::Client && fault.reason.step != Step::Route;
    let is_clients = fault.as_ref().is_some_and(is_broken);
    let close = !request.keeps_open || !client.has_ended() || is_clients || connection.closes(R::turn());
    request.record.status = Some(answer.status);
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
    answer: &Answer,
    close: bool,
) -> Result<(), Fault> {
    let deadline = R::turn().deadline(connection.http.model.timeouts.content);
    let mut is_put = false;
    loop {
        {
            let mut lent = connection.lend();
            let mut io = lent.io(&connection.waker);
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
        wait::<R>(connection, client, deadline, Side::Client, Cause::ContentDeadline, None).await?;
    }
}

/// Refuses a request whose head is wrong, or that is not for this connection.
pub(crate) async fn refuse<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    Refused { request, fault }: Refused,
    protocol: HttpVersion,
) -> Outcome<R::Socket> {
    let Some(status) = fault.status else { return Outcome::Abort(fault.reason) };
    let answer = Answer::error(status, request.as_deref());
    let sent = send_answer::<R>(connection, client, request.as_deref(), &answer, true).await;
    match request {
        Some(mut request) => {
            (request.record.status, request.record.broken_rule) = (Some(status), fault.rule);
            request.record.bytes_to_client = client.sent();
            request.end(Some(fault.reason));
        }
        None => note_refused(connection, protocol, &fault),
    }
    match sent {
        Ok(()) => Outcome::Close,
        Err(fault) => Outcome::Abort(fault.reason),
    }
}

async fn wait<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    deadline: Moment,
    side: Side,
    cause: Cause,
    status: Option<u16>,
) -> Result<Woken, Fault> {
    let woken = R::wait(deadline).await;
    connection.check_phase(Step::Relay).map_err(Fault::gone)?;
    client.check()?;
    if woken == Woken::Deadline && R::turn() >= deadline {
        return Err(Fault { status, ..Fault::gone(CloseReason::new(Step::Relay, side, cause)) });
    }
    Ok(woken)
}
