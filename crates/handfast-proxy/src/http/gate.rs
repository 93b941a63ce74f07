//! What a request of a route must meet before anything else is done with it. A request of a route without such conditions has none of this.
//!
//! In: a request's head, and the gate of its route. Out: nothing, or the response that the client receives instead.

use std::net::IpAddr;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::admission::gate::{Exceeded, Gate};
use crate::http::fault::Fault;
use crate::http::rules::RequestFacts;

/// Why a request is not served, and what its client receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) reason: CloseReason,
    /// Fields of the response.
    pub(crate) fields: Vec<(&'static str, Vec<u8>)>,
}

impl Refusal {
    fn new(status: u16, side: Side, cause: Cause, detail: impl Into<Box<str>>) -> Self {
        let reason = CloseReason::new(Step::Route, side, cause).because(detail);
        Self { status, reason, fields: Vec::new() }
    }

    pub(crate) fn fault(&self) -> Fault {
        Fault { status: Some(self.status), ..Fault::gone(self.reason.clone()) }
    }
}

/// Whether a request meets the conditions that need no waiting.
pub(crate) fn check(gate: &Gate, facts: &RequestFacts<'_>, now: Moment) -> Result<(), Box<Refusal>> {
    if let Some(rate) = &gate.rate {
        let field = |name: &str| facts.head.values(name).next();
        rate.check(client(facts), field, now).map_err(too_many)?;
    }
    Ok(())
}

fn too_many(Exceeded { wait, detail }: Exceeded) -> Box<Refusal> {
    let refusal = Refusal::new(429, Side::Operator, Cause::RequestRate, detail);
    Box::new(Refusal { fields: vec![retry_after(wait)], ..refusal })
}

/// `Retry-After` (RFC 9110 §10.2.3) in whole seconds, at least one.
pub(crate) fn retry_after(wait: Duration) -> (&'static str, Vec<u8>) {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    ("Retry-After", seconds.max(1).to_string().into_bytes())
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
