//! One request after its head: its route, the head for its backend, and its record.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use handfast_cache::FilePath;
use handfast_config::new_target;
use handfast_http::http1::{Framing, Method, OwnedRequest, RequestHead, ResponseHead, Version};
use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_observe::request_record::{HttpVersion, RequestPart, RequestRecord};

use crate::backends::slots::Slot;
use crate::files::ErrorPage;
use crate::requests::decide::cache_plan::Plan;
use crate::requests::decide::compression::CompressionPlan;
use crate::requests::decide::connection::{HttpConnection, Totals};
use crate::requests::decide::forward;
use crate::requests::decide::gate::{self, Routes};
use crate::requests::decide::rules::{RequestFacts, ResponseFields};
use crate::requests::decide::trace;
use crate::requests::head::copy::Copy;
use crate::requests::head::fault::Fault;
use crate::requests::head::refusal::Refusal;
use crate::requests::head::sender::Identified;
use crate::requests::head::websocket;
use crate::worker::context::WorkerContext;
use crate::worker::open::OpenRequest;
use crate::worker::request_routes::ThreadRequestRoute;
use crate::worker::services::{Chosen, ThreadService};
use crate::worker::sticky::Affinity;
use handfast_config::model::{FixedResponse, Piece, RequestLimits, RouteAction, Variable};

/// A request whose head was accepted. It is counted from then on, and ends once, whatever happens to its task.
#[derive(Debug)]
pub(crate) struct Request {
    /// Head for the backend.
    pub(crate) head: OwnedRequest,
    pub(crate) action: Action,
    /// The client's version, where it speaks HTTP/1.
    pub(crate) version: Version,
    pub(crate) framing: Framing,
    /// True if the client can send another one on its connection.
    pub(crate) keeps_open: bool,
    pub(crate) expects_continue: bool,
    /// True if the client requests another protocol.
    pub(crate) requests_upgrade: bool,
    /// The proof that a WebSocket server has read the key that the proxy made; `None`: the client checks its own.
    websocket_accept: Option<String>,
    pub(crate) is_head: bool,
    pub(crate) is_idempotent: bool,
    /// True if it authenticates the connection that it comes by, and not itself.
    pub(crate) is_about_the_connection: bool,
    /// True if errors are reported in the way of gRPC.
    pub(crate) is_grpc: bool,
    /// True if the client prefers errors as JSON.
    pub(crate) prefers_json: bool,
    /// Response rewrites of the route; `None` without any.
    pub(crate) response_fields: Option<Box<ResponseFields>>,
    /// The route that it takes.
    pub(crate) route: Rc<ThreadRequestRoute>,
    /// Most bytes of its content.
    pub(crate) body_limit: Option<u64>,
    /// Affinity to a backend, if its route uses it.
    pub(crate) affinity: Option<Box<Affinity>>,
    /// Key and rules for the cache of its service.
    pub(crate) cached: Option<Box<Plan>>,
    /// Compression of its response; `None`: the client receives what the backend sends.
    pub(crate) compression: Option<Box<CompressionPlan>>,
    /// Copy for the mirror of its route.
    pub(crate) copy: Option<Box<Copy>>,
    /// Its place at a backend with `max-requests`.
    pub(crate) slot: Option<Slot>,
    pub(crate) record: RequestRecord,
    /// Its entry in the list of open requests; `None`: it is the proxy's own, or has ended.
    open: Option<Rc<OpenRequest>>,
    /// The part that takes time now, and when it began.
    part: Option<(RequestPart, Moment)>,
    thread: Rc<WorkerContext>,
    service: Rc<ThreadService>,
    totals: Rc<Totals>,
    has_ended: bool,
}

/// A request that is answered without a backend, and why; `request` is known once its head was accepted.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) request: Option<Box<Request>>,
    pub(crate) fault: Box<Fault>,
}

impl Refused {
    pub(crate) fn new(request: Option<Box<Request>>, fault: Fault) -> Self {
        Self { request, fault: Box::new(fault) }
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::new(None, fault)
    }
}

/// Action for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It goes to the backends of this route.
    Forward(Chosen),
    /// It is redirected there.
    Redirect(u16, Vec<u8>),
    /// It has this response.
    Respond(FixedResponse),
    /// It gets a file of the folder of its route.
    File(FileTarget),
    /// Its route identifies the sender first; the head as the client sent it.
    Authenticate(Box<OwnedRequest>),
    /// Its route does not take it.
    Refuse(Box<Refusal>),
    /// It asks for the file of a challenge of a certificate authority, with this content.
    Challenge(Box<str>),
}

/// The file that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileTarget {
    pub(crate) path: FilePath,
    /// Its target with a slash behind the path, relative to it: where a folder's files are. `None`: it has one.
    pub(crate) with_slash: Option<Vec<u8>>,
}

impl Request {
    /// Routes a request, and writes what its backend receives. `hello`: how long its head took to arrive.
    ///
    /// **Errors**: the connection is not for its host, or its content is larger than allowed.
    pub(crate) fn new(
        head: &RequestHead<'_>,
        connection: &HttpConnection,
        protocol: HttpVersion,
        hello: Duration,
    ) -> Result<Box<Self>, Refused> {
        let mut target = Vec::new();
        let head = &head.with_forwarded_target(&mut target);
        let id = forward::request_id(head, connection);
        let path = head.target.path();
        let facts = &connection.facts;
        let protocol = if head.version == Version::Http10 { HttpVersion::Http10 } else { protocol };
        let mut record =
            RequestRecord::new(facts, protocol, id, [head.method.as_bytes(), head.host.text, path]);
        connection.service.metrics.request_began(protocol);
        if connection.thread.logs_client_fields() {
            head.values("referer").take(1).for_each(|value| record.set_referer(value));
            head.values("user-agent").take(1).for_each(|value| record.set_user_agent(value));
        }
        record.seconds.hello = hello;
        // Only where a route is for a share of its requests, chance decides.
        let chance = if connection.http.has_shares { fastrand::u64(..) } else { 0 };
        let routes = Routes::find(&connection.http, head, chance);
        let route = routes.route;
        record.route.clone_from(&route.name);
        if connection.http.model.trace_context {
            record.trace = Some(trace::of_client(head).map_or_else(trace::made, str::to_owned).into());
        }
        let (id, trace) = (record.id(), record.trace.as_deref());
        let facts = RequestFacts { head, path, connection, id, trace, chance, sender: None };
        let open = connection.thread.open.request(OpenRequest::new(&record, Moment::now()));
        let action = action(&routes, &facts);
        let forwarded = forward::write_head(&facts, route.rules.as_deref(), route.path.as_ref());
        let response_fields = route.rules.as_ref().and_then(|rules| ResponseFields::new(rules, &facts));
        let affinity = route.sticky.as_ref().and_then(|sticky| sticky.affinity(head));
        let copy = route.mirror.as_ref().filter(|_| head.upgrade.is_none());
        let copy = copy.and_then(|mirror| Copy::new(mirror, head.framing));
        let cached = Plan::new(&facts, &routes);
        let compression = CompressionPlan::new(&facts, &routes);
        let traits = Traits::of(head);
        let request = Box::new(Self {
            head: forwarded,
            action,
            version: head.version,
            framing: head.framing,
            keeps_open: head.keeps_open,
            expects_continue: head.expects_continue,
            requests_upgrade: head.upgrade.is_some(),
            websocket_accept: own_websocket_key(head, protocol).map(websocket::websocket_accept),
            is_head: head.method == Method::HEAD,
            is_idempotent: head.method.is_idempotent(),
            is_about_the_connection: traits.is_about_the_connection,
            is_grpc: traits.is_grpc,
            prefers_json: traits.prefers_json,
            response_fields,
            route: Rc::clone(route),
            body_limit: routes.body_limit(),
            affinity,
            cached,
            compression,
            copy,
            slot: None,
            record,
            open: Some(open),
            part: None,
            thread: Rc::clone(&connection.thread),
            service: Rc::clone(&connection.service),
            totals: Rc::clone(&connection.totals),
            has_ended: false,
        });
        match refusal(head, connection, &request) {
            Some(fault) => Err(Refused::new(Some(request), fault)),
            None => Ok(request),
        }
    }

    /// A request of the proxy's own with this head and without content, which is neither counted nor logged: its backend and its limits are
    /// those of this route.
    pub(crate) fn own(
        head: OwnedRequest,
        connection: &HttpConnection,
        route: &Rc<ThreadRequestRoute>,
    ) -> Self {
        let record = RequestRecord::new(&connection.facts, HttpVersion::Http11, forward::new_id(), [b""; 3]);
        Self {
            head,
            action: Action::Forward(route.chosen(connection.chosen)),
            version: Version::Http11,
            framing: Framing::None,
            keeps_open: true,
            expects_continue: false,
            requests_upgrade: false,
            websocket_accept: None,
            is_head: false,
            is_idempotent: true,
            is_about_the_connection: false,
            is_grpc: false,
            prefers_json: false,
            response_fields: None,
            route: Rc::clone(route),
            body_limit: route.limits.body,
            affinity: None,
            cached: None,
            compression: None,
            copy: None,
            slot: None,
            record,
            open: None,
            part: None,
            thread: Rc::clone(&connection.thread),
            service: Rc::clone(&connection.service),
            totals: Rc::clone(&connection.totals),
            has_ended: true,
        }
    }

    /// A request of the proxy's own that takes the place of this one at its backends, with this head.
    pub(crate) fn own_with_head(&self, head: OwnedRequest, connection: &HttpConnection) -> Self {
        let mut own = Self::own(head, connection, &self.route);
        (own.is_head, own.affinity) = (self.is_head, self.affinity.clone());
        own
    }

    /// It went to this backend; a cookie names it to the client.
    pub(crate) fn set_backend_cookie(&mut self, backend: &Rc<str>, is_secure: bool) {
        let Some(affinity) = &self.affinity else { return };
        let set = affinity.set_cookie(backend, is_secure);
        ResponseFields::set_own(&mut self.response_fields, "Set-Cookie", set);
    }

    /// Its sender is identified: its action is that of its route. `head` has the fields that its backend may receive.
    pub(crate) fn admit(&mut self, head: &RequestHead<'_>, connection: &HttpConnection, sender: &Identified) {
        let route = &self.route;
        let path = head.target.path();
        let (id, trace) = (self.record.id(), self.record.trace.as_deref());
        let facts = RequestFacts { head, path, connection, id, trace, chance: 0, sender: Some(sender) };
        self.action = route_action(route, &facts);
        self.head = forward::write_head(&facts, route.rules.as_deref(), route.path.as_ref());
        self.response_fields = route.rules.as_ref().and_then(|rules| ResponseFields::new(rules, &facts));
        self.cached = Plan::new(&facts, &Routes::only(route));
        self.record.user.clone_from(&sender.user);
    }

    /// From now on this part takes time. The end of a request ends its part too, so no end forgets how long it was waited for.
    pub(crate) fn enter(&mut self, part: RequestPart, now: Moment) {
        self.leave_part(now);
        self.part = Some((part, now));
        if let Some(open) = &self.open {
            open.part.set(Some(part));
        }
    }

    /// This backend is tried.
    pub(crate) fn set_attempted_backend(&mut self, backend: &Rc<str>) {
        self.record.backend = Some(Rc::clone(backend));
        if let Some(open) = &self.open {
            open.backend.replace(Some(Rc::clone(backend)));
        }
    }

    /// The present part is over.
    pub(crate) fn leave_part(&mut self, now: Moment) {
        if let Some((part, since)) = self.part.take() {
            self.record.seconds.add(part, now.since(since));
        }
    }

    /// Counts the content that has moved since the last time: bytes in all, from and to the client. Requests of the proxy's own are not counted.
    pub(crate) fn count_moved(&mut self, (from_client, to_client): (u64, u64)) {
        if self.has_ended {
            return;
        }
        let record = &mut self.record;
        let to_backend = from_client.saturating_sub(record.bytes_from_client);
        let moved = to_client.saturating_sub(record.bytes_to_client);
        (record.bytes_from_client, record.bytes_to_client) = (from_client, to_client);
        self.service.metrics.content_moved(to_backend, moved);
        if let Some(open) = &self.open {
            open.bytes_from_client.set(from_client);
            open.bytes_to_client.set(to_client);
        }
    }

    /// Counts and logs it; `failure`: why no backend has answered it completely. `now` is called where a part is not over.
    pub(crate) fn end(&mut self, failure: Option<CloseReason>, now: impl FnOnce() -> Moment) {
        if !std::mem::replace(&mut self.has_ended, true) {
            if self.part.is_some() {
                self.leave_part(now());
            }
            if self.open.take().is_some() {
                self.thread.open.request_ended();
            }
            self.record.failure = failure;
            self.totals.add(&self.record);
            self.service.metrics.request(&self.record);
            self.thread.log_request(&self.record);
        }
    }

    /// Returns the page for an error of this status. Programs that read errors get none.
    pub(crate) fn error_page(&self, status: u16) -> Option<&ErrorPage> {
        let pages = &self.route.files.error_pages;
        pages.find(status).filter(|_| !self.prefers_json && !self.is_grpc).map(|page| &**page)
    }

    /// Returns the page in the place of an error that its backend sends. Requests of the proxy's own get what the backend sends.
    pub(crate) fn page_for_backend(&self, status: u16) -> Option<&ErrorPage> {
        let replaces = self.route.files.error_pages.replace_backends && self.open.is_some();
        self.error_page(status).filter(|_| replaces)
    }

    pub(crate) fn limits(&self) -> &RequestLimits {
        &self.route.limits
    }

    /// Returns true if it has no content.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.framing, Framing::None | Framing::Length(0))
    }

    /// Returns true if a 101 proves that the backend has read the key that the proxy made for a WebSocket.
    pub(crate) fn is_accepted_by(&self, head: &ResponseHead<'_>) -> bool {
        self.websocket_accept
            .as_ref()
            .is_none_or(|accept| head.values("sec-websocket-accept").any(|value| value == accept.as_bytes()))
    }

    /// For rules about its response, which depend on whether it is HEAD alone.
    pub(crate) fn method(&self) -> Method<'static> {
        if self.is_head { Method::HEAD } else { Method::GET }
    }
}

/// Properties of a request that single fields state.
#[derive(Debug, Default)]
struct Traits {
    is_about_the_connection: bool,
    is_grpc: bool,
    prefers_json: bool,
}

impl Traits {
    /// One pass over the fields.
    fn of(head: &RequestHead<'_>) -> Self {
        let mut traits = Self::default();
        for field in head.fields {
            let name = field.name(head.text);
            let value = || field.value(head.text);
            match name.len() {
                6 if name.eq_ignore_ascii_case(b"accept") => {
                    traits.prefers_json |= value().windows(4).any(|part| part == b"json");
                }
                12 if name.eq_ignore_ascii_case(b"content-type") => {
                    traits.is_grpc |= begins_with(value(), b"application/grpc");
                }
                13 if name.eq_ignore_ascii_case(b"authorization") => {
                    traits.is_about_the_connection |= authenticates_connections(value());
                }
                _ => {}
            }
        }
        traits
    }
}

/// The key of a WebSocket handshake that came by HTTP/2: the proxy made it.
fn own_websocket_key<'a>(head: &RequestHead<'a>, protocol: HttpVersion) -> Option<&'a [u8]> {
    head.upgrade.filter(|_| protocol == HttpVersion::Http2)?;
    head.values("sec-websocket-key").next()
}

/// Returns true if a value begins with these letters, in any case.
fn begins_with(value: &[u8], start: &[u8]) -> bool {
    value.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start))
}

/// NTLM authenticates a connection, and Negotiate may (RFC 4559 §6), with or without a challenge before: its next request comes by the
/// same one, and that of no other client does.
pub(crate) fn authenticates_connections(value: &[u8]) -> bool {
    begins_with(value, b"ntlm") || begins_with(value, b"negotiate")
}

/// A request whose task panicked, or was dropped with its thread, has ended too.
impl Drop for Request {
    fn drop(&mut self) {
        let internal = || CloseReason::new(Step::Relay, Side::Local, Cause::Internal);
        if !self.has_ended {
            self.end(Some(internal().because("its task was ended")), Moment::now);
        }
    }
}

/// Counts and logs a request that is refused before its head was accepted. `hello`: how long its head took to arrive; `answered`: bytes of
/// content of the response, which took `relay`.
pub(crate) fn note_refused(
    connection: &HttpConnection,
    fault: &Fault,
    (protocol, hello): (HttpVersion, Duration),
    (answered, relay): (u64, Duration),
) {
    let mut record = RequestRecord::new(&connection.facts, protocol, forward::new_id(), [b""; 3]);
    (record.status, record.broken_rule, record.failure) =
        (fault.status, fault.rule, Some(fault.reason.clone()));
    (record.seconds.hello, record.seconds.relay) = (hello, relay);
    record.bytes_to_client = answered;
    connection.service.metrics.content_moved(0, answered);
    connection.service.metrics.request_began(protocol);
    connection.service.metrics.request(&record);
    connection.totals.add(&record);
    connection.thread.log_request(&record);
}

fn refusal(head: &RequestHead<'_>, connection: &HttpConnection, request: &Request) -> Option<Fault> {
    if let (Framing::Length(length), Some(limit)) = (head.framing, request.body_limit)
        && length > limit
    {
        return Some(Fault::new(Step::Hello, Side::Client, Cause::BodyTooLarge, 413));
    }
    if matches!(request.action, Action::Challenge(_)) {
        return None;
    }
    let detail = connection.misdirection(&head.host)?;
    Some(Fault::new(Step::Route, Side::Client, Cause::Misdirected, 421).because(detail))
}

fn action(routes: &Routes<'_>, facts: &RequestFacts<'_>) -> Action {
    let connection = facts.connection;
    let challenges = connection.thread.challenges();
    if facts.head.method == Method::GET
        && let Some(content) = challenges.file(facts.path)
    {
        return Action::Challenge(content.into());
    }
    if let Err(refusal) = check(routes, facts) {
        return Action::Refuse(refusal);
    }
    if routes.route.gate.as_ref().is_some_and(|gate| gate.identifies()) {
        // Later decisions may depend on the user.
        return Action::Authenticate(Box::new(OwnedRequest::new(facts.head)));
    }
    route_action(routes.route, facts)
}

/// Checks everything that needs no waiting.
fn check(routes: &Routes<'_>, facts: &RequestFacts<'_>) -> Result<(), Box<Refusal>> {
    gate::check_maintenance(facts)?;
    routes.check()?;
    let now = Moment::now();
    routes.check_conditions(facts, now)?;
    routes.check_other_rates(facts, now)?;
    gate::check_new_target(routes.route, facts.path)
}

fn route_action(route: &ThreadRequestRoute, facts: &RequestFacts<'_>) -> Action {
    if let Err(refusal) = gate::check_host(route, facts) {
        return Action::Refuse(refusal);
    }
    match &route.action {
        RouteAction::Redirect(target, _)
            if facts.head.host.is_none() && target.0.contains(&Piece::Variable(Variable::Host)) =>
        {
            let detail = "it is to be redirected to its host, and names none";
            Action::Refuse(Box::new(Refusal::new(400, Side::Client, Cause::HttpRequest, detail)))
        }
        RouteAction::Redirect(target, status) => Action::Redirect(*status, facts.text(target)),
        RouteAction::Respond(response) => Action::Respond(response.clone()),
        RouteAction::Files(_) => file_action(route, facts),
        RouteAction::Inherit | RouteAction::Backends(..) => {
            Action::Forward(route.chosen(facts.connection.chosen))
        }
    }
}

/// The path that a backend would receive is that of the file.
fn file_action(route: &ThreadRequestRoute, facts: &RequestFacts<'_>) -> Action {
    let refuse = |status: u16, detail: String| Refusal::new(status, Side::Client, Cause::NoFile, detail);
    if !matches!(facts.head.method, Method::GET | Method::HEAD) {
        let detail = format!("files have no {}", facts.head.method.as_bytes().escape_ascii());
        let allow = vec![(Cow::Borrowed("Allow"), b"GET, HEAD".to_vec())];
        return Action::Refuse(Box::new(refuse(405, detail).with(allow)));
    }
    let new = new_target(facts.path, route.path.as_ref(), route.rules.as_deref());
    let target = new.as_ref().map_or(facts.path, |(target, _)| target);
    match FilePath::parse(target) {
        Ok(path) => Action::File(FileTarget { path, with_slash: with_slash(facts.path) }),
        Err(reason) => Action::Refuse(Box::new(refuse(404, reason.to_string()))),
    }
}

/// The target with a slash behind its path, relative to it. The dot keeps a colon from ending a scheme, and two slashes from naming a host.
fn with_slash(target: &[u8]) -> Option<Vec<u8>> {
    let (path, query) = target.split_at(target.iter().position(|byte| *byte == b'?').unwrap_or(target.len()));
    let last = path.rsplit(|byte| *byte == b'/').next().filter(|last| !last.is_empty())?;
    Some([b"./", last, b"/", query].concat())
}

#[cfg(test)]
mod maintenance_tests;
#[cfg(test)]
mod own_tests;
#[cfg(test)]
mod tests;
