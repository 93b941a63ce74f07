//! HTTP mode: how the requests of a service are checked, routed, forwarded and bounded.
//!
//! Made by `file/http.rs`, run by `handfast-proxy/src/http`. A service without it relays bytes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use handfast_http::http1::HeadLimits;

use crate::path_rule::PathRule;

use super::{
    Backend, BackendTls, Cache, Compression, ErrorPages, Files, FixedResponse, Maintenance, Mirror,
    ProxySender, RequestRules, RouteAccess, RouteCompression, RouteErrorPages, RouteLimits, Share, Sticky,
    Template,
};

/// HTTP mode of a service (`mode = "http"`, `[service.http]`, `[[service.route]]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// The HTTP version towards backends.
    pub backend_version: BackendVersion,
    /// The header fields that name the client and how it came.
    pub forwarded: Forwarded,
    /// The field with the request's identifier, in lower case; `None`: none is sent.
    pub request_id: Option<Box<str>>,
    /// True if each request has a `traceparent`.
    pub trace_context: bool,
    /// Limits of heads and trailer sections.
    pub head: HeadLimits,
    /// The meaning of a client's FIN before its response.
    pub half_close: HalfClose,
    /// Most bytes of a request's content; `None`: any number.
    pub body_limit: Option<u64>,
    /// Timeouts of requests.
    pub timeouts: HttpTimeouts,
    /// Bytes of content that must move in each second; 0: none.
    pub min_rate: u32,
    /// Connections to backends that are kept for the next request.
    pub pool: PoolLimits,
    /// Limit on concurrent requests of each backend; `None`: any number.
    pub concurrency: Option<Concurrency>,
    /// Streams that one HTTP/2 client may have open at once.
    pub streams: u32,
    /// Content of all streams of one HTTP/2 connection that is received before the other side takes it.
    pub http2_window: u32,
    /// Other backends that a request is tried with after a failure, where that is safe.
    pub retries: u32,
    /// True if a response with status 500 to 599, or none in time, counts as a failure of the backend.
    pub count_failures: bool,
    /// The share of a backend's requests that may fail in a time before it is marked down; `None`: any.
    pub failure_ratio: Option<Share>,
    /// Cache of responses; `None`: nothing is stored.
    pub cache: Option<Cache>,
    /// Compression of responses; `None`: they are sent as the backend has them.
    pub compression: Option<Compression>,
    /// Pages for errors.
    pub error_pages: ErrorPages,
    /// Maintenance of the service; `None`: it serves.
    pub maintenance: Option<Maintenance>,
    /// Changes to requests that match no route, and to their responses. Each route has them too, without what it says otherwise.
    pub rules: RequestRules,
    /// Conditions that every request must meet, and the identification of the sender of those that match no route.
    pub access: RouteAccess,
    /// The routes, in the order written. The first one that matches serves a request; the service itself serves the rest.
    pub routes: Vec<RequestRoute>,
}

/// The meaning of a FIN that a client of HTTP/1 sends before its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClose {
    /// Its request is over.
    Cancel,
    /// It is answered.
    Answer,
}

/// Requests that each backend gets at once, and those that wait for one of them to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Requests of one backend; not zero.
    pub requests: u32,
    /// Requests that wait, for all backends of the service.
    pub queue: usize,
    /// Time for which one waits.
    pub wait: Duration,
}

/// The HTTP version towards backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendVersion {
    /// HTTP/1.1, also to those that speak others.
    Http1,
    /// HTTP/2: by ALPN where the backend has TLS, else with prior knowledge (RFC 9113 §3.3).
    Http2,
}

/// Fields that report the client to backends, and the clients that are proxies and report their own clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239).
    pub standard: bool,
    /// Clients whose fields are kept and continued; of others they are removed.
    pub trusted: Vec<ProxySender>,
    /// Files with addresses of more of them.
    pub trusted_files: Vec<PathBuf>,
}

/// Timeouts of requests. [`Duration::ZERO`] is no timeout where a key allows it.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpTimeouts {
    /// A connection on which no request is under way.
    pub idle: Duration,
    /// From the first byte of a head to its last one.
    pub head: Duration,
    /// Between two pieces of a request's or a response's content.
    pub content: Duration,
    /// From the end of the request to the head of the response.
    pub answer: Duration,
}

/// Bounds of the connections that wait for the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// For each backend, over all worker threads; 0: none is kept.
    pub connections: usize,
    /// Time for which an idle one is kept.
    pub idle: Duration,
    /// Requests after which one is closed.
    pub requests: u32,
}

/// A route for certain requests (`[[service.route]]`). A condition that is not set matches every request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRoute {
    /// Its name in logs and metrics.
    pub name: Box<str>,
    /// Exact names and wildcards (`*.example.org`), in lower case, without a port.
    pub hosts: Vec<String>,
    /// The paths that it is for; `None`: all.
    pub path: Option<PathRule>,
    /// Methods, in upper case as they are sent.
    pub methods: Vec<String>,
    /// Fields that the request must have: the name in lower case; the value, or any value.
    pub headers: Vec<(Box<str>, Option<Box<str>>)>,
    /// The share of the requests that match; `None`: all of them.
    pub share: Option<Share>,
    /// Action for a request that matches.
    pub action: RouteAction,
    /// Changes to the request and its response.
    pub rules: RequestRules,
    /// Conditions that a request must meet first.
    pub access: RouteAccess,
    /// True if its responses are stored in the cache.
    pub is_cached: bool,
    /// Compression of its responses.
    pub compression: RouteCompression,
    /// Servers that receive copies of its requests.
    pub mirror: Option<Mirror>,
    /// Session affinity of its requests to one backend; `None`: none.
    pub sticky: Option<Sticky>,
    /// Separate limits.
    pub limits: RouteLimits,
    /// Separate pages for errors.
    pub error_pages: RouteErrorPages,
}

impl RequestRoute {
    /// The route for the requests without one, which are answered with files.
    pub(crate) fn for_files(files: Arc<Files>, rules: RequestRules, access: RouteAccess) -> Self {
        Self {
            name: "files".into(),
            hosts: Vec::new(),
            path: None,
            methods: Vec::new(),
            headers: Vec::new(),
            share: None,
            action: RouteAction::Files(files),
            rules,
            access,
            is_cached: false,
            compression: RouteCompression::Inherit,
            mirror: None,
            sticky: None,
            limits: RouteLimits::default(),
            error_pages: RouteErrorPages::default(),
        }
    }

    /// Its own backends.
    pub fn backends(&self) -> Option<&Arc<[Backend]>> {
        match &self.action {
            RouteAction::Backends(backends, _) => Some(backends),
            RouteAction::Inherit
            | RouteAction::Redirect(..)
            | RouteAction::Respond(_)
            | RouteAction::Files(_) => None,
        }
    }

    /// Returns true if it has no condition.
    pub(crate) fn matches_all(&self) -> bool {
        let lists = [self.hosts.len(), self.methods.len(), self.headers.len()];
        self.path.is_none() && self.share.is_none() && lists.iter().all(|length| *length == 0)
    }

    /// Returns true if its requests go to backends.
    pub fn forwards(&self) -> bool {
        matches!(self.action, RouteAction::Inherit | RouteAction::Backends(..))
    }

    /// Returns true if it has separate TLS settings towards its backends.
    pub(crate) fn has_backend_tls(&self) -> bool {
        matches!(self.action, RouteAction::Backends(_, Some(Some(_))))
    }
}

/// Action of a route for a request.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a configuration has few routes, and most have backends")]
pub enum RouteAction {
    /// It goes to the backends of the route of its connection.
    Inherit,
    /// It goes to these backends; the TLS towards them, where it is not the service's; the inner `None`: plain text.
    Backends(Arc<[Backend]>, Option<Option<BackendTls>>),
    /// It is redirected to this target, with this status.
    Redirect(Template, u16),
    /// It is answered with this.
    Respond(FixedResponse),
    /// It is answered with a file.
    Files(Arc<Files>),
}
