//! Requests of the proxy's own: to a server that is asked about a request, and to one that receives a copy of it.
//!
//! In: a request that is neither counted nor logged, and what takes the place of its client. Out: the response went there whole, or not.

use std::rc::Rc;

use handfast_leg::runtime::Runtime;

use crate::http::client::Client;
use crate::http::connection::HttpConnection;
use crate::http::fault::Fault;
use crate::http::relay::Exchange;
use crate::http::request::Request;
use crate::http::upstream::Search;
use crate::worker::http::ThreadServers;
use crate::worker::services::Chosen;

/// A connection for requests that are not the client's: nothing of its own.
pub(crate) fn of(connection: &HttpConnection) -> HttpConnection {
    HttpConnection { tied: Rc::default(), totals: Rc::default(), ..connection.clone() }
}

/// A connection whose requests go to these servers.
pub(crate) fn towards(connection: &HttpConnection, servers: &ThreadServers) -> HttpConnection {
    HttpConnection {
        http: Rc::clone(&servers.http),
        chosen: Chosen { route: servers.index, failed: false },
        proxy_header: Vec::new(),
        ..of(connection)
    }
}

/// One request and its response, tried again as its route permits.
pub(crate) async fn exchange<R: Runtime>(
    connection: &HttpConnection,
    request: &mut Request,
    client: &mut impl Client,
) -> Result<(), Fault> {
    let deadline = R::turn().deadline(connection.service.limits.handshake);
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
