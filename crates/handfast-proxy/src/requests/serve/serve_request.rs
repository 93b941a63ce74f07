//! One request: route → connect → relay → close.
//!
//! In: a request whose head was accepted, and its client. Out: a response, or an error, or an abort; and the request's record. Both
//! directions move at the same time, and neither is kept whole.

use std::time::Duration;

use handfast_leg::runtime::Runtime;
use handfast_observe::request_record::{HttpVersion, RequestPart};

use crate::requests::cached;
use crate::requests::client::Client;
use crate::requests::client::compressing::Compressing;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::{Action, Refused, Request, note_refused};
use crate::requests::files;
use crate::requests::head::fault::Fault;
use crate::requests::head::refusal::Refusal;
use crate::requests::relay::Outcome;
use crate::requests::relay::forward_request::forward;
use crate::requests::relay::mirror;
use crate::requests::relay::send_answer::{Ended, answer_with, send_answer};
use crate::requests::serve::identity;

/// Serves a request.
pub(crate) async fn serve<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    mut request: Box<Request>,
) -> Outcome<R::Socket>
where
    R::Socket: 'static,
{
    if matches!(request.action, Action::Authenticate(_)) {
        request.enter(RequestPart::Connect, R::now());
        // Boxed, because most requests need no place for it.
        Box::pin(identity::identify::<R>(connection, client, &mut request)).await;
    }
    let client = &mut Compressing::new(client, connection, &request);
    let outcome = match &request.action {
        Action::Forward(chosen) => {
            let chosen = *chosen;
            if let Some(copy) = request.copy.take_if(|copy| copy.is_whole()) {
                mirror::send::<R>(connection, &request, *copy);
            }
            let outcome = match request.cached.take() {
                None => forward::<R>(connection, client, &mut request, chosen).await,
                // Boxed, because most requests need no place for it.
                Some(plan) => {
                    Box::pin(cached::serve::<R>(connection, client, &mut request, chosen, *plan)).await
                }
            };
            if let Some(copy) = request.copy.take() {
                mirror::send::<R>(connection, &request, *copy);
            }
            outcome
        }
        Action::Respond(response) => {
            let answer = OwnResponse::fixed(response, &request);
            answer_with::<R>(connection, client, &mut request, &answer, None).await
        }
        Action::Redirect(status, location) => {
            let answer = OwnResponse::redirect(*status, location.clone());
            answer_with::<R>(connection, client, &mut request, &answer, None).await
        }
        Action::File(target) => {
            let target = target.clone();
            // Boxed, because most requests need no place for it.
            match Box::pin(files::serve::<R>(connection, client, &mut request, target)).await {
                Ok(ended) => ended,
                Err(refusal) => refuse_by_route::<R>(connection, client, &mut request, *refusal).await,
            }
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
            let answer = OwnResponse::file(content);
            answer_with::<R>(connection, client, &mut request, &answer, None).await
        }
    };
    request.count_moved(client.moved());
    request.record.coded = client.coded();
    let (outcome, failure) = match outcome {
        Ok(outcome) => (outcome, None),
        Err((outcome, reason)) => (outcome, Some(reason)),
    };
    request.end(failure, R::now);
    outcome
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
        Some(content) => OwnResponse::passed(status, fields, content),
        None => OwnResponse::error(status, Some(request)).with(fields),
    };
    let fault = Fault { status: Some(status), ..Fault::gone(reason) };
    answer_with::<R>(connection, client, request, &answer, Some(fault)).await
}

/// Refuses a request whose head is wrong, or that is not for this connection. `head`: its version, and how long it took to arrive.
pub(crate) async fn refuse<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    Refused { mut request, fault }: Refused,
    head: (HttpVersion, Duration),
) -> Outcome<R::Socket> {
    let Some(status) = fault.status else { return Outcome::Abort(fault.reason) };
    let answer = OwnResponse::error(status, request.as_deref());
    if let Some(request) = &mut request {
        request.enter(RequestPart::Relay, R::now());
    }
    let began = R::now();
    let sent = send_answer::<R>(connection, client, request.as_deref(), &answer, true).await;
    match request {
        Some(mut request) => {
            (request.record.status, request.record.broken_rule) = (Some(status), fault.rule);
            request.count_moved(client.moved());
            request.end(Some(fault.reason), R::now);
        }
        None => note_refused(connection, &fault, head, (client.sent(), R::now().since(began))),
    }
    match sent {
        Ok(()) => Outcome::Close,
        Err(fault) => Outcome::Abort(fault.reason),
    }
}
