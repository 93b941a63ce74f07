//! One address that a thread can dial, and attempts to connect to it.
//!
//! All threads share whether it is up (`standing.rs`): what one of them finds spares the others' clients. Each thread counts its own
//! connections: they are spread evenly over the threads.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::fault::Cause as SocketCause;

use crate::backends::standing::{FailurePolicy, Standing, Trial};
use crate::backends::tunnel::{DialAddress, TunnelDestination, host_of};
use handfast_config::model::{Address, Share};
use handfast_net::clock::Moment;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::BackendMetrics;
use handfast_observe::reason::CloseReason;

/// One address that can be dialled.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: Rc<str>,
    pub(crate) address: Address,
    /// The tunnel destination to request from the proxy at this address; `None`: it is the backend itself.
    pub(crate) destination: Option<TunnelDestination>,
    /// True if a program is started for each connection. It receives the client's address in a PROXY header.
    pub(crate) is_program: bool,
    pub(crate) standing: Arc<Standing>,
    metrics: Arc<BackendMetrics>,
    pub(super) connections: Cell<u32>,
}

impl Endpoint {
    pub(crate) fn new(
        DialAddress { name, address, destination: behind, is_program }: DialAddress,
        standing: Arc<Standing>,
        metrics: Arc<BackendMetrics>,
    ) -> Rc<Self> {
        let (name, connections) = (name.into(), Cell::new(0));
        Rc::new(Self { name, address, destination: behind, is_program, standing, metrics, connections })
    }

    /// The name that its certificate must have, unless the configuration names another one.
    pub(crate) fn host(&self) -> Option<String> {
        host_of(&self.name, &self.address, self.destination.as_ref())
    }
}

/// Next step of a connection.
#[derive(Debug)]
pub(crate) enum Pick {
    Dial(Attempt),
    /// No other is left, and another connection tries it out: wait for the outcome.
    Wait(Rc<Endpoint>),
    /// None is left.
    Nothing,
}

/// An attempt to connect. The trial of a backend that is down ends with it, whatever happens to the connection, its task or its thread.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) endpoint: Rc<Endpoint>,
    pub(super) trial: Option<Trial>,
}

impl Attempt {
    /// An attempt at a backend that was not picked in turn, which is no trial of it.
    pub(crate) fn without_trial(endpoint: &Rc<Endpoint>) -> Self {
        Self { endpoint: Rc::clone(endpoint), trial: None }
    }

    /// It is connected, and counts until the returned value is dropped. `is_good`: nothing is left that the backend may fail at. Else its
    /// failures are forgotten only by [`InUse::record_connected`]: a backend that is reached each time and fails then would never be marked down.
    pub(crate) fn connected(self, after: Duration, is_good: bool) -> InUse {
        let endpoint = Rc::clone(&self.endpoint);
        if is_good {
            endpoint.standing.connected();
        }
        endpoint.metrics.connected(after);
        InUse::new(OpenConnection(endpoint))
    }

    /// A connection to it is there already: nothing was tried.
    pub(crate) fn reused(self, open: OpenConnection) -> InUse {
        InUse::new(open)
    }

    pub(crate) fn failed(self, reason: &CloseReason, policy: FailurePolicy) {
        failed(&self.endpoint, self.trial, reason, policy);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            self.endpoint.standing.give_back(trial);
        }
    }
}

fn failed(endpoint: &Endpoint, trial: Option<Trial>, reason: &CloseReason, policy: FailurePolicy) {
    endpoint.metrics.failed(reason.cause);
    if !is_ours(reason.cause) {
        let standing = &endpoint.standing;
        if let Some(marked) = standing.failed(reason.cause, trial, policy) {
            standing.log_marked_down(reason, marked);
        }
    }
}

/// Returns true if the cause is on this machine, so that the failure does not blame the backend.
pub(crate) fn is_ours(cause: Cause) -> bool {
    use SocketCause::{ForeignAddress, OutOfFiles, OutOfMemory, OutOfPorts};
    matches!(cause, Cause::Socket(OutOfFiles | OutOfPorts | OutOfMemory | ForeignAddress) | Cause::Internal)
}

/// An open connection to an endpoint, counted in its metrics.
#[derive(Debug)]
pub(crate) struct OpenConnection(Rc<Endpoint>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.metrics.disconnected();
    }
}

/// An open connection to an endpoint that serves a client: it counts where backends are chosen by their load.
#[derive(Debug)]
pub(crate) struct InUse {
    /// `None`: other requests share the connection.
    open: Option<OpenConnection>,
    counted: Counted,
}

#[derive(Debug)]
struct Counted(Rc<Endpoint>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

impl InUse {
    fn new(open: OpenConnection) -> Self {
        let shared = Self::shared(&open.0);
        Self { open: Some(open), ..shared }
    }

    /// A request on a connection that it shares with others.
    pub(crate) fn shared(endpoint: &Rc<Endpoint>) -> Self {
        endpoint.connections.set(endpoint.connections.get() + 1);
        Self { open: None, counted: Counted(Rc::clone(endpoint)) }
    }

    /// The connection stays open and serves no client now; `None`: others share it.
    pub(crate) fn into_idle(self) -> Option<OpenConnection> {
        self.open
    }

    pub(crate) fn endpoint(&self) -> &Rc<Endpoint> {
        &self.counted.0
    }

    /// It sent something, this long after the client had.
    pub(crate) fn answered(&self, after: Duration) {
        self.endpoint().metrics.answered(after);
    }

    /// It can serve.
    pub(crate) fn record_connected(&self) {
        self.endpoint().standing.connected();
    }

    /// A request of it ended; `failure`: why it failed. More than `share` of them mark it down.
    pub(crate) fn request_ended(
        &self,
        failure: Option<&CloseReason>,
        share: Share,
        policy: FailurePolicy,
        now: Moment,
    ) {
        let standing = &self.endpoint().standing;
        let marked = standing.request_ended(failure.map(|reason| reason.cause), share, policy, now);
        if let (Some(marked), Some(reason)) = (marked, failure) {
            standing.log_marked_down(reason, marked);
        }
    }

    /// It answered, and failed before it could serve: that counts as if it had not answered.
    pub(crate) fn failed(&self, reason: &CloseReason, policy: FailurePolicy) {
        failed(self.endpoint(), None, reason, policy);
    }
}

#[cfg(test)]
mod tests;
