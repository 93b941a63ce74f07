//! Which requests a route takes, read and checked against what is around it.

use super::Around;
use crate::keys;
use crate::model::{Address, RateKey, RouteAccess};
use crate::problem::Fault;
use crate::table::Table;

/// The limits and conditions of a route; `None` when something is wrong, which is then noted.
pub(super) fn access(section: &Table<'_>, around: &Around<'_>) -> Option<RouteAccess> {
    let rate = section.optional(&keys::ROUTE_RATE_LIMIT);
    let is_wrong = rate.is_none() && section.written(&keys::ROUTE_RATE_LIMIT).is_some();
    if rate.as_ref().is_some_and(|rate| rate.by == RateKey::Client) && !have_addresses(around) {
        let what = "`rate-limit` has no effect: clients of unix sockets have no address";
        let hint =
            "write `by = \"route\"`, or `by = \"header:x-real-ip\"` if the proxy in front sends this field";
        section.error(&keys::ROUTE_RATE_LIMIT, Fault::new(what).hint(hint));
    }
    (!is_wrong).then_some(RouteAccess { rate })
}

/// Whether some clients have an address, as far as this matters. PROXY headers and trusted fields may name one at a unix socket.
fn have_addresses(around: &Around<'_>) -> bool {
    around.http.is_none()
        || around.names_clients
        || around.listen.is_empty()
        || around.listen.iter().any(|address| !matches!(address.value, Address::Unix(_)))
}
