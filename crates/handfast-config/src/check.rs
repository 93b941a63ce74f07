//! Checks across values: values that contradict each other, or have no effect together.
//!
//! In: values that were read, and their sections, for the places. Out: problems noted in the reading.
//! An error is what cannot work; a warning is what works, but hardly as meant.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use handfast_text::duration;

use super::keys;
use super::kind::is_local;
use super::model::{Address, Limits, Process, Service};
use super::problem::Fault;
use super::reading::Written;
use super::schema::Entry;
use super::table::Table;

mod backends;
mod effects;

pub(crate) use backends::{backends, balance};
pub(crate) use effects::{
    have_addresses, no_effect, no_effect_of_section, of_file, of_service, warn_no_effect,
};

/// The number of addresses of one port that are compared with each other; this bounds the cost.
const MAX_COMPARED_ADDRESSES: usize = 500;

/// `[process]`
pub(crate) fn process(section: &Table<'_>, process: &Process) {
    if process.user.is_none() {
        let fault = Fault::new("a `group` without a `user`: the process would keep its user's rights");
        section.error(&keys::GROUP, fault.hint("add `user`, or remove `group`"));
    }
    if process.user.as_deref() == Some("root") {
        let fault = Fault::new("`root` may do everything, which a proxy need not");
        section.warn(&keys::USER, fault.hint("name a user made for this service"));
    }
}

/// `[limits]` and `[service.limits]`: limits that another limit always reaches first.
pub(crate) fn limits(section: &Table<'_>, limits: &Limits) {
    let pairs: [(&dyn Entry, Duration, &str, Duration); 4] = [
        (&keys::CONNECT, limits.connect, "handshake", limits.handshake),
        (&keys::HALF_CLOSED, limits.half_closed, "idle", limits.idle),
        (&keys::HALF_CLOSED_CLIENT, limits.backend_ended, "half-closed", limits.half_closed),
        (&keys::IDLE, limits.idle, "lifetime", limits.lifetime),
    ];
    for (key, limit, first, first_limit) in pairs {
        if !first_limit.is_zero() && limit > first_limit {
            let (name, value) = (key.name, duration::written(first_limit));
            let what = format!("`{name}` is never reached: `{first}` ends the connection after {value}");
            section.warn(key, Fault::new(what));
        }
    }
    if limits.keepalive.subsec_millis() != 0 {
        section.error(&keys::TCP_KEEPALIVE, Fault::new("the kernel counts this limit in whole seconds"));
    }
}

/// A mode without a unix socket to have it.
pub(crate) fn listen_mode(section: &Table<'_>, mode: Option<u32>, listen: &[Written<Address>]) {
    if mode.is_some() && !listen.iter().any(|address| matches!(address.value, Address::Unix(_))) {
        warn_no_effect(section, &keys::LISTEN_MODE, "no listener is a unix socket");
    }
}

/// Limits of connections that another limit always reaches first.
pub(crate) fn connections(section: &Table<'_>, service: &Service, process: &Process) {
    let below = |limit: Option<usize>, other: Option<usize>| {
        limit.zip(other).is_some_and(|(limit, other)| limit > other)
    };
    if below(service.max_connections, process.max_connections) {
        let what = "`max-connections` is never reached: the whole process has fewer, see [process]";
        section.warn(&keys::SERVICE_CONNECTIONS, Fault::new(what));
    }
    let whole = service.max_connections.or(process.max_connections);
    if below(service.max_connections_per_address, whole) {
        let what = "`max-connections-per-address` is never reached: the whole service has fewer";
        section.warn(&keys::ADDRESS_CONNECTIONS, Fault::new(what));
    }
}

/// Names of services, or of the routes of one, that are used twice.
pub(crate) fn names(sections: &[Table<'_>], key: &dyn Entry, of: &str) {
    let called = |name: &str| Fault::new(format!("two {of} are called `{name}`"));
    once(sections, key, |name| called(name).hint("metrics and logs need different names"));
}

/// Folders that two caches have.
pub(crate) fn cache_folders(services: &[Table<'_>]) {
    let caches: Vec<_> = services.iter().map(|service| service.inner(&keys::CACHE)).collect();
    let kept = |folder: &str| Fault::new(format!("two services keep responses in `{folder}`"));
    once(&caches, &keys::CACHE_FOLDER, |folder| kept(folder).hint("each cache needs a folder for itself"));
}

/// Reports texts that are written twice.
fn once(sections: &[Table<'_>], key: &dyn Entry, fault: impl Fn(&str) -> Fault) {
    let mut known: HashMap<&str, Range<usize>> = HashMap::new();
    for section in sections {
        let Some(item) = section.item(key) else { continue };
        let Some(text) = item.value.as_str() else { continue };
        match known.get(text) {
            Some(first) => {
                let fault = fault(text).see(first.clone(), "the first one");
                section.reading().error(&item.span, fault);
            }
            None => drop(known.insert(text, item.span)),
        }
    }
}

/// Every address that is listened on, over all services.
#[derive(Default)]
pub(crate) struct Listeners {
    by_port: HashMap<u16, Vec<(SocketAddr, Range<usize>)>>,
    by_path: HashMap<std::path::PathBuf, Range<usize>>,
}

impl Listeners {
    pub(crate) fn admin(&mut self, section: &Table<'_>, address: Option<&Address>, has_token: bool) {
        let (Some(address), Some(span)) = (address, section.written(&keys::ADMIN_LISTEN)) else { return };
        if !is_local(address) && !has_token {
            let fault = Fault::new(
                "the admin listener has no authentication, and others than this machine can reach it",
            )
            .hint("use a loopback address or a unix socket, and a tunnel to get there; or set `token-file`");
            section.reading().warning(&span, fault);
        }
        self.add(section, address, &span);
    }

    pub(crate) fn service(&mut self, section: &Table<'_>, listen: &[Written<Address>]) {
        for address in listen {
            self.add(section, &address.value, &address.span);
        }
    }

    fn add(&mut self, section: &Table<'_>, address: &Address, span: &Range<usize>) {
        let twice = |first: &Range<usize>| {
            Fault::new("this address is listened on twice").see(first.clone(), "first here")
        };
        match address {
            Address::Unix(path) => match self.by_path.get(path) {
                Some(first) => section.reading().error(span, twice(first)),
                None => drop(self.by_path.insert(path.clone(), span.clone())),
            },
            // Port 0 is another port each time.
            Address::Ip(address) if address.port() == 0 => {}
            Address::Ip(address) => {
                let others = self.by_port.entry(address.port()).or_default();
                for (other, first) in others.iter().take(MAX_COMPARED_ADDRESSES) {
                    if address == other {
                        section.reading().error(span, twice(first));
                        break;
                    }
                    overlap(section, (address, span), (other, first));
                }
                others.push((*address, span.clone()));
            }
        }
    }
}

/// Reports an address that covers another one. `[::]` takes IPv4 as well.
fn overlap(section: &Table<'_>, new: (&SocketAddr, &Range<usize>), old: (&SocketAddr, &Range<usize>)) {
    let wildcard = |address: &SocketAddr| address.ip().is_unspecified();
    let (wide, narrow) = match (wildcard(new.0), wildcard(old.0)) {
        (true, true) => {
            let fault = Fault::new("`[::]` and `*` take IPv4 too, so `0.0.0.0` would be listened on twice")
                .hint("keep the one of them that you mean");
            return section.reading().error(new.1, fault.see(old.1.clone(), "and here"));
        }
        (true, false) => (new.0, old.0),
        (false, true) => (old.0, new.0),
        (false, false) => return,
    };
    if wide.is_ipv6() || narrow.is_ipv4() {
        let fault = Fault::new(format!(
            "`{wide}` includes `{narrow}`: connections to that one go to the more exact listener"
        ));
        section.reading().warning(new.1, fault.see(old.1.clone(), "and here"));
    }
}

/// The names of all rules of a service so far, to find rules that are never reached.
#[derive(Default)]
pub(crate) struct RuleNames {
    rules: usize,
    first: HashMap<String, (usize, Range<usize>)>,
}

impl RuleNames {
    /// Adds a rule's names. `always`: nothing else is asked of a client, so that no later rule for the name is reached.
    pub(crate) fn rule(&mut self, section: &Table<'_>, names: &[Written<String>], always: bool) {
        self.rules += 1;
        for name in names {
            let earlier = self.first.get(&name.value).filter(|(rule, _)| *rule < self.rules);
            if let Some((_, span)) = earlier {
                let fault =
                    Fault::new(format!("`{}` has a rule already, and the first one is used", name.value));
                section.reading().error(&name.span, fault.see(span.clone(), "first here"));
            }
            if always {
                self.first.entry(name.value.clone()).or_insert((self.rules, name.span.clone()));
            }
        }
    }
}
