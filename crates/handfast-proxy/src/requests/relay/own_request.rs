//! Requests of the proxy's own: to a server that is asked about a request, and to one that receives a copy of it.
//!
//! In: a request that is neither counted nor logged, and what takes the place of its client. Out: the response went there whole, or not.

use handfast_leg::runtime::Runtime;

use crate::requests::client::Client;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::request::Request;
use crate::requests::head::fault::Fault;
use crate::requests::relay::Exchange;
use crate::requests::relay::upstream::Search;

/// Sends a request and relays its response, with the retries of its route.
pub(crate) async fn send<R: Runtime>(
    connection: &HttpConnection,
    request: &mut Request,
    client: &mut impl Client,
) -> Result<(), Fault> {
    let deadline = R::turn().deadline(connection.service.model.limits.handshake);
    let chosen = request.route.chosen(connection.chosen);
    let mut search = Search { connection, chosen, deadline, tried: Vec::new(), may_reuse: true };
    let mut retries = request.limits().retries;
    loop {
        let upstream = search.run::<R>(request, client).await?;
        let mut exchange = Exchange::new(connection, request, upstream, client.has_ended());
        match exchange.relay::<R>(client).await {
            Ok(()) => {
                exchange.finish::<R>(client);
                return Ok(());
            }
            Err(fault) => {
                let can_retry = retries > 0 && !exchange.has_begun() && exchange.can_retry(client, &fault);
                exchange.count_failure(&fault);
                if !can_retry {
                    return Err(fault);
                }
                retries -= 1;
                search.may_reuse = false;
            }
        }
    }
}
