//! Backends that contradict each other, or of which nothing comes.

use std::time::Duration;

use super::warn_no_effect;
use crate::keys;
use crate::kind::is_local;
use crate::model::{Address, Backend, Balance, Target};
use crate::problem::Fault;
use crate::reading::Written;
use crate::schema::Entry;
use crate::table::Table;

/// The number of backends that are compared with each other; this bounds the cost.
const MAX_COMPARED_BACKENDS: usize = 500;

/// The backends of a service or of a rule; `key` is what they are written under.
pub(crate) fn backends(
    section: &Table<'_>,
    key: &dyn Entry,
    listen: &[Written<Address>],
    backends: &[Written<Backend>],
) {
    own_backend(section, listen, backends);
    for (at, backend) in backends.iter().enumerate().take(MAX_COMPARED_BACKENDS) {
        let is_twin = |other: &&Written<Backend>| {
            other.value.target == backend.value.target && other.value != backend.value
        };
        if let Some(first) = backends[..at].iter().find(is_twin) {
            let fault = Fault::new(format!("{} is written twice", backend.value.target))
                .hint("write it once, with the weight that it is to have");
            section.reading().error(&backend.span, fault.see(first.span.clone(), "first here"));
        }
    }
    if let [alone] = backends
        && alone.value.weight > 1
        && !matches!(alone.value.target, Target::Name(..))
    {
        let fault = Fault::new("`weight` has no effect: there is one backend, which gets everything");
        section.reading().warning(&alone.span, fault);
    }
    if backends.is_empty() {
        return;
    }
    if backends.iter().all(|backend| backend.value.weight == 0) {
        let fault = Fault::new("every backend has weight 0, so no connection could be served");
        section.error(key, fault.hint("give at least one a weight from 1 to 256"));
    } else if backends.iter().all(|backend| backend.value.backup) {
        let fault = Fault::new("every backend is a backup, so `backup` has no effect");
        section.warn(key, fault.hint("remove `backup = true` from those to be used first"));
    }
}

/// Reports settings of balancing that have no effect, because there are too few backends to choose from.
pub(crate) fn balance(
    section: &Table<'_>,
    backends: &[Written<Backend>],
    balance: Balance,
    slow_start: Duration,
) {
    // A name can have several addresses.
    let alone = backends.len() == 1 && !matches!(backends[0].value.target, Target::Name(..));
    let has_rules = [&keys::RULE, &keys::ROUTE].into_iter().any(|inner| section.span_of(inner).is_some());
    if alone && !has_rules && balance != Balance::RoundRobin {
        warn_no_effect(section, &keys::BALANCE, "there is one backend");
    }
    if alone && !has_rules && !slow_start.is_zero() {
        warn_no_effect(section, &keys::SLOW_START, "there is one backend, which gets everything");
    }
}

/// Backends that are the service itself: each connection would open the next one, until something breaks.
fn own_backend(section: &Table<'_>, listen: &[Written<Address>], backends: &[Written<Backend>]) {
    for backend in backends {
        let Target::Address(address) = &backend.value.target else { continue };
        let own = listen.iter().take(MAX_COMPARED_BACKENDS).find(|own| match (&own.value, address) {
            (Address::Ip(own), Address::Ip(backend)) => {
                own == backend
                    || (own.ip().is_unspecified() && own.port() == backend.port() && is_local(address))
            }
            (own, backend) => own == backend,
        });
        if let Some(own) = own {
            let fault = Fault::new("this backend is the service itself: connections would loop forever");
            section.reading().error(&backend.span, fault.see(own.span.clone(), "it listens here"));
        }
    }
}
