//! Record of one connection: filled in step by step, handed by `close.rs` to the metrics and the access log.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use handfast_tls::session::Agreed;
use handfast_wire::starttls::Protocol;

use crate::cause::Cause;
use crate::proxied::Proxied;

/// One connection, from accept to close.
#[derive(Clone, Debug)]
pub struct Record {
    /// Wall clock at accept.
    pub accepted_at: SystemTime,
    /// Index of the service in the state, for metrics.
    pub service_index: usize,
    /// The service's name.
    pub service: Rc<str>,
    /// Generation of the configuration it was accepted with.
    pub generation: u64,
    /// Client's address: the socket's, or what a proxy in front reports; `None` on unix sockets.
    pub client: Option<SocketAddr>,
    /// The protocol in which the client requested TLS (STARTTLS).
    pub starttls: Option<Protocol>,
    /// The requested name, already checked to be a valid DNS name.
    pub server_name: Option<Box<str>>,
    /// The rule that decided, and which of its conditions matched; `None`: the service's own settings did.
    pub rule: Option<Rc<str>>,
    /// Details that only some connections have.
    pub details: Option<Box<RecordDetails>>,
    /// Agreed TLS parameters, as far as the handshake came.
    pub tls: Agreed,
    /// Duration of each step.
    pub seconds: StepTimes,
    /// Backend that was dialled last.
    pub backend: Option<Rc<str>>,
    /// Backends that did not answer.
    pub backend_failures: BackendFailures,
    /// Plaintext bytes from client to backend that the backend's socket took.
    pub bytes_to_backend: u64,
    /// Plaintext bytes from backend to client whose records the client's socket took.
    pub bytes_to_client: u64,
    /// HTTP requests that have separate lines.
    pub requests: u64,
    /// Iterations of the relay loop that were woken and moved nothing.
    pub idle_turns: u32,
}

/// Details that only some connections have; boxed, so that the others need no memory for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordDetails {
    /// TLS was passed through.
    pub passed_through: bool,
    /// Its ClientHello had an encrypted one inside (ECH), so that the name is the outer one.
    pub encrypted_hello: bool,
    /// Agreed TLS parameters with the backend, as far as that handshake came.
    pub backend_tls: Option<Agreed>,
    /// From dialling the backend's socket to the end of the handshake with it, of the last one that was tried, of which …
    pub backend_handshake: Duration,
    /// … our own computing.
    pub backend_crypto: Duration,
    /// Facts that a proxy in front reported.
    pub proxied: Option<Proxied>,
    /// The connection's identifier, as sent to the backend in a PROXY header.
    pub unique_id: Option<Box<[u8]>>,
}

/// Backends that did not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendFailures {
    /// The first of them, in the order they were tried.
    pub named: Vec<(Rc<str>, Cause)>,
    /// The number of failed attempts in all.
    pub count: u8,
}

impl BackendFailures {
    /// Backends that are named; a service with hundreds that all fail would fill the log.
    const NAMED: usize = 8;

    /// Another one did not answer.
    #[inline]
    pub fn add(&mut self, name: &Rc<str>, cause: Cause) {
        self.count = self.count.saturating_add(1);
        if self.named.len() < Self::NAMED {
            self.named.push((Rc::clone(name), cause));
        }
    }
}

impl Record {
    /// A client that was accepted just now.
    #[inline]
    pub fn new(
        (service_index, service): (usize, Rc<str>),
        generation: u64,
        client: Option<SocketAddr>,
    ) -> Self {
        Self {
            accepted_at: SystemTime::now(),
            service_index,
            service,
            generation,
            client,
            starttls: None,
            server_name: None,
            rule: None,
            details: None,
            tls: Agreed::default(),
            seconds: StepTimes::default(),
            backend: None,
            backend_failures: BackendFailures::default(),
            bytes_to_backend: 0,
            bytes_to_client: 0,
            requests: 0,
            idle_turns: 0,
        }
    }

    /// The details, to be written.
    #[inline]
    pub fn details(&mut self) -> &mut RecordDetails {
        self.details.get_or_insert_default()
    }

    /// Facts that a proxy in front reported.
    #[inline]
    pub fn proxied(&self) -> Option<&Proxied> {
        self.details.as_ref()?.proxied.as_ref()
    }

    /// The connection's identifier: as sent to the backend, or else as received from a proxy in front.
    #[inline]
    pub fn unique_id(&self) -> Option<&[u8]> {
        let details = self.details.as_ref()?;
        details.unique_id.as_deref().or_else(|| details.proxied.as_ref()?.unique_id.as_deref())
    }
}

/// Duration of each step; zero for steps that were not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Accept to complete ClientHello: waiting for the client.
    pub hello: Duration,
    /// Complete ClientHello to the end of the handshake, of which …
    pub handshake: Duration,
    /// … our own computing, and …
    pub handshake_crypto: Duration,
    /// … waiting for the client's flights.
    pub handshake_wait: Duration,
    /// Choosing and dialling backends.
    pub connect: Duration,
    /// Carrying bytes.
    pub relay: Duration,
    /// From the decision to end until the sockets were closed.
    pub close: Duration,
}
