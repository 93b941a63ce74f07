//! Admits or refuses a client by its address alone: lists of prefixes, a limit on new handshakes for each prefix, a limit on connections
//! for each address.
//!
//! In: a client's address, before a byte of it is read. Out: the reason why it is refused, if it is; it is reset then. A client of a unix
//! socket has no address and is admitted.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use handfast_net::clock::Moment;
use handfast_net::prefix::{Prefix, PrefixSet};

use handfast_config::model::{self, ProxySender};
use handfast_observe::cause::Cause;
use handfast_observe::metrics::Limit;

pub(crate) mod admin_token;
pub(crate) mod gate;
pub(crate) mod maintenance;
pub(crate) mod permits;
mod rate;
pub(crate) mod sticky;
pub(crate) mod users;
pub(crate) mod verifier;

use rate::{Rate, Table};

/// The clients that a service admits by address; shared by all threads.
#[derive(Debug)]
pub(crate) struct Admission {
    allow: Option<PrefixSet>,
    refuse: PrefixSet,
    rate: Option<HandshakeRate>,
}

/// A limit on new handshakes, and how much of it each prefix has used.
#[derive(Debug)]
struct HandshakeRate {
    model: model::HandshakeRate,
    rate: Rate,
    table: Arc<Table>,
}

/// Reason why a client is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) limit: Limit,
    pub(crate) cause: Cause,
    pub(crate) detail: Option<Box<str>>,
}

impl Admission {
    /// `None` where every client is admitted. `before` passes on what prefixes have used, so that a reload resets no limit.
    pub(crate) fn new(model: &model::Admission, before: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        if model.lets_everybody_in() {
            return None;
        }
        let set = |prefixes: &[Prefix]| prefixes.iter().copied().collect::<PrefixSet>();
        let used = before.and_then(|before| before.rate.as_ref());
        let rate = model.rate.map(|model| HandshakeRate {
            model,
            rate: Rate::new(model.per_second, model.burst),
            table: used.map_or_else(|| Arc::new(Table::new()), |used| Arc::clone(&used.table)),
        });
        let allow = (!model.allow.is_empty()).then(|| set(&model.allow));
        Some(Arc::new(Self { allow, refuse: set(&model.refuse), rate }))
    }

    /// The lists come first: a client that they refuse uses up no rate.
    pub(crate) fn check(&self, address: IpAddr, now: Moment) -> Result<(), Denied> {
        let refused = |limit, cause, detail: String| Denied { limit, cause, detail: Some(detail.into()) };
        if let Some(prefix) = self.refuse.find(address) {
            let detail = format!("refuse-clients has {prefix}");
            return Err(refused(Limit::Prefix, Cause::ClientRefused, detail));
        }
        if self.allow.as_ref().is_some_and(|allow| !allow.contains(address)) {
            let detail = "allow-clients does not have it".to_owned();
            return Err(refused(Limit::Prefix, Cause::ClientRefused, detail));
        }
        let Some(HandshakeRate { model, rate, table }) = &self.rate else { return Ok(()) };
        let prefix = model.prefix_of(address);
        if table.take(prefix, *rate, now).is_ok() {
            return Ok(());
        }
        let model::HandshakeRate { per_second, burst, .. } = model;
        let detail = format!("{prefix} had used its {per_second} a second and {burst} at once");
        Err(refused(Limit::Rate, Cause::HandshakeRate, detail))
    }
}

/// The proxies that must send a PROXY header (`accept-from`).
#[derive(Debug, Default)]
pub(crate) struct TrustedSenders {
    prefixes: PrefixSet,
    unix: bool,
}

impl TrustedSenders {
    /// `None` where no proxy must.
    pub(crate) fn new(listed: &[ProxySender]) -> Option<Self> {
        let prefix = |sender: &ProxySender| match sender {
            ProxySender::Prefix(prefix) => Some(*prefix),
            ProxySender::Unix => None,
        };
        let prefixes = listed.iter().filter_map(prefix).collect();
        (!listed.is_empty()).then(|| Self { prefixes, unix: listed.contains(&ProxySender::Unix) })
    }

    /// Returns true if a connection from this address must begin with a PROXY header. `None`: it comes from a unix socket.
    pub(crate) fn has(&self, peer: Option<SocketAddr>) -> bool {
        peer.map_or(self.unix, |peer| self.prefixes.contains(peer.ip()))
    }
}

#[cfg(test)]
mod tests;
