//! What a request of a route must meet before anything else is done with it. A request of a route without such conditions has none of this.
//!
//! In: a request's head, and the gate of its route. Out: nothing, or the response that the client receives instead.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::admission::gate::{Exceeded, Gate};
use crate::http::plain_path;
use crate::http::request::has_field;
use crate::http::rules::RequestFacts;
use crate::worker::http::ThreadRequestRoute;

/// Why a request is not served, and what its client receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `None`: the client is gone.
    pub(crate) status: Option<u16>,
    pub(crate) reason: CloseReason,
    /// Fields of the response.
    pub(crate) fields: Vec<(Cow<'static, str>, Vec<u8>)>,
    /// Its content, where it is not ours.
    pub(crate) content: Option<Vec<u8>>,
}

impl Refusal {
    pub(crate) fn new(status: u16, side: Side, cause: Cause, detail: impl Into<Box<str>>) -> Self {
        Self::of(status, CloseReason::new(Step::Route, side, cause).because(detail))
    }

    pub(crate) fn of(status: u16, reason: CloseReason) -> Self {
        Self { status: Some(status), reason, fields: Vec::new(), content: None }
    }

    /// The client is gone, or the program ends.
    pub(crate) fn gone(reason: CloseReason) -> Box<Self> {
        Box::new(Self { status: None, ..Self::of(500, reason) })
    }

    /// For what cannot be.
    pub(crate) fn internal() -> Self {
        Self::of(500, CloseReason::new(Step::Route, Side::Local, Cause::Internal))
    }

    pub(crate) fn with(self, fields: Vec<(Cow<'static, str>, Vec<u8>)>) -> Self {
        Self { fields, ..self }
    }
}

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

/// Whether a path surely leads to this route. A backend may read `/a/../b` or `/%62` as `/b`: where that is the path of a route for certain
/// clients alone, such a request is refused.
///
/// **Cost**: for nearly all paths one look at each byte.
pub(crate) fn check_path(
    route: Option<&ThreadRequestRoute>,
    facts: &RequestFacts<'_>,
) -> Result<(), Box<Refusal>> {
    let Some(plain) = plain_path::plain(facts.path) else { return Ok(()) };
    let http = &facts.connection.http;
    let head = facts.head;
    let found = http.table.find(head.host.name, &plain, head.method.as_bytes(), has_field(head));
    let other = found.map(|index| &http.routes[index]);
    let is_same = other.map(std::ptr::from_ref) == route.map(std::ptr::from_ref);
    let is_open = other.is_none_or(|other| other.gate.as_ref().is_none_or(|gate| !gate.protects));
    if is_same || is_open {
        return Ok(());
    }
    let detail = "a backend may read its path as that of another route, which is for certain clients alone";
    Err(Box::new(Refusal::new(400, Side::Client, Cause::HttpRequest, detail)))
}

fn too_many(Exceeded { wait, detail }: Exceeded) -> Box<Refusal> {
    let refusal = Refusal::new(429, Side::Operator, Cause::RequestRate, detail);
    Box::new(Refusal { fields: vec![retry_after(wait)], ..refusal })
}

/// `Retry-After` (RFC 9110 §10.2.3) in whole seconds, at least one.
pub(crate) fn retry_after(wait: Duration) -> (Cow<'static, str>, Vec<u8>) {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    (Cow::Borrowed("Retry-After"), seconds.max(1).to_string().into_bytes())
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
