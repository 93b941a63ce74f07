//! What a request of a route must meet before anything else is done with it. A request of a route without such conditions has none of this.
//!
//! In: a request's head, and the gate of its route. Out: nothing, or the response that the client receives instead.

use std::net::IpAddr;
use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::Side;
use handfast_wire::http1::RequestHead;

use crate::admission::gate::{Exceeded, Gate};
use crate::http::plain_path;
use crate::http::refusal::{Refusal, retry_after};
use crate::http::rules::RequestFacts;
use crate::worker::http::{ThreadHttp, ThreadRequestRoute};
use handfast_config::model::Share;

/// Whether a request meets the conditions that need no waiting.
pub(crate) fn check(gate: &Gate, facts: &RequestFacts<'_>, now: Moment) -> Result<(), Box<Refusal>> {
    if let Some(detail) = gate.refuses(client(facts)) {
        return Err(forbidden(detail));
    }
    if let Some(rate) = &gate.rate {
        let field = |name: &str| facts.head.values(name).next();
        rate.check(client(facts), field, now).map_err(too_many)?;
    }
    let rules = &gate.certificates;
    if !rules.is_empty() {
        match facts.connection.certificate.as_deref() {
            Some(certificate) if rules.admits(certificate) => {}
            Some(_) => return Err(forbidden("allow-certificates does not have the client's certificate")),
            None => return Err(forbidden("the client has no certificate")),
        }
    }
    Ok(())
}

fn forbidden(detail: impl Into<Box<str>>) -> Box<Refusal> {
    Box::new(Refusal::new(403, Side::Operator, Cause::Forbidden, detail))
}

/// Whether a path surely leads to this route. A backend may read `/a/../b` or `/%62` as `/b`: where that is the path of a route with
/// conditions or a limit, such a request is refused.
///
/// **Cost**: for nearly all paths one look at each byte.
pub(crate) fn check_path(route: &ThreadRequestRoute, facts: &RequestFacts<'_>) -> Result<(), Box<Refusal>> {
    let Some(plain) = plain_path::plain(facts.path) else { return Ok(()) };
    let other = find_route(&facts.connection.http, facts.head, &plain, facts.chance);
    if std::ptr::eq(&**other, route) || other.gate.is_none() {
        return Ok(());
    }
    let detail = "a backend may read its path as that of another route, which does not take every request";
    Err(Box::new(Refusal::new(400, Side::Client, Cause::HttpRequest, detail)))
}

/// The route for a request with this path. `chance`: a random number of the request, which decides where a route is for a share.
pub(crate) fn find_route<'h>(
    http: &'h ThreadHttp,
    head: &RequestHead<'_>,
    path: &[u8],
    chance: u64,
) -> &'h Rc<ThreadRequestRoute> {
    // Each route draws for itself: the share of one says nothing about that of another.
    let drawn =
        |route: usize, share: Share| share.has(fastrand::Rng::with_seed(chance ^ route as u64).u64(..));
    let found = http.table.find(head.host.name, path, head.method.as_bytes(), has_field(head), drawn);
    found.map_or(&http.fallback, |index| &http.routes[index])
}

/// Whether a request has a field with this name, and with this value if one is given.
pub(crate) fn has_field<'h>(head: &'h RequestHead<'_>) -> impl Fn(&str, Option<&str>) -> bool + 'h {
    |name, value| {
        let mut values = head.values(name);
        match value {
            None => values.next().is_some(),
            Some(value) => values.any(|sent| sent == value.as_bytes()),
        }
    }
}

fn too_many(Exceeded { wait, detail }: Exceeded) -> Box<Refusal> {
    let refusal = Refusal::new(429, Side::Operator, Cause::RequestRate, detail);
    Box::new(Refusal { fields: vec![retry_after(wait)], ..refusal })
}

/// The address of the client. Where a trusted proxy names its own client, that one: the last address in `X-Forwarded-For` that is no
/// trusted proxy. `None`: a unix socket, or a trusted proxy that names no address.
pub(crate) fn client(facts: &RequestFacts<'_>) -> Option<IpAddr> {
    let peer = facts.connection.facts.client;
    if !facts.connection.is_trusted {
        return peer.map(|peer| peer.ip());
    }
    let trusted = facts.connection.http.trusted.as_ref();
    let is_proxy = |address: IpAddr| trusted.is_some_and(|trusted| trusted.has(Some((address, 0).into())));
    let values: Vec<&[u8]> = facts.head.values("x-forwarded-for").collect();
    let mut nearest = peer.map(|peer| peer.ip());
    for element in values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b',')) {
        let address = str::from_utf8(element.trim_ascii()).ok().and_then(|text| text.parse::<IpAddr>().ok());
        nearest = Some(address?.to_canonical());
        if !nearest.is_some_and(is_proxy) {
            break;
        }
    }
    nearest
}
