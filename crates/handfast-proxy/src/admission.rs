//! Whether a client may come in, by its address alone: lists of prefixes, a limit on new handshakes for each prefix, a limit
//! on connections for each address.
//!
//! In: a client's address, before a byte of it is read. Out: leave to go on, or the reason why it is refused; what is refused
//! here is reset. A client of a unix socket has no address and passes.
//!
//! The address is the one in the connection's record: the socket's, or the one that a proxy in front of this one has named.
//! So [`admit`] is called once, as soon as that is known: at accept, or after the header that names it.

use std::net::IpAddr;
use std::sync::Arc;

use handfast_net::clock::Moment;
use handfast_net::prefix::{Prefix, PrefixSet};

use crate::account::Account;
use crate::cause::Cause;
use crate::config::model;
use crate::metrics::Limit;
use crate::reason::{CloseReason, Side, Step};

mod rate;

use rate::{Rate, Table};

/// Whom a service lets in by address; shared by all threads.
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

/// Lets the client of a connection in, or says why not; counted.
///
/// **Cost**: nothing where the service has no such rule; else two searches in sorted lists, and one exchange in a table that
/// all threads share; a lock of a table where `max-connections-per-address` is set.
pub(crate) fn admit(account: &mut Account, now: Moment) -> Result<(), CloseReason> {
    let Some(client) = account.record.client else { return Ok(()) };
    let address = client.ip().to_canonical();
    let checked = match &account.service.admission {
        Some(admission) => admission.check(address, now),
        None => Ok(()),
    };
    let refused = match (checked, &account.service.address_limit) {
        (Err(refused), _) => refused,
        (Ok(()), None) => return Ok(()),
        (Ok(()), Some(limit)) => match limit.take(address) {
            Some(permit) => {
                account.address_permit = Some(permit);
                return Ok(());
            }
            None => Refused { limit: Limit::Address, cause: Cause::AddressLimit, detail: None },
        },
    };
    account.service.metrics.refused(refused.limit);
    Err(CloseReason {
        detail: refused.detail,
        ..CloseReason::new(Step::Accept, Side::Operator, refused.cause)
    })
}

/// Why a client is refused.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    limit: Limit,
    cause: Cause,
    detail: Option<Box<str>>,
}

impl Admission {
    /// What a service's configuration says; `None` where it lets everybody in. `before` lends what prefixes have used, so
    /// that a reload lets nobody off.
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

    /// The lists come first: who is refused by them uses up nobody's rate.
    fn check(&self, address: IpAddr, now: Moment) -> Result<(), Refused> {
        let refused = |limit, cause, detail: String| Refused { limit, cause, detail: Some(detail.into()) };
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
        if table.take(prefix, *rate, now) {
            return Ok(());
        }
        let model::HandshakeRate { per_second, burst, .. } = model;
        let detail = format!("{prefix} had used its {per_second} a second and {burst} at once");
        Err(refused(Limit::Rate, Cause::HandshakeRate, detail))
    }
}

#[cfg(test)]
mod tests;
