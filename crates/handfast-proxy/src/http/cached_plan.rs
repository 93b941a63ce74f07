//! How a request takes part in the cache of its service: its key, and what the rules are for its path.

use std::fmt::Write;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use handfast_cache::{Heuristic, Key, Policy};
use handfast_config::model;
use handfast_wire::http1::{RequestHead, Target};

use crate::cache::ServiceCache;
use crate::http::connection::HttpConnection;
use crate::http::sender::Identified;
use crate::worker::http::ThreadRequestRoute;

/// The longest time for which a response without a statement is fresh, in seconds.
const HEURISTIC_LIMIT: u64 = 86_400;
/// A larger object is not fetched whole for a client that wants a part of it.
pub(crate) const WHOLE: u64 = 16 * 1024 * 1024;

/// How a request takes part.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) cache: Arc<ServiceCache>,
    pub(crate) key: Key,
    pub(crate) policy: Policy,
}

impl Plan {
    /// `None`: the service has no cache, the route does not use it, or the request has no URL.
    pub(crate) fn new(
        head: &RequestHead<'_>,
        connection: &HttpConnection,
        route: Option<&ThreadRequestRoute>,
        sender: Option<&Identified>,
    ) -> Option<Box<Self>> {
        let cache = connection.http.cache.as_ref()?;
        if route.is_some_and(|route| !route.is_cached) {
            return None;
        }
        let identity = identity(connection, route, sender);
        let key = Key::of(connection.scheme(), head, identity.as_deref())?;
        let (Target::Origin(path) | Target::Absolute { path, .. }) = head.target else { return None };
        let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
        let is_immutable = str::from_utf8(path).is_ok_and(|path| cache.model.immutable.fit(path));
        Some(Box::new(Self { cache: Arc::clone(cache), key, policy: policy(&cache.model, is_immutable) }))
    }
}

/// What distinguishes requests for the same URL whose responses may differ, though no field of the client says so: a route that not every request
/// for the URL takes, and who sends it, where the backend is told.
fn identity(
    connection: &HttpConnection,
    route: Option<&ThreadRequestRoute>,
    sender: Option<&Identified>,
) -> Option<String> {
    let mut text = String::new();
    let mut add = |what: &str, value: &[u8]| {
        // Writing to memory cannot fail.
        let _ = write!(text, "{what}={};", HEXLOWER.encode(value));
    };
    if let Some(route) = route.filter(|route| route.is_for_some) {
        add("route", route.name.as_bytes());
    }
    if let Some(certificate) = &connection.client_certificate {
        add("certificate", certificate.fingerprint.as_bytes());
    }
    if let Some(sender) = sender {
        add("user", sender.user.as_deref().unwrap_or_default().as_bytes());
        sender.added.iter().for_each(|(name, value)| add(name, value));
    }
    (!text.is_empty()).then_some(text)
}

fn policy(model: &model::Cache, is_immutable: bool) -> Policy {
    Policy {
        is_immutable,
        object_limit: model.object,
        heuristic: model.heuristic.map(|share| Heuristic {
            percent: u64::from(share.hundredths().div_ceil(100)),
            limit: HEURISTIC_LIMIT,
        }),
        stores_set_cookie: model.stores_set_cookie,
        honours_requests: model.clients_decide,
        // This proxy writes them.
        trusts_forwarding: true,
        reads_surrogate: false,
        stale_while_revalidate: model.while_revalidate.as_secs(),
        stale_if_error: model.if_error.as_secs(),
        fetches_whole: true,
    }
}
