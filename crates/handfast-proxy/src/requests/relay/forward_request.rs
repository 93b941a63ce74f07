//! A request that its backends answer: connect → relay, and again where that is safe.
//!
//! In: a request, its client, and the route that it takes. Out: a response, or an error, or an abort.

use std::time::Duration;

use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;

use crate::requests::client::Client;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::head::fault::Fault;
use crate::requests::head::refusal::retry_after;
use crate::requests::relay::send_answer::{Ended, answer_with};
use crate::requests::relay::upstream::Search;
use crate::requests::relay::{Exchange, Outcome};
use crate::worker::services::Chosen;

/// Forwards a request.
pub(crate) async fn forward<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    chosen: Chosen,
) -> Ended<R::Socket> {
    let deadline = R::turn().deadline(connection.service.model.limits.handshake);
    let mut search = Search { connection, chosen, deadline, tried: Vec::new(), may_reuse: true };
    let mut retries = request.limits().retries;
    loop {
        let fault = match search.run::<R>(request, client).await {
            Err(fault) => fault,
            Ok(upstream) => {
                if request.affinity.is_some() {
                    let is_secure = connection.facts.tls_version.is_some();
                    request.set_backend_cookie(&upstream.identity.endpoint.name, is_secure);
                }
                let mut exchange = Exchange::new(connection, request, upstream, client.has_ended());
                match exchange.relay::<R>(client).await {
                    Ok(()) if client.hands_over() => {
                        return Ok(Outcome::Elsewhere(Box::new(exchange.into_rest())));
                    }
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
        let answer = OwnResponse::error(status, Some(request));
        let answer = if status == 503 {
            answer.with(vec![retry_after(try_again(connection, &fault))])
        } else {
            answer
        };
        return answer_with::<R>(connection, client, request, &answer, Some(fault)).await;
    }
}

/// Returns the time after which a client that found no backend should try again: the pause of a backend that is down, or zero if all of
/// them are busy.
fn try_again(connection: &HttpConnection, fault: &Fault) -> Duration {
    match fault.reason.cause {
        Cause::QueueFull | Cause::QueueTimeout => Duration::ZERO,
        _ => connection.service.model.limits.backend_retry,
    }
}
