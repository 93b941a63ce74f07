//! The backends of a route as one thread sees them: which there are, which are up, which is next.
//!
//! In: targets and what their names resolve to. Out: the order in which a connection tries them.
//!
//! Whether a backend is up is known by all threads together (`standing.rs`): what one of them finds out spares the
//! others' clients. Connections are counted by each thread for itself: they are spread evenly over the threads.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::fault::Cause as SocketCause;

use crate::cause::Cause;
use crate::config::model::Address;
use crate::metrics::BackendMetrics;
use crate::reason::CloseReason;
use crate::standing::{Patience, Standing, Trial};

mod balance;
mod group;

pub(crate) use group::Group;

/// One address that can be dialled.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: Rc<str>,
    pub(crate) address: Address,
    pub(crate) standing: Arc<Standing>,
    metrics: Arc<BackendMetrics>,
    connections: Cell<u32>,
}

impl Endpoint {
    pub(crate) fn new(
        name: &str,
        address: Address,
        standing: Arc<Standing>,
        metrics: Arc<BackendMetrics>,
    ) -> Rc<Self> {
        Rc::new(Self { name: name.into(), address, standing, metrics, connections: Cell::new(0) })
    }

    /// What its certificate must be for, as long as nobody says otherwise.
    pub(crate) fn host(&self) -> Option<String> {
        host_of(&self.name, &self.address)
    }
}

/// What the certificate of an endpoint with this name and address must be for, as long as nobody says otherwise: the name
/// that it was found under, or its IP address. `None` for a unix socket.
pub(crate) fn host_of(name: &str, address: &Address) -> Option<String> {
    match (address, name.split_once('=')) {
        (Address::Unix(_), _) => None,
        // As `stands_for` writes what a name resolved to.
        (Address::Ip(_), Some((found_under, _))) => Some(found_under.to_owned()),
        (Address::Ip(address), None) => Some(address.ip().to_string()),
    }
}

/// What a connection is to do next.
#[derive(Debug)]
pub(crate) enum Pick {
    /// Dial this one.
    Dial(Attempt),
    /// There is only this one left, and another connection tries it out: wait for what comes of that.
    Wait(Rc<Endpoint>),
    /// There is none left.
    Nothing,
}

/// An attempt to connect. The trial of a backend that is down ends with it, whatever becomes of the connection, its task
/// or its thread.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) endpoint: Rc<Endpoint>,
    trial: Option<Trial>,
}

impl Attempt {
    /// A connection stands; it counts until the returned value is dropped.
    pub(crate) fn connected(self, after: Duration) -> InUse {
        let endpoint = Rc::clone(&self.endpoint);
        endpoint.standing.connected();
        endpoint.connections.set(endpoint.connections.get() + 1);
        endpoint.metrics.connected(after);
        InUse(endpoint)
    }

    /// Dialling failed, or the handshake with it.
    pub(crate) fn failed(self, reason: &CloseReason, patience: Patience) {
        self.endpoint.metrics.failed(reason.cause);
        if !is_ours(reason.cause) {
            let standing = &self.endpoint.standing;
            if let Some(marked) = standing.failed(reason.cause, self.trial, patience) {
                standing.say_down(reason, marked);
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            self.endpoint.standing.give_back(trial);
        }
    }
}

/// Whether it is this machine that cannot dial, which says nothing about the backend.
pub(crate) fn is_ours(cause: Cause) -> bool {
    use SocketCause::{ForeignAddress, OutOfFiles, OutOfMemory, OutOfPorts};
    matches!(cause, Cause::Socket(OutOfFiles | OutOfPorts | OutOfMemory | ForeignAddress) | Cause::Internal)
}

/// A standing connection to an endpoint.
#[derive(Debug)]
pub(crate) struct InUse(Rc<Endpoint>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        self.0.metrics.disconnected();
    }
}

#[cfg(test)]
mod tests;
