//! Checks that a request of a route must pass before anything else is done with it. A request of a route without such conditions skips
//! them.
//!
//! In: a request's head, and the gate of its route. Out: nothing, or the response that the client receives instead.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use handfast_config::{RoutesOfPath, new_target_stays_below};
use handfast_http::http1::{Host, RequestHead};
use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::admission::gate::{ClientAddress, Exceeded, Gate};
use crate::requests::decide::rules::{self, RequestFacts};
use crate::requests::head::refusal::{Refusal, retry_after};
use crate::worker::request_routes::{ThreadHttp, ThreadRequestRoute};
use handfast_config::model::Share;

/// The routes that a request may lead to.
pub(crate) struct Routes<'c> {
    /// The route for the path as it is forwarded.
    pub(crate) route: &'c Rc<ThreadRequestRoute>,
    /// The routes for the other ways in which a backend may read the path, each once, where a route decides by it.
    pub(crate) others: Vec<&'c Rc<ThreadRequestRoute>>,
    /// The readings of the path lead to different access decisions.
    is_ambiguous: bool,
    /// There are more ways to read the path than are looked at.
    has_more: bool,
}

impl<'c> Routes<'c> {
    /// Finds the routes of a request. `chance`: a random number of the request, for routes with a share.
    ///
    /// **Cost**: for nearly all paths one search, and one look at each byte.
    pub(crate) fn find(http: &'c ThreadHttp, head: &RequestHead<'_>, chance: u64) -> Self {
        let find = |path: &[u8]| find_index(http, head, path, chance);
        let found = RoutesOfPath::find(head.target.path(), http.decides_by_path, http.routes.len(), find);
        Self {
            route: http.route(found.route),
            others: found.others.iter().map(|index| http.route(*index)).collect(),
            is_ambiguous: found.is_ambiguous(|index| http.route(index).is_guard),
            has_more: found.has_more,
        }
    }

    /// The route of a request that was checked before.
    pub(crate) fn only(route: &'c Rc<ThreadRequestRoute>) -> Self {
        Self { route, others: Vec::new(), is_ambiguous: false, has_more: false }
    }

    /// Checks that every reading of the path leads to the same access decision.
    pub(crate) fn check(&self) -> Result<(), Box<Refusal>> {
        if !self.is_ambiguous {
            return Ok(());
        }
        Err(ambiguous("a backend may read its path as that of another route, which decides otherwise"))
    }

    /// Checks the conditions that need no waiting: of the service, and of the route.
    pub(crate) fn check_conditions(&self, facts: &RequestFacts<'_>, now: Moment) -> Result<(), Box<Refusal>> {
        let of_service = facts.connection.http.gate.iter();
        let of_route = self.route.gate.iter().filter(|_| self.route.name.is_some());
        of_service.chain(of_route).try_for_each(|gate| check(gate, facts, now))
    }

    /// Counts the request for the limits of the other routes: a backend may read its path as theirs.
    pub(crate) fn check_other_rates(
        &self,
        facts: &RequestFacts<'_>,
        now: Moment,
    ) -> Result<(), Box<Refusal>> {
        // The service's limit is counted once, for all routes.
        let routes = self.others.iter().filter(|other| other.name.is_some());
        let mut gates = routes.filter_map(|other| other.gate.as_ref());
        gates.try_for_each(|gate| check_rate(gate, facts, now))
    }

    /// Returns the most bytes of content: the smallest limit of the routes.
    pub(crate) fn body_limit(&self) -> Option<u64> {
        self.all().filter_map(|route| route.limits.body).min()
    }

    /// Returns true if a condition holds for the routes of all other readings.
    pub(crate) fn others_are(&self, condition: impl Fn(&ThreadRequestRoute) -> bool) -> bool {
        !self.has_more && self.others.iter().all(|route| condition(route))
    }

    fn all(&self) -> impl Iterator<Item = &'c Rc<ThreadRequestRoute>> {
        std::iter::once(self.route).chain(self.others.iter().copied())
    }
}

/// Checks that the service is not in maintenance for this client.
pub(crate) fn check_maintenance(facts: &RequestFacts<'_>) -> Result<(), Box<Refusal>> {
    let maintenance = facts.connection.thread.maintenance();
    match maintenance.find(&facts.connection.service.name) {
        Some(maintenance) if !maintenance.admits(client(facts)) => {
            let refusal = Refusal::of(503, CloseReason::new(Step::Route, Side::Operator, Cause::Maintenance));
            Err(Box::new(refusal.with(vec![retry_after(maintenance.retry_after)])))
        }
        _ => Ok(()),
    }
}

/// Checks that a target with a new beginning stays below it, however a backend reads it.
pub(crate) fn check_new_target(route: &ThreadRequestRoute, path: &[u8]) -> Result<(), Box<Refusal>> {
    if new_target_stays_below(path, route.path.as_ref(), route.rules.as_deref()) {
        return Ok(());
    }
    Err(ambiguous("a backend may read its path as one that is not below `rewrite-path`"))
}

/// Checks that a host that the route sets is one. Without the certificate or the user that it is made of, the backend would get another one.
pub(crate) fn check_host(route: &ThreadRequestRoute, facts: &RequestFacts<'_>) -> Result<(), Box<Refusal>> {
    let host = route.rules.as_ref().and_then(|rules| rules::host(rules, facts));
    if host.is_none_or(|host| Host::parse(&host).is_some()) {
        return Ok(());
    }
    let detail = "the value that its route sets for Host is no host";
    Err(Box::new(Refusal::new(400, Side::Client, Cause::HttpRequest, detail)))
}

fn ambiguous(detail: &'static str) -> Box<Refusal> {
    Box::new(Refusal::new(400, Side::Client, Cause::AmbiguousPath, detail))
}

/// Checks the conditions that need no waiting.
fn check(gate: &Gate, facts: &RequestFacts<'_>, now: Moment) -> Result<(), Box<Refusal>> {
    if let Some(detail) = gate.refuses(client(facts)) {
        return Err(forbidden(detail));
    }
    check_rate(gate, facts, now)?;
    let rules = &gate.certificates;
    if !rules.is_empty() {
        match facts.connection.client_chain.first() {
            Some(certificate) if rules.admits(certificate) => {}
            Some(_) => return Err(forbidden("allow-certificates does not have the client's certificate")),
            None => return Err(forbidden("the client has no certificate")),
        }
    }
    Ok(())
}

fn check_rate(gate: &Gate, facts: &RequestFacts<'_>, now: Moment) -> Result<(), Box<Refusal>> {
    let Some(rate) = &gate.rate else { return Ok(()) };
    rate.check(client(facts), |name| facts.head.values(name), now).map_err(too_many_requests)
}

fn forbidden(detail: impl Into<Box<str>>) -> Box<Refusal> {
    Box::new(Refusal::new(403, Side::Operator, Cause::Forbidden, detail))
}

/// The route for a request with this path. `chance`: a random number of the request, which decides where a route is for a share.
pub(crate) fn find_route<'h>(
    http: &'h ThreadHttp,
    head: &RequestHead<'_>,
    path: &[u8],
    chance: u64,
) -> &'h Rc<ThreadRequestRoute> {
    http.route(find_index(http, head, path, chance))
}

fn find_index(http: &ThreadHttp, head: &RequestHead<'_>, path: &[u8], chance: u64) -> Option<usize> {
    // Each route draws for itself: the share of one says nothing about that of another.
    let drawn =
        |route: usize, share: Share| share.has(fastrand::Rng::with_seed(chance ^ route as u64).u64(..));
    http.table.find(head.host.name, path, head.method.as_bytes(), has_field(head), drawn)
}

/// Returns a test for a request's fields: true if one has this name, and this value if one is given.
pub(crate) fn has_field<'h>(head: &'h RequestHead<'_>) -> impl Fn(&str, Option<&str>) -> bool + 'h {
    |name, value| {
        let mut values = head.values(name);
        match value {
            None => values.next().is_some(),
            Some(value) => values.any(|sent| sent == value.as_bytes()),
        }
    }
}

fn too_many_requests(Exceeded { wait, detail }: Exceeded) -> Box<Refusal> {
    let refusal = Refusal::new(429, Side::Operator, Cause::RequestRate, detail);
    Box::new(Refusal { fields: vec![retry_after(wait)], ..refusal })
}

/// Returns the address of the client. Where a trusted proxy names its own client, that one: the last address in `X-Forwarded-For` that is no
/// trusted proxy. A trusted proxy without `X-Forwarded-For` and `Forwarded` is the client itself, such as for a health check.
pub(crate) fn client(facts: &RequestFacts<'_>) -> ClientAddress {
    let peer = facts.connection.facts.client.map(|peer| peer.ip());
    let own = peer.map_or(ClientAddress::Absent, ClientAddress::Known);
    if !facts.connection.is_trusted {
        return own;
    }
    let trusted = facts.connection.http.trusted.as_ref();
    let is_proxy = |address: IpAddr| trusted.is_some_and(|trusted| trusted.has(Some((address, 0).into())));
    let values: Vec<&[u8]> = facts.head.values("x-forwarded-for").collect();
    if values.is_empty() && facts.head.values("forwarded").next().is_some() {
        // It names a client there, which is not read.
        return ClientAddress::Unknown;
    }
    let mut nearest = own;
    for element in values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b',')) {
        let Some(address) = address(element.trim_ascii()) else { return ClientAddress::Unknown };
        nearest = ClientAddress::Known(address);
        if !is_proxy(address) {
            break;
        }
    }
    nearest
}

/// Reads an address as proxies write it: with a port or without, of IPv6 in brackets or without (RFC 7239 §6).
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address: IpAddr = text.parse().ok().or_else(bracketed).or_else(with_port)?;
    Some(address.to_canonical())
}
