//! State that all requests of a client's connection share.

use std::cell::{Cell, RefCell, RefMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_http::http1::{CanonicalHost, Host};
use handfast_net::clock::Moment;
use handfast_observe::reason::{CloseReason, Step};
use handfast_observe::request_record::{ConnectionFacts, RequestRecord};
use handfast_pki::ShownCertificate;
use handfast_pki::names::Names;
use handfast_tls::buffer::Scratch;

use crate::backends::pool::{self, Identity};
use crate::requests::decide::client_certificate::ClientChain;
use crate::requests::head::content::Io;
use crate::worker::context::{HttpBuffers, WorkerContext, WorkerPhase};
use crate::worker::open::OpenConnection;
use crate::worker::request_routes::{ThreadHttp, ThreadServers};
use crate::worker::services::{Chosen, ThreadService};
use crate::worker::waiting_client::check_phase;

/// Time that a client without requests has to end its connection, or to send its last request, where no other process serves it next.
pub(crate) const GOODBYE: Duration = Duration::from_secs(5);

/// State that all requests of a connection share.
#[derive(Clone, Debug)]
pub(crate) struct HttpConnection {
    pub(crate) thread: Rc<WorkerContext>,
    pub(crate) service: Rc<ThreadService>,
    pub(crate) http: Rc<ThreadHttp>,
    /// The route of requests that no other route takes.
    pub(crate) chosen: Chosen,
    pub(crate) facts: Rc<ConnectionFacts>,
    /// The client's address as text, for its backends; `None`: a unix socket.
    pub(crate) client_address: Option<Rc<str>>,
    /// The client's certificate, if it was verified and a route may send data of it.
    pub(crate) client_certificate: Option<Rc<ShownCertificate>>,
    /// The same certificate with those that came with it, if a route asks what it contains or forwards it.
    pub(crate) client_chain: Rc<ClientChain>,
    /// True if the client is a proxy that names its own clients.
    pub(crate) is_trusted: bool,
    /// Of the certificate that the client has seen.
    pub(crate) names: Option<Arc<Names>>,
    /// True if TLS has agreed on HTTP/2.
    pub(crate) is_http2: bool,
    /// The PROXY header for its backends, whose connections serve no other client then; empty: none.
    pub(crate) proxy_header: Vec<u8>,
    /// The rest of that header beside addresses, where a route has a cache.
    pub(crate) proxy_facts: Rc<[u8]>,
    pub(crate) accepted: Moment,
    /// A backend's connection that only this client may use: it has authenticated there by NTLM or Negotiate, which is about the connection.
    pub(crate) tied: Rc<RefCell<Option<TiedConnection>>>,
    pub(crate) totals: Rc<Totals>,
}

/// A client's address as its backends receive it.
pub(crate) fn client_address(client: Option<SocketAddr>) -> Option<Rc<str>> {
    client.map(|client| client.ip().to_canonical().to_string().into())
}

/// Totals of the requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Those that have a line in the log.
    pub(crate) requests: Cell<u64>,
    /// Bytes of content that backends got.
    pub(crate) to_backends: Cell<u64>,
    /// Its connection, as others see it.
    open: Option<Rc<OpenConnection>>,
}

impl Totals {
    pub(crate) fn of(open: &Rc<OpenConnection>) -> Self {
        Self { open: Some(Rc::clone(open)), ..Self::default() }
    }

    pub(crate) fn add(&self, record: &RequestRecord) {
        if let Some(open) = &self.open {
            open.requests.set(open.requests.get() + 1);
            open.bytes_to_backend.set(open.bytes_to_backend.get() + record.bytes_from_client);
            open.bytes_to_client.set(open.bytes_to_client.get() + record.bytes_to_client);
        }
        self.requests.set(self.requests.get() + 1);
        self.to_backends.set(self.to_backends.get() + record.bytes_from_client);
    }
}

/// Identity and connection, whose type depends on the runtime.
pub(crate) type TiedConnection = (Identity, Box<dyn pool::Connection>);

/// The thread's buffers, lent until the next wait.
pub(crate) struct Lent<'a> {
    scratch: RefMut<'a, Scratch>,
    buffers: RefMut<'a, HttpBuffers>,
}

impl Lent<'_> {
    pub(crate) fn io(&mut self) -> Io<'_> {
        Io { scratch: &mut self.scratch, buffers: &mut self.buffers }
    }
}

impl HttpConnection {
    /// Returns the connection for requests of the proxy's own, without what belongs to the client alone.
    pub(crate) fn for_own_requests(&self) -> Self {
        Self { tied: Rc::default(), totals: Rc::default(), ..self.clone() }
    }

    /// Returns the connection for requests of the proxy's own to these servers.
    pub(crate) fn towards(&self, servers: &ThreadServers) -> Self {
        Self {
            http: Rc::clone(&servers.http),
            chosen: Chosen { route: servers.index, failed: false },
            proxy_header: Vec::new(),
            ..self.for_own_requests()
        }
    }

    pub(crate) fn lend(&self) -> Lent<'_> {
        let mut buffers = self.thread.buffers.borrow_mut();
        // Bytes of an exchange that failed must not be sent on another connection.
        buffers.out.clear();
        Lent { scratch: self.thread.scratch.borrow_mut(), buffers }
    }

    /// **Errors**: the program is ending.
    pub(crate) fn check_phase(&self, step: Step) -> Result<(), CloseReason> {
        check_phase(&self.thread, step)
    }

    /// Returns true if no further request is served on its connection: the program stops, the service is gone, or the connection is too
    /// old.
    pub(crate) fn closes(&self, now: Moment) -> bool {
        let age = self.accepted.deadline(self.service.model.limits.lifetime);
        self.thread.phase() != WorkerPhase::Serving || !self.thread.has_service(&self.service) || now >= age
    }

    /// Time for which a connection between two requests is still served once [`closes`](Self::closes) is true. Its next request may be on its
    /// way, and a client does not send a POST again when the connection ends (RFC 9112 §9.3.1): only a response that announces the end loses
    /// nothing. The last tenth of the drain is for requests that come at the end of this time.
    pub(crate) fn idle_grace(&self) -> Duration {
        let drain = self.thread.state().shared.config.process.drain * 9 / 10;
        let waits_in_vain = !self.thread.is_replaced() && self.thread.has_service(&self.service);
        if waits_in_vain { drain.min(GOODBYE) } else { drain }
    }

    /// Returns true if connections to its backends may serve other clients.
    pub(crate) fn pools(&self) -> bool {
        self.proxy_header.is_empty() && self.http.model.pool.connections > 0
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.facts.tls_version.is_some() { "https" } else { "http" }
    }

    /// Returns why its connection is not for requests to this host (RFC 9110 §15.5.20); the only place that compares names of TLS with hosts. TLS
    /// was agreed on for the name that the client sent: another one may have another policy, demand a certificate, or have one that this client
    /// has not seen. A client without a name in TLS must meet the demands of every rule that the host matches.
    pub(crate) fn misdirection(&self, host: &Host<'_>) -> Option<String> {
        // A request for no host is served by the settings that were agreed on, and no rule for a host applies to it.
        if !self.service.ends_tls(self.chosen) || host.is_none() {
            return None;
        }
        let name = self.facts.server_name.as_deref();
        if name.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(host.name)) {
            return None;
        }
        let Some(host) = host.canonical() else { return Some("the host is longer than a name".to_owned()) };
        let canonical = name.and_then(|name| CanonicalHost::new(name.as_bytes()));
        if canonical.is_some_and(|name| *name == *host) {
            return None;
        }
        if let Some(name) = name
            && !self.names.as_ref().is_some_and(|names| names.covers(&host))
        {
            return Some(format!("TLS is for {name}, and its certificate does not cover {}", &*host));
        }
        let is_alike = self.service.is_served_alike(self.chosen, &host, name.is_some());
        let agreed = name.map_or("TLS is for no name".to_owned(), |name| format!("TLS is for {name}"));
        (!is_alike).then(|| format!("{agreed}, and {} has other settings", &*host))
    }
}
