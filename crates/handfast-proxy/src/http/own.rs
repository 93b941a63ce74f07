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
use crate::worker::http::ThreadHttp;
use crate::worker::services::Chosen;

/// A connection for requests that are not the client's: nothing of its own.
pub(crate) fn of(connection: &HttpConnection) -> HttpConnection {
    HttpConnection { tied: Rc::default(), totals: Rc::default(), ..connection.clone() }
}

/// The servers of this route, reached as `http` says, in the place of those of a client's connection.
pub(crate) fn towards(connection: &HttpConnection, http: &Rc<ThreadHttp>, route: usize) -> HttpConnection {
    HttpConnection {
        http: Rc::clone(http),
        chosen: Chosen { route, failed: false },
        proxy_header: Vec::new(),
        ..of(connection)
    }
}

/// One request and its response, with a second try where a kept connection was closed.
pub(crate) async fn exchange<R: Runtime>(
    connection: &HttpConnection,
    request: &mut Request,
    client: &mut impl Client,
) -> Result<(), Fault> {
    let deadline = R::turn().deadline(connection.service.limits.handshake);
    let chosen = connection.chosen;
    let mut search = Search { connection, chosen, deadline, tried: Vec::new(), may_reuse: true };
    loop {
        let upstream = search.run::<R>(request, client).await?;
        let mut exchange = Exchange::new(connection, request, upstream, client.has_ended());
        match exchange.relay::<R>(client).await {
            Ok(()) => {
                exchange.finish::<R>(client);
                return Ok(());
            }
            Err(fault) => {
                let can_retry =
                    search.may_reuse && !exchange.has_begun() && exchange.can_retry(client, &fault);
                exchange.count_failure(&fault);
                if !can_retry {
                    return Err(fault);
                }
                search.may_reuse = false;
            }
        }
    }
}
