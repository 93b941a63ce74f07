//! Copies of requests, for servers that no client waits for (`mirror`).
//!
//! In: a request as its backend receives it. Out: the same request at a server of the mirror, whose response is dropped. A request without
//! content is copied when it begins; one with content when it was answered, if its content came whole and is small enough to be kept.

use std::rc::Rc;

use handfast_leg::runtime::Runtime;
use handfast_observe::metrics::CopyEnd;

use crate::requests::client::discarding::DiscardingClient;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::request::Request;
use crate::requests::head::copy::Copy;
use crate::requests::relay::own_request;

/// Copies that one thread has under way. A mirror that answers slowly must not fill the memory.
const MAX_COPIES: usize = 256;

/// Sends a copy, in a separate task.
pub(crate) fn send<R: Runtime>(connection: &HttpConnection, request: &Request, copy: Copy)
where
    R::Socket: 'static,
{
    let metrics = &connection.service.metrics;
    if !copy.is_whole() || Rc::strong_count(&copy.mirror.under_way) > MAX_COPIES {
        metrics.request_copied(CopyEnd::Dropped);
        return;
    }
    let Copy { mirror, content, .. } = copy;
    let under_way = Rc::clone(&mirror.under_way);
    let connection = connection.towards(&mirror.servers);
    let mut own = Request::own(request.head.clone(), &connection, &connection.http.fallback);
    own.framing = request.framing;
    own.is_head = request.is_head;
    own.is_idempotent = request.is_idempotent;
    R::spawn(async move {
        let mut discarding = DiscardingClient::new(content, own.is_empty());
        let ended = own_request::send::<R>(&connection, &mut own, &mut discarding).await;
        let end = if ended.is_ok() { CopyEnd::Answered } else { CopyEnd::Failed };
        connection.service.metrics.request_copied(end);
        drop(under_way);
    });
}
